//! Where the shim and the injection library meet in one process. Both crates contain this file.
//!
//! The CUDA driver loads the library that `CUDA_INJECTION64_PATH` names when a program initialises
//! it, before any allocation, and calls it. The shim is part of the executable, which exports no
//! symbols that the library could ask the loader for. So the library searches the writable data of
//! all loaded files for the 32 bytes below. The process ids must agree, because a program that the
//! test starts inherits the variable, but not the runner's others. There the library loads nothing
//! and subscribes to nothing.

use std::os::raw::c_char;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

#[cfg(doc)]
use crate::blocks::site_figures::AtNextMark;
use crate::blocks::site_figures::{Changed, Interval};
use crate::blocks::size_count::SizeCount;

/// The first and the second half. They are apart, so that only the structure itself has them side
/// by side.
const MAGIC: [[u8; 16]; 2] = [*b"cargo-memprof-gp", *b"u-rendezvous-v1\0"];

/// The figures of one device, or of page-locked host memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    /// The driver's ordinal of the device; [`HOST`] for page-locked host memory.
    pub(crate) ordinal: u32,
    /// Whether `uuid` is known.
    pub(crate) has_uuid: u32,
    pub(crate) uuid: [u8; 16],
    /// Bytes allocated now.
    pub(crate) live: u64,
    /// Most bytes allocated since the last reading.
    pub(crate) peak: u64,
    /// The part of the live bytes that is from memory pools, and the part that is managed.
    pub(crate) pooled: u64,
    pub(crate) managed: u64,
}

/// Stands for page-locked host memory in place of a device.
pub(crate) const HOST: u32 = u32::MAX;

/// Fills the array and returns how many it filled. If the interval ends here, the peaks begin anew.
pub(crate) type Read = extern "C" fn(figures: *mut Figures, room: usize, ends_interval: bool) -> usize;

/// Returns the site of the calling thread's stack.
pub(crate) type CurrentSite = extern "C" fn() -> u32;

/// With `at_next_mark`, an [`AtNextMark`], tells the next reading what it means for the intervals of
/// call stacks. With 0, copies those of the interval that ended last on a device: its own figures, and
/// those of up to `room` sites that changed. Returns how many sites changed.
pub(crate) type Sites = extern "C" fn(
    ordinal: u32,
    at_next_mark: u32,
    interval: *mut Interval,
    sites: *mut Changed,
    room: usize,
) -> usize;

/// Fills the array with the sizes of the live blocks of a device, ordered. Returns how many there are;
/// what has no room is left out.
pub(crate) type LiveSizes = extern "C" fn(ordinal: u32, sizes: *mut SizeCount, room: usize) -> usize;

/// Tells that something was allocated on a device for the first time.
pub(crate) type FirstUse = extern "C" fn();

/// Tells that the driver refused an allocation because memory ran out: device or [`HOST`], bytes
/// requested, bytes live there.
pub(crate) type OutOfMemory = extern "C" fn(ordinal: u32, requested: u64, live: u64);

/// Aligned, so that a search looks only at every 64th byte.
#[repr(C, align(64))]
pub(crate) struct Rendezvous {
    magic: [[u8; 16]; 2],
    /// The process that listens; 0 if none does.
    process: AtomicU32,
    _reserved: AtomicU32,
    /// Path of CUPTI, a C string.
    cupti: AtomicPtr<c_char>,
    /// A [`FirstUse`].
    first_use: AtomicPtr<()>,
    /// An [`OutOfMemory`].
    out_of_memory: AtomicPtr<()>,
    /// A [`CurrentSite`]; null if the run does not record call stacks.
    current_site: AtomicPtr<()>,
    /// The library's answer: a [`Sites`].
    sites: AtomicPtr<()>,
    /// The library's answer: a [`Read`], or the reason why there is none, a C string.
    read: AtomicPtr<()>,
    problem: AtomicPtr<c_char>,
    /// The library's answer: a [`LiveSizes`]. An older shim has padding here.
    live_sizes: AtomicPtr<()>,
    /// The library's answer: how many streams are being captured into graphs. An older shim has padding
    /// here.
    captures: AtomicUsize,
}

// The shim makes one and listens; the library finds it and answers. Each uses its half of this.
#[allow(dead_code)]
impl Rendezvous {
    pub(crate) const SIZE: usize = std::mem::size_of::<Rendezvous>();
    pub(crate) const ALIGNMENT: usize = std::mem::align_of::<Rendezvous>();

    pub(crate) const fn new() -> Self {
        Self {
            magic: MAGIC,
            process: AtomicU32::new(0),
            _reserved: AtomicU32::new(0),
            cupti: AtomicPtr::new(std::ptr::null_mut()),
            first_use: AtomicPtr::new(std::ptr::null_mut()),
            out_of_memory: AtomicPtr::new(std::ptr::null_mut()),
            current_site: AtomicPtr::new(std::ptr::null_mut()),
            sites: AtomicPtr::new(std::ptr::null_mut()),
            read: AtomicPtr::new(std::ptr::null_mut()),
            problem: AtomicPtr::new(std::ptr::null_mut()),
            live_sizes: AtomicPtr::new(std::ptr::null_mut()),
            captures: AtomicUsize::new(0),
        }
    }

    /// Begins to listen. The path ends with a zero byte.
    pub(crate) fn listen(&self, cupti: &'static [u8], first_use: FirstUse, out_of_memory: OutOfMemory) {
        self.cupti.store(cupti.as_ptr() as *mut c_char, Ordering::Relaxed);
        self.first_use.store(first_use as *mut (), Ordering::Relaxed);
        self.out_of_memory.store(out_of_memory as *mut (), Ordering::Relaxed);
        self.process.store(std::process::id(), Ordering::Release);
    }

    /// Asks for the sites of allocations. Called before [`Rendezvous::listen`].
    pub(crate) fn give_sites(&self, current_site: CurrentSite) {
        self.current_site.store(current_site as *mut (), Ordering::Relaxed);
    }

    /// The site of the calling thread's stack; `None` if nobody asks for sites.
    pub(crate) fn current_site(&self) -> Option<u32> {
        let current = self.current_site.load(Ordering::Relaxed);
        if current.is_null() {
            return None;
        }
        // SAFETY: `give_sites` stored a function of this type.
        let current = unsafe { std::mem::transmute::<*mut (), CurrentSite>(current) };
        Some(current())
    }

    pub(crate) fn answer_with_sites(&self, sites: Sites) {
        self.sites.store(sites as *mut (), Ordering::Release);
    }

    pub(crate) fn sites(&self) -> Option<Sites> {
        let sites = self.sites.load(Ordering::Acquire);
        if sites.is_null() {
            return None;
        }
        // SAFETY: `answer_with_sites` stored a function of this type, and its library is never
        // unloaded.
        Some(unsafe { std::mem::transmute::<*mut (), Sites>(sites) })
    }

    pub(crate) fn answer_with_live_sizes(&self, live_sizes: LiveSizes) {
        self.live_sizes.store(live_sizes as *mut (), Ordering::Release);
    }

    /// `None` from an older library.
    pub(crate) fn live_sizes(&self) -> Option<LiveSizes> {
        let sizes = self.live_sizes.load(Ordering::Acquire);
        if sizes.is_null() {
            return None;
        }
        // SAFETY: `answer_with_live_sizes` stored a function of this type, and its library is never
        // unloaded.
        Some(unsafe { std::mem::transmute::<*mut (), LiveSizes>(sizes) })
    }

    pub(crate) fn tell_captures(&self, count: usize) {
        self.captures.store(count, Ordering::Release);
    }

    /// False also if no library follows captures.
    pub(crate) fn is_capturing(&self) -> bool {
        self.captures.load(Ordering::Acquire) != 0
    }

    /// Whether the bytes here are a rendezvous at which this process listens. They may be anything.
    // The caller has aligned the address.
    #[allow(clippy::cast_ptr_alignment)]
    pub(crate) fn is_at(place: *const u8) -> bool {
        // SAFETY: the caller has found `SIZE` readable bytes here, aligned. They may change during
        // the reading, so each is read once, volatile.
        unsafe {
            let bytes = MAGIC.iter().flatten().enumerate();
            bytes.into_iter().all(|(index, &byte)| place.add(index).read_volatile() == byte)
                && (*place.cast::<Rendezvous>()).process.load(Ordering::Acquire) == std::process::id()
        }
    }

    pub(crate) fn cupti(&self) -> *const c_char {
        self.cupti.load(Ordering::Relaxed)
    }

    pub(crate) fn tell_first_use(&self) {
        let tell = self.first_use.load(Ordering::Relaxed);
        if !tell.is_null() {
            // SAFETY: `listen` stored a function of this type.
            let tell = unsafe { std::mem::transmute::<*mut (), FirstUse>(tell) };
            tell();
        }
    }

    pub(crate) fn tell_out_of_memory(&self, ordinal: u32, requested: u64, live: u64) {
        let tell = self.out_of_memory.load(Ordering::Relaxed);
        if !tell.is_null() {
            // SAFETY: `listen` stored a function of this type.
            let tell = unsafe { std::mem::transmute::<*mut (), OutOfMemory>(tell) };
            tell(ordinal, requested, live);
        }
    }

    pub(crate) fn answer(&self, read: Read) {
        self.read.store(read as *mut (), Ordering::Release);
    }

    /// The text ends with a zero byte and stays for the life of the process.
    pub(crate) fn answer_with_problem(&self, words: *const c_char) {
        self.problem.store(words as *mut c_char, Ordering::Release);
    }

    pub(crate) fn reader(&self) -> Option<Read> {
        let read = self.read.load(Ordering::Acquire);
        if read.is_null() {
            return None;
        }
        // SAFETY: `answer` stored a function of this type, and its library is never unloaded.
        Some(unsafe { std::mem::transmute::<*mut (), Read>(read) })
    }

    pub(crate) fn problem(&self) -> Option<&'static str> {
        let words = self.problem.load(Ordering::Acquire);
        if words.is_null() {
            return None;
        }
        // SAFETY: `answer_with_problem` stored a C string that stays.
        unsafe { std::ffi::CStr::from_ptr(words) }.to_str().ok()
    }
}
