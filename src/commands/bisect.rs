//! `bisect`: finds the commit that changed a test's memory.

use crate::arguments::search::BisectArguments;
use crate::commands::context::CommandContext;
use crate::search::lockfiles::{self, LockfileRange, WarningsOnly};
use crate::search::plan::{SearchPlan, SearchRequest, ends};
use crate::search::start::{Next, search};
use memprof_build::git::repository::Repository;
use memprof_judge::why::chosen::Why;
use memprof_run::bisect::merge_search::Merges;
use memprof_run::bisect::record::Task;
use memprof_support::event::Sink;
use memprof_support::exit_code::ExitCode;
use memprof_support::user_error::UserError;

/// Starts a bisect, or continues one.
pub fn bisect(context: CommandContext<'_>, arguments: &BisectArguments) -> anyhow::Result<ExitCode> {
    let console = context.console;
    let is_proof = arguments.prove || arguments.why.why == Some(Why::Proven);
    let next = if is_proof { Next::Prove } else { Next::Report };
    search("bisect", &arguments.measuring, &arguments.why, next, context, |repository| {
        match &arguments.lockfile {
            Some(range) => lockfile_plan(range, arguments, repository, context),
            None => plan(arguments, repository, console),
        }
    })
}

/// Plans a search over the updates between two lock files.
fn lockfile_plan(
    range: &str,
    arguments: &BisectArguments,
    repository: &Repository,
    context: CommandContext<'_>,
) -> anyhow::Result<SearchPlan> {
    let range = LockfileRange::read(range, |name| repository.start().join(name).is_file())?;
    let code = arguments.range.join(" ");
    if arguments.range.len() > 1 || code.contains("..") {
        return Err(UserError::new(format!("--lockfile searches one code base, not '{code}'"))
            .help("name one ref: cargo memprof bisect main --lockfile OLD..NEW")
            .into());
    }
    let measuring = &arguments.measuring;
    if let Some(with) = measuring.with.first() {
        return Err(UserError::new(format!("--lockfile searches updates, and --with {with} makes one"))
            .help("leave one of them out")
            .into());
    }
    let history = lockfiles::history(
        &range,
        Some(code.as_str()).filter(|code| !code.is_empty()),
        measuring,
        repository,
        context,
    )?;
    let [good, bad] = &history.ends;
    let request = SearchRequest { good, bad, paths: &[], measuring };
    let find = arguments.find;
    let mut planned = request.plan(repository, &WarningsOnly(context.console), |_| {
        Ok(Task::Bisect { find, merges: Merges::Name })
    })?;
    planned.name_updates(&history.names);
    range.old.clone_into(&mut planned.search.good);
    range.new.clone_into(&mut planned.search.bad);
    planned.search.lockfile = Some(history.search);
    Ok(planned)
}

fn plan(arguments: &BisectArguments, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<SearchPlan> {
    let (good, bad) = match (&arguments.good, &arguments.bad) {
        (Some(good), Some(bad)) => (good.clone(), bad.clone()),
        _ => ends(&arguments.range)?,
    };
    let merges = if arguments.first_parent { Merges::Name } else { Merges::Enter };
    let request =
        SearchRequest { good: &good, bad: &bad, paths: &arguments.paths, measuring: &arguments.measuring };
    request.plan(repository, sink, |_| Ok(Task::Bisect { find: arguments.find, merges }))
}
