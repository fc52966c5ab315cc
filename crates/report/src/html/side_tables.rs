//! All sides of a comparison with several candidates: a row per test and a column per side.

use maud::{Markup, html};

use crate::html::checkpoint_table::of_verdict;
use crate::sides::{self, SideFigure, SideTables};
use crate::titles;
use memprof_judge::compare::comparison::{Comparison, Metric};
use memprof_support::counted::counted;
use memprof_support::labels::one_line;

/// Returns the tables, one for each metric.
pub(crate) fn section(comparison: &Comparison, tables: &SideTables<'_>) -> Markup {
    let names = sides::short_names(comparison);
    let baseline = one_line(&comparison.revisions[comparison.baseline].name);
    html! {
        section #sides {
            h2 { "All sides" }
            p {
                @if let Some(axes) = tables.axes() { "Axes: " (axes) ". " }
                "Differences are to " b { (baseline) } "."
            }
            @for table in &tables.tables {
                div.scroll {
                    table.sides {
                        thead {
                            tr {
                                th scope="col" { (one_line(&table.metric.name)) }
                                @for &side in &tables.order { th.n scope="col" { (names[side]) } }
                            }
                        }
                        tbody {
                            @for row in &table.rows {
                                tr {
                                    td { (titles::distinct_title(row.cell)) }
                                    @for &side in &tables.order { (cell(&row.figures[side], table.metric)) }
                                }
                            }
                        }
                    }
                }
            }
            @if tables.left_out > 0 { p.quiet { (counted(tables.left_out, "more changed test")) " below" } }
        }
    }
}

fn cell(figure: &SideFigure, metric: &Metric) -> Markup {
    let direction = of_verdict(figure.sign);
    html! { td class=(format!("n {direction}").trim_end()) { (figure.in_words(metric)) } }
}
