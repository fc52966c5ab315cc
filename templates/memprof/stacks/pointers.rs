//! Finds the block that a word points into. Pure but for the memory that it is asked to read.
//!
//! Blocks are sorted by address. A hash table has the blocks of each page, so that a word needs a look there
//! and a search among few blocks.

// The cast values are parts of hashes, and positions.
#![allow(clippy::cast_possible_truncation)]

use crate::blocks::block_table::Block;
use crate::platform::untracked::Untracked;

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

pub(crate) struct Pointers {
    moved: Moved,
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
        Self { moved, blocks, pages, low, high, words: 0, by_chance: 0 }
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

    /// Calls `each` with the place of each word in this memory that points into a block, and the block's
    /// position.
    ///
    /// # Safety
    /// The memory can be read, and stays.
    pub(crate) unsafe fn scan(&mut self, begin: usize, end: usize, mut each: impl FnMut(usize, u32)) {
        const WORD: usize = std::mem::size_of::<usize>();
        let mut place = (begin + WORD - 1) & !(WORD - 1);
        while place + WORD <= end {
            // Volatile: another thread may write here.
            let word = std::ptr::read_volatile(place as *const usize);
            if let Some(block) = self.look(word) {
                each(place, block);
            }
            place += WORD;
        }
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
