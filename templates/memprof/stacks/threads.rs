//! Where the stacks and the thread-locals of this process's threads are, and a copy of their words. Other
//! threads may end meanwhile, so the kernel copies (`process_vm_readv`), and refuses what is gone. If a sandbox
//! does not allow that, only what stays is read.

// Addresses, and lengths that the system returned.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

use std::os::raw::{c_int, c_ulong, c_void};
use std::time::Duration;

use crate::platform::mappings::{self, number, whole};
use crate::platform::numbered_entries;
use crate::platform::untracked::{Text, Untracked};

extern "C" {
    fn getpid() -> c_int;
    fn process_vm_readv(
        process: c_int,
        into: *const Piece,
        into_count: c_ulong,
        from: *const Piece,
        from_count: c_ulong,
        flags: c_ulong,
    ) -> isize;
}

/// `struct iovec`.
#[repr(C)]
struct Piece {
    start: *mut c_void,
    length: usize,
}

const WORD: usize = std::mem::size_of::<usize>();
/// What is copied at once.
const COPIED: usize = 1 << 16;
/// Most of a stack that is read: 64 MiB.
const MOST_OF_STACK: usize = 64 << 20;
/// The thread's own structure in the C library, behind its thread-locals: glibc's `struct pthread`.
pub(crate) const THREAD: usize = 2304;

/// A thread of this process.
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    pub(crate) number: u64,
    /// The kernel's name, with zero bytes behind it.
    pub(crate) name: [u64; 2],
    /// From the stack pointer to the end of the stack. `None` if it ran, so that its stack pointer is not
    /// known.
    pub(crate) stack: Option<(usize, usize)>,
    /// The thread pointer, behind which is the thread's own structure; 0 if it is not known.
    pub(crate) pointer: usize,
}

/// The calling thread's pointer.
#[cfg(target_arch = "x86_64")]
pub(crate) fn pointer() -> usize {
    let pointer: usize;
    // SAFETY: the C library keeps the pointer's own value there.
    unsafe {
        std::arch::asm!("mov {0}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// On other processors, the thread pointer is not at the end of the thread's locals.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn pointer() -> usize {
    0
}

/// All threads of this process. The calling one's stack begins at this address.
pub(crate) fn all(own_stack: usize) -> Untracked<Thread> {
    let mut threads = Untracked::new();
    let maps = whole(b"/proc/self/maps\0");
    let own = own_number();
    numbered_entries::each("/proc/self/task", |name| {
        if let Some(number) = number(name.as_bytes(), 10) {
            let of_other = || if can_copy() { stack_pointer(number) } else { None };
            let stack = if number == own { Some(own_stack) } else { of_other() };
            threads.push(of(number, stack, &maps, number == own));
        }
    });
    threads
}

/// The kernel's number of the calling thread.
pub(crate) fn own_number() -> u64 {
    // `/proc/thread-self` needs a link to be read; this file begins with the number.
    let text = whole(b"/proc/thread-self/stat\0");
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(0);
    number(&text[..end], 10).unwrap_or(0)
}

fn of(number: u64, stack: Option<usize>, maps: &[u8], is_own: bool) -> Thread {
    let mut thread = Thread { number, name: name(number), stack: None, pointer: 0 };
    let (begin, end) = match stack.and_then(|stack| Some((stack, end_of_mapping(maps, stack)?))) {
        Some(found) => found,
        None => return thread,
    };
    let end = end.min(begin.saturating_add(MOST_OF_STACK));
    thread.pointer = if is_own { pointer() } else { find_pointer(begin, end) };
    let has_pointer = (begin..end).contains(&thread.pointer);
    thread.stack = Some((begin, if has_pointer { thread.pointer } else { end }));
    thread
}

/// The thread pointer in a stack's mapping: glibc keeps its own value there, twice.
fn find_pointer(begin: usize, end: usize) -> usize {
    let (mut found, mut before) = (0, [0; 2]);
    if pointer() != 0 {
        each_word(begin, end, false, |place, word| {
            if word == place.wrapping_sub(2 * WORD) && before[0] == word && found == 0 {
                found = word;
            }
            before = [before[1], word];
        });
    }
    found
}

/// Where a blocked thread's stack begins.
fn stack_pointer(number: u64) -> Option<usize> {
    // A running thread may be about to block: the allocator lets it wait.
    for _ in 0..20 {
        let path = Text::format(format_args!("/proc/self/task/{number}/syscall\0"));
        let text = whole(path.as_str().as_bytes());
        let mut words = text.split(|&byte| byte == b' ' || byte == b'\n').filter(|word| !word.is_empty());
        let first = words.next()?;
        if first != b"running" {
            // The last two are the stack pointer and the program counter.
            let mut last = [None; 2];
            words.for_each(|word| last = [last[1], Some(word)]);
            return mappings::number(last[0]?.strip_prefix(b"0x")?, 16).map(|pointer| pointer as usize);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    None
}

fn name(number: u64) -> [u64; 2] {
    let path = Text::format(format_args!("/proc/self/task/{number}/comm\0"));
    let text = whole(path.as_str().as_bytes());
    let mut name = [0; 16];
    for (place, &byte) in name.iter_mut().zip(text.iter().take_while(|&&byte| byte != b'\n')) {
        *place = byte;
    }
    let mut words = [0; 2];
    for (word, bytes) in words.iter_mut().zip(name.chunks(8)) {
        *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    words
}

/// The end of the mapping around an address, if it can be written.
fn end_of_mapping(maps: &[u8], address: usize) -> Option<usize> {
    let around = mappings::of(maps).find(|mapping| mapping.has(address))?;
    if around.permissions.starts_with(b"rw") { Some(around.end) } else { None }
}

/// Copies at most so many bytes. Returns how many words were copied.
fn copy(from: usize, length: usize, into: *mut usize) -> usize {
    let into = Piece { start: into.cast(), length };
    let from = Piece { start: from as *mut c_void, length };
    // SAFETY: the kernel writes at most `length` bytes, for which the caller has room.
    let copied = unsafe { process_vm_readv(getpid(), &into, 1, &from, 1, 0) };
    if copied > 0 { copied as usize / WORD } else { 0 }
}

/// Whether the kernel copies memory of this process.
fn can_copy() -> bool {
    let (from, mut into) = (1_usize, 0);
    copy(&from as *const usize as usize, WORD, &mut into) == 1
}

/// The word before a place, the one there, and two behind it; zeros if they cannot be copied.
pub(crate) fn beside(place: usize) -> [usize; 4] {
    let mut words = [0; 4];
    if copy(place - WORD, 4 * WORD, words.as_mut_ptr()) == words.len() { words } else { [0; 4] }
}

/// Calls `each` with the words of this memory, as far as it can be read, and their places. `stays` says that it
/// can be read in any case: statics, and what the calling thread has.
pub(crate) fn each_word(begin: usize, end: usize, stays: bool, mut each: impl FnMut(usize, usize)) {
    let mut copies: Untracked<usize> = Untracked::new();
    copies.reserve(COPIED / WORD);
    (0..COPIED / WORD).for_each(|_| copies.push(0));
    let mut place = (begin + WORD - 1) & !(WORD - 1);
    if stays && !can_copy() {
        while place + WORD <= end {
            // SAFETY: the caller says so. Volatile: another thread may write here.
            each(place, unsafe { std::ptr::read_volatile(place as *const usize) });
            place += WORD;
        }
    }
    while place + WORD <= end {
        let length = COPIED.min((end - place) & !(WORD - 1));
        let words = copy(place, length, copies.as_mut().as_mut_ptr());
        if words == 0 {
            return;
        }
        for &word in &copies[..words] {
            each(place, word);
            place += WORD;
        }
    }
}
