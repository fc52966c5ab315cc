//! A report from inside the program: the checkpoints and scopes so far, and the named tensors that are
//! alive. It is made of the log, so nothing is kept for it.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::platform::untracked::Untracked;
use crate::recorder::requests;
use crate::shared::bytes::Bytes;
use crate::shared::figure::NOT_MEASURED;

/// The figures so far, as text: the result of [`report`](crate::report). `{}` shows it.
pub struct Report {
    text: Untracked<u8>,
}

/// Separates the cells of a row until they are aligned.
const CELL: char = '\u{1f}';

/// The parts of metrics that are levels and peaks of bytes.
const OF_CHECKPOINTS: [&str; 8] =
    [".live", ".peak", ".rss", ".process", ".in_use", ".in_use_peak", ".used", ".used_peak"];
const OF_SCOPES: [&str; 3] = [".consumed", ".peaked", ".used"];

impl Report {
    pub(crate) fn new() -> Self {
        let mut text = Untracked::new();
        match requests::logged() {
            Some(log) => write(&mut text, as_text(&log)),
            None => text.extend(NOT_MEASURED.as_bytes()),
        }
        Self { text }
    }

    /// Shows the report in a notebook. evcxr calls it for the last expression of a cell.
    pub fn evcxr_display(&self) {
        println!("{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(as_text(&self.text).trim_end())
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

fn as_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn write(out: &mut Untracked<u8>, log: &str) {
    let of = |event: &'static str| log.lines().filter(move |line| text(line, "event") == Some(event));
    rows(out, log, "checkpoint", of("checkpoint"), &OF_CHECKPOINTS);
    // A traced call may be one of very many.
    let scopes = of("scope").filter(|line| !line.contains("\"traced\":true"));
    rows(out, log, "scope", scopes, &OF_SCOPES);
    tensors(out, of("tensor"), of("tensors_end"));
}

/// A row for each of these lines of the log, with the bytes of all metrics with these parts, and where
/// the figures come from.
fn rows<'a>(
    out: &mut Untracked<u8>,
    log: &str,
    what: &str,
    lines: impl Iterator<Item = &'a str> + Clone,
    parts: &[&str],
) {
    let is_shown = |metric: &str| parts.iter().any(|part| metric.ends_with(part));
    let mut shown: Untracked<&str> = Untracked::new();
    for (metric, _) in lines.clone().flat_map(metrics).filter(|(metric, _)| is_shown(metric)) {
        if !shown.contains(&metric) {
            shown.push(metric);
        }
    }
    let mut table = Untracked::new();
    let _ = write!(table, "{what}");
    for metric in shown.iter() {
        let _ = write!(table, "{CELL}{metric}");
    }
    let _ = write!(table, "{CELL}time");
    let mut is_empty = true;
    for line in lines {
        is_empty = false;
        let _ = write!(table, "\n{}", text(line, "label").unwrap_or_default());
        if let Some(occurrence) = number(line, "occurrence").filter(|occurrence| *occurrence > 1) {
            let _ = write!(table, " #{occurrence}");
        }
        for metric in shown.iter() {
            let _ = match metrics(line).find(|(name, _)| name == metric) {
                Some((_, bytes)) => write!(table, "{CELL}{}", Bytes(bytes)),
                None => write!(table, "{CELL}—"),
            };
        }
        let time = metrics(line).find(|(name, _)| *name == "time");
        let time = time.and_then(|(_, time)| u64::try_from(time).ok()).unwrap_or(0);
        let _ = write!(table, "{CELL}{:.1?}", Duration::from_nanos(time));
    }
    if is_empty {
        return;
    }
    align(out, as_text(&table));
    if what == "checkpoint" {
        for metric in shown.iter() {
            let begun = log.lines().filter(|line| line.contains("\"sources\":{"));
            if let Some(source) = begun.clone().find_map(|line| text(line, metric)) {
                let _ = writeln!(out, "{metric}: {source}");
            }
        }
    }
    out.push(b'\n');
}

fn tensors<'a>(
    out: &mut Untracked<u8>,
    named: impl Iterator<Item = &'a str>,
    ends: impl Iterator<Item = &'a str>,
) {
    let mut ended = Untracked::new();
    ends.filter_map(|line| number(line, "group")).for_each(|group| ended.push(group));
    ended.as_mut().sort_unstable();
    let has_ended =
        |line: &str| number(line, "group").map_or(false, |group| ended.binary_search(&group).is_ok());
    let mut alive: Untracked<&str> = Untracked::new();
    named.filter(|line| !has_ended(line)).for_each(|line| alive.push(line));
    if alive.is_empty() {
        return;
    }
    let mut table = Untracked::new();
    let _ = write!(table, "tensor{CELL}kind{CELL}shape{CELL}type{CELL}device{CELL}bytes");
    let (mut elements, mut bytes) = (0, 0);
    for (place, line) in alive.iter().enumerate() {
        let part = |name: &str| text(line, name).unwrap_or_default();
        let storage = |line: &str| number(line, "storage").filter(|storage| *storage != 0);
        let is_same = |other: &&&str| {
            storage(other).is_some()
                && storage(other) == storage(line)
                && text(other, "device") == text(line, "device")
        };
        // Slices of one storage have ranges, and bytes of their own.
        let first = alive[..place].iter().find(is_same).filter(|_| !line.contains("\"range\":["));
        let own = if first.is_some() { 0 } else { number(line, "bytes").unwrap_or(0) };
        bytes += own;
        let shape = line.split("\"shape\":[").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or("");
        elements += shape.split(',').filter_map(|extent| extent.parse::<u128>().ok()).product::<u128>();
        let _ = write!(table, "\n{}", part("name"));
        if let Some(first) = first {
            let _ = write!(table, "(->{})", text(first, "name").unwrap_or_default());
        }
        let (kind, dtype, device) = (part("kind"), part("dtype"), part("device"));
        let _ = write!(table, "{CELL}{kind}{CELL}[{shape}]{CELL}{dtype}{CELL}{device}{CELL}{}", Bytes(own));
    }
    align(out, as_text(&table));
    let noun = if alive.len() == 1 { "tensor" } else { "tensors" };
    let _ = writeln!(out, "{} {noun} alive, {elements} elements, {}", alive.len(), Bytes(bytes));
}

/// The first column to the left, all others to the right.
fn align(out: &mut Untracked<u8>, table: &str) {
    let mut widths: Untracked<usize> = Untracked::new();
    for row in table.lines() {
        for (column, cell) in row.split(CELL).enumerate() {
            let width = cell.chars().count();
            match widths.as_mut().get_mut(column) {
                Some(most) => *most = width.max(*most),
                None => widths.push(width),
            }
        }
    }
    for row in table.lines() {
        for (column, cell) in row.split(CELL).enumerate() {
            let width = widths[column];
            let _ = match column {
                0 => write!(out, "{cell:width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        out.push(b'\n');
    }
}

/// A text of a line, as JSON writes it: a quote in it is escaped, so the line is found by its name.
fn text<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let start = field(line, name)?.strip_prefix('"')?;
    let mut escaped = false;
    let end = start.find(|character| {
        let ends = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        ends
    })?;
    Some(&start[..end])
}

fn number(line: &str, name: &str) -> Option<i128> {
    digits(field(line, name)?)
}

fn digits(text: &str) -> Option<i128> {
    let is_digit = |character: char| character.is_ascii_digit() || character == '-';
    text[..text.find(|character| !is_digit(character)).unwrap_or(text.len())].parse().ok()
}

/// What is behind `"NAME":`.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.match_indices(name).find_map(|(at, _)| {
        let rest = line[at + name.len()..].strip_prefix("\":")?;
        if line[..at].ends_with('"') && !line[..at].ends_with("\\\"") { Some(rest) } else { None }
    })
}

/// The figures of a checkpoint or of a scope.
fn metrics(line: &str) -> impl Iterator<Item = (&str, i128)> + Clone {
    let of_line = field(line, "metrics").unwrap_or_default();
    of_line.trim_start_matches('{').split(',').filter_map(|pair| {
        let (name, figure) = pair.split_once(':')?;
        Some((name.strip_prefix('"')?.strip_suffix('"')?, digits(figure)?))
    })
}
