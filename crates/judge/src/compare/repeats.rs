//! How many runs each cell still needs with `repeat: auto`.

use std::collections::HashMap;

use crate::compare::aggregate::Aggregate;
use crate::compare::comparison::{Comparison, PairView};
use crate::compare::matching::Match;
use crate::verdict::significance::{CONFIRMED, ENOUGH, LOOKS, LOOKS_AFTER_SAVED};
use memprof_plan::metric;
use memprof_plan::resolved::CellId;

/// Returns how many runs each cell and revision should have. Leaves out cells whose verdict is
/// clear, and cells that failed. With a baseline that was measured earlier, only the candidates can
/// run again.
pub fn wanted(comparison: &Comparison, is_kept: bool) -> HashMap<(&CellId, usize), u32> {
    let mut wanted: HashMap<(&CellId, usize), u32> = HashMap::new();
    for cell in &comparison.cells {
        for pair in &cell.pairs {
            let view = comparison.view(cell, pair);
            let Some(runs) = next_look(&view, is_kept) else { continue };
            for revision in [comparison.baseline, pair.candidate] {
                // The runs of a pair are those of two tests at the only revision.
                let planned = match &cell.origins {
                    Some(tests) => (&tests[revision], 0),
                    None => (&cell.id, revision),
                };
                let most = wanted.entry(planned).or_default();
                *most = runs.max(*most);
            }
        }
    }
    wanted
}

fn next_look(view: &PairView<'_>, is_kept: bool) -> Option<u32> {
    let runs = |side: &Aggregate| u32::try_from(side.runs.len() + side.failed.len()).unwrap_or(u32::MAX);
    if !view.is_compared() {
        return None;
    }
    let of_candidate = runs(view.candidate);
    let of_baseline = runs(view.baseline);
    let is_saved_once = is_kept && of_baseline == 1;
    let is_open = view.pair.judged.iter().any(|judged| {
        let column = view.column(&judged.metric);
        // A counted figure that repeats will do so in further runs.
        let repeats = |row: &Match| {
            metric::known(&judged.metric).is_counted()
                && column.at(row).candidate.is_some_and(|figure| figure.is_exact())
        };
        let wants_more = |row: &Match| judged.at(row).is_some_and(|ruling| ruling.wants_more());
        view.rows.iter().any(|row| wants_more(row) && !(is_saved_once && repeats(row)))
    });
    let done = if is_kept { of_candidate } else { of_baseline.min(of_candidate) };
    let looks = if is_kept && of_baseline >= ENOUGH { LOOKS_AFTER_SAVED } else { LOOKS };
    let most = if is_kept { most_after(of_baseline) } else { u32::MAX };
    looks.into_iter().find(|look| *look > done && *look <= most).filter(|_| is_open)
}

/// Returns how many runs of the candidate can tell something with so many runs of a saved baseline. With one of them,
/// no change is ever certain, but the first look with [`ENOUGH`] runs may show that a noisy figure did not change. Two
/// confirm a change that repeats exactly, and are too few for a rank test.
fn most_after(saved: u32) -> u32 {
    match saved {
        0 | 1 => LOOKS.into_iter().find(|look| *look >= ENOUGH).unwrap_or(ENOUGH),
        2 => CONFIRMED,
        _ => u32::MAX,
    }
}
