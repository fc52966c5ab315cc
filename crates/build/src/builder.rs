//! Finds each revision's build in the store, or makes it. Reports failed builds.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use camino::Utf8Path;

use crate::attempts::{self, Build};
use crate::build_key::key_inputs;
use crate::build_tree::BuildTree;
use crate::build_warnings;
use crate::cargo::lockfile;
use crate::cargo::resolution::Unresolved;
use crate::cargo::toolchain::Toolchain;
use crate::checkout::cache::Cache;
use crate::checkout::kept;
use crate::checkout::worktree::Worktree;
use crate::compile_check::{CheckedTarget, CompileCheck};
use crate::failure::{self, BuildFailure, Fault};
use crate::git::repository::Repository;
use crate::inject::overlay::{self, OverlayFile};
use crate::inject::patch;
use crate::job::{Inputs, Job};
use crate::known_files::KnownFiles;
use crate::lockfile_resolver::LockfileResolver;
use crate::missing_manifest;
use crate::prepared_source::{self, SkippedEdits};
use crate::provenance::KeyInputs;
use crate::same_sources;
use crate::selected_failures::{complete, failure_of_added, failure_of_selected, judged};
use crate::selected_targets;
use crate::shared_lockfile::{self, SharedLockfile};
use crate::shim::CompiledShim;
use crate::side_lockfile;
use crate::store::{self, Entry, Stored};
use crate::toolchains::{Toolchains, toolchain_files};
use crate::trace::instrument::{self, Patterns};
use crate::traced_sources;
use crate::unselected;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::trace_facts::TraceFacts;
use memprof_plan::resolved::{Plan, Revision};
use memprof_plan::side;
use memprof_support::advice;
use memprof_support::event::{Event, Sink};
use memprof_support::paths::utf8;
use memprof_support::process::Command;

/// Builds the revisions of a plan in one checkout, and restores the checkout of a revision for its
/// tests.
pub struct Builder<'a> {
    pub(crate) inputs: Inputs<'a>,
    folder: &'a RunFolder,
    pub(crate) tree: BuildTree<'a>,
    lockfile: SharedLockfile,
    toolchains: Toolchains,
    /// Whether the user knows that not all targets are built.
    has_told: Cell<bool>,
    /// The errors that were reported, and the revision that had them first.
    reported: RefCell<HashMap<String, String>>,
}

impl<'a> Builder<'a> {
    /// Opens the checkout and reads the overlay.
    pub fn new(
        plan: &'a Plan,
        repository: &'a Repository,
        cache: &'a Cache,
        folder: &'a RunFolder,
        sink: &'a dyn Sink,
        interrupt: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        if cache.notes().symlink_metadata().is_ok() {
            // Notes of a build that was killed.
            fs_err::remove_dir_all(cache.notes())?;
        }
        let worktree = Worktree::open(cache, repository, &plan.request.settings.sparse_exclude)?;
        kept::keep(repository, &plan.revisions)?;
        let tree = BuildTree::new(worktree);
        let checkout = tree.path().to_owned();
        let overlay = overlay::read(&plan.request.overlay, &plan.overlay_commits, repository)?;
        build_warnings::warn_of_withheld(plan, sink);
        let patterns = Patterns::parse(&plan.request.trace)?;
        let crate_of_tests = shared_lockfile::crate_of_tests(plan);
        let patches = patch::read(&plan.request.overlay_patches, repository.root())?;
        let without = missing_manifest::revisions(plan, repository, &patches)?;
        let lockfile =
            lockfile::choose(plan, &without, repository, &cache.lockfiles(), &crate_of_tests, sink)?;
        let inputs = Inputs {
            plan,
            kept: None,
            repository,
            cache,
            checkout,
            overlay,
            patches,
            added_tests: BTreeMap::new(),
            sides: BTreeMap::new(),
            used_builds: Vec::new(),
            known_files: KnownFiles::read(cache.known_files()),
            placed: KnownFiles::default(),
            patterns,
            sink,
            interrupt,
        };
        let lockfile = SharedLockfile::new(lockfile);
        Ok(Self {
            inputs,
            folder,
            tree,
            lockfile,
            toolchains: Toolchains::default(),
            has_told: Cell::new(false),
            reported: RefCell::default(),
        })
    }

    /// Adds a revision behind those of the plan, whose tests run with a build of the store.
    pub fn add_kept(&mut self, revision: &'a Revision) {
        self.inputs.kept = Some(revision);
    }

    /// Finds a revision's build in the store, or makes it.
    ///
    /// # Errors
    ///
    /// The tool itself failed. A revision that does not build is [`Build::Failed`], not an error.
    pub fn build(&mut self, index: usize) -> anyhow::Result<Build> {
        let toolchain = match self.toolchain(index) {
            Ok(toolchain) => toolchain,
            Err(error) if failure::is_of_machine(&error) => return Err(error),
            Err(error) => return self.failed(index, BuildFailure::from_error(&error)),
        };
        if let Err(failure) = self.provide_lockfile(index, &toolchain)? {
            return self.failed(index, failure);
        }
        let log = self.folder.build_log(self.inputs.plan, index);
        match self.build_once(index, &toolchain, &log)? {
            Build::Failed(failure) => self.build_as_of_date(index, &toolchain, failure),
            done @ Build::Done(_) => Ok(done),
        }
    }

    /// Whether revisions that were built before must be built again, because all revisions without
    /// a lock file now use another one. Resets this.
    pub fn take_outdated(&mut self) -> bool {
        self.lockfile.take_outdated()
    }

    /// Keeps the lock file for revisions that have none from being replaced from now on.
    pub fn settle_lockfile(&mut self) {
        self.lockfile.settle();
    }

    /// Returns what every report says about the lock file and about missing submodules.
    pub fn notes(&self) -> Vec<String> {
        let of_submodules = self.tree.notes_on_submodules();
        self.lockfile.notes().iter().cloned().chain(of_submodules).collect()
    }

    /// Finds a revision's build in the store, or makes it with the current lock file. A failure is
    /// not reported.
    fn build_once(&mut self, index: usize, toolchain: &Toolchain, log: &Utf8Path) -> anyhow::Result<Build> {
        if let Err(error) = self.provide_side(index, toolchain) {
            let concerns_one = failure::concerns_one_revision(&error);
            return if concerns_one {
                Ok(Build::Failed(BuildFailure::from_error(&error)))
            } else {
                Err(error)
            };
        }
        let job = Job { inputs: &self.inputs, index, toolchain, lockfile: self.lockfile.lockfile() };
        let revision = job.revision();
        let mut key_inputs = key_inputs(&job)?;
        let narrowed = unselected::narrowed(&self.inputs.plan.request, &key_inputs);
        // A run goes on with the build that it began with.
        let goes_on = unselected::is_of_run(self.folder, index, &narrowed);
        let mut unselected = BTreeSet::new();
        let mut stored = if goes_on { None } else { self.stored_or_same(&job, &key_inputs) };
        if stored.is_none() && !unselected::is_of_run(self.folder, index, &key_inputs) {
            unselected = unselected::executables(&job, &key_inputs);
            if goes_on || !unselected.is_empty() {
                key_inputs = narrowed;
                stored = self.stored_or_same(&job, &key_inputs);
            }
        }
        let built = if let Some((entry, has_same_sources)) = stored {
            let (name, commit) = (revision.name.clone(), revision.short());
            self.emit(Event::BuildReused { name, commit, has_same_sources });
            entry
        } else {
            self.emit(Event::BuildStarted { name: revision.name.clone(), commit: revision.short() });
            self.tell_of_targets(&job, unselected.len());
            let started = Instant::now();
            match attempts::build(&job, &mut self.tree, key_inputs, &unselected, log) {
                Ok(Build::Done(entry)) => {
                    let entry = judged(&job, entry);
                    if let Some(failure) =
                        failure_of_selected(&self.inputs.plan.request, &entry, &job.overlay())
                    {
                        return Ok(Build::Failed(failure));
                    }
                    let (name, commit) = (revision.name.clone(), revision.short());
                    self.emit(Event::BuildFinished { name, commit, took: started.elapsed() });
                    entry
                }
                Ok(failed @ Build::Failed(_)) => return Ok(failed),
                Err(error) if failure::concerns_one_revision(&error) => {
                    return Ok(Build::Failed(BuildFailure::from_error(&error)));
                }
                Err(error) => return Err(error),
            }
        };
        // The log of a trial that succeeds gets this name.
        let log = self.folder.build_log(self.inputs.plan, index);
        build_warnings::warn_of_entry(&self.inputs, revision, &built, &log);
        if self.lacks_lockfile(index)? {
            self.lockfile.note_use();
        }
        self.inputs.used_builds.push(built.folder.clone());
        Ok(Build::Done(built))
    }

    /// Builds a revision again with the dependencies of the newest commit's date, if the user did not
    /// choose others. If that fails, too, the first failure is reported.
    fn build_as_of_date(
        &mut self,
        index: usize,
        toolchain: &Toolchain,
        mut failure: BuildFailure,
    ) -> anyhow::Result<Build> {
        let may_help = matches!(failure.fault, Fault::Code | Fault::Dependencies);
        if !may_help || self.inputs.is_interrupted() || !self.lacks_lockfile(index)? {
            return self.failed(index, failure);
        }
        let revision = &self.inputs.plan.revisions[index];
        if let Some(used) = self.lockfile.origin() {
            failure.hints.push(format!("{} has no Cargo.lock; it was built with {used}", revision.name));
            failure.lockfile = Some(used.to_owned());
        }
        let reason = format!("today's dependencies do not build {}", revision.named());
        match self.lockfile.try_date(&self.inputs, &mut self.tree, toolchain, &reason) {
            Ok(true) => {}
            Ok(false) => return self.failed(index, failure),
            Err(error) if failure::concerns_one_revision(&error) => {
                failure.hints.extend(advice::help(&error));
                return self.failed(index, failure);
            }
            Err(error) => return Err(error),
        }
        let log = self.folder.build_log(self.inputs.plan, index);
        let log_of_trial = log.with_extension("as-of-date.log");
        let built = self.build_once(index, toolchain, &log_of_trial);
        if let Ok(done @ Build::Done(_)) = built {
            self.lockfile.accept(&self.inputs)?;
            if log_of_trial.exists() {
                fs_err::rename(&log_of_trial, &log)?;
            }
            return Ok(done);
        }
        let tried = self.lockfile.origin().unwrap_or_default().to_owned();
        self.lockfile.revert();
        built?;
        failure.hints.push(lockfile::neither_builds(&tried, &log_of_trial, revision));
        failure.lockfile = failure.lockfile.map(|used| format!("{used}; {tried} do not build it either"));
        failure.is_of_date_too = true;
        self.failed(index, failure)
    }

    /// Whether a revision is built with the lock file that all revisions without one share.
    fn lacks_lockfile(&self, index: usize) -> anyhow::Result<bool> {
        let one = self.inputs.plan.request.refs.get(index);
        if one.is_some_and(|one| one.lockfile.is_some()) {
            return Ok(false);
        }
        Ok(!lockfile::is_committed(self.inputs.plan, index, self.inputs.repository)?)
    }

    /// Finds or makes another build of a revision, with test files that it lacks. The log of a build
    /// that fails is kept in `log`.
    ///
    /// # Errors
    ///
    /// The tool itself failed.
    pub fn build_with(
        &mut self,
        index: usize,
        files: Vec<OverlayFile>,
        log: &Utf8Path,
    ) -> anyhow::Result<Build> {
        self.inputs.added_tests.insert(index, files);
        let built = self.build_added(index, log).or_else(|error| {
            let is_of_revision = failure::concerns_one_revision(&error);
            if is_of_revision { Ok(Build::Failed(BuildFailure::from_error(&error))) } else { Err(error) }
        });
        if !matches!(built, Ok(Build::Done(_))) {
            self.inputs.added_tests.remove(&index);
        }
        built
    }

    fn build_added(&mut self, index: usize, log: &Utf8Path) -> anyhow::Result<Build> {
        let toolchain = self.toolchain(index)?;
        if let Err(failure) = self.provide_lockfile(index, &toolchain)? {
            return Ok(Build::Failed(failure));
        }
        let lockfile = self.lockfile.lockfile();
        let job = Job { inputs: &self.inputs, index, toolchain: &toolchain, lockfile };
        let revision = job.revision();
        let name =
            format!("{} with {}", revision.name, overlay::some_names(&self.inputs.added_tests[&index]));
        let commit = revision.short();
        let key_inputs = key_inputs(&job)?;
        if let Some(entry) = self.stored(&job, &key_inputs) {
            self.emit(Event::BuildReused { name, commit, has_same_sources: false });
            return Ok(Build::Done(entry));
        }
        self.emit(Event::BuildStarted { name: name.clone(), commit: commit.clone() });
        let started = Instant::now();
        let built = match attempts::build(&job, &mut self.tree, key_inputs, &BTreeSet::new(), log)? {
            Build::Done(entry) => {
                let entry = judged(&job, entry);
                match failure_of_added(&entry, &self.inputs.added_tests[&index]) {
                    Some(failure) => Build::Failed(failure),
                    None => Build::Done(entry),
                }
            }
            failed @ Build::Failed(_) => failed,
        };
        if built.entry().is_some() {
            self.emit(Event::BuildFinished { name, commit, took: started.elapsed() });
        }
        Ok(built)
    }

    /// Returns git in the checkout.
    pub fn git(&self) -> Command {
        self.tree.git()
    }

    /// Returns the git directory of the checkout.
    pub fn git_directory(&self) -> &Utf8Path {
        self.tree.git_directory()
    }

    /// Returns a revision's build from the store, or that of another revision with the same sources. The second
    /// value tells which.
    fn stored_or_same(&self, job: &Job<'_>, key_inputs: &KeyInputs) -> Option<(Box<Entry>, bool)> {
        let stored = self.stored(job, key_inputs).map(|entry| (entry, false));
        stored.or_else(|| Some((self.with_same_sources(job, key_inputs)?, true)))
    }

    /// Returns a revision's build from the store. Warns of a damaged one, which is built again. So is
    /// one that lacks selected tests, because their targets may compile by now.
    fn stored(&self, job: &Job<'_>, key_inputs: &KeyInputs) -> Option<Box<Entry>> {
        match self.inputs.intact(&key_inputs.key()) {
            Stored::Complete(entry) => complete(job, entry),
            Stored::Absent => None,
            Stored::Damaged(reason) => {
                let name = &job.revision().name;
                let message =
                    format!("the stored build of {name} is damaged, so it is built again: {reason}");
                self.inputs.warn(message, None);
                None
            }
        }
    }

    /// Returns the build of another revision that differs from this one in nothing but documentation.
    fn with_same_sources(&self, job: &Job<'_>, key_inputs: &KeyInputs) -> Option<Box<Entry>> {
        // A patch may be about documentation, and `--run-all` takes nothing for granted.
        if !self.inputs.patches.is_empty() || self.inputs.plan.request.settings.run_all {
            return None;
        }
        let (store, used) = (self.inputs.cache.store(), &self.inputs.used_builds);
        let found = same_sources::find(&store, used, self.inputs.repository, key_inputs)?;
        // The files of one in use were checked.
        if used.contains(&found.folder) {
            return complete(job, found);
        }
        match self.inputs.intact(&found.provenance.key) {
            Stored::Complete(entry) => complete(job, entry),
            Stored::Absent | Stored::Damaged(_) => None,
        }
    }

    pub(crate) fn shim_of_baseline(&mut self) -> anyhow::Result<(CompiledShim, Toolchain)> {
        let plan = self.inputs.plan;
        let toolchain = self.toolchain(plan.baseline)?;
        let target = plan.request.build.settings.target.as_deref();
        let shim = CompiledShim::find_or_compile(self.inputs.cache, &toolchain, target)?;
        Ok((shim, toolchain))
    }

    /// Reports that a revision does not build, and why. Errors that another revision has too are
    /// reported once.
    pub fn report_failure(&self, index: usize, failure: &BuildFailure) {
        let revision = &self.inputs.plan.revisions[index];
        let mut reported = self.reported.borrow_mut();
        let (first_errors, hints) = match reported.get(&failure.first_errors) {
            Some(earlier) => (format!("for the same reason as {earlier}"), Vec::new()),
            None => (failure.first_errors.clone(), failure.hints.clone()),
        };
        reported.entry(failure.first_errors.clone()).or_insert_with(|| revision.name.clone());
        let log = self.folder.build_log(self.inputs.plan, index).to_string();
        let (name, commit) = (revision.name.clone(), revision.short());
        self.emit(Event::BuildFailed { name, commit, first_errors, log, hints });
    }

    /// Returns the functions of a revision that the request's patterns match, without building it.
    pub fn traceable(&mut self, index: usize) -> anyhow::Result<TraceFacts> {
        let toolchain = self.toolchain(index)?;
        if let Err(failure) = self.provide_lockfile(index, &toolchain)? {
            return Err(Unresolved(failure.first_errors).into());
        }
        let lockfile = self.lockfile.lockfile();
        let job = Job { inputs: &self.inputs, index, toolchain: &toolchain, lockfile };
        let prepared = prepared_source::prepare(&job, &mut self.tree, &SkippedEdits::default())?;
        Ok(prepared.tracing.facts)
    }

    /// Fails if a pattern matches no function in any revision, before anything is built.
    pub fn check_patterns(&mut self) -> anyhow::Result<()> {
        if self.inputs.patterns.is_empty() {
            return Ok(());
        }
        let mut unmet: Option<Vec<String>> = None;
        for index in 0..self.inputs.plan.revisions.len() {
            // An error in one revision is reported when that revision is built.
            let Ok(facts) = self.stored_facts(index).map_or_else(|| self.traceable(index), Ok) else {
                continue;
            };
            unmet = Some(match unmet {
                None => facts.unmet,
                Some(unmet) => unmet.into_iter().filter(|one| facts.unmet.contains(one)).collect(),
            });
        }
        let Some(pattern) = unmet.as_ref().and_then(|unmet| unmet.first()) else { return Ok(()) };
        let paths = self.all_functions().unwrap_or_default();
        Err(instrument::unmet(pattern, &paths).into())
    }

    /// Returns which functions are traced in a revision that is already built.
    fn stored_facts(&mut self, index: usize) -> Option<TraceFacts> {
        let toolchain = self.toolchain(index).ok()?;
        let job = self.job(index, &toolchain);
        let key = key_inputs(&job).ok()?.key();
        match store::find(&self.inputs.cache.store(), &key) {
            Stored::Complete(entry) => Some(entry.provenance.trace),
            Stored::Absent | Stored::Damaged(_) => None,
        }
    }

    /// Returns the paths of all functions in the current checkout.
    fn all_functions(&mut self) -> anyhow::Result<Vec<String>> {
        let index = self.inputs.plan.baseline;
        let toolchain = self.toolchain(index)?;
        let job = self.job(index, &toolchain);
        traced_sources::all_functions(&job)
    }

    fn toolchain(&mut self, index: usize) -> anyhow::Result<Toolchain> {
        self.toolchains.for_revision(self.inputs.plan, index, self.inputs.repository, self.inputs.cache)
    }

    fn job<'b>(&'b self, index: usize, toolchain: &'b Toolchain) -> Job<'b> {
        Job { inputs: &self.inputs, index, toolchain, lockfile: self.lockfile.lockfile() }
    }

    /// Generates the lock file if the revision needs it and it does not exist yet. Nothing is generated for
    /// a revision without a workspace.
    fn provide_lockfile(
        &mut self,
        index: usize,
        toolchain: &Toolchain,
    ) -> anyhow::Result<Result<(), BuildFailure>> {
        let Inputs { plan, repository, patches, .. } = &self.inputs;
        if let Some(failure) = missing_manifest::failure(plan, index, repository, patches)? {
            return Ok(Err(failure));
        }
        if !self.lacks_lockfile(index)? {
            return Ok(Ok(()));
        }
        match self.lockfile.provide(&self.inputs, &mut self.tree, toolchain) {
            Err(error) if failure::concerns_one_revision(&error) => Ok(Err(BuildFailure::from_error(&error))),
            provided => provided,
        }
    }

    /// Resolves the dependencies of every revision that has others than its own, before anything is
    /// built.
    ///
    /// # Errors
    /// Cargo cannot resolve them. A revision that cannot be built anyway is not checked.
    pub fn provide_sides(&mut self) -> anyhow::Result<()> {
        let request = &self.inputs.plan.request;
        for index in 0..self.inputs.plan.revisions.len() {
            let one = request.refs.get(index);
            let is_own =
                side::dependencies(request, one).is_empty() && one.is_none_or(|one| one.lockfile.is_none());
            if is_own {
                continue;
            }
            let Ok(toolchain) = self.toolchain(index) else { continue };
            if self.provide_lockfile(index, &toolchain)?.is_ok() {
                self.provide_side(index, &toolchain)?;
            }
        }
        Ok(())
    }

    /// Checks a revision out, and lets cargo resolve lock files there.
    pub fn resolving<T>(
        &mut self,
        index: usize,
        resolve: impl FnOnce(&LockfileResolver<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let toolchain = self.toolchain(index)?;
        let job =
            Job { inputs: &self.inputs, index, toolchain: &toolchain, lockfile: self.lockfile.lockfile() };
        let resolver = LockfileResolver::check_out(&job, job.options(), &[], &mut self.tree)?;
        let done = resolve(&resolver);
        resolver.finish()?;
        done
    }

    /// Takes further revisions. The plan has those of the plan before, with the same indices.
    pub fn extend(&mut self, plan: &'a Plan) -> anyhow::Result<()> {
        self.inputs.plan = plan;
        kept::keep(self.inputs.repository, &plan.revisions)
    }

    /// Lets the compiler check a target of a revision with some changes, in its checkout.
    pub fn checking<T>(
        &mut self,
        index: usize,
        target: CheckedTarget,
        check: impl FnOnce(&mut CompileCheck<'_, 'a>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let toolchain = self.toolchain(index)?;
        if let Err(failure) = self.provide_lockfile(index, &toolchain)? {
            anyhow::bail!("{}", failure.first_errors.trim());
        }
        // What cargo compiles for a check is no build of the revision.
        let sink = std::mem::replace(&mut self.inputs.sink, &|_: Event| {});
        let job =
            Job { inputs: &self.inputs, index, toolchain: &toolchain, lockfile: self.lockfile.lockfile() };
        let done =
            CompileCheck::new(&job, &mut self.tree, target).and_then(|mut checker| check(&mut checker));
        self.inputs.sink = sink;
        done
    }

    /// Provides what a revision is built with, if it is not its own lock file.
    fn provide_side(&mut self, index: usize, toolchain: &Toolchain) -> anyhow::Result<()> {
        self.inputs.sides.remove(&index);
        let job = Job { inputs: &self.inputs, index, toolchain, lockfile: self.lockfile.lockfile() };
        if let Some(side) = side_lockfile::provide(&job, &mut self.tree)? {
            self.inputs.sides.insert(index, side);
        }
        Ok(())
    }

    /// Adds hints to a failure, writes its log, and reports it. After Ctrl-C, compilers end with
    /// errors that say nothing of the revision.
    fn failed(&self, index: usize, mut failure: BuildFailure) -> anyhow::Result<Build> {
        let Inputs { plan, repository, .. } = self.inputs;
        if self.inputs.is_interrupted() {
            anyhow::bail!("interrupted while {} was built", plan.revisions[index].name);
        }
        let today =
            plan.request.lockfile.is_none() && !failure.is_of_date_too && self.lacks_lockfile(index)?;
        let revision = &plan.revisions[index];
        failure.add_hints(revision, today, &toolchain_files(plan, repository)?);
        let current = utf8(std::env::current_dir()?)?;
        failure.add_hint_of_outside_path(&self.inputs.checkout, repository.root(), &current);
        failure.add_hint_of_external(&plan.request.overlay, &self.inputs.checkout);
        failure.add_missing_submodules(&self.tree.missing_submodules(revision));
        failure.write_if_empty(&self.folder.build_log(plan, index))?;
        // A request that no ref can satisfy is reported only once, by the caller.
        if failure.fault != Fault::Request {
            self.report_failure(index, &failure);
        }
        Ok(Build::Failed(failure))
    }

    /// Says which targets are not built: once if the overlay's tests are enough.
    fn tell_of_targets(&self, job: &Job<'_>, unselected: usize) {
        let only = job.only_tests().filter(|_| !self.has_told.replace(true));
        let texts = only.map(|tests| selected_targets::told(&tests)).into_iter();
        texts.chain(unselected::told(unselected)).for_each(|text| self.emit(Event::TargetsChosen { text }));
    }

    fn emit(&self, event: Event) {
        self.inputs.sink.emit(event);
    }
}
