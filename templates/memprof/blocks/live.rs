//! The live heap bytes, and their peak in the current epoch: exact, across threads.
//!
//! One 64-bit word holds the epoch (upper 16 bits) and the live bytes (lower 48 bits, up to 256
//! TiB). Each allocation and deallocation on any thread is one atomic step on that word, and so is
//! the end of an epoch. The word's modification order is therefore one total order of all three. So
//! "the most live bytes in epoch `k`" has one meaning: the largest value that the word had while
//! its epoch was `k`.
//!
//! It is enough to record the peak before a decrement. Take the largest value of epoch `k` and the
//! step that follows it. This step is not an increment, which would give a larger value in the same
//! epoch. So it is one of two:
//!
//! * A decrement. `subtract` compares the word with the peak, records it if it is larger, and then
//!   swaps it. The swap succeeds only if the word is unchanged, epoch included. So whatever was
//!   decremented in epoch `k` was recorded in the peak of epoch `k` before.
//! * The end of the epoch. `end_epoch` is an atomic addition, whose result has the live bytes at
//!   that very step. It takes the larger of these and the recorded peak. So a checkpoint is right
//!   even while the live bytes are at their maximum.
//!
//! The swap in `subtract` is a release, and the addition in `end_epoch` an acquire. All changes of
//! the word between them are read-modify-write steps, which continue the release sequence. So
//! `end_epoch` sees the records of all decrements before it. None of those decrements can have seen
//! what `end_epoch` writes later.
//!
//! A thread may stall between reading the word and recording it. The peak is tagged with its epoch,
//! and a record with another tag is dropped. So a late record cannot raise a later epoch's peak. It
//! is not missed either: its swap then fails, and the new value is compared again. (The tag repeats
//! after 65,536 epochs, so a thread would have to stall for a multiple of that between two
//! instructions.)
//!
//! Deallocations compare the word with the peak as whole numbers, tags included, in one
//! instruction. A word of a newer epoch than the peak's is larger and is recorded. A word of an
//! older epoch is smaller, and its swap fails. Only the wrap from 65,535 to 2 would break this, so
//! the peak is zero while an epoch ends: everything is larger. A word that finds no peak of its
//! epoch at that moment is recorded in `aside`, one of two words used in turn, and counts when its
//! epoch ends. Where each block must be looked at, the peak stays zero, and all goes to `aside`.

// Some of these run at each allocation: benches/allocator.rs measures them.
#![allow(clippy::inline_always)]

use std::sync::atomic::{AtomicU64, Ordering};

const EPOCH_SHIFT: u32 = 48;
const LAST_EPOCH: u64 = (1 << (64 - EPOCH_SHIFT)) - 1;
const BYTES_MASK: u64 = (1 << EPOCH_SHIFT) - 1;

/// All on one cache line: an allocator call that owns the line has everything.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Live {
    word: AtomicU64,
    peak: AtomicU64,
    aside: [AtomicU64; 2],
}

/// The figures of an epoch that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Live bytes at its end.
    pub(crate) live: u64,
    /// Most live bytes from its first moment to its last, both included.
    pub(crate) peak: u64,
}

impl Live {
    pub(crate) const fn new() -> Self {
        Self {
            // Epoch 1.
            word: AtomicU64::new(1 << EPOCH_SHIFT),
            peak: AtomicU64::new(1 << EPOCH_SHIFT),
            aside: [AtomicU64::new(0), AtomicU64::new(1 << EPOCH_SHIFT)],
        }
    }

    /// Counts bytes in.
    #[inline(always)]
    pub(crate) fn add(&self, bytes: usize) {
        // Relaxed is enough: a read-modify-write step continues the release sequence of earlier
        // decrements, and publishes nothing of its own.
        self.word.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes out if one step suffices: the word is not above the peak, and no other thread
    /// changes it meanwhile. Otherwise nothing is counted, and the caller must call
    /// [`Live::subtract`].
    #[inline(always)]
    #[must_use]
    pub(crate) fn subtract_at_once(&self, bytes: usize) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word <= self.peak.load(Ordering::Relaxed) && self.swap(word, bytes).is_ok()
    }

    /// Keeps [`Live::subtract_at_once`] from counting anything out. The word is of no use then.
    pub(crate) fn never_count_out_at_once(&self) {
        if self.word.load(Ordering::Relaxed) != 1 {
            self.peak.store(0, Ordering::Relaxed);
            self.word.store(1, Ordering::Relaxed);
        }
    }

    /// Counts bytes out, after the word's current value is recorded in the peak.
    #[cold]
    #[inline(never)]
    pub(crate) fn subtract(&self, bytes: usize) {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word > self.peak.load(Ordering::Relaxed) && !raise(&self.peak, word) {
                raise(self.aside(word), word);
            }
            match self.swap(word, bytes) {
                Ok(_) => return,
                Err(changed) => word = changed,
            }
        }
    }

    #[inline(always)]
    fn swap(&self, word: u64, bytes: usize) -> Result<u64, u64> {
        let less = word.wrapping_sub(bytes as u64);
        // Acquire on success is needed only before Rust 1.64, which requires it to be no weaker
        // than on failure.
        self.word.compare_exchange_weak(word, less, Ordering::AcqRel, Ordering::Acquire)
    }

    fn aside(&self, word: u64) -> &AtomicU64 {
        &self.aside[(epoch(word) & 1) as usize]
    }

    /// Keeps [`Live::subtract_at_once`] from counting anything out in this epoch: its peak goes on
    /// in `aside`, and the peak that is compared stays at zero.
    // The library that counts `malloc` has this file, too, and does not call it.
    #[allow(dead_code)]
    pub(crate) fn count_out_rarely(&self) {
        let mut recorded = self.peak.load(Ordering::Relaxed);
        loop {
            // First: an epoch that ends in between finds it in one place, or in both.
            raise(self.aside(recorded), recorded);
            match self.peak.compare_exchange(recorded, 0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(changed) => recorded = changed,
            }
        }
    }

    /// Ends the epoch and begins the next one, which starts at the current live bytes. Calls must
    /// not overlap; the recorder's lock ensures that.
    ///
    /// With `rarely`, nothing is counted out at once in the next epoch either
    /// ([`Live::count_out_rarely`]).
    pub(crate) fn end_epoch(&self, rarely: bool) -> Epoch {
        // Only this function changes the epoch, so it can be read before the step that ends it.
        let ending = epoch(self.word.load(Ordering::Relaxed));
        // No epoch is 0: zero stands for no peak. The next one is even, and uses the other `aside`.
        let steps = if ending == LAST_EPOCH { 3 } else { 1 };
        let next = ending.wrapping_add(steps) << EPOCH_SHIFT;
        self.aside(next).store(next, Ordering::Relaxed);
        // Acquire: whoever finds it taken aside sees it there.
        let before = self.peak.swap(0, Ordering::Acquire);
        // The step. A thread that sees the new epoch also sees the two changes above.
        let word = self.word.fetch_add(steps << EPOCH_SHIFT, Ordering::AcqRel);
        let between = if rarely {
            self.peak.load(Ordering::Relaxed)
        } else {
            self.peak.fetch_max(next, Ordering::Relaxed)
        };
        let recorded = [before, between, self.aside(word).load(Ordering::Relaxed)];
        let live = word & BYTES_MASK;
        let of_this_epoch = recorded.iter().filter(|&&recorded| epoch(recorded) == ending);
        Epoch { live, peak: of_this_epoch.fold(live, |peak, recorded| peak.max(recorded & BYTES_MASK)) }
    }
}

/// Raises a maximum to a word of the same epoch. Returns false, and changes nothing, if the epochs
/// differ.
fn raise(maximum: &AtomicU64, word: u64) -> bool {
    let mut current = maximum.load(Ordering::Relaxed);
    while epoch(current) == epoch(word) {
        if current >= word {
            return true;
        }
        match maximum.compare_exchange_weak(current, word, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(changed) => current = changed,
        }
    }
    false
}

fn epoch(word: u64) -> u64 {
    word >> EPOCH_SHIFT
}
