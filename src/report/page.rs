//! The page of a terminal: coloured texts, groups of columns laid side by side as far as the width goes, and sentences
//! broken between words. What stands in them is its callers'.

use std::io::{self, Write};

use owo_colors::{OwoColorize, Style};
use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows as TableRows, Segment};
use tabled::settings::style::{HorizontalLine, VerticalLine};
use tabled::settings::{Alignment, Modify, Padding, Span, Theme};

use crate::report::options::Options;
use crate::report::text::NONE;
use crate::support::labels::{cut, width};

/// The width where the terminal's is not known.
const WIDTH: usize = 100;

/// A label is cut to this before a metric moves to a block below.
const LEAST_LABEL: usize = 24;

/// Takes a column on a terminal and is not trimmed off where it ends a cell.
const BLANK: char = '\u{a0}';

/// Colours, if they are on.
#[derive(Clone, Copy)]
pub(super) struct Paint {
    on: bool,
}

/// What a text says, for its colour.
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

/// A text before it is coloured, so that its width can be taken.
#[derive(Clone)]
pub(super) struct Text {
    text: String,
    tone: Tone,
}

impl Text {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    /// With the place of a sign, which every row needs, or the figures would not stand below one another.
    pub(super) fn signed(self, sign: Option<char>) -> Self {
        Self { text: format!("{} {}", self.text, sign.unwrap_or(BLANK)), tone: self.tone }
    }
}

/// Columns that belong together, such as one metric's: the sides that were measured, and the two differences where both were.
pub(super) struct Group {
    name: String,
    headings: Vec<String>,
    /// By row, then by column.
    cells: Vec<Vec<Text>>,
    widths: Vec<usize>,
}

impl Group {
    /// Of cells by row, then by column.
    pub(super) fn of(name: String, headings: Vec<String>, cells: Vec<Vec<Text>>) -> Self {
        let widths = (0..headings.len())
            .map(|column| {
                let figures = cells.iter().map(|row| width(&row[column].text)).max().unwrap_or(0);
                figures.max(width(&headings[column]))
            })
            .collect();
        Self { name, headings, cells, widths }
    }

    /// Whether a cell of this row is a figure or a word.
    fn has_something(&self, row: usize) -> bool {
        self.cells[row].iter().any(|cell| !["", NONE].contains(&cell.text.trim_matches([' ', BLANK])))
    }

    /// Columns on the terminal, with the separator before it and the space around.
    fn width(&self) -> usize {
        let columns: usize = self.widths.iter().map(|width| width + 2).sum();
        (columns + 1).max(width(&self.name) + 3)
    }
}

/// A difference by its sign: more is growth.
pub(super) fn tone_of(difference: i128) -> Tone {
    match difference {
        0 => Tone::Quiet,
        1.. => Tone::Growth,
        _ => Tone::Shrinkage,
    }
}

/// One line of the compact form.
pub(super) struct CompactLine {
    pub(super) test: String,
    pub(super) metric: String,
    pub(super) cells: [Text; 4],
    pub(super) at: Text,
}

/// Where the tables go.
#[derive(Clone, Copy)]
pub(super) struct Page {
    width: usize,
    pub(super) paint: Paint,
}

impl Page {
    pub(super) fn new(options: &Options) -> Self {
        Self { width: options.width.unwrap_or(WIDTH).max(20), paint: Paint { on: options.color } }
    }

    pub(super) fn width(self) -> usize {
        self.width
    }

    /// Groups of columns in one block, the labels cut to what is left.
    pub(super) fn lay_once(
        self,
        noun: &str,
        labels: &[Text],
        groups: &[Group],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let taken = groups.iter().map(Group::width).sum();
        self.block(noun, &self.labels_beside(taken, noun, labels), groups, out)
    }

    /// Groups of columns side by side as far as the width goes, below one another from there on, each block with the labels.
    pub(super) fn lay(
        self,
        noun: &str,
        labels: &[Text],
        groups: Vec<Group>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.lay_beside(LEAST_LABEL, noun, labels, groups, out)
    }

    /// As [`Self::lay`], with labels that are not cut below this width.
    pub(super) fn lay_beside(
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

    /// As [`Self::lay_beside`]; a row that has nothing in a block is left out of it.
    pub(super) fn lay_filled(
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

    /// As many groups side by side as the width has room for, and the labels, cut to what the widest of these leaves.
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

    /// The labels, cut to what columns of this width leave.
    fn labels_beside(self, taken: usize, noun: &str, labels: &[Text]) -> Vec<Text> {
        let room = self.width.saturating_sub(taken + 2).clamp(width(noun), longest(noun, labels));
        labels.iter().map(|label| Text::new(cut(&label.text, room), label.tone)).collect()
    }

    fn block(self, noun: &str, labels: &[Text], groups: &[Group], out: &mut dyn Write) -> io::Result<()> {
        let paint = |text: &Text| self.paint.apply(&text.text, text.tone);
        let quiet = |text: &str| self.paint.apply(text, Tone::Quiet);
        let mut table = Builder::new();
        let names = groups.iter().flat_map(|group| {
            let name = self.paint.apply(&group.name, Tone::Heading);
            std::iter::once(name)
                .chain(std::iter::repeat_n(String::new(), group.headings.len().saturating_sub(1)))
        });
        table.push_record(std::iter::once(String::new()).chain(names));
        let headings = groups.iter().flat_map(|group| &group.headings).map(|heading| quiet(heading));
        table.push_record(std::iter::once(quiet(noun)).chain(headings));
        for (row, label) in labels.iter().enumerate() {
            let cells = groups.iter().flat_map(|group| &group.cells[row]).map(paint);
            table.push_record(std::iter::once(paint(label)).chain(cells));
        }
        let mut table = table.build();
        let mut theme = Theme::new();
        theme.insert_horizontal_line(2, HorizontalLine::new('─').intersection('┼'));
        let mut column = 1;
        let mut edges = Vec::new();
        for group in groups {
            theme.insert_vertical_line(column, VerticalLine::new('│').intersection('┼'));
            edges.push((column, group.headings.len()));
            column += group.headings.len();
        }
        table.with(theme);
        table.with(Modify::new(Segment::all()).with(Padding::new(0, 2, 0, 0)).with(Alignment::right()));
        table.with(Modify::new(Columns::first()).with(Padding::new(1, 1, 0, 0)).with(Alignment::left()));
        for (first, count) in edges {
            table.with(Modify::new(Columns::one(first)).with(Padding::new(1, 2, 0, 0)));
            table.with(Modify::new(Columns::one(first + count - 1)).with(Padding::new(0, 1, 0, 0)));
            if count == 1 {
                table.with(Modify::new(Columns::one(first)).with(Padding::new(1, 1, 0, 0)));
            }
            table.modify((0, first), Span::column(isize::try_from(count).unwrap_or(1)));
            table.modify((0, first), Padding::new(1, 1, 0, 0));
        }
        table.with(Modify::new(TableRows::first()).with(Alignment::left()));
        write_trimmed(&table.to_string(), out)
    }

    pub(super) fn compact(self, lines: &[CompactLine], out: &mut dyn Write) -> io::Result<()> {
        let longest =
            |text: fn(&CompactLine) -> &str| lines.iter().map(|line| width(text(line))).max().unwrap_or(0);
        let cells: usize = (0..4)
            .map(|column| lines.iter().map(|line| width(&line.cells[column].text)).max().unwrap_or(0) + 2)
            .sum();
        let metric = longest(|line| &line.metric);
        let room = self.width.saturating_sub(cells + metric + 6);
        // What the figures leave is the test's and the checkpoint's, the test's first.
        let at =
            longest(|line| &line.at.text).min(room / 2).max(room.saturating_sub(longest(|line| &line.test)));
        let test = room.saturating_sub(at);
        let mut table = Builder::new();
        for line in lines {
            let cells = line.cells.iter().map(|cell| self.paint.apply(&cell.text, cell.tone));
            let record = [cut(&line.test, test).into_owned(), line.metric.clone()]
                .into_iter()
                .chain(cells)
                .chain([self.paint.apply(&cut(&line.at.text, at), line.at.tone)]);
            table.push_record(record);
        }
        let mut table = table.build();
        table.with(Theme::new());
        table.with(Modify::new(Segment::all()).with(Padding::new(0, 2, 0, 0)).with(Alignment::right()));
        table.with(Modify::new(Columns::new(..2)).with(Alignment::left()));
        table.with(Modify::new(Columns::first()).with(Padding::new(1, 2, 0, 0)));
        table.with(Modify::new(Columns::last()).with(Padding::zero()).with(Alignment::left()));
        write_trimmed(&table.to_string(), out)
    }

    /// A sentence, broken between words, the further lines indented.
    pub(super) fn line(
        self,
        sentence: &str,
        indent: &str,
        tone: Tone,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut line = indent.to_owned();
        let mut is_first_word = true;
        for word in sentence.split(' ') {
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

fn longest(noun: &str, labels: &[Text]) -> usize {
    labels.iter().map(|label| width(&label.text)).max().unwrap_or(0).max(width(noun))
}

/// Those rows that are wanted.
fn of_these<T>(rows: Vec<T>, wanted: &[bool]) -> Vec<T> {
    rows.into_iter().zip(wanted).filter_map(|(row, wanted)| wanted.then_some(row)).collect()
}

fn write_trimmed(table: &str, out: &mut dyn Write) -> io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "{}", line.replace(BLANK, " ").trim_end()))
}
