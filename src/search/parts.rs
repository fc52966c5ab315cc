//! `prove`: its plan, and the parts of its diff.

use std::collections::BTreeSet;

use crate::commands::context::CommandContext;
use crate::search::diff::{DifferingFiles, ReadDiff};
use crate::search::plan::{SearchPlan, SearchRequest};
use memprof_build::git::commits::Range;
use memprof_build::git::lineage::Lineage;
use memprof_build::git::repository::Repository;
use memprof_plan::resolved::Plan;
use memprof_run::bisect::commit_runner::CommitRunner;
use memprof_run::bisect::parts::grouping;
use memprof_run::bisect::parts::hunk::is_code;
use memprof_run::bisect::parts::order;
use memprof_run::bisect::parts::record::{BASELINE, CANDIDATE, DiffPart, HunkPlace, PartsSearch, placed};
use memprof_run::bisect::record::Task;
use memprof_support::event::{Event, Sink};
use memprof_support::user_error::UserError;

/// Plans a search over the parts of the diff between two commits. The parts are found when both are built.
pub fn plan(
    request: &SearchRequest<'_>,
    most_builds: usize,
    repository: &Repository,
    context: CommandContext<'_>,
) -> anyhow::Result<SearchPlan> {
    let plan = request.resolved(repository, context.console)?;
    anyhow::ensure!(plan.revisions.len() == 2, "a diff has two sides, and not {}", plan.revisions.len());
    refuse_same(&plan, [request.good, request.bad], repository)?;
    let range = ends_alone(&plan);
    let task = Task::Prove(PartsSearch::new(most_builds));
    request.over(plan, &range, repository, task, context.console)
}

/// # Errors
///
/// Both ends have the same files.
fn refuse_same(plan: &Plan, [good, bad]: [&str; 2], repository: &Repository) -> anyhow::Result<()> {
    if !DifferingFiles::read(plan, repository)?.is_empty() {
        return Ok(());
    }
    Err(UserError::new(format!("{good} and {bad} have the same files"))
        .help("choose two commits that differ: cargo memprof prove main..pr/7")
        .into())
}

/// Returns the range that has nothing but the two ends, whatever commits are between them.
fn ends_alone(plan: &Plan) -> Range {
    let lineage = Lineage {
        parents: vec![Vec::new(), vec![BASELINE]],
        edge: 1,
        good: BASELINE,
        bad: CANDIDATE,
        touching: None,
    };
    Range { lineage, hashes: plan.revisions.iter().map(|revision| revision.commit.clone()).collect() }
}

/// Returns the diff as it was split when the parts were found.
pub fn read_again<'a>(
    search: &PartsSearch,
    plan: &Plan,
    repository: &'a Repository,
) -> anyhow::Result<ReadDiff<'a>> {
    Ok(DifferingFiles::read(plan, repository)?.split(&search.elsewhere, &search.included))
}

/// Splits the diff into parts that compile alone, and notes them in the search.
pub fn find<'a>(
    search: &mut PartsSearch,
    runner: &mut CommitRunner<'_>,
    plan: &Plan,
    repository: &'a Repository,
    sink: &dyn Sink,
) -> anyhow::Result<ReadDiff<'a>> {
    let files = DifferingFiles::read(plan, repository)?;
    (search.elsewhere, search.included) = read_by_nobody(&files, plan, search, runner)?;
    let diff = files.split(&search.elsewhere, &search.included);
    let all = diff.split.hunks.len();
    sink.emit(Event::HunksChecked { done: 0, all });
    let dependents = runner.checking(CANDIDATE, |checker| {
        let found = grouping::dependents(
            &diff.split,
            &mut |left_out, files| diff.errors(left_out, files, checker),
            |done| sink.emit(Event::HunksChecked { done, all }),
        );
        search.checks += checker.calls;
        found
    })?;
    search.unseparated = dependents.unseparated;
    let ordered = order::parts(&dependents.of_hunks);
    let mut parts = placed(&ordered, |hunk| diff.place(hunk).1);
    for part in &mut parts {
        sort_hunks(part, &diff);
    }
    search.begin(parts);
    Ok(diff)
}

/// Puts the hunk first that says most.
fn sort_hunks(part: &mut DiffPart, diff: &ReadDiff<'_>) {
    let mut hunks: Vec<_> = part.indices.iter().map(|hunk| diff.place(*hunk)).collect();
    hunks.sort_by_key(|(weight, _)| *weight);
    part.hunks = hunks.into_iter().map(|(_, place)| place).collect::<Vec<HunkPlace>>();
}

/// Returns the differing files that the test's target does not compile, so that they cannot matter: sources and
/// texts for people. Then those that it does compile, although they are no sources.
fn read_by_nobody(
    files: &DifferingFiles<'_>,
    plan: &Plan,
    search: &mut PartsSearch,
    runner: &mut CommitRunner<'_>,
) -> anyhow::Result<(BTreeSet<String>, BTreeSet<String>)> {
    let paths = files.paths();
    let is_source = |path: &&&str| [".rs", ".md"].iter().any(|end| path.ends_with(end));
    let lock = plan.workspace.join("Cargo.lock");
    let is_other_lock = |path: &&&str| path.ends_with("/Cargo.lock") && ***path != *lock.as_str();
    let mut elsewhere: BTreeSet<String> =
        paths.iter().filter(is_other_lock).map(ToString::to_string).collect();
    let mut sources = BTreeSet::new();
    for commit in [CANDIDATE, BASELINE] {
        let own = runner.checking(commit, |checker| {
            let own = checker.sources();
            search.checks += checker.calls;
            own
        })?;
        // Nobody knows what a target is made of that does not compile.
        let Some(own) = own else { return Ok((elsewhere, BTreeSet::new())) };
        sources.extend(own);
    }
    let is_compiled = |path: &&&str| sources.contains(**path);
    elsewhere
        .extend(paths.iter().filter(|path| is_source(path) && !is_compiled(path)).map(ToString::to_string));
    let included = paths.iter().filter(|path| is_compiled(path) && !is_code(path)).map(ToString::to_string);
    Ok((elsewhere, included.collect()))
}
