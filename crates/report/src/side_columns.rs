//! The figures of a baseline and its candidates beside each other. If a terminal has no room for all of
//! them, candidates have only their differences.

use std::io::{self, Write};

use crate::page::{Group, Page, Text};
use crate::row_cells::add_remarks;

/// The heading of differences, which have a sign or a blank behind them.
const DIFFERENCE: &str = "Δ  ";

/// The columns of one metric. They have a cell for each row.
pub(super) struct SideColumns {
    /// The name of the baseline, and its figures.
    pub(super) baseline: Option<(String, Vec<Text>)>,
    /// The name of each candidate, and its cells.
    pub(super) candidates: Vec<(String, Vec<CandidateCell>)>,
}

/// A figure of a candidate.
#[derive(Clone)]
pub(super) struct CandidateCell {
    pub(super) figure: Text,
    /// What is different, with the sign of the verdict.
    pub(super) difference: Text,
    /// What the sign does not say.
    pub(super) remark: Text,
    /// Whether the figure itself is shown where only one of them is: the baseline has none.
    pub(super) is_alone: bool,
}

impl SideColumns {
    pub(super) fn write(
        &self,
        page: Page,
        noun: &str,
        labels: &[Text],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let groups = self.groups(true);
        let narrow = self.groups(false);
        // A file or a pipe gets all figures.
        let is_narrow =
            page.is_terminal() && !page.fits(noun, labels, &groups) && page.fits(noun, labels, &narrow);
        page.tables(noun, labels, if is_narrow { narrow } else { groups }, out)
    }

    fn groups(&self, has_figures: bool) -> Vec<Group> {
        let baseline = self.baseline.iter().map(|(name, figures)| {
            let cells = figures.iter().map(|figure| vec![figure.clone()]).collect();
            Group::from_cells(name.clone(), vec!["baseline".to_owned()], cells)
        });
        let candidates = self.candidates.iter().map(|(name, cells)| {
            let remarks = cells.iter().map(|cell| cell.remark.clone()).collect();
            let cells = cells.iter().cloned().map(|cell| match (has_figures, cell.is_alone) {
                (true, _) => vec![cell.figure, cell.difference],
                (false, false) => vec![cell.difference],
                (false, true) => vec![cell.figure.signed(None)],
            });
            let mut cells: Vec<Vec<Text>> = cells.collect();
            let mut headings = vec![DIFFERENCE.to_owned()];
            if has_figures {
                headings.insert(0, String::new());
            }
            add_remarks(&mut headings, &mut cells, remarks);
            Group::from_cells(name.clone(), headings, cells)
        });
        baseline.chain(candidates).collect()
    }
}
