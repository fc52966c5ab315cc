//! Who points to which block, at one moment of a run that is asked for it: the peak, or a checkpoint.
//!
//! The runner gives the number of allocations and deallocations until the peak. The thread of the last one
//! stops there. If the new block is a large part of all memory, it stops at its next call of the allocator:
//! only then the block's address is where the program keeps it. No other thread can make or free a block
//! meanwhile. Every aligned word of the live blocks, the statics, the thread-locals and the stacks that is an
//! address inside a block counts as a pointer to it.
//!
//! Blocks, pointers and places go to a file of their own; `judge::why::owners` reads it.

// Sizes and addresses are words of 64 bits.
#![allow(clippy::cast_possible_truncation)]

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::time::Instant;

use crate::blocks::block_table;
use crate::platform::first_variables::variable;
use crate::platform::loaded;
use crate::platform::process::is_own_process;
use crate::platform::untracked::{Untracked, kept, kept_value};
use crate::stacks::events;
use crate::stacks::pointers::{Moved, Pointers};
use crate::stacks::sites;
use crate::stacks::snapshot_file::SnapshotFile;
use crate::stacks::stack_walk::{self, Registers};
use crate::stacks::threads::{self, Thread};

/// The first word of the file, and the one in front of each part. The reader has the same.
const MAGIC: u64 = u64::from_le_bytes(*b"memprof1");
const BLOCKS: u64 = u64::from_le_bytes(*b"blocks..");
const PLACES: u64 = u64::from_le_bytes(*b"places..");
const FRAMES: u64 = u64::from_le_bytes(*b"frames..");
const THREADS: u64 = u64::from_le_bytes(*b"threads.");
const POINTERS: u64 = u64::from_le_bytes(*b"pointers");
const ROOTS: u64 = u64::from_le_bytes(*b"roots...");
const END: u64 = u64::from_le_bytes(*b"the end.");
/// Behind the last item of a part whose length is not known before.
const NO_MORE: u64 = u64::MAX;

/// What holds a pointer outside of the heap.
const STATIC: u64 = 0;
const THREAD_LOCAL: u64 = 1;
const FRAME: u64 = 2;
const STACK: u64 = 3;

/// A block that is a tenth of all memory, or more, is large.
const LARGE_PART: u64 = 10;

/// When to write, and where.
struct Wanted {
    path: &'static CStr,
    /// The peak's bytes. `None` if a checkpoint is asked for.
    peak: Option<u64>,
    occurrence: u64,
    label: &'static str,
}

/// Null if there is nothing to write, or nothing any more.
static WANTED: AtomicPtr<Wanted> = AtomicPtr::new(std::ptr::null_mut());

/// Whether there is something to write in this run, and whether it is written.
static STATE: AtomicU8 = AtomicU8::new(NOT_ASKED);

const NOT_ASKED: u8 = 0;
const ASKED: u8 = 1;
const WRITTEN: u8 = 2;

/// Whether this run is about the blocks of one moment, so that nobody asks where blocks end.
#[inline]
pub(crate) fn is_asked() -> bool {
    STATE.load(Ordering::Relaxed) != NOT_ASKED
}

/// Whether that moment is over, so that nobody asks who makes a block.
#[inline]
pub(crate) fn is_written() -> bool {
    STATE.load(Ordering::Relaxed) == WRITTEN
}

/// Reads what is asked for: a path, and `EVENTS BYTES OCCURRENCE LABEL`, with `-` for the first two if only
/// the checkpoint is meant.
pub(crate) fn set_up() {
    let texts = (variable(b"MEMPROF_OWNERS\0"), variable(b"MEMPROF_OWNERS_AT\0"));
    if let (Some(path), Some(at)) = texts {
        if let (Ok(path), Ok(at)) = (std::str::from_utf8(path), std::str::from_utf8(at)) {
            read(path, kept(format_args!("{at}")));
        }
    }
}

fn read(path: &str, at: &'static str) -> Option<()> {
    let mut words = at.splitn(4, ' ');
    let (events, bytes) = (words.next()?.parse().ok(), words.next()?.parse().ok());
    let (occurrence, label) = (words.next()?.parse().ok()?, words.next()?);
    let path = CStr::from_bytes_with_nul(kept(format_args!("{path}\0")).as_bytes()).ok()?;
    let wanted = Wanted { path, peak: events.and(bytes), occurrence, label };
    WANTED.store(kept_value(wanted) as *const Wanted as *mut Wanted, Ordering::Release);
    STATE.store(ASKED, Ordering::Relaxed);
    events.into_iter().for_each(events::stop_after);
    Some(())
}

/// The allocator is called, and has done nothing yet.
#[inline(always)]
#[allow(clippy::inline_always)] // At each call of the allocator.
pub(crate) fn before_call() {
    if events::is_any_stopped() {
        stop(Moved::NOTHING);
    }
}

/// The allocator has made a block of this size, and its caller does not have it yet.
#[inline(always)]
#[allow(clippy::inline_always)] // At each call of the allocator.
pub(crate) fn after_call(size: usize, moved: Moved) {
    if events::is_any_stopped() {
        stop_early(size, moved);
    }
}

#[cold]
#[inline(never)]
fn stop_early(size: usize, moved: Moved) {
    let peak = wanted().and_then(|wanted| wanted.peak).unwrap_or(0);
    if (size as u64) < peak / LARGE_PART && events::stops_here() {
        stop(moved);
    }
}

#[cold]
#[inline(never)]
fn stop(moved: Moved) {
    if !events::stops_here() {
        return;
    }
    events::go_on();
    let wanted = match wanted() {
        Some(wanted) => wanted,
        None => return,
    };
    // Threads may have another order in this run. The checkpoint is what is left then.
    let (live, peak) = match (events::live(), wanted.peak) {
        (Some(live), Some(peak)) => (live, peak),
        _ => return,
    };
    if live.abs_diff(peak) <= peak / 100 {
        take(wanted, moved);
    }
}

/// Writes if the checkpoint is the one that is asked for, or the peak was the last event before it.
pub(crate) fn after_checkpoint(label: &str, occurrence: u64, is_own: bool) {
    let wanted = match wanted() {
        Some(wanted) => wanted,
        None => return,
    };
    let is_meant = (label, occurrence) == (wanted.label, wanted.occurrence)
        && (is_own || !matches!(label, "start" | "done"));
    if is_meant || events::is_any_stopped() {
        events::go_on();
        take(wanted, Moved::NOTHING);
    }
}

fn wanted() -> Option<&'static Wanted> {
    // SAFETY: null, or from the reference in `read`, which stays.
    unsafe { WANTED.load(Ordering::Acquire).as_ref() }
}

/// The registers that a function must leave as they were, so that they may hold what the callers have.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(clippy::inline_always)] // The caller's registers.
fn registers() -> [usize; 6] {
    let mut registers = [0_usize; 6];
    // SAFETY: this writes the registers to the array, and nothing else.
    unsafe {
        std::arch::asm!(
            "mov [{0}], rbx", "mov [{0} + 8], rbp", "mov [{0} + 16], r12",
            "mov [{0} + 24], r13", "mov [{0} + 32], r14", "mov [{0} + 40], r15",
            in(reg) registers.as_mut_ptr(),
            options(nostack, preserves_flags)
        );
    }
    registers
}

#[cfg(not(target_arch = "x86_64"))]
fn registers() -> [usize; 6] {
    [0; 6]
}

#[cold]
#[inline(never)]
fn take(wanted: &'static Wanted, moved: Moved) {
    let (registers, start) = (registers(), stack_walk::here());
    WANTED.store(std::ptr::null_mut(), Ordering::Release);
    STATE.store(WRITTEN, Ordering::Relaxed);
    if is_own_process() {
        // A function of its own, so that what it keeps on the stack is not read.
        write(wanted, moved, registers, start);
    }
}

#[inline(never)]
fn write(wanted: &Wanted, moved: Moved, registers: [usize; 6], start: Registers) -> Option<()> {
    let begin = Instant::now();
    let live = events::live()?;
    let frozen = block_table::freeze()?;
    let mut file = SnapshotFile::create(wanted.path)?;
    let mut blocks = Untracked::new();
    frozen.copy(&mut blocks);
    let mut pointers = Pointers::new(blocks, moved);
    file.push_all(&[MAGIC, live, wanted.peak.unwrap_or(NO_MORE)]);
    file.push(BLOCKS);
    file.push(pointers.blocks().len() as u64);
    for block in pointers.blocks() {
        let of_harness = u64::from(block.site == sites::OF_HARNESS);
        let site = if of_harness == 1 { 0 } else { block.site };
        file.push_all(&[block.address as u64, block.size as u64, u64::from(site) | of_harness << 32]);
    }
    let roots = Roots::new(start);
    roots.write(&mut file);
    file.push(POINTERS);
    let mut is_whole = true;
    for from in 0..pointers.blocks().len() {
        let block = pointers.blocks()[from];
        let mut last = u32::MAX;
        // SAFETY: the table is frozen, so the block stays.
        unsafe {
            pointers.scan(block.address, block.address + block.size, |to, of| match of {
                Some(of) => file.push(of),
                None if to != last => {
                    last = to;
                    file.push((from as u64) << 32 | u64::from(to));
                }
                None => {}
            });
        }
        if file.is_full() {
            is_whole = false;
            break;
        }
    }
    file.push(NO_MORE);
    file.push(ROOTS);
    roots.scan(&mut pointers, registers, &mut file);
    file.push(NO_MORE);
    let nanoseconds = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    file.push_all(&[END, u64::from(is_whole), pointers.words, pointers.by_chance, nanoseconds]);
    file.finish();
    drop(frozen);
    Some(())
}

/// What may hold pointers outside of the heap.
struct Roots {
    data: Untracked<loaded::Data>,
    /// The calling thread's frames, the innermost first: an address of the code, and the frame's end.
    frames: Untracked<(usize, usize)>,
    threads: Untracked<Thread>,
    own: u64,
    /// Where the executable's thread-locals are, and the calling thread's pointer.
    locals: Option<(usize, usize)>,
    pointer: usize,
}

impl Roots {
    fn new(start: Registers) -> Self {
        let mut data = Untracked::new();
        loaded::add_data(&mut data);
        let mut frames = Untracked::new();
        let mut address = start.program_counter;
        // SAFETY: the caller's caller, whose registers these are, waits for this function.
        unsafe {
            sites::each_frame(start, |caller, end| {
                frames.push((address, end));
                address = caller;
            });
        }
        let locals = data.iter().find(|data| data.are_thread_locals).map(|data| (data.begin, data.end));
        let threads = threads::all(start.stack_pointer);
        Self { data, frames, threads, own: threads::own_number(), locals, pointer: threads::pointer() }
    }

    fn write(&self, file: &mut SnapshotFile) {
        file.push(PLACES);
        file.push(self.data.len() as u64);
        for data in self.data.iter() {
            let kind = if data.are_thread_locals { THREAD_LOCAL } else { STATIC };
            file.push_all(&[kind, data.bias as u64, data.begin as u64, data.end as u64]);
        }
        file.push(FRAMES);
        file.push(self.frames.len() as u64);
        for (address, end) in self.frames.iter() {
            file.push(*address as u64);
            file.push(*end as u64);
        }
        file.push(THREADS);
        file.push(self.threads.len() as u64);
        for thread in self.threads.iter() {
            let flags = u64::from(thread.number == self.own) | u64::from(thread.stack.is_none()) << 1;
            file.push_all(&[thread.number, flags, thread.name[0], thread.name[1]]);
        }
    }

    /// Writes where pointers to blocks are: what holds them, its number or address, the block, and how much of it
    /// is used.
    fn scan(&self, pointers: &mut Pointers, registers: [usize; 6], file: &mut SnapshotFile) {
        let mut root = |kind: u64, which: usize, place: usize, word: usize| {
            if let Some(block) = pointers.look(word) {
                file.push_all(&[kind, which as u64, u64::from(block)]);
                let words = if place == 0 { [0; 4] } else { threads::beside(place) };
                let beside = |at: isize| words.get((at + 1) as usize).copied().unwrap_or(0);
                // SAFETY: the table is frozen, so the block stays.
                unsafe { pointers.uses(block, word, beside, |of| file.push(of)) };
            }
        };
        for data in self.data.iter().filter(|data| !data.are_thread_locals) {
            threads::each_word(data.begin, data.end, true, |place, word| {
                root(STATIC, place, place, word);
            });
        }
        for (number, thread) in self.threads.iter().enumerate() {
            let is_own = thread.number == self.own;
            let mut frame = 0;
            let (begin, end) = thread.stack.unwrap_or((0, 0));
            let locals = match self.locals {
                // The same distance from the thread's pointer in each thread.
                Some((from, to)) if thread.pointer != 0 && self.pointer != 0 => {
                    let away = thread.pointer.wrapping_sub(self.pointer);
                    Some((from.wrapping_add(away), to.wrapping_add(away)))
                }
                Some(locals) if is_own => Some(locals),
                _ => None,
            };
            let end = locals.map_or(end, |(from, _)| if (begin..end).contains(&from) { from } else { end });
            threads::each_word(begin, end, is_own, |place, word| {
                while is_own && frame < self.frames.len() && place >= self.frames[frame].1 {
                    frame += 1;
                }
                if is_own && frame < self.frames.len() {
                    root(FRAME, frame, place, word);
                } else {
                    root(STACK, number, place, word);
                }
            });
            if let Some((from, to)) = locals {
                threads::each_word(from, to, is_own, |place, word| {
                    root(THREAD_LOCAL, place - from, place, word);
                });
            }
            if thread.pointer != 0 {
                threads::each_word(thread.pointer, thread.pointer + threads::THREAD, false, |_, word| {
                    root(THREAD_LOCAL, usize::MAX, 0, word);
                });
            }
        }
        for register in registers {
            root(FRAME, 0, 0, register);
        }
    }
}
