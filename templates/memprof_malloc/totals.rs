//! Bytes and blocks allocated since the process began. Threads are spread over several pairs of
//! counters, so that they seldom wait for each other.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::thread_number;

const PAIRS: usize = 64;

/// On a cache line of its own.
#[repr(align(64))]
struct Pair {
    bytes: AtomicU64,
    blocks: AtomicU64,
}

static TOTALS: [Pair; PAIRS] = {
    #[allow(clippy::declare_interior_mutable_const)]
    const ZERO: Pair = Pair { bytes: AtomicU64::new(0), blocks: AtomicU64::new(0) };
    [ZERO; PAIRS]
};

/// Counts a block.
pub(crate) fn add(bytes: usize) {
    // Threads' addresses differ above the page.
    let pair = &TOTALS[thread_number::place().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58];
    pair.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    pair.blocks.fetch_add(1, Ordering::Relaxed);
}

/// Returns bytes and blocks.
pub(crate) fn read() -> (u64, u64) {
    let pairs = TOTALS.iter();
    let numbers = pairs.map(|pair| (pair.bytes.load(Ordering::Relaxed), pair.blocks.load(Ordering::Relaxed)));
    numbers.fold((0, 0), |sum, next| (sum.0.wrapping_add(next.0), sum.1.wrapping_add(next.1)))
}
