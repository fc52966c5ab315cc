//! The page of a history or a bisection: a figure over commits, and what each step changed.

use std::ffi::OsStr;
use std::io::{self, Write};

use maud::{Markup, html};

use crate::bisect::report_data::{FoundStep, MeasuredCommit, SearchReport};
use crate::compare::comparison::{Comparison, Delta};
use crate::report::bisect::answer;
use crate::report::bisect::search::{self, Searched};
use crate::report::html::chart_data::{ChartData, TestData};
use crate::report::html::checkpoint_table::direction;
use crate::report::html::page_test::PageTest;
use crate::report::html::shell::{self, Page};
use crate::report::html::test_section::{Surroundings, written};
use crate::report::options::Options;
use crate::report::selection::MetricFilter;
use crate::report::text;
use crate::support::counted::counted;
use crate::support::labels::one_line;
use crate::support::process::shell_quoted;

/// Writes the page.
pub fn render(searched: Searched<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let report = searched.report;
    let title = search::title(report);
    let mut data = ChartData::of_steps(&report.query.metric, report.unit);
    let mut steps = Vec::new();
    for (index, step) in report.steps.iter().enumerate() {
        let compared = searched.steps.get(index);
        let options = Options { why: compared.and_then(|step| step.why.clone()), ..options.clone() };
        let comparison = compared.map(|step| &step.comparison);
        steps.push(section(step, comparison, &options, &mut data));
    }
    let body = html! {
        a.skip href="#commits" { "Skip to the commits" }
        header #top {
            h1 { (one_line(&title)) }
            pre.answer { (written(|out| answer::write(report, &[], out, "", |_, _| Ok(())))) }
            p.quiet { (search::effort(report)) }
        }
        figure.history hidden data-unit=(report.unit.as_str()) {}
        (commits(report))
        main { @for step in &steps { (step) } }
        section #environment {
            h2 { "To repeat it" }
            @for replay in &report.replay {
                p { (one_line(&replay.shows)) ":" }
                pre { (one_line(&replay.line)) }
            }
            p.quiet { "run " code { (report.id) } " · begun " (one_line(&report.created)) " · cargo-memprof " (one_line(&report.tool)) }
        }
    };
    shell::write(&Page { title: &title, body: &body, is_history: true }, &data, out)
}

/// The commits as a table, from which the script draws its chart.
fn commits(report: &SearchReport) -> Markup {
    let command = |commit: &MeasuredCommit| commit.facts.short().to_owned();
    html! {
        section #commits {
            h2 { "Commits" }
            div.scroll {
                table.commits data-test=(one_line(&report.test)) data-command=(comparing(report)) {
                    thead {
                        tr {
                            th scope="col" { "commit" }
                            th scope="col" { "date" }
                            th.n scope="col" { (one_line(&report.query.described())) }
                            th.n scope="col" { "difference" }
                            th.n scope="col" { "%" }
                            th scope="col" { "subject" }
                        }
                    }
                    tbody {
                        @for commit in &report.measured {
                            @let delta = delta(commit);
                            @let direction = delta.map_or("", |delta| direction(delta.difference));
                            tr data-commit=(command(commit)) data-value=[commit.value] data-step[commit.is_step]
                                data-lowest=[commit.samples.iter().min()] data-highest=[commit.samples.iter().max()]
                            {
                                th scope="row" {
                                    @if commit.is_step { a href={ "#step-" (commit.facts.short()) } { code { (commit.facts.short()) } } }
                                    @else { code { (commit.facts.short()) } }
                                }
                                td { (commit.facts.day()) }
                                td.n { @match commit.value { Some(value) => { (text::figure(value, report.unit)) } None => { (text::NONE) } } }
                                td class=(format!("n {direction}").trim_end()) {
                                    @if let Some(delta) = delta { (text::difference(delta.difference, report.unit)) }
                                }
                                td class=(format!("n {direction}").trim_end()) {
                                    @if let Some(delta) = delta { (text::percent(&delta)) }
                                    @if commit.is_step && !direction.is_empty() { @if direction == "up" { " ▲" } @else { " ▼" } }
                                }
                                td {
                                    @if let Some(tag) = &commit.tag { b { (one_line(tag)) } " · " }
                                    (one_line(&commit.facts.subject))
                                    @if let Some(reason) = &commit.skipped { " " span.quiet { "skipped: " (one_line(reason)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn delta(commit: &MeasuredCommit) -> Option<Delta> {
    let (value, difference) = commit.value.zip(commit.difference)?;
    let before = i64::try_from(i128::from(value) - difference).ok()?;
    Some(Delta::between(before, value))
}

/// The command that compares two of the commits; `OLD` and `NEW` stand for them.
fn comparing(report: &SearchReport) -> String {
    format!("cargo memprof OLD NEW --exact {}", shell_quoted(OsStr::new(&report.test)))
}

/// What one step changed: its tests, as on the page of a comparison.
fn section(
    step: &FoundStep,
    comparison: Option<&Comparison>,
    options: &Options,
    data: &mut ChartData,
) -> Markup {
    let sign = if step.difference > 0 { "▲" } else { "▼" };
    let short = step.commit.short();
    let mut sections = Vec::new();
    if let Some(comparison) = comparison {
        let filter = MetricFilter::new(options);
        let surroundings = Surroundings { comparison, options, filter: &filter };
        for mut test in PageTest::all(comparison, options) {
            test.id = format!("{short}:{}", test.id);
            // The history gave the verdict, from more than these two commits' runs.
            for side in &mut test.sides {
                (side.standing, side.finding) = (None, None);
            }
            let number = data.add(TestData::of(comparison, &test));
            sections.push(surroundings.section(number, &test, true));
        }
    }
    html! {
        section.step id={ "step-" (short) } {
            h2 { (sign) " " code { (short) } " " (one_line(&step.commit.subject)) }
            p.quiet { (one_line(&step.commit.author)) " · " (step.commit.day()) " · before it: " code { (step.before.short()) } }
            @if !step.files.is_empty() {
                details { summary { (counted(step.files.len(), "file")) } ul { @for file in &step.files { li { code { (one_line(file)) } } } } }
            }
            @for section in &sections { (section) }
        }
    }
}
