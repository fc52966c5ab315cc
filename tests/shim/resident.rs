//! Resident memory, within the bound that the source states.

use std::path::Path;

use serde_json::Value;

use crate::laboratory::{Experiment, Record, figure, program, rustc, succeed, text};

const MIB: i64 = 1 << 20;

fn source(record: &Record, metric: &str) -> String {
    record.lines()[0]["sources"][metric].as_str().unwrap().to_owned()
}

/// The bound in the text of a source, `…, within 768 KiB`, in bytes.
fn bound(source: &str) -> i64 {
    let kibibytes = source.split("within ").nth(1).and_then(|rest| rest.strip_suffix(" KiB"));
    kibibytes
        .and_then(|number| number.parse::<i64>().ok())
        .unwrap_or_else(|| panic!("no bound in '{source}'"))
        * 1024
}

/// Checks that a figure is what it should be, but for the bound and for what else becomes resident meanwhile: pages of
/// code, and the C library's own.
fn assert_near(figure: i64, expected: i64, bound: i64) {
    assert!((figure - expected).abs() <= bound + MIB / 2, "{figure} for {expected}, within {bound}");
}

#[test]
#[cfg(target_os = "linux")]
fn resident_memory_and_its_peak_are_within_the_stated_bound() {
    let record = Experiment::of(program("resident", &[])).succeed();
    assert!(source(&record, "cpu.peak").starts_with("VmHWM since the last checkpoint, "));
    let bound = bound(&source(&record, "cpu.peak"));
    let ready = record.figure("ready", "cpu.rss");
    assert_near(record.figure("transient", "cpu.peak"), ready + 256 * MIB, bound);
    assert_near(record.figure("transient", "cpu.rss"), ready, bound);
    let scope = |metric| figure(record.scope("scope"), metric);
    assert_near(scope("cpu.peaked"), 256 * MIB, bound);
    assert_near(scope("cpu.consumed"), 0, bound);
    assert_near(record.figure("calm", "cpu.peak"), ready, bound);
    assert_near(record.figure("kept", "cpu.rss"), ready + 64 * MIB, bound);
    assert_near(record.figure("gone", "cpu.peak"), ready + 64 * MIB, bound);
    assert_near(record.figure("gone", "cpu.rss"), ready, bound);
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn the_programs_own_pages_are_told() {
    let record = Experiment::of(program("resident", &[])).succeed();
    let pages = |label| record.figure(label, "cpu.program");
    assert!(
        pages("ready") > 0 && pages("ready") < record.figure("ready", "cpu.rss"),
        "{}",
        record.log_text()
    );
    // Memory of its own does not count, and code that runs for the first time does.
    assert!((0..MIB).contains(&(pages("kept") - pages("ready"))), "{} {}", pages("ready"), pages("kept"));
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn the_executable_counts_also_where_it_is_mapped_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let record = Experiment::of(program("maps_itself", &[])).arg(folder.path().join("other")).succeed();
    let figure = |label, metric| record.figure(label, metric);
    assert!(figure("other", "cpu.rss") > figure("ready", "cpu.rss") + 7 * MIB, "{}", record.log_text());
    let growth = |from, to| figure(to, "cpu.program") - figure(from, "cpu.program");
    assert!(
        (0..MIB).contains(&growth("ready", "other")),
        "another file is the test's: {}",
        record.log_text()
    );
    assert!(growth("other", "own") > 7 * MIB, "{}", record.log_text());
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn the_pages_of_a_large_library_are_counted_again_when_they_change() {
    let sysroot = text(&succeed(rustc().args(["--print", "sysroot"])).stdout);
    let files = std::fs::read_dir(Path::new(sysroot.trim()).join("lib")).unwrap().map(|entry| entry.unwrap());
    // A distribution's compiler may use a library that is elsewhere.
    let Some(large) = files.into_iter().find(|file| {
        file.file_name().to_string_lossy().starts_with("libLLVM")
            && file.metadata().unwrap().len() > 100 << 20
    }) else {
        return crate::skips::skip("the compiler has no library of 100 MiB beside it");
    };
    let record = Experiment::of(program("large_library", &[])).arg(large.path()).succeed();
    let pages = |label| record.figure(label, "cpu.program");
    assert!(pages("loaded") > pages("start") + MIB, "{}", record.log_text());
    // Within the kernel's batch of each processor on which it ran.
    assert!((0..MIB).contains(&(pages("same") - pages("loaded"))), "{}", record.log_text());
    assert!(pages("read") > pages("same") + 8 * MIB, "{}", record.log_text());
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn what_the_c_library_keeps_after_a_free_is_told() {
    let record = Experiment::of(program("resident", &[])).succeed();
    assert_eq!(source(&record, "cpu.kept"), "mallinfo2 (fordblks)");
    assert!(record.figure("gone", "cpu.kept") < 4 * MIB, "what was mapped went back");
    let kept = record.figure("freed", "cpu.kept");
    assert!((32 * MIB..36 * MIB).contains(&kept), "{kept}");
    assert!(record.figure("freed", "cpu.rss") >= record.figure("gone", "cpu.rss") + 32 * MIB - MIB);
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn counting_free_blocks_ends_after_a_while_and_the_log_says_why() {
    let record = Experiment::of(program("fragments", &[])).succeed();
    assert!(record.figure("again", "cpu.kept") > 30 * MIB);
    let absent: Vec<_> =
        record.events("absent").into_iter().filter(|line| line["metric"] == "cpu.kept").collect();
    let reason = "counting the free blocks of the C library's allocator took more than 50 ms in this process";
    assert_eq!(absent.len(), 1);
    assert_eq!(absent[0]["reason"], reason);
    assert_eq!(record.events("checkpoint").last().unwrap()["metrics"]["cpu.kept"], Value::Null);
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn what_was_freed_is_returned_before_each_reading_on_request() {
    let record = Experiment::of(program("resident", &[])).env("MEMPROF_TRIM", "1").succeed();
    for metric in ["cpu.rss", "cpu.peak"] {
        assert!(source(&record, metric).ends_with(" KiB, after malloc_trim"), "{metric}");
    }
    assert!(record.figure("freed", "cpu.rss") < record.figure("gone", "cpu.rss") + 8 * MIB);
}

#[test]
fn a_peak_is_never_below_the_resident_memory_of_the_same_checkpoint() {
    for name in ["resident", "heap", "threads"] {
        let record = Experiment::of(program(name, &[])).succeed();
        for line in record.events("checkpoint") {
            let (peak, resident) = (&line["metrics"]["cpu.peak"], &line["metrics"]["cpu.rss"]);
            assert!(peak.as_u64() >= resident.as_u64() && resident.as_u64() > Some(0), "{line}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_large_parent_does_not_raise_the_peak() {
    // What the parent has touched is in the child's `ru_maxrss`.
    let weight = std::hint::black_box(vec![1_u8; 300 << 20]);
    let record = Experiment::of(program("resident", &[])).succeed();
    drop(weight);
    assert!(record.figure("ready", "cpu.peak") < 32 * MIB, "{}", record.log_text());
}

#[test]
#[cfg(target_os = "linux")]
fn shares_and_the_c_library_statistics_come_on_request() {
    let wanted = "cpu.pss, cpu.private,cpu.shared,malloc.live";
    let record = Experiment::of(program("resident", &[])).env("MEMPROF_METRICS", wanted).succeed();
    for (metric, least) in [("cpu.pss", 64 * MIB), ("cpu.private", 64 * MIB), ("malloc.live", 64 * MIB)] {
        let figure = record.figure("kept", metric);
        assert!((least..least + 8 * MIB).contains(&figure), "{metric} {figure}");
    }
    assert!(record.figure("kept", "cpu.shared") > 0);
    assert!(source(&record, "malloc.live").contains("mallinfo2"));

    let record = Experiment::of(program("resident", &[])).succeed();
    let metrics = &record.checkpoint("kept")["metrics"];
    assert_eq!(metrics["cpu.pss"], Value::Null);
    assert_eq!(metrics["malloc.live"], Value::Null);
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn pages_that_are_touched_for_the_first_time_count_on_request() {
    let record = Experiment::of(program("faults", &[])).env("MEMPROF_METRICS", "cpu.faults").succeed();
    assert_eq!(source(&record, "cpu.faults"), "getrusage (ru_minflt)");
    // Beside the pages themselves: code, stack, and what logging a line touches.
    let known = 5_000..5_016;
    let figures = ["mapped", "touched", "touched again"].map(|label| record.figure(label, "cpu.faults"));
    assert!(known.contains(&figures[1]) && figures[0] < 64 && figures[2] < 16, "{figures:?}");
    assert!(known.contains(&figure(record.scope("touching"), "cpu.faults")));

    let record = Experiment::of(program("faults", &[])).succeed();
    assert!(!record.log_text().contains("cpu.faults"));
}

#[test]
fn resident_memory_is_left_out_on_request_and_the_log_says_so() {
    let record = Experiment::of(program("resident", &[])).env("MEMPROF_RESIDENT", "0").succeed();
    let metrics = &record.checkpoint("kept")["metrics"];
    assert!(metrics["heap.live"].as_i64().unwrap() >= 64 * MIB);
    for metric in ["cpu.rss", "cpu.peak"] {
        assert_eq!(metrics[metric], Value::Null);
        assert!(record.log_text().contains(&format!(
            r#""metric":"{metric}","reason":"left out on request (MEMPROF_RESIDENT=0)""#
        )));
    }
    assert!(!record.log_text().contains("cpu.consumed"));
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn what_c_code_allocates_is_in_the_c_library_statistics_and_not_in_the_heap() {
    let record = Experiment::of(program("c_library", &[])).env("MEMPROF_METRICS", "malloc.live").succeed();
    let change = |before, after, metric| record.figure(after, metric) - record.figure(before, metric);
    // A block that is mapped for itself: whole pages, the first of which holds its size.
    let large = change("ready", "large", "malloc.live");
    assert!((64 * MIB..=64 * MIB + 8192).contains(&large), "{large}");
    // 1,000 bytes and the 8 that hold the size, in steps of 16; and what the shim keeps of a label.
    let small = change("large", "small", "malloc.live") - 1_000 * 1_008;
    assert!((0..=256).contains(&small), "{small}");
    let gone = change("small", "large gone", "malloc.live") + large;
    assert!((0..=256).contains(&gone), "{gone}");
    for (before, after) in [("ready", "large"), ("large", "small"), ("small", "large gone")] {
        assert_eq!(change(before, after, "heap.live"), 0, "{after}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn pages_that_are_mapped_twice_are_shared_and_count_once_in_the_proportional_set() {
    let wanted = "cpu.pss,cpu.private,cpu.shared";
    let record = Experiment::of(program("c_library", &[])).env("MEMPROF_METRICS", wanted).succeed();
    let assert_change = |before, after, expected: [i64; 4]| {
        let metrics = ["cpu.rss", "cpu.pss", "cpu.private", "cpu.shared"];
        for (metric, expected) in metrics.into_iter().zip(expected) {
            let change = record.figure(after, metric) - record.figure(before, metric);
            // These are counted page by page; what else becomes resident meanwhile is code. The resident set has its bound.
            let bound = if metric == "cpu.rss" { bound(&source(&record, metric)) } else { 0 };
            assert_near(change, expected * MIB, bound);
        }
    };
    assert_change("before mapping", "mapped once", [32, 32, 32, 0]);
    assert_change("mapped once", "mapped twice", [32, 0, -32, 64]);
    assert_change("mapped twice", "unmapped", [-64, -32, 0, -64]);
    assert_eq!(source(&record, "cpu.pss"), "/proc/self/smaps_rollup");
}
