//! The answer on a terminal: a headline, a line for each changed test, and what went wrong.

use std::io::{self, Write};

use crate::answer::{Answer, Failures};
use crate::causes::sheet::CauseSheet;
use crate::finding::Finding;
use crate::options::{Options, Rows};
use crate::page::{Page, Tone};
use crate::troubles::{self, MOST_NAMES};
use crate::why::limits;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::standing::Standing;
use memprof_support::counted::{counted, some};
use memprof_support::labels::{one_line, padded, width};

/// Show at most this many tests of each standing, unless all rows are wanted.
const MOST_FINDINGS: usize = 15;

/// A test's name is not cut below this width.
const LEAST_NAME: usize = 16;

/// Place and remark stand below the figures, at this distance from the edge.
const INDENT: &str = "     ";

impl Page {
    /// Writes the headline of each candidate, with its changed tests.
    pub(super) fn answers(
        self,
        comparison: &Comparison,
        answers: &[Answer],
        causes: &CauseSheet<'_>,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for answer in answers {
            let by = causes.by_what(&answer.findings).map(|by| format!(", {by}")).unwrap_or_default();
            let counts = format!("memory: {}{by}", answer.counts());
            let revisions = format!(" · {}", answer.revisions(str::to_owned));
            let runs = answer.runs().map_or_else(String::new, |runs| format!(" · {runs}"));
            let (heading, rest) = (self.paint.apply(&counts, Tone::Heading), format!("{revisions}{runs}"));
            if width(&counts) + width(&rest) <= self.width() || !self.is_terminal() {
                writeln!(out, "{heading}{rest}")?;
            } else {
                writeln!(out, "{heading}")?;
                self.line(rest.trim_start_matches(" · "), "  ", Tone::Plain, out)?;
            }
            if let Some(differs) = answer.differs() {
                self.line(&format!("differs: {differs}"), "  ", Tone::Plain, out)?;
            }
            writeln!(out)?;
            self.causes(causes, answer.candidate, options, out)?;
            let is_listed = |finding: &&Finding| options.all_rows() || !causes.says(finding);
            self.findings(answer.findings.iter().filter(is_listed), Some(causes), options, out)?;
            self.failures(answer, options, out)?;
        }
        self.whole_troubles(comparison, out)
    }

    /// Writes the tests that regressed or exceed a limit, for a view that does not begin with the
    /// answer. They are why the exit code is 1.
    pub(super) fn reasons(
        self,
        comparison: &Comparison,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let alone = comparison.cells.iter().filter_map(|cell| Finding::alone(comparison, cell));
        let compared = Answer::of_all(comparison).into_iter().flat_map(|answer| answer.findings);
        let is_reason =
            |finding: &Finding| matches!(finding.standing, Standing::Regressed | Standing::OverLimit);
        let reasons: Vec<Finding> = alone.chain(compared).filter(is_reason).collect();
        self.findings(reasons.iter(), None, options, out)
    }

    /// Writes a line for each test that changed, the worst first.
    pub(super) fn findings<'a>(
        self,
        findings: impl Iterator<Item = &'a Finding<'a>>,
        causes: Option<&CauseSheet<'_>>,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let findings: Vec<&Finding> = findings.filter(|finding| !is_failure(finding.standing)).collect();
        let mut lines: Vec<FindingLine> = Vec::new();
        let mut left_out: Vec<(usize, Standing)> = Vec::new();
        for of_one in findings.chunk_by(|a, b| a.standing == b.standing) {
            let most = if options.rows == Rows::All { of_one.len() } else { MOST_FINDINGS };
            let line = |finding: &&Finding| FindingLine::from_finding(finding, causes, options);
            lines.extend(of_one.iter().take(most).map(line));
            if of_one.len() > most {
                left_out.push((of_one.len() - most, of_one[0].standing));
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let widths = Widths::from_lines(&lines);
        let room = self.width().saturating_sub(widths.all() - widths.test).max(LEAST_NAME);
        for line in &mut lines {
            line.test = self.cut(&line.test, room).into_owned();
        }
        let widths = Widths::from_lines(&lines);
        for line in &lines {
            self.finding(line, &widths, out)?;
            line.limits.iter().try_for_each(|limit| self.line(limit, INDENT, Tone::Plain, out))?;
        }
        for (count, standing) in left_out {
            let line = format!("… {} {}: --rows all", counted(count, "more test"), word(standing));
            self.line(&line, " ", Tone::Quiet, out)?;
        }
        writeln!(out)
    }

    fn finding(self, line: &FindingLine, widths: &Widths, out: &mut dyn Write) -> io::Result<()> {
        let mut text = format!(" {} {}", line.sign, padded(&line.test, widths.test));
        for (cell, width) in line.cells.iter().zip(widths.cells) {
            if width > 0 {
                text.push_str("  ");
                text.push_str(&padded(cell, width));
            }
        }
        let text = self.paint.apply(text.trim_end(), line.tone);
        if line.place.is_empty() {
            return writeln!(out, "{text}");
        }
        // Without figures, there is no column to stand in.
        let is_without = line.cells.iter().all(String::is_empty);
        let taken = if is_without { 3 + widths.test } else { widths.all() };
        if !self.is_terminal() || taken + 2 + width(&line.place) <= self.width() {
            let blanks = " ".repeat(taken + 2 - line.width(widths));
            return writeln!(out, "{text}{blanks}{}", line.place);
        }
        writeln!(out, "{text}")?;
        self.line(&line.place, INDENT, Tone::Plain, out)
    }

    /// Writes each failure once, with its tests and the beginning of its message. After the first ones,
    /// tests that ended in the same way share a line, without their messages.
    fn failures(self, answer: &Answer, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let is_whole = options.rows == Rows::All;
        let Failures { quoted, others } = answer.failures(is_whole);
        let headline = |headline: &str, tests: &[String]| match tests {
            [test] => format!("✗ {test}: {headline}"),
            tests if is_whole => format!("✗ {headline}: {}", tests.join(", ")),
            tests => format!("✗ {headline}: {} ({})", counted(tests.len(), "test"), some(tests, MOST_NAMES)),
        };
        for (trouble, tests) in &quoted {
            self.line(&headline(&trouble.headline, tests), " ", Tone::Growth, out)?;
            trouble.details.iter().try_for_each(|detail| self.quoted(detail, INDENT, out))?;
        }
        for (event, tests) in others.iter().take(MOST_FINDINGS) {
            self.line(&headline(event, tests), " ", Tone::Growth, out)?;
        }
        let rest = match others.len().saturating_sub(MOST_FINDINGS) {
            0 => String::new(),
            more => format!("{}, and ", counted(more, "more failure")),
        };
        if !others.is_empty() {
            self.line(&format!("… {rest}the other messages: --rows all"), " ", Tone::Quiet, out)?;
        }
        let tests = answer.without_reason();
        if !tests.is_empty() {
            let line = format!("✗ {}: no figure may be compared", some(&tests, MOST_NAMES));
            self.line(&line, " ", Tone::Growth, out)?;
        }
        if quoted.is_empty() && tests.is_empty() { Ok(()) } else { writeln!(out) }
    }

    /// Writes what went wrong apart from single tests.
    pub(super) fn whole_troubles(self, comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        let troubles = troubles::of_whole(comparison);
        for trouble in &troubles {
            self.line(&format!("✗ {}", trouble.headline), " ", Tone::Growth, out)?;
            trouble.details.iter().try_for_each(|detail| self.quoted(detail, INDENT, out))?;
        }
        if troubles.is_empty() { Ok(()) } else { writeln!(out) }
    }
}

/// Whether the test is listed with the failures.
pub(super) fn is_failure(standing: Standing) -> bool {
    matches!(standing, Standing::Failed | Standing::NotCompared)
}

/// Returns what became of further tests.
pub(super) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Regressed => "regressed",
        Standing::OverLimit => "over a limit",
        Standing::Inconclusive => "inconclusive",
        Standing::Expected => "grown as expected",
        Standing::ExpectedOverLimit => "over a limit, as expected",
        Standing::Improved => "improved",
        Standing::MaybeExpected => "may have grown, as expected",
        Standing::MaybeImproved => "may have shrunk",
        Standing::Restructured => "with other checkpoints",
        Standing::Failed => "failed",
        _ => "not compared",
    }
}

/// A finding, ready to be aligned.
struct FindingLine {
    sign: char,
    tone: Tone,
    test: String,
    cells: [String; 4],
    place: String,
    /// What was live where it broke a limit.
    limits: Vec<String>,
}

impl FindingLine {
    fn from_finding(finding: &Finding, causes: Option<&CauseSheet<'_>>, options: &Options) -> Self {
        // Of one revision, call sites have a block of their own.
        let has_block = finding.view.is_alone() && !options.is_brief();
        let tone = match finding.standing {
            Standing::Regressed | Standing::OverLimit => Tone::Growth,
            Standing::Improved => Tone::Shrinkage,
            _ => Tone::Plain,
        };
        let limits = match causes {
            _ if has_block => Vec::new(),
            Some(causes) => causes.limits_of(&finding.view, options),
            None => limits::sentences(&finding.view, options),
        };
        let shown = |text: &str| one_line(text).into_owned();
        let cells = [&finding.metric, &finding.figures, &finding.difference, &finding.percent];
        Self {
            sign: finding.sign,
            tone,
            test: finding.test(),
            cells: cells.map(|cell| shown(cell)),
            place: finding.place_and_remark(),
            limits,
        }
    }

    /// Returns the width up to the last filled column.
    fn width(&self, widths: &Widths) -> usize {
        let mut used = 3 + widths.test;
        let mut last = 3 + width(&self.test);
        for (cell, width_of_column) in self.cells.iter().zip(widths.cells) {
            if width_of_column > 0 {
                if !cell.is_empty() {
                    last = used + 2 + width(cell);
                }
                used += 2 + width_of_column;
            }
        }
        last
    }
}

/// The widths of the columns.
struct Widths {
    test: usize,
    cells: [usize; 4],
}

impl Widths {
    fn from_lines(lines: &[FindingLine]) -> Self {
        let longest = |text: &dyn Fn(&FindingLine) -> usize| lines.iter().map(text).max().unwrap_or(0);
        let cells = std::array::from_fn(|column| longest(&|line| width(&line.cells[column])));
        Self { test: longest(&|line| width(&line.test)), cells }
    }

    /// Returns the width of all columns, with the sign.
    fn all(&self) -> usize {
        3 + self.test + self.cells.iter().filter(|width| **width > 0).map(|width| width + 2).sum::<usize>()
    }
}
