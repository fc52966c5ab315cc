//! Resident memory is judged as if each run had started with the same number of pages of its files. How
//! many pages the kernel maps at once depends on how the program and its libraries are in the page cache:
//! since when, and who wrote or read them. `docs/judging.md#resident-memory-and-the-programs-files` has the reasons.

use crate::compare::comparison::{Comparability, PairView};
use crate::compare::matching::Match;
use crate::results::measurement::Kind;
use crate::verdict::limits::LEAK_FROM;

/// By how much the pages of files at `start` exceed the least of all runs, in bytes, for each run of both
/// sides. Without such figures, there is no run here.
#[derive(Debug, Default)]
pub(crate) struct FilePages {
    pub baseline: Vec<i64>,
    pub candidate: Vec<i64>,
}

impl FilePages {
    pub(crate) fn of(view: &PairView<'_>) -> Self {
        Self::found(view).unwrap_or_default()
    }

    fn found(view: &PairView<'_>) -> Option<Self> {
        let column = view.column("cpu.file");
        if column.comparability != Comparability::Comparable {
            return None;
        }
        let is_start = |row: &&Match| {
            let key = view.key(row);
            *view.cell.labels[key.label as usize] == *LEAK_FROM && key.kind == Kind::Point
        };
        let start = view.rows.iter().find(is_start)?;
        let baseline: Vec<i64> = column.baseline?.readings(start.baseline?).collect::<Option<_>>()?;
        let candidate: Vec<i64> = column.candidate?.readings(start.candidate?).collect::<Option<_>>()?;
        let least = *baseline.iter().chain(&candidate).min()?;
        let above = |side: Vec<i64>| side.into_iter().map(|file| file - least).collect();
        Some(Self { baseline: above(baseline), candidate: above(candidate) })
    }
}

/// Returns the readings without what exceeds the least, of the repeats that have one.
pub(crate) fn without(readings: impl Iterator<Item = Option<i64>>, excess: &[i64]) -> Vec<i64> {
    let excess = excess.iter().copied().chain(std::iter::repeat(0));
    readings.zip(excess).filter_map(|(reading, excess)| Some(reading? - excess)).collect()
}
