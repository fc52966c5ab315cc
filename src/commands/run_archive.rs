//! `run --archive`: runs tests that another machine built and packed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::Utf8Path;
use serde_json::{Value, json};

use crate::arguments::request::EnvironmentArguments;
use crate::arguments::run::RunArguments;
use crate::commands::context::CommandContext;
use crate::commands::courtesy;
use crate::kept_runs::{ARCHIVE_RUNS, current_directory};
use crate::output::destinations::Output;
use crate::output::present::Presentation;
use crate::request::continued;
use crate::request::explanation;
use crate::request::judging::add_judging;
use crate::request::secrets::of_flags;
use memprof_build::attempts::Build;
use memprof_build::checkout::cache;
use memprof_build::git::resolve::run_id;
use memprof_gpu::watch::DeviceWatch;
use memprof_judge::compare::{budget, noise};
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::shard_record::ShardRecord;
use memprof_judge::results::stored;
use memprof_plan::cells::PlannedCell;
use memprof_plan::clean_env::CleanEnv;
use memprof_plan::config::values::RepeatCount;
use memprof_plan::config::yaml::Scalar;
use memprof_plan::jobs::of_neighbours;
use memprof_plan::metric;
use memprof_plan::request::TestRequest;
use memprof_plan::resolved::{self, CellId, Plan};
use memprof_plan::sharding;
use memprof_run::archive::consistency;
use memprof_run::archive::contents::TIMES;
use memprof_run::archive::extracted_tree::{ExtractedTree, packed_builds};
use memprof_run::archive::file::{Archive, Unpacked};
use memprof_run::attribution::Attribution;
use memprof_run::delay::Delay;
use memprof_run::follow::Follow;
use memprof_run::malloc_variables::malloc_variables;
use memprof_run::runner::{Completion, Runner};
use memprof_run::same_machine;
use memprof_run::session::{create_folder, fill_folder, find_run, gpu_variables, past_times, read_plan};
use memprof_run::stored_plan::{self, GivenSecrets, Restoration};
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::file_lock::{Lock, LockFile};
use memprof_support::redaction;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;
use memprof_support::whole_file::write_whole;

/// Unpacks an archive, runs its tests, and reports them.
pub fn run_archive(
    context: CommandContext<'_>,
    file: &Utf8Path,
    arguments: &RunArguments,
    outputs: &[Output],
) -> anyhow::Result<ExitCode> {
    let CommandContext { console, interrupt } = context;
    let execution = &arguments.execution;
    let archive = Archive::open(file)?;
    let archives = cache::archives(&cache::home()?);
    let when_held = execution.waiting.when_held();
    let lock_file = LockFile::of_folder(archives.join("lock"));
    let lock = Lock::acquire(&lock_file, when_held, interrupt, console)?;
    cache::keep_salt(&cache::home()?)?;
    cache::remove_partial_archives(&archives)?;
    let unpacked = archive.unpack(&archives, console)?;
    let mut plan = packed_plan(&unpacked, arguments)?;
    let packed_cells: Vec<PlannedCell> = unpacked.read_json("cells.json")?;
    consistency::check(&plan, &packed_cells, unpacked.manifest.revisions.len())
        .map_err(|problem| unpacked.invalid(problem))?;
    if execution.dry_run {
        return context.print_plan(&plan, &plan);
    }
    let given_secrets = ArchiveSecrets::given(&arguments.request.environment, &mut plan, &unpacked)?;
    let packed_tests = plan.request.tests.clone();
    let packed_repeat = plan.request.repeat;
    if let Some(Scalar(RepeatCount(repeat))) = arguments.request.cells.settings.repeat {
        plan.request.repeat = repeat;
    }
    if let Some(shard) = execution.shard {
        sharding::take(&mut plan, shard);
    }
    if let Some(jobs) = arguments.request.jobs.jobs {
        plan.request.jobs = jobs;
    }
    if !execution.device.is_empty() {
        plan.request.give_devices(&execution.device);
    }
    plan.request.spread_over(&execution.devices);
    let devices = DeviceWatch::open(when_held, console, interrupt);
    devices.check(plan.request.tests.iter().filter_map(|test| test.devices.as_ref()))?;
    plan.request.device_pool.iter().try_for_each(|names| devices.pool(names).map(drop))?;
    let courtesy = execution.courtesy.as_ref();
    courtesy::check(context, courtesy, &plan, &devices)?;
    let run_folder = execution.run_folder.as_deref();
    let (plan, folder) = match &execution.resume {
        Some(name) => {
            let (mut plan, folder) = resumed(name, run_folder, &unpacked)?;
            let mut restoration = Restoration::of_run(&given_secrets.given);
            restoration.plan(&mut plan);
            restoration.finish()?;
            continued::refuse_new_pool(&execution.devices, &plan)?;
            plan.request.spread_over(&execution.devices);
            (plan, folder)
        }
        None => new_run(with_metrics(plan, arguments), run_folder, &unpacked)?,
    };
    let (unpacked, plan, folder, devices) = (&unpacked, &plan, &folder, devices);
    let follow = execution.follow();
    let attribution = explanation::attribution(&arguments.presentation.why, outputs, plan);
    let run = ArchiveRun {
        context,
        unpacked,
        plan,
        folder,
        devices: &devices,
        follow,
        attribution,
        secrets: &given_secrets,
    };
    let mut cells = cells(packed_cells, plan, &packed_tests, &given_secrets)?;
    // The flag wins over the repeats of single tests, now and when the resumed run started.
    if arguments.request.cells.settings.repeat.is_some() || plan.request.repeat != packed_repeat {
        for cell in &mut cells {
            cell.repeat = plan.request.repeat;
        }
    }
    let all_tests = match plan.request.shard {
        Some(own) => Some(sharding::keep(&mut cells, own, &packed_times(unpacked)?)),
        None => None,
    };
    let note = |is_finished| ShardRecord::write(folder, plan.request.shard, all_tests.as_ref(), is_finished);
    note(false)?;
    let aside = courtesy::take(context, courtesy, plan, &devices)?;
    let ran = run.run(&cells).and_then(|all_built| note(true).map(|()| all_built));
    let restored = courtesy::put_back(aside);
    drop((devices, lock));
    let shown = &arguments.presentation.metrics;
    let metrics = if shown.is_empty() { &unpacked.manifest.metrics } else { shown };
    let presentation = Presentation { arguments: &arguments.presentation, outputs, metrics };
    let all_built = ran.map_err(|error| presentation.as_far_as_it_got(console, folder, error))?;
    let code = presentation.of_run(console, &stored::read(folder)?, folder)?;
    let code = code.worst(restored);
    Ok(if all_built { code } else { code.worst(ExitCode::Incomplete) })
}

/// The archive's plan, with the rules of the flags.
fn packed_plan(unpacked: &Unpacked, arguments: &RunArguments) -> anyhow::Result<Plan> {
    let flags = &arguments.request.judging;
    let mut plan: Plan = unpacked.read_json("plan.json")?;
    add_judging(&mut plan.request.judging, flags);
    if let Some(file) = &flags.noise {
        plan.request.judging.noise = noise::read(file)?;
    }
    if let Some(file) = &flags.budget {
        plan.request.judging.budget = Some(budget::read(file, file.as_str())?);
    }
    if plan.version != resolved::VERSION {
        return Err(unpacked.invalid(format!("its plan has format {}", plan.version)));
    }
    Ok(plan)
}

/// The plan with the metrics that are read on request. The flags here may add some to those of the
/// build machine.
fn with_metrics(mut plan: Plan, arguments: &RunArguments) -> Plan {
    let given = || arguments.presentation.metrics.iter();
    plan.request.judging.asked.extend_from_slice(&arguments.presentation.metrics);
    plan.request.derived = metric::derived(given().chain(&plan.request.derived).map(String::as_str));
    let shown = given().chain(&plan.request.on_request);
    plan.request.on_request = metric::on_request(shown.map(String::as_str));
    if !arguments.presentation.metrics.is_empty() {
        plan.request.alone_for = of_neighbours(given().map(String::as_str)).map(str::to_owned);
    }
    plan
}

/// The archive's cells, with the devices of `--device`, given now or when the resumed run started.
fn cells(
    mut cells: Vec<PlannedCell>,
    plan: &Plan,
    packed_tests: &[TestRequest],
    secrets: &ArchiveSecrets,
) -> anyhow::Result<Vec<PlannedCell>> {
    let mut restoration = Restoration::of_archive(&secrets.given);
    for cell in &mut cells {
        restoration.variables(&mut cell.env);
    }
    restoration.finish()?;
    // The flag gives the same devices to all tests, so the first one has them.
    if let Some(test) = plan.request.tests.first().filter(|_| plan.request.tests != packed_tests) {
        for cell in &mut cells {
            cell.devices.clone_from(&test.devices);
        }
    }
    Ok(cells)
}

/// How long the tests took before the archive was made. Earlier versions packed no times.
fn packed_times(unpacked: &Unpacked) -> anyhow::Result<BTreeMap<CellId, Duration>> {
    if !unpacked.manifest.contents.contains_key(Utf8Path::new(TIMES)) {
        return Ok(BTreeMap::new());
    }
    let times: Vec<(CellId, u64)> = unpacked.read_json(TIMES)?;
    Ok(times.into_iter().map(|(cell, nanoseconds)| (cell, Duration::from_nanos(nanoseconds))).collect())
}

/// A run of an archive's tests.
struct ArchiveRun<'a> {
    context: CommandContext<'a>,
    unpacked: &'a Unpacked,
    plan: &'a Plan,
    folder: &'a RunFolder,
    devices: &'a DeviceWatch<'a>,
    follow: Follow,
    attribution: Attribution,
    secrets: &'a ArchiveSecrets,
}

/// The secrets that an archive does not carry.
struct ArchiveSecrets {
    given: GivenSecrets,
}

impl ArchiveSecrets {
    /// Takes the variables of `--env`, and puts them into the archive's plan. `--clean-env` also
    /// applies to an archive that was made without it.
    ///
    /// # Errors
    ///
    /// The plan or a build lacks a variable, or lacks none of this name.
    fn given(flags: &EnvironmentArguments, plan: &mut Plan, unpacked: &Unpacked) -> anyhow::Result<Self> {
        if flags.clean_env || plan.request.clean_env.is_some() {
            let packed = plan.request.clean_env.take().unwrap_or_default();
            let keep = if flags.keep_env.is_empty() { packed.keep } else { flags.keep_env.clone() };
            plan.request.clean_env = Some(CleanEnv { keep });
        }
        let given = GivenSecrets { variables: of_flags(flags), ..GivenSecrets::default() };
        let mut builds = packed_builds(unpacked)?;
        let lacked: BTreeSet<String> = (stored_plan::lacked_variables(&plan.request))
            .chain(
                builds
                    .iter()
                    .filter_map(Build::entry)
                    .flat_map(|entry| entry.provenance.redacted_variables()),
            )
            .map(str::to_owned)
            .collect();
        if let Some((name, _)) = given.variables.iter().find(|(name, _)| !lacked.contains(name)) {
            let message = format!("--env {name}: this archive lacks no value of this name");
            let help = "an archive's variables are set when it is built: cargo memprof build --archive FILE --env NAME=VALUE";
            return Err(UserError::new(message).help(help).into());
        }
        let mut restoration = Restoration::of_archive(&given);
        restoration.plan(plan);
        restoration.builds(&mut builds)?;
        restoration.finish()?;
        // Each of them is a secret: the archive lacks its value.
        redaction::change(|redactor| {
            given.variables.iter().for_each(|(_, value)| redactor.learn_value(value));
        });
        Ok(Self { given })
    }
}

impl ArchiveRun<'_> {
    /// Runs the tests, and returns whether every revision had been built.
    fn run(&self, cells: &[PlannedCell]) -> anyhow::Result<bool> {
        let mut tree = ExtractedTree::open(self.unpacked)?;
        if let Some(reason) = tree.elsewhere() {
            self.warn_about_paths(reason);
        }
        let mut builds = tree.builds()?;
        let mut restoration = Restoration::of_archive(&self.secrets.given);
        restoration.builds(&mut builds)?;
        restoration.finish()?;
        let mut counting = gpu_variables(|| self.unpacked.injection_library());
        counting.extend(malloc_variables(&self.plan.request, || self.unpacked.malloc_library()));
        let runner = Runner {
            plan: self.plan,
            counting: &counting,
            devices: self.devices,
            delay: &Delay::from_request(&self.plan.request),
            past: &past_times(self.folder),
            folder: self.folder,
            builds: &builds,
            cells,
            sink: self.context.console,
            interrupt: self.context.interrupt,
            follow: self.follow,
            recording: None,
        };
        let completion = runner.run(&mut tree, self.attribution)?;
        if let Completion::Interrupted(interrupted) = completion {
            return Err(interrupted.into());
        }
        Ok(builds.iter().all(|build| build.entry().is_some()))
    }

    fn warn_about_paths(&self, reason: &str) {
        let root = &self.unpacked.manifest.root;
        self.context.console.emit(Event::Warning {
            message: format!(
                "the tests were built below {root}, and {reason}: a test that has this path built in, for example through \
                 env!(\"CARGO_MANIFEST_DIR\"), does not find the archive's files there"
            ),
            help: Some(format!(
                "on the build machine, set {} to a folder that no other machine has, such as /var/tmp/memprof-archives, \
                 and build the archive again",
                cache::HOME_VARIABLE
            )),
        });
    }
}

/// Creates the folder of a new run, with everything that is known before the first test.
fn new_run(
    mut plan: Plan,
    folder: Option<&Utf8Path>,
    unpacked: &Unpacked,
) -> anyhow::Result<(Plan, RunFolder)> {
    // An archive may run many times, and each run needs an id of its own.
    plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
    let current = current_directory()?;
    let folder = match folder {
        None => create_folder(&current.join(ARCHIVE_RUNS), &plan)?,
        Some(folder) => {
            let folder = RunFolder(current.join(folder));
            if folder.plan().exists() {
                return Err(UserError::new(format!("{} holds a run already", folder.0))
                    .help("add --resume to continue it, or choose another --run-folder")
                    .into());
            }
            fs_err::create_dir_all(&folder.0)?;
            folder
        }
    };
    let of_build_machine = unpacked.manifest.contents.keys().filter_map(|path| path.strip_prefix("run").ok());
    for path in of_build_machine {
        let destination = folder.0.join(path);
        fs_err::create_dir_all(destination.parent().unwrap_or(&folder.0))?;
        fs_err::copy(unpacked.folder.join("run").join(path), destination)?;
    }
    let origin = json!({ "blake3": unpacked.hash, "tool": unpacked.manifest.tool });
    write_whole(&folder.origin(), &serde_json::to_vec_pretty(&origin)?)?;
    // The plan comes last: with it, the folder holds a run that --resume can continue.
    if !folder.plan().exists() {
        fill_folder(&folder, &plan)?;
    }
    Ok((plan, folder))
}

/// Finds the folder of an interrupted run of this archive.
fn resumed(name: &str, folder: Option<&Utf8Path>, unpacked: &Unpacked) -> anyhow::Result<(Plan, RunFolder)> {
    let current = current_directory()?;
    let name = folder.map_or(name, Utf8Path::as_str);
    let folder = find_run(&current.join(ARCHIVE_RUNS), &current, name)?;
    let origin: Value = match followed::read(folder.origin()) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) => Value::Null,
    };
    if origin["blake3"] != unpacked.hash.as_str() {
        return Err(UserError::new(format!("{} is not a run of this archive", folder.0))
            .help("without --resume, a new run starts")
            .into());
    }
    same_machine::expect(&folder)?;
    Ok((read_plan(&folder)?, folder))
}
