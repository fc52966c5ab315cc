//! Usages, assertions about them, and parameters: with the shim, and in an ordinary build.

use std::path::PathBuf;

use crate::laboratory::{Experiment, figure, ordinary_program, program, text};
use crate::skips::skip;

fn measuring() -> PathBuf {
    program("usage", &["--cfg", "memprof"])
}

/// Standard error of the program, whose assertion must fail at this line.
fn failure(assertion: &str, line_with: &str) -> String {
    let record = Experiment::of(measuring()).arg(assertion).run();
    let output = &record.output;
    assert_eq!(output.status.code(), Some(101), "{assertion}");
    let source = include_str!("../../fixtures/shim/usage.rs");
    let line = source.lines().position(|line| line.contains(line_with)).expect("the line") + 1;
    let stderr = text(&output.stderr);
    assert!(stderr.contains(&format!("usage.rs:{line}")), "{stderr}");
    stderr
}

#[test]
fn a_usage_has_the_figures_of_its_scope_in_the_log() {
    let record = Experiment::of(measuring()).succeed();
    let scope = record.scope("kept 1");
    let metrics = ["heap.consumed", "heap.peaked", "heap.allocated", "heap.count"];
    assert_eq!(metrics.map(|metric| figure(scope, metric)), [1_000_000, 2_000_000, 4_000_000, 2]);
    assert!(scope["at"].as_str().unwrap().ends_with("usage.rs:14"), "{scope}");
    let stdout = text(&record.output.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    let heap = "heap: rise 2.86 MiB, transient 1.91 MiB, kept 977 KiB, ";
    assert!(lines[0].starts_with(heap) && lines[0].contains("; cpu: rise "), "{stdout}");
    assert!(lines[0].contains(", 2 allocations of 3.81 MiB; "), "{stdout}");
    assert!(lines[1].starts_with(heap) && lines[2].starts_with("cpu: rise "), "{stdout}");
    assert!(lines[3].contains("time: "), "{stdout}");
    assert_eq!(lines[4], "-1000000");
    assert_eq!(figure(record.scope("finished 1000000"), "heap.consumed"), -1_000_000);
}

#[test]
fn a_failed_assertion_shows_figure_limit_place_and_usage() {
    let operator = failure("operator", "Some(\"operator\")");
    assert!(operator.contains("transient 1.91 MiB"), "{operator}");
    let peak = failure("peak", "Some(\"peak\")");
    let told = "the heap rose by 2.86 MiB (3000000 B), and the limit is 2.00 MiB (2097152 B)\nheap: rise";
    assert!(peak.contains("assert_heap_peak! at ") && peak.contains(told), "{peak}");
    let message = failure("message", "Some(\"message\")");
    assert!(message.contains(": it freed -1000000: the heap rose by 2.86 MiB"), "{message}");
    let leak = failure("leak", "Some(\"leak\")");
    assert!(leak.contains("the heap grew by 977 KiB (1000000 B), and the limit is 1000 B\n"), "{leak}");
    let allocations = failure("allocations", "Some(\"allocations\")");
    assert!(allocations.contains("2 allocations, and the limit is 1 allocation\n"), "{allocations}");
}

#[test]
fn an_assertion_about_a_figure_that_a_run_lacks_fails_with_the_reason() {
    // Without the cfg, the program does not link the tracking allocator.
    let untracked = program("usage", &[]);
    for assertion in ["operator", "peak"] {
        let record = Experiment::of(&untracked).arg(assertion).env("MEMPROF_HEAP_ABSENT", "a test").run();
        let stderr = text(&record.output.stderr);
        assert_eq!(record.output.status.code(), Some(101), "{stderr}");
        assert!(stderr.contains("heap: unavailable (a test)"), "{stderr}");
    }
}

#[test]
fn the_same_program_passes_without_figures_in_an_ordinary_build() {
    let Some(executable) = ordinary_program("usage", &[]) else {
        return skip("crates/memprof is not here; it is a package of its own");
    };
    for assertion in ["", "operator", "peak", "message", "leak", "allocations", "parameter"] {
        // What cargo memprof would set is nothing to it.
        let record = Experiment::of(&executable).arg(assertion).env("batch", "no number").succeed();
        assert!(!record.has_log());
        let stdout = text(&record.output.stdout);
        let absent = "not measured; run under `cargo memprof`\n";
        assert!(stdout.starts_with(&absent.repeat(3)), "{stdout}");
        assert!(assertion != "parameter" || stdout.ends_with("batch None\n"), "{stdout}");
    }
}

#[test]
fn the_measuring_program_started_by_hand_passes_without_figures_too() {
    for assertion in ["operator", "peak", "leak", "allocations", "parameter"] {
        let record = Experiment::outside_a_run(measuring()).arg(assertion).succeed();
        assert!(text(&record.output.stdout).starts_with("not measured; run under `cargo memprof`\n"));
    }
}

#[test]
fn a_parameter_is_parsed_or_fails_the_test() {
    let run = |batch: Option<&str>| {
        let experiment = Experiment::of(measuring()).arg("parameter");
        match batch {
            Some(batch) => experiment.env("batch", batch).run(),
            None => experiment.run(),
        }
    };
    assert!(text(&run(Some("64")).output.stdout).ends_with("batch Some(64)\n"));
    assert!(text(&run(None).output.stdout).ends_with("batch None\n"));
    let wrong = run(Some("many"));
    assert_eq!(wrong.output.status.code(), Some(101));
    let told = "the parameter 'batch' is 'many', which is not a valid u32: invalid digit found in string";
    assert!(text(&wrong.output.stderr).contains(told), "{}", text(&wrong.output.stderr));
}

#[test]
fn a_call_in_an_ordinary_build_allocates_nothing() {
    let Some(executable) = ordinary_program("inert_crate", &["-C", "opt-level=0"]) else {
        return skip("crates/memprof is not here; it is a package of its own");
    };
    Experiment::of(executable).succeed();
}
