//! `prove`: measures what each part of a diff costs, by leaving it out.

use crate::arguments::search::ProveArguments;
use crate::arguments::why::WhyArguments;
use crate::commands::context::CommandContext;
use crate::search::parts;
use crate::search::plan::{SearchRequest, ends};
use crate::search::start::{Next, search};
use memprof_judge::why::chosen::Why;
use memprof_support::exit_code::ExitCode;

/// Starts a proof, or continues one.
pub fn prove(context: CommandContext<'_>, arguments: &ProveArguments) -> anyhow::Result<ExitCode> {
    let ProveArguments { range, builds, measuring, why_by } = arguments;
    // Call sites say which parts to leave out first.
    let why = WhyArguments { why: Some(Why::Changed), why_by: *why_by, ..WhyArguments::default() };
    search("prove", measuring, &why, Next::Report, context, |repository| {
        let (good, bad) = ends(range)?;
        let most_builds = usize::try_from(*builds).unwrap_or(usize::MAX);
        let request = SearchRequest { good: &good, bad: &bad, paths: &[], measuring };
        parts::plan(&request, most_builds, repository, context)
    })
}
