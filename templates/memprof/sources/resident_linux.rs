//! Linux: `/proc/self`, on descriptors that stay open.
//!
//! Writing `5` to `/proc/self/clear_refs` resets the high-water mark `VmHWM`, so it is the peak
//! since the last mark. Reading it from `status` takes 6 to 9 µs. `getrusage` takes 0.6 µs and has
//! the same figure, but only if that is larger than the size before `exec`: the kernel mixes in the
//! parent's size (`signal->maxrss`).
//!
//! The kernel keeps the resident counters per CPU, in batches of `max(32, 2 × CPUs)` pages
//! (`percpu_counter_batch`), for anonymous, file and shared pages each. The high-water mark comes
//! from the batches that were handed in. So it may lag by batch × CPUs × 3 pages, and the source
//! has that number of bytes for this machine. (Before Linux 6.2: up to 64 pages per thread.)

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use super::{Figures, Found, Parts};
use crate::platform::untracked::{Untracked, kept};
use crate::platform::{configuration, descriptor, resource_usage};

pub(super) struct Process {
    page_size: u64,
    statm: File,
    status: Option<File>,
    clear_refs: Option<File>,
    /// At or below this, `getrusage`'s figure may be from before `exec`.
    usable_above: u64,
    smaps_rollup: Option<File>,
    buffer: Untracked<u8>,
}

/// Long enough for `status` with hundreds of groups.
const BUFFER: usize = 16 * 1024;

pub(super) fn open(reset: bool) -> Result<Found, &'static str> {
    let statm = match open_high(OpenOptions::new().read(true), "/proc/self/statm") {
        Ok(file) => file,
        Err(error) => return Err(kept(format_args!("/proc/self/statm: {error}"))),
    };
    let mut buffer = Untracked::new();
    buffer.reserve(BUFFER);
    (0..BUFFER).for_each(|_| buffer.push(0));
    let mut process = Process {
        page_size: configuration::page_size(),
        statm,
        status: open_high(OpenOptions::new().read(true), "/proc/self/status").ok(),
        clear_refs: None,
        usable_above: u64::MAX,
        smaps_rollup: None,
        buffer,
    };
    if process.high_water_mark().is_none() {
        process.status = None;
    }
    if reset && process.status.is_some() {
        process.clear_refs = open_high(OpenOptions::new().write(true), "/proc/self/clear_refs")
            .ok()
            .filter(reset_high_water_mark);
    }
    // Both include what is resident now. If `getrusage` has more, that is from before `exec`.
    if let (Some(own), Some(mixed)) = (process.high_water_mark(), resource_usage::maximum_resident()) {
        process.usable_above = own.max(mixed);
    }
    let bound = process.bound() / 1024;
    let peak_source = match (&process.status, &process.clear_refs) {
        (Some(_), Some(_)) => kept(format_args!("VmHWM since the last checkpoint, within {bound} KiB")),
        (Some(_), None) => kept(format_args!("VmHWM since start, within {bound} KiB")),
        (None, _) => "the largest /proc/self/statm read at a checkpoint",
    };
    Ok(Found {
        process,
        resident_source: kept(format_args!("/proc/self/statm, within {bound} KiB")),
        peak_source,
    })
}

impl Process {
    pub(super) fn read(&mut self) -> Option<Figures> {
        let peak = self.peak();
        let resident = self.resident()?;
        if let Some(clear_refs) = &self.clear_refs {
            reset_high_water_mark(clear_refs);
        }
        Some(Figures { resident, peak: peak.or(if self.status.is_none() { Some(resident) } else { None }) })
    }

    /// How far the counters may lag behind, in bytes.
    fn bound(&self) -> u64 {
        let processors = configuration::processors().max(1);
        3 * processors * (2 * processors).max(32) * self.page_size
    }

    /// Resident bytes, from the second field of `statm`, which is in pages.
    fn resident(&mut self) -> Option<u64> {
        let text = read_at_start(&self.statm, self.buffer.as_mut())?;
        let pages = text.split(|&byte| byte == b' ').nth(1).and_then(number)?;
        Some(pages * self.page_size)
    }

    fn peak(&mut self) -> Option<u64> {
        match resource_usage::maximum_resident() {
            Some(maximum) if maximum > self.usable_above => Some(maximum),
            _ => self.high_water_mark(),
        }
    }

    fn high_water_mark(&mut self) -> Option<u64> {
        kibibytes(read_at_start(self.status.as_ref()?, self.buffer.as_mut())?, b"VmHWM:")
    }

    pub(super) fn open_parts(&mut self) -> Result<&'static str, &'static str> {
        if self.smaps_rollup.is_none() {
            self.smaps_rollup = match open_high(OpenOptions::new().read(true), "/proc/self/smaps_rollup") {
                Ok(file) => Some(file),
                Err(error) => return Err(kept(format_args!("/proc/self/smaps_rollup: {error}"))),
            };
        }
        Ok("/proc/self/smaps_rollup")
    }

    pub(super) fn read_parts(&mut self) -> Option<Parts> {
        let text = read_at_start(self.smaps_rollup.as_ref()?, self.buffer.as_mut())?;
        Some(Parts {
            proportional: kibibytes(text, b"Pss:")?,
            private: kibibytes(text, b"Private_Clean:")? + kibibytes(text, b"Private_Dirty:")?,
            shared: kibibytes(text, b"Shared_Clean:")? + kibibytes(text, b"Shared_Dirty:")?,
        })
    }
}

fn open_high(options: &OpenOptions, path: &str) -> std::io::Result<File> {
    options.open(path).map(descriptor::out_of_the_way)
}

/// Returns whether it was reset. The kernel may be built without this, and a sandbox may forbid it.
fn reset_high_water_mark(mut clear_refs: &File) -> bool {
    clear_refs.write_all(b"5").is_ok()
}

fn read_at_start<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = file.read_at(buffer, 0).ok()?;
    Some(&buffer[..length])
}

/// The figure of a line `Name:   1234 kB`, in bytes.
fn kibibytes(text: &[u8], name: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(name))?;
    let digits =
        line[name.len()..].split(|&byte| byte == b' ' || byte == b'\t').find(|part| !part.is_empty())?;
    Some(number(digits)? * 1024)
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
