//! What went wrong on one side of a pair: failed, missing or ignored tests.

use std::fmt::Write as _;

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Comparison, PairView};
use crate::plan::resolved::Revision;
use crate::results::measurement::Kind;
use crate::results::outcome::Status;
use crate::results::stored::Run;
use crate::support::counted::counted;
use crate::support::labels;

/// Show at most this many lines of a failure's message.
const MESSAGE_LINES: usize = 6;

/// Why a side has incomplete or no figures.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// The event: `pr/3370 failed (exit code 101)`.
    pub headline: String,
    /// The first lines of the message.
    pub details: Vec<String>,
    /// Which runs the shown figures come from, if not from all.
    pub figures: Option<String>,
    /// Whether it is a failure. A test that a revision lacks or ignores is not.
    pub is_failure: bool,
}

/// Returns what went wrong on either side of a pair.
pub fn troubles(comparison: &Comparison, view: &PairView) -> Vec<Trouble> {
    let sides = [(view.old, view.baseline), (view.new, view.candidate)];
    sides.into_iter().flat_map(|(revision, side)| side_troubles(&comparison.runs, revision, side)).collect()
}

/// Returns what went wrong at one revision.
pub fn side_troubles(runs: &[Run], revision: &Revision, side: &Aggregate) -> Vec<Trouble> {
    let name = &revision.name;
    let total = side.runs.len() + side.failed.iter().filter(|run| !side.runs.contains(run)).count();
    if total == 0 {
        let headline = format!("{name} was not run");
        return vec![Trouble { headline, details: Vec::new(), figures: None, is_failure: true }];
    }
    let mut troubles: Vec<(Trouble, usize)> = Vec::new();
    for run in side.failed.iter().map(|&index| &runs[index]) {
        let trouble = run_trouble(run, revision);
        match troubles.iter_mut().find(|(known, _)| *known == trouble) {
            Some((_, times)) => *times += 1,
            None => troubles.push((trouble, 1)),
        }
    }
    let several = total > 1;
    let mut troubles: Vec<Trouble> = troubles
        .into_iter()
        .map(|(mut trouble, times)| {
            if several {
                _ = write!(trouble.headline, " in {times} of {total} runs");
            }
            trouble
        })
        .collect();
    if let Some(last) = troubles.last_mut() {
        last.figures = match side.availability {
            Availability::CutOff => Some(format!(
                "✗ {} logged before that: shown, not compared",
                counted(side.keys.iter().filter(|key| key.kind != Kind::Call).count(), "checkpoint")
            )),
            Availability::Measured => {
                Some(format!("{name}: figures of the {} that passed", counted(side.runs.len(), "run")))
            }
            Availability::Missing => None,
        };
    }
    troubles
}

fn run_trouble(run: &Run, revision: &Revision) -> Trouble {
    let outcome = &run.record.outcome;
    let name = &revision.name;
    let headline = match &outcome.status {
        Status::NotInThisRef => format!("{name} has no such test"),
        Status::Ignored => format!("{name} ignores this test"),
        Status::BuildFailed => format!("{name} did not build"),
        Status::Killed { .. } | Status::Refused | Status::NotMeasured => {
            format!("{name} was {}", outcome.status)
        }
        Status::OutOfMemory => format!("{name} ran out of memory"),
        Status::Ok => format!("{name}: {}", run.trouble().unwrap_or_default()),
        status => format!("{name} {status}"),
    };
    let message = outcome.message.as_deref().unwrap_or_default();
    let lines: Vec<&str> = message.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut details: Vec<String> =
        lines.iter().take(MESSAGE_LINES).map(|line| labels::one_line(line.trim_end()).into_owned()).collect();
    if lines.len() > MESSAGE_LINES {
        details.push(format!("… {} in {}", counted(lines.len() - MESSAGE_LINES, "more line"), run.folder));
    }
    let is_failure = outcome.status.is_failure() || outcome.status.is_ok();
    Trouble { headline, details, figures: None, is_failure }
}
