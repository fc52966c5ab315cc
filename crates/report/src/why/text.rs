//! Call sites for the terminal: the worst ones, one line each, then the rest in one line.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::options::Options;
use crate::page::{self, Page, Tone};
use crate::text::{cut_path, figure};
use crate::why::site_rows::{SiteRow, SiteRows, Sites};
use memprof_judge::why::difference::Difference;
use memprof_judge::why::function_path::shortened;
use memprof_plan::metric::Unit;
use memprof_support::labels::{one_line, padded, width};

/// A function is not cut below this width.
const LEAST_FUNCTION: usize = 20;

/// The blanks before each line after the first.
const INDENT: &str = "     ";

/// Writes the sites of a difference, below `why:`.
pub fn difference(
    difference: &Difference,
    sites: &Sites<'_>,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_rows("why: ", difference, sites, Page::new(options), out)
}

/// Writes the sites of a figure of one revision, below a sentence that says which figure it is.
pub fn figure_of_one(
    difference: &Difference,
    sites: &Sites<'_>,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page::new(options);
    writeln!(out, "{}", page.cut(&heading(difference), page.width()))?;
    write_rows("  ", difference, sites, page, out)
}

fn write_rows(
    first: &str,
    difference: &Difference,
    sites: &Sites<'_>,
    page: Page,
    out: &mut dyn Write,
) -> io::Result<()> {
    let SiteRows { rows, remarks, .. } = SiteRows::new(difference, sites);
    block(first, &rows, page, out)?;
    remarks.iter().try_for_each(|remark| page.line(remark, INDENT, Tone::Quiet, out))
}

fn amount_of(row: &SiteRow<'_>) -> String {
    match &row.share {
        Some(share) => format!("{}  {share:>5}", row.amount),
        None => row.amount.clone(),
    }
}

fn tone_of(row: &SiteRow<'_>) -> Tone {
    match (row.is_rest, row.share.is_some()) {
        (true, _) => Tone::Quiet,
        (false, true) => Tone::Plain,
        (false, false) => page::tone_of(row.value.into()),
    }
}

/// `at the peak, 9.85 MiB at 'postings collected':`
pub(crate) fn heading(difference: &Difference) -> String {
    let checkpoint = difference.checkpoints.iter().rev().flatten().next();
    let label = checkpoint.map_or(String::new(), |one| match one.occurrence {
        1 => format!(" at '{}'", one_line(&one.label)),
        occurrence => format!(" at '{}' #{occurrence}", one_line(&one.label)),
    });
    let what = match difference.metric.rsplit('.').next() {
        Some("peak") => "at the peak",
        Some("live") => "live",
        Some("allocated") => "allocated",
        _ => "allocations",
    };
    let amount = figure(difference.whole(), Unit::of_metric(&difference.metric));
    format!("{what}, {amount}{label}:")
}

/// Writes aligned lines. If they are too wide, functions are shortened. If that is not enough, the
/// classes that are too wide go to lines of their own.
fn block(first: &str, lines: &[SiteRow<'_>], page: Page, out: &mut dyn Write) -> io::Result<()> {
    let widest = |of: &dyn Fn(&SiteRow<'_>) -> usize| lines.iter().map(of).max().unwrap_or(0);
    let amounts = widest(&|line| width(&amount_of(line)));
    let locations = widest(&|line| width(&line.location));
    // A line without a source location, such as `elsewhere`, is neither cut nor aligned.
    let functions_of = |columns: usize| {
        let placed = lines.iter().filter(|line| !line.location.is_empty());
        placed.map(|line| width(&fitting(&line.name, columns, page))).max().unwrap_or(0)
    };
    let natural = functions_of(usize::MAX);
    let room = if page.is_terminal() { page.width() } else { usize::MAX };
    let taken = first.len().max(1) + amounts + 2;
    let room_of_class = room.saturating_sub(taken + LEAST_FUNCTION.min(natural) + locations + 4);
    let has_own_line = |line: &SiteRow<'_>| width(&line.class) > room_of_class;
    let classes = lines.iter().filter(|line| !has_own_line(line)).map(|line| width(&line.class)).max();
    let beside = locations + 2 + classes.filter(|width| *width > 0).map_or(0, |width| width + 2);
    let functions = functions_of(room.saturating_sub(taken + beside).max(LEAST_FUNCTION));
    let indent = &INDENT[..first.len().min(INDENT.len())];
    for (index, line) in lines.iter().enumerate() {
        let start = if index == 0 { first } else { indent };
        let amount = page.paint.apply(&format!("{:>amounts$}", amount_of(line)), tone_of(line));
        let columns = if line.location.is_empty() { room.saturating_sub(taken) } else { functions };
        let function = fitting(&line.name, columns, page);
        let mut text = format!("{start}{amount}  {}", padded(&function, functions));
        _ = write!(text, "  {}", padded(&line.location, locations));
        if !has_own_line(line) {
            _ = write!(text, "  {}", page.paint.apply(&line.class, Tone::Structure));
        }
        writeln!(out, "{}", text.trim_end())?;
        let below = " ".repeat(taken);
        if has_own_line(line) {
            page.line(&line.class, &format!("{below}  "), Tone::Structure, out)?;
        }
        for [function, location] in &line.callers {
            let function = fitting(function, functions.saturating_sub(2), page);
            let text = format!("{below}↑ {}  {location}", padded(&function, functions.saturating_sub(2)));
            writeln!(out, "{}", page.paint.apply(text.trim_end(), Tone::Quiet))?;
        }
    }
    Ok(())
}

/// Shortens a function on a terminal: its generic arguments first, then its modules, then the rest.
fn fitting(function: &str, columns: usize, page: Page) -> String {
    if !page.is_terminal() || width(function) <= columns {
        return function.to_owned();
    }
    let short = shortened(function, columns);
    let short = cut_path(&short, columns);
    page.cut(&short, columns).into_owned()
}
