//! The figures of a baseline and its candidates beside each other. If a terminal has no room for all of
//! them, candidates have only their differences.

use std::io::{self, Write};

use crate::page::{Group, Page, Text, Tone};
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
    /// Whether only the candidate has the row.
    pub(super) is_added: bool,
}

/// What the columns of a candidate have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    FiguresAndDifferences,
    /// Where only the candidate has the row, its figure takes the place of the difference.
    DifferencesAndNewFigures,
    Differences,
}

impl SideColumns {
    pub(super) fn write(
        &self,
        page: Page,
        noun: &str,
        labels: &[Text],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let shown = [Shown::FiguresAndDifferences, Shown::DifferencesAndNewFigures, Shown::Differences];
        // A file or a pipe gets all figures.
        let fits = |shown: &Shown| !page.is_terminal() || page.fits(noun, labels, &self.groups(*shown));
        let shown = shown.into_iter().find(fits).unwrap_or(Shown::FiguresAndDifferences);
        page.tables(noun, labels, self.groups(shown), out)
    }

    fn groups(&self, shown: Shown) -> Vec<Group> {
        let has_figures = shown == Shown::FiguresAndDifferences;
        let baseline = self.baseline.iter().map(|(name, figures)| {
            let cells = figures.iter().map(|figure| vec![figure.clone()]).collect();
            Group::from_cells(name.clone(), vec!["baseline".to_owned()], cells)
        });
        let candidates = self.candidates.iter().map(|(name, cells)| {
            let remarks = cells.iter().map(|cell| cell.remark.clone()).collect();
            let cells = cells.iter().cloned().map(|cell| match shown {
                Shown::FiguresAndDifferences => vec![cell.figure, cell.difference],
                Shown::DifferencesAndNewFigures if cell.is_added => {
                    let new = format!("new: {}", cell.figure.as_str());
                    vec![Text::new(new, Tone::Structure).signed(None)]
                }
                Shown::DifferencesAndNewFigures | Shown::Differences => vec![cell.difference],
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
