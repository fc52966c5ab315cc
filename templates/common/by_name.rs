//! Goes through a map of variables in the order of their names, without the heap.
//!
//! A `HashMap` has another order in every process. The order matters: of several tensors that share
//! a storage, the first one named counts.

// `Option::is_some_and` needs a newer compiler than the shim does.
#![allow(clippy::unnecessary_map_or)]

use std::cmp::Ordering;
use std::collections::HashMap;

/// Calls for each entry, in order; `layers.2` comes before `layers.10`.
pub(crate) fn each<'a, T>(all: &'a HashMap<String, T>, mut call: impl FnMut(&'a str, &'a T)) {
    let mut last: Option<&str> = None;
    loop {
        // Each pass finds the next 128 entries, so a large map takes several passes.
        let mut next: [Option<(&str, &T)>; 128] = [None; 128];
        let mut count = 0;
        for (name, one) in all {
            if last.map_or(false, |last| order(name, last) != Ordering::Greater) {
                continue;
            }
            let is_before = |known: &Option<(&str, &T)>| {
                known.map_or(false, |(known, _)| order(known, name) == Ordering::Less)
            };
            let place = next[..count].partition_point(is_before);
            if place < next.len() {
                count = next.len().min(count + 1);
                next[place..count].rotate_right(1);
                next[place] = Some((name, one));
            }
        }
        for (name, one) in next.iter().flatten() {
            call(name, one);
            last = Some(name);
        }
        if count < next.len() {
            return;
        }
    }
}

/// Compares part by part. Parts that are numbers compare by value.
fn order(one: &str, other: &str) -> Ordering {
    let key = |part| (str::parse::<u64>(part).map_or((1, 0), |number| (0, number)), part);
    one.split('.').map(key).cmp(other.split('.').map(key))
}
