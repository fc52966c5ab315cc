//! A test's table of checkpoints: figures of both sides, and their differences.

use maud::{Markup, html};

use crate::finding;
use crate::json::rows::AlignedCheckpoint;
use crate::options::{Options, Rows};
use crate::row_cells::{MetricCells, RowCells, noun};
use crate::selection::{self, MOST_ROWS_OF_PAGE, MetricFilter, TableSection};
use crate::text;
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::matching::Match;
use memprof_judge::results::measurement::Kind;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::labels::one_line;

/// The position of each point among those of the test's charts, by its index on the baseline and on
/// a candidate.
pub(super) struct Positions([Vec<Option<usize>>; 2]);

impl Positions {
    pub(super) fn from_checkpoints(points: &[AlignedCheckpoint], baseline: usize, candidate: usize) -> Self {
        Self([baseline, candidate].map(|revision| {
            let mut positions = Vec::new();
            for (position, point) in points.iter().enumerate() {
                if let Some(index) = point.indices[revision] {
                    positions.resize(positions.len().max(index + 1), None);
                    positions[index] = Some(position);
                }
            }
            positions
        }))
    }

    pub(super) fn get(&self, row: &Match) -> Option<usize> {
        let of = |side: usize, index: Option<usize>| self.0[side].get(index?).copied().flatten();
        of(0, row.baseline).or_else(|| of(1, row.candidate))
    }
}

/// Returns the tables of a pair, or of a single revision. Scopes are not in them.
pub(super) fn tables(
    comparison: &Comparison,
    view: &PairView<'_>,
    filter: &MetricFilter,
    options: &Options,
    positions: &Positions,
) -> Markup {
    let options = Options { rows: Rows::Changed, only_changed: false, ..options.clone() };
    html! {
        @for section in filter.sections(comparison, view).iter().filter(|section| section.kind != Kind::Scope) {
            @let rows = selection::rows(view, section, MOST_ROWS_OF_PAGE, &options);
            @let metrics: Vec<_> =
                section.shown.iter().map(|shown| MetricCells::new(view, &shown.metric.name)).collect();
            div.scroll {
                table.checkpoints {
                    caption { (noun(section.kind)) "s" }
                    (head(view, section))
                    tbody {
                        @for row in &rows.shown {
                            (line(view, &metrics, row, positions))
                        }
                    }
                }
            }
            @if rows.left_out > 0 {
                p.quiet {
                    (counted(rows.left_out, "more row")) ", " (rows.changed_left_out) " of them changed: "
                    "the chart has all, " code { "--format csv" } " lists them"
                }
            }
        }
    }
}

fn head(view: &PairView<'_>, section: &TableSection<'_>) -> Markup {
    let columns = if view.is_alone() { 1 } else { 4 };
    html! {
        thead {
            tr {
                th rowspan="2" scope="col" { (noun(section.kind)) }
                @for shown in &section.shown {
                    th.metric colspan=(columns) scope="colgroup" { (one_line(&shown.metric.name)) }
                }
            }
            tr {
                @for _ in &section.shown {
                    @if view.is_alone() {
                        th.n scope="col" { (one_line(&view.new.name)) }
                    } @else {
                        th.n scope="col" { (one_line(&view.old.name)) }
                        th.n scope="col" { (one_line(&view.new.name)) }
                        th.n scope="col" { "difference" }
                        th.n scope="col" { "%" }
                    }
                }
            }
        }
    }
}

fn line(view: &PairView<'_>, metrics: &[MetricCells<'_>], row: &Match, positions: &Positions) -> Markup {
    let position = positions.get(row);
    html! {
        tr data-row=[position] {
            th scope="row" {
                (one_line(&text::row_label(view, row)))
                @if let Some(place) = finding::source(view, row) { " " small { (one_line(place)) } }
            }
            @for metric in metrics { (cells(&metric.at(row), view.is_alone())) }
        }
    }
}

fn cells(cells: &RowCells, is_alone: bool) -> Markup {
    let remark = cells.remark();
    let verdict = html! {
        @if let Some(sign) = cells.sign { " " (sign) }
        @if !remark.is_empty() { " " (remark.as_str()) }
    };
    let direction = if cells.broken_limit.is_some() { "up" } else { of_verdict(cells.sign) };
    if is_alone {
        return html! {
            td class=(format!("n {direction}").trim_end()) { (cells.candidate.as_str()) (verdict) }
        };
    }
    html! {
        td.n { (cells.baseline.as_str()) }
        td.n { (cells.candidate.as_str()) }
        td class=(format!("n {direction}").trim_end()) { (cells.difference.as_str()) }
        td class=(format!("n {direction}").trim_end()) { (cells.percent.as_str()) (verdict) }
    }
}

/// The class of a cell with a difference: a colour means a verdict.
pub(super) fn of_verdict(sign: Option<char>) -> &'static str {
    match sign {
        Some('▲') => "up",
        Some('▼') => "down",
        _ => "",
    }
}

/// The class of a cell with a call site's difference. Its sign says the same.
pub(super) fn direction(difference: i128) -> &'static str {
    match difference {
        0 => "",
        1.. => "up",
        _ => "down",
    }
}

/// Returns a difference with its unit, or a figure if there is one side only.
pub(super) fn amount(value: i64, unit: Unit, is_alone: bool) -> String {
    if is_alone { text::figure(value, unit) } else { text::difference(value.into(), unit) }
}
