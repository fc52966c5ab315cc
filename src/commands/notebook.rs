//! `notebook`: the memory of each cell of a Jupyter notebook with Rust code.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use crate::arguments::notebook::NotebookArguments;
use crate::arguments::presentation::PresentationArguments;
use crate::commands::context::CommandContext;
use crate::commands::devices;
use crate::notebook::commits::{self, NotebookPlan};
use crate::notebook::place::Place;
use crate::output::destinations::{Output, outputs};
use crate::output::present::Presentation;
use crate::request::judging::refuse_unchecked;
use crate::request::reconcile::{on_request, reconcile, trace_shown};
use crate::request::refs::RefsNeeded;
use crate::request::surroundings::Surroundings;
use memprof_build::git::workspace_folder;
use memprof_build::notebook::document::report_output;
use memprof_build::notebook::error_places;
use memprof_build::trace::notebook_cells;
use memprof_gpu::nvml;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored::{self, Results};
use memprof_plan::config::matrix::Matrix;
use memprof_plan::metric::derived;
use memprof_plan::metric_family::OF_SCOPES;
use memprof_plan::request::{LockfileRequest, Request};
use memprof_report::options::View;
use memprof_run::conditions::Conditions;
use memprof_run::session::{self, Session, create_folder, past_times, runs_folder};
use memprof_run::stored_plan;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::output_file;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// Translates the notebook, runs it, and reports each cell.
pub fn notebook(context: CommandContext<'_>, arguments: &NotebookArguments) -> anyhow::Result<ExitCode> {
    let mut presentation = arguments.presentation.clone();
    if presentation.view == View::default() {
        presentation.view = View::Scopes;
    }
    let outputs = outputs(&presentation.format, &presentation.output)?;
    let place = Place::find(&arguments.file, !arguments.refs.is_empty())?;
    let metrics = metrics(&presentation);
    let request = request(arguments, &place, &metrics)?;
    let skip: BTreeSet<usize> = arguments.skip_cell.iter().copied().collect();
    let planned = commits::plan(&place, request, &skip, context.console)?;
    refuse_unchecked(&arguments.judging, planned.plan.revisions.len())?;
    refuse_unknown_cells(&arguments.trace_cell, &planned)?;
    let writes = arguments.write.as_deref().map(|copy| Writes::new(copy, &place, &planned)).transpose()?;
    let run = NotebookRun { context, place: &place, planned: &planned, arguments };
    let folder = run.folder()?;
    let presented = Presented { presentation: &presentation, outputs: &outputs, metrics: &metrics };
    let measured = run.measure(&folder, &presented);
    if let Err(error) = &measured {
        session::discard_unmeasured(&folder, error)?;
    }
    let built = measured?;
    let results = run.results(&folder)?;
    let code = presented.presentation().of_run(context.console, &results, &folder)?;
    if let Some(writes) = writes {
        let to = writes.destination(planned.document.text(), &folder, context.console);
        Writes::write(&to, &planned, &results, presentation.compact)?;
        context.console.emit(Event::Exported { path: to.into_string() });
    }
    Ok(if built { code } else { code.worst(ExitCode::Incomplete) })
}

/// Returns the metrics to show: those of the flags, or else heap, resident memory and GPUs.
fn metrics(presentation: &PresentationArguments) -> Vec<String> {
    if presentation.all || presentation.settings.metrics.is_some() {
        return presentation.metrics();
    }
    let families = if nvml::may_have_devices() { &["heap", "cpu", "gpu.*"][..] } else { &["heap", "cpu"] };
    families.iter().flat_map(|family| OF_SCOPES.map(|part| format!("{family}.{part}"))).collect()
}

/// Returns the request. memprof.yaml is about the repository's tests, and not read.
fn request(arguments: &NotebookArguments, place: &Place, metrics: &[String]) -> anyhow::Result<Request> {
    let root = place.repository.root();
    let current = place.repository.start();
    let exists = |path: &Utf8Path| path.exists();
    let surroundings = Surroundings { repository: root, current, matrix: current, exists: &exists };
    let mut asked = arguments.request();
    let program = commits::target(&place.file);
    for number in &arguments.trace_cell {
        asked.trace.add_lines([notebook_cells::pattern(&program, *number).parse()?]);
    }
    let mut request = reconcile(&asked, &Matrix::default(), surroundings, RefsNeeded::Any)?;
    request.no_auto_overlay = true;
    if place.is_made {
        // As evcxr does, cargo chooses the versions; there are no others to keep to.
        request.lockfile = Some(LockfileRequest::Today);
    }
    request.on_request = on_request(metrics, &request.judging.rules);
    trace_shown(&mut request.trace, &arguments.presentation.metrics());
    request.derived = derived(metrics.iter().map(String::as_str));
    if !arguments.device.is_empty() {
        request.give_devices(&arguments.device);
    }
    stored_plan::learn(&request);
    Ok(request)
}

/// Refuses numbers of cells without code. Their lines would be missing without a word.
fn refuse_unknown_cells(numbers: &[usize], planned: &NotebookPlan) -> Result<(), UserError> {
    let known: Vec<usize> = planned.labels().iter().map(|(number, _)| *number).collect();
    let Some(unknown) = numbers.iter().find(|number| !known.contains(number)) else { return Ok(()) };
    let known = known.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    Err(UserError::new(format!("--trace-cell {unknown}: there is no cell {unknown} with Rust code"))
        .help(format!("the cells that are measured have the numbers {known}")))
}

/// How the report is shown.
struct Presented<'a> {
    presentation: &'a PresentationArguments,
    outputs: &'a [Output],
    metrics: &'a [String],
}

impl Presented<'_> {
    fn presentation(&self) -> Presentation<'_> {
        Presentation { arguments: self.presentation, outputs: self.outputs, metrics: self.metrics }
    }
}

/// A planned run of a notebook.
struct NotebookRun<'a> {
    context: CommandContext<'a>,
    place: &'a Place,
    planned: &'a NotebookPlan,
    arguments: &'a NotebookArguments,
}

impl NotebookRun<'_> {
    /// Creates the folder of the run, among those of the workspace around the notebook.
    fn folder(&self) -> anyhow::Result<RunFolder> {
        let repository = &self.place.repository;
        let found = workspace_folder::find(repository, None, &[]);
        // A repository of notebooks alone has no manifest.
        let workspace = found.map(|found| found.workspace).unwrap_or_default();
        create_folder(&runs_folder(repository, &workspace)?, &self.planned.plan)
    }

    /// Builds and runs the program of each revision. Returns whether all were built.
    fn measure(&self, folder: &RunFolder, presented: &Presented<'_>) -> anyhow::Result<bool> {
        let CommandContext { console, interrupt } = self.context;
        let plan = &self.planned.plan;
        let sink = |event: Event| console.emit(self.in_cells(event));
        let waiting = self.arguments.waiting;
        let (devices, _) = devices::open(self.context, waiting, None, plan)?;
        let session = Session::open(&self.place.repository, &sink, interrupt)?;
        let lock = session.lock(waiting.when_held())?;
        let mut prepared = session.prepare(plan, folder).map_err(|error| self.error_in_cells(error))?;
        let mut conditions = Conditions::new(plan, past_times(folder), devices, &sink, interrupt);
        conditions.follow = self.arguments.follow();
        let ran = prepared.run(plan, folder, &mut conditions, &session.attribution, Vec::new());
        let built = prepared.is_built();
        drop((prepared, conditions, lock));
        ran.map_err(|error| presented.presentation().as_far_as_it_got(console, folder, error))?;
        Ok(built)
    }

    /// Reads the results. Places in messages are those in cells.
    fn results(&self, folder: &RunFolder) -> anyhow::Result<Results> {
        let mut results = stored::read(folder)?;
        for failed in results.failed_builds.values_mut() {
            failed.errors = self.text_in_cells(&failed.errors);
        }
        for run in &mut results.runs {
            let measured = &run.measurement;
            let ended = |label: &str| measured.checkpoints().iter().any(|one| measured.label(one) == label);
            let outcome = &mut run.record.outcome;
            let unfinished = self.planned.unfinished(run.record.revision, ended);
            if let (true, Some(number)) = (outcome.status.is_ok(), unfinished) {
                // The cells after it would be missing without a word.
                outcome.status = Status::Failed { exit_code: 0 };
                outcome.message = Some(format!(
                    "cell {number} ended the program with exit code 0; from there on, no cell has figures"
                ));
            }
            outcome.message = outcome.message.as_deref().map(|message| self.text_in_cells(message));
        }
        Ok(results)
    }

    fn text_in_cells(&self, text: &str) -> String {
        error_places::as_cells(text, &self.planned.target, self.planned.stride)
    }

    fn in_cells(&self, event: Event) -> Event {
        match event {
            Event::BuildFailed { name, commit, first_errors, log, hints } => {
                let first_errors = self.text_in_cells(&first_errors);
                Event::BuildFailed { name, commit, first_errors, log, hints }
            }
            Event::RunFinished { test, name, index, total, outcome, ok, took, busy } => {
                let outcome = self.text_in_cells(&outcome);
                Event::RunFinished { test, name, index, total, outcome, ok, took, busy }
            }
            other => other,
        }
    }

    fn error_in_cells(&self, error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<UserError>() {
            Ok(user_error) => {
                let help = user_error.help.as_deref().map(|help| self.text_in_cells(help));
                UserError::new(self.text_in_cells(&user_error.message)).maybe_help(help).into()
            }
            Err(error) => error,
        }
    }
}

/// Where the report is stored in the cells' outputs.
struct Writes {
    to: Utf8PathBuf,
    /// Whether that is the notebook itself, which may be saved during the run.
    is_in_place: bool,
}

impl Writes {
    /// `copy` is empty for the notebook itself.
    fn new(copy: &Utf8Path, place: &Place, planned: &NotebookPlan) -> anyhow::Result<Self> {
        let is_in_place =
            copy.as_str().is_empty() || copy.canonicalize_utf8().is_ok_and(|copy| copy == place.file);
        if !is_in_place {
            return Ok(Self { to: copy.to_owned(), is_in_place });
        }
        let name = place.file.file_name().unwrap_or_default();
        let on_disk = followed::text(&place.file)?;
        if planned.document.text() != on_disk {
            let last =
                planned.plan.revisions.last().map(|revision| revision.name.as_str()).unwrap_or_default();
            return Err(UserError::new(format!(
                "{name} on the disk is not that of {last}, which was measured"
            ))
            .help(format!(
                "write a copy: --write=copy-of-{name}; or end the refs with the working tree: --refs {last},."
            ))
            .into());
        }
        Ok(Self { to: place.file.clone(), is_in_place })
    }

    /// Returns the file to write: one in the run's folder if the notebook is no longer the one that was
    /// `measured`. What was saved meanwhile stays.
    fn destination(&self, measured: &str, folder: &RunFolder, sink: &dyn Sink) -> Utf8PathBuf {
        let is_as_measured = || followed::text(&self.to).is_ok_and(|text| text == measured);
        if !self.is_in_place || is_as_measured() {
            return self.to.clone();
        }
        let name = self.to.file_name().unwrap_or("notebook.ipynb");
        let aside = folder.0.join(name);
        sink.emit(Event::Warning {
            message: format!("{name} was changed during the run, and is left as it is"),
            help: Some(format!("the notebook as it was measured, with the reports, is {aside}")),
        });
        aside
    }

    fn write(to: &Utf8Path, planned: &NotebookPlan, results: &Results, compact: bool) -> anyhow::Result<()> {
        let comparison = compare(results);
        let of_cells = memprof_report::notebook::cells(&comparison);
        let mut reports = BTreeMap::new();
        for (number, label) in planned.labels() {
            if let Some(cell) = of_cells.iter().find(|cell| cell.label == *label) {
                let plain = cell.plain(compact);
                reports.insert(*number, report_output(&plain, &cell.html(), cell.figures()));
            }
        }
        let text = planned.document.with_reports(&reports)?;
        output_file::write(to, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_notebook_that_was_saved_during_the_run_is_not_overwritten() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let (to, folder) = (root.join("rows.ipynb"), RunFolder(root.join("run")));
        let said = RefCell::new(Vec::new());
        let sink = |event: Event| said.borrow_mut().push(event);
        let in_place = Writes { to: to.clone(), is_in_place: true };
        fs_err::write(&to, "measured").unwrap();
        assert_eq!(in_place.destination("measured", &folder, &sink), to);
        assert!(said.borrow().is_empty());
        fs_err::write(&to, "measured, and a new cell").unwrap();
        assert_eq!(in_place.destination("measured", &folder, &sink), folder.0.join("rows.ipynb"));
        assert!(matches!(
            &said.borrow()[..],
            [Event::Warning { message, help: Some(help) }]
                if message.starts_with("rows.ipynb was changed during the run") && help.contains("run/rows.ipynb")
        ));
        let copy = Writes { to: to.clone(), is_in_place: false };
        assert_eq!(copy.destination("measured", &folder, &sink), to);
    }
}
