//! Causes in a comment on a pull request: a line each, with its hunk and its tests folded below.

use std::fmt::Write as _;

use crate::causes::entry::{Entry, Most};
use crate::causes::sheet::CauseSheet;
use crate::markdown_text::{code, escape, fence, html};
use crate::options::Options;
use crate::selection::MOST_TESTS;
use crate::why::hunk_lines::hunk_lines;
use memprof_judge::why::reasons::Reason;
use memprof_support::counted::counted;
use memprof_support::labels::{cut, one_line};

/// Show at most this many causes of a candidate, unless all rows are wanted.
const MOST_CAUSES: usize = 10;

/// A source line is cut to this width.
const MOST_OF_LINE: usize = 160;

/// The room for the causes of a candidate.
const MOST_CHARACTERS: usize = 16_000;

impl CauseSheet<'_> {
    /// Returns the causes of a candidate's changes as a list; empty if there are none.
    pub(crate) fn markdown(&self, candidate: usize, options: &Options) -> String {
        let mut text = String::new();
        let entries: Vec<Entry<'_>> = self.causes_of(candidate).collect();
        let most = if options.all_rows() { entries.len() } else { MOST_CAUSES };
        let mut shown = 0;
        for entry in entries.iter().take(most) {
            let item = self.item(entry, options);
            if text.chars().count() + item.chars().count() > MOST_CHARACTERS {
                break;
            }
            text.push_str(&item);
            shown += 1;
        }
        if shown < entries.len() {
            _ = write!(text, "\n_… {}_\n", counted(entries.len() - shown, "more cause"));
        }
        text
    }

    fn item(&self, entry: &Entry<'_>, options: &Options) -> String {
        let function = Some(entry.function_beside_place()).filter(|name| !name.is_empty());
        let function = function.map(code).unwrap_or_default();
        let [what, most] = entry.sentences().map(|sentence| sentence.replace("  ", " "));
        let mut text = format!(
            "\n{} **{}** {function} {}: **{}** · {}\n",
            entry.sign,
            code(&entry.place),
            escape(&entry.words),
            escape(&what),
            escape(&most)
        );
        if let Some(remark) = &entry.remark {
            _ = write!(text, "\n_{}_\n", escape(remark));
        }
        if let Reason::Hunk(at) = &entry.cause.reason {
            let why = options.why.as_deref().filter(|_| options.with_source);
            let sources = why.map(|why| why.sources(entry.cause.candidate)).unwrap_or_default();
            if let Some(lines) = hunk_lines(at, sources) {
                let lines =
                    lines.iter().map(|(kind, line)| format!("{kind}{}", cut(&one_line(line), MOST_OF_LINE)));
                let lines = lines.collect::<Vec<_>>().join("\n");
                let fence = fence(&lines);
                let place = format!("{} <code>{}</code>", html(&at.path), at.hunk);
                _ = write!(
                    text,
                    "\n<details><summary>the change in {place}</summary>\n\n{fence}diff\n{lines}\n{fence}\n\n</details>\n"
                );
            }
        }
        if entry.cause.tests.len() > 1 {
            text.push_str(&self.tests(entry, options));
        }
        text
    }

    /// Returns the tests of a cause, folded.
    fn tests(&self, entry: &Entry<'_>, options: &Options) -> String {
        let tests = &entry.cause.tests;
        let most = if options.all_rows() { tests.len() } else { MOST_TESTS };
        let mut text = format!(
            "\n<details><summary>{}</summary>\n\n| test | change | | where |\n| --- | ---: | ---: | --- |\n",
            counted(tests.len(), "test")
        );
        for test in tests.iter().take(most) {
            let Most { test, figures, percent, place } = Most::new(self.comparison, entry.cause, test);
            let cells = [test, figures, percent, place].map(|cell| escape(&cell)).join(" | ");
            _ = writeln!(text, "| {cells} |");
        }
        if tests.len() > most {
            _ = write!(text, "\n_… {}_\n", counted(tests.len() - most, "more test"));
        }
        text.push_str("\n</details>\n");
        text
    }
}
