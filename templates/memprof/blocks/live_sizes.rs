//! How many live blocks of each size the global allocator has, for blocks of at least [`LEAST`]
//! bytes. In a run that records call stacks, also by site. So a report can tell which of them no
//! tensor has a name for.
//!
//! The table is a static, without locks. Each operation is a hash and an atomic step.

// The cast values are sizes, which are below 2^40, and parts of hashes.
#![allow(clippy::cast_possible_truncation)]

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::blocks::size_count::SizeCount;
use crate::platform::untracked::Untracked;

/// Smaller blocks are not counted by size. They are many, and seldom tensors.
pub(crate) const LEAST: usize = 4096;

/// A power of two.
const PLACES: usize = 1 << 13;
/// How many places are tried for a size.
const TRIES: usize = 64;
/// A key is a size below, and a site above this bit.
const SITE_BIT: u32 = 40;

struct Place {
    /// 0 if it is free.
    key: AtomicU64,
    count: AtomicI64,
}

static TABLE: [Place; PLACES] = {
    #[allow(clippy::declare_interior_mutable_const)]
    const FREE: Place = Place { key: AtomicU64::new(0), count: AtomicI64::new(0) };
    [FREE; PLACES]
};

/// Whether a size found no place. The counts are then incomplete from there on.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Counts a new block of at least [`LEAST`] bytes.
pub(crate) fn add(bytes: usize, site: u32) {
    if let Some(place) = place_of(bytes, site) {
        place.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts that such a block is gone.
pub(crate) fn subtract(bytes: usize, site: u32) {
    if let Some(place) = place_of(bytes, site) {
        place.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts that a block got another size.
pub(crate) fn change(old: (usize, u32), new: (usize, u32)) {
    if old.0 >= LEAST {
        subtract(old.0, old.1);
    }
    if new.0 >= LEAST {
        add(new.0, new.1);
    }
}

fn place_of(bytes: usize, site: u32) -> Option<&'static Place> {
    let key = bytes as u64 | u64::from(site) << SITE_BIT;
    let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    if (bytes as u64) < 1 << SITE_BIT {
        for place in (0..TRIES).map(|step| &TABLE[(first + step) & (PLACES - 1)]) {
            let known = match place.key.load(Ordering::Relaxed) {
                // Another thread may be faster, perhaps with this very key.
                0 => match place.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => key,
                    Err(other) => other,
                },
                known => known,
            };
            if known == key {
                return Some(place);
            }
        }
    }
    IS_FULL.store(true, Ordering::Relaxed);
    None
}

/// Puts all sizes into the array, in an order that is the same while the same blocks are live. Returns
/// whether these are all of them.
pub(crate) fn read(into: &mut Untracked<SizeCount>) -> bool {
    into.clear();
    for place in &TABLE {
        // Threads that free and allocate meanwhile may bring it below zero for a moment.
        let count = place.count.load(Ordering::Relaxed).max(0) as u64;
        if count > 0 {
            let key = place.key.load(Ordering::Relaxed);
            into.push(SizeCount { bytes: key & ((1 << SITE_BIT) - 1), count, site: key >> SITE_BIT });
        }
    }
    into.as_mut().sort_unstable_by_key(|one| (one.bytes, one.site));
    !IS_FULL.load(Ordering::Relaxed)
}
