//! Builds a revision into the store: prepares the source, calls cargo, and repeats this without the
//! edits that failed, until all artifacts are proven to come from this source.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticSpan};

use crate::adapters;
use crate::artifacts::{Artifacts, Collected};
use crate::build_tree::BuildTree;
use crate::compilation::{self, CargoCall, Compiled};
use crate::failure::{BuildFailure, Fault};
use crate::freshness::{self, Check, Stale};
use crate::inserted_checkpoints;
use crate::job::Job;
use crate::outside_inputs::OutsideInputs;
use crate::prepared_source::{self, PreparedSource, SkippedEdits};
use crate::programs::{self, Programs};
use crate::programs_of_tests;
use crate::proven_sources;
use crate::provenance::{self, KeyInputs, Provenance};
use crate::same_sources;
use crate::shared_files::SharedFiles;
use crate::store::{self, Draft, Entry};
use crate::traced_sources;
use crate::watched;
use memprof_plan::listing::NotMeasured;
use memprof_plan::lock_differences::{LockedPackage, locked};
use memprof_support::regular_file;
use memprof_support::regular_file::followed;

/// How many builds of earlier sessions share their files with a new one, those that were used last.
const SHARING: usize = 2;

/// A revision's build.
#[derive(Clone, Debug)]
pub enum Build {
    /// The executables are in the store.
    Done(Box<Entry>),
    /// The revision does not build.
    Failed(BuildFailure),
}

impl Build {
    /// Returns the entry in the store, if the build succeeded.
    pub fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Done(entry) => Some(entry),
            Self::Failed(_) => None,
        }
    }

    /// Returns the executables whose tests cannot be measured, if the build succeeded.
    pub fn not_measured(&self) -> Vec<NotMeasured> {
        self.entry().map(Entry::not_measured).unwrap_or_default()
    }

    /// Returns the programs of its packages, if they lack one of the request.
    pub fn known_programs(&self) -> &[String] {
        self.entry().map(|entry| entry.provenance.known_programs.as_slice()).unwrap_or_default()
    }

    /// Returns the failure, if the build failed.
    pub fn failure(&self) -> Option<&BuildFailure> {
        match self {
            Self::Done(_) => None,
            Self::Failed(failure) => Some(failure),
        }
    }
}

/// What to do next if cargo takes crates for fresh that were compiled from other sources.
#[derive(Clone, Copy)]
enum Remedy {
    /// Remove what was compiled from them.
    Remove,
    /// Remove the target folder.
    Rebuild,
    /// Report an error.
    Fail,
}

/// Builds the revision into the store, without the unselected executables, and writes its log to this file.
pub(crate) fn build(
    job: &Job<'_>,
    tree: &mut BuildTree<'_>,
    key_inputs: KeyInputs,
    unselected: &BTreeSet<String>,
    log: &Utf8Path,
) -> anyhow::Result<Build> {
    fs_err::create_dir_all(log.parent().context("the log has a folder")?)?;
    let mut log = fs_err::File::from_parts(regular_file::create_over(log)?, log);
    let mut remedy = Remedy::Remove;
    let mut skipped = SkippedEdits::default();
    loop {
        let mut prepared = prepared_source::prepare(job, tree, &skipped)?;
        let unwatched = proven_sources::remove_outdated(job, tree, &prepared)?;
        let (mut compiled, programs) = compile(job, (&key_inputs, unselected), &prepared, &mut log)?;
        // A target that does not compile has errors although cargo succeeded: see `stand_in`.
        let errors = &compiled.messages.errors;
        let has_failed = !compiled.success || !programs.failed.is_empty();
        let may_be_ours = has_failed || prepared.has_edits_at(job, errors);
        if may_be_ours {
            // What was compiled without an error is fresh in the next build.
            let check = proven_sources::check(job, tree, &prepared, &compiled.messages, &unwatched)?;
            // The error may be of a crate that was compiled from other sources.
            let is_first = matches!(remedy, Remedy::Remove);
            if has_failed && is_first && !check.stale.is_empty() && !job.inputs.is_interrupted() {
                remedy = remedy.apply(job, &check.stale, &BTreeSet::new())?;
                continue;
            }
        }
        if may_be_ours
            && !job.inputs.is_interrupted()
            && prepared.skip_suspects(&mut skipped, job, errors, &mut log)?
        {
            continue;
        }
        if !compiled.success {
            return Ok(Build::Failed(failure_of(job, &compiled)));
        }
        let entry = NewEntry::new(job, &key_inputs)?;
        let artifacts = entry.artifacts(&prepared, &compiled);
        // The programs of the tests are rarely out of date, but cargo takes a while to find that out.
        let (collected, of_tests) = std::thread::scope(|scope| {
            let collecting =
                scope.spawn(|| artifacts.executables(&programs.built, &entry.runner, &entry.key));
            let of_tests =
                programs_of_tests::build(job, &key_inputs, &prepared, &compiled.messages, &mut log);
            (collecting.join(), of_tests)
        });
        let collected = collected.map_err(|_| anyhow::anyhow!("the copying of executables panicked"))?;
        let of_tests = of_tests?;
        compiled.messages.artifacts.extend(of_tests.artifacts);
        let check = proven_sources::check(job, tree, &prepared, &compiled.messages, &unwatched)?;
        compiled.copies.check_places(&compiled.messages.artifacts)?;
        let of_others = compiled.copies.remove_other_artifacts(&compiled.messages.artifacts)?;
        if check.stale.is_empty() && of_others.is_empty() {
            warn_of_unwrapped_allocators(job, &skipped);
            let failure = failure_of(job, &compiled);
            let built = (compiled, programs, of_tests.error);
            let mut entry = entry.finish(tree, prepared, built, collected?, key_inputs, check)?;
            let has_nothing = entry.provenance.executables.is_empty() && entry.provenance.unproven.is_empty();
            let is_failed = has_nothing && !entry.provenance.failed_targets.is_empty();
            if is_failed {
                return Ok(Build::Failed(failure));
            }
            entry.hints = failure.hints;
            return Ok(Build::Done(Box::new(entry)));
        }
        remedy = remedy.apply(job, &check.stale, &of_others)?;
    }
}

/// Builds the programs of the request, and then the tests. Cargo leaves a program for the tests where
/// it expects it, in place of the one with the shim.
fn compile(
    job: &Job<'_>,
    (key_inputs, unselected): (&KeyInputs, &BTreeSet<String>),
    prepared: &PreparedSource,
    log: &mut fs_err::File,
) -> anyhow::Result<(Compiled, Programs)> {
    let mut all = Compiled::before(job, prepared)?;
    let programs = programs::build(job, prepared, &mut all, log)?;
    if !job.wants_tests() {
        all.success = programs.failed.is_empty() || !programs.built.is_empty();
        return Ok((all, programs));
    }
    let call = CargoCall {
        arguments: key_inputs.arguments.clone(),
        wrapper: job.wrapper()?,
        unselected: unselected.clone(),
    };
    let mut compiled = compilation::compile(job, &call, prepared, log)?;
    // The stale sources of a program are found like those of tests.
    compiled.join(Compiled { success: true, ..all });
    Ok((compiled, programs))
}

/// Returns the failure of a call of cargo, with hints about what was put into the sources.
fn failure_of(job: &Job<'_>, compiled: &Compiled) -> BuildFailure {
    let mut failure = BuildFailure::from_compiler(&compiled.messages, &compiled.stderr);
    let errors: Vec<_> = compiled.messages.errors.iter().map(|error| &error.message).collect();
    if is_of_overlay(job, &errors) {
        failure.fault = Fault::Overlay;
    } else if errors.iter().any(|error| error.code.is_some()) {
        failure.hints.extend(job.toolchain.too_new_for(job.revision()));
    }
    failure.hints.extend(inserted_checkpoints::hints(job, &errors));
    failure.hints.extend(adapters::hint(&failure.first_errors, &compiled.messages.kept));
    failure
}

/// Whether all errors are in files of the overlay.
fn is_of_overlay(job: &Job<'_>, errors: &[&Diagnostic]) -> bool {
    let overlay = job.overlay();
    let is_ours = |span: &DiagnosticSpan| {
        overlay.iter().any(|file| Utf8Path::new(&span.file_name).ends_with(&file.destination))
    };
    // Without a place is only the number of errors.
    let mut placed = errors.iter().filter(|error| !error.spans.is_empty()).peekable();
    placed.peek().is_some()
        && placed.all(|error| error.spans.iter().filter(|span| span.is_primary).all(is_ours))
}

fn workspace_of(prepared: &PreparedSource) -> &Utf8Path {
    prepared.manifest.parent().unwrap_or(&prepared.manifest)
}

impl Remedy {
    /// Makes cargo compile the stale sources again. The libraries of other crates that were
    /// compiled from another copy are removed already. Returns the remedy to try after this one.
    fn apply(self, job: &Job<'_>, stale: &Stale, of_others: &BTreeSet<Utf8PathBuf>) -> anyhow::Result<Self> {
        match self {
            Self::Remove => {
                freshness::remove_stale(stale)?;
                Ok(Self::Rebuild)
            }
            Self::Rebuild => {
                fs_err::remove_dir_all(traced_sources::target_folder(job)?)?;
                Ok(Self::Fail)
            }
            Self::Fail => bail!(
                "cargo reports {:?} as fresh, but compiled it from other sources; remove the cache with \
                 `cargo memprof clean` and try again",
                stale.keys().chain(of_others).collect::<BTreeSet<_>>()
            ),
        }
    }
}

/// An entry of the store that gets cargo's artifacts.
struct NewEntry<'a> {
    job: &'a Job<'a>,
    draft: Draft,
    key: String,
    shared: SharedFiles,
    runner: Vec<String>,
    target_folder: Utf8PathBuf,
    is_affected: bool,
}

impl<'a> NewEntry<'a> {
    fn new(job: &'a Job<'_>, key_inputs: &KeyInputs) -> anyhow::Result<Self> {
        let store = job.inputs.cache.store();
        let key = key_inputs.key();
        let newest: Vec<Utf8PathBuf> = same_sources::newest(&store).into_iter().take(SHARING).collect();
        Ok(Self {
            job,
            draft: Draft::new(&store, &key)?,
            key,
            shared: store::shared_files(&job.inputs.used_builds, &newest, &key_inputs.toolchain),
            runner: runner(job)?,
            target_folder: traced_sources::target_folder(job)?,
            is_affected: key_inputs.affected,
        })
    }

    fn artifacts<'b>(&'b self, prepared: &'b PreparedSource, compiled: &'b Compiled) -> Artifacts<'b> {
        let inputs = self.job.inputs;
        Artifacts {
            draft: &self.draft,
            messages: &compiled.messages,
            shared: &self.shared,
            known: &inputs.known_files,
            notes: compiled.notes.path(),
            checkout: &inputs.checkout,
            target: &self.target_folder,
            allocators: prepared.allocators.as_ref(),
            clean_env: inputs.plan.request.clean_env.as_ref(),
            toolchain: &self.job.toolchain.version,
            is_affected: self.is_affected,
        }
    }

    /// Copies what the executables need, and writes down where all this comes from.
    fn finish(
        self,
        tree: &BuildTree<'_>,
        prepared: PreparedSource,
        (compiled, programs, program_error): (Compiled, Programs, Option<String>),
        collected: Collected,
        key_inputs: KeyInputs,
        check: Check,
    ) -> anyhow::Result<Entry> {
        let Collected { executables, unproven, failed, absent_libraries } = collected;
        for event in absent_libraries {
            self.job.inputs.sink.emit(event);
        }
        for (path, content) in &prepared.injection {
            self.draft.add_injected(path, content)?;
        }
        let artifacts = self.artifacts(&prepared, &compiled);
        let companions = artifacts.companions(&executables)?;
        let (mut local_packages, outputs) = (artifacts.local_packages(), artifacts.outputs());
        local_packages.extend(prepared.members.iter().cloned());
        let (checkout, revision) = (&self.job.inputs.checkout, self.job.revision());
        let in_checkout = |path: &Utf8PathBuf| Some(path.strip_prefix(checkout).ok()?.to_owned());
        let compiled_files = check.read.iter().filter_map(in_checkout).collect();
        let watched = watched::find(&check.included, &compiled.messages, checkout);
        let own = self.job.inputs.own_folders();
        let (environment, known) = (self.job.environment(), &self.job.inputs.known_files);
        let outside = OutsideInputs::of_build(&compiled.messages, &check, own, &environment, known);
        let lock = match followed::read(workspace_of(&prepared).join("Cargo.lock")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            read => Some(read?),
        };
        let missing_submodules = tree.missing_submodules(revision);
        self.draft.finish(Provenance {
            version: provenance::VERSION,
            key: self.key,
            commit: revision.commit.clone(),
            key_inputs,
            packages: locked(lock.as_deref().unwrap_or_default()).iter().map(LockedPackage::line).collect(),
            lock: lock.map(|text| blake3::hash(&text).to_hex().to_string()),
            sources: check.digest,
            executables,
            unproven,
            failed_targets: failed.into_iter().chain(programs.failed).collect(),
            known_programs: programs.known,
            companions,
            program_error,
            injected_hash: store::hash_of_injected(&prepared.injection),
            injected: prepared.injection.into_keys().collect(),
            runner: self.runner,
            target: compiled.target,
            trace: prepared.tracing.facts,
            left_out: compiled.messages.kept,
            missing_submodules: missing_submodules.into_iter().map(|one| one.path).collect(),
            local_packages,
            outputs,
            watched,
            compiled: compiled_files,
            outside: Some(outside),
        })
    }
}

fn warn_of_unwrapped_allocators(job: &Job<'_>, skipped: &SkippedEdits) {
    for (file, reason) in &skipped.allocators {
        let message = format!("the #[global_allocator] in {file} of {} {reason}", job.revision().name);
        job.inputs.warn(message, Some("tests with this allocator have no heap metrics; all other tests do"));
    }
}

/// Returns the user's runner for test executables, program first; empty if there is none.
fn runner(job: &Job<'_>) -> anyhow::Result<Vec<String>> {
    let config = job.config()?;
    let target = job.target(&config)?;
    let target = target.as_deref();
    let cfgs = job.cfgs(&config, target, "runner")?;
    Ok(config.runner(target.unwrap_or(job.toolchain.host()), &cfgs).unwrap_or_default())
}
