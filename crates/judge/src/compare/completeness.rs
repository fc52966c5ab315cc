//! Whether parts of a comparison are missing, and the exit code that it leads to.

use crate::compare::comparison::Comparison;
use crate::compare::evaluation::Conclusion;
use crate::compare::standing::Standing;
use crate::results::outcome::Status;
use crate::results::stored::Run;
use memprof_support::exit_code::ExitCode;

/// Returns the worst of the verdicts, of builds and tests that failed, of tests that could not be compared, and
/// of executables that cannot be measured. A test that only one side has is no fault, unless there is no other.
pub fn exit_code(comparison: &Comparison) -> ExitCode {
    let code = if is_incomplete(comparison) { ExitCode::Incomplete } else { ExitCode::Success };
    code.worst(Conclusion::from_comparison(comparison).exit_code())
}

/// Whether a part of the comparison is missing, apart from single figures.
pub fn is_incomplete(comparison: &Comparison) -> bool {
    let mut alone = comparison.alone().flat_map(|view| &view.candidate.failed);
    let is_unanswered = |candidate: usize| {
        let standings = Standing::counts(comparison, candidate);
        let has = |standing| standings.contains_key(&standing);
        let is_compared = standings.keys().any(|standing| standing.is_compared());
        let is_answered = is_compared
            || !comparison.same_code.is_empty()
            || has(Standing::Fixed)
            || has_added_test(comparison, candidate);
        !is_answered || has(Standing::Failed) || has(Standing::NotCompared)
    };
    alone.any(|run| has_failed(&comparison.runs[*run]))
        || !comparison.not_measured.is_empty()
        || !comparison.failed_builds.is_empty()
        || comparison.candidates().any(is_unanswered)
}

/// Whether a run lacks its figures. A memory assertion that does not hold is a verdict.
pub fn has_failed(run: &Run) -> bool {
    run.lacks_figures() && run.record.outcome.status != Status::OverLimit
}

/// Whether a file with tests of one side was tried at the other one. So nobody forgot to compare them.
fn has_added_test(comparison: &Comparison, candidate: usize) -> bool {
    let mut views = comparison.pairs().filter(|view| view.pair.candidate == candidate);
    views.any(|view| view.baseline.is_added || view.candidate.is_added)
}
