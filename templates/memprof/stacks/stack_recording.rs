//! Records the call stack of each allocation, in a run that asks for it. Other runs pay nothing:
//! here, no thread claims a slot of the tally, and the live bytes never count out at once. So every
//! call takes the allocator's rare path, and only that one looks here.
//!
//! The site of a block stands in 16 bytes before it. Sizes are the requested ones, so these bytes
//! are in no figure. A program may free Rust's memory with C's `free`, or ask the C library for a
//! block's size. The runner then asks for a table of blocks instead.

// Some of these run at each allocation: benches/stacks.rs measures them.
#![allow(clippy::cast_possible_truncation, clippy::inline_always)]
// Sites have sizes.
#![allow(clippy::similar_names)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::blocks::block_table;
use crate::blocks::harness;
use crate::blocks::live::Epoch;
use crate::blocks::live_sizes;
use crate::blocks::owner::{self, Owner};
use crate::blocks::site_figures::Change;
use crate::blocks::tally::Totals;
use crate::platform::first_variables::variable;
use crate::platform::loaded;
use crate::platform::own_memory;
use crate::stacks::allocating_thread;
use crate::stacks::events;
use crate::stacks::pointers::Moved;
use crate::stacks::sites;
use crate::stacks::snapshot;
use crate::stacks::unwind_table::UnwindTable;

/// How call stacks are recorded in this process.
static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

const UNDECIDED: u8 = 0;
const DECIDING: u8 = 1;
const OFF: u8 = 2;
const HEADERS: u8 = 3;
const TABLE: u8 = 4;
/// As `HEADERS` and `TABLE`, in a forked child, which records nothing.
const HEADERS_IN_CHILD: u8 = 5;
const TABLE_IN_CHILD: u8 = 6;

/// One allocation of so many bytes is recorded on average; 0 if all are.
static SAMPLE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The bytes until the thread's next sample, and the state of its random numbers.
    static NEXT_SAMPLE: Cell<(i64, u64)> = const { Cell::new((0, 0)) };
}

/// Why the unwinder walks and not the table: a number of [`REASONS`].
static REASON: AtomicU8 = AtomicU8::new(0);

const REASONS: [&str; 8] = [
    "",
    "the runner gave no unwind table",
    "the unwind table cannot be opened",
    "the unwind table cannot be mapped",
    "the unwind table has an unknown format",
    "the unwind table is not whole",
    "there is no memory for the unwind table's cache",
    "the unwind table and the unwinder disagree about a known stack",
];

extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// How the log describes the recording.
pub(crate) struct Description {
    pub(crate) blocks: &'static str,
    pub(crate) walker: &'static str,
    /// One allocation of so many bytes is recorded on average.
    pub(crate) sample: Option<u64>,
    /// Why the table does not walk.
    pub(crate) reason: Option<&'static str>,
}

/// What is recorded; `None` if nothing is.
pub(crate) fn description() -> Option<Description> {
    let blocks = match mode() {
        HEADERS => "headers",
        TABLE => "table",
        _ => return None,
    };
    let reason = REASONS[REASON.load(Ordering::Relaxed) as usize];
    let (walker, reason) = if reason.is_empty() { ("table", None) } else { ("unwinder", Some(reason)) };
    let sample = Some(SAMPLE.load(Ordering::Relaxed)).filter(|&bytes| bytes != 0);
    Some(Description { blocks, walker, sample, reason })
}

/// Whether this process records call stacks.
#[inline]
pub(crate) fn are_recorded() -> bool {
    matches!(mode(), HEADERS | TABLE)
}

/// The figures of a run that records call stacks, from its own counts.
pub(crate) fn mark() -> Option<(Epoch, Totals)> {
    events::mark()
}

/// A checkpoint was logged. `is_own` if the shim made it, and not the test.
pub(crate) fn after_checkpoint(label: &str, occurrence: u64, is_own: bool) {
    if mode() == TABLE {
        snapshot::after_checkpoint(label, occurrence, is_own);
    }
}

/// The site of an allocation on a GPU. The injection library calls this from CUPTI's callback.
pub(crate) extern "C" fn current_site_of_gpu() -> u32 {
    if are_recorded() { sites::current() } else { sites::NOT_ATTRIBUTED }
}

/// Whether the allocator's calls must come here. The first allocation decides, so that no block
/// exists before.
#[inline(always)]
pub(crate) fn are_in_use() -> bool {
    mode() > OFF
}

#[inline(always)]
fn mode() -> u8 {
    match MODE.load(Ordering::Acquire) {
        UNDECIDED | DECIDING => decide(),
        mode => mode,
    }
}

#[cold]
#[inline(never)]
fn decide() -> u8 {
    let first = MODE.compare_exchange(UNDECIDED, DECIDING, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        while MODE.load(Ordering::Acquire) == DECIDING {
            std::thread::yield_now();
        }
        return MODE.load(Ordering::Acquire);
    }
    let wanted = match (variable(b"MEMPROF_LOG\0"), variable(b"MEMPROF_STACKS\0")) {
        // Headers would make the blocks of `malloc` larger than in other runs.
        (Some(_), Some(b"headers")) if own_memory::are_used() => TABLE,
        (Some(_), Some(b"headers")) => HEADERS,
        (Some(_), Some(b"table")) => TABLE,
        _ => OFF,
    };
    let mode = if wanted != OFF && set_up().is_ok() { wanted } else { OFF };
    MODE.store(mode, Ordering::Release);
    mode
}

fn set_up() -> Result<(), &'static str> {
    extern "C" fn in_child() {
        let mode = MODE.load(Ordering::Relaxed);
        MODE.store(if mode == HEADERS { HEADERS_IN_CHILD } else { TABLE_IN_CHILD }, Ordering::Relaxed);
    }
    events::set_up()?;
    let sample = variable(b"MEMPROF_STACKS_SAMPLE\0").and_then(|text| std::str::from_utf8(text).ok());
    let sample = sample.and_then(|text| text.parse().ok()).unwrap_or(0);
    SAMPLE.store(sample, Ordering::Relaxed);
    events::set_sample(sample);
    let table = match variable(b"MEMPROF_UNWIND_TABLE\0") {
        Some(path) => UnwindTable::map(path.as_ptr().cast(), loaded::executable_bias()),
        None => Err(REASONS[1]),
    };
    let table = match table {
        Ok(table) if sites::walks_agree(&table) => Some(table),
        Ok(_) => without_table(REASONS[REASONS.len() - 1]),
        Err(reason) => without_table(reason),
    };
    sites::set_up(table)?;
    allocating_thread::set_up();
    snapshot::set_up();
    // SAFETY: the function only changes a static, and it is never unloaded.
    unsafe { pthread_atfork(None, None, Some(in_child)) };
    Ok(())
}

fn without_table(reason: &str) -> Option<UnwindTable> {
    let number = REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len() - 1);
    REASON.store(number as u8, Ordering::Relaxed);
    None
}

/// What stands before a block.
#[repr(C)]
struct Header {
    size: usize,
    site: u32,
    /// Depends on the block's address, so that a block without a header is known.
    check: u32,
}

const HEADER: usize = std::mem::size_of::<Header>();

fn check_of(block: *mut u8) -> u32 {
    ((block as usize as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
}

/// The bytes before a block of this alignment.
#[inline(always)]
fn room(align: usize) -> usize {
    align.max(HEADER)
}

/// The inner allocator's layout for a block with a header.
#[inline(always)]
fn with_room(size: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(room(align))?, align.max(HEADER)).ok()
}

/// # Safety
/// As for [`GlobalAlloc::alloc`], and [`are_in_use`] returned true.
pub(crate) unsafe fn alloc<A: GlobalAlloc>(inner: &A, size: usize, align: usize, is_zeroed: bool) -> *mut u8 {
    let ask = |layout| if is_zeroed { inner.alloc_zeroed(layout) } else { inner.alloc(layout) };
    match mode() {
        HEADERS | HEADERS_IN_CHILD => {
            let layout = match with_room(size, align) {
                Some(layout) => layout,
                None => return std::ptr::null_mut(),
            };
            let block = ask(layout);
            if block.is_null() {
                return block;
            }
            let block = block.add(room(align));
            put_header(block, size, new_block(size));
            block
        }
        _ => {
            snapshot::before_call();
            let block = ask(Layout::from_size_align_unchecked(size, align));
            if !block.is_null() && mode() == TABLE {
                let site = site_of_new(size);
                block_table::insert(block as usize, site, size);
                record_new(site, size);
                snapshot::after_call(size, Moved::NOTHING);
            }
            block
        }
    }
}

/// # Safety
/// As for [`GlobalAlloc::dealloc`], and [`are_in_use`] returned true.
pub(crate) unsafe fn dealloc<A: GlobalAlloc>(inner: &A, block: *mut u8, size: usize, align: usize) {
    match mode() {
        HEADERS | HEADERS_IN_CHILD => match take_header(block) {
            Some((site, size)) => {
                record_gone(site, size);
                let align = align.max(HEADER);
                let layout = Layout::from_size_align_unchecked(size + room(align), align);
                inner.dealloc(block.sub(room(align)), layout);
            }
            None => inner.dealloc(block, Layout::from_size_align_unchecked(size, align)),
        },
        _ => {
            if mode() == TABLE {
                snapshot::before_call();
                if let Some((site, size)) = block_table::remove(block as usize) {
                    record_gone(site, size);
                }
            }
            inner.dealloc(block, Layout::from_size_align_unchecked(size, align));
        }
    }
}

/// # Safety
/// As for [`GlobalAlloc::realloc`], and [`are_in_use`] returned true.
pub(crate) unsafe fn realloc<A: GlobalAlloc>(
    inner: &A,
    block: *mut u8,
    layout: Layout,
    new_size: usize,
) -> *mut u8 {
    match mode() {
        HEADERS | HEADERS_IN_CHILD => realloc_with_header(inner, block, layout, new_size),
        TABLE => {
            snapshot::before_call();
            // Removed first: another thread may get the old address while this one still reallocates.
            let old = block_table::remove(block as usize);
            let moved = inner.realloc(block, layout, new_size);
            let site = site_of_new(new_size);
            if moved.is_null() {
                if let Some((site, size)) = old {
                    block_table::insert(block as usize, site, size);
                }
            } else {
                block_table::insert(moved as usize, record_moved(old, site, new_size), new_size);
                let size = old.map_or(0, |(_, size)| size);
                snapshot::after_call(new_size, Moved { from: block as usize, size, to: moved as usize });
            }
            moved
        }
        _ => inner.realloc(block, layout, new_size),
    }
}

#[inline(always)]
unsafe fn realloc_with_header<A: GlobalAlloc>(
    inner: &A,
    block: *mut u8,
    layout: Layout,
    new_size: usize,
) -> *mut u8 {
    let old = match read_header(block) {
        Some(old) => old,
        None => return inner.realloc(block, layout, new_size),
    };
    let align = layout.align();
    let new_total = match with_room(new_size, align) {
        Some(layout) => layout.size(),
        None => return std::ptr::null_mut(),
    };
    let whole = Layout::from_size_align_unchecked(old.1 + room(align), align.max(HEADER));
    let moved = inner.realloc(block.sub(room(align)), whole, new_total);
    if moved.is_null() {
        return moved;
    }
    let moved = moved.add(room(align));
    let site = if are_recorded() { site_of_new(new_size) } else { sites::NOT_ATTRIBUTED };
    let owner = if are_recorded() { record_moved(Some(old), site, new_size) } else { old.0 };
    put_header(moved, new_size, owner);
    moved
}

/// The site of a new block of this size; with a sample, mostly none.
#[inline(always)]
fn site_of_new(size: usize) -> u32 {
    if owner::owner_of_new() != Owner::Test {
        return sites::OF_HARNESS;
    }
    if snapshot::is_written() {
        return sites::NOT_ATTRIBUTED;
    }
    let sample = SAMPLE.load(Ordering::Relaxed);
    if sample == 0 || is_sampled(size, sample) { sites::current() } else { sites::NOT_ATTRIBUTED }
}

/// Whether a sample falls into these bytes. The distances of samples are exponentially distributed,
/// so each byte has the same chance.
#[allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]
#[cold]
fn is_sampled(size: usize, sample: u64) -> bool {
    // In a thread's last destructors, its storage may be gone.
    let next = NEXT_SAMPLE.try_with(|next| {
        let (mut left, mut random) = next.get();
        if random == 0 {
            // Threads differ, and runs do not need to repeat.
            random = (next as *const Cell<(i64, u64)> as u64) | 1;
            left = distance(&mut random, sample);
        }
        left -= size as i64;
        let is_sampled = left < 0;
        if is_sampled {
            left = distance(&mut random, sample);
        }
        next.set((left, random));
        is_sampled
    });
    next.unwrap_or(false)
}

/// The bytes to the next sample.
#[allow(clippy::cast_precision_loss)]
fn distance(random: &mut u64, sample: u64) -> i64 {
    // xorshift64*, of which 53 bits make a number above 0 and up to 1.
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    let bits = random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
    let uniform = (bits + 1) as f64 / (1_u64 << 53) as f64;
    (-uniform.ln() * sample as f64) as i64
}

#[inline(always)]
fn new_block(size: usize) -> u32 {
    if !are_recorded() {
        return sites::NOT_ATTRIBUTED;
    }
    let site = site_of_new(size);
    record_new(site, size);
    site
}

#[inline(always)]
fn record_new(site: u32, size: usize) {
    harness::settle();
    if site == sites::OF_HARNESS {
        return;
    }
    live_sizes::change((0, 0), (size, site));
    events::record(Change {
        new_site: site,
        old_site: 0,
        new_size: size as u64,
        old_size: 0,
        allocates: true,
        shrinks: false,
    });
}

#[inline(always)]
fn record_gone(site: u32, size: usize) {
    // The body may free a block that was there before. Elsewhere, the harness's blocks do not count.
    if are_recorded() && !(site == sites::OF_HARNESS && owner::looks_at_each_block()) {
        let site = counted(site);
        live_sizes::change((size, site), (0, 0));
        events::record(Change {
            new_site: site_that_frees(site),
            old_site: site,
            new_size: 0,
            old_size: size as u64,
            allocates: false,
            shrinks: false,
        });
    }
}

/// The site that frees a block, unless it is not known who made it.
#[inline(always)]
fn site_that_frees(made_by: u32) -> u32 {
    let is_unknown = made_by == sites::NOT_ATTRIBUTED || snapshot::is_asked();
    if is_unknown || owner::owner_of_new() != Owner::Test {
        sites::NOT_ATTRIBUTED
    } else {
        sites::current_that_frees()
    }
}

/// The owner of a block that was reallocated. A block that shrinks stays its old site's: nobody asks
/// who made memory smaller.
fn owner(old: Option<(u32, usize)>, new_site: u32, new_size: usize) -> u32 {
    match old {
        Some((site, size)) if new_size < size => site,
        _ => new_site,
    }
}

/// A reallocation is one event, like one step of the live bytes in other runs. Returns the block's
/// owner from now on.
#[inline(always)]
fn record_moved(old: Option<(u32, usize)>, site: u32, size: usize) -> u32 {
    let (old_site, old_size) = old.unwrap_or((sites::NOT_ATTRIBUTED, 0));
    if old_site == sites::OF_HARNESS && owner::looks_at_each_block() {
        return old_site;
    }
    let (old_site, site) = (counted(old_site), counted(site));
    let owner = owner(old.map(|_| (old_site, old_size)), site, size);
    live_sizes::change((old_size, old_site), (size, owner));
    events::record(Change {
        new_site: site,
        old_site,
        new_size: size as u64,
        old_size: old_size as u64,
        allocates: true,
        shrinks: size < old_size,
    });
    owner
}

/// The site under which a block counts. The body may free or move a block of the harness.
#[inline(always)]
fn counted(site: u32) -> u32 {
    if site == sites::OF_HARNESS { sites::NOT_ATTRIBUTED } else { site }
}

#[inline(always)]
unsafe fn put_header(block: *mut u8, size: usize, site: u32) {
    block.sub(HEADER).cast::<Header>().write(Header { size, site, check: check_of(block) });
}

/// A block's site and size; `None` if it has no header, because it was not allocated here.
#[inline(always)]
unsafe fn read_header(block: *mut u8) -> Option<(u32, usize)> {
    // Unaligned: a block that was not allocated here may have any address.
    let header = block.sub(HEADER).cast::<Header>().read_unaligned();
    if header.check == check_of(block) { Some((header.site, header.size)) } else { None }
}

#[inline(always)]
unsafe fn take_header(block: *mut u8) -> Option<(u32, usize)> {
    let known = read_header(block);
    if known.is_some() {
        // The memory may become a block without a header at the same address.
        block.sub(HEADER).cast::<Header>().write(Header { size: 0, site: 0, check: 0 });
    }
    known
}
