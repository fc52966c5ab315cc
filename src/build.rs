//! From a revision to executables in the store: check out, inject, call cargo, prove what it left, copy.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, bail};
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Metadata;
use cargo_platform::Cfg;

use crate::adapters;
use crate::build_failure::{self, BuildFailure};
use crate::cache::Cache;
use crate::cargo::{self, Messages};
use crate::cargo_config::{self, CargoConfig};
use crate::counted::counted;
use crate::dependency_copies::{self, Copy, LockedCrate};
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
use crate::request::{OverlayMode, TraceRequest};
use crate::run_folder::RunFolder;
use crate::shim::{self, Shim};
use crate::sources::{self, SourceRecords};
use crate::stage::Stage;
use crate::store::{self, Draft, Entry, Ingredients, Provenance};
use crate::toolchain::{Choice, Toolchain};
use crate::trace_facts::TraceFacts;
use crate::traced_crates;
use crate::tracing::{self, Blame, Dropped, Patterns, Tracing};
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

/// Of more revisions than this, the toolchain files are not laid side by side.
const MOST_TOOLCHAIN_FILES: usize = 8;

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
    patterns: Patterns,
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
    tracing: Tracing,
    /// Of traced crates of the registry.
    copies: Vec<Copy>,
}

/// What of a revision stays as it is, because a build that changed it failed.
#[derive(Default)]
struct LeftAlone {
    allocators: Refused,
    functions: Dropped,
    /// Builds that failed with traced functions in them.
    rounds: usize,
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
            Err(error) if build_failure::concerns_one_revision(&error) => {
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
            arguments: self.arguments(index, &self.target(index)?),
            environment: build_environment(self.plan, index),
            configuration: self.outer_configuration(),
            shim: shim::source_hash(),
            overlay: self.overlay_ingredients(index),
            sparse_exclude: self.plan.request.sparse_exclude.clone(),
            checkout: self.worktree.path().to_owned(),
            trace: self.patterns.texts(),
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

    fn arguments(&self, index: usize, target: &Utf8Path) -> Vec<String> {
        let request = &self.plan.request;
        let features = self.features(index);
        let mut arguments = if self.has_external_overlay() {
            // The package is a dependency there, and what is about it goes into the crate's manifest.
            let (_, rest) = PackageOptions::split_off(&request.build, features);
            cargo::test_argv(&rest, &[], target)
        } else {
            cargo::test_argv(&request.build, &features, target)
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

    /// Checks the revision out and lays over it what its build needs, but for what is to be left alone.
    fn lay_out(&mut self, index: usize, toolchain: &Toolchain, left: &LeftAlone) -> anyhow::Result<Laid> {
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
            let allocators = own_allocator::find(&metadata, &checkout, &left.allocators)?;
            injection.extend(allocators.write(&checkout, &mut injected)?);
            // From here on files are read from the checkout as they were written so far.
            let mut tracing = self.traced(&metadata, toolchain, &left.functions)?;
            injection.extend(tracing.write(&checkout, &mut injected)?);
            let copies = self.copies(index, &manifest, toolchain)?;
            for copy in &copies {
                tracing.add_facts(&copy.tracing.facts);
            }
            injection.extend(inject::append_lines(&metadata, &checkout, &mut injected)?);
            injected.save()?;
            return Ok(Laid { injection, manifest, allocators: Some(allocators), tracing, copies });
        }
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
        // Of the workspace's members nothing is compiled through its wrapper then: what is traced is given the shim as
        // other path dependencies are.
        let mut tracing = Tracing::default();
        let mut copies = Vec::new();
        if !self.patterns.is_empty() {
            tracing =
                self.traced(&inject::metadata(toolchain, &laid.manifest)?, toolchain, &left.functions)?;
            injection.extend(tracing.write(&checkout, &mut injected)?);
            copies = self.copies(index, &laid.manifest, toolchain)?;
            for copy in &copies {
                tracing.add_facts(&copy.tracing.facts);
            }
        }
        injected.save()?;
        Ok(Laid { injection, manifest: laid.manifest, allocators: None, tracing, copies })
    }

    /// The traced functions of the checkout's own crates.
    fn traced(
        &self,
        metadata: &Metadata,
        toolchain: &Toolchain,
        dropped: &Dropped,
    ) -> anyhow::Result<Tracing> {
        if self.patterns.is_empty() {
            return Ok(Tracing::default());
        }
        let checkout = self.worktree.path();
        let crates = traced_crates::own_crates(metadata, checkout, toolchain)?;
        Ok(tracing::find(&crates, &self.patterns, checkout, Utf8Path::new(""), dropped))
    }

    /// The functions of a revision that the request's patterns mean, without building it.
    pub fn traceable(&mut self, index: usize) -> anyhow::Result<TraceFacts> {
        let toolchain = self.toolchain(index)?;
        self.provide_lockfile(&toolchain)?;
        Ok(self.lay_out(index, &toolchain, &LeftAlone::default())?.tracing.facts)
    }

    /// A pattern that means no function in any revision is a mistake, and it is told before anything is built. A revision that
    /// is built already says itself what was traced.
    pub fn check_patterns(&mut self) -> anyhow::Result<()> {
        if self.patterns.is_empty() {
            return Ok(());
        }
        let mut unmet: Option<Vec<String>> = None;
        for index in 0..self.plan.revisions.len() {
            // What stands in the way of one revision is told when it is built.
            let Ok(facts) = self.known_facts(index).map_or_else(|| self.traceable(index), Ok) else {
                continue;
            };
            unmet = Some(match unmet {
                None => facts.unmet,
                Some(unmet) => unmet.into_iter().filter(|one| facts.unmet.contains(one)).collect(),
            });
        }
        let Some(pattern) = unmet.as_ref().and_then(|unmet| unmet.first()) else { return Ok(()) };
        let paths = self.all_functions().unwrap_or_default();
        Err(tracing::unmet(pattern, &paths).into())
    }

    fn known_facts(&mut self, index: usize) -> Option<TraceFacts> {
        let toolchain = self.toolchain(index).ok()?;
        let key = self.ingredients(index, &toolchain).ok()?.key();
        store::find(&self.cache.store(), &key).map(|entry| entry.provenance.trace)
    }

    /// The paths of all functions in the checkout as it is.
    fn all_functions(&mut self) -> anyhow::Result<Vec<String>> {
        let toolchain = self.toolchain(self.plan.baseline)?;
        let metadata = inject::metadata(&toolchain, &self.workspace().join("Cargo.toml"))?;
        let all = TraceRequest { functions: vec!["**".to_owned()], ..TraceRequest::default() };
        let crates = traced_crates::own_crates(&metadata, self.worktree.path(), &toolchain)?;
        let base = self.worktree.path();
        let found = tracing::find(&crates, &Patterns::of(&all)?, base, Utf8Path::new(""), &Dropped::new());
        Ok(found.facts.functions.into_iter().map(|function| function.path).collect())
    }

    /// The crates of the registry that patterns name, as a revision's lock file has them.
    fn traced_dependencies(&self, index: usize) -> anyhow::Result<Vec<LockedCrate>> {
        if self.patterns.crate_names().is_empty() {
            return Ok(Vec::new());
        }
        let commit = &self.plan.revisions[index].commit;
        let committed = self.repository.show(commit, self.plan.workspace.join("Cargo.lock").as_str())?;
        let lock = match (&committed, &self.lockfile) {
            (Some(text), _) | (None, Lockfile::Given(text)) => text.as_slice(),
            _ => return Ok(Vec::new()),
        };
        Ok(dependency_copies::named_in(&String::from_utf8_lossy(lock), &self.patterns))
    }

    /// Names the edits of traced crates of the registry. Where a target is named, what runs in the build is not edited.
    fn edits(&self) -> String {
        let target = self.plan.request.build.target.as_deref().unwrap_or_default();
        let text = format!("{}\n{target}\n{}", shim::source_hash(), self.patterns.texts().join("\n"));
        blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
    }

    /// Cargo's target folder for a revision.
    fn target(&self, index: usize) -> anyhow::Result<Utf8PathBuf> {
        let is_plain = self.traced_dependencies(index)?.is_empty();
        Ok(if is_plain { self.cache.target() } else { self.cache.target_of_traced(&self.edits()) })
    }

    fn copies(&self, index: usize, manifest: &Utf8Path, toolchain: &Toolchain) -> anyhow::Result<Vec<Copy>> {
        let folder = self.cache.copies(&self.edits());
        let place =
            dependency_copies::Place { folder: &folder, manifest, offline: self.plan.request.build.offline };
        let crates = self.traced_dependencies(index)?;
        crates.iter().map(|one| dependency_copies::copy(one, &place, &self.patterns, toolchain)).collect()
    }

    /// Whether something that was changed in the checkout may be why a build failed: it is then to be left alone.
    fn suspect(
        &self,
        laid: &mut Laid,
        compiled: &Compiled,
        left: &mut LeftAlone,
        log: &mut fs_err::File,
    ) -> anyhow::Result<bool> {
        let errors = || compiled.messages.errors.iter().map(|error| &error.message);
        let (workspace, checkout) = (self.workspace(), self.worktree.path());
        let located = |file: &str| Some(workspace.join(file).strip_prefix(checkout).ok()?.to_owned());
        let blame = Blame::of_round(left.rounds);
        let is_located = |copy: &Copy| {
            let mut places = errors().flat_map(|error| &error.spans);
            places.any(|place| copy.located(&place.file_name).is_some())
        };
        let mut of_copies = 0;
        let copies = laid.copies.iter_mut().filter(|copy| !copy.tracing.is_empty());
        for copy in copies.filter(|copy| blame == Blame::All || is_located(copy)) {
            let suspects = copy.tracing.suspects(errors(), |file| copy.located(file), blame);
            of_copies += suspects.len();
            copy.drop(suspects)?;
        }
        if of_copies > 0 {
            left.rounds += 1;
            writeln!(log, "# once more, without tracing {}", counted(of_copies, "function"))?;
            return Ok(true);
        }
        if !laid.tracing.is_empty() {
            let suspects = laid.tracing.suspects(errors(), located, blame);
            left.rounds += 1;
            writeln!(log, "# once more, without tracing {}", counted(suspects.len(), "function"))?;
            left.functions.extend(suspects);
            return Ok(true);
        }
        let suspects = laid
            .allocators
            .as_ref()
            .map(|allocators| {
                allocators.suspects(&errors().collect::<Vec<_>>(), &workspace, &left.allocators)
            })
            .unwrap_or_default();
        if suspects.is_empty() {
            return Ok(false);
        }
        let files: Vec<&str> = suspects.keys().map(|file| file.as_str()).collect();
        writeln!(log, "# once more, with the global allocator of {} as it is", files.join(", "))?;
        left.allocators.extend(suspects);
        Ok(true)
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
                if !interrupted && self.suspect(&mut laid, &compiled, &mut left, &mut log)? {
                    continue;
                }
                let mut failure = BuildFailure::from_compiler(&compiled.messages, &compiled.stderr);
                failure.hints.extend(adapters::hint(&failure.first_errors, &compiled.messages.left_out));
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
                        sources::touch(&check.stale)?;
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
            let runner = self.runner(toolchain)?;
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
                trace: tracing.facts,
                left_out: compiled.messages.left_out,
            };
            self.current = Some(key.to_owned());
            for (file, reason) in &left.allocators {
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
        laid: &Laid,
        log: &mut fs_err::File,
    ) -> anyhow::Result<Compiled> {
        let target = self.plan.request.build.target.as_deref();
        let shim = Shim::compiled(&self.cache.shim(), toolchain, target)?;
        let links = self.wrapper_links()?;
        let config = CargoConfig::read(&self.workspace(), &self.plan.request.build.config)?;
        let is_traced = !laid.copies.is_empty() || !laid.tracing.is_empty();
        // A traced crate may be one that a build script or a procedural macro uses too.
        let of_build = match target {
            Some(_) if is_traced => Some(Shim::compiled(&self.cache.shim(), toolchain, None)?),
            _ => None,
        };
        let with_build = |mut wrapping: wrapper::Shim| {
            wrapping.in_build = of_build.as_ref().map(|shim| shim.in_build(&wrapping));
            wrapping
        };
        let wrapping = with_build(shim.wrapping(config.workspace_wrapper()));
        let lock = laid.manifest.with_file_name("Cargo.lock");
        let lock = fs_err::read_to_string(lock).unwrap_or_default();
        let wrapping = wrapper::Shim { adapters: shim.adapters(&lock, target), ..wrapping };
        let notes = tempfile::tempdir()?;
        let triple = target.unwrap_or(toolchain.host());
        let revision = &self.plan.revisions[index];
        let command = toolchain
            .cargo()
            .current_dir(self.workspace())
            .args(cargo_config::with_runner(&ingredients.arguments, triple, &links.join(wrapper::NOTE_NAME))?)
            .arg("--manifest-path")
            .arg(&laid.manifest)
            .envs(requested_environment(self.plan, index))
            .env("RUSTC_WORKSPACE_WRAPPER", links.join(wrapper::WRAP_NAME))
            .env(cargo::runner_variable(triple), links.join(wrapper::NOTE_NAME))
            .env(wrapper::SHIM, serde_json::to_string(&wrapping)?)
            .env(wrapper::NOTES, notes.path())
            .env("CARGO_TERM_COLOR", "never");
        let command = if laid.copies.is_empty() && !laid.tracing.is_beyond_members() {
            command
        } else {
            let dependencies = wrapper::Dependencies {
                shim: with_build(shim.wrapping_dependencies(config.compiler_wrapper())),
                checkout: self.worktree.path().to_owned().into(),
                copies: laid.copies.iter().map(|copy| copy.place.clone()).collect(),
            };
            command
                .env("RUSTC_WRAPPER", links.join(wrapper::WRAP_DEPENDENCY_NAME))
                .env(wrapper::DEPENDENCIES, serde_json::to_string(&dependencies)?)
        };
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
        for name in [wrapper::WRAP_NAME, wrapper::WRAP_DEPENDENCY_NAME, wrapper::NOTE_NAME] {
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
