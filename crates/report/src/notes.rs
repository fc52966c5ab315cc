//! Notes below the tables: unavailable metrics, differing sources and environments, marked runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::contexts;
use crate::selection::MetricFilter;
use memprof_judge::compare::aggregate::Aggregate;
use memprof_judge::compare::comparison::{Comparability, Comparison};
use memprof_plan::metric::on_request;
use memprof_plan::metric_family::MetricGroup;
use memprof_plan::resolved::CellId;
use memprof_support::counted::counted;
use memprof_support::labels;

/// Returns the notes on more than one row, each once: unavailable metrics with their reasons,
/// differing sources, marks on runs, and the comparison's own notes.
pub(crate) fn notes(comparison: &Comparison, filter: &MetricFilter) -> Vec<String> {
    let measured: Vec<&str> = comparison.metrics.iter().map(|metric| metric.name.as_str()).collect();
    // Without any measurement, no metric name is wrong.
    let mut notes: Vec<String> = filter
        .unknown(comparison)
        .filter(|_| !measured.is_empty())
        .map(|name| match MetricGroup::of(name) {
            _ if !on_request([name]).is_empty() => {
                let quote = if name.contains('*') { "'" } else { "" };
                format!(
                    "{name} was not measured: it is read on request only; measure again with --metrics \
                     {quote}{name}{quote}"
                )
            }
            Some(MetricGroup::Gpu) => {
                format!("{name} was not measured: no test used a GPU with this metric")
            }
            Some(MetricGroup::Pool) => {
                format!("{name} was not measured: no test watched a memory pool with this metric")
            }
            _ => format!("no metric is named '{name}'; measured: {}", measured.join(", ")),
        })
        .collect();
    notes.extend(unavailable(comparison, filter));
    notes.extend(differing_sources(comparison, filter));
    notes.extend(apart(comparison));
    notes.extend(unsteady(comparison));
    notes.extend(contexts::notes(comparison, filter));
    notes.extend(marks(comparison));
    notes.extend(comparison.notes.iter().cloned());
    notes
}

/// Where a metric is unavailable: revision, cell, and whether other checkpoints have the metric.
type Gap = (usize, usize, bool);

/// `heap.live, heap.peak unavailable in pr/3370: own #[global_allocator]`.
fn unavailable(comparison: &Comparison, filter: &MetricFilter) -> Vec<String> {
    let mut gaps: BTreeMap<(&str, &str), BTreeSet<Gap>> = BTreeMap::new();
    for (cell_index, cell) in comparison.cells.iter().enumerate() {
        for (revision, side) in cell.sides.iter().enumerate() {
            for (metric, reason) in side.absent.iter().filter(|(metric, _)| filter.contains(metric)) {
                let is_partial = side.column(metric).is_some();
                gaps.entry((reason, metric)).or_default().insert((revision, cell_index, is_partial));
            }
        }
    }
    let mut metrics_by_gaps: BTreeMap<(&str, BTreeSet<Gap>), Vec<&str>> = BTreeMap::new();
    for ((reason, metric), gaps) in gaps {
        metrics_by_gaps.entry((reason, gaps)).or_default().push(metric);
    }
    let note = |((reason, gaps), metrics): ((&str, BTreeSet<Gap>), Vec<&str>)| {
        let revisions: BTreeSet<usize> = gaps.iter().map(|(revision, ..)| *revision).collect();
        let names: Vec<&str> =
            revisions.iter().map(|&index| comparison.revisions[index].name.as_str()).collect();
        let cells: BTreeSet<usize> = gaps.iter().map(|(_, cell, _)| *cell).collect();
        let tests = in_tests(cells.len(), comparison.cells.len());
        let partly = if gaps.iter().all(|(_, _, is_partial)| *is_partial) { "partly " } else { "" };
        format!(
            "{} {partly}unavailable in {}{tests}: {}",
            metrics.join(", "),
            names.join(" and "),
            labels::one_line(reason)
        )
    };
    metrics_by_gaps.into_iter().map(note).collect()
}

fn in_tests(cells: usize, all: usize) -> String {
    if cells == all { String::new() } else { format!(" ({cells} of {})", counted(all, "test")) }
}

/// `cpu.peak not compared: VmHWM (main) / getrusage (pr/3370)`.
fn differing_sources(comparison: &Comparison, filter: &MetricFilter) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for view in comparison.pairs() {
        for metric in comparison.metrics.iter().filter(|metric| filter.contains(&metric.name)) {
            let column = view.column(&metric.name);
            let both = column.baseline.is_some() && column.candidate.is_some();
            if !both || column.comparability != Comparability::SourcesDiffer {
                continue;
            }
            let source = |side: &Aggregate| side.source(&metric.name).unwrap_or("unknown").to_owned();
            let note = format!(
                "{} not compared, its sources differ: {} ({}) / {} ({})",
                metric.name,
                source(view.baseline),
                view.old.name,
                source(view.candidate),
                view.new.name
            );
            *times.entry(note).or_default() += 1;
        }
    }
    times.into_keys().collect()
}

/// `cpu.* not compared: the kernels differ: 5.10.0 / 6.1.0 (main / pr/7)`.
fn apart(comparison: &Comparison) -> Vec<String> {
    let baseline = &comparison.revisions[comparison.baseline].name;
    let note = |candidate: usize| {
        let name = &comparison.revisions[candidate].name;
        let each = comparison.apart.get(candidate).into_iter().flatten();
        each.map(move |one| format!("{} not compared: {} ({baseline} / {name})", one.metrics, one.reason))
    };
    comparison.candidates().flat_map(note).collect()
}

/// Counts the checkpoints that only some repeats reached.
fn unsteady(comparison: &Comparison) -> Vec<String> {
    let sides = comparison.cells.iter().flat_map(|cell| {
        cell.sides.iter().enumerate().map(move |(revision, side)| (cell, revision, side.unsteady))
    });
    sides
        .filter(|(_, _, unsteady)| *unsteady > 0)
        .map(|(cell, revision, unsteady)| {
            let name = &comparison.revisions[revision].name;
            let missing = counted(unsteady, "checkpoint");
            format!("{} in {name}: {missing} missing in some repeats", cell.id.test)
        })
        .collect()
}

/// Counts the runs with each of the runner's marks: `5 runs of decodes: …`, `12 runs of 3 tests: …`.
fn marks(comparison: &Comparison) -> Vec<String> {
    let mut of_mark: BTreeMap<&str, Vec<&CellId>> = BTreeMap::new();
    for record in comparison.runs.iter().map(|run| &run.record) {
        for mark in &record.marks {
            of_mark.entry(mark).or_default().push(&record.cell);
        }
    }
    let note = |(mark, cells): (&str, Vec<&CellId>)| {
        let tests: BTreeSet<&CellId> = cells.iter().copied().collect();
        let tests = match tests.first() {
            Some(only) if tests.len() == 1 => labels::one_line(&only.title).into_owned(),
            _ => counted(tests.len(), "test"),
        };
        format!("{} of {tests}: {}", counted(cells.len(), "run"), labels::one_line(mark))
    };
    of_mark.into_iter().map(note).collect()
}
