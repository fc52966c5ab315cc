//! How many runs each cell still needs with `repeat: auto`.

use std::collections::HashMap;

use crate::compare::aggregate::Aggregate;
use crate::compare::comparison::{Comparison, JudgedMetric, PairView};
use crate::verdict::significance::{ENOUGH, LOOKS, LOOKS_AFTER_SAVED, Significance};
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
    let rulings = view.pair.judged.iter().flat_map(JudgedMetric::rulings);
    let is_open = rulings
        .filter_map(|ruling| ruling.significance)
        .any(|significance: Significance| significance.wants_more());
    let of_candidate = runs(view.candidate);
    let of_baseline = runs(view.baseline);
    let done = if is_kept { of_candidate } else { of_baseline.min(of_candidate) };
    let looks = if is_kept && of_baseline >= ENOUGH { LOOKS_AFTER_SAVED } else { LOOKS };
    looks.into_iter().find(|look| *look > done).filter(|_| is_open)
}
