//! From a revision to executables in the store: lay out, call cargo, again where what it left is not proven, copy.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, bail};
use camino::Utf8PathBuf;
use cargo_platform::Cfg;

use crate::build::adapters;
use crate::build::artifacts::Harvest;
use crate::build::build_key::toolchain_file;
use crate::build::failure::{self, BuildFailure};
use crate::build::freshness::{self, SourceRecords};
use crate::build::prepared_source::{Laid, LeftAlone};
use crate::build::shim::Shim;
use crate::build::store::{self, Draft, Entry, Ingredients, Provenance};
use crate::build::test_tree::Stage;
use crate::cargo::configuration::CargoConfig;
use crate::cargo::lockfile::{self, Lockfile};
use crate::cargo::toolchain::{Choice, Toolchain};
use crate::checkout::cache::Cache;
use crate::checkout::injected_files::InjectedFiles;
use crate::checkout::stamps::Stamps;
use crate::checkout::worktree::Worktree;
use crate::git::repository::Repository;
use crate::inject::overlay::{self, OverlayFile};
use crate::plan::resolved::{Plan, Revision};
use crate::results::run_folder::RunFolder;
use crate::support::event::{Event, Sink};
use crate::trace::instrument::Patterns;

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

/// Of more revisions than this, the toolchain files are not laid side by side.
const MOST_TOOLCHAIN_FILES: usize = 8;

/// Builds the revisions of a plan in the one checkout, and brings the checkout back to a revision for its tests.
pub struct Builder<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) repository: &'a Repository,
    pub(crate) cache: &'a Cache,
    folder: &'a RunFolder,
    pub(crate) worktree: Worktree<'a>,
    pub(crate) overlay: Vec<OverlayFile>,
    pub(crate) lockfile: Lockfile,
    toolchains: HashMap<(Choice, Vec<u8>), Toolchain>,
    pub(crate) sink: &'a dyn Sink,
    pub(crate) interrupt: &'a AtomicBool,
    pub(crate) patterns: Patterns,
    /// What lies in the checkout, where it is as tests expect it.
    pub(crate) current: Option<Current>,
}

/// A build whose files lie in the checkout.
pub(crate) struct Current {
    key: String,
    /// What git said when no test had run there.
    status: Vec<u8>,
    /// What the system said of its files when they were last looked at.
    stamps: Stamps,
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
            patterns: Patterns::of(&plan.request.trace)?,
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
            self.tell_left_out(revision, &entry);
            return Ok(Build::Done(Box::new(entry)));
        }
        self.sink.emit(Event::BuildStarted { name: revision.name.clone(), commit: revision.short() });
        let started = Instant::now();
        match self.make(index, &toolchain, ingredients, &key) {
            Ok(Ok(entry)) => {
                let (name, commit) = (revision.name.clone(), revision.short());
                self.sink.emit(Event::BuildFinished { name, commit, took: started.elapsed() });
                self.tell_left_out(revision, &entry);
                Ok(Build::Done(Box::new(entry)))
            }
            Ok(Err(failure)) => self.failed(index, failure),
            Err(error) if failure::concerns_one_revision(&error) => {
                self.failed(index, BuildFailure::from_error(&error))
            }
            Err(error) => Err(error),
        }
    }

    /// Says which frameworks of a build have no adapter, and why.
    fn tell_left_out(&self, revision: &Revision, entry: &Entry) {
        for reason in &entry.provenance.left_out {
            let message = format!("{}: {reason}", revision.name);
            let help = "tensors of this framework are not named there; all else is measured".to_owned();
            self.sink.emit(Event::Warning { message, help: Some(help) });
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
        if self.plan.revisions.len() > MOST_TOOLCHAIN_FILES {
            // A search over a history: nobody would read the list.
            return Ok(Vec::new());
        }
        let read = |revision: &Revision| {
            let text = toolchain_file(self.repository, &revision.commit, &self.plan.workspace)?;
            Ok((
                revision.name.clone(),
                text.map(|(_, text)| String::from_utf8_lossy(&text).trim().to_owned()),
            ))
        };
        self.plan.revisions.iter().map(read).collect()
    }

    /// The toolchain that builds a revision.
    pub(crate) fn toolchain(&mut self, index: usize) -> anyhow::Result<Toolchain> {
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
    pub(crate) fn provide_lockfile(&mut self, toolchain: &Toolchain) -> anyhow::Result<()> {
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

    /// The workspace in the checkout.
    pub(crate) fn workspace(&self) -> Utf8PathBuf {
        self.worktree.path().join(&self.plan.workspace)
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
        let mut left = LeftAlone::default();
        let records_path = self.cache.folder().join("sources.json");
        loop {
            let mut laid = self.lay_out(index, toolchain, &left)?;
            let compiled = self.compile(index, toolchain, &ingredients, &laid, &mut log)?;
            let interrupted = self.interrupt.load(std::sync::atomic::Ordering::Relaxed);
            if !compiled.success {
                if !interrupted
                    && left.suspect(
                        &mut laid,
                        &compiled.messages.errors,
                        &self.workspace(),
                        self.worktree.path(),
                        &mut log,
                    )?
                {
                    continue;
                }
                let mut failure = BuildFailure::from_compiler(&compiled.messages, &compiled.stderr);
                failure.hints.extend(adapters::hint(&failure.first_errors, &compiled.messages.kept));
                return Ok(Err(failure));
            }
            let Laid { injection, manifest, allocators, tracing, .. } = laid;
            let mut records = SourceRecords::load(&records_path);
            let workspace = manifest.parent().unwrap_or(&manifest).to_owned();
            let check = records.check(&compiled.messages.artifacts, &workspace, self.worktree.path())?;
            records.save(&records_path)?;
            if !check.stale.is_empty() {
                heal = match heal {
                    Heal::Touch => {
                        freshness::touch(&check.stale)?;
                        fs_err::remove_file(self.cache.injected())?;
                        Heal::Start
                    }
                    Heal::Start => {
                        fs_err::remove_dir_all(self.target(index)?)?;
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
            let runner = self.runner(index, toolchain)?;
            let target = self.target(index)?;
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
                target: compiled.target,
                trace: tracing.facts,
                left_out: compiled.messages.kept,
            };
            // Build scripts may have written into it.
            self.current = None;
            for (file, reason) in &left.allocators {
                let name = &self.plan.revisions[index].name;
                let message = format!("the #[global_allocator] in {file} of {name} {reason}");
                let help = Some("tests with it have no heap metrics; all others do".to_owned());
                self.sink.emit(Event::Warning { message, help });
            }
            return Ok(Ok(draft.finish(provenance)?));
        }
    }

    fn runner(&self, index: usize, toolchain: &Toolchain) -> anyhow::Result<Vec<String>> {
        let config = CargoConfig::read(&self.workspace(), &self.plan.request.build.config)?;
        let target = self.triple(index, &config, toolchain)?;
        let target = target.as_deref();
        let printed = toolchain
            .rustc()
            .args(["--print", "cfg"])
            .args(target.iter().flat_map(|target| ["--target", target]))
            .run()?;
        let cfgs: Vec<Cfg> = printed.text().lines().filter_map(|line| Cfg::from_str(line).ok()).collect();
        Ok(config.runner(target.unwrap_or(toolchain.host()), &cfgs).unwrap_or_default())
    }
}

impl Builder<'_> {
    /// Whether the checkout is that of a build, and no test has changed a file of it: the next run is to find what the first found.
    fn is_as_laid(&mut self, entry: &Entry) -> anyhow::Result<bool> {
        let Some(current) = self.current.as_ref().filter(|current| current.key == entry.provenance.key)
        else {
            return Ok(false);
        };
        if current.stamps.hold() {
            return Ok(true);
        }
        // Git says what is the revision's, and not of injected files what is in them: they differ from the revision anyway.
        let is_there = |(path, content): (&Utf8PathBuf, &Vec<u8>)| {
            fs_err::read(self.worktree.path().join(path)).is_ok_and(|found| found == *content)
        };
        if !entry.injection()?.iter().all(is_there) || self.worktree.status()? != current.status {
            return Ok(false);
        }
        // It was files that git ignores, or those of a crate outside of the checkout.
        let stamps = self.stamps()?;
        if let Some(current) = &mut self.current {
            current.stamps = stamps;
        }
        Ok(true)
    }

    /// Of the checkout, and of the crate for external overlays once it is as its tests expect it.
    fn stamps(&self) -> anyhow::Result<Stamps> {
        let external = self.restore_external()?;
        Stamps::taken(std::iter::once(self.worktree.path()).chain(external.as_deref()))
    }
}

impl Stage for Builder<'_> {
    /// Brings the checkout to the state in which a build was made, and its companions to where its tests look for them.
    fn bring_to(&mut self, index: usize, entry: &Entry) -> anyhow::Result<()> {
        if !self.is_as_laid(entry)? {
            self.current = None;
            self.worktree.check_out(&self.plan.revisions[index])?;
            let mut injected = InjectedFiles::load(&self.cache.injected())?;
            for (path, content) in entry.injection()? {
                injected.write(self.worktree.path(), &path, &content)?;
            }
            injected.save()?;
            let status = self.worktree.status()?;
            let stamps = self.stamps()?;
            self.current = Some(Current { key: entry.provenance.key.clone(), status, stamps });
        }
        entry.place_companions()
    }
}
