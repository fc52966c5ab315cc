//! The page of a proof.

use std::io::{self, Write};

use maud::{Markup, html};

use crate::html::chart_data::ChartData;
use crate::html::checkpoint_table::direction;
use crate::html::shell::{self, Page};
use crate::proof::lines::{ProofLine, foot, headline, lines, no_difference};
use memprof_run::bisect::parts::proof::ProofReport;
use memprof_support::labels::one_line;

/// Writes the page. It has no chart.
pub(crate) fn render(report: &ProofReport, out: &mut dyn Write) -> io::Result<()> {
    let title = headline(report);
    let body = html! {
        a.skip href="#parts" { "Skip to the parts" }
        header #top { h1 { (one_line(&title)) } }
        main #parts {
            @match no_difference(report) {
                Some(answer) => { p { (one_line(&answer)) } }
                None => { (table(report)) }
            }
        }
        @for line in foot(report) { p.quiet { (one_line(&line)) } }
        section #environment {
            h2 { "To repeat it" }
            @for replay in &report.replay {
                p { (one_line(&replay.shows)) ":" }
                pre { (one_line(&replay.line)) }
            }
            p.quiet { "run " code { (one_line(&report.id)) } " · begun " (one_line(&report.created)) " · cargo-memprof " (one_line(&report.tool)) }
        }
    };
    let data = ChartData::of_steps(&report.query.metric, report.unit);
    shell::write(&Page { title: &title, body: &body, is_history: false }, &data, out)
}

/// A section of the page of a comparison.
pub(super) fn section(report: &ProofReport) -> Markup {
    html! {
        section #proof {
            h2 { "Proven" }
            p { (one_line(&headline(report))) }
            @match no_difference(report) {
                Some(answer) => { p { (one_line(&answer)) } }
                None => { (table(report)) }
            }
            @for line in foot(report) { p.quiet { (one_line(&line)) } }
        }
    }
}

/// The lines of a proof, each hunk of a part on a line of its own.
fn table(report: &ProofReport) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.n scope="col" { (one_line(&report.query.metric)) }
                        th scope="col" { "part" }
                        th scope="col" { "known from" }
                    }
                }
                tbody { @for line in lines(report) { (row(&line)) } }
            }
        }
    }
}

fn row(line: &ProofLine) -> Markup {
    let class = format!("n {}", direction(line.difference));
    html! {
        tr {
            td class=(class.trim_end()) { (line.figure) }
            td {
                @if line.kind == "part" {
                    @for (index, hunk) in line.hunks.iter().enumerate() {
                        @if index > 0 { br; }
                        code { (one_line(&hunk.shown())) }
                        @if let Some(what) = &hunk.what { " " (one_line(what)) }
                    }
                } @else {
                    (one_line(&line.place))
                    @if !line.hunks.is_empty() {
                        details {
                            summary { "where" }
                            @for hunk in &line.hunks {
                                code { (one_line(&hunk.shown())) }
                                @if let Some(what) = &hunk.what { " " (one_line(what)) }
                                br;
                            }
                        }
                    }
                }
            }
            td { @if line.is_proven { b { (one_line(&line.note)) } } @else { (one_line(&line.note)) } }
        }
    }
}
