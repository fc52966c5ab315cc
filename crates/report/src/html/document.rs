//! The page of a comparison, from the verdict to the environment.

use std::io::{self, Write};

use maud::{Markup, html};

use crate::answer::Answer;
use crate::causes::sheet::CauseSheet;
use crate::finding::Finding;
use crate::html::causes;
use crate::html::chart_data::ChartData;
use crate::html::page_test::{PageTest, PageView};
use crate::html::proof;
use crate::html::shell::{self, Page};
use crate::html::side_tables;
use crate::html::test_section::{Surroundings, trouble_text};
use crate::html::{checkpoint_table, environment};
use crate::notes;
use crate::options::Options;
use crate::selection::MetricFilter;
use crate::sides::SideTables;
use crate::single::Single;
use crate::test_figures::of_both;
use crate::text;
use crate::troubles;
use crate::why::explained;
use memprof_judge::compare::comparison::Comparison;
use memprof_support::labels::one_line;

/// So many changed tests are unfolded.
const MOST_OPEN: usize = 20;

/// Writes the page.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let filter = MetricFilter::new(options);
    let tests = PageTest::all(comparison, options);
    let surroundings = Surroundings { comparison, options, filter: &filter };
    let answers = Answer::of_all(comparison);
    let sheet = CauseSheet::new(comparison, options);
    let title = title(comparison, &answers, &sheet);
    let mut notes = notes::notes(comparison, &filter);
    notes.extend(explained::left_out(options));
    let notable = tests.iter().filter(|test| test.is_notable()).count().min(MOST_OPEN);
    // With few tests, nothing must be unfolded to see a chart. Causes have charts of their own.
    let open = match (notable, tests.len()) {
        _ if !sheet.is_empty() => 1,
        (0, few @ ..=3) => few,
        _ => notable,
    };
    let body = html! {
        a.skip href="#tests" { "Skip to the tests" }
        (header(comparison, &answers, &title, &notes, options))
        (causes::section(comparison, &sheet, &tests, options))
        @if let Some(proof) = &options.proof { (proof::section(proof)) }
        @if let Some(sides) = SideTables::for_comparison(comparison, &sheet, &filter, options) { (side_tables::section(comparison, &sides)) }
        (list(comparison, &filter, &tests))
        main {
            @for (number, test) in tests.iter().enumerate() {
                (surroundings.section(number, test, number < open))
            }
        }
        (environment::section(comparison))
    };
    let page = Page { title: &title, body: &body, is_history: false };
    shell::write(&page, &ChartData::for_tests(comparison, &tests), out)
}

/// The verdict in one sentence.
fn title(comparison: &Comparison, answers: &[Answer<'_>], sheet: &CauseSheet<'_>) -> String {
    if let [revision] = comparison.revisions.as_slice() {
        return Single { comparison, revision }.headline();
    }
    let several = answers.len() > 1;
    let one = |answer: &Answer<'_>| {
        let name = &comparison.revisions[answer.candidate].name;
        let by = sheet.by_what(&answer.findings).map(|by| format!(", {by}")).unwrap_or_default();
        let counts = format!("{}{by}", answer.counts());
        if several { format!("{}: {counts}", one_line(name)) } else { counts }
    };
    format!("memory: {}", answers.iter().map(one).collect::<Vec<_>>().join(" · "))
}

fn header(
    comparison: &Comparison,
    answers: &[Answer<'_>],
    title: &str,
    notes: &[String],
    options: &Options,
) -> Markup {
    // After a proof, the answer is there already.
    let next = Answer::next_of_all(answers).filter(|_| options.proof.is_none());
    html! {
        header #top {
            h1 { (title) }
            p.refs {
                (reference(comparison, comparison.baseline))
                @for (number, candidate) in comparison.candidates().enumerate() {
                    @if number == 0 { " → " } @else { ", " }
                    (reference(comparison, candidate))
                }
                @if let [answer] = answers && let Some(runs) = answer.runs() { " · " (runs) }
            }
            @for answer in answers {
                @if let Some(differs) = answer.differs() {
                    p.differs {
                        @if answers.len() > 1 { (one_line(&comparison.revisions[answer.candidate].name)) " " }
                        "differs: " (differs)
                    }
                }
                @if let Some(rest) = answer.rest() {
                    p.quiet {
                        @if answers.len() > 1 { (one_line(&comparison.revisions[answer.candidate].name)) ": " }
                        (rest)
                    }
                }
            }
            @if let Some(next) = next { (shell::command(&next)) }
            @for trouble in troubles::of_whole(comparison) { (trouble_text(&trouble)) }
            @if !notes.is_empty() {
                ul.notes { @for note in notes { li { (one_line(note)) } } }
            }
        }
    }
}

fn reference(comparison: &Comparison, index: usize) -> Markup {
    let revision = &comparison.revisions[index];
    let short = revision.short();
    html! {
        b class=(format!("ref r{index}")) { (one_line(&revision.name)) }
        @if revision.name != short { " " code { (short) } }
    }
}

/// All tests in a table, a line for each candidate.
fn list(comparison: &Comparison, filter: &MetricFilter, tests: &[PageTest<'_>]) -> Markup {
    let several = comparison.revisions.len() > 2;
    let mut lines: Vec<_> = (tests.iter().enumerate())
        .flat_map(|(number, test)| test.sides.iter().map(move |side| (number, test, side)))
        .collect();
    // The tests are in order; of several candidates, a regression comes before an improvement.
    lines.sort_by_key(|(.., side)| {
        let order = side.finding.as_ref().map(Finding::order);
        (order.is_none(), order)
    });
    html! {
        nav #tests aria-label="Tests" {
            h2 { "Tests" }
            div.tools hidden {}
            div.scroll {
                table.list {
                    thead {
                        tr {
                            th scope="col" { "test" }
                            @if several { th scope="col" { "ref" } }
                            th scope="col" { "verdict" }
                            th scope="col" { "metric" }
                            th.n scope="col" { "figures" }
                            th.n scope="col" { "difference" }
                            th.n scope="col" { "%" }
                            th scope="col" { "checkpoint" }
                        }
                    }
                    tbody {
                        @for (number, test, side) in lines {
                            (list_line(comparison, filter, number, test, side))
                        }
                    }
                }
            }
        }
    }
}

fn list_line(
    comparison: &Comparison,
    filter: &MetricFilter,
    number: usize,
    test: &PageTest<'_>,
    side: &PageView<'_>,
) -> Markup {
    let several = comparison.revisions.len() > 2;
    let line = Line::for_side(comparison, filter, side);
    let direction = checkpoint_table::of_verdict(side.finding.as_ref().map(|finding| finding.sign));
    html! {
        tr data-test=(number) data-standing=(side.key())
            data-difference=[line.change.map(|(difference, _)| difference)]
            data-percent=[line.change.and_then(|(_, percent)| percent).map(|percent| format!("{percent:.4}"))]
        {
            td { a href=(test.link()) { (test.title) } }
            @if several { td { (one_line(&side.view.new.name)) } }
            td {
                @if let Some(finding) = &side.finding { span.mark aria-hidden="true" { (finding.sign) } " " }
                (side.word())
            }
            td { (one_line(&line.metric)) }
            td.n { (line.figures) }
            td class=(format!("n {direction}").trim_end()) { (line.difference) }
            td class=(format!("n {direction}").trim_end()) { (line.percent) }
            td { (one_line(&line.place)) }
        }
    }
}

/// The figures of a line in the list of tests.
#[derive(Default)]
struct Line {
    metric: String,
    figures: String,
    difference: String,
    percent: String,
    place: String,
    /// The difference in the metric's unit, and in percent.
    change: Option<(i128, Option<f64>)>,
}

impl Line {
    /// The worst change; of a test without one, the first metric of the whole test.
    fn for_side(comparison: &Comparison, filter: &MetricFilter, side: &PageView<'_>) -> Self {
        let view = &side.view;
        if let Some(finding) = &side.finding {
            return Self {
                metric: finding.metric.clone(),
                figures: finding.figures.clone(),
                difference: finding.difference.clone(),
                percent: finding.percent.clone(),
                place: if finding.checkpoint.is_empty() {
                    finding.remark.clone()
                } else {
                    finding.checkpoint.clone()
                },
                change: finding.change,
            };
        }
        let Some(metric) = filter.of_points(comparison).into_iter().next() else { return Self::default() };
        let figure = |value: i64| text::figure(value, metric.unit);
        let figures = match of_both(view, metric) {
            [Some(old), Some(new)] if !view.is_alone() && old != new => text::from_to(old, new, metric.unit),
            [_, Some(new)] => figure(new),
            // The candidate lost the metric.
            [Some(old), None] if view.is_compared() => format!("{} → —", figure(old)),
            [Some(old), None] => figure(old),
            [None, None] => return Self::default(),
        };
        Self { metric: metric.name.clone(), figures, ..Self::default() }
    }
}
