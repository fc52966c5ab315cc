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
//!   takes the larger of those and the recorded peak. A checkpoint at which the live bytes are at their maximum is right for this reason.
//!
//! The swap in `subtract` is a release and the addition in `end_epoch` an acquire. All changes of the word between
//! them are read-modify-write steps, which continue the release sequence, so the records of all decrements that come
//! before the end of the epoch are seen after it.
//!
//! A thread may stall between reading the word and recording it. Each epoch has a peak of its own (two words, used in
//! turn) tagged with the epoch, and a record is dropped if the tag is another: a late one cannot raise a later epoch's
//! peak, nor is it missed, because its swap then fails and the new value is compared anew. (The tag repeats after
//! 65,536 epochs: a thread would have to stall for a multiple of that between two instructions.)
//!
//! To find the right one of two peaks costs instructions on every deallocation, so these compare with `ceiling`
//! first: a word with its epoch that is never above the recorded peak of that epoch. Below it there is nothing to
//! record. Tags are compared by size there, which the wrap from 65,535 to 0 would break, so the ceiling is zero
//! (everything is above it, and goes the slow and exact way) while an epoch ends, and only a record of the ceiling's own
//! epoch may raise it. A word of an older epoch than the ceiling's passes the comparison, but then its swap fails.

use std::sync::atomic::{AtomicU64, Ordering};

const EPOCH_SHIFT: u32 = 48;
const BYTES_MASK: u64 = (1 << EPOCH_SHIFT) - 1;

/// All on one cache line: an allocator call that owns the line has all it needs.
#[repr(align(64))]
struct Line {
    word: AtomicU64,
    ceiling: AtomicU64,
    peaks: [AtomicU64; 2],
}

static LINE: Line = Line {
    word: AtomicU64::new(0),
    ceiling: AtomicU64::new(0),
    peaks: [AtomicU64::new(0), AtomicU64::new(0)],
};

/// What an epoch ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Bytes live at its end.
    pub(crate) live: u64,
    /// Most bytes live from its first moment to its last, both included.
    pub(crate) peak: u64,
}

/// Counts bytes in.
#[inline(always)]
pub(crate) fn add(bytes: usize) {
    // Relaxed is enough: a read-modify-write step continues the release sequence of the decrements before it, and
    // publishes nothing of its own.
    LINE.word.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Counts bytes out if that is one step: the word is not above the ceiling, and no other thread changes it meanwhile.
/// Otherwise nothing is counted, and [`subtract`] is to be called.
#[inline(always)]
#[must_use]
pub(crate) fn subtract_at_once(bytes: usize) -> bool {
    let word = LINE.word.load(Ordering::Acquire);
    // Acquire: whoever raised the ceiling had raised the peak before, and our release must pass that on.
    word <= LINE.ceiling.load(Ordering::Acquire) && swap(word, bytes).is_ok()
}

/// Counts bytes out, after the word's value before it is sure to be in the peak.
#[cold]
#[inline(never)]
pub(crate) fn subtract(bytes: usize) {
    let mut word = LINE.word.load(Ordering::Acquire);
    loop {
        if word > LINE.ceiling.load(Ordering::Acquire) {
            raise(peak_of(word), word);
            raise(&LINE.ceiling, word);
        }
        match swap(word, bytes) {
            Ok(_) => return,
            Err(changed) => word = changed,
        }
    }
}

#[inline(always)]
fn swap(word: u64, bytes: usize) -> Result<u64, u64> {
    let less = word.wrapping_sub(bytes as u64);
    // Acquire on success too only because Rust before 1.64 wants it to be no weaker than on failure.
    LINE.word.compare_exchange_weak(word, less, Ordering::AcqRel, Ordering::Acquire)
}

/// Raises a tagged maximum to a word of the same epoch; one of another epoch is left alone.
fn raise(maximum: &AtomicU64, word: u64) {
    let mut current = maximum.load(Ordering::Relaxed);
    while current >> EPOCH_SHIFT == word >> EPOCH_SHIFT && current < word {
        match maximum.compare_exchange_weak(current, word, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(changed) => current = changed,
        }
    }
}

fn peak_of(word: u64) -> &'static AtomicU64 {
    &LINE.peaks[(word >> EPOCH_SHIFT) as usize & 1]
}

/// Ends the epoch and begins the next one, which starts at the bytes live now. Calls must not overlap: the recorder's
/// lock sees to that.
pub(crate) fn end_epoch() -> Epoch {
    // Only this function changes the epoch, so it can be read ahead of the step that ends it.
    let next = (LINE.word.load(Ordering::Relaxed) >> EPOCH_SHIFT).wrapping_add(1) << EPOCH_SHIFT;
    // The next epoch's peak is made ready and the ceiling taken down first; the addition publishes both.
    peak_of(next).store(next, Ordering::Relaxed);
    LINE.ceiling.store(0, Ordering::Relaxed);
    let word = LINE.word.fetch_add(1 << EPOCH_SHIFT, Ordering::AcqRel);
    LINE.ceiling.store(next, Ordering::Release);
    let live = word & BYTES_MASK;
    let recorded = peak_of(word).load(Ordering::Relaxed) & BYTES_MASK;
    Epoch { live, peak: recorded.max(live) }
}
