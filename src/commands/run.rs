//! `run`, the default: builds, runs, compares and reports.

use std::collections::BTreeMap;

use crate::arguments::run::RunArguments;
use crate::commands::context::CommandContext;
use crate::commands::devices;
use crate::commands::run_archive::run_archive;
use crate::kept_runs::repository;
use crate::output::destinations::{Output, outputs};
use crate::output::present::Presentation;
use crate::request::continued;
use crate::request::explanation;
use crate::request::new_run::NewRun;
use crate::request::pairs::PairsOfTests;
use crate::search::of_change::{Change, or_warning};
use crate::search::session::Means;
use memprof_build::attempts::Build;
use memprof_build::git::repository::Repository;
use memprof_build::provenance::Provenance;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::why::chosen::Why;
use memprof_plan::resolved::Plan;
use memprof_run::attribution::Attribution;
use memprof_run::conditions::Conditions;
use memprof_run::forecast::forecasts;
use memprof_run::guards::Guard;
use memprof_run::kept_baseline::KeptRun;
use memprof_run::kept_build::KeptBuild;
use memprof_run::same_code;
use memprof_run::saved_baselines;
use memprof_run::session::{self, Session, past_times};
use memprof_run::stored_plan;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::user_error::UserError;

/// Starts a run, continues one, or runs an archive.
pub fn run(context: CommandContext<'_>, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    // Check the output flags now, and not after an hour of building.
    let RunArguments { execution, presentation, .. } = arguments;
    let outputs = outputs(&presentation.format, &presentation.output)?;
    if let Some(file) = &execution.archive {
        return run_archive(context, file, arguments, &outputs);
    }
    let repository = repository()?;
    let run = Run { context, repository: &repository, arguments, outputs: &outputs };
    if let Some(name) = &execution.resume {
        let (plan, folder) = continued::run(name, arguments, &repository, context.console)?;
        return run.measure(&plan, &folder, &presentation.metrics());
    }
    let mut new = NewRun::plan(arguments, &repository, context.console)?;
    if execution.dry_run {
        let past = session::times_in(&session::runs_folder(&repository, &new.plan.workspace)?, None);
        let known = forecasts(&new.plan, &repository, &past)?;
        return context.print_plan(&new.plan, &known, &stored_plan::sealed(&new.plan), &outputs);
    }
    let folder = new.create_folder(&repository)?;
    let measured = run.measure(&new.plan, &folder, &new.metrics);
    if let Err(error) = &measured {
        session::discard_unmeasured(&folder, error)?;
    }
    measured
}

/// A run of tests in a repository.
struct Run<'a> {
    context: CommandContext<'a>,
    repository: &'a Repository,
    arguments: &'a RunArguments,
    outputs: &'a [Output],
}

impl Run<'_> {
    /// Builds, runs, compares and reports. The plan is new, or that of an interrupted run.
    fn measure(&self, plan: &Plan, folder: &RunFolder, metrics: &[String]) -> anyhow::Result<ExitCode> {
        let CommandContext { console, interrupt } = self.context;
        let RunArguments { request, execution, presentation, .. } = self.arguments;
        let (devices, courtesy) =
            devices::open(self.context, execution.waiting, execution.courtesy.as_ref(), plan)?;
        let mut kept = KeptRun::of_run(folder, plan)?;
        let without_kept = kept.as_ref().map(|_| KeptRun::without(plan));
        // What a baseline varies by has no cause.
        let attribution = if plan.request.aa || !plan.request.settings.pairs.is_empty() {
            Attribution::NONE
        } else {
            explanation::attribution(&presentation.why, self.outputs)
        };
        let needs_all =
            execution.save_baseline.is_some() || plan.request.aa || attribution.why == Why::Always;
        let runs_all = needs_all || kept.is_some() && same_code::needs_all(plan);
        let kept_build = self.kept_build(plan, kept.as_ref(), runs_all);
        let session = Session {
            attribution: attribution.clone(),
            runs_same_code: runs_all || kept.is_some() && kept_build.is_none(),
            kept: kept_build,
            ..Session::open(self.repository, console, interrupt)?
        };
        let lock = session.lock(execution.waiting.when_held())?;
        let mut prepared = session.prepare(without_kept.as_ref().unwrap_or(plan), folder)?;
        if let Some(kept) = &mut kept {
            kept.leave_out(std::mem::take(&mut prepared.left_out));
        }
        let mut conditions = Conditions::new(plan, past_times(folder), devices, console, interrupt);
        conditions.follow = execution.follow();
        let guards: Vec<Box<dyn Guard>> =
            vec![Box::new(kept), Box::new(PairsOfTests(request)), Box::new(courtesy)];
        let ended = prepared.run(plan, folder, &mut conditions, &attribution, guards);
        let is_built = prepared.is_built();
        let of_revision = |(index, build): (usize, &Build)| Some((index, build.entry()?.provenance.clone()));
        let builds = prepared.builds.iter().enumerate().filter_map(of_revision).collect();
        drop((prepared, conditions, lock));
        let presentation = Presentation { arguments: presentation, outputs: self.outputs, metrics };
        let proven = match ended {
            Ok(_) => self.prove_worst(plan, folder, attribution),
            Err(_) => Ok(ExitCode::Success),
        };
        let code = presentation.of_ended(console, folder, ended, is_built)?.worst(proven?);
        if let Some(name) = &execution.save_baseline {
            self.save(folder, name, is_built, &builds)?;
        }
        if plan.request.aa { presentation.of_noise(console, folder, plan, code) } else { Ok(code) }
    }

    /// Returns the build of a baseline that was measured earlier. Without it, tests with its code are not left out.
    fn kept_build<'p>(
        &self,
        plan: &'p Plan,
        kept: Option<&KeptRun>,
        runs_all: bool,
    ) -> Option<KeptBuild<'p>> {
        match kept?.build(self.repository) {
            Ok(provenance) => Some(KeptBuild { plan, provenance }),
            Err(_) if runs_all => None,
            Err(reason) => {
                let message = format!("all tests run, also those with the same code: {reason}");
                let help = Some("to leave them out, save the baseline again with --save-baseline".to_owned());
                self.context.console.emit(Event::Warning { message, help });
                None
            }
        }
    }

    /// With `--why proven`, measures what each part of the diff costs in the test that changed most.
    fn prove_worst(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        attribution: Attribution,
    ) -> anyhow::Result<ExitCode> {
        if attribution.why != Why::Proven {
            return Ok(ExitCode::Success);
        }
        let execution = &self.arguments.execution;
        let means = Means { waiting: execution.waiting, courtesy: execution.courtesy.as_ref(), attribution };
        let proven = Change::of_comparison(folder).and_then(|change| match change {
            Some(change) => change.prove(plan, folder, self.repository, self.context, &means),
            None => Err(UserError::new("no test changed by something in the diff").into()),
        });
        or_warning(proven, "--why proven", self.context.console, self.context.interrupt)
    }

    /// Keeps the finished run as a baseline.
    fn save(
        &self,
        folder: &RunFolder,
        name: &str,
        built: bool,
        builds: &BTreeMap<usize, Provenance>,
    ) -> anyhow::Result<()> {
        let console = self.context.console;
        if !built {
            let message = format!("the baseline {name} is not saved: a ref did not build");
            console.emit(Event::Warning { message, help: None });
            return Ok(());
        }
        let place = saved_baselines::save(folder, folder.0.parent().unwrap_or(&folder.0), name, builds)?;
        console.emit(Event::Exported { path: format!("{place}, the baseline {name}") });
        Ok(())
    }
}
