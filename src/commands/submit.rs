//! `submit`: runs an archive's shards as a job of Slurm, and reports them as one run.

use std::ffi::OsStr;
use std::time::Duration;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use clap::ValueEnum;

use crate::arguments::submit::{SubmitArguments, judging_flags};
use crate::commands::context::CommandContext;
use crate::commands::report::judge_by;
use crate::kept_runs::{self, ARCHIVE_RUNS, current_directory};
use crate::output::destinations::{Output, outputs};
use crate::output::present::Presentation;
use crate::request::archived::refuse_untyped;
use crate::request::explanation;
use memprof_build::git::resolve::run_id;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_plan::cells::PlannedCell;
use memprof_plan::metric::derived;
use memprof_plan::resolved::Plan;
use memprof_plan::sharding::AllTests;
use memprof_run::archive::file::Archive;
use memprof_run::merging::{Shards, folders_of_run};
use memprof_run::session::{announce, ignore_runs};
use memprof_run::slurm::client::Client;
use memprof_run::slurm::following::{Followed, Follower, Seen};
use memprof_run::slurm::job::{JobFolder, JobRecord, Submission, VERSION};
use memprof_run::slurm::progress::{self, Status};
use memprof_run::slurm::script::Script;
use memprof_run::slurm::task::Phase;
use memprof_run::stored_plan::lacked_variables;
use memprof_support::counted::counted;
use memprof_support::durable::sync_tree;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::file_lock::{Lock, LockFile, WhenHeld};
use memprof_support::process::shell_quoted;
use memprof_support::regular_file;
use memprof_support::user_error::UserError;
use memprof_support::whole_file::write_whole;

/// The shortest time between two questions to Slurm. All users of a cluster share its controller.
const SHORTEST: Duration = Duration::from_millis(200);

/// Submits a job, or continues one.
pub fn submit(context: CommandContext<'_>, arguments: &SubmitArguments) -> anyhow::Result<ExitCode> {
    let outputs = outputs(&arguments.presentation.format, &arguments.presentation.output)?;
    if let Some(argument) = arguments.sbatch.iter().find(|argument| is_array(argument)) {
        return Err(UserError::new(format!("sbatch gets {argument}, but submit sets the array itself"))
            .help("leave it out; --shards is the number of tasks")
            .into());
    }
    let command = Submit { context, arguments, outputs: &outputs };
    match &arguments.resume {
        Some(name) => command.resume(name),
        None => command.start(),
    }
}

/// Whether a flag of sbatch's makes a job array.
fn is_array(argument: &str) -> bool {
    argument == "--array" || argument.starts_with("--array=") || argument.starts_with("-a")
}

/// One call of the command.
struct Submit<'a> {
    context: CommandContext<'a>,
    arguments: &'a SubmitArguments,
    outputs: &'a [Output],
}

/// A job with its folder, which is locked.
struct Job {
    folder: JobFolder,
    record: JobRecord,
    client: Client,
    _lock: Lock,
}

impl Submit<'_> {
    fn start(&self) -> anyhow::Result<ExitCode> {
        let (Some(file), Some(shards)) = (&self.arguments.archive, self.arguments.shards) else {
            return Err(UserError::new("submit needs --archive and --shards").into());
        };
        let archive = Archive::open(file)?;
        let plan: Plan = archive.read_json("plan.json")?;
        check_tests(&archive, file, shards)?;
        refuse_untyped(&plan, &self.arguments.presentation.why)?;
        check_secrets(&plan, file)?;
        let folder = self.new_folder(&plan)?;
        let lock = self.lock(&folder)?;
        let file = current_directory()?.join(file).canonicalize_utf8()?;
        let tool = memprof_support::paths::utf8(std::env::current_exe()?)?;
        let flags = self.flags()?;
        let script = Script { tool: &tool, archive: &file, run: &folder.0, shards, flags: &flags };
        write_whole(&folder.script(), script.text().as_bytes())?;
        sync_tree(folder.0.as_std_path()).with_context(|| format!("cannot sync {}", folder.0))?;
        let mut record = JobRecord {
            version: VERSION,
            archive: file,
            blake3: archive.hash,
            shards,
            arguments: Vec::new(),
            lacks_secrets: false,
            cluster: None,
            jobs: Vec::new(),
            is_merged: false,
        };
        record.keep_arguments(&self.arguments.sbatch);
        let mut job = Job { folder, record, client: Client::default(), _lock: lock };
        let all: Vec<u32> = (1..=shards).collect();
        if let Err(error) = self.send(&mut job, &all, &self.arguments.sbatch) {
            if job.record.jobs.is_empty() {
                // Nothing runs, and a folder of no job would be in the way.
                fs_err::remove_dir_all(job.folder.slurm())?;
                let _ = std::fs::remove_dir(&job.folder.0);
            }
            return Err(error);
        }
        if self.arguments.detach { self.detached(&job) } else { self.follow(&mut job, Seen::default()) }
    }

    fn resume(&self, name: &str) -> anyhow::Result<ExitCode> {
        let folder = self.find(name)?;
        let lock = self.lock(&folder)?;
        let Some(record) = folder.read()? else {
            return Err(UserError::new(format!("{} is not the folder of a job", folder.0)).into());
        };
        let client = Client::for_cluster(record.cluster.clone());
        let mut job = Job { folder, record, client, _lock: lock };
        if job.record.is_merged {
            return self.report(&job);
        }
        let mut seen = Seen::default();
        let looked = self.follower(&job, &mut seen).until(&job.record, progress::is_settled)?;
        let Followed::Until(statuses) = looked else { return Ok(self.interrupted(&job)) };
        let missing = progress::missing(&statuses);
        if !missing.is_empty() {
            self.again(&mut job, &missing)?;
        }
        let will_go_on = !missing.is_empty() || !progress::is_over(&statuses);
        if self.arguments.detach && will_go_on { self.detached(&job) } else { self.follow(&mut job, seen) }
    }

    /// Submits shards again.
    fn again(&self, job: &mut Job, missing: &[(u32, String)]) -> anyhow::Result<()> {
        let file = self.arguments.archive.as_ref().unwrap_or(&job.record.archive);
        let archive = Archive::open(file)?;
        if archive.hash != job.record.blake3 {
            return Err(UserError::new(format!(
                "{file} is not the archive that job {} ran",
                job.record.id()
            ))
            .help(format!("its blake3 is {}; --archive names another path", job.record.blake3))
            .into());
        }
        let given = &self.arguments.sbatch;
        if given.is_empty() && job.record.lacks_secrets {
            return Err(UserError::new("the flags for sbatch contained a secret, which is not kept")
                .help(format!("give them again: cargo memprof submit --resume {} -- FLAGS", self.name(job)))
                .into());
        }
        let arguments = if given.is_empty() { job.record.arguments.clone() } else { given.clone() };
        job.record.keep_arguments(&arguments);
        for (shard, reason) in missing {
            let message = format!("shard {shard}/{} runs again: {reason}", job.record.shards);
            self.context.console.emit(Event::Warning { message, help: None });
        }
        let shards: Vec<u32> = missing.iter().map(|(shard, _)| *shard).collect();
        // Slurm may hold a task that it could not requeue.
        let jobs: Vec<u64> = job.record.jobs.iter().map(|job| job.id).collect();
        let stuck = |task: &memprof_run::slurm::task::Task| {
            task.phase() == Phase::Stuck
                && shards.contains(&task.shard)
                && job.record.job_of(task.shard) == Some(task.job)
        };
        for task in job.client.tasks(&jobs, self.context.interrupt)?.iter().filter(|task| stuck(task)) {
            job.client.cancel(task)?;
        }
        if let Some(file) = &self.arguments.archive {
            job.record.archive = current_directory()?.join(file).canonicalize_utf8()?;
            move_script(job)?;
        }
        self.send(job, &shards, &arguments)
    }

    /// Submits shards, and keeps the job's id.
    fn send(&self, job: &mut Job, shards: &[u32], arguments: &[String]) -> anyhow::Result<()> {
        let accepted = job.client.submit(&job.folder.0, &job.folder.script(), shards, arguments)?;
        job.record.jobs.push(Submission { id: accepted.id, shards: shards.to_vec() });
        job.record.cluster.clone_from(&accepted.cluster);
        job.client = Client::for_cluster(accepted.cluster);
        job.folder.write(&job.record).map_err(|error| {
            // Without its record, `--resume` would not find it.
            UserError::new(format!("job {} was submitted, but cannot be noted: {error:#}", accepted.id))
                .help(format!("to cancel it: scancel {}", accepted.id))
        })?;
        let of = job.record.archive.file_name().unwrap_or_default();
        let text =
            format!("job {}: {} of {of}, run {}", accepted.id, counted(shards.len(), "shard"), job.folder.0);
        self.context.console.emit(Event::JobSubmitted { text });
        Ok(())
    }

    /// Follows the job to its end, collects its shards, and reports them.
    fn follow(&self, job: &mut Job, mut seen: Seen) -> anyhow::Result<ExitCode> {
        let followed = self.follower(job, &mut seen).until(&job.record, progress::is_over)?;
        let Followed::Until(statuses) = followed else { return Ok(self.interrupted(job)) };
        let missing = progress::missing(&statuses);
        if missing.is_empty() {
            merge(job, statuses)?;
            return self.report(job);
        }
        for (shard, reason) in &missing {
            let message = format!("shard {shard}/{} is missing: {reason}", job.record.shards);
            self.context.console.emit(Event::Warning { message, help: None });
        }
        let them = if missing.len() == 1 { "it" } else { "them" };
        let help = format!("to run {them} again: cargo memprof submit --resume {}", self.name(job));
        let help = if job.folder.was_reached() {
            help
        } else {
            format!(
                "no task wrote to {}: the nodes must see it, the archive and this program; choose a \
                 shared folder with --run-folder DIR\n{help}",
                job.folder.0
            )
        };
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let message = format!("{} of {} {verb} missing", missing.len(), counted(statuses.len(), "shard"));
        self.context.console.show_error(&UserError::new(message).help(help));
        Ok(ExitCode::Incomplete)
    }

    fn follower<'a>(&'a self, job: &'a Job, seen: &'a mut Seen) -> Follower<'a> {
        Follower {
            folder: &job.folder,
            client: &job.client,
            every: self.arguments.every.max(SHORTEST),
            sink: self.context.console,
            interrupt: self.context.interrupt,
            seen,
        }
    }

    fn detached(&self, job: &Job) -> anyhow::Result<ExitCode> {
        let (id, name) = (job.record.id(), self.name(job));
        self.context.print(&format!(
            "follow and report: cargo memprof submit --resume {name}\n\
             look:              squeue --jobs {id}\n\
             cancel:            scancel {id}\n"
        ))
    }

    fn interrupted(&self, job: &Job) -> ExitCode {
        let (id, name) = (job.record.id(), self.name(job));
        let error = UserError::new(format!("interrupted; job {id} keeps running"));
        self.context.console.show_error(&error.help(format!(
            "to follow it again: cargo memprof submit --resume {name}\nto cancel it: scancel {id}"
        )));
        ExitCode::Interrupted
    }

    /// What `--resume` takes: the job's id if its run is found by it, else the folder.
    fn name(&self, job: &Job) -> String {
        let found = self.find(&job.record.id()).ok();
        if found.as_ref() == Some(&job.folder) {
            return job.record.id();
        }
        shell_quoted(OsStr::new(job.folder.0.as_str()))
    }

    /// Writes the report of the merged run.
    fn report(&self, job: &Job) -> anyhow::Result<ExitCode> {
        let folder = RunFolder(job.folder.0.clone());
        let presentation = &self.arguments.presentation;
        let mut results = stored::read(&folder)?;
        let metrics = &presentation.metrics();
        if self.arguments.resume.is_some() {
            // The shards of a new job have these rules already.
            judge_by(&mut results, &self.arguments.judging, metrics)?;
        }
        results.plan.request.derived.extend(derived(metrics.iter().map(String::as_str)));
        let presentation = Presentation { arguments: presentation, outputs: self.outputs, metrics };
        presentation.of_run(self.context.console, &results, &folder)
    }

    /// Returns the flags of `run --archive` that decide what a shard measures.
    fn flags(&self) -> anyhow::Result<Vec<String>> {
        let presentation = &self.arguments.presentation;
        let mut flags = judging_flags(std::env::args());
        let judging = &self.arguments.judging;
        for (flag, file) in [("--noise", judging.noise.clone()), ("--budget", judging.budget())] {
            if let Some(file) = file {
                flags.extend([flag.to_owned(), current_directory()?.join(file).into_string()]);
            }
        }
        let metrics = presentation.metrics();
        if !metrics.is_empty() {
            flags.extend(["--metrics".to_owned(), metrics.join(",")]);
        }
        let why = explanation::attribution(&presentation.why, self.outputs).why;
        let why = why.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        flags.extend(["--why".to_owned(), why]);
        if let Some(tests) = presentation.why.why_tests {
            flags.extend(["--why-tests".to_owned(), tests.to_string()]);
        }
        if let Some(time) = presentation.why.why_time {
            flags.extend(["--why-time".to_owned(), format!("{}ms", time.as_millis())]);
        }
        if let Some(sample) = presentation.why.why_sample {
            flags.extend(["--why-sample".to_owned(), sample.to_string()]);
        }
        if let Some(by) = presentation.why.why_by {
            flags.extend(["--why-by".to_owned(), by.as_str().to_owned()]);
        }
        if let Some(at) = &presentation.why.why_at {
            flags.extend(["--why-at".to_owned(), format!("{}#{}", at.label, at.occurrence)]);
        }
        Ok(flags)
    }

    /// Creates the folder of a new run.
    fn new_folder(&self, plan: &Plan) -> anyhow::Result<JobFolder> {
        let folder = if let Some(folder) = &self.arguments.run_folder {
            JobFolder(current_directory()?.join(folder))
        } else {
            let runs = self.runs()?;
            fs_err::create_dir_all(&runs)?;
            ignore_runs(&runs)?;
            JobFolder(runs.join(run_id(jiff::Timestamp::now(), &plan.revisions)))
        };
        if folder.record().exists() || RunFolder(folder.0.clone()).plan().exists() {
            return Err(UserError::new(format!("{} holds a run already", folder.0))
                .help("choose another --run-folder, or continue a job with --resume")
                .into());
        }
        // These are removed if Slurm refuses the job, and before the shards are merged.
        let of_run = folders_of_run(&RunFolder(folder.0.clone()));
        if let Some(there) =
            of_run.into_iter().chain([folder.slurm()]).find(|path| path.is_symlink() || path.exists())
        {
            return Err(UserError::new(format!("{there} is there already, and is not of a job"))
                .help("choose another --run-folder: a new one")
                .into());
        }
        fs_err::create_dir_all(folder.slurm())?;
        Ok(JobFolder(folder.0.canonicalize_utf8()?))
    }

    fn lock(&self, folder: &JobFolder) -> anyhow::Result<Lock> {
        let file = LockFile::of_folder(folder.slurm().join("lock"));
        let file = LockFile { subject: "this job's folder".to_owned(), ..file };
        Lock::acquire(&file, WhenHeld::Fail, self.context.interrupt, self.context.console)
    }

    fn runs(&self) -> anyhow::Result<Utf8PathBuf> {
        kept_runs::runs_of_archives(self.arguments.workspace.manifest_path.as_deref())
    }

    /// Finds a job by its id or by the run's folder.
    fn find(&self, name: &str) -> anyhow::Result<JobFolder> {
        let (current, runs) = (current_directory()?, self.runs()?);
        let direct = [current.join(name), runs.join(name)].map(JobFolder);
        if let Some(folder) = direct.into_iter().find(|folder| folder.record().exists()) {
            return Ok(JobFolder(folder.0.canonicalize_utf8()?));
        }
        let places = [runs, current.join(ARCHIVE_RUNS)];
        if let Ok(id) = name.parse::<u64>() {
            for folder in places.iter().flat_map(|runs| jobs_in(runs)) {
                let record = folder.read()?;
                if record.is_some_and(|record| record.jobs.iter().any(|job| job.id == id)) {
                    return Ok(JobFolder(folder.0.canonicalize_utf8()?));
                }
            }
        }
        let known = places.iter().flat_map(|runs| jobs_in(runs)).next();
        let help = match known {
            Some(newest) => format!("name the run's folder; the newest of a job here is {}", newest.0),
            None => "name the run's folder: cargo memprof submit --resume DIR".to_owned(),
        };
        Err(UserError::new(format!("no run here belongs to job '{name}'")).help(help).into())
    }
}

/// Returns the runs that are jobs, newest first.
fn jobs_in(runs: &Utf8Path) -> Vec<JobFolder> {
    let entries = runs.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<JobFolder> = entries
        .filter(|entry| !entry.path().is_symlink())
        .map(|entry| JobFolder(entry.into_path()))
        .filter(|folder| folder.record().exists())
        .collect();
    folders.sort_by(|one, other| other.0.cmp(&one.0));
    folders
}

/// Writes the job's script again, for the archive where it is now. What a shard measures stays.
fn move_script(job: &Job) -> anyhow::Result<()> {
    let path = job.folder.script();
    let tool = memprof_support::paths::utf8(std::env::current_exe()?)?;
    let (archive, run, shards) = (&job.record.archive, &job.folder.0, job.record.shards);
    let script = Script { tool: &tool, archive, run, shards, flags: &[] };
    let text = script.with_flags_of(&regular_file::followed::text(&path)?);
    let text = text.with_context(|| format!("{path} has no line with flags"))?;
    write_whole(&path, text.as_bytes())
}

/// Makes a whole run of the finished shards, in the run's folder.
fn merge(job: &mut Job, statuses: Vec<(u32, Status)>) -> anyhow::Result<()> {
    let folders = statuses.into_iter().filter_map(|(_, status)| match status {
        Status::Finished(folder) => Some(folder),
        _ => None,
    });
    let shards = Shards::open(folders.collect())?;
    let mut plan = shards.plan();
    let folder = RunFolder(job.folder.0.clone());
    // An interrupted merge may have left something.
    regular_file::remove(&folder.plan())?;
    for left in folders_of_run(&folder) {
        regular_file::remove(&left)?;
    }
    let runs = job.folder.0.parent().filter(|runs| runs.join(".gitignore").exists());
    if let (Some(runs), Some(id)) = (runs, job.folder.0.file_name()) {
        id.clone_into(&mut plan.id);
        shards.write(&folder, &plan)?;
        announce(runs, id)?;
    } else {
        plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
        shards.write(&folder, &plan)?;
    }
    job.record.is_merged = true;
    job.folder.write(&job.record)
}

fn check_tests(archive: &Archive, file: &Utf8Path, shards: u32) -> anyhow::Result<()> {
    let cells: Vec<PlannedCell> = archive.read_json("cells.json")?;
    let tests = AllTests::from_cells(cells.iter().map(|planned| &planned.cell)).count;
    if shards as usize > tests {
        return Err(UserError::new(format!("{shards} shards, but {file} has {}", counted(tests, "test")))
            .help(format!("--shards {}", tests.max(1)))
            .into());
    }
    Ok(())
}

/// An archive carries no secrets, and neither does a job's folder.
fn check_secrets(plan: &Plan, file: &Utf8Path) -> anyhow::Result<()> {
    match lacked_variables(&plan.request).next() {
        Some(name) => Err(UserError::new(format!(
            "{file} lacks the value of {name}, which submit does not pass on"
        ))
        .help(format!(
            "run each shard by hand: cargo memprof run --archive {file} --shard 1/8 --env {name}=VALUE"
        ))
        .into()),
        None => Ok(()),
    }
}
