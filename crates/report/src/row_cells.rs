//! A row of a test's tables: its label, and the cells of a metric. Every format shows these texts.

use rustc_hash::FxHashMap;

use crate::page::{Text, Tone, tone_of};
use crate::text;
use memprof_judge::compare::comparison::{Delta, JudgedMetric, PairColumn, PairView};
use memprof_judge::compare::matching::{Key, Match, RowChange};
use memprof_judge::results::measurement::Kind;
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::metric::Unit;
use memprof_support::labels::width;

/// Stands for a difference of figures that may not be compared.
pub(crate) const NOT_COMPARED: &str = "not compared";

/// Stands beside a figure above an absolute limit.
const OVER_LIMIT: &str = "over its limit";

/// Stands beside what an entry of `allow` expects.
const EXPECTED: &str = "as expected";

/// What is shown of a metric at a row.
pub(crate) struct RowCells {
    /// The baseline's figure.
    pub baseline: Text,
    /// The candidate's figure.
    pub candidate: Text,
    /// `+1.00 MiB`, `=`, `added`, `removed`, `not compared`.
    pub difference: Text,
    /// `+12.3 %`, `×11`; empty without a percentage.
    pub percent: Text,
    /// The sign of the verdict. A single revision has one where it exceeds a limit.
    pub sign: Option<char>,
    /// The verdict, if there is one.
    pub verdict: Option<Verdict>,
    /// Whether growth is expected, be it certain or not.
    pub is_expected: bool,
    /// The absolute limit that the figure is above, if any.
    pub broken_limit: Option<BrokenLimit>,
    /// The difference, if both figures exist and may be compared.
    pub delta: Option<Delta>,
    /// How the row's checkpoint changed.
    pub change: Option<RowChange>,
}

/// An absolute limit that a figure is above.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BrokenLimit {
    Counts,
    /// An entry of `allow` expects it.
    Expected,
}

/// Makes the cells of a metric, row by row.
pub(crate) struct MetricCells<'a> {
    view: PairView<'a>,
    unit: Unit,
    column: PairColumn<'a>,
    judged: Option<&'a JudgedMetric>,
    broken_limits: FxHashMap<Match, BrokenLimit>,
}

impl<'a> MetricCells<'a> {
    /// Looks up a metric of a pair, or of a single revision.
    pub(crate) fn new(view: &PairView<'a>, metric: &str) -> Self {
        Self {
            view: *view,
            unit: Unit::of_metric(metric),
            column: view.column(metric),
            judged: view.judged(metric),
            broken_limits: broken_limits(view, metric),
        }
    }

    /// Whether the figure at a row is above an absolute limit, and nothing expects that.
    pub(crate) fn is_over_limit(&self, row: &Match) -> bool {
        self.broken_limits.get(row) == Some(&BrokenLimit::Counts)
    }

    /// Returns the baseline's figure at a row if it is another one than its checkpoint's own.
    pub(crate) fn joined_baseline(&self, row: &Match) -> Option<String> {
        let [own, joined] = [self.column.own_of_baseline(row)?, self.column.at(row).baseline?];
        (own.value != joined.value).then(|| text::figure(joined.value, self.unit))
    }

    /// Returns the cells at a row.
    pub(crate) fn at(&self, row: &Match) -> RowCells {
        let figures = self.column.at(row);
        let ruling = self.judged.and_then(|judged| judged.at(row));
        let [baseline, candidate] = [figures.baseline, figures.candidate]
            .map(|figure| Text::figure(figure.map(|figure| figure.value), self.unit));
        let change = self.view.change(row);
        let (difference, percent) = match (change, figures.delta) {
            (Some(RowChange::Added), _) => (Text::new("added", Tone::Structure), Text::empty()),
            (Some(RowChange::Removed), _) => (Text::new("removed", Tone::Structure), Text::empty()),
            (_, Some(delta)) => {
                let tone = match ruling.map(|ruling| ruling.verdict) {
                    _ if text::is_within_noise(ruling, delta.difference) => Tone::Quiet,
                    Some(Verdict::Unchanged | Verdict::Inconclusive) if delta.difference != 0 => Tone::Plain,
                    _ => tone_of(delta.difference),
                };
                let difference = text::difference(delta.difference, self.unit);
                (Text::new(difference, tone), Text::new(text::percent(&delta), tone))
            }
            (_, None) if figures.baseline.is_none() && figures.candidate.is_none() => {
                (Text::figure(None, self.unit), Text::empty())
            }
            (_, None) => (Text::new(NOT_COMPARED, Tone::Quiet), Text::empty()),
        };
        let broken_limit = self.broken_limits.get(row).copied();
        let sign = if broken_limit.is_some() && self.view.is_alone() {
            Some('▲')
        } else {
            text::sign_of(ruling, figures.delta.map_or(0, |delta| delta.difference))
        };
        RowCells {
            baseline,
            candidate,
            difference,
            percent,
            sign,
            verdict: ruling.map(|ruling| ruling.verdict),
            is_expected: ruling.is_some_and(|ruling| ruling.is_expected_growth()),
            broken_limit,
            delta: figures.delta,
            change,
        }
    }
}

impl RowCells {
    /// Whether there is a difference, or only one side has the row.
    pub(crate) fn is_compared(&self) -> bool {
        self.delta.is_some() || matches!(self.change, Some(RowChange::Added | RowChange::Removed))
    }

    /// Returns the difference with the sign of the verdict.
    pub(crate) fn signed_difference(self) -> Text {
        signed(self.difference, self.sign)
    }

    /// Returns what the sign does not say; often empty.
    pub(crate) fn remark(&self) -> Text {
        match (self.broken_limit, self.is_expected) {
            (None, false) => Text::empty(),
            (None, true) => Text::new(EXPECTED, Tone::Quiet),
            (Some(BrokenLimit::Counts), true) => Text::new(format!("{EXPECTED}, {OVER_LIMIT}"), Tone::Growth),
            (Some(limit), _) => limit.remark(),
        }
    }
}

impl BrokenLimit {
    /// Returns what stands beside a figure above its limit.
    pub(crate) fn remark(self) -> Text {
        match self {
            Self::Counts => Text::new(OVER_LIMIT, Tone::Growth),
            Self::Expected => Text::new(format!("{OVER_LIMIT}, {EXPECTED}"), Tone::Quiet),
        }
    }
}

/// Returns the rows at which a metric is above an absolute limit.
pub(crate) fn broken_limits(view: &PairView, metric: &str) -> FxHashMap<Match, BrokenLimit> {
    let mut limits = FxHashMap::default();
    for breach in view.breaches(metric) {
        let limit = limits.entry(view.rows[breach.row]).or_insert(BrokenLimit::Expected);
        if breach.counts() {
            *limit = BrokenLimit::Counts;
        }
    }
    limits
}

/// Appends a sign to a difference. `not compared` without a sign takes its place, because it is long.
pub(crate) fn signed(difference: Text, sign: Option<char>) -> Text {
    if sign.is_none() && difference.as_str() == NOT_COMPARED { difference } else { difference.signed(sign) }
}

/// Appends a column of remarks to the rows of a table, if there is any.
pub(crate) fn add_remarks(headings: &mut Vec<String>, rows: &mut [Vec<Text>], remarks: Vec<Text>) {
    if remarks.iter().all(Text::is_empty) {
        return;
    }
    // Words begin below each other.
    let widest = remarks.iter().map(|remark| width(remark.as_str())).max().unwrap_or(0);
    headings.push(String::new());
    rows.iter_mut().zip(remarks).for_each(|(row, remark)| row.push(remark.padded(widest)));
}

/// Returns a row's label with its change: `+ added`, `- removed`, `old → new`.
pub(crate) fn label(view: &PairView, row: &Match) -> Text {
    label_with(view, row, |key| key.shown(&view.cell.labels))
}

/// Returns a row's label with its change, with the names that `name` gives.
pub(crate) fn label_with(view: &PairView, row: &Match, name: impl Fn(Key) -> String) -> Text {
    let tone = match view.change(row) {
        Some(RowChange::Matched) | None => Tone::Plain,
        Some(_) => Tone::Structure,
    };
    Text::new(text::labelled(view, row, name), tone)
}

/// Returns the word for rows of a kind.
pub(crate) fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Point => "checkpoint",
        Kind::Scope => "scope",
        Kind::Call => "call",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_take_the_place_of_a_sign_and_never_hide_one() {
        let shown = |text: &str, sign| signed(Text::new(text, Tone::Plain), sign).as_str().to_owned();
        assert_eq!(shown(NOT_COMPARED, None), NOT_COMPARED);
        assert_eq!(shown(NOT_COMPARED, Some('▲')), "not compared ▲");
        assert_eq!(shown("+1 B", None), "+1 B \u{a0}");
    }
}
