//! Which tests run once more with call stacks: what the flags say, or what the reports show.

use crate::arguments::why::WhyArguments;
use crate::output::destinations::Output;
use memprof_report::github::Actions;
use memprof_report::options::Format;
use memprof_run::attribution::Attribution;

/// Returns what to record. Without a flag, these are the tests that changed or exceed a limit, if a report
/// or an annotation shows causes.
pub fn attribution(flags: &WhyArguments, outputs: &[Output]) -> Attribution {
    let is_shown = outputs.iter().any(|output| output.format.shows_causes());
    let why = flags.which(is_shown || Actions::from_environment().annotates);
    Attribution { why, ..flags.attribution() }
}

/// Returns what to record of the steps that a search reports. Its JSON and CSV have no causes.
pub fn of_search(flags: &WhyArguments, outputs: &[Output]) -> Attribution {
    let is_for_people =
        |output: &Output| matches!(output.format, Format::Table | Format::Markdown | Format::Html);
    let why = flags.which(outputs.iter().any(is_for_people));
    Attribution { why, ..flags.attribution() }
}
