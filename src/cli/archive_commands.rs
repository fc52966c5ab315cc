//! `build`, and `run --archive`: the two halves of a comparison whose tests run on another machine than they were built on.

use std::fmt::Write as _;

use anyhow::ensure;
use camino::Utf8Path;
use serde_json::{Value, json};

use crate::archive::contents::Packing;
use crate::archive::extracted_tree::StandIn;
use crate::archive::file::{Archive, Unpacked};
use crate::build::attempts::Build;
use crate::checkout::cache;
use crate::cli::arguments::{BuildCommandArguments, PresentationArguments, RunArguments};
use crate::cli::command_arguments::CleanArguments;
use crate::cli::commands::{Commands, ask, current_directory, repository};
use crate::cli::outputs::Output;
use crate::cli::reconcile::{self, RefsNeeded};
use crate::compare::noise;
use crate::git::resolve::{resolve, resolve_any, run_id};
use crate::gpu::watch::DeviceWatch;
use crate::plan::cells::PlannedCell;
use crate::plan::metric;
use crate::plan::resolved::{self, Plan};
use crate::results::run_folder::RunFolder;
use crate::results::stored;
use crate::run::runner::{Completion, Runner, write_whole};
use crate::run::session::{
    Interrupted, Session, create_folder, fill_folder, find_run, gpu_variables, read_plan,
};
use crate::support::bytes::Bytes;
use crate::support::event::{Event, Sink};
use crate::support::exit_code::ExitCode;
use crate::support::file_lock::{Lock, LockFile, WhenHeld};
use crate::support::user_error::UserError;

/// The folder of archives' runs, where the user stands: there is no target folder to keep them in.
pub(crate) const RUNS: &str = "memprof-runs";

/// The file in a run's folder that says which archive it ran.
const ORIGIN: &str = "archive.json";

impl Commands<'_> {
    /// Builds every revision, says where the executables are, and packs them if that is wanted.
    pub(crate) fn build(&self, arguments: &BuildCommandArguments) -> anyhow::Result<ExitCode> {
        let repository = repository()?;
        let presentation = PresentationArguments::default();
        // An archive is run and reported as a comparison; to build, one ref is enough.
        let needed = if arguments.archive.is_some() { RefsNeeded::Comparison } else { RefsNeeded::Any };
        let asked = ask(&arguments.request, &presentation, &repository, needed)?;
        let plan = match arguments.archive {
            Some(_) => resolve(&asked.request, &repository, self.console)?,
            None => resolve_any(&asked.request, &repository, self.console)?,
        };
        // What this machine lacks, the one that runs the archive may have: that is what archives are for.
        let elsewhere = |event: Event| match event {
            Event::AbsentLibraries { .. } => {}
            event => self.console.emit(event),
        };
        let sink: &dyn Sink = if arguments.archive.is_some() { &elsewhere } else { self.console };
        let session = Session::open(&repository, sink, self.interrupt)?;
        let _lock = session.lock(arguments.no_wait)?;
        // Nothing runs, so that there is no run; the logs of the builds are kept until the next ones.
        let folder = RunFolder(session.cache.folder().join("last-build"));
        if folder.0.exists() {
            fs_err::remove_dir_all(&folder.0)?;
        }
        fs_err::create_dir_all(&folder.0)?;
        let mut prepared = session.prepare(&plan, &folder)?;
        let mut text = String::new();
        for (revision, build) in plan.revisions.iter().zip(&prepared.builds) {
            let Build::Done(entry) = build else {
                writeln!(text, "{} ({}): build failed", revision.name, revision.short())?;
                continue;
            };
            writeln!(text, "{} ({}): {}", revision.name, revision.short(), entry.provenance.key)?;
            for executable in &entry.provenance.executables {
                let path = entry.folder.join(&executable.file);
                writeln!(text, "  {}::{}  {path}", executable.package, executable.binary)?;
            }
        }
        let built = prepared.builds.iter().filter(|build| build.entry().is_some()).count();
        if let Some(file) = arguments.archive.as_deref().filter(|_| built > 0) {
            let packing = Packing {
                plan: &plan,
                repository: &repository,
                folder: &folder,
                data: &arguments.data,
                metrics: &asked.metrics,
            };
            let written = packing.write(file, &mut prepared)?;
            writeln!(text, "wrote {file}: {}, blake3 {}", Bytes(written.bytes), written.hash)?;
        }
        self.console.finish();
        self.console.print(&text)?;
        Ok(if built == plan.revisions.len() { ExitCode::Success } else { ExitCode::Incomplete })
    }

    /// Runs what was built elsewhere, and reports it.
    pub(crate) fn run_archive(
        &self,
        file: &Utf8Path,
        arguments: &RunArguments,
        outputs: &[Output],
    ) -> anyhow::Result<ExitCode> {
        let execution = &arguments.execution;
        let archive = Archive::open(file)?;
        let archives = cache::archives(&cache::home()?);
        let when_held = if execution.no_wait { WhenHeld::Fail } else { WhenHeld::Wait };
        let lock = Lock::acquire(
            &LockFile::of_folder(archives.join("lock")),
            when_held,
            self.interrupt,
            self.console,
        )?;
        let unpacked = archive.unpack(&archives)?;
        let mut plan: Plan = unpacked.read_json("plan.json")?;
        reconcile::add_judging(&mut plan.request.judging, &arguments.request.judging);
        if let Some(file) = &arguments.request.judging.noise {
            plan.request.judging.noise = noise::read(file)?;
        }
        ensure!(plan.version == resolved::VERSION, "{file} has a plan of format {}", plan.version);
        if execution.dry_run {
            return self.print_json(&plan);
        }
        let packed = plan.request.tests.clone();
        if !execution.device.is_empty() {
            plan.request.give_devices(&execution.device);
        }
        let devices = DeviceWatch::open(when_held, self.console, self.interrupt);
        devices.check(plan.request.tests.iter().filter_map(|test| test.devices.as_ref()))?;
        let (plan, folder) = match &execution.resume {
            Some(name) => resumed(name, execution.run_folder.as_deref(), &unpacked)?,
            None => begun(asked_here(plan, arguments), execution.run_folder.as_deref(), &unpacked)?,
        };
        let mut cells: Vec<PlannedCell> = unpacked.read_json("cells.json")?;
        if let Some(test) = plan.request.tests.first().filter(|_| plan.request.tests != packed) {
            // Given by the flag, now or when the run that goes on was begun: the same for all.
            for cell in &mut cells {
                cell.devices.clone_from(&test.devices);
            }
        }
        let mut stand_in = StandIn::open(&unpacked)?;
        self.warn_of_paths(&unpacked, &stand_in);
        let builds = stand_in.builds()?;
        let gpu = gpu_variables(|| unpacked.injection_library());
        let runner = Runner {
            plan: &plan,
            gpu: &gpu,
            devices: &devices,
            folder: &folder,
            builds: &builds,
            cells: &cells,
            sink: self.console,
            interrupt: self.interrupt,
        };
        if runner.run(&mut stand_in)? == Completion::Interrupted {
            return Err(Interrupted.into());
        }
        drop((stand_in, devices, lock));
        let shown = &arguments.presentation.metrics;
        let metrics = if shown.is_empty() { &unpacked.manifest.metrics } else { shown };
        let results = stored::read(&folder)?;
        let code = self.present(&results, &folder, &arguments.presentation, outputs, metrics)?;
        let built = builds.iter().all(|build| build.entry().is_some());
        Ok(if built { code } else { code.worst(ExitCode::Incomplete) })
    }

    /// Removes what archives were unpacked to.
    pub(crate) fn clean_archives(&self, arguments: &CleanArguments) -> anyhow::Result<ExitCode> {
        let archives = cache::archives(&cache::home()?);
        let bytes = cache::bytes_on_disk(&archives);
        if arguments.dry_run {
            return self.print(&format!("would remove:\n{} {archives}\n", Bytes(bytes)));
        }
        let when_held = if arguments.no_wait { WhenHeld::Fail } else { WhenHeld::Wait };
        let lock = Lock::acquire(
            &LockFile::of_folder(archives.join("lock")),
            when_held,
            self.interrupt,
            self.console,
        )?;
        fs_err::remove_dir_all(&archives)?;
        drop(lock);
        self.print(&format!("removed {} ({bytes} bytes)\n", Bytes(bytes)))
    }

    fn warn_of_paths(&self, unpacked: &Unpacked, stand_in: &StandIn<'_>) {
        let Some(reason) = stand_in.elsewhere() else { return };
        let root = &unpacked.manifest.root;
        self.console.emit(Event::Warning {
            message: format!(
                "the tests were built below {root}, and {reason}: a test that has this path built in, as by \
                 env!(\"CARGO_MANIFEST_DIR\"), reads what lies there and not the archive's files"
            ),
            help: Some(format!(
                "build with {} set to a folder that no machine has, such as /var/tmp/memprof-archives",
                cache::HOME_VARIABLE
            )),
        });
    }
}

/// What is read on request may be asked for where the tests run, too.
fn asked_here(mut plan: Plan, arguments: &RunArguments) -> Plan {
    let shown = arguments.presentation.metrics.iter().chain(&plan.request.on_request);
    plan.request.on_request = metric::on_request(shown.map(String::as_str));
    plan
}

/// A new run's folder, with all that is known before the first test.
fn begun(
    mut plan: Plan,
    folder: Option<&Utf8Path>,
    unpacked: &Unpacked,
) -> anyhow::Result<(Plan, RunFolder)> {
    // The archive may be run many times; each is a run of its own.
    plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
    let current = current_directory()?;
    let folder = match folder {
        None => create_folder(&current.join(RUNS), &plan)?,
        Some(folder) => {
            let folder = RunFolder(current.join(folder));
            if folder.plan().exists() {
                let user_error = UserError::new(format!("{} holds a run already", folder.0));
                return Err(user_error.help("go on with it by --resume, or name another folder").into());
            }
            fill_folder(&folder, &plan)?;
            folder
        }
    };
    let from_build_host = unpacked.manifest.contents.keys().filter_map(|path| path.strip_prefix("run").ok());
    for path in from_build_host {
        let place = folder.0.join(path);
        fs_err::create_dir_all(place.parent().unwrap_or(&folder.0))?;
        fs_err::copy(unpacked.folder.join("run").join(path), place)?;
    }
    let origin = json!({ "blake3": unpacked.hash, "tool": unpacked.manifest.tool });
    write_whole(&folder.0.join(ORIGIN), &serde_json::to_vec_pretty(&origin)?)?;
    Ok((plan, folder))
}

/// The folder of a run that was cut off, if it is one of this archive.
fn resumed(name: &str, folder: Option<&Utf8Path>, unpacked: &Unpacked) -> anyhow::Result<(Plan, RunFolder)> {
    let current = current_directory()?;
    let folder = match folder {
        Some(folder) => find_run(&current.join(RUNS), &current, folder.as_str())?,
        None => find_run(&current.join(RUNS), &current, name)?,
    };
    let origin: Value = match fs_err::read(folder.0.join(ORIGIN)) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) => Value::Null,
    };
    if origin["blake3"] != unpacked.hash.as_str() {
        let user_error = UserError::new(format!("{} is not a run of this archive", folder.0));
        return Err(user_error.help("without --resume, a run of its own begins").into());
    }
    Ok((read_plan(&folder)?, folder))
}
