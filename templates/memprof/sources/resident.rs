//! `cpu.rss`, `cpu.peak`, and on request their parts: the resident memory of the process. Each
//! platform has a file. This one selects it, and ensures that a peak is never below the figure of
//! the same moment. `cpu.program` is the part of the program itself. `cpu.kept` is what the C library's
//! allocator keeps of it after a free.

use std::time::{Duration, Instant};

use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, Metric, Values};
use crate::metrics::source::{Extent, Source};
use crate::platform::untracked::kept;
use crate::shared::malloc_statistics::{self, Statistics, Trim};
use crate::sources::program_pages::Program;

// Miri has none of these calls. The rest of this crate runs in it.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
#[path = "resident_linux.rs"]
mod platform;
#[cfg(any(target_os = "macos", target_os = "ios"))]
#[path = "resident_macos.rs"]
mod platform;
#[cfg(windows)]
#[path = "resident_windows.rs"]
mod platform;
#[cfg(any(
    miri,
    not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios", windows))
))]
#[path = "resident_elsewhere.rs"]
mod platform;

/// What a platform has, and the sources to log.
struct Found {
    process: platform::Process,
    resident_source: &'static str,
    peak_source: &'static str,
}

/// The figures of one moment, in bytes.
#[derive(Clone, Copy)]
struct Figures {
    resident: u64,
    /// Since the last call, or since the process began; the source tells which.
    peak: Option<u64>,
}

/// The parts of the resident memory, in bytes.
#[derive(Clone, Copy)]
struct Parts {
    proportional: u64,
    private: u64,
    shared: u64,
}

/// The metrics for [`Parts`]. Reading them takes milliseconds, or hundreds of them.
const ON_REQUEST: [&str; 3] = ["cpu.pss", "cpu.private", "cpu.shared"];

/// The allocator walks its free blocks to count them. A run spends no more time on that.
const MOST_TIME: Duration = Duration::from_millis(50);

/// What the C library's allocator keeps.
struct Kept {
    statistics: Statistics,
    index: Index,
    spent: Duration,
}

impl Kept {
    fn open(environment: &Environment, catalogue: &mut Catalogue) -> Option<Self> {
        if !environment.in_a_run() {
            return None;
        }
        let statistics = malloc_statistics::find().ok()?;
        let index = catalogue.add_metric(Metric {
            name: "cpu.kept",
            source: malloc_statistics::KEPT_SOURCE,
            kind: Kind::Level,
            lost: "counting the free blocks of the C library's allocator took more than 50 ms in this process",
            is_zero_before: true,
            base: 0,
        });
        Some(Self { statistics, index, spent: Duration::from_secs(0) })
    }

    fn read(&mut self, values: &mut Values) {
        if self.spent > MOST_TIME {
            return;
        }
        let begin = Instant::now();
        values.set(self.index, Some(malloc_statistics::kept(self.statistics)));
        self.spent += begin.elapsed();
    }
}

pub(crate) struct Resident {
    open: Option<Open>,
}

struct Open {
    process: platform::Process,
    resident: Index,
    peak: Index,
    parts: [Option<Index>; 3],
    kept: Option<Kept>,
    program: Option<Program>,
    /// Returns free memory of the C library's allocator before each reading, if the runner asks for it.
    trim: Option<Trim>,
}

impl Resident {
    pub(crate) const fn new() -> Self {
        Self { open: None }
    }
}

impl Source for Resident {
    fn open(&mut self, environment: &Environment, catalogue: &mut Catalogue) {
        // Outside a run, the high-water mark is not reset: someone else may be measuring it.
        let found = if environment.reads_resident() {
            platform::open(environment.in_a_run())
        } else {
            Err("left out on request (MEMPROF_RESIDENT=0)")
        };
        let found = match found {
            Ok(found) => found,
            Err(reason) => {
                for name in ["cpu.rss", "cpu.peak"] {
                    catalogue.add_absent(name, reason);
                }
                for name in ON_REQUEST.iter().filter(|name| environment.wants(name)) {
                    catalogue.add_absent(name, reason);
                }
                return;
            }
        };
        let mut process = found.process;
        let trim = if environment.trims() { Some(malloc_statistics::find_trim()) } else { None };
        // Each interval begins with less, so the peak is another figure, too.
        let source = |of_platform: &'static str| match trim {
            Some(Ok(_)) => kept(format_args!("{of_platform}, after malloc_trim")),
            Some(Err(reason)) => kept(format_args!("{of_platform}, {reason}")),
            None => of_platform,
        };
        let trim = trim.and_then(Result::ok);
        let resident = catalogue.add("cpu.rss", source(found.resident_source), Kind::Level);
        let kind = Kind::Peak { family: "cpu", level: resident };
        let peak = catalogue.add("cpu.peak", source(found.peak_source), kind);
        let mut parts = [None; 3];
        for (index, name) in parts.iter_mut().zip(ON_REQUEST).filter(|(_, name)| environment.wants(name)) {
            match process.open_parts() {
                Ok(source) => *index = Some(catalogue.add(name, source, Kind::Level)),
                Err(reason) => catalogue.add_absent(name, reason),
            }
        }
        let kept_free = Kept::open(environment, catalogue);
        self.open = Some(Open {
            program: Program::open(environment, catalogue),
            process,
            resident,
            peak,
            parts,
            kept: kept_free,
            trim,
        });
    }

    fn read(&mut self, values: &mut Values, extent: Extent) {
        let open = match &mut self.open {
            Some(open) => open,
            None => return,
        };
        if let Some(trim) = open.trim {
            malloc_statistics::trim(trim);
        }
        if let Some(figures) = open.process.read() {
            values.set(open.resident, Some(figures.resident));
            // The two are read one after the other, and the kernel may batch one but not the other.
            values.set(open.peak, figures.peak.map(|peak| peak.max(figures.resident)));
        }
        if let (Extent::Whole, Some(kept)) = (extent, &mut open.kept) {
            kept.read(values);
        }
        if let (Extent::Whole, Some(program)) = (extent, &mut open.program) {
            program.read(values);
        }
        if extent == Extent::Whole && open.parts.iter().any(Option::is_some) {
            let parts = open.process.read_parts();
            let figures = [
                parts.map(|parts| parts.proportional),
                parts.map(|parts| parts.private),
                parts.map(|parts| parts.shared),
            ];
            for (index, figure) in open.parts.iter().zip(figures) {
                if let Some(index) = index {
                    values.set(*index, figure);
                }
            }
        }
    }

    fn why_lost(&self, index: Index) -> Option<&'static str> {
        self.open.as_ref()?.program.as_ref()?.why_lost(index)
    }
}
