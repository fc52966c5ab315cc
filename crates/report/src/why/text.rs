//! Call sites for the terminal: the worst ones, one line each, then the rest in one line.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::options::Options;
use crate::page::{Page, Tone};
use crate::text::{cut_path, difference as signed, figure};
use crate::why::words;
use memprof_judge::why::agreement::Agreement;
use memprof_judge::why::difference::{Difference, Group};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::function_path::shortened;
use memprof_judge::why::stacks::displayed_from;
use memprof_plan::metric::Unit;
use memprof_support::labels::{one_line, width};

/// How much to show of a row's sites.
#[derive(Clone, Debug)]
pub struct Sites<'a> {
    /// The name of the candidate, or of the only revision.
    pub candidate: &'a str,
    /// At most this many groups.
    pub most: usize,
    /// This many frames of each.
    pub frames: usize,
    /// How the runs with call stacks compare with the plain ones, by side.
    pub agreements: Vec<Agreement>,
}

/// A function is not cut below this width.
const LEAST_FUNCTION: usize = 28;

/// The blanks before each line after the first.
const INDENT: &str = "     ";

/// One line of the block.
struct Line {
    amount: String,
    tone: Tone,
    function: String,
    location: String,
    class: String,
    callers: Vec<[String; 2]>,
}

/// Writes the sites of a difference, below `why:`.
pub fn difference(
    difference: &Difference,
    sites: &Sites<'_>,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page::new(options);
    let unit = Unit::of_metric(&difference.metric);
    let differing = difference.groups.iter().filter(|group| difference.of_group(group) != 0);
    let amount = |value: i64| signed(value.into(), unit);
    let shown: Vec<&Group> = differing.take(sites.most).collect();
    let mut lines: Vec<Line> = shown
        .iter()
        .map(|group| {
            let own = difference.of_group(group);
            let tone = if own > 0 { Tone::Growth } else { Tone::Shrinkage };
            line(group, (amount(own), tone), sites)
        })
        .collect();
    let elsewhere = difference.elsewhere(shown.len());
    if elsewhere != 0 || lines.is_empty() {
        lines.push(Line::plain(amount(elsewhere), "elsewhere"));
    }
    block("why: ", &lines, page, out)?;
    remarks(difference, sites, page, out)
}

/// Writes the sites of a figure of one revision, below a sentence that says which figure it is.
pub fn figure_of_one(
    difference: &Difference,
    sites: &Sites<'_>,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page::new(options);
    let unit = Unit::of_metric(&difference.metric);
    let whole = difference.whole();
    let share = |value: i64| match i128::from(whole) {
        ..=0 => String::new(),
        // Rounded to the nearest.
        whole => format!("  {:>3} %", (200 * i128::from(value) + whole).div_euclid(2 * whole)),
    };
    let amount = |value: i64| format!("{:>9}{}", figure(value, unit), share(value));
    writeln!(out, "{}", page.cut(&heading(difference), page.width()))?;
    let groups = difference.groups.iter().filter(|group| difference.of_group(group) != 0);
    let shown: Vec<&Group> = groups.take(sites.most).collect();
    let mut lines: Vec<Line> = shown
        .iter()
        .map(|group| line(group, (amount(difference.of_group(group)), Tone::Plain), sites))
        .collect();
    let elsewhere = difference.elsewhere(shown.len());
    if elsewhere != 0 {
        lines.push(Line::plain(amount(elsewhere), "elsewhere"));
    }
    block(" ", &lines, page, out)?;
    remarks(difference, sites, page, out)
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

impl Line {
    fn plain(amount: String, text: &str) -> Self {
        let (location, class, callers) = (String::new(), String::new(), Vec::new());
        Self { amount, tone: Tone::Quiet, function: text.to_owned(), location, class, callers }
    }
}

fn line(group: &Group, (amount, tone): (String, Tone), sites: &Sites<'_>) -> Line {
    let stack: Vec<&Frame> = group.stack.iter().collect();
    let callers =
        displayed_from(&stack, group.first).into_iter().skip(1).take(sites.frames.saturating_sub(1));
    let caller = |frame: &Frame| {
        let location = frame.location().unwrap_or_default();
        [one_line(&frame.name()).into_owned(), one_line(&location).into_owned()]
    };
    Line {
        amount,
        tone,
        function: one_line(group.name()).into_owned(),
        location: one_line(group.location().unwrap_or_default()).into_owned(),
        class: one_line(&words::class(group, sites.candidate)).into_owned(),
        callers: callers.map(caller).collect(),
    }
}

/// Writes aligned lines. If they are too wide, functions are shortened. If that is not enough, the
/// classes that are too wide go to lines of their own.
fn block(first: &str, lines: &[Line], page: Page, out: &mut dyn Write) -> io::Result<()> {
    let widest = |of: fn(&Line) -> &str| lines.iter().map(|line| width(of(line))).max().unwrap_or(0);
    let [amounts, locations] = [widest(|line| &line.amount), widest(|line| &line.location)];
    // A line without a source location, such as `elsewhere`, is neither cut nor aligned.
    let functions_of = |columns: usize| {
        let placed = lines.iter().filter(|line| !line.location.is_empty());
        placed.map(|line| width(&fitting(&line.function, columns, page))).max().unwrap_or(0)
    };
    let natural = functions_of(usize::MAX);
    let room = if page.is_terminal() { page.width() } else { usize::MAX };
    let taken = first.len().max(1) + amounts + 2;
    let room_of_class = room.saturating_sub(taken + LEAST_FUNCTION.min(natural) + locations + 4);
    let has_own_line = |line: &Line| width(&line.class) > room_of_class;
    let classes = lines.iter().filter(|line| !has_own_line(line)).map(|line| width(&line.class)).max();
    let beside = locations + 2 + classes.filter(|width| *width > 0).map_or(0, |width| width + 2);
    let functions = functions_of(room.saturating_sub(taken + beside).max(LEAST_FUNCTION));
    let indent = &INDENT[..first.len().min(INDENT.len())];
    for (index, line) in lines.iter().enumerate() {
        let start = if index == 0 { first } else { indent };
        let amount = page.paint.apply(&format!("{:>amounts$}", line.amount), line.tone);
        let columns = if line.location.is_empty() { room.saturating_sub(taken) } else { functions };
        let function = fitting(&line.function, columns, page);
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

fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Says that the figures are estimates, and how good they are.
pub(crate) fn estimate(difference: &Difference) -> Option<String> {
    let sample = figure(i64::try_from(difference.sample?).ok()?, Unit::Bytes);
    let first = difference.groups.iter().find_map(|group| difference.standard_error(group));
    let error = figure(i64::try_from(first.unwrap_or(0)).ok()?, Unit::of_metric(&difference.metric));
    Some(format!("estimates from one sample in {sample}; the first has a standard error of ±{error}"))
}

/// Writes what limits the answer.
fn remarks(difference: &Difference, sites: &Sites<'_>, page: Page, out: &mut dyn Write) -> io::Result<()> {
    let mut remarks: Vec<String> = Vec::new();
    remarks.extend(estimate(difference));
    for agreement in sites.agreements.iter().filter(|agreement| !agreement.is_fine()) {
        let remark = format!("the run with call stacks {agreement}");
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks
        .extend(difference.incomplete.iter().map(|reason| format!("call stacks are incomplete: {reason}")));
    remarks.iter().try_for_each(|remark| page.line(remark, INDENT, Tone::Quiet, out))
}
