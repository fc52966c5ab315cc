//! The figures of a test begin and end with its body: to the byte, whatever the harness does around it.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::{Path, PathBuf};

use camino::Utf8Path;
use memprof_judge::symbols::kept_table;
use memprof_judge::symbols::test_body::TestBody;

use crate::laboratory::{Experiment, Record, program};

/// The tests of `fixtures/shim/body.rs`, compiled with these flags.
pub fn tests(flags: &[&str]) -> PathBuf {
    program("body", &[&["--test", "-A", "static_mut_refs"], flags].concat())
}

/// The addresses as the tool gives them.
fn addresses(executable: &Path) -> String {
    match TestBody::find(&fs_err::read(executable).unwrap(), "") {
        TestBody::At(addresses) => {
            addresses.iter().map(|address| format!("{address:x}")).collect::<Vec<_>>().join(",")
        }
        TestBody::Unknown(reason) => panic!("{reason}"),
    }
}

fn unmarked(executable: &Path, test: &str) -> Experiment {
    let experiment = ["--exact", test, "--nocapture", "--test-threads=1"]
        .into_iter()
        .fold(Experiment::of(executable), Experiment::arg);
    experiment.env("MEMPROF_HARNESS_TEST", test).env("RUST_BACKTRACE", "0")
}

pub fn marked(executable: &Path, test: &str) -> Experiment {
    unmarked(executable, test).env("MEMPROF_BODY", addresses(executable))
}

/// Where the figures begin, and why they do not begin with the body.
fn beginning(record: &Record) -> (&str, Option<&str>) {
    let [body] = record.events("body")[..] else { panic!("one line says where the figures begin") };
    (body["begins"].as_str().unwrap(), body["reason"].as_str())
}

/// Peak, live bytes and allocations at `done`.
fn figures(record: &Record) -> [i64; 3] {
    ["heap.peak", "heap.live", "heap.count"].map(|metric| record.figure("done", metric))
}

/// What each test allocates: its peak, what it leaves, and how many blocks; less where the standard
/// library's own blocks are in it.
const KNOWN: [(&str, [i64; 3]); 8] = [
    ("nothing", [0, 0, 0]),
    ("a_block", [20_000, 0, 1]),
    ("keeps_a_block", [50_000, 20_000, 2]),
    ("returns_a_result", [5000, 0, 1]),
    ("fills_a_local", [9000, 0, 1]),
    ("allocates_at_the_end", [700, 70, 2]),
    ("handles_traps", [100, 0, 1]),
    ("forks", [100, 0, 1]),
];

fn check(executable: &Path) {
    for (test, expected) in KNOWN {
        let record = marked(executable, test).succeed();
        assert_eq!(beginning(&record), ("body", None), "{test}");
        assert_eq!(record.labels(), ["start", "done"], "{test}");
        assert_eq!(figures(&record), expected, "{test}");
        assert_eq!(record.figure("start", "heap.peak"), 0, "{test}");
    }
    for test in ["panics", "catches_a_panic", "prints", "another_thread"] {
        let record = marked(executable, test).succeed();
        assert_eq!(record.figure("done", "heap.live"), 0, "{test}");
        assert!(record.figure("done", "heap.count") <= 210, "{test}");
    }
    let record = marked(executable, "panics").succeed();
    assert!((7100..7500).contains(&record.figure("done", "heap.peak")), "{:?}", figures(&record));
}

#[test]
fn the_figures_of_a_test_are_those_of_its_body() {
    check(&tests(&[]));
}

#[test]
#[ignore = "it takes long; `just test-all` runs it"]
fn optimised_code_and_link_time_optimisation_change_nothing() {
    check(&tests(&["-O"]));
    check(&tests(&["-O", "-C", "lto=fat", "-C", "embed-bitcode"]));
}

#[test]
fn a_wrapped_allocator_counts_the_same() {
    check(&tests(&["--cfg", "own_allocator"]));
}

#[test]
fn the_body_is_marked_under_an_allocator_that_is_not_tracked() {
    let executable = tests(&["--cfg", "foreign_allocator"]);
    let record = marked(&executable, "a_block").env("MEMPROF_STACKS", "table").succeed();
    assert_eq!(beginning(&record), ("body", None));
    assert_eq!(record.events("stacks").len(), 1, "call stacks of malloc and of GPUs are recorded");
    assert!(record.checkpoint("done")["metrics"].get("heap.peak").is_none());
    let record = marked(&executable, "there_is_no_such_test").succeed();
    assert_eq!(beginning(&record), ("process", Some("the test's body did not begin")));
}

#[test]
fn an_executable_at_a_fixed_address_is_marked() {
    check(&tests(&["-C", "relocation-model=static"]));
}

#[test]
fn runs_that_record_call_stacks_have_the_same_figures() {
    let executable = tests(&[]);
    let table = format!("{}.unwind", executable.display());
    kept_table::keep(Utf8Path::from_path(&executable).unwrap(), Utf8Path::new(&table)).unwrap().unwrap();
    let known = KNOWN.map(|(test, _)| test);
    for test in known.into_iter().chain(["frees_what_was_before", "grows_what_was_before", "prints"]) {
        let plain = marked(&executable, test).succeed();
        for blocks in ["headers", "table"] {
            let recording =
                marked(&executable, test).env("MEMPROF_STACKS", blocks).env("MEMPROF_UNWIND_TABLE", &table);
            assert_eq!(figures(&recording.succeed()), figures(&plain), "{test} {blocks}");
        }
    }
}

#[test]
fn scopes_that_free_what_was_there_before_have_the_same_figures_with_call_stacks() {
    let executable = tests(&[]);
    for blocks in [None, Some("headers"), Some("table")] {
        let run = marked(&executable, "frees_what_was_before_in_a_scope");
        // The test asserts its own figures, too.
        let record = blocks.into_iter().fold(run, |run, blocks| run.env("MEMPROF_STACKS", blocks)).succeed();
        for (scope, expected) in [("frees", [-3000, 0, -3000]), ("rises", [0, 5000, -3000])] {
            let metrics = &record.scope(scope)["metrics"];
            let figures = ["consumed", "peaked", "used"].map(|part| metrics[format!("heap.{part}")].as_i64());
            assert_eq!(figures, expected.map(Some), "{scope} {blocks:?}");
        }
    }
}

#[test]
fn what_was_there_before_and_is_freed_makes_the_level_negative() {
    let executable = tests(&[]);
    let record = marked(&executable, "frees_what_was_before").succeed();
    // Above the beginning there is nothing: the peak is the beginning itself.
    assert_eq!(figures(&record), [0, -3000, 1]);
    let record = marked(&executable, "grows_what_was_before").succeed();
    assert_eq!(figures(&record), [1000, 1000, 1]);
}

#[test]
fn what_came_before_is_a_metric_on_request() {
    let record = marked(&tests(&[]), "nothing").env("MEMPROF_METRICS", "heap.before").succeed();
    assert!(record.figure("done", "heap.before") >= 3000, "{}", record.log_text());
    assert_eq!(record.figure("done", "heap.live"), 0);
}

#[test]
fn checkpoints_scopes_and_readings_count_from_the_body_too() {
    let record = marked(&tests(&[]), "logs_checkpoints").succeed();
    assert_eq!(record.figure("one block", "heap.live"), 1000);
    assert_eq!(record.figure("one block", "heap.peak"), 1000);
    let scope = &record.scope("a piece")["metrics"];
    assert_eq!((scope["heap.used"].as_i64(), scope["heap.peaked"].as_i64()), (Some(0), Some(2000)));
}

#[test]
fn what_is_logged_after_the_body_keeps_its_place_and_the_time_of_the_test_ends_with_the_body() {
    let record = marked(&tests(&[]), "logs_after_its_end").succeed();
    let times: Vec<u64> = record.lines().iter().map(|line| line["ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{}", record.log_text());
    assert!(
        record.figure("done", "time") + 2_000_000 <= record.figure("late", "time"),
        "{}",
        record.log_text()
    );
}

#[test]
fn without_addresses_the_figures_begin_with_the_process_for_a_reason() {
    let executable = tests(&[]);
    let record = unmarked(&executable, "nothing").env("MEMPROF_BODY_ABSENT", "no symbols").succeed();
    assert_eq!(beginning(&record), ("process", Some("no symbols")));
    assert!(record.figure("done", "heap.peak") > 1000);
    assert!(unmarked(&executable, "nothing").succeed().events("body").is_empty());
}

#[test]
fn a_body_that_never_begins_leaves_the_figures_of_the_process() {
    let record = marked(&tests(&[]), "there_is_no_such_test").succeed();
    assert_eq!(beginning(&record), ("process", Some("the test's body did not begin")));
    assert_eq!(record.labels(), ["start", "done"]);
    assert!(record.figure("done", "heap.peak") > 1000);
}

#[test]
fn a_body_that_leaves_the_process_has_a_whole_log() {
    let record = marked(&tests(&[]), "leaves_the_process").succeed();
    assert_eq!(beginning(&record), ("body", None));
    assert_eq!((record.labels(), record.events("end").len()), (vec!["start", "done"], 1));
    assert_eq!(record.figure("done", "heap.peak"), 100);
}

#[test]
fn what_a_body_that_leaves_the_process_left_behind_is_not_known() {
    let executable = tests(&[]);
    for blocks in [None, Some("headers"), Some("table")] {
        let run = marked(&executable, "leaves_the_process");
        let record = blocks.into_iter().fold(run, |run, blocks| run.env("MEMPROF_STACKS", blocks)).succeed();
        assert_eq!(record.figure("start", "heap.live"), 0);
        let metrics = &record.checkpoint("done")["metrics"];
        assert!(metrics.get("heap.live").is_none(), "exit frees what was there before: {metrics}");
        let absent = record.events("absent").into_iter().find(|line| line["metric"] == "heap.live").unwrap();
        let reason = absent["reason"].as_str().unwrap();
        assert!(reason.starts_with("the test left the process before its body ended"), "{reason}");
    }
}

#[test]
fn a_wrong_address_is_refused() {
    let record = unmarked(&tests(&[]), "nothing").env("MEMPROF_BODY", "address").succeed();
    assert_eq!(beginning(&record), ("process", Some("an address cannot be read")));
}
