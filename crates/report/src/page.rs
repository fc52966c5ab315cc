//! Lays out a terminal page: coloured text, groups of columns side by side as far as the width
//! allows, and wrapped sentences. The content comes from the callers.

use std::borrow::Cow;
use std::io::{self, Write};

use owo_colors::{OwoColorize, Style};

use crate::options::Options;
use crate::text::{self, NONE};
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_plan::metric::Unit;
use memprof_support::labels::{cut, one_line, width};

/// The width if the terminal's is unknown.
const WIDTH: usize = 100;

/// Labels are cut to this width before a metric moves to a block below.
const LEAST_LABEL: usize = 24;

/// A blank that is not trimmed at the end of a cell.
const BLANK: char = '\u{a0}';

/// Applies colours, if they are on.
#[derive(Clone, Copy)]
pub(super) struct Paint {
    on: bool,
}

/// The meaning of a text, which decides its colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Heading,
    Quiet,
    Growth,
    Shrinkage,
    Structure,
}

impl Paint {
    pub(super) fn apply(self, text: &str, tone: Tone) -> String {
        let style = match tone {
            Tone::Plain => return text.to_owned(),
            _ if !self.on || text.is_empty() => return text.to_owned(),
            Tone::Heading => Style::new().bold(),
            Tone::Quiet => Style::new().dimmed(),
            Tone::Growth => Style::new().red(),
            Tone::Shrinkage => Style::new().green(),
            Tone::Structure => Style::new().cyan(),
        };
        text.style(style).to_string()
    }
}

/// A text with its tone. Colours come later, because they would change the measured width.
#[derive(Clone)]
pub(super) struct Text {
    text: String,
    tone: Tone,
}

impl Text {
    /// Takes any text. What would act on the terminal is made visible.
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: visible(text.into()), tone }
    }

    /// Returns a figure with its unit, or a dash if there is none.
    pub(super) fn figure(value: Option<i64>, unit: Unit) -> Self {
        match value {
            Some(value) => Self::new(text::figure(value, unit), Tone::Plain),
            None => Self::new(NONE, Tone::Quiet),
        }
    }

    /// Returns a difference, coloured by its direction.
    pub(super) fn difference(difference: i128, unit: Unit) -> Self {
        Self::new(text::difference(difference, unit), tone_of(difference))
    }

    /// Returns an empty text.
    pub(super) fn empty() -> Self {
        Self::new("", Tone::Plain)
    }

    /// Appends blanks up to a width.
    pub(super) fn padded(self, columns: usize) -> Self {
        let blanks = columns.saturating_sub(width(&self.text));
        Self { text: self.text + &BLANK.to_string().repeat(blanks), tone: self.tone }
    }

    /// Moves a label to a level of a tree.
    pub(super) fn indented(self, level: usize) -> Self {
        Self { text: format!("{}{}", "  ".repeat(level), self.text), tone: self.tone }
    }

    /// Puts words before it. Alone, they are quiet.
    pub(super) fn after(self, words: &str) -> Self {
        if self.is_empty() {
            return Self::new(words, Tone::Quiet);
        }
        Self { text: format!("{words}, {}", self.text), tone: self.tone }
    }

    /// Returns the text itself.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Appends a sign, or a blank of its width, so that figures stay aligned.
    pub(super) fn signed(self, sign: Option<char>) -> Self {
        Self { text: format!("{} {}", self.text, sign.unwrap_or(BLANK)), tone: self.tone }
    }
}

/// Columns that belong together, such as one metric's: the measured sides, and the differences if
/// both were measured.
pub(super) struct Group {
    name: String,
    headings: Vec<String>,
    /// By row, then by column.
    cells: Vec<Vec<Text>>,
    widths: Vec<usize>,
}

impl Group {
    /// Takes the cells by row, then by column.
    pub(super) fn from_cells(name: String, headings: Vec<String>, cells: Vec<Vec<Text>>) -> Self {
        let widths = (0..headings.len())
            .map(|column| {
                let figures = cells.iter().map(|row| width(&row[column].text)).max().unwrap_or(0);
                figures.max(width(&headings[column]))
            })
            .collect();
        Self { name: visible(name), headings, cells, widths }
    }

    /// Whether any cell of this row has a content.
    fn has_something(&self, row: usize) -> bool {
        self.cells[row].iter().any(|cell| !["", NONE].contains(&cell.text.trim_matches([' ', BLANK])))
    }

    /// The columns' widths if the name has room above them. What it needs is shared, and the first column
    /// takes the rest.
    fn widths_below_the_name(&self) -> Vec<usize> {
        let count = self.widths.len();
        let inside = self.widths.iter().sum::<usize>() + 2 * count;
        let more = (width(&self.name) + 2).saturating_sub(inside);
        let share = |column: usize| more / count + if column == 0 { more % count } else { 0 };
        self.widths.iter().enumerate().map(|(column, width)| width + share(column)).collect()
    }

    /// Returns the width on the terminal, including the separator before it and the padding.
    pub(super) fn width(&self) -> usize {
        let columns: usize = self.widths.iter().map(|width| width + 2).sum();
        (columns + 1).max(width(&self.name) + 3)
    }
}

/// Returns the tone of a difference by its sign.
pub(super) fn tone_of(difference: i128) -> Tone {
    match difference {
        0 => Tone::Quiet,
        1.. => Tone::Growth,
        _ => Tone::Shrinkage,
    }
}

/// One line of the compact table.
pub(super) struct CompactLine {
    pub(super) test: String,
    pub(super) metric: String,
    pub(super) cells: [Text; 4],
    pub(super) at: Text,
}

/// A revision's name above its columns is cut to this width.
const MOST_HEADING: usize = 12;

/// Returns the heading of a revision's columns in tables that are as narrow everywhere.
pub(super) fn cut_heading(name: &str) -> String {
    cut(&one_line(name), MOST_HEADING).into_owned()
}

/// A terminal page with a width.
#[derive(Clone, Copy)]
pub(super) struct Page {
    width: usize,
    /// Whether a reader has only so many columns. Elsewhere nothing is cut.
    is_terminal: bool,
    pub(super) paint: Paint,
}

impl Page {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            width: options.width.unwrap_or(WIDTH).max(20),
            is_terminal: options.width.is_some(),
            paint: Paint { on: options.color },
        }
    }

    /// Whether the width is that of a terminal.
    pub(super) fn is_terminal(self) -> bool {
        self.is_terminal
    }

    /// Cuts a text to a width on a terminal, and keeps it elsewhere.
    pub(super) fn cut(self, text: &str, to: usize) -> Cow<'_, str> {
        if self.is_terminal { cut(text, to) } else { Cow::Borrowed(text) }
    }

    /// Returns the heading of a revision's columns.
    pub(super) fn heading(self, name: &str) -> String {
        if self.is_terminal { cut_heading(name) } else { one_line(name).into_owned() }
    }

    /// Returns the heading of a measured side. A mark shows that a run did not pass.
    pub(super) fn heading_of_side(self, name: &str, side: &Aggregate) -> String {
        let mark = if side.availability == Availability::CutOff { "✗ " } else { "" };
        format!("{mark}{}", self.heading(name))
    }

    pub(super) fn width(self) -> usize {
        self.width
    }

    /// Whether groups of columns fit beside labels, which may be cut.
    pub(super) fn fits(self, noun: &str, labels: &[Text], groups: &[Group]) -> bool {
        let least = longest(noun, labels).min(LEAST_LABEL) + 2;
        least + groups.iter().map(Group::width).sum::<usize>() <= self.width
    }

    /// Writes groups of columns in one block. Labels are cut to the remaining width.
    pub(super) fn one_table(
        self,
        noun: &str,
        labels: &[Text],
        groups: &[Group],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let taken = groups.iter().map(Group::width).sum();
        self.block(noun, &self.labels_beside(taken, noun, labels), groups, out)
    }

    /// Writes groups of columns side by side as far as the width allows, then in further blocks
    /// below. Each block repeats the labels.
    pub(super) fn tables(
        self,
        noun: &str,
        labels: &[Text],
        groups: Vec<Group>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.tables_with_long_labels(LEAST_LABEL, noun, labels, groups, out)
    }

    /// Like [`Self::tables`], but cuts no label below this width.
    pub(super) fn tables_with_long_labels(
        self,
        least: usize,
        noun: &str,
        labels: &[Text],
        groups: Vec<Group>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (labels, blocks) = self.blocks_of(least, noun, labels, groups);
        self.stack(noun, blocks.into_iter().map(|block| (labels.clone(), block)), out)
    }

    /// Like [`Self::tables_with_long_labels`], but leaves a row out of blocks in which it is empty.
    pub(super) fn tables_of_filled_rows(
        self,
        least: usize,
        noun: &str,
        labels: &[Text],
        groups: Vec<Group>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (labels, blocks) = self.blocks_of(least, noun, labels, groups);
        let filled = |block: Vec<Group>| {
            let has_something = |row: usize| block.iter().any(|group| group.has_something(row));
            let filled: Vec<bool> = (0..labels.len()).map(has_something).collect();
            let groups = block.into_iter();
            let groups = groups.map(|group| Group { cells: of_these(group.cells, &filled), ..group });
            (of_these(labels.clone(), &filled), groups.collect())
        };
        self.stack(noun, blocks.into_iter().map(filled), out)
    }

    fn stack(
        self,
        noun: &str,
        blocks: impl Iterator<Item = (Vec<Text>, Vec<Group>)>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (index, (labels, groups)) in blocks.enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            self.block(noun, &labels, &groups, out)?;
        }
        Ok(())
    }

    /// Distributes the groups into blocks, and cuts the labels to what the widest block leaves.
    fn blocks_of(
        self,
        least: usize,
        noun: &str,
        labels: &[Text],
        groups: Vec<Group>,
    ) -> (Vec<Text>, Vec<Vec<Group>>) {
        let least = longest(noun, labels).min(least) + 2;
        let mut blocks: Vec<Vec<Group>> = Vec::new();
        let mut used = 0;
        for group in groups {
            match blocks.last_mut() {
                Some(block) if used + group.width() <= self.width => {
                    used += group.width();
                    block.push(group);
                }
                _ => {
                    used = least + group.width();
                    blocks.push(vec![group]);
                }
            }
        }
        if blocks.is_empty() {
            blocks.push(Vec::new());
        }
        let widest: usize =
            blocks.iter().map(|block| block.iter().map(Group::width).sum()).max().unwrap_or(0);
        (self.labels_beside(widest, noun, labels), blocks)
    }

    /// Cuts the labels to what columns of this width leave.
    fn labels_beside(self, taken: usize, noun: &str, labels: &[Text]) -> Vec<Text> {
        let room = self.width.saturating_sub(taken + 2).clamp(width(noun), longest(noun, labels));
        labels.iter().map(|label| Text::new(self.cut(&label.text, room), label.tone)).collect()
    }

    fn block(self, noun: &str, labels: &[Text], groups: &[Group], out: &mut dyn Write) -> io::Result<()> {
        let label = longest(noun, labels);
        let mut names = " ".repeat(label + 2);
        let mut headings = format!(" {} ", self.left(noun, Tone::Quiet, label));
        let mut rule = "─".repeat(label + 2);
        let start = |text: &Text| format!(" {} ", self.left(&text.text, text.tone, label));
        let mut rows: Vec<String> = labels.iter().map(start).collect();
        for group in groups {
            let widths = group.widths_below_the_name();
            let inside = widths.iter().sum::<usize>() + 2 * widths.len();
            names.extend(["│ ", &self.left(&group.name, Tone::Heading, inside.saturating_sub(2)), " "]);
            rule.extend(["┼", &"─".repeat(inside)]);
            let texts = group.headings.iter().map(|heading| (heading.as_str(), Tone::Quiet));
            self.columns(&widths, texts, &mut headings);
            for (row, cells) in rows.iter_mut().zip(&group.cells) {
                self.columns(&widths, cells.iter().map(|cell| (cell.text.as_str(), cell.tone)), row);
            }
        }
        [names, headings, rule].into_iter().chain(rows).try_for_each(|line| write_trimmed(&line, out))
    }

    /// Appends the columns of a group to a line.
    fn columns<'a>(self, widths: &[usize], texts: impl Iterator<Item = (&'a str, Tone)>, line: &mut String) {
        let cells: Vec<String> =
            texts.zip(widths).map(|((text, tone), width)| self.right(text, tone, *width)).collect();
        line.extend(["│ ", &cells.join("  "), " "]);
    }

    /// Returns a text with blanks after it.
    fn left(self, text: &str, tone: Tone, to: usize) -> String {
        self.paint.apply(text, tone) + &" ".repeat(to.saturating_sub(width(text)))
    }

    /// Returns a text with blanks before it.
    fn right(self, text: &str, tone: Tone, to: usize) -> String {
        " ".repeat(to.saturating_sub(width(text))) + &self.paint.apply(text, tone)
    }

    pub(super) fn compact(self, lines: &[CompactLine], out: &mut dyn Write) -> io::Result<()> {
        let longest =
            |text: fn(&CompactLine) -> &str| lines.iter().map(|line| width(text(line))).max().unwrap_or(0);
        let cells: usize = (0..4)
            .map(|column| lines.iter().map(|line| width(&line.cells[column].text)).max().unwrap_or(0) + 2)
            .sum();
        let metric = longest(|line| &line.metric);
        let room = self.width.saturating_sub(cells + metric + 6);
        // Tests get the remaining width first, then checkpoints.
        let at =
            longest(|line| &line.at.text).min(room / 2).max(room.saturating_sub(longest(|line| &line.test)));
        let test = room.saturating_sub(at);
        let cut: Vec<_> = lines.iter().map(|line| self.cut(&line.test, test)).collect();
        let test = cut.iter().map(|test| width(test)).max().unwrap_or(0);
        let widths: [usize; 4] = std::array::from_fn(|column| {
            lines.iter().map(|line| width(&line.cells[column].text)).max().unwrap_or(0)
        });
        lines.iter().zip(&cut).try_for_each(|(line, name)| {
            let cells = line.cells.iter().zip(widths);
            let mut texts = vec![
                self.left(name, Tone::Plain, test),
                self.left(&visible(line.metric.clone()), Tone::Plain, metric),
            ];
            texts.extend(cells.map(|(cell, width)| self.right(&cell.text, cell.tone, width)));
            texts.push(self.paint.apply(&self.cut(&line.at.text, at), line.at.tone));
            write_trimmed(&format!(" {}", texts.join("  ")), out)
        })
    }

    /// Writes a line of a message, with its own blanks. A terminal wraps it.
    pub(super) fn quoted(self, line: &str, indent: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{indent}{}", self.paint.apply(&one_line(line), Tone::Quiet))
    }

    /// Writes a sentence, wrapped between words, with further lines indented.
    pub(super) fn line(
        self,
        sentence: &str,
        indent: &str,
        tone: Tone,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut line = indent.to_owned();
        let mut is_first_word = true;
        for word in one_line(sentence).split(' ') {
            if !is_first_word && width(&line) + 1 + width(word) > self.width {
                writeln!(out, "{}", self.paint.apply(&line, tone))?;
                line = format!("{indent}  ");
                is_first_word = true;
            }
            if !is_first_word {
                line.push(' ');
            }
            line.push_str(word);
            is_first_word = false;
        }
        writeln!(out, "{}", self.paint.apply(&line, tone))
    }
}

/// Returns what is written, without blank lines around it.
pub(super) fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("writing to memory does not fail");
    String::from_utf8_lossy(&bytes).trim_matches('\n').to_owned()
}

/// Makes everything visible that would act on the terminal, or would not show.
fn visible(text: String) -> String {
    let changed = match one_line(&text) {
        Cow::Owned(changed) => Some(changed),
        Cow::Borrowed(_) => None,
    };
    changed.unwrap_or(text)
}

fn longest(noun: &str, labels: &[Text]) -> usize {
    labels.iter().map(|label| width(&label.text)).max().unwrap_or(0).max(width(noun))
}

/// Returns the rows to keep.
fn of_these<T>(rows: Vec<T>, keep: &[bool]) -> Vec<T> {
    rows.into_iter().zip(keep).filter_map(|(row, keep)| keep.then_some(row)).collect()
}

fn write_trimmed(line: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", line.replace(BLANK, " ").trim_end())
}
