//! Causes on a terminal: the place, then what the cause moves and where it shows.

use std::io::{self, Write};

use crate::causes::entry::Entry;
use crate::causes::sheet::CauseSheet;
use crate::options::Options;
use crate::page::{Page, Tone};
use crate::text::cut_path;
use memprof_support::counted::counted;
use memprof_support::labels::{padded, width};

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
            widest(|one| width(one.function_beside_place())),
            widest(|one| width(&one.words)),
        ];
        // The words stand on a line of their own where a function needs their room.
        let room = self.width().saturating_sub(places + 5).max(LEAST_FUNCTION);
        let functions = if self.is_terminal() { functions.min(room) } else { functions };
        let has_room = !self.is_terminal() || places + functions + words + 7 <= self.width();
        for entry in &entries {
            let tone = if entry.sign == '▼' { Tone::Shrinkage } else { Tone::Growth };
            let function = entry.function_beside_place();
            let function = if self.is_terminal() { cut_path(function, functions) } else { function.into() };
            let function = self.cut(&function, functions);
            let start = format!(" {} {}", entry.sign, padded(&entry.place, places));
            let line = format!("{start}  {}", padded(&function, functions));
            let line = if has_room { format!("{line}  {}", entry.words) } else { line };
            writeln!(out, "{}", self.paint.apply(line.trim_end(), tone))?;
            let words = if has_room { "" } else { &entry.words };
            let [what, most] = entry.sentences();
            for line in self.packed([words, &what, &most]) {
                if self.is_terminal() {
                    self.line(&line, INDENT, Tone::Plain, out)?;
                } else {
                    writeln!(out, "{INDENT}{line}")?;
                }
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

    /// Puts as many parts of a sentence on each line as fit.
    fn packed<'a>(self, parts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            match lines.last_mut() {
                Some(line)
                    if !self.is_terminal()
                        || INDENT.len() + width(line) + 3 + width(part) <= self.width() =>
                {
                    *line = format!("{line} · {part}");
                }
                _ => lines.push(part.to_owned()),
            }
        }
        lines
    }
}
