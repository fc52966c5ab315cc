//! How many bytes of the executable and its libraries are in memory: their code and constants, from
//! `/proc/self/pagemap`. It has 8 bytes for each page, whose highest bit says whether the page is mapped.
//!
//! For a backtrace, std maps the executable once more, to read its debug information. How many of these pages are in
//! memory depends on the page cache, too: 158 or 176 MiB in a test of axum. They are looked for if the process has more
//! pages of files than the loader's.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, Values};
use crate::platform::configuration;
use crate::platform::descriptor;
use crate::platform::loaded;
use crate::platform::mappings::{self, Mapping};
use crate::platform::untracked::Untracked;

/// The bytes of an entry.
const ENTRY: usize = 8;
/// Entries that are read at once.
const AT_ONCE: usize = 2048;

/// A process reads no more entries, which takes about 15 ms.
const MOST: usize = 1 << 20;

/// From so many entries on, such as with CUDA's libraries, the pages are counted again only if the process's number of
/// file pages has changed. The kernel keeps that number per CPU, in batches (`resident_linux.rs`), so it may miss a change
/// of fewer pages.
const LARGE: usize = 1 << 14;

/// With fewer pages of files besides those that the loader mapped, the executable is not looked for among them.
const FEW: u64 = 256;

pub(crate) struct Program {
    pagemap: File,
    statm: Option<File>,
    page_size: usize,
    buffer: Untracked<u8>,
    index: Index,
    /// The entries that were read so far.
    spent: usize,
    last: Option<Count>,
}

/// A count of many entries.
struct Count {
    /// The file pages of the process before it.
    file_pages: u64,
    bytes: Option<u64>,
}

impl Program {
    /// `None` outside a run, or if the kernel does not let the process see its pages.
    pub(crate) fn open(environment: &Environment, catalogue: &mut Catalogue) -> Option<Self> {
        if !environment.in_a_run() {
            return None;
        }
        let pagemap = OpenOptions::new().read(true).open("/proc/self/pagemap").ok()?;
        let page_size = usize::try_from(configuration::page_size()).ok().filter(|size| *size > 0)?;
        let mut buffer = Untracked::new();
        buffer.reserve(AT_ONCE * ENTRY);
        (0..AT_ONCE * ENTRY).for_each(|_| buffer.push(0));
        let index = catalogue.add("cpu.program", "/proc/self/pagemap", Kind::Level);
        let pagemap = descriptor::out_of_the_way(pagemap);
        let statm = OpenOptions::new().read(true).open("/proc/self/statm");
        let statm = statm.ok().map(descriptor::out_of_the_way);
        Some(Self { pagemap, statm, page_size, buffer, index, spent: 0, last: None })
    }

    pub(crate) fn read(&mut self, values: &mut Values) {
        if self.spent >= MOST {
            return;
        }
        let file_pages = self.file_pages();
        let bytes = match &self.last {
            Some(last) if file_pages == Some(last.file_pages) => last.bytes,
            _ => self.count(file_pages),
        };
        values.set(self.index, bytes);
    }

    /// Why the metric has no figure any more, if that is no failure.
    pub(crate) fn why_lost(&self, index: Index) -> Option<&'static str> {
        let is_spent = index == self.index && self.spent >= MOST;
        if is_spent { Some("this process has read a million entries of the program's pages") } else { None }
    }

    /// Returns the pages of files that the process has in memory: the third number of `statm`.
    fn file_pages(&mut self) -> Option<u64> {
        let buffer = self.buffer.as_mut();
        let length = self.statm.as_ref()?.read_at(buffer, 0).ok()?;
        let digits = buffer[..length].split(|&byte| byte == b' ').nth(2)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Returns the bytes that are mapped now.
    fn count(&mut self, file_pages: Option<u64>) -> Option<u64> {
        let (pagemap, page_size, buffer) = (&self.pagemap, self.page_size, self.buffer.as_mut());
        let (mut pages, mut spent) = (Some(0), 0);
        let mut add = |begin: usize, end: usize| {
            let (begin, end) = (begin / page_size, (end + page_size - 1) / page_size);
            let part = mapped(pagemap, begin, end, buffer);
            pages = pages.and_then(|pages| Some(pages + part?));
            spent += end - begin;
            pages
        };
        let mut by_loader = None;
        loaded::each_constant_part(&mut |begin, end| by_loader = add(begin, end));
        if file_pages > by_loader.map(|pages| pages + FEW) {
            each_mapping_besides(&mut |begin, end| {
                add(begin, end);
            });
        }
        self.spent += spent;
        let bytes = pages.map(|pages| pages * page_size as u64);
        let is_large = spent >= LARGE;
        self.last = file_pages.filter(|_| is_large).map(|file_pages| Count { file_pages, bytes });
        bytes
    }
}

/// Calls this with the addresses of each mapping of the executable that is not the loader's and cannot be written.
fn each_mapping_besides(work: &mut dyn FnMut(usize, usize)) {
    let (begin, end) = loaded::executable_ends();
    let maps = mappings::whole(b"/proc/self/maps\0");
    let file = match mappings::of(&maps).find(|mapping| mapping.has(begin)) {
        Some(mapping) => mapping.file,
        None => return,
    };
    let is_besides = |mapping: &Mapping<'_>| {
        mapping.file == file
            && !(begin..end).contains(&mapping.begin)
            && mapping.permissions.starts_with(b"r-")
    };
    mappings::of(&maps).filter(is_besides).for_each(|mapping| work(mapping.begin, mapping.end));
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
