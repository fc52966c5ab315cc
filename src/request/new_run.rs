//! A new run: its plan, from the flags and memprof.yaml, and its folder.

use camino::Utf8PathBuf;

use crate::arguments::command::CommandArguments;
use crate::arguments::run::RunArguments;
use crate::kept_runs;
use crate::request::asked::Asked;
use crate::request::judging::refuse_unchecked;
use crate::request::matrix_file;
use crate::request::pairs;
use crate::request::refs::RefsNeeded;
use crate::request::search_options;
use crate::request::sides;
use crate::search::plan::command_line;
use memprof_build::folder_configuration;
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::{resolve_any, run_id};
use memprof_build::git::resolve_error::ResolveError;
use memprof_build::inject::hidden_changes;
use memprof_build::inject::overlay_packages;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::verdict::significance::ENOUGH;
use memprof_plan::config::matrix;
use memprof_plan::expression::Expression;
use memprof_plan::repeat::Repeat;
use memprof_plan::request::{BaselineRequest, Request};
use memprof_plan::resolved::Plan;
use memprof_plan::same_commit;
use memprof_report::options::View;
use memprof_run::kept_baseline::KeptRun;
use memprof_run::saved_baselines;
use memprof_run::session::{create_folder, runs_folder};
use memprof_support::advice;
use memprof_support::event::{Event, Sink};
use memprof_support::output_file::Target;
use memprof_support::process::shell_quoted;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// A run that has not begun.
pub struct NewRun {
    /// What will be measured.
    pub plan: Plan,
    /// The metrics to show; empty means the default ones.
    pub metrics: Vec<String>,
    /// The saved baseline that it is compared with.
    kept: Option<KeptRun>,
}

impl NewRun {
    /// Plans what the flags and memprof.yaml ask for.
    pub fn plan(arguments: &RunArguments, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<Self> {
        let RunArguments { request, execution, presentation, .. } = arguments;
        // Check the noise file now, and not after an hour of building.
        if let Some(file) = request.judging.noise.as_deref().filter(|_| request.refs.aa) {
            Target::find(file)?;
        }
        let mut asked = Asked::read(request, presentation, repository, needed(arguments))?;
        asked.request.typed_names = presentation.why.shows_types();
        if presentation.is_test {
            sides::refuse(request, "test")?;
            // The baseline of memprof.yaml is for comparisons.
            asked.request.baseline = BaselineRequest::First;
            asked.request.settings.pairs.clear();
        }
        if let Some(text) = asked.chosen {
            sink.emit(Event::RefsChosen { text });
        }
        let mut plan = resolve_any(&asked.request, repository, sink)
            .map_err(|error| or_command(error, &asked.request.baseline, arguments, repository))?;
        if execution.save_baseline.is_some() {
            saved_often(&mut plan.request);
        }
        pairs::check(request, &mut plan)?;
        if plan.request.settings.pairs.is_empty() {
            let kept = usize::from(execution.baseline_run.is_some());
            // The thresholds of a baseline to save are for later comparisons.
            let saved = usize::from(execution.save_baseline.is_some());
            refuse_unchecked(&request.judging, plan.revisions.len() + kept + saved)?;
            merge_same(&mut plan, kept > 0, sink);
        }
        overlay_packages::complete(&mut plan, repository, sink)?;
        hidden_changes::note(&mut plan, repository, sink)?;
        folder_configuration::note(&mut plan, repository, sink);
        execution.apply(&mut plan);
        if execution.shard.is_some() && !plan.request.settings.pairs.is_empty() {
            return Err(UserError::new(
                "--shard and --pair: the two tests of a pair may be in different shards",
            )
            .help("leave one of them out")
            .into());
        }
        let kept = join_kept(arguments, repository, &mut plan)?;
        Ok(Self { plan, metrics: asked.metrics, kept })
    }

    /// Creates the folder of the run.
    pub fn create_folder(&mut self, repository: &Repository) -> anyhow::Result<RunFolder> {
        self.plan.search = search_options::for_plan(&command_line(std::env::args()), &self.plan, repository)?;
        let folder = create_folder(&runs_folder(repository, &self.plan.workspace)?, &self.plan)?;
        if let Some(kept) = &self.kept {
            kept.note(&folder)?;
        }
        Ok(folder)
    }
}

/// How many refs the command needs. Without refs, some views show the working tree.
fn needed(arguments: &RunArguments) -> RefsNeeded {
    let RunArguments { request, execution, presentation, .. } = arguments;
    match presentation.view {
        _ if presentation.is_test => RefsNeeded::Alike,
        // The baseline is there already.
        _ if execution.baseline_run.is_some() => RefsNeeded::Any,
        // Pairs are compared within one ref, by default the working tree.
        _ if request.settings.pairs.is_some() => RefsNeeded::Any,
        View::Checkpoints => RefsNeeded::Usual,
        _ => RefsNeeded::Any,
    }
}

/// Returns the memprof.yaml that has the refs, if it has them.
fn file_of_refs(arguments: &RunArguments, repository: &Repository) -> Option<Utf8PathBuf> {
    let refs = &arguments.request.refs;
    if refs.refs.is_empty() { matrix_file::path(refs.matrix.as_deref(), repository) } else { None }
}

/// Adds to the error about a ref that does not exist what else the word may have meant: a saved baseline, a command
/// or a test.
fn or_command(
    error: anyhow::Error,
    baseline: &BaselineRequest,
    arguments: &RunArguments,
    repository: &Repository,
) -> anyhow::Error {
    let Some(ResolveError::NoRef { spec, .. }) = advice::find::<ResolveError>(&error) else { return error };
    let mut help = advice::help(&error).unwrap_or_default();
    // Where the workspace is not found, the ref is still what is wrong.
    let runs = kept_runs::runs(repository, arguments.request.build.manifest_path.as_deref());
    if runs.is_ok_and(|runs| saved_baselines::names(&runs).contains(spec)) {
        help = format!("'{spec}' is a saved baseline; to compare with it: --baseline-run {spec}\n{help}");
    }
    let file = file_of_refs(arguments, repository);
    let file = file.as_deref();
    let place =
        file.and_then(|file| Some((file, matrix::place_of(&fs_err::read_to_string(file).ok()?, spec)?)));
    if let Some((file, (line, column))) = place {
        return UserError::new(format!("{file}:{line}:{column}: {error:#}")).help(help).into();
    }
    let message = format!("{error:#}");
    // A flag's ref has the flag's words before it, but for the baseline.
    let is_of_flag =
        !message.starts_with("no ref") || matches!(baseline, BaselineRequest::Ref(of) if of == spec);
    if is_of_flag {
        return UserError::new(message).help(help).into();
    }
    let commands = CommandArguments::names();
    let command = suggest::nearest(spec, commands.iter().map(String::as_str), 1)
        .first()
        .map_or_else(String::new, |name| format!("\nfor the command: cargo memprof {name}"));
    // No part of a test's name looks like `main..pr/7` or `HEAD~1`.
    let may_be_test = !spec.contains("..") && !spec.contains(['~', '^', '@']);
    let filter = match spec.parse::<Expression>() {
        Ok(_) if may_be_test => format!("\nto select tests: -k {}", shell_quoted(spec.as_ref())),
        _ => String::new(),
    };
    UserError::new(message).help(format!("{help}{filter}{command}")).into()
}

/// Raises `repeat: auto`: a saved baseline cannot run again when a later comparison needs it.
pub fn saved_often(request: &mut Request) {
    let repeats = request.tests.iter_mut().filter_map(|test| test.repeat.as_mut());
    for repeat in repeats.chain([&mut request.settings.repeat]).filter(|repeat| **repeat == Repeat::Auto) {
        *repeat = Repeat::Times(ENOUGH);
    }
}

/// Plans one run for each commit, whatever its names are. `has_saved` says whether a saved baseline joins them.
fn merge_same(plan: &mut Plan, has_saved: bool, sink: &dyn Sink) {
    let merged = same_commit::merge(plan);
    if merged.is_empty() {
        return;
    }
    plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
    for one in merged {
        let nothing =
            if plan.revisions.len() == 1 && !has_saved { ", so there is nothing to compare" } else { "" };
        let (names, all) = (one.names.join(" and "), if one.names.len() == 2 { "both" } else { "all" });
        let text = format!("{names} are {all} {}: measured once{nothing}", one.commit);
        // Who reads the report has not seen the progress.
        plan.notes.push(text.clone());
        sink.emit(Event::SameCommit { text });
    }
}

/// Puts the saved baseline of `--baseline-run` into the plan, in the place of the one it has.
fn join_kept(
    arguments: &RunArguments,
    repository: &Repository,
    plan: &mut Plan,
) -> anyhow::Result<Option<KeptRun>> {
    let Some(name) = &arguments.execution.baseline_run else { return Ok(None) };
    let runs = runs_folder(repository, &plan.workspace)?;
    let refs: Vec<&str> = plan.revisions.iter().map(|revision| revision.spec.as_str()).collect();
    let folder = saved_baselines::find(&runs, repository, name, &refs)?;
    let mut kept = KeptRun::open(folder, name)?;
    kept.join(plan, plan.revisions.len() > 1)?;
    plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
    Ok(Some(kept))
}
