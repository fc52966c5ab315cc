//! Resident memory that changed as the heap did. If the heap's change is confirmed, the verdict on resident memory
//! needs no more runs. `docs/judging.md#resident-memory-and-the-heap` has the reasons.

use crate::compare::comparison::{Comparability, PairColumn, PairView, Ruling};
use crate::compare::kept_memory::RESIDENT;
use crate::compare::matching::Match;
use crate::compare::program_pages::{ProgramPages, without};
use crate::results::measurement::Kind;
use crate::verdict::kinds::Verdict;
use crate::verdict::significance::{Noise, Significance, Thresholds, judge};

/// Judges an inconclusive change of resident memory as the sum of two: the heap's peak, whose change is `of_heap`, and
/// the rest. `None` if the heap's change is not confirmed, or the rest may have changed as well.
pub(crate) fn settled(
    view: &PairView<'_>,
    row: &Match,
    [resident, of_heap]: [&Ruling; 2],
    thresholds: &Thresholds,
    floor: u64,
) -> Option<Significance> {
    let (resident, heap) = (resident.significance?, of_heap.significance?);
    let is_confirmed = (heap.exact || heap.is_quiet)
        && matches!(heap.verdict, Verdict::Regressed | Verdict::Improved)
        && !heap.is_preliminary;
    if resident.verdict != Verdict::Inconclusive || !is_confirmed || view.key(row).kind != Kind::Point {
        return None;
    }
    let columns = [RESIDENT, "heap.peak"].map(|metric| view.column(metric));
    if columns.iter().any(|column| column.comparability != Comparability::Comparable) {
        return None;
    }
    let [old, new] = rests(view, row, &columns);
    let rest = judge(&old, &new, thresholds, Noise { floor, ..Noise::default() });
    let (low, high) = (heap.low.checked_add(rest.low)?, heap.high.checked_add(rest.high)?);
    let limit = i128::from(resident.limit);
    let verdict = match rest.verdict {
        Verdict::Unchanged if low > limit => Verdict::Regressed,
        Verdict::Unchanged if high < -limit => Verdict::Improved,
        _ => return None,
    };
    Some(Significance { verdict, low, high, ..resident })
}

/// Returns the resident memory without the heap's peak: of each run, by side.
fn rests(view: &PairView<'_>, row: &Match, [resident, peak]: &[PairColumn<'_>; 2]) -> [Vec<i64>; 2] {
    let pages = ProgramPages::at(view, row);
    let [of_old, of_new] = resident.readings(row);
    let [peaks_of_old, peaks_of_new] = peak.readings(row);
    let of_side = |resident: Vec<Option<i64>>, peaks: Vec<Option<i64>>, pages: &[i64]| -> Vec<i64> {
        let runs = without(resident.into_iter(), pages).into_iter().zip(peaks);
        runs.filter_map(|(resident, peak)| resident?.checked_sub(peak?)).collect()
    };
    [of_side(of_old, peaks_of_old, &pages.baseline), of_side(of_new, peaks_of_new, &pages.candidate)]
}
