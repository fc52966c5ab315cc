//! How often each label was logged: the second `decoded` in a loop has occurrence 2.

// The lower bits of a hash pick its place.
#![allow(clippy::cast_possible_truncation)]

use crate::platform::untracked::Untracked;

/// What has a label. Each kind counts by itself, because labels of different kinds may be equal:
/// for example the shim's own checkpoint `start` and a test's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logged {
    Checkpoint,
    OwnCheckpoint,
    Scope,
    Call,
    Forward,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    logged: Logged,
    label_start: usize,
    label_length: usize,
    count: u64,
}

/// A hash table with open addressing; a count of zero marks a free place.
pub(crate) struct Occurrences {
    places: Untracked<Entry>,
    used: usize,
    labels: Untracked<u8>,
}

const FREE: Entry = Entry { hash: 0, logged: Logged::Checkpoint, label_start: 0, label_length: 0, count: 0 };

impl Occurrences {
    pub(crate) const fn new() -> Self {
        Self { places: Untracked::new(), used: 0, labels: Untracked::new() }
    }

    /// Counts one more of this label. Returns its 1-based occurrence.
    pub(crate) fn next(&mut self, logged: Logged, label: &str) -> u64 {
        if self.used * 2 >= self.places.len() {
            self.grow();
        }
        let hash = hash(label.as_bytes());
        let mask = self.places.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let entry = self.places[index];
            if entry.count == 0 {
                let label_start = self.labels.len();
                self.labels.extend(label.as_bytes());
                self.places.as_mut()[index] =
                    Entry { hash, logged, label_start, label_length: label.len(), count: 1 };
                self.used += 1;
                return 1;
            }
            let kept = &self.labels[entry.label_start..entry.label_start + entry.label_length];
            if entry.hash == hash && entry.logged == logged && kept == label.as_bytes() {
                self.places.as_mut()[index].count += 1;
                return entry.count + 1;
            }
            index = (index + 1) & mask;
        }
    }

    /// Doubles the table, whose length is always a power of two.
    fn grow(&mut self) {
        let length = (self.places.len() * 2).max(64);
        let mut places = Untracked::new();
        places.reserve(length);
        for _ in 0..length {
            places.push(FREE);
        }
        for entry in self.places.iter().filter(|entry| entry.count != 0) {
            let mut index = entry.hash as usize & (length - 1);
            while places[index].count != 0 {
                index = (index + 1) & (length - 1);
            }
            places.as_mut()[index] = *entry;
        }
        self.places = places;
    }
}

/// FNV-1a, with its upper half folded into the lower one, which picks the place.
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for &byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 32)
}
