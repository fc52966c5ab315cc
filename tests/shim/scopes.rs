//! Scopes, and checkpoints at each n-th time.

use crate::laboratory::{Experiment, Record, figure, program};

/// Consumed, peaked, allocated, count.
fn heap(record: &Record, label: &str) -> [i64; 4] {
    ["heap.consumed", "heap.peaked", "heap.allocated", "heap.count"]
        .map(|metric| figure(record.scope(label), metric))
}

#[test]
fn each_scope_has_its_own_exact_peak_whatever_is_inside_it() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    assert_eq!(heap(&record, "inner 1"), [0, 3_000_000, 5_000_000, 2]);
    // Its highest moment is its first: nothing is above the larger of its two ends.
    assert_eq!(heap(&record, "inner 2"), [-1_000_000, 0, 10, 1]);
    assert_eq!(heap(&record, "outer"), [0, 4_000_000, 6_500_010, 5]);
    assert_eq!(heap(&record, "overlapping"), [0, 700_000, 1_200_000, 2]);
    let inside = record.checkpoint("inside");
    assert_eq!(figure(record.scope("inner 1"), "heap.used"), figure(inside, "heap.live"));
}

#[test]
fn scopes_do_not_disturb_the_peak_since_the_last_checkpoint() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    let live = record.figure("start", "heap.live");
    assert!(record.figure("inside", "heap.peak") - live >= 4_000_000, "the whole way from `start`");
    let inside = record.figure("inside", "heap.live");
    assert_eq!(record.figure("outside", "heap.peak") - inside, 2_000_000);
    assert!(record.figure("outside", "heap.allocated") >= 2_000_000 + 10 + 1_200_000);
}

#[test]
fn scopes_know_their_depth_place_and_duration() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    let depth = |label: &str| record.scope(label)["depth"].as_u64().unwrap();
    assert_eq!((depth("outer"), depth("inner 1"), depth("inner 2")), (0, 1, 1));
    assert!(record.scope("outer")["at"].as_str().unwrap().ends_with("scopes.rs:9"));
    assert!(figure(record.scope("outer"), "time") >= figure(record.scope("inner 1"), "time"));
    assert_ne!(
        record.scope("moved")["thread"],
        record.scope("outer")["thread"],
        "it ended on another thread"
    );
}

#[test]
fn loops_log_each_nth_time() {
    let record = Experiment::of(program("every", &[])).succeed();
    assert_eq!(record.labels(), ["start", "step 3", "step 6", "index 1", "index 3", "index 5", "done"]);
}
