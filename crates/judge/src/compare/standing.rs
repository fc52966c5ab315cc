//! What became of each test: the worst of its verdicts, or why it was not compared.

use std::collections::BTreeMap;

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Breach, Comparability, Comparison, JudgedMetric, PairView, Ruling};
use crate::compare::matching::{Match, RowChange};
use crate::results::measurement::Kind;
use crate::results::outcome::Status;
use crate::verdict::kinds::Verdict;
use crate::verdict::limits;
use crate::verdict::significance::limit;
use memprof_plan::metric::{self, Figure, Unit};
use memprof_plan::metric_family::{family_of_point, family_of_scope};

/// What became of a test in a comparison of two revisions, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// A figure grew by more than its limit.
    Regressed,
    /// A figure exceeds an absolute limit, memory leaked, or a memory assertion of the test does not
    /// hold.
    OverLimit,
    /// The test failed at the candidate, or does not always pass at the baseline.
    Failed,
    /// A side did not build, was not run, or has no figure that may be compared.
    NotCompared,
    /// Too much noise, or too few runs, for a verdict.
    Inconclusive,
    /// Grew, and `allow` expects that.
    Expected,
    /// Exceeds a limit, and `allow` expects that. No figure grew by more than its limit.
    ExpectedOverLimit,
    /// A figure shrank by more than its limit.
    Improved,
    /// May have grown, and `allow` expects that.
    MaybeExpected,
    /// May have shrunk: the runs are not enough to tell, and no figure may have grown.
    MaybeImproved,
    /// Checkpoints were added, removed or renamed; no figure changed by more than its limit.
    Restructured,
    /// No rule judges any of its figures.
    NotJudged,
    /// What was judged is unchanged. The heap could not be measured, or a figure that is judged by default was not
    /// judged and changed.
    PartlyJudged,
    /// No figure changed by more than its limit.
    Unchanged,
    /// Only the baseline has the test.
    OnlyInBaseline,
    /// Only the candidate has the test.
    OnlyInCandidate,
    /// The test failed at the baseline and passes at the candidate.
    Fixed,
    /// A side ignores the test.
    Ignored,
}

impl Standing {
    /// Whether the test is one that both revisions should have run.
    pub fn is_of_both(self) -> bool {
        self <= Self::Unchanged
    }

    /// Whether the test changed, or needs attention.
    pub fn is_notable(self) -> bool {
        self < Self::NotJudged
    }

    /// Counts a candidate's tests by what became of them.
    pub fn counts(comparison: &Comparison, candidate: usize) -> BTreeMap<Self, usize> {
        let mut counts = BTreeMap::new();
        for view in comparison.pairs().filter(|view| view.pair.candidate == candidate) {
            *counts.entry(Self::for_pair(comparison, &view)).or_default() += 1;
        }
        counts
    }

    /// Whether figures of both revisions were compared.
    pub fn is_compared(self) -> bool {
        self.is_of_both() && !matches!(self, Self::Failed | Self::NotCompared)
    }

    /// Returns what became of a test.
    pub fn for_pair(comparison: &Comparison, view: &PairView<'_>) -> Self {
        let [old, new] = [view.baseline, view.candidate].map(|side| SideState::from_side(comparison, side));
        let of_sides = match (old, new) {
            (SideState::Failed, SideState::Measured) if has_always_failed(comparison, view.baseline) => {
                Some(Self::Fixed)
            }
            (SideState::Failed, SideState::Lacking) => Some(Self::OnlyInBaseline),
            (SideState::Failed, SideState::Ignored) => Some(Self::Ignored),
            (SideState::Failed, _) | (_, SideState::Failed) => Some(Self::Failed),
            (SideState::NotRun, _) | (_, SideState::NotRun) => Some(Self::NotCompared),
            (SideState::Ignored, _) | (_, SideState::Ignored) => Some(Self::Ignored),
            (_, SideState::Lacking) => Some(Self::OnlyInBaseline),
            (SideState::Lacking, _) => Some(Self::OnlyInCandidate),
            (SideState::Measured, SideState::Measured) => None,
        };
        let by_verdict = Self::by_verdict(view);
        match of_sides {
            // A test that failed in some runs is judged by the others.
            Some(Self::Failed) if by_verdict <= Self::OverLimit => by_verdict,
            Some(of_sides) if by_verdict != Self::OverLimit => of_sides,
            _ => by_verdict,
        }
    }

    fn by_verdict(view: &PairView<'_>) -> Self {
        let rulings = || view.pair.judged.iter().flat_map(JudgedMetric::rulings);
        let has = |verdict| rulings().any(|ruling| ruling.verdict == verdict);
        if rulings().any(Ruling::counts) {
            Self::Regressed
        } else if view.pair.breaches.iter().any(Breach::counts) || view.breaks_own_limit() {
            Self::OverLimit
        } else if !has_comparable_figure(view) {
            Self::NotCompared
        } else if rulings().any(Ruling::may_have_grown) {
            Self::Inconclusive
        } else if has(Verdict::Regressed) {
            Self::Expected
        } else if !view.pair.breaches.is_empty() {
            Self::ExpectedOverLimit
        } else if has(Verdict::Improved) {
            Self::Improved
        } else if rulings().any(Ruling::is_expected_growth) {
            Self::MaybeExpected
        } else if rulings().any(may_have_shrunk) {
            Self::MaybeImproved
        } else if came_or_went(view) {
            Self::Restructured
        } else if rulings().next().is_none() {
            Self::NotJudged
        } else if lacks_heap(view) || has_unjudged_change(view) {
            Self::PartlyJudged
        } else {
            Self::Unchanged
        }
    }
}

/// What one revision has of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SideState {
    Measured,
    Failed,
    NotRun,
    Ignored,
    Lacking,
}

impl SideState {
    fn from_side(comparison: &Comparison, side: &Aggregate) -> Self {
        let mut failed = side.failed.iter().map(|&run| &comparison.runs[run].record.outcome.status);
        if side.fails_as_added() {
            return Self::Lacking;
        }
        let worst = failed.clone().find(|status| status.is_failure() || status.is_ok());
        match (worst, failed.next(), side.availability) {
            (Some(Status::BuildFailed | Status::NotMeasured | Status::Interrupted), ..) => Self::NotRun,
            (Some(_), ..) => Self::Failed,
            (None, Some(Status::Ignored), _) => Self::Ignored,
            (None, Some(_), _) => Self::Lacking,
            (None, None, Availability::Measured) => Self::Measured,
            // An interrupted comparison has no run of this side.
            (None, None, _) => Self::NotRun,
        }
    }
}

/// Whether the test itself failed in every run of a revision.
fn has_always_failed(comparison: &Comparison, side: &Aggregate) -> bool {
    let failed = || side.failed.iter().map(|&run| &comparison.runs[run].record.outcome.status);
    side.availability != Availability::Measured && failed().all(Status::is_of_the_test)
}

/// Whether any row has figures of both sides that may be compared; of judged metrics, if any is
/// judged.
fn has_comparable_figure(view: &PairView<'_>) -> bool {
    let mut rulings = view.pair.judged.iter().flat_map(JudgedMetric::rulings).peekable();
    if rulings.peek().is_some() {
        return rulings.any(|ruling| ruling.verdict != Verdict::Missing);
    }
    let metrics = view.baseline.metrics();
    metrics.iter().map(|metric| view.column(metric)).any(|column| {
        column.comparability == Comparability::Comparable
            && view.rows.iter().any(|row| column.at(row).delta.is_some())
    })
}

/// Whether the heap of a side could not be measured, as with an allocator that cannot be wrapped.
fn lacks_heap(view: &PairView<'_>) -> bool {
    let heap = "heap.peak";
    let mut sides = [view.baseline, view.candidate].into_iter();
    sides.any(|side| side.column(heap).is_none() && side.why_absent(heap).is_some())
}

/// Whether a figure that is judged by default is not judged here, and changed by more than its default limit.
fn has_unjudged_change(view: &PairView<'_>) -> bool {
    let metrics = view.baseline.metrics();
    let mut judged_by_default =
        metrics.iter().filter_map(|metric| Some((*metric, limits::defaults(metric)?)));
    judged_by_default.any(|(metric, thresholds)| {
        let (column, judged) = (view.column(metric), view.judged(metric));
        let is_counted = metric::known(metric).is_counted();
        let threshold = if is_counted { thresholds.tight } else { thresholds.wide };
        let rows = view.rows.iter().filter(|row| view.key(row).kind != Kind::Call);
        let mut open = rows.filter(|row| judged.and_then(|judged| judged.at(row)).is_none());
        open.any(|row| {
            let figures = column.at(row);
            let values = [figures.baseline, figures.candidate].map(|figure| figure.map(|one| one.value));
            let (Some(delta), [Some(old), Some(new)]) = (figures.delta, values) else { return false };
            delta.difference.unsigned_abs() > limit(&threshold, old.min(new).into()).into()
        })
    })
}

fn came_or_went(view: &PairView<'_>) -> bool {
    // Calls that came or went show in the table of calls.
    let mut rows = view.rows.iter().filter(|row| view.key(row).kind != Kind::Call);
    rows.any(|row| view.change(row) != Some(RowChange::Matched))
}

/// Whether a verdict is inconclusive, and growth beyond the limit is ruled out.
pub fn may_have_shrunk(ruling: &Ruling) -> bool {
    ruling.verdict == Verdict::Inconclusive && !ruling.may_have_grown() && !ruling.is_expected_growth()
}

/// The change that a test is reported with.
#[derive(Clone, Copy, Debug)]
pub struct WorstChange<'a> {
    /// The metric that changed most. Exact metrics come before resident memory, and bytes before
    /// counts and times.
    pub metric: &'a str,
    /// The first row at which it changed.
    pub row: &'a Match,
    /// The ruling there.
    pub ruling: Ruling,
    /// The number of further rows with this verdict.
    pub others: usize,
    /// The largest difference of all these rows, by magnitude.
    pub largest: i128,
    /// The metric and the row with this difference.
    pub at_largest: (&'a str, &'a Match),
}

/// Returns the worst change of a test with a verdict; `None` if no row with figures has it. A peak
/// and its level are one quantity: `heap.live` may show a change one checkpoint before `heap.peak`. Where
/// a scope shows the same change, it is the checkpoint's.
pub fn worst_change<'a>(
    view: &PairView<'a>,
    is_meant: impl Fn(&Ruling) -> bool + Copy,
) -> Option<WorstChange<'a>> {
    worst_changes(view, is_meant).max_by_key(|change| (change.rank(), !change.is_of_scope()))
}

/// The same without metrics of scopes, which no search is suggested for.
pub fn worst_searchable_change<'a>(
    view: &PairView<'a>,
    is_meant: impl Fn(&Ruling) -> bool + Copy,
) -> Option<WorstChange<'a>> {
    worst_changes(view, is_meant).filter(|change| !change.is_of_scope()).max_by_key(WorstChange::rank)
}

/// Returns the worst change of each quantity with a verdict.
fn worst_changes<'a>(
    view: &PairView<'a>,
    is_meant: impl Fn(&Ruling) -> bool + Copy,
) -> impl Iterator<Item = WorstChange<'a>> {
    let mut families: BTreeMap<&str, Vec<&JudgedMetric>> = BTreeMap::new();
    for judged in &view.pair.judged {
        families.entry(family_of_point(&judged.metric).unwrap_or(&judged.metric)).or_default().push(judged);
    }
    families.into_values().filter_map(move |family| {
        let columns: Vec<_> = family.iter().map(|judged| (*judged, view.column(&judged.metric))).collect();
        let mut worst: Option<WorstChange<'a>> = None;
        for row in view.rows {
            let changes = columns.iter().filter_map(|(judged, column)| {
                let ruling = judged.at(row).filter(is_meant)?;
                let largest = column.at(row).delta?.difference;
                let metric = judged.metric.as_str();
                Some(WorstChange { metric, row, ruling, others: 0, largest, at_largest: (metric, row) })
            });
            let Some(change) = changes.max_by_key(|change| {
                (change.largest.abs(), metric::known(change.metric).figure == Figure::Peak)
            }) else {
                continue;
            };
            if let Some(worst) = &mut worst {
                worst.others += 1;
                if change.largest.abs() > worst.largest.abs() {
                    (worst.largest, worst.at_largest) = (change.largest, change.at_largest);
                }
            } else {
                worst = Some(change);
            }
        }
        worst
    })
}

impl WorstChange<'_> {
    fn is_of_scope(&self) -> bool {
        family_of_scope(self.metric).is_some()
    }

    /// Returns what orders changes by importance.
    pub fn rank(&self) -> (bool, bool, i128) {
        (
            metric::known(self.metric).is_counted(),
            Unit::of_metric(self.metric) == Unit::Bytes,
            self.largest.abs(),
        )
    }
}

/// Whether a judged metric has a row of a compared test whose figures cannot be compared.
pub fn lacks_figures(view: &PairView<'_>) -> bool {
    let mut rulings = view.pair.judged.iter().flat_map(JudgedMetric::rulings);
    view.is_compared() && rulings.any(|ruling| ruling.verdict == Verdict::Missing)
}

/// Returns the largest change of a counted figure below its limit that is not noise alone. Resident
/// memory takes many runs to tell.
pub fn change_below_limit<'a>(view: &PairView<'a>) -> Option<WorstChange<'a>> {
    let is_below = |ruling: &Ruling| {
        let change = ruling.significance.map_or(0, |significance| significance.change);
        ruling.verdict == Verdict::Unchanged && change != 0 && !ruling.may_be_zero()
    };
    worst_change(view, is_below)
        .filter(|worst| metric::known(worst.metric).is_counted() && worst.largest != 0)
}
