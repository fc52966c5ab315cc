//! What surrounds the tables on a terminal: a test's title, its troubles, and the foot of the
//! report.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::answer::Answer;
use crate::notes;
use crate::options::Options;
use crate::page::{Page, Tone};
use crate::selection::MetricFilter;
use crate::titles;
use crate::troubles::Trouble;
use crate::why::explained::left_out;
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::results::same_code::SameCode;
use memprof_support::labels::{one_line, width};
use memprof_support::wrapped;

/// What stands below all tables.
pub(super) struct Foot<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) options: &'a Options,
    pub(super) filter: &'a MetricFilter,
    /// The answers; none if nothing was compared.
    pub(super) answers: &'a [Answer<'a>],
    /// How figures changed that no rule judges.
    pub(super) not_judged: Option<String>,
    /// What limits call sites, if no test shows them.
    pub(super) remarks: Vec<String>,
}

impl Foot<'_> {
    pub(super) fn write(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        for answer in self.answers {
            if let Some(rest) = answer.rest() {
                let candidate = &self.comparison.revisions[answer.candidate].name;
                let of =
                    if self.answers.len() > 1 { format!("{}: ", one_line(candidate)) } else { String::new() };
                page.line(&format!("{of}{rest}"), "", Tone::Plain, out)?;
            }
        }
        let same_code = SameCode::words(&self.comparison.same_code).filter(|_| self.answers.is_empty());
        if let Some(line) = same_code {
            page.line(&line, "", Tone::Plain, out)?;
        }
        if let Some(line) = &self.not_judged {
            page.line(line, "", Tone::Plain, out)?;
        }
        for note in notes::notes(self.comparison, self.filter).into_iter().chain(left_out(self.options)) {
            page.line(&note, "", Tone::Plain, out)?;
        }
        for remark in &self.remarks {
            page.line(remark, "", Tone::Quiet, out)?;
        }
        // After a proof, the answer is there already.
        let hides_next = self.options.hides_next || self.options.proof.is_some();
        let answers = if hides_next { &[] } else { self.answers };
        if let Some(next) = Answer::next_of_all(answers) {
            // A command is for copying: a file has it on one line. A terminal would break it inside a word.
            let next = if self.options.is_on_terminal {
                wrapped::lines(&next, page.width(), "next: ".len())
            } else {
                next
            };
            writeln!(out, "{next}")?;
        }
        if let Some(path) = &self.options.report_path {
            writeln!(out, "{}", page.paint.apply(&format!("report: {path}"), Tone::Quiet))?;
        }
        Ok(())
    }
}

impl Page {
    /// Writes `bart::tests hf_fwd · main → pr/3370 · 3 runs each` on one line.
    pub(super) fn title(self, view: &PairView, out: &mut dyn Write) -> io::Result<()> {
        let mut rest = format!(" · {} → {}", one_line(&view.old.name), one_line(&view.new.name));
        if let Some(runs) = titles::runs(view) {
            _ = write!(rest, " · {runs}");
        }
        let rest = self.cut(&rest, self.width().saturating_sub(8)).into_owned();
        let title = titles::full_title(view);
        let title = self.cut(&title, self.width().saturating_sub(width(&rest)));
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
