//! The command of a run: the executable of the test, or the program, as cargo would run it, with the variables of the
//! shim and of what counts memory.

use std::collections::BTreeMap;

use camino::Utf8Path;

use crate::conditions::Conditions;
use crate::malloc_variables;
use crate::stdin_files;
use crate::temporary_folder::{self, TemporaryFolder};
use memprof_build::provenance::Executable;
use memprof_build::store::Entry;
use memprof_build::test_listing::{Start, as_cargo_would_run};
use memprof_gpu::visible_devices;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::symbols::test_body::TestBody;
use memprof_plan::cells::PlannedCell;
use memprof_plan::random_numbers::RandomNumbers;
use memprof_plan::request::{Request, TraceRequest};
use memprof_support::process::Command;

/// What the command of a run depends on.
pub(crate) struct TestCommand<'a> {
    pub planned: &'a PlannedCell,
    /// The build.
    pub entry: &'a Entry,
    pub executable: &'a Executable,
    pub request: &'a Request,
    /// Variables that make the process count GPU memory and the C library's allocator.
    pub counting: &'a BTreeMap<&'static str, String>,
    /// The value for `CUDA_VISIBLE_DEVICES`, if the user chose devices.
    pub devices: Option<&'a str>,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Where the process writes its log.
    pub log: &'a Utf8Path,
    /// The folder of the comparison, which has the standard inputs of programs.
    pub folder: &'a RunFolder,
}

impl TestCommand<'_> {
    /// Returns the command, with all variables that the test process gets.
    ///
    /// # Errors
    /// The standard input of a program is not as it was when the comparison was planned.
    pub fn command(&self, temporary: Option<&TemporaryFolder>) -> anyhow::Result<Command> {
        let Self { planned, entry, executable, request, counting, devices, repeat, log, folder } = *self;
        let on_request = Some(request.on_request.join(",")).filter(|metrics| !metrics.is_empty());
        let seed = request.settings.random.seed(&self.cell(), repeat);
        let command = test_command(entry, executable, planned, request, log)
            .envs(counting)
            .envs(self.preload())
            .envs(seed.map(|seed| ("MEMPROF_RANDOM", seed)))
            .envs(temporary.map(|folder| (temporary_folder::VARIABLE, &folder.path)))
            .envs(request.settings.trim.then_some(("MEMPROF_TRIM", "1")))
            .envs(on_request.map(|metrics| ("MEMPROF_METRICS", metrics)))
            .envs(devices.map(|value| (visible_devices::VISIBLE, value)));
        let stdin = planned.cell.program.as_ref().and_then(|program| program.stdin.as_ref());
        Ok(match stdin {
            Some(stdin) => command.input_file(stdin_files::verified(folder, request, stdin)?),
            None => command,
        })
    }

    /// Creates the run's folder for temporary files, if it has the random numbers of other runs. The user's own
    /// setting of the folder wins.
    pub fn temporary_folder(&self, conditions: &Conditions<'_>) -> anyhow::Result<Option<TemporaryFolder>> {
        let is_set = [&self.planned.env, &self.executable.environment]
            .iter()
            .any(|variables| variables.contains_key(temporary_folder::VARIABLE));
        if is_set || self.request.settings.random == RandomNumbers::Own {
            return Ok(None);
        }
        conditions.temporary.create(&self.folder.0, &self.cell(), conditions.sink)
    }

    /// The cell, whatever the revision.
    fn cell(&self) -> String {
        let cell = &self.planned.cell;
        format!("{} {:?}", cell.full_name(), cell.params)
    }

    /// Returns the loader's variable that loads the library in front of the C library's allocator, if
    /// there is one.
    fn preload(&self) -> Option<(&'static str, String)> {
        let library = self.counting.get(malloc_variables::LIBRARY)?;
        let name = malloc_variables::PRELOAD;
        let set = self.planned.env.get(name).or_else(|| self.executable.environment.get(name));
        let users = set.cloned().or_else(|| std::env::var(name).ok());
        Some((name, malloc_variables::preload(library, users.as_deref())))
    }
}

/// Returns the variables for tracing; none if nothing is traced.
fn trace_variables(request: &TraceRequest) -> BTreeMap<&'static str, String> {
    if request.is_empty() {
        return BTreeMap::new();
    }
    let mut variables = BTreeMap::from([("MEMPROF_TRACE_EVENTS", request.max_events.to_string())]);
    if request.every > 1 {
        variables.insert("MEMPROF_TRACE_EVERY", request.every.to_string());
    }
    if request.lines_per_call {
        variables.insert("MEMPROF_TRACE_PER_CALL", "1".to_owned());
    }
    if !request.columns.is_empty() {
        let columns: Vec<&str> = request.columns.iter().map(|column| column.as_str()).collect();
        variables.insert("MEMPROF_TRACE_COLUMNS", columns.join(","));
    }
    variables
}

/// Returns the variable that tells the shim where the test's body is called, or why that is unknown.
fn body_variable(body: &TestBody) -> (&'static str, String) {
    match body {
        TestBody::At(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(|address| format!("{address:x}")).collect();
            ("MEMPROF_BODY", addresses.join(","))
        }
        TestBody::Unknown(reason) => ("MEMPROF_BODY_ABSENT", reason.clone()),
    }
}

/// Variables that a shell or a terminal sets anew. `std::process::Command` copies all variables to the heap, and with
/// `TERM`, libtest reads that terminal's description: the figures would depend on where the tool was started.
const OF_THE_SESSION: [&str; 10] = [
    "COLUMNS",
    "LINES",
    "OLDPWD",
    "SHLVL",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "TERM",
    "TERM_SESSION_ID",
    "WINDOWID",
    "_",
];

/// Returns `EXE --exact NAME --nocapture --test-threads=1` as cargo would run it, with the log's
/// path.
fn test_command(
    entry: &Entry,
    executable: &Executable,
    planned: &PlannedCell,
    request: &Request,
    log: &Utf8Path,
) -> Command {
    let mut command = as_cargo_would_run(Start {
        executable: &entry.folder.join(&executable.file),
        runner: &entry.provenance.runner,
        directory: &executable.directory,
        environment: &executable.environment,
        clean_env: request.clean_env.as_ref(),
    });
    let trace = trace_variables(&request.trace);
    if executable.is_program {
        command = command.args(&planned.args);
    }
    if executable.harness {
        let name = planned.cell.test.name.as_str();
        command = command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
        let ignored = executable.tests.iter().any(|test| test.name == name && test.ignored);
        command = command.args(ignored.then_some("--include-ignored"));
    }
    if let Some(library) = executable.library {
        let name = planned.cell.test.name.as_str();
        let ignored = executable.tests.iter().any(|test| test.name == name && test.ignored);
        command = library.run_one(command, name, ignored);
    }
    let inherited = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let command = inherited.filter(|name| name.starts_with("MEMPROF_LOG")).fold(command, Command::env_remove);
    let body = executable.body.as_ref().map(body_variable);
    let shim: BTreeMap<&str, &str> = [("MEMPROF_LOG", log.as_str())]
        .into_iter()
        .chain(trace.iter().map(|(name, value)| (*name, value.as_str())))
        .chain(executable.heap_absent.as_deref().map(|reason| ("MEMPROF_HEAP_ABSENT", reason)))
        .chain(executable.harness.then_some(("MEMPROF_HARNESS_TEST", planned.cell.test.name.as_str())))
        .chain(body.as_ref().map(|(name, value)| (*name, value.as_str())))
        .collect();
    // A backtrace keeps tens of MiB of symbols on the heap, even one that a `should_panic` test
    // catches.
    let configured = executable.environment.contains_key("RUST_BACKTRACE");
    let command = if configured { command } else { command.env("RUST_BACKTRACE", "0") };
    OF_THE_SESSION.iter().fold(command, Command::env_remove).envs(&planned.env).envs(shim)
}
