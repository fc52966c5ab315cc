//! The executable's unwind table: for each program counter, where the caller's frame is. The tool
//! makes it ahead of time from `.eh_frame`, and the runner gives its path. A walk with it takes a
//! few nanoseconds per frame, where the unwinder takes a microsecond.
//!
//! The file is little endian and mapped as it is: a header of 64 bytes, then the addresses, sorted,
//! then a rule for each. A rule holds from its address up to the next one.

// Some of these run at each frame of each allocation: benches/stacks.rs measures them.
#![allow(clippy::inline_always)]

use std::os::raw::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::own_memory;

extern "C" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn lseek(descriptor: c_int, offset: i64, whence: c_int) -> i64;
    fn close(descriptor: c_int) -> c_int;
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: i64,
    ) -> *mut c_void;
}

const O_RDONLY: c_int = 0;
const O_CLOEXEC: c_int = 0o2_000_000;
const SEEK_END: c_int = 2;
const PROT_READ: c_int = 1;
const MAP_PRIVATE: c_int = 2;
const MAP_FAILED: usize = usize::MAX;

const MAGIC: [u8; 8] = *b"MPUNWND1";
const HEADER: usize = 64;

/// The table cannot express this row, and the unwinder must walk.
pub(crate) const UNKNOWN: u32 = 1 << 31;
/// No frame is described here.
const NOWHERE: u32 = u32::MAX;
/// The outermost function, which has no caller.
pub(crate) const END: u32 = u32::MAX - 1;

/// Where to find the caller: a number of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule(u32);

impl Rule {
    /// Whether this is a frame that the walk cannot pass.
    #[inline(always)]
    pub(crate) fn is_special(self) -> bool {
        self.0 & UNKNOWN != 0
    }

    pub(crate) fn is_end(self) -> bool {
        self.0 == END
    }

    fn is_nowhere(self) -> bool {
        self.0 == NOWHERE
    }

    /// Whether the frame address is counted from the stack pointer, and not from the frame pointer.
    #[inline(always)]
    pub(crate) fn is_by_stack_pointer(self) -> bool {
        self.0 & 1 == 0
    }

    /// The bytes from that pointer to the canonical frame address, which is the stack pointer before
    /// the call.
    #[inline(always)]
    pub(crate) fn offset(self) -> usize {
        (self.0 >> 1 & 0xffff) as usize * 8
    }

    /// How many bytes below the frame address the caller's frame pointer is saved; 0 if it is still
    /// in its register.
    #[inline(always)]
    pub(crate) fn frame_pointer_below(self) -> usize {
        (self.0 >> 17 & 0x3fff) as usize * 8
    }
}

#[derive(Clone, Copy)]
pub(crate) struct UnwindTable {
    /// The first address, in this process.
    begin: usize,
    length: usize,
    addresses: &'static [u32],
    rules: &'static [u32],
    /// The last rules looked up: an address in the upper half, its rule in the lower one. One word
    /// for both, so that threads can share it.
    cache: &'static [AtomicU64; CACHED],
    /// The same words, by the place on the stack where the walk found the address.
    by_slot: &'static [AtomicU64; CACHED_BY_SLOT],
}

const CACHED: usize = 1 << 13;
const CACHED_BY_SLOT: usize = 1 << 12;

impl UnwindTable {
    /// Maps the file. `path` ends with a zero byte; `bias` is what the loader added to the
    /// executable's addresses.
    pub(crate) fn map(path: *const c_char, bias: usize) -> Result<Self, &'static str> {
        let file = map_file(path)?;
        let word = |at: usize| {
            let bytes = file.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
            bytes.map_or(0, u64::from_le_bytes) as usize
        };
        let rows = word(8) & 0xffff_ffff;
        let (begin, end) = (word(16), word(24));
        if file.get(..8) != Some(&MAGIC) || rows == 0 || begin >= end {
            return Err("the unwind table has an unknown format");
        }
        if file.len() != HEADER + rows * 8 {
            return Err("the unwind table is not whole");
        }
        // SAFETY: both arrays lie in the mapping, which stays and which nobody changes. Its start
        // is that of a page, so each number is aligned.
        let (addresses, rules) = unsafe {
            let first = file.as_ptr().add(HEADER).cast::<u32>();
            (std::slice::from_raw_parts(first, rows), std::slice::from_raw_parts(first.add(rows), rows))
        };
        let caches = own_memory::zeroed((CACHED + CACHED_BY_SLOT) * 8);
        let caches = caches.ok_or("there is no memory for the unwind table's cache")?;
        // SAFETY: the memory is zeroed, aligned, large enough, and stays.
        let (cache, by_slot) = unsafe { (&*caches.cast(), &*caches.add(CACHED * 8).cast()) };
        Ok(Self { begin: bias.wrapping_add(begin), length: end - begin, addresses, rules, cache, by_slot })
    }

    /// The place of an address in the table, if the executable has it.
    #[inline(always)]
    pub(crate) fn place(&self, address: usize) -> Option<usize> {
        let place = address.wrapping_sub(self.begin);
        if place < self.length { Some(place) } else { None }
    }

    /// Whether the executable has the code before this address, but does not describe its frame, such as
    /// musl's start code. Here, libgcc's unwinder ends with this address, and LLVM's before it.
    #[cold]
    pub(crate) fn is_undescribed(&self, address: usize) -> bool {
        self.place(address.wrapping_sub(1)).map_or(false, |place| self.rule(place).is_nowhere())
    }

    /// The rule for a place.
    // A table spans at most 4 GiB.
    #[allow(clippy::cast_possible_truncation)]
    #[inline(always)]
    pub(crate) fn rule(&self, place: usize) -> Rule {
        let place = place as u32;
        let cached = &self.cache[(place.wrapping_mul(0x9e37_79b1) >> 19) as usize & (CACHED - 1)];
        rule_in(cached.load(Ordering::Relaxed), place).unwrap_or_else(|| self.look_up(place, cached))
    }

    /// The rule for a return address that stands below `slot` on the stack; as an error, one that the
    /// walk cannot pass.
    ///
    /// A slot mostly has the same address as in the last walk. So the processor goes on with its rule
    /// while it still reads and compares the address.
    #[allow(clippy::cast_possible_truncation)]
    #[inline(always)]
    pub(crate) fn rule_of_caller(&self, address: usize, slot: usize) -> Result<Rule, Rule> {
        let cached = &self.by_slot[(slot >> 3) & (CACHED_BY_SLOT - 1)];
        let word = cached.load(Ordering::Relaxed);
        // A return address is the instruction behind the call, maybe in the next function. One that
        // is outside of the executable has no place of 32 bits, or one that is never kept.
        if word >> 32 == address.wrapping_sub(self.begin + 1) as u64 {
            Ok(Rule(word as u32))
        } else {
            self.rule_of_new_caller(address, cached)
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    #[inline(never)]
    fn rule_of_new_caller(&self, address: usize, cached: &AtomicU64) -> Result<Rule, Rule> {
        let place = match self.place(address) {
            // An empty word stands for the place 0.
            Some(place) if place > 1 => place - 1,
            _ => return Err(Rule(NOWHERE)),
        };
        let rule = self.rule(place);
        if rule.is_special() || rule.offset() == 0 {
            return Err(rule);
        }
        cached.store(word_of(place as u32, rule.0), Ordering::Relaxed);
        Ok(rule)
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self, place: u32, cached: &AtomicU64) -> Rule {
        let after = self.addresses.partition_point(|&address| address <= place);
        let rule = if after == 0 { NOWHERE } else { self.rules[after - 1] };
        cached.store(word_of(place, rule), Ordering::Relaxed);
        Rule(rule)
    }
}

fn word_of(place: u32, rule: u32) -> u64 {
    u64::from(place) << 32 | u64::from(rule)
}

/// The rule of a cache's word, if it is for this place. An empty word stands for the place 0, so
/// that place is not cached.
#[allow(clippy::cast_possible_truncation)]
#[inline(always)]
fn rule_in(word: u64, place: u32) -> Option<Rule> {
    if (word >> 32) as u32 == place && place != 0 { Some(Rule(word as u32)) } else { None }
}

fn map_file(path: *const c_char) -> Result<&'static [u8], &'static str> {
    // SAFETY: the path is a C string. The descriptor is used only here.
    unsafe {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC);
        if descriptor < 0 {
            return Err("the unwind table cannot be opened");
        }
        let length = usize::try_from(lseek(descriptor, 0, SEEK_END)).unwrap_or(0);
        let mapped = mmap(std::ptr::null_mut(), length, PROT_READ, MAP_PRIVATE, descriptor, 0);
        close(descriptor);
        if length < HEADER || mapped as usize == MAP_FAILED {
            return Err("the unwind table cannot be mapped");
        }
        Ok(std::slice::from_raw_parts(mapped.cast::<u8>(), length))
    }
}
