//! The subcommands: each puts the stages together and gives the exit code.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::build::attempts::Build;
use crate::checkout::cache;
use crate::cli::archive_commands;
use crate::cli::arguments::{
    Command, JudgingArguments, ListArguments, PresentationArguments, RequestArguments, RunArguments,
    TraceCommandArguments,
};
use crate::cli::command_arguments::{
    CleanArguments, CompareArguments, DemoArguments, DoctorArguments, DoctorFormat, InitArguments,
    ReportArguments, SchemaOf,
};
use crate::cli::console::Console;
use crate::cli::demo;
use crate::cli::init;
use crate::cli::invocation::{self, Invocation};
use crate::cli::outputs::{Output, outputs};
use crate::cli::reconcile::{self, RefsNeeded, Surroundings, reconcile};
use crate::cli::search_plan;
use crate::cli::trace_listing;
use crate::compare::comparison::Comparison;
use crate::compare::evaluation::Conclusion;
use crate::compare::from_results::{self, compare};
use crate::compare::noise;
use crate::config::matrix::{self, Matrix};
use crate::doctor::checks;
use crate::doctor::facts;
use crate::doctor::text;
use crate::git::repository::Repository;
use crate::git::resolve::{resolve, resolve_any};
use crate::git::workspace_folder;
use crate::gpu::watch::DeviceWatch;
use crate::plan::cells::CellStatus;
use crate::plan::request::Request;
use crate::plan::resolved::Plan;
use crate::report;
use crate::report::github::{self, Actions};
use crate::report::options::{Options, View};
use crate::results::run_folder::RunFolder;
use crate::results::stored::{self, Results};
use crate::run::runner::write_whole;
use crate::run::session::{self, Session, create_folder, find_run, read_plan, runs_folder};
use crate::support::exit_code::ExitCode;
use crate::support::file_lock::WhenHeld;
use crate::support::paths;
use crate::support::user_error::UserError;

/// Does what was asked for.
pub fn act(invocation: Invocation, console: &Console, interrupt: &AtomicBool) -> anyhow::Result<ExitCode> {
    let commands = Commands { console, interrupt };
    match invocation.command {
        Command::Run(arguments) => commands.run(&arguments),
        Command::Build(arguments) => commands.build(&arguments),
        Command::Bisect(arguments) => commands.bisect(&arguments),
        Command::History(arguments) => commands.history(&arguments),
        Command::List(arguments) => commands.list(&arguments),
        Command::Trace(arguments) => commands.trace(&arguments),
        Command::Report(arguments) => commands.report(&arguments),
        Command::Compare(arguments) => commands.compare(&arguments),
        Command::Doctor(arguments) => commands.doctor(arguments),
        Command::Clean(arguments) => commands.clean(&arguments),
        Command::Init(arguments) => commands.init(&arguments),
        Command::Schema(arguments) => commands.print_json(&match arguments.of {
            SchemaOf::Matrix => crate::config::schema::schema(),
            SchemaOf::Report => report::json::schema::schema(),
        }),
        Command::Demo(arguments) => commands.demo(&arguments),
        Command::Completions(arguments) => commands.print(&invocation::completions(arguments.shell)),
        Command::Man => commands.print(&crate::cli::manual::page()?),
    }
}

/// What every command needs.
pub(crate) struct Commands<'a> {
    pub(crate) console: &'a Console,
    pub(crate) interrupt: &'a AtomicBool,
}

/// What flags and matrix say together.
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) metrics: Vec<String>,
}

impl Commands<'_> {
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<ExitCode> {
        self.console.print(text)?;
        Ok(ExitCode::Success)
    }

    pub(crate) fn print_json(&self, value: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
        self.print(&format!("{}\n", serde_json::to_string_pretty(value)?))
    }

    fn run(&self, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
        // Mistakes in what to show are told before an hour of building, not after.
        let presentation = &arguments.presentation;
        let outputs = outputs(&presentation.format, &presentation.output)?;
        if let Some(file) = &arguments.execution.archive {
            return self.run_archive(file, arguments, &outputs);
        }
        let repository = repository()?;
        if let Some(name) = &arguments.execution.resume {
            let runs = runs(&repository, arguments.request.build.manifest_path.as_deref())?;
            let folder = find_run(&runs, repository.start(), name)?;
            not_a_search(&folder)?;
            let plan = read_plan(&folder)?;
            let metrics = presentation.metrics.clone();
            return self.measure(&repository, &plan, &folder, arguments, &outputs, &metrics);
        }
        // Scopes, tensors, and what grew from one checkpoint to the next, are of one revision too.
        let needed = match presentation.view {
            View::Checkpoints => RefsNeeded::Comparison,
            View::Scopes | View::Top | View::Tensors => RefsNeeded::Any,
        };
        let asked = ask(&arguments.request, presentation, &repository, needed)?;
        let mut plan = match needed {
            RefsNeeded::Comparison => resolve(&asked.request, &repository, self.console)?,
            RefsNeeded::Any => resolve_any(&asked.request, &repository, self.console)?,
        };
        if !arguments.execution.device.is_empty() {
            plan.request.give_devices(&arguments.execution.device);
        }
        if arguments.execution.dry_run {
            return self.print_json(&plan);
        }
        let runs = runs_folder(&repository, &plan.workspace)?;
        let folder = create_folder(&runs, &plan)?;
        let measured = self.measure(&repository, &plan, &folder, arguments, &outputs, &asked.metrics);
        if measured.as_ref().is_err_and(anyhow::Error::is::<UserError>) && !folder.cells().exists() {
            // A filter that meets no test: `latest` must go on to mean the last run that measured something.
            session::discard(&runs, &folder)?;
        }
        if arguments.request.refs.aa {
            return self.tell_noise(&folder, arguments, measured?);
        }
        measured
    }

    /// Says by how much the baseline varied, and keeps it. Whatever was flagged is noise too, and no regression.
    fn tell_noise(
        &self,
        folder: &RunFolder,
        arguments: &RunArguments,
        code: ExitCode,
    ) -> anyhow::Result<ExitCode> {
        let record = noise::measured(&compare(&stored::read(folder)?));
        if let Some(file) = &arguments.request.judging.noise {
            write_whole(file, &serde_json::to_vec_pretty(&record)?)
                .with_context(|| format!("could not write {file}"))?;
        }
        if arguments.presentation.format.is_empty() {
            let mut text = Vec::new();
            report::noise::render(&record, &mut text)?;
            self.console.print(&format!("\n{}", String::from_utf8_lossy(&text)))?;
        }
        Ok(if code == ExitCode::Incomplete { code } else { ExitCode::Success })
    }

    /// Builds, runs, compares and reports; the plan may be new or that of a run that was cut off.
    fn measure(
        &self,
        repository: &Repository,
        plan: &Plan,
        folder: &RunFolder,
        arguments: &RunArguments,
        outputs: &[Output],
        metrics: &[String],
    ) -> anyhow::Result<ExitCode> {
        let when_held = if arguments.execution.no_wait { WhenHeld::Fail } else { WhenHeld::Wait };
        let devices = DeviceWatch::open(when_held, self.console, self.interrupt);
        devices.check(plan.request.tests.iter().filter_map(|test| test.devices.as_ref()))?;
        let session = Session::open(repository, self.console, self.interrupt)?;
        let lock = session.lock(arguments.execution.no_wait)?;
        let mut prepared = session.prepare(plan, folder)?;
        session.run(plan, folder, &mut prepared, &devices)?;
        let built = prepared.builds.iter().all(|build| matches!(build, Build::Done(_)));
        drop((prepared, devices, lock));
        let results = stored::read(folder)?;
        let code = self.present(&results, folder, &arguments.presentation, outputs, metrics)?;
        Ok(if built { code } else { code.worst(ExitCode::Incomplete) })
    }

    pub(crate) fn present(
        &self,
        results: &Results,
        folder: &RunFolder,
        presentation: &PresentationArguments,
        outputs: &[Output],
        metrics: &[String],
    ) -> anyhow::Result<ExitCode> {
        let comparison = compare(results);
        let mut file = io::BufWriter::new(fs_err::File::create(folder.comparison())?);
        report::json::render::render(&comparison, &mut file)?;
        file.flush()?;
        self.render(&comparison, presentation, outputs, metrics, Some(folder))?;
        Ok(exit_code(&comparison))
    }

    fn render(
        &self,
        comparison: &crate::compare::comparison::Comparison,
        presentation: &PresentationArguments,
        outputs: &[Output],
        metrics: &[String],
        folder: Option<&RunFolder>,
    ) -> anyhow::Result<()> {
        let options = |to_terminal: bool| Options {
            metrics: (!metrics.is_empty()).then(|| metrics.to_vec()),
            all: presentation.all,
            view: presentation.view,
            compact: presentation.compact,
            only_changed: presentation.only_changed,
            width: terminal_size::terminal_size()
                .filter(|_| to_terminal)
                .map(|(width, _)| usize::from(width.0)),
            color: to_terminal && self.console.colors_output(),
            all_rows: presentation.all_rows,
            report_path: folder.map(|folder| near(&folder.0)),
        };
        self.console.finish();
        let actions = Actions::from_environment();
        if actions.annotates {
            for line in github::annotations(comparison) {
                self.console.command(&line);
            }
            actions.summarize(comparison, &options(false)).context("could not write GITHUB_STEP_SUMMARY")?;
        }
        for output in outputs {
            let mut text = Vec::new();
            report::render::render(output.format, comparison, &options(output.file.is_none()), &mut text)?;
            match &output.file {
                Some(file) => write_whole(file, &text).with_context(|| format!("could not write {file}"))?,
                None => self.console.print(&String::from_utf8_lossy(&text))?,
            }
        }
        Ok(())
    }

    /// Renders what a search found.
    pub(crate) fn render_search(
        &self,
        searched: crate::report::bisect::search::Searched<'_>,
        outputs: &[Output],
    ) -> anyhow::Result<()> {
        self.console.finish();
        let unicode = crate::bisect::chart::is_unicode(|name| std::env::var(name).ok());
        for output in outputs {
            let to_terminal = output.file.is_none();
            let options = Options {
                width: terminal_size::terminal_size()
                    .filter(|_| to_terminal)
                    .map(|(width, _)| usize::from(width.0)),
                color: to_terminal && self.console.colors_output(),
                ..Options::default()
            };
            let mut text = Vec::new();
            report::bisect::search::render(output.format, searched, &options, unicode, &mut text)?;
            match &output.file {
                Some(file) => write_whole(file, &text).with_context(|| format!("could not write {file}"))?,
                None => self.console.print(&String::from_utf8_lossy(&text))?,
            }
        }
        Ok(())
    }

    fn list(&self, arguments: &ListArguments) -> anyhow::Result<ExitCode> {
        let repository = repository()?;
        let presentation = PresentationArguments::default();
        let asked = ask(&arguments.request, &presentation, &repository, RefsNeeded::Any)?;
        let plan = resolve_any(&asked.request, &repository, self.console)?;
        let session = Session::open(&repository, self.console, self.interrupt)?;
        let lock = session.lock(arguments.no_wait)?;
        let scratch = tempfile::tempdir()?;
        let folder = RunFolder(paths::utf8(scratch.path().to_owned())?);
        let prepared = session.prepare(&plan, &folder)?;
        drop(lock);
        let mut text = String::new();
        for (index, revision) in plan.revisions.iter().enumerate() {
            let cells = || prepared.cells.iter().filter(|planned| planned.revision == index);
            let of_status = |status| cells().filter(move |planned| planned.status == status);
            let count = of_status(CellStatus::Run).count();
            writeln!(text, "{} ({}): {count} to run", revision.name, revision.short())?;
            for planned in cells() {
                let mark = match planned.status {
                    CellStatus::Run => "",
                    CellStatus::Ignored => "  (ignored)",
                    CellStatus::NotInThisRef => "  (not in this ref)",
                    CellStatus::BuildFailed => "  (build failed)",
                };
                writeln!(text, "  {}{}{mark}", planned.cell.test, named(planned))?;
            }
        }
        self.console.print(&text)?;
        let built = prepared.builds.iter().all(|build| matches!(build, Build::Done(_)));
        Ok(if built { ExitCode::Success } else { ExitCode::Incomplete })
    }

    /// Prints the functions that patterns mean, per ref.
    fn trace(&self, arguments: &TraceCommandArguments) -> anyhow::Result<ExitCode> {
        let repository = repository()?;
        let mut wanted = arguments.request.clone();
        wanted.trace.trace.extend(arguments.patterns.iter().cloned());
        let asked = ask(&wanted, &PresentationArguments::default(), &repository, RefsNeeded::Any)?;
        if asked.request.trace.is_empty() {
            return Err(UserError::new("no pattern of functions")
                .help("name some: cargo memprof trace --list 'crate::**::forward'; '**' means all")
                .into());
        }
        let plan = resolve_any(&asked.request, &repository, self.console)?;
        let session = Session::open(&repository, self.console, self.interrupt)?;
        let lock = session.lock(arguments.no_wait)?;
        let facts = session.traceable(&plan)?;
        drop(lock);
        self.print(&trace_listing::text(&plan, &facts))
    }

    fn report(&self, arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
        let presentation = &arguments.presentation;
        let outputs = outputs(&presentation.format, &presentation.output)?;
        let folder = kept(&arguments.run, arguments.place.manifest_path.as_deref())?;
        if folder.search().exists() {
            return self.present_search(&folder, &outputs);
        }
        let mut results = stored::read(&folder)?;
        judge_by(&mut results, &arguments.judging)?;
        self.present(&results, &folder, presentation, &outputs, &presentation.metrics)
    }

    fn compare(&self, arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
        let presentation = &arguments.presentation;
        let outputs = outputs(&presentation.format, &presentation.output)?;
        let manifest = arguments.place.manifest_path.as_deref();
        let read = |name: &str| {
            let folder = kept(name, manifest)?;
            not_a_search(&folder)?;
            stored::read(&folder)
        };
        let mut merged = from_results::merge(read(&arguments.baseline)?, read(&arguments.candidate)?);
        judge_by(&mut merged, &arguments.judging)?;
        let comparison = compare(&merged);
        self.render(&comparison, presentation, &outputs, &presentation.metrics, None)?;
        Ok(exit_code(&comparison))
    }

    fn doctor(&self, arguments: DoctorArguments) -> anyhow::Result<ExitCode> {
        let diagnosis = checks::diagnose(&facts::gather());
        match arguments.format {
            DoctorFormat::Text => self.print(&text::render(&diagnosis, self.console.colors_output()))?,
            DoctorFormat::Json => self.print_json(&diagnosis)?,
        };
        Ok(if diagnosis.is_broken() { ExitCode::Incomplete } else { ExitCode::Success })
    }

    fn clean(&self, arguments: &CleanArguments) -> anyhow::Result<ExitCode> {
        if arguments.archives {
            return self.clean_archives(arguments);
        }
        let repository = repository()?;
        let session = Session::open(&repository, self.console, self.interrupt)?;
        let lock = session.lock(arguments.no_wait)?;
        let runs = runs(&repository, arguments.place.manifest_path.as_deref()).ok();
        let folders = [Some(session.cache.folder().to_owned()), runs.clone()];
        if arguments.dry_run {
            let folders = folders.iter().flatten().filter(|folder| folder.exists());
            let lines = folders.map(|folder| {
                format!("{} {folder}\n", crate::support::bytes::Bytes(cache::bytes_on_disk(folder)))
            });
            return self.print(&format!("would remove:\n{}", lines.collect::<String>()));
        }
        let bytes = session.cache.clean(&repository, lock, runs.as_deref())?;
        self.print(&format!("removed {} ({bytes} bytes)\n", crate::support::bytes::Bytes(bytes)))
    }

    fn init(&self, arguments: &InitArguments) -> anyhow::Result<ExitCode> {
        let repository = repository()?;
        let file = arguments.matrix.clone().unwrap_or_else(|| repository.root().join(matrix::FILE_NAME));
        init::check_free(&file, file.exists(), arguments.force)?;
        let facts = crate::cli::init_facts::facts(&repository, arguments.place.manifest_path.as_deref())?;
        fs_err::write(&file, init::text(&facts))?;
        self.print(&format!("wrote {file}\n"))
    }

    fn demo(&self, arguments: &DemoArguments) -> anyhow::Result<ExitCode> {
        let folder = tempfile::Builder::new().prefix("memprof-demo-").tempdir()?;
        let root = paths::utf8(folder.path().canonicalize()?)?;
        let made = demo::create(root.as_std_path())?;
        let repository = Repository::discover(&paths::utf8(made.path.clone())?)?;
        let mut argv: Vec<OsString> = vec!["cargo-memprof".into(), "run".into()];
        let flags = ["--refs", &made.refs.join(","), "--overlay", &made.overlay, "-k", &made.filter]
            .map(OsString::from);
        argv.extend(flags);
        self.console.print(&format!(
            "A small repository, made for this: {}\n$ cargo memprof --refs {} --overlay {} -k '{}'\n\n",
            made.path.display(),
            made.refs.join(","),
            made.overlay,
            made.filter
        ))?;
        let Command::Run(run) = invocation::parse(argv)?.command else {
            unreachable!("the demo's command line is `run`");
        };
        let asked = ask(&run.request, &run.presentation, &repository, RefsNeeded::Comparison)?;
        let plan = resolve(&asked.request, &repository, self.console)?;
        let runs = runs_folder(&repository, &plan.workspace)?;
        let kept = create_folder(&runs, &plan)?;
        let cache = cache::Cache::open(&root.join("cache"), &repository)?;
        let session =
            Session { repository: &repository, cache, sink: self.console, interrupt: self.interrupt };
        let lock = session.lock(true)?;
        let mut prepared = session.prepare(&plan, &kept)?;
        let devices = DeviceWatch::open(WhenHeld::Wait, self.console, self.interrupt);
        session.run(&plan, &kept, &mut prepared, &devices)?;
        drop((prepared, devices, lock));
        let outputs = outputs(&[], &[])?;
        let code = self.present(&stored::read(&kept)?, &kept, &run.presentation, &outputs, &[])?;
        if arguments.keep {
            let path = folder.keep();
            self.console.print(&format!("kept {}\n", path.display()))?;
        }
        // Its regression is what it shows, not a fault of the user's.
        let shows = matches!(code, ExitCode::Regression | ExitCode::Inconclusive);
        Ok(if shows { ExitCode::Success } else { code })
    }
}

/// Lets a kept run be judged by these flags too.
fn judge_by(results: &mut Results, flags: &JudgingArguments) -> anyhow::Result<()> {
    let judging = &mut results.plan.request.judging;
    reconcile::add_judging(judging, flags);
    if let Some(file) = &flags.noise {
        judging.noise = noise::read(file)?;
    }
    Ok(())
}

/// What the verdicts come to, and whether a test failed.
fn exit_code(comparison: &Comparison) -> ExitCode {
    let failed = comparison.runs.iter().any(|run| run.record.outcome.status.is_failure());
    let code = if failed { ExitCode::Incomplete } else { ExitCode::Success };
    code.worst(Conclusion::of(comparison).exit_code())
}

pub(crate) fn repository() -> anyhow::Result<Repository> {
    Repository::discover(&current_directory()?)
}

pub(crate) fn runs(repository: &Repository, manifest: Option<&Utf8Path>) -> anyhow::Result<Utf8PathBuf> {
    let place = workspace_folder::find(repository, manifest.map(Utf8Path::as_str), &[])?;
    runs_folder(repository, &place.workspace)
}

/// A kept run. A folder needs no repository around it: runs are sent from machine to machine.
fn kept(name: &str, manifest: Option<&Utf8Path>) -> anyhow::Result<RunFolder> {
    let start = current_directory()?;
    let direct = RunFolder(start.join(name));
    if direct.plan().exists() {
        return Ok(direct);
    }
    match repository() {
        Ok(repository) => find_run(&runs(&repository, manifest)?, &start, name),
        // Runs of archives have none around them either, and lie where they were started.
        Err(error) => match start.join(archive_commands::RUNS) {
            of_archives if of_archives.is_dir() => find_run(&of_archives, &start, name),
            _ => Err(error),
        },
    }
}

/// A bisection or a history has revisions by the hundred, of which it measures some.
fn not_a_search(folder: &RunFolder) -> anyhow::Result<()> {
    let Some(record) = search_plan::read_record(folder)? else { return Ok(()) };
    let (command, name) = (record.task.command(), folder.0.file_name().unwrap_or_default());
    Err(UserError::new(format!("{name} is a {command}"))
        .help(format!(
            "`cargo memprof {command} --resume {name}` goes on with it, `cargo memprof report {name}` shows it"
        ))
        .into())
}

/// Reads the matrix, and puts it together with the flags.
pub(crate) fn ask(
    arguments: &RequestArguments,
    presentation: &PresentationArguments,
    repository: &Repository,
    needed: RefsNeeded,
) -> anyhow::Result<Asked> {
    let current = repository.start();
    let file = match &arguments.refs.matrix {
        Some(file) => Some(current.join(file)),
        None => matrix::find(current, repository.root()),
    };
    let matrix = file.as_deref().map(matrix::read).transpose()?.unwrap_or_else(Matrix::default);
    let base = file.as_deref().and_then(Utf8Path::parent).unwrap_or(current);
    let surroundings = Surroundings {
        repository: repository.root(),
        current,
        matrix: base,
        exists: &|path: &Utf8Path| path.exists(),
    };
    let mut request = reconcile(arguments, &matrix, surroundings, needed)?;
    if let Some(file) = arguments.judging.noise.as_deref().filter(|_| !arguments.refs.aa) {
        request.judging.noise = noise::read(file)?;
    }
    let metrics = reconcile::metrics(presentation, &matrix);
    request.on_request = reconcile::on_request(&metrics, &request.judging.rules);
    Ok(Asked { request, metrics })
}

fn named(planned: &crate::plan::cells::PlannedCell) -> String {
    let test = &planned.cell.test;
    let usual = planned.cell.title == test.name || planned.cell.title == test.to_string();
    if usual { String::new() } else { format!("  as {}", planned.cell.title) }
}

pub(crate) fn current_directory() -> anyhow::Result<Utf8PathBuf> {
    paths::utf8(std::env::current_dir().context("the current folder is gone")?)
}

/// A path as the user would write it from where they stand.
fn near(path: &Utf8Path) -> String {
    let current = current_directory().ok().and_then(|current| current.canonicalize_utf8().ok());
    let relative = current.as_deref().and_then(|current| path.strip_prefix(current).ok());
    relative.unwrap_or(path).to_string()
}

/// What an error means for the user: a mistake to mend, with help, or `None` for a fault that is not theirs.
pub fn user_error(error: &anyhow::Error) -> Option<UserError> {
    if error.is::<session::Interrupted>() {
        return Some(
            UserError::new("interrupted; what was measured is kept")
                .help("go on with the same command and `--resume`"),
        );
    }
    let is_usage = crate::support::advice::is_usage(error);
    let help = crate::support::advice::help(error);
    (is_usage || help.is_some()).then(|| UserError::new(format!("{error:#}")).maybe_help(help))
}
