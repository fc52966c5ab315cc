//! `run`, the default: builds, runs, compares and reports.

use camino::{Utf8Path, Utf8PathBuf};

use crate::arguments::command_line::CommandArguments;
use crate::arguments::run::RunArguments;
use crate::commands::context::CommandContext;
use crate::commands::courtesy;
use crate::commands::run_archive::run_archive;
use crate::kept_runs::{self, repository};
use crate::output::destinations::{Output, outputs};
use crate::output::present::Presentation;
use crate::request::asked::Asked;
use crate::request::continued;
use crate::request::explanation;
use crate::request::judging::refuse_unchecked;
use crate::request::pairs;
use crate::request::refs::RefsNeeded;
use crate::request::search_options;
use crate::request::secrets::SecretSources;
use crate::request::sides;
use crate::search::plan::command_line;
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::{resolve_any, run_id};
use memprof_build::git::resolve_error::ResolveError;
use memprof_build::inject::hidden_changes;
use memprof_build::inject::overlay_packages;
use memprof_gpu::watch::DeviceWatch;
use memprof_judge::compare::from_results::compare;
use memprof_judge::compare::noise;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_judge::verdict::significance::ENOUGH;
use memprof_plan::config::matrix;
use memprof_plan::repeat::Repeat;
use memprof_plan::request::{BaselineRequest, Request};
use memprof_plan::resolved::Plan;
use memprof_plan::same_commit;
use memprof_plan::sharding;
use memprof_report::options::View;
use memprof_run::attribution::Attribution;
use memprof_run::kept_baseline::{self, KeptRun};
use memprof_run::same_machine;
use memprof_run::saved_baselines;
use memprof_run::session::{self, Session, create_folder, find_run, read_plan, runs_folder};
use memprof_run::stdin_files;
use memprof_run::stored_plan;
use memprof_support::advice;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::output_file::{self, Target};
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// Starts a run, continues one, or runs an archive.
pub fn run(context: CommandContext<'_>, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    // Check the output flags now, and not after an hour of building.
    let presentation = &arguments.presentation;
    let outputs = outputs(&presentation.format, &presentation.output)?;
    if let Some(file) = arguments.request.judging.noise.as_deref().filter(|_| arguments.request.refs.aa) {
        Target::find(file)?;
    }
    if let Some(file) = &arguments.execution.archive {
        return run_archive(context, file, arguments, &outputs);
    }
    let repository = repository()?;
    let run = Run { context, repository: &repository, arguments, outputs: &outputs };
    match &arguments.execution.resume {
        Some(name) => run.resume(name),
        None => run.start(),
    }
}

/// Adds to the error about a ref that does not exist what else the word may have meant: a command or
/// a test.
fn or_command(error: anyhow::Error, file: Option<&Utf8Path>) -> anyhow::Error {
    let Some(ResolveError::NoRef { spec, .. }) = advice::find::<ResolveError>(&error) else { return error };
    let help = advice::help(&error).unwrap_or_default();
    let place =
        file.and_then(|file| Some((file, matrix::place_of(&fs_err::read_to_string(file).ok()?, spec)?)));
    if let Some((file, (line, column))) = place {
        return UserError::new(format!("{file}:{line}:{column}: {error:#}")).help(help).into();
    }
    let commands = CommandArguments::names();
    let command = suggest::nearest(spec, commands.iter().map(String::as_str), 1)
        .first()
        .map_or_else(String::new, |name| format!("\nfor the command: cargo memprof {name}"));
    let message = format!("{error:#}");
    UserError::new(message).help(format!("{help}\nto select tests: -k {spec}{command}")).into()
}

/// Raises `repeat: auto`: a saved baseline cannot run again when a later comparison needs it.
fn saved_often(request: &mut Request) {
    let repeats = request.tests.iter_mut().filter_map(|test| test.repeat.as_mut());
    for repeat in repeats.chain([&mut request.repeat]).filter(|repeat| **repeat == Repeat::Auto) {
        *repeat = Repeat::Times(ENOUGH);
    }
}

/// A run of tests in a repository.
struct Run<'a> {
    context: CommandContext<'a>,
    repository: &'a Repository,
    arguments: &'a RunArguments,
    outputs: &'a [Output],
}

impl Run<'_> {
    fn resume(&self, name: &str) -> anyhow::Result<ExitCode> {
        let manifest = self.arguments.request.build.manifest_path.as_deref();
        let runs = kept_runs::runs(self.repository, manifest)?;
        let folder = find_run(&runs, self.repository.start(), name)?;
        kept_runs::refuse_search(&folder)?;
        same_machine::expect(&folder)?;
        let mut plan = read_plan(&folder)?;
        let request = &self.arguments.request;
        let sources = SecretSources {
            environment: &request.environment,
            config: &request.build.config,
            arguments: &request.build.arg,
            matrix: request.refs.matrix.as_deref(),
            repository: self.repository,
        };
        sources.restore(&mut plan)?;
        continued::refuse_other_values("run", &request.environment, &request.build.config, &plan)?;
        continued::refuse_new_pool(&self.arguments.execution.devices, &plan)?;
        plan.request.spread_over(&self.arguments.execution.devices);
        self.note_changed_sides(&plan);
        stdin_files::warn_of_changed(&plan, self.context.console);
        self.measure(&plan, &folder, &self.arguments.presentation.metrics)
    }

    /// Warns if memprof.yaml has other sides now. A run continues as it was planned.
    fn note_changed_sides(&self, plan: &Plan) {
        let start = self.repository.start();
        let RunArguments { request, presentation, .. } = self.arguments;
        if request.refs.matrix.is_none() && matrix::find(start, self.repository.root()).is_none() {
            return;
        }
        let message = match Asked::read(request, presentation, self.repository, RefsNeeded::Any) {
            Ok(asked) => continued::changed_sides(&asked.request, plan)
                .map(|changed| format!("memprof.yaml has {changed}; the run continues as planned")),
            Err(error) => Some(format!("the run continues as planned, without memprof.yaml: {error:#}")),
        };
        if let Some(message) = message {
            let help = Some("to measure what memprof.yaml says now, leave out --resume".to_owned());
            self.context.console.emit(Event::Warning { message, help });
        }
    }

    /// Returns the memprof.yaml that has the refs, if it has them.
    fn file_of_refs(&self) -> Option<Utf8PathBuf> {
        let refs = &self.arguments.request.refs;
        let found = || matrix::find(self.repository.start(), self.repository.root());
        refs.refs.is_empty().then(|| refs.matrix.clone().or_else(found)).flatten()
    }

    /// How many refs the command needs. Without refs, some views show the working tree.
    fn needed(&self) -> RefsNeeded {
        let RunArguments { request, presentation, .. } = self.arguments;
        match presentation.view {
            _ if presentation.is_test => RefsNeeded::Alike,
            // The baseline is there already.
            _ if self.arguments.execution.baseline_run.is_some() => RefsNeeded::Any,
            // Pairs are compared within one ref, by default the working tree.
            _ if request.cells.settings.pairs.is_some() => RefsNeeded::Any,
            View::Checkpoints => RefsNeeded::Usual,
            _ => RefsNeeded::Any,
        }
    }

    fn start(&self) -> anyhow::Result<ExitCode> {
        let RunArguments { request, execution, presentation, .. } = self.arguments;
        let mut asked = Asked::read(request, presentation, self.repository, self.needed())?;
        if presentation.is_test {
            sides::refuse(request, "test")?;
            // The baseline of memprof.yaml is for comparisons.
            asked.request.baseline = BaselineRequest::First;
            asked.request.pairs.clear();
        }
        if let Some(text) = asked.chosen {
            self.context.console.emit(Event::RefsChosen { text });
        }
        let mut plan = resolve_any(&asked.request, self.repository, self.context.console)
            .map_err(|error| or_command(error, self.file_of_refs().as_deref()))?;
        if execution.save_baseline.is_some() && plan.revisions.len() == 1 {
            saved_often(&mut plan.request);
        }
        pairs::check(request, &mut plan)?;
        if plan.request.pairs.is_empty() {
            let kept = usize::from(execution.baseline_run.is_some());
            refuse_unchecked(&request.judging, plan.revisions.len() + kept)?;
            self.merge_same(&mut plan);
        }
        overlay_packages::complete(&mut plan, self.repository, self.context.console)?;
        hidden_changes::note(&mut plan, self.repository, self.context.console)?;
        if !execution.device.is_empty() {
            plan.request.give_devices(&execution.device);
        }
        plan.request.spread_over(&execution.devices);
        if let Some(shard) = execution.shard {
            sharding::take(&mut plan, shard);
        }
        if execution.shard.is_some() && !plan.request.pairs.is_empty() {
            return Err(UserError::new(
                "--shard and --pair: the two tests of a pair may be in different shards",
            )
            .help("leave one of them out")
            .into());
        }
        let kept = self.join_kept(&mut plan)?;
        if execution.dry_run {
            return self.context.print_plan(&plan, &stored_plan::sealed(&plan));
        }
        plan.search = search_options::for_plan(&command_line(std::env::args()), &plan, self.repository)?;
        let runs = runs_folder(self.repository, &plan.workspace)?;
        let folder = create_folder(&runs, &plan)?;
        if let Some(kept) = kept {
            kept.note(&folder)?;
        }
        let measured = self.measure(&plan, &folder, &asked.metrics);
        if measured.as_ref().is_err_and(anyhow::Error::is::<UserError>) && !folder.cells().exists() {
            // For example, -k matched no test. `latest` must still be the last run that measured
            // something.
            session::discard(&runs, &folder)?;
        }
        if request.refs.aa { self.report_noise(&folder, measured?) } else { measured }
    }

    /// Puts the saved baseline of `--baseline-run` into the plan, in the place of the one it has.
    fn join_kept(&self, plan: &mut Plan) -> anyhow::Result<Option<KeptRun>> {
        let Some(name) = &self.arguments.execution.baseline_run else { return Ok(None) };
        let manifest = self.arguments.request.build.manifest_path.as_deref();
        let runs = kept_runs::runs(self.repository, manifest)?;
        let folder = saved_baselines::find(&runs, self.repository.start(), name)?;
        let mut kept = KeptRun::open(folder, name)?;
        kept.join(plan, plan.revisions.len() > 1)?;
        plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
        Ok(Some(kept))
    }

    /// Plans one run for each commit, whatever its names are.
    fn merge_same(&self, plan: &mut Plan) {
        let merged = same_commit::merge(plan);
        if merged.is_empty() {
            return;
        }
        plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
        for one in merged {
            let nothing = if plan.revisions.len() == 1 { ", so there is nothing to compare" } else { "" };
            let text =
                format!("{}: one commit, {}, measured once{nothing}", one.names.join(" and "), one.commit);
            self.context.console.emit(Event::SameCommit { text });
        }
    }

    /// Builds, runs, compares and reports. The plan is new, or that of an interrupted run.
    fn measure(&self, plan: &Plan, folder: &RunFolder, metrics: &[String]) -> anyhow::Result<ExitCode> {
        let CommandContext { console, interrupt } = self.context;
        let when_held = self.arguments.execution.waiting.when_held();
        let devices = DeviceWatch::open(when_held, console, interrupt);
        devices.check(plan.request.tests.iter().filter_map(|test| test.devices.as_ref()))?;
        plan.request.device_pool.iter().try_for_each(|names| devices.pool(names).map(drop))?;
        let courtesy = self.arguments.execution.courtesy.as_ref();
        courtesy::check(self.context, courtesy, plan, &devices)?;
        let follow = self.arguments.execution.follow();
        let attribution = self.attribution(plan);
        let kept = KeptRun::of_run(folder)?;
        let without_kept = kept.as_ref().map(|_| kept_baseline::without_kept(plan));
        // Call sites need both revisions to run again.
        let attribution = if kept.is_some() { Attribution::NONE } else { attribution };
        let session = Session { follow, attribution, ..Session::open(self.repository, console, interrupt)? };
        let lock = session.lock(when_held)?;
        let mut prepared = session.prepare(without_kept.as_ref().unwrap_or(plan), folder)?;
        if let Some(kept) = &kept {
            kept.complete(plan, folder, &prepared.builds, &prepared.cells)?;
        }
        pairs::check_tests(&self.arguments.request, plan, &prepared.cells)?;
        let aside = courtesy::take(self.context, courtesy, plan, &devices)?;
        let ran = session.run(plan, folder, &mut prepared, &devices);
        let restored = courtesy::put_back(aside);
        let built = prepared.builds.iter().all(|build| build.entry().is_some());
        drop((prepared, devices, lock));
        let presentation =
            Presentation { arguments: &self.arguments.presentation, outputs: self.outputs, metrics };
        ran.map_err(|error| presentation.as_far_as_it_got(console, folder, error))?;
        let code = presentation.of_run(console, &stored::read(folder)?, folder)?;
        let code = code.worst(restored);
        if let Some(name) = &self.arguments.execution.save_baseline {
            self.save(folder, name, built)?;
        }
        Ok(if built { code } else { code.worst(ExitCode::Incomplete) })
    }

    /// Keeps the finished run as a baseline.
    fn save(&self, folder: &RunFolder, name: &str, built: bool) -> anyhow::Result<()> {
        let console = self.context.console;
        if !built {
            let message = format!("the baseline {name} is not saved: a ref did not build");
            console.emit(Event::Warning { message, help: None });
            return Ok(());
        }
        let place = saved_baselines::save(folder, folder.0.parent().unwrap_or(&folder.0), name)?;
        console.emit(Event::Exported { path: format!("{place}, the baseline {name}") });
        Ok(())
    }

    /// Which tests run once more with call stacks. What a baseline varies by has no cause.
    fn attribution(&self, plan: &Plan) -> Attribution {
        if self.arguments.request.refs.aa || !plan.request.pairs.is_empty() {
            return Attribution::NONE;
        }
        explanation::attribution(&self.arguments.presentation.why, self.outputs, plan)
    }

    /// Prints by how much the baseline varied, and writes the noise file. Any difference is noise,
    /// and not a regression.
    fn report_noise(&self, folder: &RunFolder, code: ExitCode) -> anyhow::Result<ExitCode> {
        let record = noise::measured(&compare(&stored::read(folder)?));
        if let Some(file) = &self.arguments.request.judging.noise {
            output_file::write(file, &serde_json::to_vec_pretty(&record)?)?;
        }
        if self.arguments.presentation.format.is_empty() {
            let mut text = Vec::new();
            memprof_report::noise::render(&record, &mut text)?;
            self.context.console.print(&format!("\n{}", String::from_utf8_lossy(&text)))?;
        }
        Ok(if code == ExitCode::Incomplete { code } else { ExitCode::Success })
    }
}
