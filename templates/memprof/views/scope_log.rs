//! Scopes in the log, and what a scope keeps of its beginning.

use std::time::Duration;

use crate::lines::occurrences::Logged;
use crate::log::json::Json;
use crate::metrics::metric::{Index, Kind, Metric};
use crate::metrics::source::Extent;
use crate::platform::thread_number;
use crate::platform::untracked::{Text, Untracked};
use crate::recorder::holding::settle_and_hold;
use crate::recorder::marks::{Mark, Recorder};
use crate::shared::figure::Figure;
use crate::shared::gpus::Gpu;
use crate::shared::memory::Memory;
use crate::shared::usage::Usage;

/// Page-locked memory of the host has a place among the GPUs' metrics.
const HOST: &str = "host_pinned";

/// The mark at which a scope began, to compare with at its end. `values` has an entry for each
/// metric that existed then.
pub(crate) struct ScopeStart {
    /// The thread where it began. The depth counts there.
    thread: u32,
    number: u64,
    nanoseconds: u64,
    /// 1-based occurrence of this label, in the order in which scopes begin. So the outermost call
    /// of a recursion is always the first.
    occurrence: u64,
    values: Untracked<Option<u64>>,
}

pub(crate) fn start_scope(label: &str) -> Option<ScopeStart> {
    settle_and_hold().and_then(|mut recorder| recorder.start_scope(label))
}

pub(crate) fn end_scope(label: &str, at: &str, depth: u64, start: &ScopeStart) {
    if let Some(mut recorder) = settle_and_hold() {
        recorder.end_scope(label, at, depth, start);
    }
}

/// Like [`end_scope`], and returns what the scope used; `None` if nothing was recorded.
pub(crate) fn finish_scope(label: &str, at: &str, depth: u64, start: &ScopeStart) -> Option<Usage> {
    let mut recorder = settle_and_hold()?;
    let end = recorder.end_scope(label, at, depth, start)?;
    Some(recorder.usage(start, &end))
}

impl Recorder {
    fn start_scope(&mut self, label: &str) -> Option<ScopeStart> {
        self.log.as_ref()?;
        let occurrence = self.occurrences.next(Logged::Scope, label);
        let mark = self.mark(Extent::Scopes);
        let mut values = Untracked::new();
        for (index, _) in self.catalogue.metrics() {
            values.push(mark.values.get(index));
        }
        self.open_scopes += 1;
        let (thread, number, nanoseconds) = (thread_number::current(), mark.number, mark.nanoseconds);
        Some(ScopeStart { thread, number, nanoseconds, occurrence, values })
    }

    /// Returns the mark at its end, if there is a log.
    fn end_scope(&mut self, label: &str, at: &str, depth: u64, start: &ScopeStart) -> Option<Mark> {
        self.open_scopes = self.open_scopes.saturating_sub(1);
        self.log.as_ref()?;
        let mark = self.mark(Extent::Scopes);
        self.log_what_appeared(&mark);
        self.log(|recorder, log| {
            log.write_for(start.thread, "scope", mark.nanoseconds, |json| {
                json.text("label", label);
                json.figure("occurrence", start.occurrence);
                json.text("at", at);
                json.figure("depth", depth);
                json.object("metrics", |json| {
                    for (index, metric) in recorder.catalogue.metrics() {
                        recorder.scope_figures(json, index, metric, start, &mark);
                    }
                    json.figure("time", mark.nanoseconds - start.nanoseconds);
                });
            })
        });
        Some(mark)
    }

    /// Writes consumed, peaked and used for a peak and its level; for a total, its growth.
    fn scope_figures(
        &self,
        json: &mut Json<'_>,
        index: Index,
        metric: &Metric,
        start: &ScopeStart,
        end: &Mark,
    ) {
        let both = |index: Index| {
            let before = start.value(index, self.catalogue.metric(index))?;
            Some((before, end.values.get(index)?))
        };
        match metric.kind {
            Kind::Peak { family, level } => {
                let (before, after) = match both(level) {
                    Some(both) => both,
                    None => return,
                };
                let peak = self.histories.get(index).since(start.number);
                let base = self.catalogue.metric(level).base;
                write_figures(json, (family, base), before, after, peak);
            }
            Kind::Total => {
                if let Some((before, after)) = both(index) {
                    json.figure(metric.name, after.wrapping_sub(before));
                }
            }
            Kind::Level => {}
        }
    }
}

impl Recorder {
    /// The figures of a scope's line, as data.
    fn usage(&self, start: &ScopeStart, end: &Mark) -> Usage {
        let mut usage = Usage::not_measured();
        usage.heap = self.memory("heap.live", "heap.peak", start, end);
        usage.cpu = self.memory("cpu.rss", "cpu.peak", start, end);
        usage.heap_allocated = self.growth("heap.allocated", start, end);
        usage.heap_count = self.growth("heap.count", start, end);
        usage.time = Figure::measured(Duration::from_nanos(end.nanoseconds - start.nanoseconds));
        for (index, metric) in self.catalogue.metrics() {
            if let Kind::Peak { family, .. } = metric.kind {
                // Pools have families of their own: `gpu.0.pool.used`.
                let is_whole = metric.name.strip_suffix(".peak") == Some(family);
                let device = family.strip_prefix("gpu.").filter(|device| is_whole && *device != HOST);
                if let Some(device) = device {
                    usage.gpus.push(Gpu { device, memory: self.memory_of(index, start, end) });
                }
            }
        }
        usage
    }

    fn memory(&self, level: &str, peak: &str, start: &ScopeStart, end: &Mark) -> Memory {
        match self.index_of(peak) {
            Some(index) => self.memory_of(index, start, end),
            None => Memory::unavailable(self.why_absent(&[peak, level])),
        }
    }

    /// The figures of a metric that is a peak.
    fn memory_of(&self, peak: Index, start: &ScopeStart, end: &Mark) -> Memory {
        let metric = self.catalogue.metric(peak);
        let level = match metric.kind {
            Kind::Peak { level, .. } => level,
            Kind::Level | Kind::Total => peak,
        };
        let before = start.value(level, self.catalogue.metric(level));
        let both = before.and_then(|before| Some((before, end.values.get(level)?)));
        let (before, after) = match both {
            Some(both) => both,
            None => return Memory::unavailable(metric.lost),
        };
        let kept = i128::from(after) - i128::from(before);
        let transient = match self.histories.get(peak).since(start.number) {
            Some(highest) => Ok(highest.saturating_sub(before.max(after))),
            None => Err(metric.lost),
        };
        // A test that freed what was there before it uses nothing.
        let at_end = after.saturating_sub(self.catalogue.metric(level).base);
        Memory::measured(i64::try_from(kept).unwrap_or(i64::MAX), transient, at_end)
    }

    /// What a total grew by.
    fn growth(&self, name: &str, start: &ScopeStart, end: &Mark) -> Figure<u64> {
        let index = match self.index_of(name) {
            Some(index) => index,
            None => return Figure::unavailable(self.why_absent(&[name])),
        };
        let before = start.value(index, self.catalogue.metric(index));
        let both = before.and_then(|before| Some((before, end.values.get(index)?)));
        match both {
            Some((before, after)) => Figure::measured(after.wrapping_sub(before)),
            None => Figure::unavailable(self.catalogue.metric(index).lost),
        }
    }

    fn index_of(&self, name: &str) -> Option<Index> {
        self.catalogue.metrics().find(|(_, metric)| metric.name == name).map(|(index, _)| index)
    }

    /// Why this process lacks the first of these metrics that the catalogue has a reason for.
    fn why_absent(&self, names: &[&str]) -> &'static str {
        let absent = |name: &&str| self.catalogue.absent().iter().find(|absent| absent.name == *name);
        names.iter().find_map(absent).map_or("this platform does not have it", |absent| absent.reason)
    }
}

/// Writes what a scope did to one metric: consumed (its growth), peaked (above both ends) and used
/// (at its end, above the family's base).
pub(crate) fn write_figures(
    json: &mut Json<'_>,
    (family, base): (&str, u64),
    before: u64,
    after: u64,
    peak: Option<u64>,
) {
    let name = |part: &str| Text::format(format_args!("{family}.{part}"));
    let consumed = i128::from(after) - i128::from(before);
    json.number(name("consumed").as_str(), format_args!("{consumed}"));
    if let Some(peak) = peak {
        let peaked = peak.saturating_sub(before.max(after));
        json.number(name("peaked").as_str(), format_args!("{peaked}"));
    }
    json.figure(name("used").as_str(), after.wrapping_sub(base));
}

/// Writes what the calling thread itself did. It has no level since the test began.
pub(crate) fn write_own_figures(json: &mut Json<'_>, family: &str, consumed: i64, peaked: u64) {
    let name = |part: &str| Text::format(format_args!("{family}.{part}"));
    json.number(name("consumed").as_str(), format_args!("{consumed}"));
    json.number(name("peaked").as_str(), format_args!("{peaked}"));
}

impl ScopeStart {
    fn value(&self, index: Index, metric: &Metric) -> Option<u64> {
        match self.values.get(index.place()) {
            Some(value) => *value,
            // The metric appeared after the scope began.
            None if metric.is_zero_before => Some(0),
            None => None,
        }
    }
}
