//! The call sites of a comparison's tests, as each format shows them.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use indexmap::IndexMap;

use crate::markdown_text::{code, escape};
use crate::options::Options;
use crate::page::{Page, Tone};
use crate::text::figure;
use crate::titles;
use crate::why::json::{
    FrameTable, VERSION, WhyCheckpoint, WhyHeld, WhyRemark, WhyReport, WhyRow, WhyTimeline,
};
use crate::why::site_rows::Sites;
use crate::why::threads::WhyThreads;
use crate::why::{held, markdown, sparkline, text};
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::results::stack_log::{Interval, StackLog};
use memprof_judge::why::difference::{CheckpointName, Difference};
use memprof_judge::why::explanations::{Explained, ExplainedRow, Explanations};
use memprof_plan::metric::Unit;
use memprof_support::elapsed::shown;
use memprof_support::labels::{one_line, width};

/// Columns of a timeline.
const COLUMNS: usize = 40;
/// Call sites on a terminal, of a row.
const MOST_IN_TEXT: usize = 3;
/// Call sites in markdown, of a row.
const MOST_IN_MARKDOWN: usize = 5;

/// Writes the call sites of a test below its table.
pub(crate) fn write_text(view: &PairView<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some((why, test)) = explanation_of(view, options) else { return Ok(()) };
    let page = Page::new(options);
    for row in &test.limits {
        writeln!(out)?;
        text::figure_of_one(&row.difference, &sites(view, row, why, MOST_IN_TEXT), options, out)?;
    }
    // With one revision, there is a row for each peak, and for what is kept.
    let is_alone = test.recorded[0].is_none();
    timelines(view, test, page, out)?;
    let most = if is_alone || test.is_asked { usize::MAX } else { 1 };
    for row in test.rows.iter().take(most) {
        writeln!(out)?;
        let sites = sites(view, row, why, MOST_IN_TEXT);
        let has_heading = is_alone && row.difference.is_alone();
        if !has_heading {
            page.line(&format!("{}:", named(&row.difference, &view.new.name)), "", Tone::Plain, out)?;
        }
        if has_heading {
            text::figure_of_one(&row.difference, &sites, options, out)?;
        } else {
            text::difference(&row.difference, &sites, options, out)?;
        }
    }
    if let Some(held) = &test.held {
        // The row above is usually the one whose owners are asked for.
        let is_same = |row: &ExplainedRow| {
            let at = row.difference.checkpoints[1].as_ref().or(row.difference.checkpoints[0].as_ref());
            let at = at.map(|at| (at.label.as_str(), at.occurrence));
            row.difference.metric == held.metric
                && at == Some((held.checkpoint.0.as_str(), held.checkpoint.1))
        };
        let is_named = !test.rows.iter().take(most).next_back().is_some_and(is_same);
        held::write_text(held, is_named, page, out)?;
    }
    if test.rows.is_empty() && !test.remarks.is_empty() {
        writeln!(out)?;
    }
    for remark in &test.remarks {
        page.line(&format!("why: {}", one_line(remark)), "", Tone::Quiet, out)?;
    }
    Ok(())
}

/// Writes live heap memory over time, a line for each side, all with one scale.
fn timelines(view: &PairView<'_>, test: &Explained, page: Page, out: &mut dyn Write) -> io::Result<()> {
    let sides = test.recorded.iter().zip([view.old, view.new]);
    let lines: Vec<_> = sides
        .filter_map(|(recorded, revision)| {
            let timelines = &recorded.as_ref()?.log.timelines;
            Some((timelines.iter().find(|one| one.family == "heap")?, one_line(&revision.name)))
        })
        .collect();
    let most = lines.iter().map(|(timeline, _)| sparkline::most(timeline)).max().unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    let widest = lines.iter().map(|(_, name)| width(name)).max().unwrap_or(0);
    let longest = lines.iter().map(|(timeline, _)| sparkline::length(timeline)).max().unwrap_or(1).max(1);
    if test.recorded[0].is_some() {
        writeln!(out)?;
    }
    for (timeline, name) in &lines {
        // Both have the same scale of time, too.
        let share = u128::from(sparkline::length(timeline)) * COLUMNS as u128 / u128::from(longest);
        let columns = usize::try_from(share).unwrap_or(COLUMNS).max(1);
        let drawn = sparkline::sparkline(timeline, columns, most);
        let peak = figure(sparkline::most(timeline), Unit::Bytes);
        let took = shown(Duration::from_nanos(sparkline::length(timeline)));
        let blanks = " ".repeat(widest - width(name));
        page.line(&format!("heap  {name}{blanks}  {drawn}  {peak} in {took}"), "", Tone::Quiet, out)?;
    }
    Ok(())
}

/// `heap.live at 'done'`, `heap.live from 'parsed' to 'done' in pr/7`,
/// `heap.peak at 'done' (baseline) and 'read' (candidate)`.
pub(crate) fn named(difference: &Difference, candidate: &str) -> String {
    let name = |one: &CheckpointName| match one.occurrence {
        1 => format!("'{}'", one_line(&one.label)),
        occurrence => format!("'{}' #{occurrence}", one_line(&one.label)),
    };
    match &difference.checkpoints {
        [Some(from), Some(to)] if from != to && difference.is_growth => {
            let [from, to, run] = [name(from), name(to), one_line(candidate).into_owned()];
            format!("{} from {from} to {to} in {run}", difference.metric)
        }
        [Some(old), Some(new)] if old != new => {
            format!("{} at {} (baseline) and {} (candidate)", difference.metric, name(old), name(new))
        }
        [_, Some(at)] | [Some(at), None] => format!("{} at {}", difference.metric, name(at)),
        [None, None] => difference.metric.clone(),
    }
}

/// Returns the call sites of a test in markdown; empty if it has none.
pub(crate) fn markdown(view: &PairView<'_>, options: &Options) -> String {
    let Some((why, explained)) = explanation_of(view, options) else { return String::new() };
    let mut text = String::new();
    if let Some(row) = explained.rows.first() {
        // The blank lines end the table before it.
        let (title, row_name) = (titles::title(view), named(&row.difference, &view.new.name));
        _ = writeln!(text, "\n**Call sites** of {}, {}\n", code(&title), escape(&row_name));
        text.push_str(&markdown::table(&row.difference, &sites(view, row, why, MOST_IN_MARKDOWN)));
    }
    text.extend(explained.held.as_ref().map(held::markdown));
    for remark in &explained.remarks {
        _ = writeln!(text, "\n{}", escape(&one_line(remark)));
    }
    text
}

/// Returns which tests were left out, and why.
pub(crate) fn left_out(options: &Options) -> Option<String> {
    Some(format!("why: {}", options.why.as_deref()?.left_out.as_deref()?))
}

/// Returns what limits the answers for tests, each once, for a report that shows no call sites below
/// these.
pub(crate) fn remarks(options: &Options) -> Vec<String> {
    let mut tests: IndexMap<&str, usize> = IndexMap::new();
    for remark in options.why.iter().flat_map(|why| &why.tests).flat_map(|test| &test.remarks) {
        *tests.entry(remark).or_default() += 1;
    }
    let remark = |(text, count): (&str, usize)| match count {
        1 => format!("why: {}", one_line(text)),
        count => format!("why: {} ({count} tests)", one_line(text)),
    };
    tests.into_iter().map(remark).collect()
}

/// Returns all call sites, for JSON.
pub(crate) fn report(comparison: &Comparison, why: &Explanations) -> WhyReport {
    let (mut rows, mut held, mut remarks, mut timelines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut threads = Vec::new();
    let mut frames = FrameTable::default();
    for test in &why.tests {
        let Some(cell) = comparison.cells.iter().find(|cell| cell.id == test.cell) else { continue };
        let names =
            [comparison.baseline, test.candidate].map(|index| comparison.revisions[index].name.as_str());
        let title = titles::distinct_title(cell);
        for (recorded, name) in test.recorded.iter().zip(names) {
            timelines.extend(recorded.iter().flat_map(|side| timelines_of(&title, name, &side.log)));
        }
        let limits = test.limits.iter().map(|row| (row, true));
        rows.extend(test.rows.iter().map(|row| (row, false)).chain(limits).map(|(row, is_limit)| WhyRow {
            is_limit,
            ..WhyRow::new(&title, names, &row.difference, row.agreements, &mut frames)
        }));
        for (run, name) in test.threads.iter().zip(names) {
            threads.extend(run.iter().map(|run| WhyThreads::new(&title, name, run)));
        }
        held.extend(test.held.iter().map(|held| WhyHeld::new(&title, names[1], held)));
        remarks.extend(test.remarks.iter().map(|text| WhyRemark {
            test: title.clone(),
            r#ref: names[1].to_owned(),
            text: text.clone(),
        }));
    }
    let frames = frames.frames();
    WhyReport {
        schema: VERSION,
        frames,
        rows,
        held,
        threads,
        timelines,
        remarks,
        left_out: why.left_out.clone(),
    }
}

/// Live bytes over time, with the checkpoints on the same clock.
fn timelines_of(test: &str, name: &str, log: &StackLog) -> impl Iterator<Item = WhyTimeline> {
    let checkpoints = |family: &str| {
        let intervals = log.family(family).map_or(&[][..], |family| family.intervals.as_slice());
        let of = |interval: &Interval| WhyCheckpoint {
            label: interval.label.clone(),
            occurrence: interval.occurrence,
            nanoseconds: interval.nanoseconds,
        };
        intervals.iter().map(of).collect()
    };
    log.timelines.iter().map(move |timeline| WhyTimeline {
        test: test.to_owned(),
        r#ref: name.to_owned(),
        family: timeline.family.clone(),
        begin: timeline.begin,
        width: timeline.width,
        buckets: timeline.buckets.clone(),
        checkpoints: checkpoints(&timeline.family),
    })
}

fn explanation_of<'a>(
    view: &PairView<'_>,
    options: &'a Options,
) -> Option<(&'a Explanations, &'a Explained)> {
    let why = options.why.as_deref()?;
    Some((why, why.for_pair(view)?))
}

fn sites<'a>(view: &PairView<'a>, row: &ExplainedRow, why: &Explanations, most: usize) -> Sites<'a> {
    let agreements = row.agreements.iter().flatten().copied().collect();
    Sites { candidate: &view.new.name, most, frames: why.frames, agreements }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_judge::why::difference::Measure;
    use memprof_judge::why::grouping::GroupBy;

    #[test]
    fn a_heading_tells_two_runs_from_two_checkpoints_of_one() {
        let heading = |labels: [&str; 2], is_growth: bool| {
            let name = |label: &str| Some(CheckpointName { label: label.to_owned(), occurrence: 1 });
            let difference = Difference {
                metric: "heap.peak".to_owned(),
                measure: Measure::AtPeak,
                checkpoints: labels.map(name),
                is_growth,
                totals: [None; 2],
                by: GroupBy::Line,
                groups: Vec::new(),
                sample: None,
                incomplete: Vec::new(),
            };
            named(&difference, "pr/7")
        };
        assert_eq!(heading(["done", "done"], false), "heap.peak at 'done'");
        assert_eq!(heading(["done", "mid"], false), "heap.peak at 'done' (baseline) and 'mid' (candidate)");
        assert_eq!(heading(["mid", "done"], true), "heap.peak from 'mid' to 'done' in pr/7");
    }
}
