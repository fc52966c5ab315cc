//! How many bytes of the executable and its libraries are in memory: their code and constants, from
//! `/proc/self/pagemap`. It has 8 bytes for each page, whose highest bit says whether the page is mapped.

use std::fs::{File, OpenOptions};
use std::os::raw::{c_int, c_long};
use std::os::unix::fs::FileExt;

use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, Metric, Values};
use crate::platform::descriptor;
use crate::platform::loaded;
use crate::platform::untracked::Untracked;

extern "C" {
    fn sysconf(name: c_int) -> c_long;
}

const _SC_PAGESIZE: c_int = 30;

/// The bytes of an entry.
const ENTRY: usize = 8;
/// Entries that are read at once.
const AT_ONCE: usize = 2048;

/// A process reads no more entries, which takes about 15 ms. So the figure ends at the same checkpoint in each run.
const MOST: usize = 1 << 20;

pub(crate) struct Program {
    pagemap: File,
    page_size: usize,
    buffer: Untracked<u8>,
    index: Index,
    /// The entries that were read so far.
    spent: usize,
}

impl Program {
    /// `None` outside a run, or if the kernel does not let the process see its pages.
    pub(crate) fn open(environment: &Environment, catalogue: &mut Catalogue) -> Option<Self> {
        if !environment.in_a_run() {
            return None;
        }
        let pagemap = OpenOptions::new().read(true).open("/proc/self/pagemap").ok()?;
        let page_size = page_size()?;
        let mut buffer = Untracked::new();
        buffer.reserve(AT_ONCE * ENTRY);
        (0..AT_ONCE * ENTRY).for_each(|_| buffer.push(0));
        let index = catalogue.add_metric(Metric {
            name: "cpu.program",
            source: "/proc/self/pagemap",
            kind: Kind::Level,
            lost: "this process has read a million entries of the program's pages",
            is_zero_before: true,
            base: 0,
        });
        let pagemap = descriptor::out_of_the_way(pagemap);
        Some(Self { pagemap, page_size, buffer, index, spent: 0 })
    }

    pub(crate) fn read(&mut self, values: &mut Values) {
        if self.spent < MOST {
            values.set(self.index, self.bytes());
        }
    }

    /// Returns the bytes that are mapped now.
    fn bytes(&mut self) -> Option<u64> {
        let (pagemap, page_size, buffer) = (&self.pagemap, self.page_size, self.buffer.as_mut());
        let (mut pages, mut spent) = (Some(0), 0);
        loaded::each_constant_part(&mut |begin, end| {
            let (begin, end) = (begin / page_size, (end + page_size - 1) / page_size);
            let part = mapped(pagemap, begin, end, buffer);
            pages = pages.and_then(|pages| Some(pages + part?));
            spent += end - begin;
        });
        self.spent += spent;
        Some(pages? * page_size as u64)
    }
}

fn page_size() -> Option<usize> {
    // SAFETY: it takes a number and returns one.
    let size = unsafe { sysconf(_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| *size > 0)
}

/// Returns how many of these pages are mapped.
fn mapped(pagemap: &File, begin: usize, end: usize, buffer: &mut [u8]) -> Option<u64> {
    let (mut at, mut count) = (begin, 0);
    while at < end {
        let wanted = (end - at).min(AT_ONCE) * ENTRY;
        let length = pagemap.read_at(&mut buffer[..wanted], (at * ENTRY) as u64).ok()?;
        let entries = &buffer[..length - length % ENTRY];
        if entries.is_empty() {
            return None;
        }
        // The entry is a number in the processor's byte order.
        let highest = if cfg!(target_endian = "little") { ENTRY - 1 } else { 0 };
        count += entries.iter().skip(highest).step_by(ENTRY).filter(|byte| *byte & 0x80 != 0).count() as u64;
        at += entries.len() / ENTRY;
    }
    Some(count)
}
