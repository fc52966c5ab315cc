//! `prove`: measures what each part of a diff costs, by leaving it out.

use anyhow::Context;

use crate::arguments::search::ProveArguments;
use crate::arguments::why::WhyArguments;
use crate::commands::context::CommandContext;
use crate::search::parts;
use crate::search::plan::{SearchRequest, ends};
use crate::search::session::search;
use memprof_judge::why::chosen::Why;
use memprof_plan::metric;
use memprof_support::exit_code::ExitCode;
use memprof_support::user_error::UserError;

/// Starts a proof, or continues one.
pub fn prove(context: CommandContext<'_>, arguments: &ProveArguments) -> anyhow::Result<ExitCode> {
    let ProveArguments { range, builds, measuring } = arguments;
    if !metric::known(&measuring.metric).is_counted() {
        let message = format!("prove judges exact figures only, and {} varies", measuring.metric);
        return Err(UserError::new(message).help("choose one that is counted: --metric heap.peak").into());
    }
    // Call sites say which parts to leave out first.
    let why = WhyArguments { why: Some(Why::Changed), ..WhyArguments::default() };
    search("prove", measuring, &why, context, |repository| {
        let range = range.as_deref().context("clap requires a range")?;
        let (good, bad) = ends(range)?;
        let most_builds = usize::try_from(*builds).unwrap_or(usize::MAX);
        parts::plan(&SearchRequest { good, bad, paths: &[], measuring }, most_builds, repository, context)
    })
}
