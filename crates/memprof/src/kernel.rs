//! Measuring in a live notebook. evcxr compiles each cell as a library of its own and loads all of
//! them into one process, each with a copy of this crate.
//!
//! What can be had there: the heap by the statistics of the C library, whose `malloc` Rust uses,
//! resident memory by the kernel, and GPU memory by NVML. The global allocator belongs to evcxr, so the
//! heap has no peak and no counts. CUPTI, which sees every allocation on a GPU, must be there before the
//! driver is initialised, so GPUs have no peak either.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use crate::kernel_gpus::{self, GpuReading};
use crate::platform::untracked::kept;
use crate::resident;
use crate::shared::cells::{CellUsage, Cells};
use crate::shared::figure::Figure;
use crate::shared::gpus::{Gpu, Gpus};
use crate::shared::malloc_statistics;
use crate::shared::memory::Memory;
use crate::shared::usage::Usage;

/// evcxr sets it in the process that runs the cells.
const EVCXR: &str = "EVCXR_IS_RUNTIME";

/// Holds the reports. Statics would be those of one cell's copy of this crate.
const REPORTS: &str = "MEMPROF_CELLS";

/// Longer values would keep the process from starting others.
const MOST_BYTES: usize = 64 * 1024;

const NO_PEAK: &str = "malloc keeps no peak; `cargo memprof notebook` has it";
const NO_GPU_PEAK: &str = "NVML keeps no peak; `cargo memprof notebook` has it";
const NO_COUNTS: &str = "only `cargo memprof notebook` counts allocations";

/// Shown below the reports.
const NOTE: &str = "Measured in a live kernel: the heap is malloc's (mallinfo2, sizes rounded up), without a peak; \
                    GPUs are NVML's figure for this process, contexts included, without a peak. `cargo memprof notebook` has exact figures.";

const FIELD: char = '\u{1f}';
const RECORD: char = '\u{1e}';

/// Whether this is the process of a notebook's kernel.
pub(crate) fn is_live() -> bool {
    static LIVE: AtomicU8 = AtomicU8::new(0);
    match LIVE.load(Ordering::Relaxed) {
        0 => {
            let live = std::env::var_os(EVCXR).is_some();
            LIVE.store(if live { 2 } else { 1 }, Ordering::Relaxed);
            live
        }
        known => known == 2,
    }
}

/// Runs code, and adds what it used to the reports.
pub(crate) fn measure<T>(label: &dyn fmt::Display, code: impl FnOnce() -> T) -> (T, Usage) {
    let label = label.to_string();
    let start = Start::now();
    let result = code();
    let figures = start.finish();
    add(&label, &figures);
    (result, figures.usage())
}

/// Returns the reports since the last call.
pub(crate) fn cells() -> Cells {
    let reports = stored().iter().filter_map(|record| read(record)).collect();
    std::env::remove_var(REPORTS);
    Cells::new(reports, NOTE)
}

/// The figures of a report. Absent ones are `None`.
struct Figures {
    heap: Option<(i64, u64)>,
    resident: Option<(i64, u64)>,
    resident_transient: Option<u64>,
    nanoseconds: u64,
    /// By device.
    gpus: Vec<(String, GpuFigures)>,
}

/// What was kept and what is in use at the end, or why that is unknown.
type GpuFigures = Result<(i64, u64), String>;

/// The state before the code.
struct Start {
    id: u64,
    heap: Option<u64>,
    resident: Option<u64>,
    gpus: Vec<GpuReading>,
    time: Instant,
}

/// The highest resident memory seen so far in each call that is going on. An inner call resets the
/// kernel's mark, so the outer ones keep it here.
static PEAKS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

fn heap() -> Option<u64> {
    malloc_statistics::find().ok().map(malloc_statistics::in_use)
}

/// Raises the peaks of all calls that are going on to the kernel's mark.
fn raise(peaks: &mut [(u64, u64)]) -> Option<u64> {
    let mark = resident::peak()?;
    for (_, peak) in peaks {
        *peak = mark.max(*peak);
    }
    Some(mark)
}

impl Start {
    fn now() -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut peaks) = PEAKS.lock() {
            if raise(&mut peaks).is_some() && resident::reset_peak() {
                peaks.push((id, 0));
            }
        }
        let gpus = kernel_gpus::read();
        Self { id, heap: heap(), resident: resident::now(), gpus, time: Instant::now() }
    }

    fn finish(self) -> Figures {
        // Work on a device belongs to the code that began it.
        let gpus = kernel_gpus::read();
        let elapsed = self.time.elapsed();
        let (heap, resident) = (heap(), resident::now());
        let mut peak = None;
        if let Ok(mut peaks) = PEAKS.lock() {
            raise(&mut peaks);
            if let Some(at) = peaks.iter().position(|(id, _)| *id == self.id) {
                peak = Some(peaks.remove(at).1);
            }
        }
        let grown = |before: Option<u64>, after: Option<u64>| {
            let (before, after) = (before?, after?);
            Some((after as i64 - before as i64, after))
        };
        let ends = self.resident.max(resident).unwrap_or(0);
        Figures {
            heap: grown(self.heap, heap),
            resident: grown(self.resident, resident),
            resident_transient: peak.map(|peak| peak.saturating_sub(ends)),
            nanoseconds: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            gpus: gpus.iter().map(|gpu| (gpu.device.to_owned(), self.of_gpu(gpu))).collect(),
        }
    }

    /// A device without a context at the beginning had no memory of this process then.
    fn of_gpu(&self, end: &GpuReading) -> GpuFigures {
        let before = self.gpus.iter().find(|one| one.device == end.device).map_or(Ok(0), |one| one.bytes);
        let (before, after) = (before?, end.bytes?);
        Ok((after as i64 - before as i64, after))
    }
}

impl Figures {
    fn usage(&self) -> Usage {
        let no_heap = malloc_statistics::find().err().unwrap_or("the C library has no figure");
        let heap = match self.heap {
            Some((kept, at_end)) => Memory::measured(kept, Err(NO_PEAK), at_end),
            None => Memory::unavailable(no_heap),
        };
        let transient = self.resident_transient.ok_or("/proc/self/clear_refs cannot be written");
        let cpu = match self.resident {
            Some((kept, at_end)) => Memory::measured(kept, transient, at_end),
            None => Memory::unavailable("/proc/self/statm cannot be read"),
        };
        let mut gpus = Gpus::new();
        for (device, figures) in &self.gpus {
            let memory = match figures {
                Ok((kept, at_end)) => Memory::measured(*kept, Err(NO_GPU_PEAK), *at_end),
                Err(reason) => Memory::unavailable(kept(format_args!("{reason}"))),
            };
            gpus.push(Gpu { device: kept(format_args!("{device}")), memory });
        }
        Usage {
            heap,
            cpu,
            gpus,
            heap_allocated: Figure::unavailable(NO_COUNTS),
            heap_count: Figure::unavailable(NO_COUNTS),
            time: Figure::measured(std::time::Duration::from_nanos(self.nanoseconds)),
        }
    }
}

/// Returns the stored reports of this process. A program that a cell starts inherits the variable.
fn stored() -> Vec<String> {
    let text = std::env::var(REPORTS).unwrap_or_default();
    let mut records = text.split(RECORD).map(str::to_owned);
    match records.next() {
        Some(process) if process == std::process::id().to_string() => records.collect(),
        _ => Vec::new(),
    }
}

fn add(label: &str, figures: &Figures) {
    let label: String = label.chars().filter(|one| !one.is_control()).take(200).collect();
    let number = |value: Option<i128>| value.map_or_else(String::new, |value| value.to_string());
    let mut fields = vec![
        label,
        number(figures.heap.map(|(kept, _)| kept.into())),
        number(figures.heap.map(|(_, used)| used.into())),
        number(figures.resident.map(|(kept, _)| kept.into())),
        number(figures.resident.map(|(_, used)| used.into())),
        number(figures.resident_transient.map(i128::from)),
        figures.nanoseconds.to_string(),
    ];
    for (device, figures) in &figures.gpus {
        let texts = match figures {
            Ok((kept, used)) => (kept.to_string(), used.to_string()),
            Err(reason) => {
                (String::new(), reason.chars().filter(|one| !one.is_control()).take(200).collect())
            }
        };
        fields.extend([device.clone(), texts.0, texts.1]);
    }
    let mut records = stored();
    records.push(fields.join(&FIELD.to_string()));
    // The oldest reports go if nobody asks for them.
    while records.iter().map(|record| record.len() + 1).sum::<usize>() > MOST_BYTES {
        records.remove(0);
    }
    let separator = RECORD.to_string();
    let text = format!("{}{}{}", std::process::id(), separator, records.join(&separator));
    std::env::set_var(REPORTS, text);
}

fn read(record: &str) -> Option<CellUsage> {
    let mut fields = record.split(FIELD);
    let label = fields.next()?.to_owned();
    let mut next = || fields.next()?.parse::<i128>().ok();
    let pair = |kept: Option<i128>, at_end: Option<i128>| {
        Some((i64::try_from(kept?).ok()?, u64::try_from(at_end?).ok()?))
    };
    let (heap, resident) = (pair(next(), next()), pair(next(), next()));
    let resident_transient = next().and_then(|value| u64::try_from(value).ok());
    let nanoseconds = next().and_then(|value| u64::try_from(value).ok())?;
    let mut gpus = Vec::new();
    while let (Some(device), Some(kept), Some(text)) = (fields.next(), fields.next(), fields.next()) {
        let figures = match (kept.parse(), text.parse()) {
            (Ok(kept), Ok(used)) => Ok((kept, used)),
            _ => Err(text.to_owned()),
        };
        gpus.push((device.to_owned(), figures));
    }
    let figures = Figures { heap, resident, resident_transient, nanoseconds, gpus };
    Some(CellUsage { label, used: figures.usage() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_kept_until_they_are_asked_for_and_inner_calls_keep_the_outer_peak() {
        let size = 64 << 20;
        let fill = || std::hint::black_box(vec![1_u8; size]).len();
        let (_, outer) = measure(&"outer", || {
            fill();
            measure(&"inner <a>", || std::hint::black_box(vec![1_u8; 16 << 20])).0
        });
        let reports = cells();
        let labels: Vec<&str> = reports.iter().map(|report| report.label.as_str()).collect();
        assert_eq!(labels, ["inner <a>", "outer"]);
        assert!(cells().is_empty(), "they were asked for");
        if malloc_statistics::find().is_ok() {
            // Other tests allocate meanwhile, but not millions of bytes.
            let kept = outer.heap.kept.get().unwrap();
            assert!((kept - (16 << 20)).abs() < 1 << 20, "{kept}");
            assert_eq!(outer.heap.rise.why_unavailable(), Some(NO_PEAK));
            assert_eq!(reports[1].used.heap.kept.get(), Some(kept));
        }
        if let Some(transient) = outer.cpu.transient.get() {
            assert!(transient > 40 << 20, "the outer call had 64 MiB: {transient}");
            let inner = reports[0].used.cpu.transient.get().unwrap();
            assert!(inner < 16 << 20, "the inner one ends with all it had: {inner}");
        }
        assert!(format!("{reports}").contains("inner <a>: heap: kept 16."), "{reports}");
    }
}
