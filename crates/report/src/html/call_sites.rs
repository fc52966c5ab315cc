//! Call sites of a test's rows, each with its place in the diff.

use maud::{Markup, html};

use crate::html::checkpoint_table::{amount, direction};
use crate::html::page_test::{PageTest, PageView};
use crate::why::explained::named;
use crate::why::held;
use crate::why::hunk_lines::hunk_lines;
use crate::why::site_rows::{SiteRow, SiteRows, Sites};
use crate::why::text;
use memprof_judge::why::difference::Difference;
use memprof_judge::why::explanations::{ExplainedRow, Explanations};
use memprof_judge::why::held::HeldMemory;
use memprof_judge::why::hunks::HunkAt;
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
                h3 { (heading(&row.difference, &side.view.new.name)) }
                (sites(row, &side.view.new.name, sources))
                div.flame hidden {}
            }
        }
        @if let Some(held) = &explained.held {
            section.why {
                h3 { (held::heading(held)) ": who holds it" }
                (owners(held))
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

fn heading(difference: &Difference, candidate: &str) -> String {
    let whole = amount(difference.whole(), Unit::of_metric(&difference.metric), difference.is_alone());
    format!("{}: where {whole} come from", named(difference, candidate))
}

fn limit_heading(difference: &Difference) -> String {
    let heading = text::heading(difference);
    format!("Over the limit: {}", heading.trim_end_matches(':'))
}

fn sites(row: &ExplainedRow, candidate: &str, sources: &[StoredFile]) -> Markup {
    let difference = &row.difference;
    let is_alone = difference.is_alone();
    let agreements = row.agreements.iter().flatten().copied().collect();
    // The callers are folded, so all of them are there.
    let wanted = Sites { candidate, most: MOST_SITES, frames: usize::MAX, agreements };
    let SiteRows { by, rows, remarks } = SiteRows::new(difference, &wanted);
    html! {
        div.scroll {
            table.sites {
                thead {
                    tr {
                        th.n scope="col" { @if is_alone { "bytes or blocks" } @else { "difference" } }
                        th scope="col" { (by) }
                        th scope="col" { "where" }
                        th scope="col" {
                            @if rows.iter().any(|row| !row.class.is_empty()) {
                                @if by == "thread" { "who frees" } @else { "in the diff" }
                            }
                        }
                    }
                }
                tbody {
                    @for row in &rows {
                        @let direction = if is_alone || row.is_rest { "" } else { direction(row.value.into()) };
                        tr {
                            td class=(format!("n {direction}").trim_end()) { (row.amount_and_share()) }
                            @if row.is_rest {
                                td colspan="3" { (row.name) }
                            } @else {
                                td { code { (row.name) } (callers(row)) }
                                td { (row.location) }
                                td { (row.class) @if let Some(at) = row.hunk { (hunk_text(at, sources, false)) } }
                            }
                        }
                    }
                }
            }
        }
        @for remark in &remarks { p.quiet { (remark) } }
    }
}

/// The owners of memory.
fn owners(held: &HeldMemory) -> Markup {
    let is_alone = held.sides.iter().any(Option::is_none);
    html! {
        div.scroll {
            table.sites {
                thead {
                    tr {
                        th.n scope="col" { @if is_alone { "bytes" } @else { "difference" } }
                        th scope="col" { "held by" }
                        th scope="col" { "where" }
                    }
                }
                tbody {
                    @for owner in held.owners.iter().take(MOST_SITES) {
                        @let direction = if is_alone { "" } else { direction(owner.difference.into()) };
                        tr {
                            td class=(format!("n {direction}").trim_end()) { (held::amount(held, owner)) }
                            td {
                                code { (one_line(&owner.name)) }
                                @for room in owner.rooms.iter().filter(|room| room.is_own) { (held::used(room)) }
                            }
                            td {
                                (held::place(owner))
                                @for room in owner.rooms.iter().filter(|room| !room.is_own) {
                                    br; (held::inside(room))
                                }
                            }
                        }
                    }
                }
            }
        }
        @for remark in held::share(held).iter().chain(&held.remarks) { p.quiet { (one_line(remark)) } }
    }
}

/// The whole stack of the site that differs most, folded.
fn callers(row: &SiteRow<'_>) -> Markup {
    html! {
        @if !row.callers.is_empty() {
            details.stack {
                summary { (counted(row.callers.len(), "caller")) }
                ol {
                    @for [function, location] in &row.callers {
                        li { code { (function) } " " small { (location) } }
                    }
                }
            }
        }
    }
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
