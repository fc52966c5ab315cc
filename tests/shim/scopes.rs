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
}

/// The depth counts there, so that readers find the scopes around it.
#[test]
fn a_scope_that_ends_on_another_thread_is_logged_as_one_of_the_thread_where_it_began() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    let thread = |label: &str| record.scope(label)["thread"].as_u64().unwrap();
    assert_eq!((thread("outer"), thread("moved"), thread("moved among others")), (1, 1, 1));
    assert_eq!((thread("around"), thread("within")), (2, 2));
}

#[test]
fn a_scope_that_ends_on_another_thread_leaves_the_depth_of_those_there_alone() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    let depth = |label: &str| record.scope(label)["depth"].as_u64().unwrap();
    assert_eq!((depth("around"), depth("within")), (0, 1));
}

#[test]
fn a_scope_that_ends_on_another_thread_is_no_longer_open_on_its_own() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    let depths = |label: &str| -> Vec<u64> {
        let scopes = record.events("scope").into_iter().filter(|line| line["label"] == label);
        scopes.map(|line| line["depth"].as_u64().unwrap()).collect()
    };
    assert_eq!((depths("moved"), depths("recursion")), (vec![0], vec![2, 1, 0]));
}

#[test]
fn the_outermost_scope_of_a_recursion_is_the_first_of_its_label() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    let scopes = record.events("scope").into_iter().filter(|line| line["label"] == "recursion");
    let told: Vec<_> =
        scopes.map(|line| (line["occurrence"].as_u64().unwrap(), figure(line, "heap.peaked"))).collect();
    assert_eq!(told, [(3, 1_000), (2, 2_000), (1, 3_000)]);
}

#[test]
fn what_the_arguments_of_a_label_hold_is_freed_before_figures_are_read() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    assert_eq!(heap(&record, "temporary 1000"), [0, 0, 0, 0]);
    let checkpoint = record.checkpoint("temporary 1000");
    assert_eq!(figure(checkpoint, "heap.live"), figure(record.scope("temporary 1000"), "heap.used"));
}

#[test]
fn loops_log_each_nth_time() {
    let record = Experiment::of(program("every", &[])).succeed();
    assert_eq!(record.labels(), ["start", "step 3", "step 6", "index 1", "index 3", "index 5", "done"]);
}
