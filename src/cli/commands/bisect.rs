//! `bisect`: finds the commit that changed a test's memory.

use anyhow::Context;

use crate::bisect::merge_search::Merges;
use crate::bisect::record::Task;
use crate::cli::arguments::search::BisectArguments;
use crate::cli::commands::context::CommandContext;
use crate::cli::search::plan::{SearchPlan, SearchRequest, ends};
use crate::cli::search::session::search;
use crate::git::repository::Repository;
use crate::support::event::Sink;
use crate::support::exit_code::ExitCode;

/// Starts a bisect, or continues one.
pub fn bisect(context: CommandContext<'_>, arguments: &BisectArguments) -> anyhow::Result<ExitCode> {
    let console = context.console;
    search("bisect", &arguments.measuring, &arguments.why, context, |repository| {
        plan(arguments, repository, console)
    })
}

fn plan(arguments: &BisectArguments, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<SearchPlan> {
    let (good, bad) = if let Some(range) = &arguments.range {
        ends(range)?
    } else {
        let good = arguments.good.as_deref().context("clap requires --good")?;
        (good, arguments.bad.as_deref().context("clap requires --bad")?)
    };
    let merges = if arguments.first_parent { Merges::Name } else { Merges::Enter };
    let request = SearchRequest { good, bad, paths: &arguments.paths, measuring: &arguments.measuring };
    request.plan(repository, sink, |_| Ok(Task::Bisect { find: arguments.find, merges }))
}
