//! How processes end, and what other processes they make.

use crate::laboratory::{Experiment, Record, program, text};

fn ended(way: &str) -> Record {
    Experiment::of(program("ending", &[])).arg(way).run()
}

#[test]
fn what_was_logged_before_a_violent_end_is_kept() {
    for way in ["abort", "kill", "segfault", "_exit"] {
        let record = ended(way);
        assert!(!record.output.status.success(), "{way}");
        assert_eq!(record.labels(), ["start", "before the end"], "{way}");
        assert!(record.events("end").is_empty(), "{way}");
    }
}

#[test]
fn done_is_logged_whenever_the_process_ends_by_itself() {
    for (way, code) in [("exit", 4), ("panic", 101), ("exit on a thread", 5), ("atexit", 0)] {
        let record = ended(way);
        assert_eq!(record.output.status.code(), Some(code), "{way}");
        assert_eq!(record.labels(), ["start", "before the end", "done"], "{way}");
        assert_eq!(record.lines().last().unwrap()["event"], "end", "{way}");
    }
}

#[test]
fn what_exit_handlers_allocate_is_in_done() {
    let record = ended("atexit");
    let before = record.figure("before the end", "heap.live");
    let done = record.figure("done", "heap.live");
    assert_eq!(record.figure("done", "heap.allocated"), 4_321);
    assert!(done > before && done <= before + 4_321, "main's own memory may be gone: {before} {done}");
}

#[test]
#[cfg(unix)]
fn a_forked_child_leaves_no_trace_in_its_parents_log() {
    let record = Experiment::of(program("fork", &[])).env("MEMPROF_PRINT", "0").succeed();
    let process = &record.lines()[0]["pid"];
    assert!(record.lines().iter().all(|line| line["pid"] == *process));
    let mut expected = vec!["meanwhile"; 404];
    expected[0] = "start";
    expected[1] = "before";
    expected.splice(402.., ["after", "done"]);
    assert_eq!(record.labels(), expected);
    assert_eq!(record.events("end").len(), 1);
    let [named] = record.events("tensor")[..] else { panic!("the parent names one tensor") };
    assert_eq!(named["name"], "of the parent");
    assert_eq!(record.events("tensors_end").len(), 1);
    assert!(record.events("pool").is_empty());
    assert!(record.figure("after", "heap.peak") < 1_000_000, "the children's memory is theirs");
}

#[test]
fn programs_that_the_test_starts_do_not_log() {
    let record = Experiment::of(program("children", &[]))
        .env("MEMPROF_METRICS", "")
        .env("MEMPROF_OTHER", "1")
        .succeed();
    assert_eq!(record.labels(), ["start", "parent", "done"]);
    let stdout = text(&record.output.stdout);
    assert_eq!(stdout, "parent: [\"MEMPROF_OTHER\"]\nchild: [\"MEMPROF_OTHER\"]\n");
}
