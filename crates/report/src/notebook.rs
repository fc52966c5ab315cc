//! The report of each cell of a notebook, for the cell's outputs: text, HTML, and figures.

use std::fmt::Write as _;

use maud::html;
use serde_json::{Map, Value};

use crate::text;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::results::measurement::Kind;
use memprof_plan::metric::Unit;
use memprof_plan::metric_family::{OF_SCOPES, families_of_scopes, in_words};

/// What a cell of a notebook needed, at the last revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellReport {
    /// The label of its scope.
    pub label: String,
    /// The kinds of memory, in the order of the report.
    memory: Vec<MemoryReport>,
    /// Nanoseconds.
    time: Option<i64>,
    /// The revision that the differences are to, if there are several.
    baseline: Option<String>,
}

/// One kind of memory. Each figure comes with its difference from the baseline, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MemoryReport {
    /// `heap`, `cpu`, `gpu.0`
    family: String,
    /// What a scope has of it, as in [`OF_SCOPES`].
    figures: [Option<Compared>; 3],
}

/// A figure, and its difference from the baseline's, if the two may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compared {
    value: i64,
    difference: Option<i128>,
}

/// Returns the report of each scope of the last revision, in the order of their ends.
pub fn cells(comparison: &Comparison) -> Vec<CellReport> {
    let last = comparison.revisions.len() - 1;
    let Some(cell) = comparison.cells.first() else { return Vec::new() };
    let pair = comparison.pairs().find(|view| view.pair.candidate == last);
    let side = &cell.sides[last];
    let scopes =
        side.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Scope && key.occurrence == 1);
    scopes
        .map(|(index, key)| {
            let row = pair.and_then(|view| view.rows.iter().find(|row| row.candidate == Some(index)));
            let compared = |metric: &str| {
                let value = side.column(metric)?.figure(index)?.value;
                let delta = pair.zip(row).and_then(|(view, row)| view.column(metric).at(row).delta);
                Some(Compared { value, difference: delta.map(|delta| delta.difference) })
            };
            let families = families_of_scopes(comparison.metrics.iter().map(|metric| metric.name.as_str()));
            let memory = families
                .into_iter()
                .map(|family| MemoryReport {
                    family: family.to_owned(),
                    figures: OF_SCOPES.map(|part| compared(&format!("{family}.{part}"))),
                })
                .filter(|memory| memory.figures.iter().any(Option::is_some))
                .collect();
            CellReport {
                label: cell.labels[key.label as usize].to_string(),
                memory,
                time: compared("time").map(|time| time.value),
                baseline: pair.map(|view| view.old.name.clone()),
            }
        })
        .collect()
}

impl CellReport {
    /// Returns the report as text: one line per kind of memory, or one line in all.
    pub fn plain(&self, compact: bool) -> String {
        let lines = self.memory.iter().map(|memory| {
            let figures = OF_SCOPES.iter().zip(memory.figures);
            let figures = figures.map(|(name, figure)| format!("{name} {}", shown(figure)));
            format!("{}: {}", in_words(&memory.family), figures.collect::<Vec<_>>().join(", "))
        });
        let time = self.time.map(|time| format!("time: {}", text::figure(time, Unit::Nanoseconds)));
        let mut text = lines.chain(time).collect::<Vec<_>>().join(if compact { "; " } else { "\n" });
        if let Some(baseline) = &self.baseline {
            _ = write!(text, "{}differences to {baseline}", if compact { "; " } else { "\n" });
        }
        text
    }

    /// Returns the report as a table in HTML.
    pub fn html(&self) -> String {
        let title = self.baseline.as_ref().map(|baseline| format!("differences to {baseline}"));
        html! {
            table {
                tr { th { "memory" } @for part in OF_SCOPES { th { (part) } } }
                @for memory in &self.memory {
                    tr {
                        td { (in_words(&memory.family)) }
                        @for figure in memory.figures { td { (shown(figure)) } }
                    }
                }
                @if let Some(time) = self.time {
                    tr { td { "time" } td colspan="3" { (text::figure(time, Unit::Nanoseconds)) } }
                }
            }
            @if let Some(title) = title { p { small { (title) } } }
        }
        .into_string()
    }

    /// Returns the figures by their metrics, in bytes and nanoseconds.
    pub fn figures(&self) -> Value {
        let mut figures = Map::new();
        for memory in &self.memory {
            for (name, figure) in OF_SCOPES.iter().zip(memory.figures) {
                if let Some(figure) = figure {
                    figures.insert(format!("{}.{name}", memory.family), figure.value.into());
                }
            }
        }
        if let Some(time) = self.time {
            figures.insert("time".to_owned(), time.into());
        }
        Value::Object(figures)
    }
}

/// `1.00 MiB`, or with a baseline `1.00 MiB (+24 B)`.
fn shown(figure: Option<Compared>) -> String {
    let Some(Compared { value, difference }) = figure else { return text::NONE.to_owned() };
    let own = text::figure(value, Unit::Bytes);
    match difference {
        Some(difference) => format!("{own} ({})", text::difference(difference, Unit::Bytes)),
        None => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(is_compared: bool) -> CellReport {
        let figure = |value: i64| Some(Compared { value, difference: is_compared.then(|| value.into()) });
        let heap = MemoryReport { family: "heap".into(), figures: [figure(1024), figure(0), figure(2048)] };
        let gpu = MemoryReport { family: "gpu.0".into(), figures: [figure(-1), None, None] };
        CellReport {
            label: "cell 1: a".into(),
            memory: vec![heap, gpu],
            time: Some(1500),
            baseline: is_compared.then(|| "<main>".into()),
        }
    }

    #[test]
    fn a_report_is_a_line_per_kind_or_a_single_line() {
        let full = "heap: consumed 1.00 KiB, peaked 0 B, used 2.00 KiB\nGPU 0: consumed -1 B, peaked —, used —\ntime: 1.50 µs";
        assert_eq!(report(false).plain(false), full);
        assert_eq!(report(false).plain(true), full.replace('\n', "; "));
        let compared = report(true).plain(false);
        assert!(compared.starts_with("heap: consumed 1.00 KiB (+1.00 KiB), peaked 0 B (=)"), "{compared}");
        assert!(compared.ends_with("\ndifferences to <main>"), "{compared}");
    }

    #[test]
    fn the_table_has_the_same_figures_and_escapes_names() {
        let html = report(true).html();
        assert!(html.contains("<td>heap</td><td>1.00 KiB (+1.00 KiB)</td>"), "{html}");
        assert!(html.contains("&lt;main&gt;") && html.contains("1.50 µs"), "{html}");
        let figures = report(false).figures();
        assert_eq!(figures["heap.used"], 2048);
        assert_eq!(figures["gpu.0.consumed"], -1);
        assert_eq!(figures.get("gpu.0.used"), None);
    }
}
