//! Markdown for a comment on a pull request: the answer first, what changed, the rest folded. A comment that is too
//! long is refused by the forges, so what does not fit is left out and said to be.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use indexmap::IndexMap;

use crate::compare::comparison::{Breach, Comparison, PairView, RowFigures};
use crate::compare::matching::{Match, RowChange};
use crate::report::markdown_text::{code, escape};
use crate::report::options::Options;
use crate::report::selection::{self, MetricFilter, Shown, TableSection};
use crate::report::summary::{self, Tally, Trouble};
use crate::report::tensors::comment;
use crate::report::text;
use crate::report::trace::markdown as traced;
use crate::support::counted::counted;
use crate::verdict::kinds::Verdict;

/// By this a bot finds its comment again.
pub const MARKER: &str = "<!-- cargo-memprof -->";

/// GitHub takes 65,536 characters; the rest is for what a bot adds.
pub const MOST_CHARACTERS: usize = 65_000;

/// What failures and notes may take of it, so that rows find room.
const MOST_OF_FAILURES: usize = 12_000;
const MOST_OF_NOTES: usize = 8_000;

/// How many lines say what regressed, and how many of what the runs do not tell.
const MOST_LINES: usize = 10;

/// Kept for the lines that say what was left out, and for closing tags.
const RESERVE: usize = 800;

/// Writes the comment.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let wanted = MetricFilter::new(options);
    let mut tally = Tally::default();
    let mut sections = Vec::new();
    for candidate in comparison.candidates() {
        sections.push(CandidateSection::new(comparison, candidate, &wanted, options, &mut tally));
    }
    let mut page = Comment::default();
    page.head(comparison, &sections, &tally);
    let failures = failures(&sections);
    let notes = notes(comparison, &wanted);
    let tensors = comment::write(comparison);
    let taken = [&failures, &notes, &tensors].iter().map(|text| text.chars().count()).sum::<usize>();
    let mut room = MOST_CHARACTERS.saturating_sub(RESERVE + page.characters() + taken);
    let several = sections.len() > 1;
    for section in &sections {
        page.changed(section, several, &mut room);
    }
    page.text.push_str(&failures);
    page.text.push_str(&tensors);
    for block in sections.iter().flat_map(|section| &section.traced) {
        page.block(block, &mut room);
    }
    for section in &sections {
        page.rest(section, several, &mut room);
    }
    page.text.push_str(&notes);
    if page.blocks_left_out > 0 {
        let blocks = counted(page.blocks_left_out, "block");
        _ = write!(page.text, "\n_{blocks} of traced functions left out for want of room._\n");
    }
    if page.left_out > 0 {
        let rows = counted(page.left_out, "row");
        _ = write!(page.text, "\n_{rows} left out for want of room; `--format csv` and `json` are whole._\n");
    }
    out.write_all(page.text.as_bytes())
}

/// One candidate's lines.
struct CandidateSection {
    name: String,
    heading: String,
    table_head: String,
    changed: Vec<TableLine>,
    rest: Vec<TableLine>,
    /// What traced functions did, in blocks.
    traced: Vec<String>,
    not_shown: usize,
    is_all_compared: bool,
    troubles: Vec<(String, Trouble)>,
    runs: Option<String>,
}

/// A row of a table, with its place among others.
struct TableLine {
    order: (u8, f64),
    text: String,
}

impl CandidateSection {
    fn new(
        comparison: &Comparison,
        candidate: usize,
        wanted: &MetricFilter,
        options: &Options,
        tally: &mut Tally,
    ) -> Self {
        let (old, new) = (&comparison.revisions[comparison.baseline], &comparison.revisions[candidate]);
        let mut section = Self {
            name: new.name.clone(),
            heading: format!("{} {} → {} {}", code(&old.name), old.short(), code(&new.name), new.short()),
            table_head: format!(
                "| test | checkpoint | metric | {} | {} | Δ | Δ % | |\n| --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n",
                escape(&old.name),
                escape(&new.name)
            ),
            changed: Vec::new(),
            rest: Vec::new(),
            traced: Vec::new(),
            not_shown: 0,
            is_all_compared: true,
            troubles: Vec::new(),
            runs: None,
        };
        let mut runs: Vec<Option<String>> = Vec::new();
        for view in comparison.pairs().filter(|view| view.new.name == new.name) {
            let parts = wanted.parts(comparison, &view);
            tally.add(comparison, &view, &parts);
            runs.push(summary::runs(&view));
            let troubles = summary::troubles(comparison, &view).into_iter();
            section.troubles.extend(troubles.map(|trouble| (summary::full_title(&view), trouble)));
            for part in &parts {
                section.add(&view, part, options);
            }
            section.traced.extend(traced::blocks(comparison, &view, options));
        }
        // Said once, if it is the same for all tests.
        runs.dedup();
        section.runs = runs.pop().filter(|_| runs.is_empty()).flatten();
        section.changed.sort_by(|a, b| a.order.0.cmp(&b.order.0).then(b.order.1.total_cmp(&a.order.1)));
        section
    }

    fn add(&mut self, view: &PairView, part: &TableSection, options: &Options) {
        let rows = selection::rows(view, part, options);
        self.not_shown += rows.left_out;
        for row in &rows.shown {
            for shown in &part.shown {
                let entry = shown.column.at(row);
                let text = table_row(view, row, shown, &entry);
                self.is_all_compared &= entry.delta.is_some() || view.change(row) != Some(RowChange::Matched);
                self.is_all_compared &= view.is_compared();
                match order(view, row, shown, &entry) {
                    Some(order) => self.changed.push(TableLine { order, text }),
                    None if !options.only_changed => self.rest.push(TableLine { order: (0, 0.0), text }),
                    None => {}
                }
            }
        }
    }
}

/// What regressed, what the runs do not tell, what improved, what is not judged and changed, and what came or went; among each
/// the largest part of the baseline first. `None` for what did not change.
fn order(view: &PairView, row: &Match, shown: &Shown, entry: &RowFigures) -> Option<(u8, f64)> {
    let part = || entry.delta.and_then(|delta| delta.percent).map_or(f64::INFINITY, f64::abs);
    let change = view.change(row)?;
    if breached(view, row, shown).is_some() {
        return Some((0, part()));
    }
    match (shown.ruling(row).map(|ruling| ruling.verdict), change, entry.delta) {
        (Some(Verdict::Regressed), ..) => Some((0, part())),
        (Some(Verdict::Inconclusive), ..) => Some((1, part())),
        (Some(Verdict::Improved), ..) => Some((2, part())),
        (_, RowChange::Added, _) => Some((5, 0.0)),
        (_, RowChange::Removed, _) => Some((6, 0.0)),
        (None, _, Some(delta)) if delta.difference != 0 => Some((3 + u8::from(delta.difference < 0), part())),
        (_, RowChange::Renamed, _) => Some((7, 0.0)),
        _ => None,
    }
}

/// What of a row is larger than it may be.
fn breached<'a>(view: &PairView<'a>, row: &Match, shown: &Shown) -> Option<&'a Breach> {
    view.breaches(&shown.metric.name).find(|breach| view.rows[breach.row] == *row)
}

/// The last column: the verdict, where there is something to say.
fn said(view: &PairView, row: &Match, shown: &Shown) -> String {
    let verdict = shown.ruling(row);
    let word = match verdict.map(|ruling| (ruling.verdict, ruling.counts())) {
        Some((Verdict::Regressed, true)) => "▲ **regressed**",
        Some((Verdict::Regressed, false)) => "▲ as expected",
        Some((Verdict::Improved, _)) => "▼ improved",
        Some((Verdict::Inconclusive, _)) => "? inconclusive",
        _ => "",
    };
    match (word, breached(view, row, shown)) {
        (word, None) => word.to_owned(),
        ("", Some(_)) => "**over its limit**".to_owned(),
        (word, Some(_)) => format!("{word}, **over its limit**"),
    }
}

fn table_row(view: &PairView, row: &Match, shown: &Shown, entry: &RowFigures) -> String {
    let figure = |figure: Option<crate::compare::aggregate::Figure>| {
        figure.map_or_else(|| text::NONE.to_owned(), |figure| text::figure(figure.value, shown.metric.unit))
    };
    let (difference, percent) = match (view.change(row), entry.delta) {
        (Some(RowChange::Added), _) => ("added".to_owned(), String::new()),
        (Some(RowChange::Removed), _) => ("removed".to_owned(), String::new()),
        (_, Some(delta)) if text::is_within_noise(shown.ruling(row), delta.difference) => {
            ("\\~".to_owned(), String::new())
        }
        (_, Some(delta)) => (text::difference(delta.difference, shown.metric.unit), text::percent(&delta)),
        (_, None) => ("not compared".to_owned(), String::new()),
    };
    format!(
        "| {} | {} | {} | {} | {} | {difference} | {} | {} |\n",
        escape(&summary::title(view)),
        escape(&text::row_label(view, row)),
        escape(&shown.metric.name),
        figure(entry.baseline),
        figure(entry.candidate),
        escape(&percent),
        said(view, row, shown)
    )
}

/// The comment as it grows.
#[derive(Default)]
struct Comment {
    text: String,
    left_out: usize,
    blocks_left_out: usize,
}

impl Comment {
    /// A block that is whole or not there.
    fn block(&mut self, block: &str, room: &mut usize) {
        match room.checked_sub(block.chars().count()) {
            Some(rest) => {
                self.text.push_str(block);
                *room = rest;
            }
            None => self.blocks_left_out += 1,
        }
    }

    fn characters(&self) -> usize {
        self.text.chars().count()
    }

    fn head(&mut self, comparison: &Comparison, sections: &[CandidateSection], tally: &Tally) {
        _ = write!(self.text, "{MARKER}\n**Memory: {}**", tally.counts());
        if let [only] = sections {
            _ = write!(self.text, " · {}", only.heading);
            if let Some(runs) = &only.runs {
                _ = write!(self.text, " · {runs}");
            }
        } else {
            let baseline = &comparison.revisions[comparison.baseline];
            let names: Vec<String> = sections.iter().map(|section| code(&section.name)).collect();
            _ = write!(self.text, " · {} → {}", code(&baseline.name), names.join(", "));
        }
        self.text.push('\n');
        let lines = tally.lines(MOST_LINES);
        if !lines.is_empty() {
            self.text.push('\n');
        }
        for (verdict, line) in lines {
            let mark = if verdict == Some(Verdict::Regressed) { "**" } else { "" };
            let (word, rest) = line.split_once(':').unwrap_or((line.as_str(), ""));
            let colon = if rest.is_empty() { "" } else { ":" };
            _ = writeln!(self.text, "- {mark}{}{mark}{colon}{}", escape(word), escape(rest));
        }
        if let Some(growth) = tally.largest_growth() {
            _ = write!(self.text, "\nLargest growth: {}\n", escape(&growth));
        }
    }

    fn changed(&mut self, section: &CandidateSection, several: bool, room: &mut usize) {
        self.left_out += section.not_shown;
        if section.changed.is_empty() {
            return;
        }
        let heading = if several { format!("\n### {}\n", section.heading) } else { String::new() };
        self.rows(&format!("{heading}\n{}", section.table_head), &section.changed, "", room);
    }

    fn rest(&mut self, section: &CandidateSection, several: bool, room: &mut usize) {
        if section.rest.is_empty() {
            return;
        }
        let of = if several { format!(" of {}", escape(&section.name)) } else { String::new() };
        let rows = counted(section.rest.len(), "row");
        let head =
            format!("\n<details><summary>{rows}{of} without a change</summary>\n\n{}", section.table_head);
        self.rows(&head, &section.rest, "\n</details>\n", room);
    }

    /// A table with as many rows as there is room for; none at all if not even one fits.
    fn rows(&mut self, head: &str, rows: &[TableLine], foot: &str, room: &mut usize) {
        let mut needed = head.chars().count() + foot.chars().count();
        let fitting = rows
            .iter()
            .take_while(|row| {
                needed += row.text.chars().count();
                needed <= *room
            })
            .count();
        self.left_out += rows.len() - fitting;
        if fitting == 0 {
            return;
        }
        let start = self.characters();
        self.text.push_str(head);
        rows[..fitting].iter().for_each(|row| self.text.push_str(&row.text));
        self.text.push_str(foot);
        *room -= self.characters() - start;
    }
}

/// What went wrong, each with the first lines of its message.
fn failures(sections: &[CandidateSection]) -> String {
    // A build that failed is the same for all tests, and a baseline's failure for all candidates.
    let mut tests: IndexMap<&Trouble, Vec<&str>> = IndexMap::new();
    for (title, trouble) in sections.iter().flat_map(|section| &section.troubles) {
        let titles = tests.entry(trouble).or_default();
        if !titles.contains(&title.as_str()) {
            titles.push(title);
        }
    }
    let mut text = String::new();
    let mut left_out = 0;
    for (trouble, titles) in tests {
        let more = match titles.len() {
            1 => String::new(),
            count => format!(" and {}", counted(count - 1, "other test")),
        };
        let mut entry = format!("\n**{}** · {}{more}\n", escape(&trouble.headline), escape(titles[0]));
        if !trouble.details.is_empty() {
            _ = writeln!(entry, "<pre>{}</pre>", html(&trouble.details.join("\n")));
        }
        if let Some(figures) = &trouble.figures {
            _ = write!(entry, "\n{}\n", escape(figures));
        }
        if text.chars().count() + entry.chars().count() > MOST_OF_FAILURES {
            left_out += 1;
        } else {
            text.push_str(&entry);
        }
    }
    if left_out > 0 {
        _ = write!(text, "\n_{} more left out for want of room._\n", counted(left_out, "failure"));
    }
    text
}

fn notes(comparison: &Comparison, wanted: &MetricFilter) -> String {
    let mut text = String::new();
    let notes = summary::notes(comparison, wanted);
    for (index, note) in notes.iter().enumerate() {
        let line = format!("- {}\n", escape(note));
        if text.chars().count() + line.chars().count() > MOST_OF_NOTES {
            _ = writeln!(text, "- _{} more left out for want of room_", counted(notes.len() - index, "note"));
            break;
        }
        text.push_str(&line);
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn html(text: &str) -> Cow<'_, str> {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_the_table_or_call_anyone() {
        assert_eq!(escape("a|b `c`\n<img> @bot #2 *x*"), "a\\|b \\`c\\`↵&lt;img&gt; &#64;bot &#35;2 \\*x\\*");
    }
}
