//! Heap figures, to the byte.

use crate::laboratory::{Experiment, Record, figure, program};

/// What changed from the checkpoint before: live bytes, peak above the live bytes before, bytes and blocks allocated.
fn changes(record: &Record, before: &str, after: &str) -> [i64; 4] {
    let live = record.figure(before, "heap.live");
    [
        record.figure(after, "heap.live") - live,
        record.figure(after, "heap.peak") - live,
        record.figure(after, "heap.allocated"),
        record.figure(after, "heap.count"),
    ]
}

fn assert_known_amounts(record: &Record) {
    let changes = |before, after| changes(record, before, after);
    assert_eq!(changes("ready", "kept"), [1_000_003, 1_000_003, 1_000_003, 1]);
    assert_eq!(changes("kept", "transient"), [0, 5_000_011, 5_000_011, 1]);
    assert_eq!(changes("transient", "summit"), [7_000_001, 7_000_001, 7_000_001, 1]);
    assert_eq!(changes("summit", "after the summit"), [-7_000_001, 0, 0, 0]);
    assert_eq!(changes("after the summit", "grown"), [30_000, 30_000, 31_000, 2]);
    assert_eq!(changes("grown", "shrunk"), [-29_999, 0, 1, 1]);
    assert_eq!(changes("shrunk", "dropped"), [-1, 0, 0, 0]);
    assert_eq!(changes("dropped", "zeroed"), [123_456, 123_456, 123_456, 1]);
    assert_eq!(changes("zeroed", "over-aligned"), [777 - 123_456, 0, 777, 1]);
    assert_eq!(changes("over-aligned", "over-aligned and grown"), [1_000, 1_000, 1_777, 1]);
    assert_eq!(changes("over-aligned and grown", "over-aligned and zeroed"), [-1_000, 0, 777, 1]);
    assert_eq!(changes("over-aligned and zeroed", "over-aligned gone"), [-777, 0, 0, 0]);
    assert_eq!(changes("over-aligned gone", "zero-sized"), [0, 0, 0, 0]);
    assert_eq!(changes("zero-sized", "refused"), [0, 100, 100, 1]);
    assert_eq!(changes("refused", "all dropped"), [-1_000_003, 0, 0, 0]);
}

#[test]
fn every_way_to_allocate_is_counted_to_the_byte() {
    let record = Experiment::of(program("heap", &[])).succeed();
    assert_known_amounts(&record);
    assert_eq!(record.figure("start", "heap.live"), 0, "the shim's own memory is not in it");
    assert_eq!(record.figure("start", "heap.peak"), 0);
    assert_eq!(record.figure("start", "heap.count"), 0);
    assert_eq!(record.events("absent").len(), 0);
}

#[test]
#[ignore = "it takes long; `just test-all` runs it"]
fn the_figures_are_the_same_with_lto_and_abort_and_optimisation() {
    let optimised = ["-C", "opt-level=3", "-C", "lto=fat", "-C", "panic=abort", "-C", "strip=symbols"];
    assert_known_amounts(&Experiment::of(program("heap", &optimised)).succeed());
    assert_known_amounts(
        &Experiment::of(program("heap", &["-C", "lto=thin", "-C", "opt-level=s"])).succeed(),
    );
}

#[test]
fn two_runs_have_the_same_heap_figures() {
    let heap = |record: &Record| -> Vec<Vec<i64>> {
        let metrics = ["heap.live", "heap.peak", "heap.allocated", "heap.count"];
        record
            .events("checkpoint")
            .iter()
            .map(|line| metrics.map(|metric| figure(line, metric)).to_vec())
            .collect()
    };
    let executable = program("heap", &[]);
    assert_eq!(heap(&Experiment::of(&executable).succeed()), heap(&Experiment::of(&executable).succeed()));
}

#[test]
fn a_peak_made_by_many_threads_is_exact() {
    let record = Experiment::of(program("threads", &[])).succeed();
    let shares: i64 = (0..300).map(|index| 10_000 + index).sum();
    let small: i64 = 300 * (1..=100).sum::<i64>();
    assert_eq!(changes(&record, "ready", "shared peak"), [0, shares, shares + small, 300 * 101]);
    // Each thread's last destructor kept 1,000 bytes; what the threads themselves were made of is given back.
    let gone = "300 threads gone";
    assert_eq!(record.figure(gone, "heap.allocated"), 300_000);
    assert_eq!(record.figure(gone, "heap.count"), 300);
}

#[test]
fn a_peak_is_never_below_the_live_bytes_around_it() {
    let record = Experiment::of(program("churn", &["-C", "opt-level=2"])).env("MEMPROF_PRINT", "0").succeed();
    let mut live_before = 0;
    let mut checkpoints = 0;
    for line in record.events("checkpoint") {
        let (live, peak) = (figure(line, "heap.live"), figure(line, "heap.peak"));
        assert!(peak >= live && peak >= live_before, "after {live_before}: {line}");
        // Three threads hold at most 10,000 bytes each; the rest is the threads' own and the harness's.
        assert!(peak - live.min(live_before) <= 30_000 + 20_000, "{line}");
        live_before = live;
        checkpoints += 1;
    }
    assert_eq!(checkpoints, 1_002);
}

#[test]
fn peaks_stay_exact_where_the_epochs_number_wraps() {
    let record = Experiment::of(program("wrap", &[])).env("MEMPROF_PRINT", "0").succeed();
    let live = record.figure("ready", "heap.live");
    let lines = record.events("checkpoint").into_iter().filter(|line| line["label"] == "around the wrap");
    let peaks: Vec<_> = lines.map(|line| figure(line, "heap.peak") - live).collect();
    assert_eq!(peaks, (0..300).map(|index| 1_000 + index * 37 % 1_000).collect::<Vec<_>>());
}

#[test]
fn an_own_allocator_is_counted_where_it_is_wrapped() {
    let record = Experiment::of(program("own_allocator", &[])).succeed();
    assert_eq!(changes(&record, "ready", "kept"), [1_000, 1_000, 1_000, 1]);
}

#[test]
fn heap_metrics_are_absent_with_the_reason_where_no_tracking_allocator_is_linked() {
    let executable = program("own_allocator", &["--cfg", "unwrapped"]);
    let names = ["heap.live", "heap.peak", "heap.allocated", "heap.count"];
    let reasons = |record: &Record| -> Vec<(String, String)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        record.events("absent").iter().map(|line| (text(&line["metric"]), text(&line["reason"]))).collect()
    };

    let record = Experiment::of(&executable).env("MEMPROF_HEAP_ABSENT", "it has \"its own\"").succeed();
    assert_eq!(reasons(&record), names.map(|name| (name.to_owned(), "it has \"its own\"".to_owned())));
    assert!(record.events("checkpoint").iter().all(|line| line["metrics"].get("heap.live").is_none()));
    assert!(record.figure("kept", "cpu.rss") > 0, "the other metrics are there");

    let generic = "memprof's tracking allocator is not this executable's global allocator";
    let record = Experiment::of(&executable).succeed();
    assert_eq!(reasons(&record), names.map(|name| (name.to_owned(), generic.to_owned())));
}

#[test]
fn memory_of_c_that_rust_frees_makes_the_level_unknown_and_not_wrong() {
    let experiment = || Experiment::of(program("c_library", &[])).arg("free-as-rusts");
    let record = experiment().succeed();
    for metric in ["heap.live", "heap.peak"] {
        assert!(record.figure("before", metric) >= 0);
        for label in ["after", "above zero again"] {
            assert!(record.checkpoint(label)["metrics"][metric].is_null(), "{metric}: {}", record.log_text());
        }
        let absent = record.events("absent").into_iter().filter(|line| line["metric"] == metric);
        let reasons: Vec<_> = absent.map(|line| line["reason"].as_str().unwrap()).collect();
        assert!(matches!(*reasons, [reason] if reason.contains("Vec::from_raw_parts")), "{reasons:?}");
    }
    assert_eq!(record.figure("after", "heap.count"), 0);
    assert_eq!(record.figure("above zero again", "heap.allocated"), 64 << 20);
    // Only Rust's blocks have call stacks.
    for stacks in ["headers", "table"] {
        let record = experiment().env("MEMPROF_STACKS", stacks).succeed();
        assert_eq!(changes(&record, "before", "after"), [0; 4], "{stacks}");
        assert_eq!(changes(&record, "after", "above zero again"), [64 << 20, 64 << 20, 64 << 20, 1]);
    }
}

#[test]
fn the_harness_own_allocations_never_vary() {
    let executable = program("libtest", &["--test"]);
    let figures = |test: &str| -> Vec<[i64; 4]> {
        let harness = ["--exact", test, "--nocapture", "--test-threads=1"];
        let experiment = harness.into_iter().fold(Experiment::of(&executable), Experiment::arg);
        let record = experiment.env("MEMPROF_HARNESS_TEST", test).succeed();
        let metrics = ["heap.live", "heap.peak", "heap.allocated", "heap.count"];
        record.events("checkpoint").iter().map(|line| metrics.map(|metric| figure(line, metric))).collect()
    };
    // By the time that this one ends, the harness waits for it.
    let expected = figures("sleep");
    assert_eq!(expected.len(), 3);
    for _ in 0..if cfg!(target_os = "linux") { 200 } else { 0 } {
        assert_eq!(figures("quick"), expected);
    }
    let twins = figures("twins");
    (0..20).for_each(|_| assert_eq!(figures("twins"), twins));
}
