//! Sites: the distinct call stacks from which memory was allocated, in some runs those of each thread
//! apart. A stack is known by a hash of its return addresses; the stacks themselves are kept once, as a
//! tree of frames.
//!
//! Looking up a known stack takes no lock and writes nothing.

// Some of these run at each allocation: benches/stacks.rs measures them.
#![allow(clippy::cast_possible_truncation, clippy::inline_always)]

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::blocks::block_table;
use crate::platform::lock::Lock;
use crate::platform::own_memory;
use crate::platform::thread_number;
use crate::platform::untracked::Untracked;
use crate::stacks::allocating_thread;
use crate::stacks::stack_bounds;
use crate::stacks::stack_walk::{self, End, Registers};
use crate::stacks::unwind_table::UnwindTable;

/// The site of memory whose stack is not known.
pub(crate) const NOT_ATTRIBUTED: u32 = 0;
/// Stands for a site in a block of the harness (see `owner`). No stack has this number.
pub(crate) const OF_HARNESS: u32 = u32::MAX >> 1;

/// Places of the index; a power of two. At most three quarters are used.
const PLACES: usize = 1 << 19;
const MOST_SITES: usize = PLACES / 4 * 3;
const MOST_FRAMES: usize = 1 << 21;

/// How many addresses that the table cannot pass are remembered.
const ADDRESSES: usize = 64;

/// A frame of the tree: its caller, and its return address.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The caller's number; 0 if it has none.
    pub(crate) parent: u32,
    pub(crate) address: usize,
}

/// A stack, and the thread whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    /// The innermost frame.
    pub(crate) frame: u32,
    /// The number of `allocating_thread`.
    pub(crate) thread: u32,
}

/// The two words of a place in the index: the stack's hash, and its site.
struct Place {
    hash: AtomicU64,
    site: AtomicU32,
}

/// What is written once, before `main`.
struct Setup {
    table: Option<UnwindTable>,
    index: &'static [Place],
}

struct SetupCell(UnsafeCell<Setup>);

// SAFETY: `set_up` writes it before `IS_READY`, once; from then on it is only read.
unsafe impl Sync for SetupCell {}

static SETUP: SetupCell = SetupCell(UnsafeCell::new(Setup { table: None, index: &[] }));
static IS_READY: AtomicBool = AtomicBool::new(false);
static STACKS: Lock<Stacks> = Lock::new(Stacks::new());
/// Return addresses that the table cannot pass, each at the place that [`slot_of`] gives it.
type Addresses = [AtomicUsize; ADDRESSES];

#[allow(clippy::declare_interior_mutable_const)]
const FREE: AtomicUsize = AtomicUsize::new(0);
/// Addresses with none of the executable's frames behind them.
static OUTERMOST: Addresses = [FREE; ADDRESSES];
/// Addresses with some, for example in a library that calls back.
static IN_BETWEEN: Addresses = [FREE; ADDRESSES];
/// Why some memory is not attributed; see [`left_out`].
static LEFT_OUT: AtomicU32 = AtomicU32::new(0);

/// New stacks that were walked both ways.
static COMPARED: AtomicU32 = AtomicU32::new(0);
/// Whether both ways led to different stacks. From then on, only the unwinder walks.
static DISAGREE: AtomicBool = AtomicBool::new(false);

/// So many new stacks are walked both ways.
const COMPARE: u32 = 256;

const TOO_MANY_STACKS: u32 = 1;
const IN_SIGNAL_HANDLER: u32 = 2;
const WALKS_DISAGREE: u32 = 4;
const TOO_MANY_THAT_FREE: u32 = 8;
const ENDS_NOWHERE: u32 = 16;

/// Whether half of the room is used.
static IS_HALF_FULL: AtomicBool = AtomicBool::new(false);

struct Stacks {
    /// The frame at place 0 is never used.
    frames: Untracked<Frame>,
    /// A hash table of frames by parent and address; 0 marks a free place.
    by_parent: Untracked<u32>,
    /// The site at place 0 has no frame.
    sites: Untracked<Site>,
    /// The return addresses of the stack that is being added, innermost first.
    stack: Untracked<usize>,
}

/// Prepares the index. Without a table, the unwinder walks.
pub(crate) fn set_up(table: Option<UnwindTable>) -> Result<(), &'static str> {
    let memory = own_memory::zeroed(PLACES * std::mem::size_of::<Place>());
    let memory = memory.ok_or("there is no memory for the table of call stacks")?;
    // SAFETY: the memory is zeroed, aligned to a page, large enough, and stays. Nothing else runs
    // before `IS_READY`.
    unsafe {
        let index = std::slice::from_raw_parts(memory.cast::<Place>(), PLACES);
        *SETUP.0.get() = Setup { table, index };
    }
    IS_READY.store(true, Ordering::Release);
    Ok(())
}

fn setup() -> &'static Setup {
    // SAFETY: see `SetupCell`. Callers come after `set_up`.
    unsafe { &*SETUP.0.get() }
}

/// Returns the site of the calling thread's stack.
#[inline(never)]
pub(crate) fn current() -> u32 {
    if !IS_READY.load(Ordering::Acquire) {
        return NOT_ATTRIBUTED;
    }
    let setup = setup();
    let table = match &setup.table {
        Some(table) if !DISAGREE.load(Ordering::Relaxed) => table,
        _ => return by_unwinder(setup, 0),
    };
    let start = stack_walk::here();
    let thread = allocating_thread::current();
    let mut hash = Hash::of(thread);
    let mut first = 0;
    // SAFETY: this function is still running.
    let end = unsafe {
        stack_walk::with_table(table, start, |address| {
            first = if first == 0 { address } else { first };
            hash.add(address);
        })
    };
    match end {
        End::Outermost => {}
        End::Beyond(address) if is_known(&OUTERMOST, address) => {}
        // The unwinder would read the frame, or code that it does not know.
        End::Unreadable => return leave_out(ENDS_NOWHERE),
        End::Beyond(address) if !stack_bounds::is_readable(address - 1) => return leave_out(ENDS_NOWHERE),
        End::Beyond(address) if !is_known(&IN_BETWEEN, address) && is_outermost(table, address) => {}
        End::Beyond(_) | End::Lost => return by_unwinder(setup, first),
    }
    match find(setup.index, hash.value()) {
        Some(site) => site,
        None if !is_confirmed(table, start, first) => by_unwinder(setup, first),
        None => add_by_table(setup.index, table, start, (hash.value(), thread)),
    }
}

/// Calls `each` with the return addresses from these registers on, each with the end of the frame that
/// returns there. Returns whether it reached the outermost frame of the executable.
///
/// # Safety
/// `start` are the registers of a function that is still running on this thread.
pub(crate) unsafe fn each_frame(start: Registers, mut each: impl FnMut(usize, usize)) -> bool {
    if !IS_READY.load(Ordering::Acquire) || DISAGREE.load(Ordering::Relaxed) {
        return false;
    }
    match &setup().table {
        Some(table) => match stack_walk::with_frames(table, start, &mut each) {
            End::Outermost => true,
            End::Beyond(address) => is_known(&OUTERMOST, address),
            End::Lost | End::Unreadable => false,
        },
        None => false,
    }
}

/// Returns the site of the calling thread's stack, which frees a block. Half of the room is for stacks
/// that allocate.
#[inline(always)]
pub(crate) fn current_that_frees() -> u32 {
    if IS_HALF_FULL.load(Ordering::Relaxed) { leave_out(TOO_MANY_THAT_FREE) } else { current() }
}

/// Most frames of a stack that is walked once only.
const USUAL_DEPTH: usize = 256;

/// Returns the site of the calling thread's stack, from the caller of the code at these addresses on.
#[inline(never)]
pub(crate) fn current_beyond(code: &Range<usize>) -> u32 {
    if !IS_READY.load(Ordering::Acquire) {
        return NOT_ATTRIBUTED;
    }
    // Kept here, and not walked again under the lock: the unwinder may wait for the loader, and the
    // loader may allocate.
    let (mut stack, mut count) = ([0; USUAL_DEPTH], 0);
    let thread = allocating_thread::current();
    let mut hash = Hash::of(thread);
    beyond(code, &mut |address| {
        hash.add(address);
        if count < USUAL_DEPTH {
            stack[count] = address;
        }
        count += 1;
    });
    let index = setup().index;
    let key = (hash.value(), thread);
    match find(index, key.0) {
        Some(site) => site,
        None if count <= USUAL_DEPTH => add(index, key, |known| known.extend(&stack[..count])),
        None => add(index, key, |known| beyond(code, &mut |address| known.push(address))),
    }
}

/// Walks with the unwinder. The frames up to the last one in a row of this code are left out.
fn beyond(code: &Range<usize>, each: &mut dyn FnMut(usize)) {
    let (mut is_inside, mut is_beyond) = (false, false);
    stack_walk::with_unwinder(&mut |address| {
        let is_code = code.contains(&(address - 1));
        is_beyond |= is_inside && !is_code;
        is_inside |= is_code;
        if is_beyond {
            each(address);
        }
        true
    });
}

/// Compares a new stack with the unwinder's, for the first ones of a process.
#[cold]
#[inline(never)]
fn is_confirmed(table: &UnwindTable, start: Registers, first: usize) -> bool {
    if COMPARED.fetch_add(1, Ordering::Relaxed) >= COMPARE {
        COMPARED.store(COMPARE, Ordering::Relaxed);
        return true;
    }
    // SAFETY: the caller, whose registers these are, waits for this function.
    let is_equal = unsafe { agree(table, start, first) };
    if !is_equal {
        DISAGREE.store(true, Ordering::Relaxed);
        LEFT_OUT.fetch_or(WALKS_DISAGREE, Ordering::Relaxed);
    }
    is_equal
}

/// Whether the unwinder finds the table's return addresses, from `first` on, and after them none of
/// the executable.
unsafe fn agree(table: &UnwindTable, start: Registers, first: usize) -> bool {
    const PART: usize = 128;
    let mut done = 0;
    loop {
        // A part at a time, because nothing here may allocate.
        let (mut part, mut count, mut passed, mut last) = ([0; PART], 0, 0, 0);
        stack_walk::with_table(table, start, |address| {
            if passed >= done && count < PART {
                part[count] = address;
                count += 1;
            }
            passed += 1;
            last = address;
        });
        let (mut at, mut is_equal) = (0_usize, true);
        from_first(first, &mut |address| {
            let expected = at.wrapping_sub(done);
            if at >= done && expected < count {
                is_equal &= part[expected] == address;
            } else if at >= passed {
                is_equal &= is_no_caller(table, address);
            }
            at += 1;
        });
        if !is_equal || at + usize::from(table.is_undescribed(last)) < passed {
            return false;
        }
        done += count;
        if done >= passed {
            return true;
        }
    }
}

/// Whether this is outside the executable, or in the process's first function.
fn is_no_caller(table: &UnwindTable, address: usize) -> bool {
    table.place(address - 1).map_or(true, |place| table.rule(place).is_end())
}

/// Walks with the unwinder. The frames inside of the one that returns to `first` are left out; 0
/// keeps them.
#[cold]
#[inline(never)]
fn by_unwinder(setup: &'static Setup, first: usize) -> u32 {
    let thread = allocating_thread::current();
    let mut hash = Hash::of(thread);
    from_first(first, &mut |address| hash.add(address));
    if let Some(site) = find(setup.index, hash.value()) {
        return site;
    }
    add(setup.index, (hash.value(), thread), |stack| from_first(first, &mut |address| stack.push(address)))
}

fn from_first(first: usize, each: &mut dyn FnMut(usize)) {
    let mut begun = first == 0;
    stack_walk::with_unwinder(&mut |address| {
        begun |= address == first;
        if begun {
            each(address);
        }
        true
    });
}

#[cold]
#[inline(never)]
fn add_by_table(index: &'static [Place], table: &UnwindTable, start: Registers, key: (u64, u32)) -> u32 {
    add(index, key, |stack| {
        // SAFETY: the caller's caller, whose registers these are, waits for this function.
        unsafe { stack_walk::with_table(table, start, |address| stack.push(address)) };
    })
}

#[inline(always)]
fn is_known(addresses: &Addresses, address: usize) -> bool {
    addresses[slot_of(address)].load(Ordering::Relaxed) == address
}

fn slot_of(address: usize) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) & (ADDRESSES - 1)
}

/// Asks the unwinder whether frames of the executable come after this return address. If
/// there is none but the process's first function, threads begin there. The answer is remembered.
#[cold]
#[inline(never)]
fn is_outermost(table: &UnwindTable, outside: usize) -> bool {
    let (mut is_behind, mut more) = (false, false);
    stack_walk::with_unwinder(&mut |address| {
        more |= is_behind && !is_no_caller(table, address);
        is_behind |= address == outside;
        true
    });
    let is_outermost = (is_behind || table.is_undescribed(outside)) && !more;
    let known = if is_outermost { &OUTERMOST } else { &IN_BETWEEN };
    known[slot_of(outside)].store(outside, Ordering::Relaxed);
    is_outermost
}

/// A hash of return addresses, innermost first. 64 bits: among a million stacks, two that are equal
/// by chance have a probability of one in thirty million.
struct Hash(u64);

impl Hash {
    /// The begin of a hash of a stack of this thread.
    #[inline(always)]
    fn of(thread: u32) -> Self {
        Self(0xcbf2_9ce4_8422_2325 ^ u64::from(thread) << 32)
    }

    #[inline(always)]
    fn add(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }

    fn value(&self) -> u64 {
        // Zero marks a free place.
        (self.0 ^ self.0 >> 29) | 1
    }
}

#[inline(always)]
fn find(index: &[Place], hash: u64) -> Option<u32> {
    let mut place = (hash >> 32) as usize & (PLACES - 1);
    loop {
        let known = index[place].hash.load(Ordering::Acquire);
        if known == hash {
            return Some(index[place].site.load(Ordering::Relaxed));
        }
        if known == 0 {
            return None;
        }
        place = (place + 1) & (PLACES - 1);
    }
}

/// Adds a stack that is new, of this hash and thread. `walk` pushes its return addresses, innermost first.
#[cold]
fn add(index: &[Place], (hash, thread): (u64, u32), walk: impl FnOnce(&mut Untracked<usize>)) -> u32 {
    let mut stacks = match STACKS.hold_as(thread_number::place()) {
        Some(stacks) => stacks,
        None => return leave_out(IN_SIGNAL_HANDLER),
    };
    // Another thread may have added it meanwhile.
    if let Some(site) = find(index, hash) {
        return site;
    }
    stacks.stack.clear();
    walk(&mut stacks.stack);
    let site = match stacks.add(thread) {
        Some(site) => site,
        None => return leave_out(TOO_MANY_STACKS),
    };
    if stacks.is_half_full() {
        IS_HALF_FULL.store(true, Ordering::Relaxed);
    }
    let mut place = (hash >> 32) as usize & (PLACES - 1);
    while index[place].hash.load(Ordering::Relaxed) != 0 {
        place = (place + 1) & (PLACES - 1);
    }
    index[place].site.store(site, Ordering::Relaxed);
    // A thread that finds the hash finds the site, too.
    index[place].hash.store(hash, Ordering::Release);
    site
}

#[cold]
fn leave_out(reason: u32) -> u32 {
    LEFT_OUT.fetch_or(reason, Ordering::Relaxed);
    NOT_ATTRIBUTED
}

/// Returns why some memory is not attributed, once.
pub(crate) fn left_out() -> Option<&'static str> {
    let reasons = LEFT_OUT.load(Ordering::Relaxed);
    if reasons & TOO_MANY_STACKS != 0 {
        Some("there are more than 390,000 call stacks, or they have more than 2,000,000 frames")
    } else if reasons & WALKS_DISAGREE != 0 {
        Some("the unwind table and the unwinder disagreed about a call stack; since then the unwinder walked")
    } else if reasons & TOO_MANY_THAT_FREE != 0 {
        Some("there are more than 190,000 call stacks, so it is not known where all blocks were freed")
    } else if reasons & IN_SIGNAL_HANDLER != 0 || block_table::were_interrupted() {
        Some("a signal handler allocated while the interrupted thread recorded a call stack")
    } else if reasons & ENDS_NOWHERE != 0 {
        Some("the program switched to a stack of its own, whose end the executable does not describe")
    } else {
        None
    }
}

impl Stacks {
    const fn new() -> Self {
        Self {
            frames: Untracked::new(),
            by_parent: Untracked::new(),
            sites: Untracked::new(),
            stack: Untracked::new(),
        }
    }

    /// Adds the stack in `self.stack`, and returns its site. `None` if there is no room.
    fn add(&mut self, thread: u32) -> Option<u32> {
        if self.sites.is_empty() {
            self.sites.push(Site { frame: 0, thread: allocating_thread::NONE });
            self.frames.push(Frame { parent: 0, address: 0 });
        }
        if self.sites.len() >= MOST_SITES || self.frames.len() + self.stack.len() > MOST_FRAMES {
            return None;
        }
        let mut parent = 0;
        for depth in (0..self.stack.len()).rev() {
            parent = self.find_or_add(Frame { parent, address: self.stack[depth] });
        }
        self.sites.push(Site { frame: parent, thread });
        Some((self.sites.len() - 1) as u32)
    }

    fn is_half_full(&self) -> bool {
        self.sites.len() > MOST_SITES / 2 || self.frames.len() > MOST_FRAMES / 2
    }

    fn find_or_add(&mut self, frame: Frame) -> u32 {
        if self.frames.len() * 2 >= self.by_parent.len() {
            self.grow();
        }
        let mask = self.by_parent.len() - 1;
        let mut place = hash_of(frame) & mask;
        while self.by_parent[place] != 0 {
            let number = self.by_parent[place];
            let known = self.frames[number as usize];
            if known.parent == frame.parent && known.address == frame.address {
                return number;
            }
            place = (place + 1) & mask;
        }
        let number = self.frames.len() as u32;
        self.frames.push(frame);
        self.by_parent.as_mut()[place] = number;
        number
    }

    /// Doubles the table, whose length is always a power of two.
    fn grow(&mut self) {
        let length = (self.by_parent.len() * 2).max(1024);
        let mut places = Untracked::new();
        places.reserve(length);
        for _ in 0..length {
            places.push(0_u32);
        }
        for (number, &frame) in self.frames.iter().enumerate().skip(1) {
            let mut place = hash_of(frame) & (length - 1);
            while places[place] != 0 {
                place = (place + 1) & (length - 1);
            }
            places.as_mut()[place] = number as u32;
        }
        self.by_parent = places;
    }
}

fn hash_of(frame: Frame) -> usize {
    let word = (frame.address as u64 ^ u64::from(frame.parent) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32) as usize
}

/// Copies the frames and sites from these numbers on, for the log.
pub(crate) fn copy_from(frames: usize, sites: usize, into: &mut (Untracked<Frame>, Untracked<Site>)) {
    into.0.clear();
    into.1.clear();
    if let Some(stacks) = STACKS.hold_as(thread_number::place()) {
        into.0.extend(stacks.frames.get(frames..).unwrap_or_default());
        into.1.extend(stacks.sites.get(sites..).unwrap_or_default());
    }
}

/// How many new stacks were walked both ways.
pub(crate) fn compared() -> u32 {
    COMPARED.load(Ordering::Relaxed).min(COMPARE)
}

/// Compares both ways to walk on one known stack. Returns whether they agree.
pub(crate) fn walks_agree(table: &UnwindTable) -> bool {
    probe(table, 4)
}

#[inline(never)]
fn probe(table: &UnwindTable, depth: u32) -> bool {
    const MOST: usize = 64;
    if depth > 0 {
        let agree = probe(table, depth - 1);
        // Keeps this from being a tail call. Rust 1.63 has no `black_box`.
        // SAFETY: the value is on this frame.
        return unsafe { std::ptr::read_volatile(&agree) };
    }
    let (mut by_table, mut count) = ([0; MOST], 0);
    // SAFETY: this function is still running.
    unsafe {
        stack_walk::with_table(table, stack_walk::here(), |address| {
            if count < MOST {
                by_table[count] = address;
                count += 1;
            }
        });
    }
    let mut at = 0;
    stack_walk::with_unwinder(&mut |address| {
        let is_equal = at < count && by_table[at] == address;
        // The unwinder begins further inside.
        if is_equal || at > 0 {
            at = if is_equal { at + 1 } else { MOST + 1 };
        }
        at < count
    });
    count > 4 && (at == count || at + 1 == count && table.is_undescribed(by_table[at]))
}
