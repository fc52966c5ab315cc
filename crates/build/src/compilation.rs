//! One call of cargo. It builds a checkout through our compiler wrapper. Instead of running the
//! tests, it calls our runner for each test executable, which only notes how cargo would run it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::bail;
use camino::Utf8Path;

use crate::adapters;
use crate::build_key::build_environment;
use crate::cargo::command;
use crate::cargo::configuration::{self, CargoConfig};
use crate::cargo::lockfile::Lockfile;
use crate::cargo::member_versions;
use crate::cargo::messages::Messages;
use crate::cargo::toolchain::Toolchain;
use crate::compiled_copies::NeededCopies;
use crate::inject::checkout_edits;
use crate::job::Job;
use crate::line_tables;
use crate::noting_runner;
use crate::own_program;
use crate::prepared_source::PreparedSource;
use crate::shim::{CompiledShim, MissingShim};
use crate::trace::dependency_copies::EditedCopy;
use crate::traced_sources;
use crate::typed_names;
use crate::wrapper;
use memprof_support::event::Event;
use memprof_support::process::Command;
use memprof_support::redaction;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The result of a call of cargo.
pub(crate) struct Compiled {
    /// Cargo's messages about its artifacts.
    pub messages: Messages,
    /// The standard error.
    pub stderr: String,
    /// Whether it succeeded.
    pub success: bool,
    /// The folder with the runner's notes.
    pub notes: tempfile::TempDir,
    /// The target, if it is not the host.
    pub target: Option<String>,
    /// The copies of crates outside of the repository that the build needs.
    pub copies: NeededCopies,
}

impl Compiled {
    /// Returns what is known before cargo is called.
    pub fn before(job: &Job<'_>, prepared: &PreparedSource) -> anyhow::Result<Self> {
        let target = job.target(&job.config()?)?;
        fs_err::create_dir_all(job.inputs.cache.notes())?;
        let notes = tempfile::tempdir_in(job.inputs.cache.notes())?;
        let copies = NeededCopies::from_copies(&prepared.copies, target.as_deref());
        let target = target.filter(|target| *target != job.toolchain.host());
        let (messages, stderr) = Default::default();
        Ok(Self { messages, stderr, success: true, notes, target, copies })
    }

    /// Adds what cargo said in another call.
    pub fn join(&mut self, other: Self) {
        self.messages.join(other.messages);
        if !other.success {
            self.stderr.push_str(&other.stderr);
        }
    }
}

/// A call of cargo.
pub(crate) struct CargoCall {
    /// The arguments, without the manifest.
    pub arguments: Vec<String>,
    /// The name under which this program wraps the compiler.
    pub wrapper: &'static str,
    /// The test executables that are not built, by the names that cargo gives them.
    pub unselected: BTreeSet<String>,
}

/// Calls cargo, and writes its output to the log.
pub(crate) fn compile(
    job: &Job<'_>,
    call: &CargoCall,
    prepared: &PreparedSource,
    log: &mut fs_err::File,
) -> anyhow::Result<Compiled> {
    let config = job.config()?;
    let target = job.target(&config)?;
    let mut done = Compiled::before(job, prepared)?;
    note_environment(job, done.notes.path())?;
    let shims = Shims::for_job(job, prepared, target.as_deref())?;
    let links = own_program::links(job.inputs.cache)?;
    let runner = own_program::Runner::in_folder(&links)?;
    let command = cargo(job, call, prepared, &config, &shims, (&links, &runner.path, done.notes.path()))?;
    writeln!(log, "$ {command}")?;
    done.copies.remove_others(&traced_sources::target_folder(job)?)?;
    let missing = shims.missing()?;
    let Compiled { messages, stderr, .. } = &mut done;
    let mut compiled = 0;
    let status = std::thread::scope(|scope| {
        // Cargo begins with the dependencies, and the wrapper waits for the shim.
        let compiling = scope.spawn(|| compile_shims(missing, job.toolchain));
        let status = command.stream(
            job.inputs.interrupt,
            |line| {
                if let Some(crate_name) = messages.take(line, adapters::is_left_out) {
                    compiled += 1;
                    let name = job.revision().name.clone();
                    job.inputs.sink.emit(Event::BuildProgress { name, crate_name, compiled });
                }
            },
            |line| {
                stderr.push_str(&String::from_utf8_lossy(line));
                stderr.push('\n');
            },
        );
        // Without the shim, cargo fails too, and its message says less.
        compiling.join().map_err(|_| anyhow::anyhow!("the shim's compilation panicked"))??;
        status.map_err(|error| {
            if !error.is_missing_program() {
                return anyhow::Error::from(error);
            }
            UserError::new(format!("the build of {} finds no cargo on its PATH", job.revision().name))
                .help("if `env` sets PATH, the folder of cargo belongs to it")
                .into()
        })
    })?;
    *stderr = redaction::text(stderr).into_owned();
    log.write_all(stderr.as_bytes())?;
    if let Some(unreadable) = &messages.unreadable {
        bail!("cannot read cargo's message about an artifact: {unreadable}");
    }
    for error in &messages.errors {
        let text = error.message.rendered.as_deref().unwrap_or(&error.message.message);
        writeln!(log, "{}", redaction::text(text))?;
    }
    done.success = status.success();
    Ok(done)
}

/// The shims that a build needs.
struct Shims<'a> {
    /// The target, if one is set.
    target: Option<&'a str>,
    /// The shim for the tests.
    shim: CompiledShim,
    /// The shim for build scripts and procedural macros. They run on the host, and may also use a
    /// crate with the shim.
    of_host: Option<CompiledShim>,
    has_memory_crate: bool,
}

impl<'a> Shims<'a> {
    fn for_job(job: &Job<'_>, prepared: &PreparedSource, target: Option<&'a str>) -> anyhow::Result<Self> {
        let has_memory_crate = traced_sources::has_memory_crate(job)?;
        let is_checkpointed = job.checkpoints().next().is_some();
        let has_copies = prepared.copies.iter().any(EditedCopy::is_edited);
        let is_traced = has_copies || !prepared.tracing.is_empty() || is_checkpointed;
        let needs_host = target.is_some() && (is_traced || has_memory_crate);
        let of = |target| CompiledShim::locate(job.inputs.cache, job.toolchain, target);
        Ok(Self { target, shim: of(target), of_host: needs_host.then(|| of(None)), has_memory_crate })
    }

    /// Returns those that are not compiled yet, each with its target. They stay locked until they
    /// are.
    fn missing(&self) -> anyhow::Result<Vec<(MissingShim, Option<&'a str>)>> {
        let all =
            std::iter::once((&self.shim, self.target)).chain(self.of_host.iter().map(|shim| (shim, None)));
        let mut missing = Vec::new();
        for (shim, target) in all {
            missing.extend(shim.missing()?.map(|shim| (shim, target)));
        }
        Ok(missing)
    }
}

fn compile_shims(missing: Vec<(MissingShim, Option<&str>)>, toolchain: &Toolchain) -> anyhow::Result<()> {
    missing.into_iter().try_for_each(|(shim, target)| shim.compile(toolchain, target))
}

/// Cargo's settings for all builds. With `-Z panic-abort-tests`, which a nightly cargo takes from its
/// configuration, libtest would run each test in a process of its own, which is not measured.
const SETTINGS: [(&str, &str); 2] =
    [("CARGO_TERM_COLOR", "never"), ("CARGO_UNSTABLE_PANIC_ABORT_TESTS", "false")];

/// Returns the call of cargo, with the wrappers and the runner in its environment.
fn cargo(
    job: &Job<'_>,
    call: &CargoCall,
    prepared: &PreparedSource,
    config: &CargoConfig,
    shims: &Shims<'_>,
    (links, runner, notes): (&Utf8Path, &Utf8Path, &Path),
) -> anyhow::Result<Command> {
    let (inputs, toolchain) = (job.inputs, job.toolchain);
    let Shims { target, shim, of_host, has_memory_crate } = shims;
    let (target, has_memory_crate) = (*target, *has_memory_crate);
    let with_host = |mut wrapping: wrapper::WrapperShim| {
        wrapping.has_target = target.is_some();
        wrapping.in_build = of_host.as_ref().map(|shim| shim.in_build(&wrapping));
        wrapping
    };
    let lock = lock_of(prepared)?;
    let wrapping = wrapper::WrapperShim {
        adapters: shim.adapters(&lock, target),
        unselected: call.unselected.clone(),
        ..with_host(shim.wrapping(config.workspace_wrapper()))
    };
    let triple = target.unwrap_or(toolchain.host());
    let metadata = || checkout_edits::metadata(toolchain, &prepared.manifest, &inputs.workspace());
    let is_shared = matches!(job.lockfile, Lockfile::Given(_));
    let arguments = member_versions::added(&call.arguments, &lock, is_shared, metadata);
    let command = toolchain
        .cargo()
        .current_dir(inputs.workspace())
        .args(configuration::with_runner(&arguments, triple, runner)?)
        // Compiled files and their sources are looked for in the target folder.
        .args(config.build_directory_arguments(toolchain, &traced_sources::target_folder(job)?))
        .arg("--manifest-path")
        .arg(&prepared.manifest)
        .envs(job.requested_environment())
        .envs(line_tables::variable(job)?)
        .envs(typed_names::variable(job, &build_environment(job))?)
        .env("RUSTC_WORKSPACE_WRAPPER", links.join(call.wrapper))
        .env(command::runner_variable(triple), runner)
        .env(wrapper::SHIM, serde_json::to_string(&wrapping)?)
        .env(noting_runner::NOTES, notes)
        .envs(SETTINGS);
    let copies: Vec<_> = prepared.copies.iter().filter(|copy| copy.is_edited()).collect();
    if copies.is_empty() && !prepared.beyond_members && !has_memory_crate {
        return Ok(command);
    }
    let dependencies = wrapper::Dependencies {
        shim: with_host(shim.wrapping_dependencies(config.compiler_wrapper())),
        // Otherwise these crates are as in builds without this wrapper, with which they share a target
        // folder.
        checkout: (prepared.beyond_members || has_memory_crate).then(|| inputs.checkout.clone().into()),
        has_memory_crate,
        copies: copies.iter().map(|copy| copy.place.clone()).collect(),
    };
    Ok(command
        .env("RUSTC_WRAPPER", links.join(wrapper::WRAP_DEPENDENCY_NAME))
        .env(wrapper::DEPENDENCIES, serde_json::to_string(&dependencies)?))
}

/// Returns the text of the lock file that cargo will read; empty if there is none yet.
fn lock_of(prepared: &PreparedSource) -> std::io::Result<String> {
    match followed::text(prepared.manifest.with_file_name("Cargo.lock")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Notes the environment that cargo gets, so that the runner can tell which variables cargo added.
fn note_environment(job: &Job<'_>, notes: &Path) -> anyhow::Result<()> {
    let mut given = job.environment();
    given.extend(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let given = noting_runner::GivenEnvironment::from_variables(&given);
    Ok(fs_err::write(notes.join(noting_runner::GIVEN), serde_json::to_vec(&given)?)?)
}
