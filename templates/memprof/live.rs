//! The heap bytes live now, and the most that were live in the current epoch: exact, across threads.
//!
//! One 64-bit word holds both the epoch (upper 16 bits) and the bytes live (lower 48 bits, up to 256 TiB). Every
//! allocation and deallocation of every thread is one atomic step on that word, and so is the end of an epoch. The
//! word's modification order is therefore one total order of all three, and "the most bytes live in epoch `k`" has
//! one meaning: the largest value that the word had while its epoch was `k`.
//!
//! Why it is enough to record the peak before a decrement. Take the largest value of epoch `k` and look at the step
//! that follows it. It cannot be an increment: that would give a larger value in the same epoch. So it is either
//!
//! * a decrement. `subtract` changes the word by a compare-and-swap from a word that it has compared with the peak
//!   (and recorded, if larger) before. The swap succeeds only if the word is still that one, epoch included: whatever
//!   was decremented in epoch `k` had been recorded in epoch `k`'s peak before; or
//! * the end of the epoch. `end_epoch` is an atomic addition, whose result says the bytes live at that very step; it
//!   takes the larger of those and the recorded peak. For this reason a checkpoint is right while the live bytes are
//!   at their maximum.
//!
//! The swap in `subtract` is a release and the addition in `end_epoch` an acquire. All changes of the word between
//! them are read-modify-write steps, which continue the release sequence, so the records of all decrements that come
//! before the end of the epoch are seen after it; and no such decrement can have looked at what `end_epoch` wrote
//! after its addition, for it happened before.
//!
//! A thread may stall between reading the word and recording it. The peak is tagged with its epoch, and a record is
//! dropped if its own tag is another: a late one cannot raise a later epoch's peak, nor is it missed, because its swap
//! then fails and the new value is compared anew. (The tag repeats after 65,536 epochs: a thread would have to stall for
//! a multiple of that between two instructions.)
//!
//! Deallocations compare the word with the peak as whole numbers, tags included, which is one instruction. A word of a
//! newer epoch than the peak's is then larger, and is recorded; one of an older epoch is smaller, and its swap fails.
//! Only the wrap from 65,535 to 0 would break this, so while an epoch ends the peak is zero: everything is larger.
//! What finds no peak of its epoch at that moment is recorded aside, in one of two words used in turn, and counted in
//! when its epoch ends.

// Some of these run at each allocation: benches/allocator.rs measures them.
#![allow(clippy::inline_always)]

use std::sync::atomic::{AtomicU64, Ordering};

const EPOCH_SHIFT: u32 = 48;
const BYTES_MASK: u64 = (1 << EPOCH_SHIFT) - 1;

/// All on one cache line: an allocator call that owns the line has all it needs.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Live {
    word: AtomicU64,
    peak: AtomicU64,
    aside: [AtomicU64; 2],
}

/// What an epoch ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Bytes live at its end.
    pub(crate) live: u64,
    /// Most bytes live from its first moment to its last, both included.
    pub(crate) peak: u64,
}

impl Live {
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            aside: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Counts bytes in.
    #[inline(always)]
    pub(crate) fn add(&self, bytes: usize) {
        // Relaxed is enough: a read-modify-write step continues the release sequence of the decrements before it, and
        // publishes nothing of its own.
        self.word.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes out if that is one step: the word is not above the peak, and no other thread changes it meanwhile.
    /// Otherwise nothing is counted, and [`Live::subtract`] is to be called.
    #[inline(always)]
    #[must_use]
    pub(crate) fn subtract_at_once(&self, bytes: usize) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word <= self.peak.load(Ordering::Relaxed) && self.swap(word, bytes).is_ok()
    }

    /// Counts bytes out, after the word's value before it is sure to be recorded.
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
        // Acquire on success too only because Rust before 1.64 wants it to be no weaker than on failure.
        self.word.compare_exchange_weak(word, less, Ordering::AcqRel, Ordering::Acquire)
    }

    fn aside(&self, word: u64) -> &AtomicU64 {
        &self.aside[(epoch(word) & 1) as usize]
    }

    /// Ends the epoch and begins the next one, which starts at the bytes live now. Calls must not overlap: the recorder's
    /// lock sees to that.
    pub(crate) fn end_epoch(&self) -> Epoch {
        // Only this function changes the epoch, so it can be read ahead of the step that ends it.
        let ending = epoch(self.word.load(Ordering::Relaxed));
        let next = ending.wrapping_add(1) << EPOCH_SHIFT;
        self.aside(next).store(next, Ordering::Relaxed);
        let before = self.peak.swap(0, Ordering::Relaxed);
        // The step. Whoever sees the new epoch sees the two changes above as well.
        let word = self.word.fetch_add(1 << EPOCH_SHIFT, Ordering::AcqRel);
        // Zero is also the peak of an epoch whose tag is 0, which may have been raised meanwhile: if that is the one which
        // ends, it is in `between`; if it is the one which begins, it is not below `next` and stays.
        let between = self.peak.fetch_max(next, Ordering::Relaxed);
        let recorded = [before, between, self.aside(word).load(Ordering::Relaxed)];
        let live = word & BYTES_MASK;
        let of_this_epoch = recorded.iter().filter(|&&recorded| epoch(recorded) == ending);
        Epoch { live, peak: of_this_epoch.fold(live, |peak, recorded| peak.max(recorded & BYTES_MASK)) }
    }
}

/// Raises a maximum to a word of the same epoch. Whether it was of the same epoch; if not, it is left alone.
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
