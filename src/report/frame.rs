//! What surrounds the tables on a terminal: a test's title, its troubles, and the foot of the
//! report.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::compare::comparison::{Comparison, PairView};
use crate::report::notes;
use crate::report::options::Options;
use crate::report::page::{Page, Tone};
use crate::report::selection::MetricFilter;
use crate::report::summary::{StatementKind, Tally};
use crate::report::titles;
use crate::report::troubles::Trouble;
use crate::support::counted::counted;
use crate::support::labels::{cut, one_line, width};

/// Show at most this many lines about regressions, and as many about each other kind of finding.
const MOST_LINES: usize = 8;

/// What stands below all tables.
pub(super) struct Foot<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) options: &'a Options,
    pub(super) filter: &'a MetricFilter,
    /// The answer; `None` if nothing was compared.
    pub(super) tally: Option<&'a Tally>,
    /// The number of tests without a change that have no table.
    pub(super) unchanged_tests: usize,
}

impl Foot<'_> {
    pub(super) fn write(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        match self.tally {
            Some(tally) => self.answer(tally, page, out)?,
            None => answer_lines(&Tally::of_whole(self.comparison), page, out)?,
        }
        if self.unchanged_tests > 0 {
            let tests = counted(self.unchanged_tests, "unchanged test");
            let how = if self.options.only_changed { "" } else { ": --all-rows" };
            page.line(&format!("{tests} not shown{how}"), "", Tone::Quiet, out)?;
        }
        for note in notes::notes(self.comparison, self.filter) {
            page.line(&note, "", Tone::Plain, out)?;
        }
        if let Some(path) = &self.options.report_path {
            // A path is for copying, so it is never wrapped.
            writeln!(out, "{}", page.paint.apply(&format!("report: {path}"), Tone::Quiet))?;
        }
        Ok(())
    }

    fn answer(&self, tally: &Tally, page: Page, out: &mut dyn Write) -> io::Result<()> {
        answer_lines(tally, page, out)?;
        if let Some(growth) = tally.largest_growth() {
            page.line(&format!("largest growth: {growth}"), "", Tone::Growth, out)?;
        }
        if self.comparison.pairs().nth(1).is_some() {
            // Above many tables, the first line is out of sight.
            writeln!(out, "{}", page.paint.apply(&tally.counts(), Tone::Heading))?;
        }
        Ok(())
    }
}

/// Writes a line for each finding that needs attention.
fn answer_lines(tally: &Tally, page: Page, out: &mut dyn Write) -> io::Result<()> {
    for line in tally.lines(MOST_LINES) {
        let tone = match line.kind {
            Some(StatementKind::Inconclusive) | None => Tone::Plain,
            Some(_) => Tone::Growth,
        };
        page.line(&line.to_string(), "", tone, out)?;
    }
    Ok(())
}

impl Page {
    /// Writes `bart::tests hf_fwd · main → pr/3370 · 3 runs each` on one line.
    pub(super) fn title(self, view: &PairView, out: &mut dyn Write) -> io::Result<()> {
        let mut rest = format!(" · {} → {}", one_line(&view.old.name), one_line(&view.new.name));
        if let Some(runs) = titles::runs(view) {
            _ = write!(rest, " · {runs}");
        }
        let rest = cut(&rest, self.width().saturating_sub(8)).into_owned();
        let title = titles::full_title(view);
        let title = cut(&title, self.width() - width(&rest));
        writeln!(out, "{}{rest}", self.paint.apply(&title, Tone::Heading))
    }

    /// Writes the headline of a trouble.
    pub(super) fn headline(self, trouble: &Trouble, out: &mut dyn Write) -> io::Result<()> {
        self.line(&trouble.headline, " ", tone_of(trouble), out)
    }
}

/// Returns red for a failure. A test that a revision lacks or ignores is no failure.
pub(super) fn tone_of(trouble: &Trouble) -> Tone {
    if trouble.is_failure { Tone::Growth } else { Tone::Quiet }
}
