//! Where blocks end: how many bytes of each allocation site were freed, shrunk or moved at which
//! other site. Pure.
//!
//! As with the figures of sites, a new peak only begins a new `epoch`, and a pair of sites copies its
//! bytes at its first change after that.

// The cast values are parts of hashes, and positions.
#![allow(clippy::cast_possible_truncation, clippy::inline_always)]

use crate::blocks::site_figures::Change;
use crate::platform::untracked::Untracked;

/// At most this many pairs are kept.
const MOST_PAIRS: usize = 1 << 17;

/// Why pairs are missing.
pub(crate) const TOO_MANY: &str = "there are more than 130,000 pairs of call stacks that allocate and free";

/// How a block's bytes went.
pub(crate) const FREED: u8 = 0;
pub(crate) const SHRUNK: u8 = 1;
/// The block grew, so it belongs to another site from then on.
pub(crate) const MOVED: u8 = 2;

/// What is known of a pair of sites.
#[derive(Clone, Copy)]
struct Pair {
    site: u32,
    by: u32,
    way: u8,
    /// The interval in which it last changed.
    interval: u32,
    /// Bytes since the run began, and up to the moment of the peak if the pair changed since.
    bytes: u64,
    at_peak: u64,
    epoch: u64,
}

/// The bytes of a pair at the end of an interval.
#[derive(Clone, Copy)]
pub(crate) struct Release {
    pub(crate) site: u32,
    pub(crate) by: u32,
    pub(crate) way: u8,
    pub(crate) at_peak: u64,
    pub(crate) bytes: u64,
}

/// All pairs of a run.
pub(crate) struct Releases {
    pairs: Untracked<Pair>,
    /// A hash table of positions plus one; 0 marks a free place. Its length is a power of two, or zero.
    places: Untracked<u32>,
    /// The pairs that changed in this interval.
    changed: Untracked<u32>,
    interval: u32,
    is_full: bool,
    log: Untracked<Release>,
}

/// What a change releases: whose bytes, at which other site and how, and how many.
#[inline(always)]
pub(crate) fn released(change: &Change) -> Option<((u32, u32, u8), u64)> {
    let Change { new_site, old_site, new_size, old_size, allocates, shrinks } = *change;
    let (way, bytes) = match (allocates, shrinks) {
        (false, _) => (FREED, old_size),
        (true, true) => (SHRUNK, old_size - new_size),
        // A block that grows where it was made belongs to its site as before.
        (true, false) if old_site == new_site => return None,
        (true, false) => (MOVED, old_size),
    };
    // A site is not known of all blocks.
    if old_site == 0 || new_site == 0 || bytes == 0 { None } else { Some(((old_site, new_site, way), bytes)) }
}

impl Releases {
    pub(crate) const fn new() -> Self {
        Self {
            pairs: Untracked::new(),
            places: Untracked::new(),
            changed: Untracked::new(),
            interval: 1,
            is_full: false,
            log: Untracked::new(),
        }
    }

    /// Adds bytes to a pair. `epoch` is that of the figures before this change.
    pub(crate) fn add(&mut self, (site, by, way): (u32, u32, u8), bytes: u64, epoch: u64) {
        let index = match self.find_or_add(site, by, way) {
            Some(index) => index,
            None => return,
        };
        let interval = self.interval;
        let pair = &mut self.pairs.as_mut()[index];
        if pair.interval != interval {
            pair.interval = interval;
            self.changed.push(index as u32);
        }
        if pair.epoch != epoch {
            pair.epoch = epoch;
            pair.at_peak = pair.bytes;
        }
        pair.bytes += bytes;
    }

    /// Keeps the pairs that changed in the interval for the log. `epoch` is the one of its end.
    pub(crate) fn end_interval(&mut self, epoch: u64) {
        self.log.clear();
        for &index in self.changed.iter() {
            let Pair { site, by, way, bytes, at_peak, epoch: own, .. } = self.pairs[index as usize];
            let at_peak = if own == epoch { at_peak } else { bytes };
            self.log.push(Release { site, by, way, at_peak, bytes });
        }
        self.changed.clear();
        self.interval = self.interval.wrapping_add(1);
    }

    /// Hands over the pairs that changed in the last interval. Returns whether pairs are missing.
    pub(crate) fn take_interval(&mut self, into: &mut Untracked<Release>) -> bool {
        std::mem::swap(into, &mut self.log);
        self.log.clear();
        self.is_full
    }

    fn find_or_add(&mut self, site: u32, by: u32, way: u8) -> Option<usize> {
        if self.pairs.len() * 2 >= self.places.len() {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let mut place = hash(site, by, way) & mask;
        while self.places[place] != 0 {
            let index = self.places[place] as usize - 1;
            let pair = &self.pairs[index];
            if pair.site == site && pair.by == by && pair.way == way {
                return Some(index);
            }
            place = (place + 1) & mask;
        }
        if self.pairs.len() >= MOST_PAIRS {
            self.is_full = true;
            return None;
        }
        self.pairs.push(Pair { site, by, way, interval: 0, bytes: 0, at_peak: 0, epoch: 0 });
        self.places.as_mut()[place] = self.pairs.len() as u32;
        Some(self.pairs.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let length = (self.places.len() * 2).max(1024);
        let mut places = Untracked::new();
        places.reserve(length);
        for _ in 0..length {
            places.push(0_u32);
        }
        for (index, pair) in self.pairs.iter().enumerate() {
            let mut place = hash(pair.site, pair.by, pair.way) & (length - 1);
            while places[place] != 0 {
                place = (place + 1) & (length - 1);
            }
            places.as_mut()[place] = index as u32 + 1;
        }
        self.places = places;
    }
}

fn hash(site: u32, by: u32, way: u8) -> usize {
    let word = u64::from(site) << 32 ^ u64::from(by) << 2 ^ u64::from(way);
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}
