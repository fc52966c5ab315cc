//! A comparison for Perfetto and other viewers of Chrome's trace events: counters, checkpoints,
//! scopes and calls of each test and revision.
//!
//! The format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>
//!
//! A candidate's time is stretched between checkpoints that both revisions have, so that they are
//! one below the other. Each slice says how long it really took.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::titles;
use memprof_judge::compare::aggregate::Availability;
use memprof_judge::compare::comparison::{Cell, Comparison};
use memprof_judge::results::measurement::{Checkpoint, Kind, Measurement};
use memprof_support::labels::one_line;

/// Writes the trace events.
pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
    let about = json!({
        "tool": format!("cargo-memprof {}", comparison.tool),
        "run": comparison.id,
        "note": "the first run of each test and ref; a candidate's time is stretched between common checkpoints",
    });
    serde_json::to_writer(&mut *out, &about)?;
    write!(out, ",\"traceEvents\":[")?;
    let mut events = Events { out, separator: "\n" };
    let mut process = 0;
    for cell in &comparison.cells {
        let baseline = first_run(comparison, cell, comparison.baseline);
        for revision in 0..comparison.revisions.len() {
            process += 1;
            let Some(run) = first_run(comparison, cell, revision) else { continue };
            let name = &comparison.revisions[revision].name;
            let failed =
                if cell.sides[revision].availability == Availability::CutOff { " (failed)" } else { "" };
            let title = format!("{} · {}{failed}", titles::distinct_title(cell), one_line(name));
            let clock = match baseline {
                Some(baseline) if revision != comparison.baseline => Clock::between(run, baseline),
                _ => Clock::default(),
            };
            events.test(process, &title, run, &clock)?;
        }
    }
    write!(events.out, "\n]}}\n")
}

/// What the first run of a test measured; of failed runs, the one that is shown.
fn first_run<'a>(comparison: &'a Comparison, cell: &Cell, revision: usize) -> Option<&'a Measurement> {
    let run = cell.sides[revision].runs.first()?;
    Some(&*comparison.runs[*run].measurement)
}

struct Events<'a> {
    out: &'a mut dyn Write,
    separator: &'static str,
}

impl Events<'_> {
    fn add(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(self.separator.as_bytes())?;
        self.separator = ",\n";
        Ok(serde_json::to_writer(&mut *self.out, event)?)
    }

    /// Adds a test at one revision, as a process of its own.
    fn test(&mut self, process: u32, title: &str, run: &Measurement, clock: &Clock) -> io::Result<()> {
        self.add(&json!({ "ph": "M", "pid": process, "name": "process_name", "args": { "name": title } }))?;
        self.add(&json!({ "ph": "M", "pid": process, "name": "process_sort_index", "args": { "sort_index": process } }))?;
        self.add(&json!({ "ph": "M", "pid": process, "tid": 0, "name": "thread_name", "args": { "name": "checkpoints" } }))?;
        let columns: Vec<(&str, usize)> =
            run.metrics().iter().filter_map(|name| Some((&**name, run.column(name)?))).collect();
        let time = run.column("time");
        let mut before = 0;
        for (index, checkpoint) in run.checkpoints().iter().enumerate() {
            let readings =
                columns.iter().filter_map(|(name, column)| Some((*name, run.reading(*column, index)?)));
            let name = shown(run, checkpoint);
            let end = checkpoint.nanoseconds;
            let args: serde_json::Map<String, Value> =
                readings.clone().map(|(name, value)| (name.to_owned(), value.into())).collect();
            if checkpoint.kind == Kind::Point {
                self.slice(process, 0, &name, [before, end], clock, args)?;
                before = end;
                for (name, value) in readings.filter(|(name, _)| *name != "time") {
                    self.add(&json!({
                        "ph": "C", "pid": process, "ts": clock.microseconds(end), "name": name,
                        "args": { "value": value },
                    }))?;
                }
            } else {
                let took = time.and_then(|column| run.reading(column, index)).unwrap_or(0);
                let begin = end.saturating_sub(u64::try_from(took).unwrap_or(0));
                // Track 0 has the checkpoints.
                let thread = checkpoint.nesting.thread.max(1);
                self.slice(process, thread, &name, [begin, end], clock, args)?;
            }
        }
        Ok(())
    }

    fn slice(
        &mut self,
        process: u32,
        thread: u32,
        name: &str,
        [begin, end]: [u64; 2],
        clock: &Clock,
        mut args: serde_json::Map<String, Value>,
    ) -> io::Result<()> {
        args.insert("nanoseconds".to_owned(), end.saturating_sub(begin).into());
        let (from, to) = (clock.microseconds(begin), clock.microseconds(end));
        self.add(&json!({
            "ph": "X", "pid": process, "tid": thread, "ts": from, "dur": (to - from).max(0.0), "name": name,
            "args": args,
        }))
    }
}

fn shown(run: &Measurement, checkpoint: &Checkpoint) -> String {
    let label = one_line(run.label(checkpoint));
    if checkpoint.occurrence > 1 { format!("{label} #{}", checkpoint.occurrence) } else { label.into_owned() }
}

/// Moments of a run with their places on the baseline's clock, in order.
#[derive(Default)]
struct Clock(Vec<[u64; 2]>);

impl Clock {
    /// Ties the checkpoints together that both runs have.
    fn between(run: &Measurement, baseline: &Measurement) -> Self {
        let points = |run: &Measurement| {
            run.checkpoints().iter().filter(|one| one.kind == Kind::Point).copied().collect::<Vec<_>>()
        };
        let known: FxHashMap<(&str, u32), u64> = points(baseline)
            .iter()
            .map(|one| ((baseline.label(one), one.occurrence), one.nanoseconds))
            .collect();
        let mut ties: Vec<[u64; 2]> = Vec::new();
        for point in points(run) {
            let Some(&there) = known.get(&(run.label(&point), point.occurrence)) else { continue };
            // Checkpoints in another order cannot be one below the other.
            if ties.last().is_none_or(|last| last[0] <= point.nanoseconds && last[1] <= there) {
                ties.push([point.nanoseconds, there]);
            }
        }
        Self(ties)
    }

    /// The place of a moment, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    fn microseconds(&self, nanoseconds: u64) -> f64 {
        let at = nanoseconds as f64;
        let next = self.0.partition_point(|tie| tie[0] < nanoseconds);
        let place = match (next.checked_sub(1).map(|before| self.0[before]), self.0.get(next)) {
            (Some(before), Some(after)) if after[0] > before[0] => {
                let part = (at - before[0] as f64) / (after[0] - before[0]) as f64;
                before[1] as f64 + part * (after[1] - before[1]) as f64
            }
            (None, Some(after)) if after[0] > 0 => at * after[1] as f64 / after[0] as f64,
            (_, Some(after)) => after[1] as f64,
            (Some(last), None) => last[1] as f64 + (at - last[0] as f64),
            (None, None) => at,
        };
        place / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_stretched_between_ties_and_goes_on_behind_them() {
        let clock = Clock(vec![[1000, 2000], [3000, 3000]]);
        let shown = [0, 500, 1000, 2000, 3000, 5000].map(|at| clock.microseconds(at).to_string());
        assert_eq!(shown, ["0", "1", "2", "2.5", "3", "5"]);
        assert_eq!(Clock::default().microseconds(1500).to_string(), "1.5");
    }
}
