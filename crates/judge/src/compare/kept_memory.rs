//! Resident memory that the heap explains: what the C library keeps after a free is no verdict of its
//! own. `docs/judging.md#resident-memory-and-the-heap` has the reasons.

use crate::compare::aggregate::{Aggregate, Column};
use crate::compare::comparison::{JudgedMetric, PairView, Ruling, previous_points};
use crate::compare::joined_intervals::{JoinedColumn, JoinedIntervals};
use crate::compare::matching::Match;
use crate::compare::program_pages::{ProgramPages, without};
use crate::results::measurement::Kind;
use crate::verdict::kinds::Verdict;
use crate::verdict::significance::{Noise, Significance, Thresholds, judge};
use memprof_plan::metric::Figure;

/// The metric that the heap may explain.
pub(crate) const RESIDENT: &str = "cpu.peak";

/// Figures of one side that the explanation needs.
struct Side<'a> {
    resident: JoinedColumn<'a>,
    level: Column<'a>,
    kept: Column<'a>,
    live: Column<'a>,
    peak: JoinedColumn<'a>,
    previous: Vec<Option<usize>>,
    /// The points whose peaks belong to the next one, and the side.
    joined: (&'a JoinedIntervals, usize),
}

/// How much of what the C library kept when an interval began counts as kept throughout.
#[derive(Clone, Copy)]
enum Bound {
    /// What was certainly not used again.
    Least,
    Most,
}

/// Replaces the verdict on resident memory where it follows from what the C library kept, while the
/// heap did not change in the same direction. `thresholds` returns the limits at a row.
pub(crate) fn explain(
    view: &PairView<'_>,
    judged: &mut [JudgedMetric],
    floor: u64,
    thresholds: impl Fn(&Match) -> Option<Thresholds>,
) {
    let Some(place) = judged.iter().position(|one| one.metric == RESIDENT) else { return };
    let Some(sides) = Side::both(view) else { return };
    let noise = Noise { floor, ..Noise::default() };
    let explained = view.rows.iter().map(|row| {
        let ruling = judged[place].at(row)?;
        let opposite = match ruling.verdict {
            Verdict::Regressed => Verdict::Improved,
            Verdict::Inconclusive if ruling.may_have_grown() => Verdict::Improved,
            Verdict::Improved => Verdict::Regressed,
            _ => return Some(ruling),
        };
        let follows = ["heap.peak", "heap.live"].iter().all(|metric| {
            let of_heap = judged.iter().find(|one| one.metric == *metric).and_then(|one| one.at(row));
            of_heap.is_some_and(|heap| [Verdict::Unchanged, opposite].contains(&heap.verdict))
        });
        let rest = thresholds(row).filter(|_| follows && view.key(row).kind == Kind::Point);
        let rest = rest.and_then(|thresholds| rest_of(view, &sides, row, ruling.verdict, &thresholds, noise));
        Some(rest.map_or(ruling, |rest| kept(ruling, rest)))
    });
    judged[place] = JudgedMetric::new(
        RESIDENT,
        judged[place].is_asked,
        view.rows,
        explained.collect::<Vec<_>>().into_iter(),
    );
}

/// Returns the ruling on a change that the C library's kept memory explains.
fn kept(ruling: Ruling, rest: Significance) -> Ruling {
    let significance = ruling.significance.map(|change| Significance {
        verdict: Verdict::Unchanged,
        is_preliminary: rest.is_preliminary,
        ..change
    });
    Ruling { verdict: Verdict::Unchanged, significance, expected: None, is_kept: true }
}

/// Judges the resident memory without what was kept when the interval began. On the side with more
/// resident memory, only what was certainly not used again counts as kept. `None` if the change
/// remains.
fn rest_of(
    view: &PairView<'_>,
    sides: &[Side<'_>; 2],
    row: &Match,
    verdict: Verdict,
    thresholds: &Thresholds,
    noise: Noise,
) -> Option<Significance> {
    let bounds =
        if verdict == Verdict::Improved { [Bound::Least, Bound::Most] } else { [Bound::Most, Bound::Least] };
    let old = sides[0].without_kept(row.baseline?, bounds[0])?;
    let new = sides[1].without_kept(row.candidate?, bounds[1])?;
    let pages = ProgramPages::at(view, row);
    let without = |runs: Vec<i64>, excess: &[i64]| -> Vec<i64> {
        without(runs.into_iter().map(Some), excess).into_iter().flatten().collect()
    };
    let (old, new) = (without(old, &pages.baseline), without(new, &pages.candidate));
    let rest = judge(&old, &new, thresholds, noise);
    let limit = i128::from(rest.limit);
    let remains = match (rest.verdict, verdict) {
        (Verdict::Inconclusive, Verdict::Improved) => rest.low < -limit,
        (Verdict::Inconclusive, _) => rest.high > limit,
        (Verdict::Improved, Verdict::Improved) => true,
        (rest, verdict) => rest == Verdict::Regressed && verdict != Verdict::Improved,
    };
    (!remains).then_some(rest)
}

impl<'a> Side<'a> {
    fn both(view: &PairView<'a>) -> Option<[Self; 2]> {
        use crate::compare::comparison::Comparability::Comparable;
        let columns =
            [RESIDENT, "cpu.rss", "cpu.kept", "heap.live", "heap.peak"].map(|metric| view.column(metric));
        if columns.iter().any(|column| column.comparability != Comparable) {
            return None;
        }
        let joined = &view.pair.joined;
        let of_side = |side: usize, aggregate: &'a Aggregate| {
            let peak = |metric| Some(JoinedColumn::new(aggregate.column(metric)?, joined, side, metric));
            Some(Self {
                resident: peak(RESIDENT)?,
                level: aggregate.column("cpu.rss")?,
                kept: aggregate.column("cpu.kept")?,
                live: aggregate.column("heap.live")?,
                peak: peak("heap.peak")?,
                previous: previous_points(&aggregate.keys),
                joined: (joined, side),
            })
        };
        Some([of_side(0, view.baseline)?, of_side(1, view.candidate)?])
    }

    /// Returns each run's resident memory without what was kept. `None` if a figure is missing, also
    /// for the first checkpoint.
    fn without_kept(&self, at: usize, bound: Bound) -> Option<Vec<i64>> {
        let (joined, side) = self.joined;
        let before = self.previous[joined.before(Figure::Peak, side, at).first().copied().unwrap_or(at)]?;
        let of_ends = |column: &Column<'a>| -> Option<Vec<[i64; 2]>> {
            let both = column.readings(before).zip(column.readings(at));
            both.map(|(before, at)| Some([before?, at?])).collect()
        };
        let ends = of_ends(&self.level)?.into_iter().zip(of_ends(&self.kept)?).zip(of_ends(&self.live)?);
        let peaks = self.resident.readings(at).into_iter().zip(self.peak.readings(at));
        let runs = ends.zip(peaks).map(|(((level, kept), live), (resident, peak))| {
            // Neither the heap's nor kept: C's blocks, mapped files, stacks.
            let others = [0, 1].map(|end| level[end] - kept[end] - live[end]);
            let used_again = (peak? - live[0]) + (others[1] - others[0]).max(0);
            let amount = match bound {
                Bound::Most => kept[0],
                Bound::Least => (kept[0] - used_again).max(0),
            };
            Some(resident? - amount)
        });
        runs.collect()
    }
}
