//! Finds the block that a word points into, and how much of it is used by the words beside the pointer. Pure but
//! for the memory that it is asked to read.
//!
//! Blocks are sorted by address. A hash table has the blocks of each page, so that a word needs a look there
//! and a search among few blocks.

// The cast values are parts of hashes, and positions.
#![allow(clippy::cast_possible_truncation)]

use std::collections::VecDeque;
use std::mem::{ManuallyDrop, size_of, transmute_copy};

use crate::blocks::block_table::Block;
use crate::platform::untracked::Untracked;

const WORD: usize = size_of::<usize>();
const PAGE_BITS: u32 = 12;
/// No block lies at an address that is so much larger: user space ends below. What seems to point there
/// does so by chance.
const AWAY: usize = 1 << 45;

/// The page with the number 0 marks a free place.
#[derive(Clone, Copy)]
struct Page {
    number: usize,
    /// The blocks that it has parts of.
    first: u32,
    end: u32,
}

/// Where a block was before it was reallocated. Its owner still has the old address.
#[derive(Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) from: usize,
    pub(crate) size: usize,
    pub(crate) to: usize,
}

impl Moved {
    pub(crate) const NOTHING: Self = Self { from: 0, size: 0, to: 0 };
}

/// What a pointer and the words beside it look like. The reader knows the block's type and decides.
const VECTOR: usize = 0;
const DEQUE: usize = 1;
const TABLE: usize = 2;
const TREE: usize = 3;

/// The bytes of a hash table that are looked at together; so many follow the last bucket's.
const GROUP: usize = if cfg!(target_arch = "x86_64") { 16 } else { 8 };
/// Most elements that are written.
const MOST: usize = (1 << 37) - 1;
/// Pointers that are looked for together.
const AT_ONCE: usize = 32;
/// No node of a B-tree is so high.
const HIGHEST: usize = 12;

/// Where this compiler puts the words of a vector, and of a `VecDeque`, in words from the pointer.
struct Layouts {
    /// The capacity, and the length.
    vector: [isize; 2],
    /// The capacity, the first element, and the length. Before Rust 1.67 there was no length.
    deque: Option<[isize; 3]>,
}

impl Layouts {
    fn new() -> Option<Self> {
        // A type of its own, so that debug information has no other type because of this.
        struct Sample(#[allow(dead_code)] u8);
        if (size_of::<Vec<Sample>>(), size_of::<VecDeque<Sample>>()) != (3 * WORD, 4 * WORD) {
            return None;
        }
        let mut room = [Sample(0), Sample(0), Sample(0), Sample(0)];
        let start = room.as_mut_ptr();
        let find = |words: &[usize], word: usize| {
            let place = |word: usize| words.iter().position(|one| *one == word).map(|place| place as isize);
            Some(place(word)? - place(start as usize)?)
        };
        // SAFETY: it is not grown and not dropped, so that the allocator is not asked about this room.
        let vector = ManuallyDrop::new(unsafe { Vec::from_raw_parts(start, 3, 4) });
        // SAFETY: it is as large.
        let words: [usize; 3] = unsafe { transmute_copy(&vector) };
        let of_vector = [find(&words, 4)?, find(&words, 3)?];
        let mut deque = ManuallyDrop::new(VecDeque::from(ManuallyDrop::into_inner(vector)));
        deque.pop_front();
        // SAFETY: it is as large.
        let words: [usize; 4] = unsafe { transmute_copy(&deque) };
        let of_deque = || Some([find(&words, 4)?, find(&words, 1)?, find(&words, 2)?]);
        Some(Self { vector: of_vector, deque: of_deque() })
    }
}

pub(crate) struct Pointers {
    moved: Moved,
    layouts: Option<Layouts>,
    /// Places of pointers, and the blocks that they point into.
    found: [(usize, u32); AT_ONCE],
    blocks: Untracked<Block>,
    pages: Untracked<Page>,
    /// The first address, and the one behind the last.
    low: usize,
    high: usize,
    /// Words that were looked at, and those that pointed to where no block can be.
    pub(crate) words: u64,
    pub(crate) by_chance: u64,
}

impl Pointers {
    /// Takes all blocks, in any order.
    pub(crate) fn new(mut blocks: Untracked<Block>, moved: Moved) -> Self {
        blocks.as_mut().sort_unstable_by_key(|block| block.address);
        let in_order = pages_of(&blocks);
        let length = (in_order.len() * 2).next_power_of_two().max(2);
        let mut pages = Untracked::new();
        pages.reserve(length);
        for _ in 0..length {
            pages.push(Page { number: 0, first: 0, end: 0 });
        }
        for page in in_order.iter() {
            let mut place = first_place(page.number, length);
            while pages[place].number != 0 {
                place = (place + 1) & (length - 1);
            }
            pages.as_mut()[place] = *page;
        }
        let low = blocks.first().map_or(0, |block| block.address);
        let high = blocks.last().map_or(0, |block| block.address + block.size);
        let (layouts, found) = (Layouts::new(), [(0, 0); AT_ONCE]);
        Self { moved, layouts, found, blocks, pages, low, high, words: 0, by_chance: 0 }
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the position of the block that this word points into.
    #[inline]
    fn find(&self, word: usize) -> Option<u32> {
        if word < self.low || word >= self.high {
            return None;
        }
        let number = word >> PAGE_BITS;
        let mut place = first_place(number, self.pages.len());
        while self.pages[place].number != number {
            if self.pages[place].number == 0 {
                return None;
            }
            place = (place + 1) & (self.pages.len() - 1);
        }
        let (first, end) = (self.pages[place].first as usize, self.pages[place].end as usize);
        let behind = self.blocks[first..end].partition_point(|block| block.address <= word);
        let found = (first + behind).checked_sub(1)?;
        let block = &self.blocks[found];
        if word >= block.address && word - block.address < block.size { Some(found as u32) } else { None }
    }

    /// Looks at a word. Returns the position of the block that it points into.
    #[inline]
    pub(crate) fn look(&mut self, word: usize) -> Option<u32> {
        self.words += 1;
        let mut found = self.find(word);
        if found.is_none() && word.wrapping_sub(self.moved.from) < self.moved.size {
            found = self.find(self.moved.to);
        }
        if found.is_none() && word >= AWAY && self.find(word - AWAY).is_some() {
            self.by_chance += 1;
        }
        found
    }

    /// Calls `each` with the position of the block that each word in this memory points into, and then with
    /// each use of it that the words beside say.
    ///
    /// # Safety
    /// The memory can be read, and stays.
    pub(crate) unsafe fn scan(&mut self, begin: usize, end: usize, mut each: impl FnMut(u32, Option<u64>)) {
        // Volatile: another thread may write here.
        let read = |place: usize| std::ptr::read_volatile(place as *const usize);
        let beside = |place: usize, words: isize| {
            let beside = place.wrapping_add((words * WORD as isize) as usize);
            if beside >= begin && beside + WORD <= end { read(beside) } else { 0 }
        };
        let mut place = (begin + WORD - 1) & !(WORD - 1);
        while place + WORD <= end {
            // Many at once: the processor then waits for their blocks at the same time.
            let mut count = 0;
            while place + WORD <= end && count < AT_ONCE {
                if let Some(block) = self.look(read(place)) {
                    self.found[count] = (place, block);
                    count += 1;
                }
                place += WORD;
            }
            for at in 0..count {
                let (place, block) = self.found[at];
                each(block, None);
                self.uses(block, read(place), |words| beside(place, words), |of| each(block, Some(of)));
            }
        }
    }

    /// Calls `each` with what the words beside a pointer to a block say about its use: what it looks like, a
    /// detail, and the number of elements, in one word. `beside` returns the word so many words further; 0 if
    /// there is none.
    ///
    /// # Safety
    /// The block can be read.
    pub(crate) unsafe fn uses(
        &self,
        block: u32,
        word: usize,
        beside: impl Fn(isize) -> usize,
        mut each: impl FnMut(u64),
    ) {
        let Block { address, size, .. } = self.blocks[block as usize];
        let mut each = |kind: usize, detail: usize, length: usize| {
            if detail < 1 << 24 && length <= MOST {
                each(1 << 63 | (kind as u64) << 61 | (detail as u64) << 37 | length as u64);
            }
        };
        if word != address {
            // The control bytes of a hash table, behind its elements.
            let buckets = address.wrapping_add(size).wrapping_sub(word).wrapping_sub(GROUP);
            let is_table = buckets.is_power_of_two() && buckets < size && word % WORD == 0;
            if is_table && (beside(1) == buckets - 1 || beside(-1) == buckets - 1) {
                each(TABLE, buckets.trailing_zeros() as usize, full(word as *const u64, buckets));
            }
            return;
        }
        let is_capacity = |room: usize| room != 0 && room <= size && size % room == 0;
        if let Some(layouts) = &self.layouts {
            let [room, length] = [beside(layouts.vector[0]), beside(layouts.vector[1])];
            if is_capacity(room) && length <= room {
                each(VECTOR, size / room, length);
            }
            if let Some(at) = layouts.deque {
                let [room, first, length] = [beside(at[0]), beside(at[1]), beside(at[2])];
                if is_capacity(room) && first < room && length <= room {
                    each(DEQUE, size / room, length);
                }
            } else if is_capacity(room) {
                // It may be one; the length is none.
                each(DEQUE, size / room, MOST);
            }
        }
        // Newer compilers put the height behind the root.
        for at in [[1, 2], [-1, 1]] {
            let [height, length] = [beside(at[0]), beside(at[1])];
            // A node has 5 to 11 elements; the root has one or more.
            let least = |height: usize| 2 * 6_usize.pow(height as u32) - 1;
            if height < HIGHEST && length >= least(height) && length < 12_usize.pow(height as u32 + 1) {
                each(TREE, height, length);
            }
        }
    }
}

/// The buckets of a hash table that are in use: their control bytes have no upper bit.
///
/// # Safety
/// The bytes can be read, and at least eight of them.
unsafe fn full(control: *const u64, buckets: usize) -> usize {
    const UPPER: u64 = 0x8080_8080_8080_8080;
    let count = |word: usize| !std::ptr::read_volatile(control.add(word)) & UPPER;
    match buckets {
        0..=7 => (count(0).to_le() & ((1 << (8 * buckets)) - 1)).count_ones() as usize,
        _ => (0..buckets / 8).map(|word| count(word).count_ones() as usize).sum(),
    }
}

fn first_place(number: usize, length: usize) -> usize {
    (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 20 & (length - 1)
}

/// Every page that holds a part of a block, in order.
fn pages_of(blocks: &[Block]) -> Untracked<Page> {
    let mut pages: Untracked<Page> = Untracked::new();
    for (position, block) in blocks.iter().enumerate().filter(|(_, block)| block.size != 0) {
        let (mut number, last) = (block.address >> PAGE_BITS, (block.address + block.size - 1) >> PAGE_BITS);
        let (first, end) = (position as u32, position as u32 + 1);
        if let Some(page) = pages.as_mut().last_mut().filter(|page| page.number == number) {
            page.end = end;
            number += 1;
        }
        for number in number..=last {
            pages.push(Page { number, first, end });
        }
    }
    pages
}
