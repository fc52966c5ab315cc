//! Causes on a terminal: two lines each.

use std::io::{self, Write};

use crate::causes::entry::Entry;
use crate::causes::sheet::CauseSheet;
use crate::options::Options;
use crate::page::{Page, Tone};
use crate::text::cut_path;
use memprof_support::counted::counted;
use memprof_support::labels::width;

/// Show at most this many causes of a candidate, unless all rows are wanted.
const MOST_CAUSES: usize = 12;

/// A function is not cut below this width.
const LEAST_FUNCTION: usize = 24;

/// What a cause moves stands below its place, at this distance from the edge.
const INDENT: &str = "     ";

impl Page {
    /// Writes the causes of a candidate's changes, the worst first.
    pub(crate) fn causes(
        self,
        sheet: &CauseSheet<'_>,
        candidate: usize,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut entries: Vec<Entry<'_>> = sheet.causes_of(candidate).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let most = if options.all_rows() { entries.len() } else { MOST_CAUSES };
        let left_out = entries.len().saturating_sub(most);
        entries.truncate(most);
        let widest = |of: fn(&Entry<'_>) -> usize| entries.iter().map(of).max().unwrap_or(0);
        let [places, functions, words] = [
            widest(|one| width(&one.place)),
            widest(|one| width(&one.function)),
            widest(|one| width(&one.words)),
        ];
        let room = self.width().saturating_sub(places + words + 7);
        let functions = if self.is_terminal() { functions.min(room.max(LEAST_FUNCTION)) } else { functions };
        for entry in &entries {
            let tone = if entry.sign == '▼' { Tone::Shrinkage } else { Tone::Growth };
            let function = if self.is_terminal() {
                cut_path(&entry.function, functions)
            } else {
                (&*entry.function).into()
            };
            let function = self.cut(&function, functions);
            let start = format!(" {} {}", entry.sign, padded(&entry.place, places));
            let line = format!("{start}  {}", padded(&function, functions));
            let is_whole = !self.is_terminal() || width(&line) + 2 + width(&entry.words) <= self.width();
            let line = if is_whole { format!("{line}  {}", entry.words) } else { line };
            writeln!(out, "{}", self.paint.apply(line.trim_end(), tone))?;
            if !is_whole {
                self.line(&entry.words, INDENT, Tone::Plain, out)?;
            }
            let sentences = entry.sentences();
            let sentence = sentences.join(" · ");
            if !self.is_terminal() || width(&sentence) + INDENT.len() <= self.width() {
                writeln!(out, "{INDENT}{sentence}")?;
            } else {
                sentences.iter().try_for_each(|line| self.line(line, INDENT, Tone::Plain, out))?;
            }
            if let Some(remark) = &entry.remark {
                self.line(remark, INDENT, Tone::Quiet, out)?;
            }
        }
        if left_out > 0 {
            let line = format!("… {}: --rows all", counted(left_out, "more cause"));
            self.line(&line, " ", Tone::Quiet, out)?;
        }
        writeln!(out)
    }
}

fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}
