//! Logs call stacks and the figures of their sites.
//!
//! Frames and sites are logged once, before the first line that names them. After each checkpoint
//! comes a line with the sites that changed since the last one.

use std::io;
use std::time::Instant;

use crate::blocks::site_figures::{AtNextMark, Changed, Interval};
use crate::gpu::devices::Gpu;
use crate::heap::counts;
use crate::log::run_log::Log;
use crate::platform::loaded::{self, Module};
use crate::platform::untracked::Untracked;
use crate::sources::all_sources::Sources;
use crate::stacks::allocating_thread::{self, Thread};
use crate::stacks::events;
use crate::stacks::releases::{self, Release};
use crate::stacks::sites::{self, Frame, Site};
use crate::stacks::stack_recording;

/// Most entries of a line.
const LONGEST: usize = 4096;

pub(crate) struct StackLog {
    modules: Untracked<Module>,
    /// How many modules, frames and sites the log has. Frames and sites begin with one that stands
    /// for none.
    logged_modules: usize,
    logged_frames: usize,
    logged_sites: usize,
    logged_threads: usize,
    new: (Untracked<Frame>, Untracked<Site>),
    new_threads: Untracked<Thread>,
    changed: Untracked<Changed>,
    released: Untracked<Release>,
    has_told_what_is_left_out: bool,
    has_told_of_releases: bool,
}

impl StackLog {
    /// `None` if the run does not record call stacks.
    pub(crate) fn new() -> Option<Self> {
        if !stack_recording::are_recorded() {
            return None;
        }
        Some(Self {
            modules: Untracked::new(),
            logged_modules: 0,
            logged_frames: 1,
            logged_sites: 1,
            logged_threads: 0,
            new_threads: Untracked::new(),
            new: (Untracked::new(), Untracked::new()),
            changed: Untracked::new(),
            released: Untracked::new(),
            has_told_what_is_left_out: false,
            has_told_of_releases: false,
        })
    }

    /// Logs how call stacks are recorded, and begins the first interval at the next mark.
    pub(crate) fn begin(&mut self, log: &mut Log, sources: &Sources) -> io::Result<()> {
        self.begin_interval_at_next_mark(sources);
        match stack_recording::description() {
            Some(description) => log.write("stacks", 0, |json| {
                json.text("blocks", description.blocks);
                json.text("walker", description.walker);
                json.text_or_null("reason", description.reason);
                match description.sample {
                    Some(bytes) => json.figure("sample", bytes),
                    None => json.text_or_null("sample", None),
                }
            }),
            None => Ok(()),
        }
    }

    /// Forgets the interval so far at the next mark.
    pub(crate) fn begin_interval_at_next_mark(&self, sources: &Sources) {
        events::at_next_mark(AtNextMark::Begin);
        Gpu::at_next_mark(AtNextMark::Begin);
        sources.malloc.at_next_mark(AtNextMark::Begin);
    }

    pub(crate) fn end_interval_at_next_mark(&self, sources: &Sources) {
        events::at_next_mark(AtNextMark::End);
        Gpu::at_next_mark(AtNextMark::End);
        sources.malloc.at_next_mark(AtNextMark::End);
    }

    /// Logs the intervals that ended at the last mark, of the heap, of `malloc` and of each GPU.
    pub(crate) fn checkpoint(
        &mut self,
        log: &mut Log,
        sources: &Sources,
        nanoseconds: u64,
        checkpoint: (&str, u64),
    ) -> io::Result<()> {
        let interval = match events::take_interval(&mut self.changed) {
            Some(interval) => interval,
            None => return Ok(()),
        };
        let has_all_releases = !events::take_releases(&mut self.released);
        self.new_stacks(log, nanoseconds)?;
        // Without the tracking allocator there is no heap to speak of.
        if counts::are_used() {
            let peak_event = events::event_of_peak();
            let heap = OfFamily { family: "heap", interval, peak_event, changed: &self.changed };
            heap.write(log, nanoseconds, checkpoint)?;
            self.releases(log, nanoseconds, checkpoint)?;
        }
        let mut result = Ok(());
        let each = &mut |family: &str, interval: Interval, changed: &[Changed]| {
            if result.is_ok() {
                result = OfFamily { family, interval, peak_event: None, changed }.write(
                    log,
                    nanoseconds,
                    checkpoint,
                );
            }
        };
        sources.malloc.each_interval(each);
        sources.gpu.each_interval(each);
        result?;
        if !has_all_releases && !std::mem::replace(&mut self.has_told_of_releases, true) {
            log.write("stacks_incomplete", nanoseconds, |json| json.text("reason", releases::TOO_MANY))?;
        }
        self.what_is_left_out(log, sources, nanoseconds)
    }

    /// Logs where blocks of the heap ended in the last interval: for each pair of sites, how, the
    /// bytes up to the peak, and the bytes up to the checkpoint.
    fn releases(&self, log: &mut Log, nanoseconds: u64, checkpoint: (&str, u64)) -> io::Result<()> {
        for part in self.released.chunks(LONGEST) {
            log.write("releases", nanoseconds, |json| {
                json.text("family", "heap");
                json.text("label", checkpoint.0);
                json.figure("occurrence", checkpoint.1);
                let numbers = part
                    .iter()
                    .flat_map(|one| [one.site.into(), one.by.into(), one.way.into(), one.at_peak, one.bytes]);
                json.numbers("pairs", numbers.map(Some));
            })?;
        }
        Ok(())
    }

    /// Logs frames and sites that are new, and the files that they are in.
    fn new_stacks(&mut self, log: &mut Log, nanoseconds: u64) -> io::Result<()> {
        sites::copy_from(self.logged_frames, self.logged_sites, &mut self.new);
        let (frames, sites) = (&self.new.0, &self.new.1);
        if frames.iter().any(|frame| module_of(&self.modules, frame.address).is_none()) {
            loaded::add_new(&mut self.modules);
        }
        for (number, module) in self.modules.iter().enumerate().skip(self.logged_modules) {
            log.write("module", nanoseconds, |json| {
                json.figure("number", number as u64);
                json.text("path", module.path);
                json.figure("bias", module.bias as u64);
                json.figure("begin", module.begin as u64);
                json.figure("end", module.end as u64);
            })?;
        }
        self.logged_modules = self.modules.len();
        for part in frames.chunks(LONGEST) {
            let first = self.logged_frames;
            log.write("frames", nanoseconds, |json| {
                json.figure("first", first as u64);
                let modules = &self.modules;
                let numbers = part.iter().flat_map(|frame| {
                    let module = module_of(modules, frame.address);
                    let bias = module.map_or(0, |module| modules[module].bias);
                    // The call is before the address that it returns to.
                    let address = frame.address.wrapping_sub(1).wrapping_sub(bias);
                    [Some(u64::from(frame.parent)), module.map(|module| module as u64), Some(address as u64)]
                });
                json.numbers("frames", numbers);
            })?;
            self.logged_frames += part.len();
        }
        // The sites were copied before, so their threads are among these.
        allocating_thread::copy_from(self.logged_threads, &mut self.new_threads);
        for thread in self.new_threads.iter() {
            self.logged_threads += 1;
            let number = self.logged_threads as u64;
            log.write("thread", nanoseconds, |json| {
                json.figure("number", number);
                json.text("kind", thread.kind.as_str());
                json.text("name", thread.name());
                json.figure("shared", thread.is_shared.into());
            })?;
        }
        for part in sites.chunks(LONGEST) {
            let first = self.logged_sites;
            log.write("sites", nanoseconds, |json| {
                json.figure("first", first as u64);
                json.numbers("nodes", part.iter().map(|site| Some(site.frame.into())));
                if allocating_thread::are_recorded() {
                    json.numbers("threads", part.iter().map(|site| Some(site.thread.into())));
                }
            })?;
            self.logged_sites += part.len();
        }
        Ok(())
    }

    fn what_is_left_out(&mut self, log: &mut Log, sources: &Sources, nanoseconds: u64) -> io::Result<()> {
        let lost = "a thread stopped while it recorded an allocation, so some allocations are missing";
        let reason = if events::is_incomplete() { Some(lost) } else { sites::left_out() };
        let reason = reason.or_else(|| sources.malloc.left_out());
        match reason {
            Some(reason) if !std::mem::replace(&mut self.has_told_what_is_left_out, true) => {
                log.write("stacks_incomplete", nanoseconds, |json| json.text("reason", reason))
            }
            _ => Ok(()),
        }
    }

    /// Logs live bytes over time.
    pub(crate) fn end(
        &mut self,
        log: &mut Log,
        nanoseconds: u64,
        started: Option<Instant>,
    ) -> io::Result<()> {
        log.write("stacks_compared", nanoseconds, |json| {
            json.figure("stacks", sites::compared().into());
        })?;
        let mut result = Ok(());
        events::with_timeline(|timeline| {
            let (spans, begin, width) = match timeline.spans() {
                Some(found) => found,
                None => return,
            };
            // The first allocation is before `start`.
            let before = started.map_or(0, |started| started.saturating_duration_since(begin).as_nanos());
            result = log.write("timeline", nanoseconds, |json| {
                json.text("family", "heap");
                json.number("begin", format_args!("{}{before}", if before > 0 { "-" } else { "" }));
                json.number("width", format_args!("{}", width.round().max(1.0)));
                let numbers = spans.iter().flat_map(|span| [Some(span.lowest), Some(span.highest)]);
                json.numbers("buckets", numbers);
            });
        });
        result
    }
}

/// The figures of an interval.
struct OfFamily<'a> {
    /// The metrics' common beginning.
    family: &'a str,
    interval: Interval,
    /// How many allocations and deallocations there were in the moment of the peak, for the heap.
    peak_event: Option<u64>,
    /// The sites that changed.
    changed: &'a [Changed],
}

impl OfFamily<'_> {
    fn write(&self, log: &mut Log, nanoseconds: u64, (label, occurrence): (&str, u64)) -> io::Result<()> {
        let parts = ((self.changed.len() + LONGEST - 1) / LONGEST).max(1);
        for part in 0..parts {
            let sites = self.changed.get(part * LONGEST..).unwrap_or_default();
            let sites = &sites[..sites.len().min(LONGEST)];
            log.write("interval", nanoseconds, |json| {
                json.text("family", self.family);
                json.text("label", label);
                json.figure("occurrence", occurrence);
                json.figure("part", part as u64);
                json.figure("parts", parts as u64);
                json.figure("live", self.interval.live);
                json.figure("peak", self.interval.peak);
                json.figure("allocated", self.interval.allocated);
                json.figure("count", self.interval.count);
                if let Some(event) = self.peak_event {
                    json.figure("peak_event", event);
                }
                json.numbers("sites", sites.iter().flat_map(numbers_of).map(Some));
            })?;
        }
        Ok(())
    }
}

fn module_of(modules: &[Module], address: usize) -> Option<usize> {
    modules.iter().position(|module| address > module.begin && address <= module.end)
}

fn numbers_of(site: &Changed) -> [u64; 5] {
    [site.site.into(), site.at_peak, site.live, site.allocated, site.count]
}
