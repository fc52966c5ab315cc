//! One revision to build: the inputs that all revisions of a plan share, and its own.

use crate::wrapper;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use cargo_platform::Cfg;

use crate::cargo::configuration::{self, CargoConfig, Includes};
use crate::cargo::lockfile::Lockfile;
use crate::cargo::toolchain::Toolchain;
use crate::checkout::cache::Cache;
use crate::git::repository::Repository;
use crate::inject::overlay::OverlayFile;
use crate::inject::patch::Patch;
use crate::known_files::KnownFiles;
use crate::provenance::Provenance;
use crate::provided_side::ProvidedSide;
use crate::selected_targets::{self, RevisionTexts};
use crate::store::{self, Stored};
use crate::trace::instrument::Patterns;
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_plan::clean_env::{Child, own_variables};
use memprof_plan::request::{BuildOptions, OverlayMode};
use memprof_plan::resolved::{Plan, Revision};
use memprof_plan::side;
use memprof_support::event::{Event, Sink};
use memprof_support::user_error::UserError;

/// The inputs that all revisions of a plan share.
pub struct Inputs<'a> {
    pub plan: &'a Plan,
    /// A revision that is not built, behind those of the plan.
    pub(crate) kept: Option<&'a Revision>,
    /// The user's repository.
    pub repository: &'a Repository,
    /// The folder in the cache.
    pub cache: &'a Cache,
    /// The root of the checkout.
    pub checkout: Utf8PathBuf,
    pub overlay: Vec<OverlayFile>,
    /// The patches for every revision.
    pub patches: Vec<Patch>,
    /// Test files of other revisions that are put into single revisions, by their index.
    pub added_tests: BTreeMap<usize, Vec<OverlayFile>>,
    /// What revisions with other dependencies are built with, by their index.
    pub sides: BTreeMap<usize, ProvidedSide>,
    /// The folders of the builds that this session found or made, in the store.
    pub used_builds: Vec<Utf8PathBuf>,
    /// The hashes of files that were read before.
    pub(crate) known_files: KnownFiles,
    /// The hashes of the programs and libraries that tests need, as this session has read them.
    pub(crate) placed: KnownFiles,
    /// Which functions to trace.
    pub patterns: Patterns,
    /// Where events go.
    pub sink: &'a dyn Sink,
    /// Set by Ctrl-C.
    pub interrupt: &'a AtomicBool,
}

/// One revision to build.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The inputs that it shares with the other revisions.
    pub inputs: &'a Inputs<'a>,
    /// The index in the plan.
    pub index: usize,
    /// The toolchain that compiles it.
    pub toolchain: &'a Toolchain,
    /// The lock file for revisions without a committed one.
    pub lockfile: &'a Lockfile,
}

impl Inputs<'_> {
    /// Looks for the build with this key, and checks all its files.
    pub(crate) fn intact(&self, key: &str) -> Stored {
        store::find_intact(&self.cache.store(), key, &self.known_files)
    }

    /// Returns a revision of the plan, or the one behind them.
    pub(crate) fn revision(&self, index: usize) -> &Revision {
        self.kept
            .filter(|_| index == self.plan.revisions.len())
            .unwrap_or_else(|| &self.plan.revisions[index])
    }

    /// Returns the folder of the workspace in the checkout.
    pub fn workspace(&self) -> Utf8PathBuf {
        self.checkout.join(&self.plan.workspace)
    }

    /// Returns the configuration files above the user's repository, the outermost first: with `--config`, the last
    /// one wins. By itself, cargo looks above the checkout, and in its home.
    fn configuration_above(&self) -> impl Iterator<Item = String> {
        let above = self.repository.root().ancestors().skip(1);
        let outside = above.filter(|folder| !self.checkout.starts_with(folder)).collect::<Vec<_>>();
        let home = configuration::home().and_then(|home| home.canonicalize().ok());
        let folders = outside.into_iter().rev().map(|folder| folder.join(".cargo"));
        let others = folders.filter(move |folder| folder.as_std_path().canonicalize().ok() != home);
        let files = others.map(|folder| folder.join("config.toml")).filter(|file| file.exists());
        files.map(Utf8PathBuf::into_string)
    }

    /// Returns the folders of the checkout, of the cache and of git, whose files change with what is checked out.
    pub(crate) fn own_folders(&self) -> [&Utf8Path; 3] {
        [&self.checkout, self.cache.folder(), self.repository.common_directory()]
    }

    /// Returns the overlay's files of a mode.
    pub fn overlay_of(&self, mode: OverlayMode) -> Vec<OverlayFile> {
        self.overlay.iter().filter(|file| file.mode == mode).cloned().collect()
    }

    /// Returns the folder of the crate for external overlays.
    pub(crate) fn external_folder(&self) -> Utf8PathBuf {
        self.cache.folder().join("external")
    }

    /// Whether the user pressed Ctrl-C.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Emits a warning.
    pub fn warn(&self, message: String, help: Option<&str>) {
        self.sink.emit(Event::Warning { message, help: help.map(str::to_owned) });
    }
}

impl<'a> Job<'a> {
    /// Returns the revision.
    pub fn revision(&self) -> &Revision {
        &self.inputs.plan.revisions[self.index]
    }

    /// Returns the overlay's files and the test files that this revision gets from others.
    pub fn overlay(&self) -> Vec<OverlayFile> {
        let added = self.inputs.added_tests.get(&self.index).into_iter().flatten();
        self.inputs.overlay.iter().chain(added).cloned().collect()
    }

    /// Returns the integration tests to build, if no other target can contain a selected test.
    pub fn only_tests(&self) -> Option<BTreeSet<String>> {
        if !self.wants_tests() {
            return None;
        }
        let overlay = self.overlay();
        let (repository, patches) = (self.inputs.repository, &self.inputs.patches);
        let request = &self.inputs.plan.request;
        let texts = RevisionTexts::new(repository, self.revision(), &overlay, patches);
        selected_targets::only_tests(&texts.without(&request.settings.sparse_exclude), request)
    }

    /// Whether tests are wanted, and not programs alone.
    pub(crate) fn wants_tests(&self) -> bool {
        self.inputs.plan.request.tests.iter().any(|entry| entry.program.is_none())
    }

    /// Returns the checkpoints of the request that this revision gets.
    pub fn checkpoints(&self) -> impl Iterator<Item = &'a CheckpointAt> {
        let revision = &self.inputs.plan.revisions[self.index];
        self.inputs.plan.request.checkpoints_at.iter().filter(move |one| revision.gets(one))
    }

    /// Returns the variables that the user gave for its builds and runs.
    pub(crate) fn requested_environment(&self) -> BTreeMap<String, String> {
        let request = &self.inputs.plan.request;
        let mut environment = request.env.clone();
        environment.extend(request.refs.get(self.index).map(|wanted| wanted.env.clone()).unwrap_or_default());
        environment
    }

    /// Returns the variables that its builds inherit, and those that the user gave.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let clean_env = self.inputs.plan.request.clean_env.as_ref();
        let passes = |name: &str, value: &str| {
            clean_env.is_none_or(|clean_env| clean_env.passes(Child::Build, name, value))
        };
        let inherited = own_variables().filter(|(name, value)| passes(name, value));
        inherited.chain(self.requested_environment()).collect()
    }

    /// Whether all is as it was for a stored build that cargo tracks besides the inputs of its key.
    pub(crate) fn is_current(&self, build: &Provenance) -> bool {
        let outside = build.outside.as_ref();
        outside.is_some_and(|outside| outside.are_current(&self.environment(), &self.inputs.known_files))
    }

    /// Returns the features of all revisions, of this revision and of the tests, each once.
    pub fn features(&self) -> Vec<String> {
        let request = &self.inputs.plan.request;
        let mut features = request.build.features.clone();
        let of_ref = request.refs.get(self.index).map(|wanted| wanted.features.clone()).unwrap_or_default();
        let of_tests = request.tests.iter().flat_map(|test| test.features.clone());
        for feature in of_ref.into_iter().chain(of_tests) {
            if !features.contains(&feature) {
                features.push(feature);
            }
        }
        features
    }

    /// Returns cargo's options: the common ones with those of the ref, what its dependencies need, and the
    /// configuration above the repository.
    pub fn options(&self) -> BuildOptions {
        let request = &self.inputs.plan.request;
        let mut options = side::build_options(request, request.refs.get(self.index));
        options.config.splice(..0, self.inputs.configuration_above());
        options.config.extend(self.side().into_iter().flat_map(|side| side.patches.iter().cloned()));
        options
    }

    /// Whether the linker keeps what each test can reach.
    pub(crate) fn keeps_reached(&self) -> anyhow::Result<bool> {
        if !self.inputs.plan.request.build.settings.affected {
            return Ok(false);
        }
        let target = self.target(&self.config()?)?;
        let triple = target.as_deref().unwrap_or(self.toolchain.host());
        Ok(triple.starts_with("x86_64-") && triple.contains("-linux-"))
    }

    /// Returns the name under which this program wraps the compiler of tests.
    pub(crate) fn wrapper(&self) -> anyhow::Result<&'static str> {
        Ok(if self.keeps_reached()? { wrapper::WRAP_REACHED_NAME } else { wrapper::WRAP_NAME })
    }

    /// Returns what the revision is built with, if it is not its own lock file.
    pub fn side(&self) -> Option<&'a ProvidedSide> {
        self.inputs.sides.get(&self.index)
    }

    /// Returns the lock file to inject; `None` if the revision has committed its own.
    pub(crate) fn injected_lockfile(&self) -> anyhow::Result<Option<Vec<u8>>> {
        if let Some(side) = self.side() {
            return Ok(Some(side.lockfile.clone()));
        }
        self.lockfile.injected(self.inputs.plan, self.index, self.inputs.repository)
    }

    /// Reads cargo's configuration in the checkout.
    pub fn config(&self) -> anyhow::Result<CargoConfig> {
        CargoConfig::read(&self.inputs.workspace(), &self.options().config, Includes::of(self.toolchain))
    }

    /// Returns the target to build for, if the request, the environment, or cargo's configuration
    /// in the checkout sets one.
    pub fn target(&self, config: &CargoConfig) -> Result<Option<String>, UserError> {
        const VARIABLE: &str = "CARGO_BUILD_TARGET";
        if let Some(target) = &self.inputs.plan.request.build.settings.target {
            return Ok(Some(target.clone()));
        }
        let requested = self.requested_environment().remove(VARIABLE);
        let variable = requested.or_else(|| std::env::var(VARIABLE).ok());
        config.build_target(variable, self.toolchain.host())
    }

    /// Returns the compiler's configuration for a target, if a key of cargo's configuration depends on it.
    pub(crate) fn cfgs(
        &self,
        config: &CargoConfig,
        target: Option<&str>,
        key: &str,
    ) -> anyhow::Result<Vec<Cfg>> {
        // Asking the compiler takes as long as some tests.
        if !config.is_conditional(key) {
            return Ok(Vec::new());
        }
        let of_target = target.iter().flat_map(|target| ["--target", target]);
        let printed = self.toolchain.rustc().args(["--print", "cfg"]).args(of_target).run()?;
        Ok(printed.text().lines().filter_map(|line| Cfg::from_str(line).ok()).collect())
    }
}
