//! Which tests run once more with call stacks: what the flags say, or what the reports show.

use std::io::IsTerminal;

use crate::arguments::why::WhyArguments;
use crate::output::destinations::Output;
use memprof_plan::resolved::Plan;
use memprof_report::options::Format;
use memprof_run::attribution::Attribution;

/// Returns what to record. Without a flag, these are the changed tests of a comparison, if a person
/// will read the report.
pub fn attribution(flags: &WhyArguments, outputs: &[Output], plan: &Plan) -> Attribution {
    let is_for_people = |output: &Output| match (output.format, &output.file) {
        (Format::Markdown | Format::Html, _) => true,
        (Format::Table, None) => std::io::stdout().is_terminal(),
        (format, _) => format.is_of_call_sites(),
    };
    let why = flags.which(outputs.iter().any(is_for_people), plan.revisions.len() > 1);
    Attribution { why, ..flags.attribution() }
}
