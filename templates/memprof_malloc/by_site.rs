//! The figures of each call stack. The shim says which stack is the current one.
//!
//! A block without an entry in the table has site 0: it is older than the recording, or its stack is
//! not known. Its size is what the allocator says in any case, so the sums are right.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::blocks::block_table;
use crate::blocks::site_figures::{AtNextMark, Change, Changed, Interval, SiteFigures};
use crate::platform::lock::{Held, Lock};
use crate::platform::own_memory;
use crate::platform::thread_number;
use crate::sources::malloc_link::{CurrentSite, Figures};

static CURRENT_SITE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static SITES: Lock<Sites> = Lock::new(Sites { figures: SiteFigures::new(), peak: 0, before: 0 });
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

struct Sites {
    figures: SiteFigures,
    /// The peak since the last reading.
    peak: u64,
    /// What is taken over of the sums.
    before: u64,
}

/// A block that is leaving: its site and size.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    site: u32,
    size: usize,
}

pub(crate) fn begin(current_site: CurrentSite) {
    own_memory::use_pages();
    CURRENT_SITE.store(current_site as *mut (), Ordering::Release);
}

fn current_site() -> u32 {
    let current = CURRENT_SITE.load(Ordering::Acquire);
    // SAFETY: `begin` stored a function of this type, before any caller comes here.
    let current = unsafe { std::mem::transmute::<*mut (), CurrentSite>(current) };
    current()
}

fn hold() -> Option<Held<'static, Sites>> {
    let held = SITES.hold_as(thread_number::place());
    if held.is_none() {
        IS_INCOMPLETE.store(true, Ordering::Relaxed);
    }
    held
}

pub(crate) fn is_incomplete() -> bool {
    IS_INCOMPLETE.load(Ordering::Relaxed)
}

pub(crate) fn came(block: usize, size: usize) {
    let site = current_site();
    if let Some(mut sites) = hold() {
        sites.insert(block, site, size);
        let new_size = size as u64;
        sites.apply(Change {
            new_site: site,
            old_site: 0,
            new_size,
            old_size: 0,
            allocates: true,
            shrinks: false,
        });
    }
}

pub(crate) fn goes(block: usize, size: usize) {
    gone(take(block, size));
}

/// Begins a reallocation.
pub(crate) fn take(block: usize, size: usize) -> Taken {
    // Nobody waits for the table's own locks: this one comes first.
    let known = hold().and_then(|_sites| block_table::remove(block));
    Taken { site: known.map_or(0, |(site, _)| site), size }
}

/// The reallocation failed.
pub(crate) fn put_back(block: usize, old: Taken) {
    if let Some(mut sites) = hold() {
        sites.insert(block, old.site, old.size);
    }
}

/// The reallocation was a free.
pub(crate) fn gone(old: Taken) {
    let (old_site, old_size) = (old.site, old.size as u64);
    if let Some(mut sites) = hold() {
        sites.apply(Change {
            new_site: 0,
            old_site,
            new_size: 0,
            old_size,
            allocates: false,
            shrinks: false,
        });
    }
}

/// The reallocation succeeded. It is one step.
pub(crate) fn moved(old: Taken, block: usize, size: usize) {
    let new_site = current_site();
    if let Some(mut sites) = hold() {
        // A block that shrinks stays its old site's.
        let shrinks = size < old.size;
        sites.insert(block, if shrinks { old.site } else { new_site }, size);
        let (old_site, old_size, new_size) = (old.site, old.size as u64, size as u64);
        sites.apply(Change { new_site, old_site, new_size, old_size, allocates: true, shrinks });
    }
}

impl Sites {
    // The table is another static, which only the holder of this lock uses.
    #[allow(clippy::unused_self)]
    fn insert(&mut self, block: usize, site: u32, size: usize) {
        if site == 0 {
            // Maybe an entry is left of a block that was freed past this library.
            block_table::remove(block);
        } else {
            block_table::insert(block, site, size);
        }
    }

    fn apply(&mut self, change: Change) {
        self.figures.apply(change);
        self.peak = self.peak.max(self.figures.live());
    }

    /// Takes over the live bytes that were counted without call stacks, for site 0.
    fn take_over(&mut self, live: u64) {
        let change = |new_size, old_size, allocates| Change {
            new_site: 0,
            old_site: 0,
            new_size,
            old_size,
            allocates,
            shrinks: false,
        };
        let before = std::mem::replace(&mut self.before, live);
        if live > before {
            self.apply(change(live - before, 0, true));
        } else if live < before {
            self.apply(change(0, before - live, false));
        }
    }
}

/// Reads the figures. `live_before` are the live bytes that were counted without call stacks.
pub(crate) fn read(live_before: u64) -> Option<Figures> {
    let mut sites = hold()?;
    sites.take_over(live_before);
    let live = sites.figures.live();
    let peak = std::mem::replace(&mut sites.peak, live);
    sites.figures.mark();
    let (allocated, count) = sites.figures.totals();
    Some(Figures { live, peak, allocated, count })
}

pub(crate) extern "C" fn at_next_mark(what: u32) {
    if let Some(mut sites) = hold() {
        sites.figures.at_next_mark = match what {
            what if what == AtNextMark::Begin as u32 => AtNextMark::Begin,
            what if what == AtNextMark::End as u32 => AtNextMark::End,
            _ => AtNextMark::GoOn,
        };
    }
}

pub(crate) extern "C" fn interval(interval: *mut Interval, changed: *mut Changed, room: usize) -> usize {
    let sites = match hold() {
        Some(sites) => sites,
        None => return 0,
    };
    let (ended, log) = sites.figures.ended();
    // SAFETY: the caller has room for so many, and for the interval.
    unsafe {
        interval.write(ended);
        if room > 0 {
            changed.copy_from_nonoverlapping(log.as_ptr(), room.min(log.len()));
        }
    }
    log.len()
}
