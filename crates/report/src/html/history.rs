//! The page of a history or a bisection: a figure over commits, and what each step changed.

use std::ffi::OsStr;
use std::io::{self, Write};

use maud::{Markup, html};

use crate::bisect::answer;
use crate::bisect::headline::{self, Searched};
use crate::bisect::several::Several;
use crate::html::chart_data::{ChartData, TestData};
use crate::html::checkpoint_table::direction;
use crate::html::page_test::PageTest;
use crate::html::proof;
use crate::html::shell::{self, Page};
use crate::html::test_section::Surroundings;
use crate::options::Options;
use crate::page::written;
use crate::selection::MetricFilter;
use crate::text;
use memprof_judge::compare::comparison::{Comparison, Delta};
use memprof_run::bisect::linear_search::StepKind;
use memprof_run::bisect::report_data::{FoundStep, MeasuredCommit, SearchReport};
use memprof_run::bisect::step_comparison::ComparedStep;
use memprof_support::counted::counted;
use memprof_support::labels::one_line;
use memprof_support::process::shell_quoted;

/// Writes the page. A history of several tests begins with a small chart of each.
pub fn render(searched: &[Searched<'_>], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = searched.first().map(|one| one.report) else {
        return Err(io::Error::other("the search has no test"));
    };
    let mut data = ChartData::of_steps(&first.query.metric, first.unit);
    let several = Several::from_reports(searched).filter(|_| searched.len() > 1);
    let tests: Vec<TestOfHistory<'_>> = match &several {
        Some(several) => several.all().map(|report| TestOfHistory::from_report(report, searched)).collect(),
        None => vec![TestOfHistory::from_report(first, searched)],
    };
    let sections: Vec<Markup> = tests.iter().map(|test| test.steps(options, &mut data)).collect();
    let (answer, title, content) = match &several {
        Some(several) => (several.verdict(), several.title(), of_several(several, &tests, &sections)),
        None => (headline::answer(first), headline::title(first), of_one(&tests[0], &sections[0])),
    };
    let body = html! {
        a.skip href="#commits" { @if several.is_some() { "Skip to the tests" } @else { "Skip to the commits" } }
        header #top { h1 { (one_line(&answer)) } p.quiet { (one_line(&title)) } }
        (content)
        @if let Some(proof) = &options.proof { (proof::section(proof)) }
        section #environment {
            h2 { "To repeat it" }
            @for replay in &first.replay[..if several.is_some() { first.replay.len().min(1) } else { first.replay.len() }] {
                p { (one_line(&replay.shows)) ":" }
                (shell::command(&replay.line))
            }
            p.quiet { "run " code { (one_line(&first.id)) } " · begun " (one_line(&first.created)) " · cargo-memprof " (one_line(&first.tool)) }
        }
    };
    shell::write(&Page { title: &title, body: &body, is_history: true }, &data, out)
}

fn of_one(test: &TestOfHistory<'_>, steps: &Markup) -> Markup {
    html! {
        (test.answer())
        p.quiet { (headline::effort(test.report)) }
        figure.history hidden data-table="commits" data-unit=(test.report.unit.as_str()) {}
        section { h2 { "Commits" } (test.commits("commits")) }
        main { (steps) }
    }
}

fn of_several(several: &Several<'_>, tests: &[TestOfHistory<'_>], steps: &[Markup]) -> Markup {
    html! {
        p { @for line in several.others() { (one_line(&line)) ". " } }
        p.quiet { (several.effort()) }
        p.quiet.how hidden { "Hover or use the arrow keys. Choose two commits of a chart to compare them." }
        div.multiples #commits {
            @for test in tests {
                section {
                    h3 { a href={ "#" (test.anchor()) } { (one_line(&test.report.title)) } (test.signs()) }
                    figure.history.small hidden data-table=(test.table()) data-unit=(test.report.unit.as_str()) {}
                }
            }
        }
        main {
            @for (test, steps) in tests.iter().zip(steps) {
                section.of-history id=(test.anchor()) {
                    h2 { (one_line(&test.report.title)) }
                    (test.answer())
                    details { summary { "Commits" } (test.commits(&test.table())) }
                    (steps)
                }
            }
        }
    }
}

/// One test along the commits.
struct TestOfHistory<'a> {
    /// The place in the search.
    index: usize,
    report: &'a SearchReport,
    compared: &'a [ComparedStep],
    is_alone: bool,
}

impl<'a> TestOfHistory<'a> {
    fn from_report(report: &'a SearchReport, searched: &[Searched<'a>]) -> Self {
        let is_own = |one: &Searched<'_>| std::ptr::eq(one.report, report);
        let index = searched.iter().position(is_own).unwrap_or_default();
        let compared = searched.get(index).map_or(&[][..], |one| one.steps);
        Self { index, report, compared, is_alone: searched.len() == 1 }
    }

    fn anchor(&self) -> String {
        format!("history-{}", self.index)
    }

    fn table(&self) -> String {
        format!("commits-{}", self.index)
    }

    /// The element of a step. Two tests can have a step at the same commit.
    fn step_anchor(&self, short: &str) -> String {
        if self.is_alone { format!("step-{short}") } else { format!("step-{short}-{}", self.index) }
    }

    fn answer(&self) -> Markup {
        html! { pre.answer { (written(|out| answer::write(self.report, &[], out, "", |_, _| Ok(())))) } }
    }

    /// ` ▲ ▼`: whether it grew or shrank at a step.
    fn signs(&self) -> String {
        let grew = self.report.steps.iter().any(|step| step.difference > 0);
        let shrank = self.report.steps.iter().any(|step| step.difference < 0);
        format!("{}{}", if grew { " ▲" } else { "" }, if shrank { " ▼" } else { "" })
    }

    fn steps(&self, options: &Options, data: &mut ChartData) -> Markup {
        let mut sections = Vec::new();
        for (index, step) in self.report.steps.iter().enumerate() {
            let compared = self.compared.get(index);
            let options = Options { why: compared.and_then(|step| step.why.clone()), ..options.clone() };
            let comparison = compared.map(|step| &step.comparison);
            let anchor = self.step_anchor(step.commit.short());
            sections.push(section((step, self.report.noun()), &anchor, comparison, &options, data));
        }
        html! { @for section in &sections { (section) } }
    }

    /// The commits as a table, from which the script draws its chart.
    fn commits(&self, id: &str) -> Markup {
        let report = self.report;
        html! {
            div.scroll {
                table.commits id=(id) data-test=(one_line(&report.test)) data-command=(comparing(report)) {
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
                    tbody { @for commit in &report.measured { (self.row(commit)) } }
                }
            }
        }
    }

    fn row(&self, commit: &MeasuredCommit) -> Markup {
        let unit = self.report.unit;
        let delta = delta(commit);
        // A colour is a verdict: the other differences are within noise, or below the limit.
        let direction = delta.filter(|_| commit.is_step).map_or("", |delta| direction(delta.difference));
        let short = commit.facts.short();
        let step = commit.is_step.then(|| self.step_anchor(short));
        html! {
            tr data-commit=(short) data-value=[commit.value] data-step=[&step]
                data-lowest=[commit.samples.iter().min()] data-highest=[commit.samples.iter().max()]
            {
                th scope="row" {
                    @if let Some(step) = &step { a href={ "#" (step) } { code { (short) } } }
                    @else { code { (short) } }
                }
                td { (commit.facts.day()) }
                td.n { @match commit.value { Some(value) => { (text::figure(value, unit)) } None => { (text::NONE) } } }
                td class=(format!("n {direction}").trim_end()) {
                    @if let Some(delta) = delta { (text::difference(delta.difference, unit)) }
                }
                td class=(format!("n {direction}").trim_end()) {
                    @if let Some(delta) = delta { (text::percent(&delta)) }
                    @if !direction.is_empty() { @if direction == "up" { " ▲" } @else { " ▼" } }
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

fn delta(commit: &MeasuredCommit) -> Option<Delta> {
    let (value, difference) = commit.value.zip(commit.difference)?;
    let before = i64::try_from(i128::from(value) - difference).ok()?;
    Some(Delta::between(before, value))
}

/// The command that compares two of the commits; `OLD` and `NEW` stand for them.
fn comparing(report: &SearchReport) -> String {
    format!("cargo memprof OLD NEW --exact {}", shell_quoted(OsStr::new(&report.test)))
}

/// What one step changed: its tests, as on the page of a comparison. The noun is that of what was searched.
fn section(
    (step, noun): (&FoundStep, &str),
    anchor: &str,
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
            let number = data.add(TestData::for_test(comparison, &test));
            sections.push(surroundings.section(number, &test, true));
        }
    }
    html! {
        section.step id=(anchor) {
            h2 { (sign) " " code { (short) } " " (one_line(&step.commit.subject)) }
            p.quiet { (one_line(&step.commit.author)) " · " (step.commit.day()) " · before it: " code { (step.before.short()) } }
            @if step.kind != StepKind::Commit { p { (cause((step, noun))) } }
            @if !step.files.is_empty() {
                details { summary { (counted(step.files.len(), "file")) } ul { @for file in &step.files { li { code { (one_line(file)) } } } } }
            }
            @for section in &sections { (section) }
        }
    }
}

/// A sentence on a difference that is not of one commit.
fn cause((step, noun): (&FoundStep, &str)) -> Markup {
    let count = counted(step.candidates.len(), noun);
    let (before, after) = (step.before.short(), step.commit.short());
    html! {
        @match step.kind {
            StepKind::Commit => {}
            StepKind::Skipped => { "The change is among " (count) " after " code { (before) } ", up to " code { (after) } "." }
            StepKind::Spread => { (count) " after " code { (before) } ", up to " code { (after) } ", changed it together." }
            StepKind::OutsidePaths => {
                "It changed between " code { (before) } " and " code { (after) } ", in " (noun) "s that do not touch the paths."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::bisect::headline::samples::{report, step};

    #[test]
    fn a_step_of_a_history_after_a_gap_is_attributed_to_no_single_commit() {
        let history = report(&Value::Null, &[step("3333333", 4096, "skipped")]);
        let mut text = Vec::new();
        answer::write(&history, &[], &mut text, "", |_, _| Ok(())).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with("by one of 2 commits after b000000, up to 3333333\n"), "{text}");
        let mut page = Vec::new();
        let searched = Searched { report: &history, steps: &[] };
        render(&[searched], &Options::default(), &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("The change is among 2 commits after <code>b000000</code>"), "{page}");
    }

    #[test]
    fn the_page_says_of_each_kind_of_step_what_its_answer_says() {
        let page = |kind: &str| {
            let found = report(&json!("found"), &[step("3333333", 4096, kind)]);
            let mut page = Vec::new();
            let searched = Searched { report: &found, steps: &[] };
            render(&[searched], &Options::default(), &mut page).unwrap();
            String::from_utf8(page).unwrap()
        };
        let spread = page("spread");
        assert!(!spread.contains("The change is among") && !spread.contains("by one of"), "{spread}");
        assert!(spread.contains("by 2 commits up to 3333333 together"), "{spread}");
        assert!(spread.contains(
            "2 commits after <code>b000000</code>, up to <code>3333333</code>, changed it together"
        ));
        let outside = page("outside_paths");
        assert!(!outside.contains("The change is among") && !outside.contains("by one of"), "{outside}");
        assert!(outside.contains("by commits outside the paths up to 3333333"), "{outside}");
        assert!(outside.contains("in commits that do not touch the paths"), "{outside}");
    }
}
