//! Single runs of figures that vary, with the interval behind the verdict.

use maud::{Markup, html};
use serde::Serialize;

use crate::html::checkpoint_table::Positions;
use crate::text;
use memprof_judge::compare::comparison::{Comparison, JudgedMetric, PairView};
use memprof_judge::compare::matching::Match;
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::metric::Unit;
use memprof_support::labels::one_line;

/// At most so many figures of a test.
const MOST: usize = 8;

/// The runs of one figure, for the script.
#[derive(Serialize)]
pub(super) struct Dots {
    /// The position of the point.
    label: usize,
    metric: String,
    /// By revision: the readings of its runs. Other revisions have none.
    values: Vec<Vec<i64>>,
    low: Option<i128>,
    high: Option<i128>,
    limit: Option<u64>,
    verdict: Verdict,
}

/// A figure that varies.
struct Varying<'a> {
    judged: &'a JudgedMetric,
    row: &'a Match,
    samples: [Vec<i64>; 2],
}

/// Returns the figures that vary: of each judged metric, the row with the largest difference.
fn varying<'a>(view: &PairView<'a>) -> Vec<Varying<'a>> {
    let mut all = Vec::new();
    let has_several = view.baseline.runs.len() > 1 || view.candidate.runs.len() > 1;
    for judged in view.pair.judged.iter().filter(|_| has_several && view.is_compared() && !view.is_alone()) {
        let column = view.column(&judged.metric);
        let is_varying = |row: &&Match| {
            let figures = column.at(row);
            judged.at(row).is_some()
                && [figures.baseline, figures.candidate].iter().flatten().any(|one| one.min != one.max)
        };
        let size = |row: &&Match| column.at(row).delta.map_or(0, |delta| delta.difference.abs());
        let Some(row) = view.rows.iter().filter(is_varying).max_by_key(size) else { continue };
        let samples = column.readings(row).map(|side| side.into_iter().flatten().collect());
        all.push(Varying { judged, row, samples });
    }
    all.truncate(MOST);
    all
}

/// Returns what the script draws.
pub(super) fn dots(comparison: &Comparison, view: &PairView<'_>, positions: &Positions) -> Vec<Dots> {
    let of = |one: Varying<'_>| {
        let ruling = one.judged.at(one.row)?;
        let mut values = vec![Vec::new(); comparison.revisions.len()];
        let [old, new] = one.samples;
        values[comparison.baseline] = old;
        values[view.pair.candidate] = new;
        let bounds = ruling.significance.filter(|one| one.low > i128::from(i64::MIN));
        Some(Dots {
            label: positions.get(one.row)?,
            metric: one.judged.metric.clone(),
            values,
            low: bounds.map(|one| one.low),
            high: bounds.map(|one| one.high),
            limit: ruling.significance.map(|one| one.limit),
            verdict: ruling.verdict,
        })
    };
    varying(view).into_iter().filter_map(of).collect()
}

/// Returns the same as a table.
pub(super) fn table(view: &PairView<'_>) -> Markup {
    let all = varying(view);
    if all.is_empty() {
        return html! {};
    }
    let list = |values: &[i64], unit: Unit| {
        values.iter().map(|value| text::figure(*value, unit)).collect::<Vec<_>>().join(", ")
    };
    html! {
        section.runs {
            h3 { "Single runs of figures that vary" }
            div.scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { "figure" }
                            th scope="col" { (one_line(&view.old.name)) }
                            th scope="col" { (one_line(&view.new.name)) }
                            th scope="col" { "the change lies between" }
                            th scope="col" { "verdict" }
                        }
                    }
                    tbody {
                        @for one in &all {
                            @let unit = Unit::of_metric(&one.judged.metric);
                            @let ruling = one.judged.at(one.row);
                            @let bounds = ruling.and_then(|one| one.significance).filter(|one| one.low > i128::from(i64::MIN));
                            tr {
                                th scope="row" { (one_line(&one.judged.metric)) " at '" (one_line(&text::row_label(view, one.row))) "'" }
                                td { (list(&one.samples[0], unit)) }
                                td { (list(&one.samples[1], unit)) }
                                td {
                                    @match bounds {
                                        Some(one) => { (text::difference(one.low, unit)) " and " (text::difference(one.high, unit)) }
                                        None => { (text::NONE) }
                                    }
                                }
                                td { @if let Some(ruling) = ruling { (ruling.verdict.as_str()) } }
                            }
                        }
                    }
                }
            }
            div.dots hidden {}
        }
    }
}
