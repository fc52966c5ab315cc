//! The texts of a row of a terminal's table: the word for its kind, and its difference.

use crate::page::{Text, Tone, tone_of};
use crate::selection::ShownMetric;
use crate::text;
use memprof_judge::compare::comparison::{PairView, RowFigures};
use memprof_judge::compare::matching::{Match, RowChange};
use memprof_judge::results::measurement::Kind;
use memprof_judge::verdict::kinds::Verdict;

/// Returns the difference in the metric's unit, and in percent.
pub(super) fn differences(
    view: &PairView,
    row: &Match,
    figures: &RowFigures,
    shown: &ShownMetric,
) -> [Text; 2] {
    match (view.change(row), figures.delta) {
        (Some(RowChange::Added), _) => [Text::new("added", Tone::Structure), Text::empty()],
        (Some(RowChange::Removed), _) => [Text::new("removed", Tone::Structure), Text::empty()],
        (_, None) => [Text::new(text::NONE, Tone::Quiet), Text::empty()],
        (_, Some(delta)) => {
            let is_noise = text::is_within_noise(shown.ruling(row), delta.difference);
            let tone = match shown.ruling(row).map(|ruling| ruling.verdict) {
                _ if is_noise => Tone::Quiet,
                Some(Verdict::Unchanged | Verdict::Inconclusive) if delta.difference != 0 => Tone::Plain,
                _ => tone_of(delta.difference),
            };
            let difference = text::difference(delta.difference, shown.metric.unit);
            [Text::new(difference, tone), Text::new(text::percent(&delta), tone)]
        }
    }
}

/// Returns the word for rows of a kind.
pub(super) fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Point => "checkpoint",
        Kind::Scope => "scope",
        Kind::Call => "call",
    }
}
