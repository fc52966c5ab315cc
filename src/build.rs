//! From a revision to executables in the store: check out, inject, call cargo, prove what it left, copy.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, bail};
use camino::{Utf8Path, Utf8PathBuf};
use cargo_platform::Cfg;

use crate::build_failure::{self, BuildFailure};
use crate::cache::Cache;
use crate::cargo::{self, Messages};
use crate::cargo_config::{self, CargoConfig};
use crate::event::{Event, Sink};
use crate::external::{self, PackageOptions};
use crate::git::Repository;
use crate::harvest::Harvest;
use crate::ingredients::{build_environment, requested_environment, toolchain_file};
use crate::inject::{self, Injection};
use crate::injected_files::InjectedFiles;
use crate::lockfile::{self, Lockfile};
use crate::overlay::{self, OverlayFile};
use crate::own_allocator::{self, OwnAllocators, Refused};
use crate::plan::{Plan, Revision};
use crate::request::OverlayMode;
use crate::run_folder::RunFolder;
use crate::shim::{self, Shim};
use crate::sources::{self, SourceRecords};
use crate::stage::Stage;
use crate::store::{self, Draft, Entry, Ingredients, Provenance};
use crate::toolchain::{Choice, Toolchain};
use crate::worktree::Worktree;
use crate::wrapper;

/// A revision's build.
#[derive(Debug)]
pub enum Build {
    /// Its executables are in the store.
    Done(Box<Entry>),
    /// It has none.
    Failed(BuildFailure),
}

impl Build {
    /// The entry in the store, if there is one.
    pub fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Done(entry) => Some(entry),
            Self::Failed(_) => None,
        }
    }

    /// Why there is none.
    pub fn failure(&self) -> Option<&BuildFailure> {
        match self {
            Self::Done(_) => None,
            Self::Failed(failure) => Some(failure),
        }
    }
}

/// Builds the revisions of a plan in the one checkout, and brings the checkout back to a revision for its tests.
pub struct Builder<'a> {
    plan: &'a Plan,
    repository: &'a Repository,
    cache: &'a Cache,
    folder: &'a RunFolder,
    worktree: Worktree<'a>,
    overlay: Vec<OverlayFile>,
    lockfile: Lockfile,
    toolchains: HashMap<(Choice, Vec<u8>), Toolchain>,
    sink: &'a dyn Sink,
    interrupt: &'a AtomicBool,
    /// The key of the build whose files lie in the checkout.
    current: Option<String>,
}

/// What to do when cargo trusted a time, and the contents say otherwise.
#[derive(Clone, Copy)]
enum Heal {
    /// Give the sources a current time.
    Touch,
    /// Start again without a target folder.
    Start,
    /// Say so.
    Fail,
}

/// What a call of cargo left.
struct Compiled {
    messages: Messages,
    stderr: String,
    success: bool,
    notes: tempfile::TempDir,
}

/// What was laid over a checkout.
struct Laid {
    injection: Injection,
    /// The manifest that cargo is called with.
    manifest: Utf8PathBuf,
    /// Of the workspace; none where the tests are those of a crate outside of it.
    allocators: Option<OwnAllocators>,
}

impl<'a> Builder<'a> {
    /// Opens the checkout, and reads what is laid over every revision.
    pub fn new(
        plan: &'a Plan,
        repository: &'a Repository,
        cache: &'a Cache,
        folder: &'a RunFolder,
        sink: &'a dyn Sink,
        interrupt: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            plan,
            repository,
            cache,
            folder,
            worktree: Worktree::open(cache, repository, &plan.request.sparse_exclude)?,
            overlay: overlay::read(&plan.request.overlay, &plan.overlay_commits, repository)?,
            lockfile: lockfile::choose(plan, repository, &cache.lockfiles(), sink)?,
            toolchains: HashMap::new(),
            sink,
            interrupt,
            current: None,
        })
    }

    /// Finds a revision's build in the store, or makes it. A revision that does not build is an outcome, not an error.
    pub fn build(&mut self, index: usize) -> anyhow::Result<Build> {
        let revision = &self.plan.revisions[index];
        let toolchain = match self.toolchain(index) {
            Ok(toolchain) => toolchain,
            Err(error) => return self.failed(index, BuildFailure::from_error(&error)),
        };
        self.provide_lockfile(&toolchain)?;
        let ingredients = self.ingredients(index, &toolchain)?;
        let key = ingredients.key();
        let kept = store::find(&self.cache.store(), &key);
        if let Some(entry) = kept.filter(|entry| !entry.lacks_libraries()) {
            self.sink.emit(Event::BuildReused { name: revision.name.clone(), commit: revision.short() });
            return Ok(Build::Done(Box::new(entry)));
        }
        self.sink.emit(Event::BuildStarted { name: revision.name.clone(), commit: revision.short() });
        let started = Instant::now();
        match self.make(index, &toolchain, ingredients, &key) {
            Ok(Ok(entry)) => {
                let (name, commit) = (revision.name.clone(), revision.short());
                self.sink.emit(Event::BuildFinished { name, commit, took: started.elapsed() });
                Ok(Build::Done(Box::new(entry)))
            }
            Ok(Err(failure)) => self.failed(index, failure),
            Err(error) if build_failure::concerns_one_revision(&error) => {
                self.failed(index, BuildFailure::from_error(&error))
            }
            Err(error) => Err(error),
        }
    }

    /// The library that the CUDA driver is to load into test processes, or why there is none.
    pub fn injection_library(&mut self) -> Result<Utf8PathBuf, String> {
        let toolchain = self.toolchain(self.plan.baseline).map_err(|error| format!("{error:#}"))?;
        let target = self.plan.request.build.target.as_deref();
        let shim =
            Shim::compiled(&self.cache.shim(), &toolchain, target).map_err(|error| format!("{error:#}"))?;
        shim.injection(&toolchain, target)
    }

    fn failed(&self, index: usize, mut failure: BuildFailure) -> anyhow::Result<Build> {
        let revision = &self.plan.revisions[index];
        let committed = lockfile::is_committed(self.plan, index, self.repository)?;
        let today = !committed && self.plan.request.lockfile.is_none();
        failure.add_hints(revision, today, &self.toolchain_files()?);
        let log = self.folder.build_log(self.plan, index);
        // Cargo may not have come to say anything.
        if !fs_err::metadata(&log).is_ok_and(|log| log.len() > 0) {
            fs_err::create_dir_all(log.parent().context("the log has a folder")?)?;
            fs_err::write(&log, &failure.first_errors)?;
        }
        // Where no ref has what was asked for, that is said once, when all were tried.
        if !failure.of_request {
            self.tell(index, &failure);
        }
        Ok(Build::Failed(failure))
    }

    /// Says that a revision did not build, and why.
    pub fn tell(&self, index: usize, failure: &BuildFailure) {
        let revision = &self.plan.revisions[index];
        self.sink.emit(Event::BuildFailed {
            name: revision.name.clone(),
            commit: revision.short(),
            first_errors: failure.first_errors.clone(),
            log: self.folder.build_log(self.plan, index).to_string(),
            hints: failure.hints.clone(),
        });
    }

    /// The toolchain file of each revision, nearest to the workspace first.
    fn toolchain_files(&self) -> anyhow::Result<Vec<(String, Option<String>)>> {
        let read = |revision: &Revision| {
            let text = toolchain_file(self.repository, &revision.commit, &self.plan.workspace)?;
            Ok((
                revision.name.clone(),
                text.map(|(_, text)| String::from_utf8_lossy(&text).trim().to_owned()),
            ))
        };
        self.plan.revisions.iter().map(read).collect()
    }

    fn toolchain(&mut self, index: usize) -> anyhow::Result<Toolchain> {
        let request = &self.plan.request;
        let revision = &self.plan.revisions[index];
        let wish = request.refs.get(index).and_then(|wanted| wanted.toolchain.as_deref());
        let choice = Choice::from_wish(wish.or(request.build.toolchain.as_deref()));
        let file = match &choice {
            Choice::Pinned(_) => None,
            Choice::OfRevision => toolchain_file(self.repository, &revision.commit, &self.plan.workspace)?,
        };
        let (name, text) = file.unwrap_or_default();
        if let Some(known) = self.toolchains.get(&(choice.clone(), text.clone())) {
            return Ok(known.clone());
        }
        // rustup reads the file from the folder that it is called in; this one spares a checkout.
        let hash = blake3::hash(&text).to_hex();
        let directory = self.cache.folder().join("toolchains").join(&hash[..16]);
        fs_err::create_dir_all(&directory)?;
        if !name.is_empty() {
            fs_err::write(directory.join(&name), &text)?;
        }
        let toolchain = Toolchain::ask(&choice, &directory)?;
        self.toolchains.insert((choice, text), toolchain.clone());
        Ok(toolchain)
    }

    /// Generates the lock file if one is needed and there is none yet.
    fn provide_lockfile(&mut self, toolchain: &Toolchain) -> anyhow::Result<()> {
        if let Lockfile::ToGenerate { kept, date } = &self.lockfile {
            self.current = None;
            self.worktree.check_out(&self.plan.revisions[self.plan.baseline])?;
            let manifest = self.workspace().join("Cargo.toml");
            let offline = self.plan.request.build.offline;
            let text = lockfile::generate(&manifest, kept, date.as_deref(), offline, toolchain)?;
            // An ignored file survives checkouts; this one is given to each revision by injection.
            fs_err::remove_file(manifest.with_file_name("Cargo.lock"))?;
            self.lockfile = Lockfile::Given(text);
        }
        Ok(())
    }

    fn workspace(&self) -> Utf8PathBuf {
        self.worktree.path().join(&self.plan.workspace)
    }

    fn ingredients(&self, index: usize, toolchain: &Toolchain) -> anyhow::Result<Ingredients> {
        let revision = &self.plan.revisions[index];
        let committed = lockfile::is_committed(self.plan, index, self.repository)?;
        let lock = match &self.lockfile {
            Lockfile::Given(text) if !committed => Some(blake3::hash(text).to_hex().to_string()),
            _ => None,
        };
        Ok(Ingredients {
            tree: revision.tree.clone(),
            workspace: self.plan.workspace.clone(),
            lock,
            toolchain: format!("{}\n{}", toolchain.pinned.as_deref().unwrap_or_default(), toolchain.version),
            arguments: self.arguments(index),
            environment: build_environment(self.plan, index),
            configuration: self.outer_configuration(),
            shim: shim::source_hash(),
            overlay: self.overlay_ingredients(index),
            sparse_exclude: self.plan.request.sparse_exclude.clone(),
            checkout: self.worktree.path().to_owned(),
        })
    }

    fn overlay_ingredients(&self, index: usize) -> BTreeMap<String, String> {
        let mut all = overlay::ingredients(&self.overlay);
        if self.has_external_overlay() {
            let (options, _) = PackageOptions::split_off(&self.plan.request.build, self.features(index));
            all.insert("external".to_owned(), format!("{options:?}"));
        }
        for request in &self.plan.request.overlay {
            all.extend(
                request.dependencies.iter().map(|(name, text)| (format!("dependency {name}"), text.clone())),
            );
        }
        all
    }

    fn has_external_overlay(&self) -> bool {
        self.overlay.iter().any(|file| file.mode == OverlayMode::External)
    }

    /// Those of all revisions, of this one and of the tests, each once.
    fn features(&self, index: usize) -> Vec<String> {
        let request = &self.plan.request;
        let mut features = request.build.features.clone();
        let of_ref = request.refs.get(index).map(|wanted| wanted.features.clone()).unwrap_or_default();
        let of_tests = request.tests.iter().flat_map(|test| test.features.clone());
        for feature in of_ref.into_iter().chain(of_tests) {
            if !features.contains(&feature) {
                features.push(feature);
            }
        }
        features
    }

    fn arguments(&self, index: usize) -> Vec<String> {
        let request = &self.plan.request;
        let features = self.features(index);
        let mut arguments = if self.has_external_overlay() {
            // The package is a dependency there, and what is about it goes into the crate's manifest.
            let (_, rest) = PackageOptions::split_off(&request.build, features);
            cargo::test_argv(&rest, &[], &self.cache.target())
        } else {
            cargo::test_argv(&request.build, &features, &self.cache.target())
        };
        // Configuration above the user's repository is not above our checkout.
        let above = self.repository.root().parent().into_iter().flat_map(Utf8Path::ancestors);
        for folder in above.filter(|folder| !self.worktree.path().starts_with(folder)) {
            let file = folder.join(".cargo/config.toml");
            if file.exists() {
                arguments.extend(["--config".to_owned(), file.to_string()]);
            }
        }
        arguments
    }

    /// A hash of the configuration files that are not the revision's own.
    fn outer_configuration(&self) -> String {
        let mut folders: Vec<PathBuf> =
            self.worktree.path().ancestors().skip(1).map(|f| f.join(".cargo").into()).collect();
        folders.extend(self.repository.root().ancestors().skip(1).map(|folder| folder.join(".cargo").into()));
        folders.extend(cargo_config::home());
        let mut hasher = blake3::Hasher::new();
        for setting in &self.plan.request.build.config {
            if let Ok(text) = fs_err::read(setting) {
                hasher.update(setting.as_bytes()).update(&text);
            }
        }
        for folder in folders {
            for name in ["config.toml", "config"] {
                if let Ok(text) = fs_err::read(folder.join(name)) {
                    hasher.update(folder.as_os_str().as_encoded_bytes()).update(&text);
                }
            }
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }

    /// Checks the revision out and lays over it what its build needs. Files refused keep their global allocators as they are.
    fn lay_out(&mut self, index: usize, toolchain: &Toolchain, refused: &Refused) -> anyhow::Result<Laid> {
        let revision = &self.plan.revisions[index];
        self.current = None;
        self.worktree.check_out(revision)?;
        let checkout = self.worktree.path().to_owned();
        let mut injected = InjectedFiles::load(&self.cache.injected())?;
        let inside: Vec<OverlayFile> =
            self.overlay.iter().filter(|file| file.mode == OverlayMode::Package).cloned().collect();
        let mut injection =
            inject::lay_overlay(&inside, &checkout, &self.plan.workspace, toolchain, &mut injected)?;
        if let Lockfile::Given(text) = &self.lockfile
            && !lockfile::is_committed(self.plan, index, self.repository)?
        {
            let path = self.plan.workspace.join("Cargo.lock");
            injected.write(&checkout, &path, text)?;
            injection.insert(path, text.clone());
        }
        let manifest = self.workspace().join("Cargo.toml");
        let outside: Vec<OverlayFile> =
            self.overlay.iter().filter(|file| file.mode == OverlayMode::External).cloned().collect();
        if outside.is_empty() {
            let metadata = inject::metadata(toolchain, &manifest)?;
            let allocators = own_allocator::find(&metadata, &checkout, refused)?;
            injection.extend(allocators.write(&checkout, &mut injected)?);
            injection.extend(inject::append_lines(&metadata, &checkout, &mut injected)?);
            injected.save()?;
            return Ok(Laid { injection, manifest, allocators: Some(allocators) });
        }
        injected.save()?;
        let place = external::Place {
            folder: self.cache.folder().join("external"),
            record: self.cache.folder().join("external.json"),
            checkout: &checkout,
            workspace: &self.plan.workspace,
        };
        let (options, _) = PackageOptions::split_off(&self.plan.request.build, self.features(index));
        let laid = external::lay_out(&place, &self.plan.request.overlay, &outside, &options, toolchain)?;
        for message in laid.not_carried {
            self.sink.emit(Event::Warning { message, help: None });
        }
        // Of the workspace's members nothing is compiled through the wrapper then, and the shim does not reach them.
        Ok(Laid { injection, manifest: laid.manifest, allocators: None })
    }

    fn make(
        &mut self,
        index: usize,
        toolchain: &Toolchain,
        ingredients: Ingredients,
        key: &str,
    ) -> anyhow::Result<Result<Entry, BuildFailure>> {
        let log = self.folder.build_log(self.plan, index);
        fs_err::create_dir_all(log.parent().context("the log has a folder")?)?;
        let mut log = fs_err::File::create(log)?;
        let mut heal = Heal::Touch;
        let mut refused = Refused::new();
        let records_path = self.cache.folder().join("sources.json");
        loop {
            let Laid { injection, manifest, allocators } = self.lay_out(index, toolchain, &refused)?;
            let compiled = self.compile(index, toolchain, &ingredients, &manifest, &mut log)?;
            if !compiled.success {
                let errors: Vec<_> = compiled.messages.errors.iter().map(|error| &error.message).collect();
                let suspects = allocators
                    .map(|allocators| allocators.suspects(&errors, &self.workspace(), &refused))
                    .unwrap_or_default();
                if !suspects.is_empty() {
                    let files: Vec<&str> = suspects.keys().map(|file| file.as_str()).collect();
                    writeln!(log, "# once more, with the global allocator of {} as it is", files.join(", "))?;
                    refused.extend(suspects);
                    continue;
                }
                return Ok(Err(BuildFailure::from_compiler(&compiled.messages, &compiled.stderr)));
            }
            let mut records = SourceRecords::load(&records_path);
            let workspace = manifest.parent().unwrap_or(&manifest).to_owned();
            let check = records.check(&compiled.messages.artifacts, &workspace, self.worktree.path())?;
            records.save(&records_path)?;
            if !check.stale.is_empty() {
                heal = match heal {
                    Heal::Touch => {
                        sources::touch(&check.stale)?;
                        fs_err::remove_file(self.cache.injected())?;
                        Heal::Start
                    }
                    Heal::Start => {
                        fs_err::remove_dir_all(self.cache.target())?;
                        Heal::Fail
                    }
                    Heal::Fail => {
                        bail!("cargo calls {:?} fresh, but compiled it from other sources", check.stale)
                    }
                };
                continue;
            }
            let draft = Draft::new(&self.cache.store(), key)?;
            for (path, content) in &injection {
                draft.add_injected(path, content)?;
            }
            let runner = self.runner(toolchain)?;
            let target = self.cache.target();
            let harvest = Harvest {
                draft: &draft,
                messages: &compiled.messages,
                notes: compiled.notes.path(),
                target: &target,
                allocators: allocators.as_ref(),
                sink: self.sink,
            };
            let executables = harvest.executables(&runner, key)?;
            let companions = harvest.companions(&executables)?;
            let lock = fs_err::read(workspace.join("Cargo.lock")).ok();
            let provenance = Provenance {
                version: store::VERSION,
                key: key.to_owned(),
                commit: self.plan.revisions[index].commit.clone(),
                ingredients,
                lock: lock.map(|text| blake3::hash(&text).to_hex().to_string()),
                sources: check.digest,
                executables,
                companions,
                injected: injection.into_keys().collect(),
                runner,
            };
            self.current = Some(key.to_owned());
            for (file, reason) in &refused {
                let name = &self.plan.revisions[index].name;
                let message = format!("the #[global_allocator] in {file} of {name} {reason}");
                let help = Some("tests with it have no heap metrics; all others do".to_owned());
                self.sink.emit(Event::Warning { message, help });
            }
            return Ok(Ok(draft.finish(provenance)?));
        }
    }

    /// Calls cargo: it builds, and runs each test executable through the runner that notes.
    fn compile(
        &self,
        index: usize,
        toolchain: &Toolchain,
        ingredients: &Ingredients,
        manifest: &Utf8Path,
        log: &mut fs_err::File,
    ) -> anyhow::Result<Compiled> {
        let target = self.plan.request.build.target.as_deref();
        let shim = Shim::compiled(&self.cache.shim(), toolchain, target)?;
        let links = self.wrapper_links()?;
        let config = CargoConfig::read(&self.workspace(), &self.plan.request.build.config)?;
        let wrapping = shim.wrapping(config.workspace_wrapper());
        let notes = tempfile::tempdir()?;
        let triple = target.unwrap_or(toolchain.host());
        let revision = &self.plan.revisions[index];
        let command = toolchain
            .cargo()
            .current_dir(self.workspace())
            .args(cargo_config::with_runner(&ingredients.arguments, triple, &links.join(wrapper::NOTE_NAME))?)
            .arg("--manifest-path")
            .arg(manifest)
            .envs(requested_environment(self.plan, index))
            .env("RUSTC_WORKSPACE_WRAPPER", links.join(wrapper::WRAP_NAME))
            .env(cargo::runner_variable(triple), links.join(wrapper::NOTE_NAME))
            .env(wrapper::SHIM, serde_json::to_string(&wrapping)?)
            .env(wrapper::NOTES, notes.path())
            .env("CARGO_TERM_COLOR", "never");
        let given: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .chain(requested_environment(self.plan, index))
            .chain([("CARGO_TERM_COLOR".to_owned(), "never".to_owned())])
            .collect();
        fs_err::write(notes.path().join(wrapper::GIVEN), serde_json::to_vec(&given)?)?;

        writeln!(log, "$ {command}")?;
        let mut messages = Messages::default();
        let mut compiled = 0;
        let mut stderr = String::new();
        let status = command.stream(
            self.interrupt,
            |line| {
                if let Some(crate_name) = messages.take(line) {
                    compiled += 1;
                    let name = revision.name.clone();
                    self.sink.emit(Event::BuildProgress { name, crate_name, compiled });
                }
            },
            |line| {
                stderr.push_str(&String::from_utf8_lossy(line));
                stderr.push('\n');
            },
        )?;
        log.write_all(stderr.as_bytes())?;
        for error in &messages.errors {
            writeln!(log, "{}", error.message.rendered.as_deref().unwrap_or(&error.message.message))?;
        }
        Ok(Compiled { messages, stderr, success: status.success(), notes })
    }

    /// The folder of the two names under which cargo calls this program. Its path holds the shim's hash, which is how
    /// cargo learns that the shim changed: it fingerprints the wrapper's path, and neither its content nor its environment.
    fn wrapper_links(&self) -> anyhow::Result<Utf8PathBuf> {
        let folder = self.cache.wrapper().join(shim::source_hash());
        fs_err::create_dir_all(&folder)?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        for name in [wrapper::WRAP_NAME, wrapper::NOTE_NAME] {
            let link = folder.join(name);
            if fs_err::read_link(&link).ok().as_ref() != Some(&program) {
                let partial = folder.join(format!("{name}.partial"));
                let _ = fs_err::remove_file(&partial);
                fs_err::os::unix::fs::symlink(&program, &partial)?;
                fs_err::rename(&partial, &link)?;
            }
        }
        Ok(folder)
    }

    fn runner(&self, toolchain: &Toolchain) -> anyhow::Result<Vec<String>> {
        let target = self.plan.request.build.target.as_deref();
        let config = CargoConfig::read(&self.workspace(), &self.plan.request.build.config)?;
        let printed = toolchain
            .rustc()
            .args(["--print", "cfg"])
            .args(target.iter().flat_map(|target| ["--target", target]))
            .run()?;
        let cfgs: Vec<Cfg> = printed.text().lines().filter_map(|line| Cfg::from_str(line).ok()).collect();
        Ok(config.runner(target.unwrap_or(toolchain.host()), &cfgs).unwrap_or_default())
    }
}

impl Stage for Builder<'_> {
    /// Brings the checkout to the state in which a build was made, and its companions to where its tests look for them.
    fn bring_to(&mut self, index: usize, entry: &Entry) -> anyhow::Result<()> {
        if self.current.as_ref() != Some(&entry.provenance.key) {
            self.current = None;
            self.worktree.check_out(&self.plan.revisions[index])?;
            let mut injected = InjectedFiles::load(&self.cache.injected())?;
            for (path, content) in entry.injection()? {
                injected.write(self.worktree.path(), &path, &content)?;
            }
            injected.save()?;
            self.current = Some(entry.provenance.key.clone());
        }
        entry.place_companions()
    }
}
