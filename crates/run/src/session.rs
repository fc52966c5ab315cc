//! One comparison from its plan to its results: builds, tests, cells, runs. `--resume` repeats this
//! on the same folder, which does only what is missing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use fs_err::os::unix::fs::symlink;

use crate::attribution::Attribution;
use crate::changed_sources;
use crate::estimate::PastTimes;
use crate::kept_build::KeptBuild;
use crate::left_out::LeftOut;
use crate::narrower_build;
use crate::one_sided_tests::{self, AllCompleted};
use crate::own_shard::OwnShard;
use crate::planned::{listed, listed_revisions, planned};
use crate::prepared::Prepared;
use crate::runner::Interrupted;
use crate::same_builds;
use crate::same_code;
use crate::stdin_files;
use crate::stored_plan;
use memprof_build::attempts::Build;
use memprof_build::builder::Builder;
use memprof_build::cargo::configuration::{CargoConfig, Includes};
use memprof_build::checkout::cache::{self, Cache};
use memprof_build::checkout::kept;
use memprof_build::checkout::size_limit;
use memprof_build::failure::{BuildFailure, Fault};
use memprof_build::git::repository::Repository;
use memprof_build::outside_inputs::OutsideInputs;
use memprof_build::provenance::{KeyInputs, Provenance};
use memprof_build::store;
use memprof_judge::results::build_facts::{self, BuildFacts, Fact, FailureFacts, StoredBuild};
use memprof_judge::results::environment;
use memprof_judge::results::run_folder::{self, RunFolder};
use memprof_judge::results::same_code::SameCode;
use memprof_judge::results::trace_facts::TraceFacts;
use memprof_judge::results::unfinished;
use memprof_judge::why::chosen::Why;
use memprof_plan::cells::{self, PlannedCell};
use memprof_plan::listing::{DiscoveredTest, NotMeasured};
use memprof_plan::resolved::Plan;
use memprof_support::continuation;
use memprof_support::counted::counted;
use memprof_support::event::{Event, Sink};
use memprof_support::file_lock::{Lock, LockError, LockFile, WhenHeld};
use memprof_support::paths;
use memprof_support::redaction;
use memprof_support::regular_file;
use memprof_support::sealed;
use memprof_support::suggest;
use memprof_support::user_error::UserError;
use memprof_support::whole_file::{self, write_whole};

/// What every command on a repository needs.
pub struct Session<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    /// The folder in the cache.
    pub cache: Cache,
    /// Where events go.
    pub sink: &'a dyn Sink,
    /// Set by Ctrl-C.
    pub interrupt: &'a AtomicBool,
    /// Which tests run once more with call stacks.
    pub attribution: Attribution,
    /// Whether tests run whose code is the same at all revisions.
    pub runs_same_code: bool,
    /// The build of a baseline that was measured earlier.
    pub kept: Option<KeptBuild<'a>>,
}

impl<'a> Session<'a> {
    /// Opens the cache of a repository.
    pub fn open(
        repository: &'a Repository,
        sink: &'a dyn Sink,
        interrupt: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        let cache = Cache::open(&cache::home()?, repository)?;
        Ok(Self {
            repository,
            cache,
            sink,
            interrupt,
            attribution: Attribution::NONE,
            runs_same_code: true,
            kept: None,
        })
    }

    /// Takes the repository's lock. The revisions of earlier runs are then no longer kept from git's
    /// garbage collection.
    pub fn lock(&self, when_held: WhenHeld) -> anyhow::Result<Lock> {
        let lock_file = LockFile::of_folder(self.cache.lock());
        let lock = Lock::acquire(&lock_file, when_held, self.interrupt, self.sink)?;
        kept::forget(self.repository)?;
        Ok(lock)
    }

    /// Returns the functions of each revision that the request's patterns match, without building.
    /// The caller holds the lock.
    pub fn traceable(&self, plan: &Plan) -> anyhow::Result<Vec<TraceFacts>> {
        let scratch = tempfile::tempdir()?;
        let folder = RunFolder(paths::utf8(scratch.path().to_owned())?);
        let mut builder =
            Builder::new(plan, self.repository, &self.cache, &folder, self.sink, self.interrupt)?;
        builder.provide_sides()?;
        builder.check_patterns()?;
        (0..plan.revisions.len()).map(|index| builder.traceable(index)).collect()
    }

    /// Builds every revision and finds the cells. The caller holds the lock.
    pub fn prepare(&'a self, plan: &'a Plan, folder: &'a RunFolder) -> anyhow::Result<Prepared<Builder<'a>>> {
        whole_file::sweep(&folder.0).with_context(|| format!("cannot clean up {}", folder.0))?;
        stdin_files::keep(folder, plan)?;
        let mut builder =
            Builder::new(plan, self.repository, &self.cache, folder, self.sink, self.interrupt)?;
        builder.provide_sides()?;
        builder.check_patterns()?;
        let limit = size_limit::limit()?;
        let began = SystemTime::now();
        let mut builds = Vec::new();
        while builds.len() < plan.revisions.len() {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Interrupted::default().into());
            }
            let build = builder.build(builds.len())?;
            builds.push(build);
            if builder.take_outdated() {
                // All refs without a lock file share one. It was replaced, so these builds are repeated.
                builds.clear();
            }
        }
        let mut completed = self.complete(plan, folder, &mut builder, &mut builds)?;
        let notes = &mut completed.entry(plan.baseline).or_default().notes;
        notes.extend(builder.notes());
        if self.attribution.why != Why::Never {
            notes.extend(builder.note_on_patched_lines());
        }
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Interrupted::default().into());
        }
        let failures: Vec<_> = builds.iter().filter_map(Build::failure).collect();
        if failures.len() == builds.len()
            && let Some(user_error) = BuildFailure::of_all(&failures)
        {
            return Err(user_error.into());
        }
        for (index, build) in builds.iter().enumerate() {
            if let Some(failure) = build.failure().filter(|failure| failure.fault == Fault::Request) {
                builder.report_failure(index, failure);
            }
        }
        let mut cells = self.cells(plan, &builds)?;
        let advice = narrower_build::advice(&plan.request, &builds, &cells);
        let mut stored = stored_builds(plan, &builds, completed);
        let mut left_out = LeftOut::default();
        let kept = self.kept.as_ref();
        let compared = kept.map_or(plan, |kept| kept.plan);
        if !self.runs_same_code && !same_code::has_run_all(compared, folder)? {
            left_out = same_code::leave_out(compared, kept, self.repository, &builds, &mut cells)?;
            for (reason, executables) in &left_out.unknown_reach {
                let executables = counted(*executables, "changed executable");
                let message = format!("what the tests of {executables} reach is not known: {reason}");
                let help = Some("they run, as without `--affected`".to_owned());
                self.sink.emit(Event::Warning { message, help });
            }
            if let Some(text) = SameCode::words(&left_out.tests) {
                self.sink.emit(Event::SameCode { text });
            }
            if let Some(text) = left_out.run_for.clone() {
                self.sink.emit(Event::SameCodeRuns { text });
            }
            if kept.is_none() {
                stored.entry(plan.baseline).or_default().same_code.clone_from(&left_out.tests);
            }
        }
        for (revision, build) in &stored {
            same_builds::check(plan, folder, *revision, &build.facts)?;
        }
        build_facts::write(folder, &stored)?;
        self.store_trace(plan, folder, &builds)?;
        let baseline = kept.and_then(|kept| kept.stored(&self.cache.store()));
        if self.attribution.why != Why::Never {
            // The baseline that was measured earlier is behind the others.
            let entries: Vec<_> = builds.iter().chain(&baseline).map(Build::entry).collect();
            changed_sources::keep(self.repository, compared, (&builder, &entries), folder)?;
        }
        let has_new = self.limit_cache(limit, began, builds.iter().chain(&baseline))?;
        if let Some(text) = advice.filter(|_| has_new) {
            self.sink.emit(Event::BuiltMore { text });
        }
        // Other machines have other pasts, and all must agree on who runs what.
        let shard = OwnShard::keep(plan, &mut cells, &BTreeMap::new());
        if let Some(KeptBuild { plan, .. }) = kept {
            builder.add_kept(&plan.revisions[plan.baseline]);
        }
        Ok(Prepared { tree: builder, builds, baseline, cells, shard, left_out })
    }

    /// Puts test files that only one revision has into the others.
    fn complete(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        builder: &mut Builder<'_>,
        builds: &mut [Build],
    ) -> anyhow::Result<AllCompleted> {
        if builds.len() < 2 || self.interrupt.load(Ordering::Relaxed) {
            return Ok(AllCompleted::new());
        }
        let cells = planned(plan, builds);
        let completion =
            one_sided_tests::Completion { plan, repository: self.repository, folder, sink: self.sink };
        completion.complete(builder, builds, &cells)
    }

    /// Notes which builds are used, and keeps the cache below its limit if a build was added. Returns
    /// whether one was.
    fn limit_cache<'b>(
        &self,
        limit: Option<u64>,
        began: SystemTime,
        builds: impl Iterator<Item = &'b Build>,
    ) -> anyhow::Result<bool> {
        let used: Vec<&Utf8Path> =
            builds.filter_map(Build::entry).map(|entry| entry.folder.as_path()).collect();
        let is_new = |build: &&Utf8Path| {
            let written = build.join(store::PROVENANCE).metadata().and_then(|metadata| metadata.modified());
            written.is_ok_and(|written| written >= began)
        };
        let new: Vec<&Utf8Path> = used.iter().copied().filter(|build| is_new(build)).collect();
        for build in &used {
            size_limit::note_use(build);
        }
        if let Some(limit) = limit.filter(|_| !new.is_empty()) {
            size_limit::shrink(&self.cache, &new, &used, limit, self.interrupt, self.sink)?;
        }
        Ok(!new.is_empty())
    }

    /// Stores which functions are traced in the run's folder, and warns of those that cannot be.
    fn store_trace(&self, plan: &Plan, folder: &RunFolder, builds: &[Build]) -> anyhow::Result<()> {
        if plan.request.trace.is_empty() {
            return Ok(());
        }
        let facts = |build: &Build| build.entry().map(|entry| entry.provenance.trace.clone());
        let traces: BTreeMap<usize, TraceFacts> =
            builds.iter().enumerate().filter_map(|(index, build)| Some((index, facts(build)?))).collect();
        for (index, facts) in &traces {
            let name = &plan.revisions[*index].name;
            let dropped: Vec<_> = facts.dropped().collect();
            if let Some((function, reason)) = dropped.first() {
                let others = match dropped.len() - 1 {
                    0 => String::new(),
                    others => {
                        format!(" (and {} more)", memprof_support::counted::counted(others, "function"))
                    }
                };
                let message = format!("{} of {name} is not traced{others}: {reason}", function.path);
                self.sink.emit(Event::Warning { message, help: None });
            }
        }
        sealed::write(&folder.trace(), &traces)
    }

    fn cells(&self, plan: &Plan, builds: &[Build]) -> anyhow::Result<Vec<PlannedCell>> {
        let tests: Vec<Option<Vec<DiscoveredTest>>> = builds.iter().map(listed).collect();
        let not_measured: Vec<Vec<NotMeasured>> = builds.iter().map(Build::not_measured).collect();
        for (build, revision) in builds.iter().zip(&plan.revisions) {
            let executables = build.entry().into_iter().flat_map(|entry| &entry.provenance.executables);
            for executable in executables {
                if let Some(reason) = &executable.unlisted {
                    let name = format!("{}::{}", executable.package, executable.binary);
                    let message = format!("cannot list the tests of {name} in {}: {reason}", revision.name);
                    self.sink.emit(Event::Warning { message, help: None });
                }
            }
        }
        let listed = listed_revisions(plan, builds, &tests, &not_measured);
        if tests.iter().all(Option::is_none) {
            // Every build failed, and each failure was reported. There are no cells without a test.
            return Ok(Vec::new());
        }
        let cells = cells::cells(&plan.request, &listed)?;
        for warning in cells.warnings {
            self.sink.emit(Event::Warning { message: warning.to_string(), help: warning.help });
        }
        Ok(cells.cells)
    }
}

/// Returns the content of `builds.json`: what a report needs to know which builds are comparable.
fn stored_builds(plan: &Plan, builds: &[Build], mut completed: AllCompleted) -> BTreeMap<usize, StoredBuild> {
    let stored = |(index, build): (usize, &Build)| {
        let mut stored = stored_build(build);
        if build.entry().is_some() {
            // A build may be that of another commit with the same sources.
            stored.facts.set(Fact::Commit, plan.revisions[index].commit.clone());
        }
        stored.notes = build.entry().map(|entry| entry.notes(&plan.revisions[index])).unwrap_or_default();
        if let Some(completed) = completed.remove(&index) {
            stored.added_tests = completed.added;
            stored.notes.extend(completed.notes);
        }
        (index, stored)
    };
    builds.iter().enumerate().map(stored).collect()
}

/// Returns a revision's entry in `builds.json`, without notes.
pub(crate) fn stored_build(build: &Build) -> StoredBuild {
    match build {
        Build::Done(entry) => StoredBuild {
            facts: facts(&entry.provenance),
            not_measured: entry.not_measured(),
            ..StoredBuild::default()
        },
        Build::Failed(failure) => StoredBuild {
            failure: Some(FailureFacts {
                build_failed: failure.first_errors.clone(),
                lockfile: failure.lockfile.clone(),
            }),
            ..StoredBuild::default()
        },
    }
}

fn facts(provenance: &Provenance) -> BuildFacts {
    let KeyInputs { arguments, toolchain, overlay, environment, shim, .. } = &provenance.key_inputs;
    // As they are stored: a build may be new, or of the store.
    let inputs = provenance.key_inputs.redacted();
    let is_run = arguments.first().is_some_and(|command| command == "run");
    let usual_profile = if is_run { "dev" } else { "test" };
    let profile = arguments.windows(2).find(|pair| pair[0] == "--profile");
    let profile = profile.map_or(usual_profile, |pair| pair[1].as_str());
    let toolchain = toolchain.lines().find(|line| line.starts_with("rustc "));
    let features = overlay.get("external").cloned().unwrap_or_else(|| features_of(arguments));
    let packages = Some(provenance.packages.join("\n")).filter(|packages| !packages.is_empty());
    let facts = [
        (Fact::Key, Some(provenance.key.clone())),
        (Fact::Commit, Some(provenance.commit.clone())),
        (Fact::Sources, Some(provenance.sources.clone())),
        (Fact::Toolchain, toolchain.map(str::to_owned)),
        (Fact::Profile, Some(profile.to_owned())),
        (Fact::Target, provenance.target.clone()),
        (Fact::Features, Some(features)),
        (Fact::Lock, provenance.lock.clone()),
        (Fact::Packages, packages),
        (Fact::Shim, Some(shim.clone())),
        (Fact::Environment, Some(hashes_of(&inputs.environment))),
        (Fact::Configuration, Some(inputs.configuration.clone())),
        (Fact::Outside, provenance.outside.as_ref().map(OutsideInputs::hash)),
        (Fact::Overlay, (!inputs.overlay.is_empty()).then(|| hashes_of(&inputs.overlay))),
        (Fact::Flags, environment.get("RUSTFLAGS").map(|flags| redaction::setting(flags).into_owned())),
    ];
    facts.into_iter().filter_map(|(fact, text)| Some((fact, text?))).collect()
}

/// Returns a line for each input, with a hash in the place of its value: `RUSTC 0123456789abcdef`.
fn hashes_of(inputs: &BTreeMap<String, String>) -> String {
    let line = |(name, value): (&String, &String)| {
        let hash = blake3::hash(value.as_bytes()).to_hex();
        format!("{name} {}", &hash[..16])
    };
    inputs.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn features_of(arguments: &[String]) -> String {
    let value = arguments.windows(2).find(|pair| pair[0] == "--features").map(|pair| pair[1].clone());
    let flags = ["--all-features", "--no-default-features"];
    let flags = arguments.iter().filter(|argument| flags.contains(&argument.as_str())).cloned();
    flags.chain(value).collect::<Vec<_>>().join(" ")
}

/// Returns the folder for the runs of the user's workspace, below cargo's target folder. Git
/// ignores it. In a target folder outside of the repository, each repository has a folder of its own.
pub fn runs_folder(repository: &Repository, workspace: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    if repository.is_bare() {
        // A bare repository has no working tree and so no target folder.
        return Ok(repository.start().join("memprof-runs"));
    }
    let workspace = repository.root().join(workspace);
    let named = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"].iter().find_map(std::env::var_os);
    let target = match named.filter(|folder| !folder.is_empty()) {
        Some(folder) => repository.start().join(paths::utf8(folder.into())?),
        None => match CargoConfig::read(&workspace, &[], Includes::Followed)?.target_directory() {
            Some(folder) => paths::utf8(folder)?,
            None => workspace.join("target"),
        },
    };
    let runs = run_folder::runs(&target);
    // Cargo's configuration can name one target folder for all repositories.
    let is_shared = !paths::is_inside(&target, repository.root());
    Ok(if is_shared { runs.join(cache::folder_name(repository)) } else { runs })
}

/// Creates the folder of a new comparison, and points the link `latest` to it.
pub fn create_folder(runs: &Utf8Path, plan: &Plan) -> anyhow::Result<RunFolder> {
    let folder = RunFolder(runs.join(&plan.id));
    begin(&folder, plan)?;
    announce(runs, &plan.id)?;
    Ok(folder)
}

/// Writes the files of a new comparison that are known before its first test. Whatever ends it while it waits or
/// builds, reports say that it has not finished.
pub(crate) fn begin(folder: &RunFolder, plan: &Plan) -> anyhow::Result<()> {
    fs_err::create_dir_all(&folder.0)?;
    unfinished::note(folder, unfinished::UNTIL_THE_END)?;
    fill_folder(folder, plan)
}

/// Points the link `latest` to a new run, and lets git ignore the runs.
pub fn announce(runs: &Utf8Path, id: &str) -> anyhow::Result<()> {
    ignore_runs(runs)?;
    point_latest(runs, id)
}

/// Lets git ignore the runs. The user may not ignore the target folder, but a run must not be part of
/// the working tree that it measures.
pub fn ignore_runs(runs: &Utf8Path) -> anyhow::Result<()> {
    let ignored = runs.join(".gitignore");
    if regular_file::read(&ignored).ok().as_deref() != Some(b"*\n") {
        write_whole(&ignored, b"*\n")?;
    }
    Ok(())
}

/// Points the link `latest` to a run. A file or a folder of that name is the user's, and stays.
fn point_latest(runs: &Utf8Path, id: &str) -> anyhow::Result<()> {
    let latest = runs.join("latest");
    if latest.exists() && !latest.is_symlink() {
        return Ok(());
    }
    let partial = tempfile::Builder::new().prefix(".latest-").make_in(runs, |path| symlink(id, path))?;
    partial.into_temp_path().persist(&latest).with_context(|| format!("could not point {latest} to {id}"))
}

/// Removes a run that an error ended before it measured anything, and that cannot continue: for example, `-k` matched
/// no test, or another run has the lock. `latest` is then the run before it.
pub fn discard_unmeasured(folder: &RunFolder, error: &anyhow::Error) -> anyhow::Result<()> {
    let is_held = matches!(error.downcast_ref(), Some(LockError::Held { .. }));
    if !is_held && !error.is::<UserError>() || folder.cells().exists() {
        return Ok(());
    }
    let runs = folder.0.parent().context("a run's folder is in another one")?;
    fs_err::remove_dir_all(&folder.0)?;
    match kept_runs(runs).last() {
        Some(newest) => point_latest(runs, newest),
        None if runs.join("latest").is_symlink() => Ok(fs_err::remove_file(runs.join("latest"))?),
        None => Ok(()),
    }
}

/// Returns the ids of the stored runs, oldest first.
pub fn kept_runs(runs: &Utf8Path) -> Vec<String> {
    let mut known: Vec<String> = runs
        .read_dir_utf8()
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        // `latest` is a link to one of them.
        .filter(|entry| !entry.path().is_symlink() && entry.path().join("plan.json").exists())
        .map(|entry| entry.file_name().to_owned())
        .collect();
    known.sort();
    known
}

/// The runs whose times are read for an estimate.
const PAST_RUNS: usize = 3;

/// Returns how long tests took in the newest runs beside this one.
pub fn past_times(folder: &RunFolder) -> PastTimes {
    folder.0.parent().map_or_else(PastTimes::default, |runs| times_in(runs, Some(folder)))
}

/// Returns how long tests took in the newest of these runs, apart from one.
pub fn times_in(runs: &Utf8Path, but: Option<&RunFolder>) -> PastTimes {
    let newest_first = kept_runs(runs).into_iter().rev().map(|id| RunFolder(runs.join(id)));
    PastTimes::of_runs(newest_first.filter(|one| Some(one) != but).take(PAST_RUNS))
}

/// Writes the files of a new run or search that are known before its first test.
pub fn fill_folder(folder: &RunFolder, plan: &Plan) -> anyhow::Result<()> {
    fs_err::create_dir_all(&folder.0)?;
    sealed::write(&folder.environment(), &environment::facts())?;
    sealed::write(&folder.plan(), &stored_plan::sealed(plan))?;
    continuation::begin(&plan.id);
    Ok(())
}

/// Finds a stored run by its id, its folder, or `latest`.
pub fn find_run(runs: &Utf8Path, start: &Utf8Path, name: &str) -> anyhow::Result<RunFolder> {
    let places = [start.join(name), runs.join(name)];
    if let Some(folder) = places.into_iter().map(RunFolder).find(|folder| folder.plan().exists()) {
        let folder = folder.0.canonicalize_utf8().context("a run's folder")?;
        return Ok(RunFolder(folder));
    }
    let known = kept_runs(runs);
    let help = match known.last() {
        Some(newest) => match suggest::did_you_mean(name, known.iter().map(String::as_str)) {
            Some(suggestion) => format!("{suggestion} (all runs are in {runs})"),
            None => format!("write {newest} in its place, the newest run; all runs are in {runs}"),
        },
        None => "there are no runs yet; make one with `cargo memprof --refs main,.`".to_owned(),
    };
    Err(UserError::new(format!("no run '{name}' found")).help(help).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_is_a_link_to_the_newest_run_and_a_folder_of_that_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let runs = Utf8Path::from_path(folder.path()).unwrap();
        let latest = runs.join("latest");
        for id in ["one", "two"] {
            point_latest(runs, id).unwrap();
            assert_eq!(latest.read_link_utf8().unwrap(), id);
        }
        fs_err::remove_file(&latest).unwrap();
        fs_err::create_dir(&latest).unwrap();
        fs_err::write(latest.join("notes.txt"), "precious").unwrap();
        point_latest(runs, "three").unwrap();
        assert_eq!(fs_err::read_to_string(latest.join("notes.txt")).unwrap(), "precious");
        assert_eq!(runs.read_dir_utf8().unwrap().count(), 1, "nothing else is left");
    }
}
