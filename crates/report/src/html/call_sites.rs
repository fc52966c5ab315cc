//! Call sites of a test's rows, each with its place in the diff.

use maud::{Markup, html};

use crate::html::checkpoint_table::{amount, direction};
use crate::html::page_test::{PageTest, PageView};
use crate::why::explained::named;
use crate::why::hunk_lines::hunk_lines;
use crate::why::text::{self, estimate};
use crate::why::words;
use memprof_judge::why::class::Class;
use memprof_judge::why::difference::{Difference, Group};
use memprof_judge::why::explanations::{ExplainedRow, Explanations};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::grouping::GroupBy;
use memprof_judge::why::hunks::HunkAt;
use memprof_judge::why::stacks::displayed_from;
use memprof_judge::why::stored::StoredFile;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::labels::one_line;

/// Sites of a row. The flame graph has all.
const MOST_SITES: usize = 12;

/// Returns the call sites of a test at one candidate. `first` is the number of the test's flame
/// graphs before these.
pub(super) fn sections(
    test: &PageTest<'_>,
    side: &PageView<'_>,
    why: &Explanations,
    with_source: bool,
    first: usize,
) -> Markup {
    let Some(explained) = side.why else { return html! {} };
    let candidate = side.view.pair.candidate;
    let sources = if with_source { why.sources(candidate) } else { &[] };
    html! {
        @for row in &explained.limits {
            section.why {
                h3 { (limit_heading(&row.difference)) }
                (sites(row, &side.view.new.name, sources))
            }
        }
        @for (index, row) in explained.rows.iter().enumerate() {
            section.why data-why=(first + index) id=(anchor(test, &row.difference)) {
                h3 { (heading(&row.difference)) }
                (sites(row, &side.view.new.name, sources))
                div.flame hidden {}
            }
        }
        @for remark in &explained.remarks {
            p.quiet { "call sites: " (one_line(remark)) }
        }
    }
}

/// The part of a link behind `#`: `test/metric/checkpoint`.
fn anchor(test: &PageTest<'_>, difference: &Difference) -> String {
    let checkpoint = difference.checkpoints[1].as_ref().or(difference.checkpoints[0].as_ref());
    let label = checkpoint.map_or_else(String::new, |one| match one.occurrence {
        1 => one.label.clone(),
        occurrence => format!("{} #{occurrence}", one.label),
    });
    let label: String =
        one_line(&label).chars().map(|one| if one.is_whitespace() { '_' } else { one }).collect();
    format!("{}/{}/{label}", test.id, difference.metric)
}

fn heading(difference: &Difference) -> String {
    let whole = amount(difference.whole(), Unit::of_metric(&difference.metric), difference.is_alone());
    format!("{}: where {whole} come from", named(difference))
}

fn limit_heading(difference: &Difference) -> String {
    let heading = text::heading(difference);
    format!("Over the limit: {}", heading.trim_end_matches(':'))
}

fn sites(row: &ExplainedRow, candidate: &str, sources: &[StoredFile]) -> Markup {
    let difference = &row.difference;
    let unit = Unit::of_metric(&difference.metric);
    let is_alone = difference.is_alone();
    let by = match difference.by {
        GroupBy::Site | GroupBy::Line | GroupBy::Function => "function",
        by => by.as_str(),
    };
    let groups: Vec<&Group> =
        difference.groups.iter().filter(|group| difference.of_group(group) != 0).take(MOST_SITES).collect();
    let elsewhere = difference.elsewhere(groups.len());
    html! {
        div.scroll {
            table.sites {
                thead {
                    tr {
                        th.n scope="col" { @if is_alone { "bytes or blocks" } @else { "difference" } }
                        th scope="col" { (by) }
                        th scope="col" { "where" }
                        th scope="col" { @if groups.iter().any(|group| group.class.is_some()) { "in the diff" } }
                    }
                }
                tbody {
                    @for group in &groups {
                        @let value = difference.of_group(group);
                        tr {
                            td class=(format!("n {}", if is_alone { "" } else { direction(value.into()) }).trim_end()) {
                                (amount(value, unit, is_alone))
                            }
                            td { code { (one_line(group.name())) } (callers(group)) }
                            td { (one_line(group.location().unwrap_or_default())) }
                            td { (class(group, candidate, sources)) }
                        }
                    }
                    @if elsewhere != 0 || groups.is_empty() {
                        tr {
                            td.n { (amount(elsewhere, unit, is_alone)) }
                            td colspan="3" { "elsewhere" }
                        }
                    }
                }
            }
        }
        @if let Some(estimate) = estimate(difference) { p.quiet { "These are " (estimate) "." } }
        @for agreement in row.agreements.iter().flatten().filter(|one| !one.is_fine()) {
            p.quiet { "The run with call stacks " (agreement.to_string()) "." }
        }
        @for reason in &difference.incomplete {
            p.quiet { "Call stacks are incomplete: " (one_line(reason)) "." }
        }
    }
}

/// The whole stack of the site that differs most, folded.
fn callers(group: &Group) -> Markup {
    let stack: Vec<&Frame> = group.stack.iter().collect();
    let frames = displayed_from(&stack, group.first);
    html! {
        @if frames.len() > 1 {
            details.stack {
                summary { (counted(frames.len() - 1, "caller")) }
                ol {
                    @for frame in &frames[1..] {
                        li { code { (one_line(&frame.name())) } " " small { (one_line(&frame.location().unwrap_or_default())) } }
                    }
                }
            }
        }
    }
}

fn class(group: &Group, candidate: &str, sources: &[StoredFile]) -> Markup {
    let words = words::class(group, &one_line(candidate));
    let Some(at) = group.class.as_ref().and_then(Class::hunk) else {
        return html! { (words) };
    };
    html! { (words) (hunk_text(at, sources, false)) }
}

/// The lines of a hunk, folded unless it is open.
pub(super) fn hunk_text(at: &HunkAt, sources: &[StoredFile], is_open: bool) -> Markup {
    html! {
        details.hunk open[is_open && !sources.is_empty()] {
            summary { (one_line(&at.path)) " " code { (at.hunk.to_string()) } }
            @match hunk_lines(at, sources) {
                Some(lines) => {
                    pre {
                        @for (kind, line) in &lines {
                            @match kind {
                                '+' => { ins { "+" (one_line(line)) } "\n" }
                                '-' => { del { "-" (one_line(line)) } "\n" }
                                _ => { " " (one_line(line)) "\n" }
                            }
                        }
                    }
                }
                None => { p.quiet { "The text is not in this page: " code { "--with-source" } " adds it." } }
            }
        }
    }
}
