//! The causes on the page's first screen, each with its hunk and the memory of its worst test over time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use maud::{Markup, html};

use crate::causes::entry::{Entry, Most};
use crate::causes::sheet::CauseSheet;
use crate::html::call_sites::hunk_text;
use crate::html::page_test::PageTest;
use crate::options::Options;
use crate::text::figure;
use crate::why::sparkline;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::results::stack_log::Timeline;
use memprof_judge::why::explanations::Explanations;
use memprof_judge::why::reasons::Reason;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::elapsed::shown;
use memprof_support::labels::one_line;

/// Unfold the hunks of so many causes.
const MOST_OPEN: usize = 3;

/// Causes with a chart.
const MOST_CHARTS: usize = 12;

/// Tests named below a cause.
const MOST_TESTS: usize = 40;

/// The size of a chart, and its number of points.
const SIZE: [u32; 2] = [480, 72];
const POINTS: usize = 240;

/// Returns the causes of all candidates; nothing without any.
pub(super) fn section(
    comparison: &Comparison,
    sheet: &CauseSheet<'_>,
    tests: &[PageTest<'_>],
    options: &Options,
) -> Markup {
    let Some(why) = options.why.as_deref().filter(|_| !sheet.is_empty()) else { return html! {} };
    let entries = comparison.candidates().flat_map(|candidate| sheet.causes_of(candidate));
    // Causes with one worst test share its chart.
    let mut charts: BTreeSet<(usize, usize)> = BTreeSet::new();
    html! {
        section #causes {
            h2 { "Causes" }
            @for (number, entry) in entries.enumerate() {
                article.cause {
                    h3 {
                        span.mark.(if entry.sign == '▼' { "down" } else { "up" }) aria-hidden="true" { (entry.sign) }
                        " " (entry.place) " " @if !entry.function_beside_place().is_empty() { code { (entry.function) } }
                        @if !entry.words.is_empty() { " " small { (entry.words) } }
                    }
                    (what(comparison, tests, &entry))
                    @if let Some(remark) = &entry.remark { p.quiet { (remark) } }
                    @if let Reason::Hunk(at) = &entry.cause.reason {
                        @let sources = if options.with_source { why.sources(entry.cause.candidate) } else { &[] };
                        (hunk_text(at, sources, number < MOST_OPEN))
                    }
                    @if charts.len() < MOST_CHARTS && charts.insert((entry.cause.candidate, entry.cause.worst().cell)) { (chart(comparison, why, &entry)) }
                }
            }
        }
    }
}

/// What the cause moves, and the tests in which it shows.
fn what(comparison: &Comparison, tests: &[PageTest<'_>], entry: &Entry<'_>) -> Markup {
    let cause = entry.cause;
    let id = |cell: usize| {
        let own = |test: &&PageTest<'_>| std::ptr::eq(test.cell, &raw const comparison.cells[cell]);
        tests.iter().find(own).map(PageTest::link)
    };
    let Most { test, figures, percent, place } = &entry.most;
    html! {
        p {
            b { (entry.amount) } " " (entry.tests) " · "
            @if cause.tests.len() > 1 { "most: " }
            a href=[id(cause.worst().cell)] { (test) } " " (figures) " " (percent) " " (one_line(place))
        }
        @if cause.tests.len() > 1 {
            details {
                summary { (counted(cause.tests.len(), "test")) }
                ul {
                    @for test in cause.tests.iter().take(MOST_TESTS) {
                        @let Most { test: name, figures, percent, .. } = Most::new(comparison, cause, test);
                        li { a href=[id(test.cell)] { (name) } " " (figures) " " (percent) }
                    }
                }
                @if cause.tests.len() > MOST_TESTS {
                    p.quiet { (counted(cause.tests.len() - MOST_TESTS, "more test")) " in the list below" }
                }
            }
        }
    }
}

/// Live heap memory of the worst test over time, both sides with one scale.
fn chart(comparison: &Comparison, why: &Explanations, entry: &Entry<'_>) -> Markup {
    let cell = &comparison.cells[entry.cause.worst().cell];
    let own = |test: &&memprof_judge::why::explanations::Explained| {
        test.cell == cell.id && test.candidate == entry.cause.candidate
    };
    let Some(explained) = why.tests.iter().find(own) else { return html! {} };
    let sides = explained.recorded.iter().zip([comparison.baseline, entry.cause.candidate]);
    let lines: Vec<(&Timeline, usize)> = sides
        .filter_map(|(recorded, revision)| {
            let timelines = &recorded.as_ref()?.log.timelines;
            Some((timelines.iter().find(|one| one.family == "heap")?, revision))
        })
        .collect();
    let most = lines.iter().map(|(timeline, _)| sparkline::most(timeline)).max().unwrap_or(0);
    let longest = lines.iter().map(|(timeline, _)| sparkline::length(timeline)).max().unwrap_or(0);
    if most == 0 || longest == 0 {
        return html! {};
    }
    let name = |revision: usize| one_line(&comparison.revisions[revision].name);
    let said = |(timeline, _): &(&Timeline, usize)| {
        let took = shown(Duration::from_nanos(sparkline::length(timeline)));
        format!("{} in {took}", figure(sparkline::most(timeline), Unit::Bytes))
    };
    html! {
        figure.small {
            svg viewBox=(format!("0 0 {} {}", SIZE[0], SIZE[1])) role="img" preserveAspectRatio="none"
                aria-label=(format!("live heap memory of {} over time", entry.most.test)) {
                @for (timeline, revision) in &lines {
                    path class=(format!("r{revision}")) d=(path(timeline, most, longest)) {}
                }
            }
            figcaption.quiet {
                span { "heap of " (entry.most.test) " over time:" }
                @for line in &lines {
                    span { b class=(format!("ref r{}", line.1)) { (name(line.1)) } " " (said(line)) }
                }
            }
        }
    }
}

/// A line through the most bytes of each time.
fn path(timeline: &Timeline, most: i64, longest: u64) -> String {
    let count = timeline.buckets.len();
    let points = count.min(POINTS);
    let [width, height] = SIZE.map(f64::from);
    #[expect(clippy::cast_precision_loss, reason = "a chart has few pixels")]
    let part = |value: i128, whole: i128| value as f64 / whole as f64;
    let mut path = String::new();
    for point in 0..points {
        let edge = |point: usize| point * count / points;
        let buckets = &timeline.buckets[edge(point)..edge(point + 1)];
        let bytes = buckets.iter().map(|[_, most]| *most).max().unwrap_or(0).max(0);
        let time = u128::from(timeline.width) * edge(point + 1) as u128;
        let x = part(i128::try_from(time).unwrap_or(i128::MAX), longest.into()) * width;
        let y = (1.0 - part(bytes.into(), most.into())) * (height - 4.0) + 2.0;
        let command = if point == 0 { 'M' } else { 'L' };
        _ = write!(path, "{command}{x:.1} {y:.1}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_its_time_and_touches_the_top_at_the_peak() {
        let buckets = vec![[0, 0], [0, 100], [0, 50]];
        let timeline = Timeline { family: "heap".to_owned(), begin: 0, width: 10, buckets };
        assert_eq!(path(&timeline, 100, 60), "M80.0 70.0L160.0 2.0L240.0 36.0");
    }
}
