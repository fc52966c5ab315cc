//! Resident memory is judged as if each run had the same number of pages of the program in memory. How many
//! pages the kernel maps at once depends on how the executable and its libraries are in the page cache: since
//! when, and who wrote or read them. `docs/judging.md#resident-memory-and-the-programs-own-pages` has the reasons.

use crate::compare::comparison::{Comparability, PairView};
use crate::compare::matching::Match;

/// By how much the program's own pages exceed the least of all runs, in bytes, for each run of both sides.
/// Without such figures, there is no run here.
#[derive(Debug, Default)]
pub(crate) struct ProgramPages {
    pub baseline: Vec<i64>,
    pub candidate: Vec<i64>,
}

impl ProgramPages {
    /// Returns the pages at a checkpoint.
    pub(crate) fn at(view: &PairView<'_>, row: &Match) -> Self {
        Self::found(view, row).unwrap_or_default()
    }

    fn found(view: &PairView<'_>, row: &Match) -> Option<Self> {
        let column = view.column("cpu.program");
        if column.comparability != Comparability::Comparable {
            return None;
        }
        let baseline: Vec<i64> = column.baseline?.readings(row.baseline?).collect::<Option<_>>()?;
        let candidate: Vec<i64> = column.candidate?.readings(row.candidate?).collect::<Option<_>>()?;
        let least = *baseline.iter().chain(&candidate).min()?;
        let above = |side: Vec<i64>| side.into_iter().map(|pages| pages - least).collect();
        Some(Self { baseline: above(baseline), candidate: above(candidate) })
    }
}

/// Returns the readings without what exceeds the least.
pub(crate) fn without(readings: impl Iterator<Item = Option<i64>>, excess: &[i64]) -> Vec<Option<i64>> {
    let excess = excess.iter().copied().chain(std::iter::repeat(0));
    readings.zip(excess).map(|(reading, excess)| Some(reading? - excess)).collect()
}
