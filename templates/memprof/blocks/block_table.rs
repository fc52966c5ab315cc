//! The site and size of each block by its address, for runs without headers. Slower than headers,
//! but the program's blocks are exactly those of the inner allocator.

// The cast values are parts of hashes.
#![allow(clippy::cast_possible_truncation)]
// Sites have sizes.
#![allow(clippy::similar_names)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::platform::lock::{Held, Lock};
use crate::platform::thread_number;
use crate::platform::untracked::Untracked;

/// Parts with a lock each, so that threads seldom meet.
const PARTS: usize = 64;

/// A block that exists. The address 0 marks a free place.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: usize,
    pub(crate) size: usize,
    pub(crate) site: u32,
}

const FREE: Block = Block { address: 0, size: 0, site: 0 };

/// A hash table with open addressing. Its length is a power of two, or zero.
struct Part {
    places: Untracked<Block>,
    used: usize,
}

static BLOCKS: [Lock<Part>; PARTS] = {
    #[allow(clippy::declare_interior_mutable_const)]
    const EMPTY: Lock<Part> = Lock::new(Part { places: Untracked::new(), used: 0 });
    [EMPTY; PARTS]
};

static WERE_INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn hash(address: usize) -> u64 {
    (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The thread that froze the table; 0 if none did.
static FROZEN: AtomicUsize = AtomicUsize::new(0);

fn hold(address: usize) -> Option<Held<'static, Part>> {
    if FROZEN.load(Ordering::Relaxed) != 0 {
        wait();
    }
    let part = BLOCKS[(hash(address) >> 58) as usize].hold_as(thread_number::place());
    if part.is_none() {
        WERE_INTERRUPTED.store(true, Ordering::Relaxed);
    }
    part
}

/// Sleeps while the table is frozen. The stack of a thread that sleeps can be read.
#[cold]
fn wait() {
    let own = thread_number::place();
    while !matches!(FROZEN.load(Ordering::Relaxed), holder if holder == 0 || holder == own) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A block that exists now.
pub(crate) fn insert(address: usize, site: u32, size: usize) {
    if let Some(mut part) = hold(address) {
        part.insert(Block { address, size, site });
    }
}

/// A block that goes: its site and size. `None` if it was not inserted.
pub(crate) fn remove(address: usize) -> Option<(u32, usize)> {
    hold(address)?.remove(address)
}

/// Whether a block's insertion or removal is missing: a signal handler interrupted this very thread
/// in here.
pub(crate) fn were_interrupted() -> bool {
    WERE_INTERRUPTED.load(Ordering::Relaxed)
}

/// All parts. Until this is dropped, no other thread makes or frees a block.
pub(crate) struct Frozen {
    parts: [Option<Held<'static, Part>>; PARTS],
}

/// Stops changes of the table. `None` if a signal handler interrupted this very thread in here.
pub(crate) fn freeze() -> Option<Frozen> {
    #[allow(clippy::declare_interior_mutable_const)]
    const NOT_YET: Option<Held<'static, Part>> = None;
    let own = thread_number::place();
    FROZEN.store(own, Ordering::Relaxed);
    let mut parts = [NOT_YET; PARTS];
    for (held, part) in parts.iter_mut().zip(&BLOCKS) {
        *held = part.hold_as(own);
    }
    let frozen = Frozen { parts };
    if frozen.parts.iter().all(Option::is_some) { Some(frozen) } else { None }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        FROZEN.store(0, Ordering::Relaxed);
    }
}

impl Frozen {
    /// Adds all blocks, in no order.
    pub(crate) fn copy(&self, into: &mut Untracked<Block>) {
        for part in self.parts.iter().flatten() {
            into.reserve(part.used);
            for block in part.places.iter().filter(|block| block.address != 0) {
                into.push(*block);
            }
        }
    }
}

impl Part {
    fn first_place(&self, address: usize) -> usize {
        (hash(address) >> 20) as usize & (self.places.len() - 1)
    }

    fn insert(&mut self, block: Block) {
        if (self.used + 1) * 2 > self.places.len() {
            self.grow();
        }
        let mut place = self.first_place(block.address);
        while self.places[place].address != 0 && self.places[place].address != block.address {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.used += usize::from(self.places[place].address == 0);
        self.places.as_mut()[place] = block;
    }

    fn remove(&mut self, address: usize) -> Option<(u32, usize)> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.places.len() - 1;
        let mut place = self.first_place(address);
        while self.places[place].address != address {
            if self.places[place].address == 0 {
                return None;
            }
            place = (place + 1) & mask;
        }
        let Block { site, size, .. } = self.places[place];
        // Blocks behind it move up, unless they stand before their own first place then.
        let mut next = (place + 1) & mask;
        while self.places[next].address != 0 {
            let wanted = self.first_place(self.places[next].address);
            if next.wrapping_sub(wanted) & mask >= next.wrapping_sub(place) & mask {
                let moved = self.places[next];
                self.places.as_mut()[place] = moved;
                place = next;
            }
            next = (next + 1) & mask;
        }
        self.places.as_mut()[place] = FREE;
        self.used -= 1;
        Some((site, size))
    }

    fn grow(&mut self) {
        let length = (self.places.len() * 2).max(256);
        let mut places = Untracked::new();
        places.reserve(length);
        for _ in 0..length {
            places.push(FREE);
        }
        let old = std::mem::replace(&mut self.places, places);
        for &block in old.iter().filter(|block| block.address != 0) {
            let mut place = self.first_place(block.address);
            while self.places[place].address != 0 {
                place = (place + 1) & (length - 1);
            }
            self.places.as_mut()[place] = block;
        }
    }
}
