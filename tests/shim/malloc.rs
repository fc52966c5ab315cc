//! `malloc.*` from the library in front of the C library's allocator, against what the allocator says
//! of each block.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[cfg(target_arch = "x86_64")]
use crate::body;
use crate::laboratory::{Experiment, Record, cdylib, program, scratch, succeed, text};
use crate::skips::skip;

const ALL: &str = "malloc.live,malloc.peak,malloc.allocated,malloc.count";
const METRICS: [&str; 4] = ["malloc.live", "malloc.peak", "malloc.allocated", "malloc.count"];

fn library() -> std::path::PathBuf {
    cdylib(Path::new("templates/memprof_malloc/lib.rs"), "memprof_malloc")
}

/// A program that is about to run with the library, and with others behind it.
fn counted_with(executable: impl AsRef<Path>, behind: &[&Path]) -> Experiment {
    in_front_of(Experiment::of(executable), behind)
}

fn in_front_of(experiment: Experiment, behind: &[&Path]) -> Experiment {
    let library = library();
    let preload = std::iter::once(library.as_path()).chain(behind.iter().copied());
    let preload: Vec<&str> = preload.map(|path| path.to_str().unwrap()).collect();
    experiment
        .env("MEMPROF_METRICS", ALL)
        .env("MEMPROF_MALLOC", &library)
        .env("LD_PRELOAD", preload.join(":"))
}

fn counted(executable: impl AsRef<Path>) -> Experiment {
    counted_with(executable, &[])
}

fn reason<'a>(record: &'a Record, metric: &str) -> &'a str {
    let absent = record.events("absent").into_iter().find(|line| line["metric"] == metric);
    absent.unwrap_or_else(|| panic!("{metric} is there: {}", record.log_text()))["reason"].as_str().unwrap()
}

/// The figures that a label of `malloc_family` has: live, allocated, count.
fn told(label: &str) -> Option<[i64; 3]> {
    let numbers = label.split_once(": ")?.1.split(' ').map(|number| number.parse().ok());
    numbers.collect::<Option<Vec<i64>>>()?.try_into().ok()
}

/// Compares each checkpoint from the `first` on with its label.
fn assert_as_told(record: &Record, first: &str, steps: usize) {
    let checkpoints = record.events("checkpoint");
    let place = |label: &str| {
        let found = checkpoints.iter().position(|line| line["label"].as_str().unwrap().starts_with(label));
        found.unwrap_or_else(|| panic!("no checkpoint {label} in {}", record.log_text()))
    };
    let figure = |line: &Value, metric: &str| crate::laboratory::figure(line, metric);
    let ready = checkpoints[place(first)];
    let (mut compared, mut before) = (0, figure(ready, "malloc.live"));
    for line in &checkpoints[place(first) + 1..] {
        let label = line["label"].as_str().unwrap();
        let Some([live, allocated, count]) = told(label) else { break };
        assert_eq!(figure(line, "malloc.live") - figure(ready, "malloc.live"), live, "{label}");
        assert_eq!(figure(line, "malloc.allocated"), allocated, "{label}");
        assert_eq!(figure(line, "malloc.count"), count, "{label}");
        // A reallocation is one step, so nothing is higher than both ends.
        if label.starts_with("realloc to nothing") {
            assert!(figure(line, "malloc.peak") > before, "{label}");
        } else {
            assert_eq!(figure(line, "malloc.peak"), before.max(figure(line, "malloc.live")), "{label}");
        }
        before = figure(line, "malloc.live");
        compared += 1;
    }
    assert_eq!(compared, steps, "{}", record.log_text());
}

#[test]
fn each_function_counts_the_usable_bytes_of_its_blocks() {
    let record = counted(program("malloc_family", &[])).arg("family").succeed();
    assert_as_told(&record, "ready", 18);
    let sources = &record.lines()[0]["sources"];
    for metric in METRICS {
        assert!(sources[metric].as_str().unwrap().contains("library in front"), "{sources}");
    }
}

#[test]
fn a_users_own_allocator_stays_behind_the_library_and_tells_the_sizes() {
    let other = cdylib(Path::new("fixtures/shim/malloc_other.rs"), "malloc_other");
    let record = counted_with(program("malloc_family", &[]), &[&other]).arg("family").arg("child").succeed();
    assert_as_told(&record, "ready", 18);
    let first = record.labels().into_iter().find(|label| label.starts_with("malloc: ")).unwrap();
    assert_eq!(told(first).unwrap()[0] % 512, 0, "the other allocator worked: {first}");
    let preload = format!("LD_PRELOAD=Ok({:?})", other.to_str().unwrap());
    assert_eq!(text(&record.output.stdout).trim(), preload);
}

#[test]
fn programs_that_the_test_starts_do_not_load_the_library() {
    let record = counted(program("malloc_family", &[])).arg("child").succeed();
    assert_eq!(text(&record.output.stdout).trim(), "LD_PRELOAD=Err(NotPresent)");
}

#[test]
fn the_peak_is_that_of_all_threads_together() {
    let record = counted(program("malloc_family", &[])).arg("threads").succeed();
    let label = record.labels().into_iter().find(|label| label.starts_with("met: ")).unwrap();
    let [above, allocated, count] = told(label).unwrap();
    let before = record.figure("threads", "malloc.live");
    assert_eq!(record.figure(label, "malloc.live"), before);
    assert_eq!(record.figure(label, "malloc.peak") - before, above);
    // Two more blocks, to ask for their sizes.
    assert_eq!(record.figure(label, "malloc.count") - 2, count);
    let asked = record.figure(label, "malloc.allocated") - allocated;
    assert!((64 << 10..128 << 10).contains(&asked), "{asked}");
}

#[test]
fn blocks_of_an_ending_thread_count() {
    let record = counted(program("malloc_family", &[])).arg("ending-thread").succeed();
    let label = record.labels().into_iter().find(|label| label.starts_with("ended: ")).unwrap();
    let size: i64 = label.strip_prefix("ended: ").unwrap().parse().unwrap();
    assert!(size >= 5_000);
    assert_eq!(record.figure(label, "malloc.live") - record.figure("one thread: 0", "malloc.live"), size);
}

#[test]
fn a_forked_child_works_and_changes_no_figure() {
    for stacks in ["", "table"] {
        let record =
            counted(program("malloc_family", &[])).arg("fork").env("MEMPROF_STACKS", stacks).succeed();
        let (before, after) = ("before the fork", "after the fork");
        assert_eq!(record.figure(before, "malloc.live"), record.figure(after, "malloc.live"));
        assert_eq!(record.figure(after, "malloc.count"), 0);
    }
}

#[test]
fn a_block_of_a_librarys_constructor_counts_and_can_be_freed() {
    let early = cdylib(Path::new("fixtures/shim/malloc_early.rs"), "malloc_early");
    for stacks in ["", "table"] {
        let record = counted_with(program("malloc_family", &[]), &[&early])
            .arg("early")
            .env("MEMPROF_STACKS", stacks)
            .succeed();
        let label = record.labels().into_iter().find(|label| label.starts_with("early: ")).unwrap();
        let size: i64 = label.strip_prefix("early: ").unwrap().parse().unwrap();
        assert!(size >= 5_000 && record.figure("start", "malloc.live") >= size, "{}", record.log_text());
        let freed = record.figure(label, "malloc.live") - record.figure("early freed", "malloc.live");
        assert_eq!(freed, size);
    }
}

#[test]
fn cpps_new_and_delete_count() {
    let compiler = "c++";
    if Command::new(compiler).arg("--version").output().is_err() {
        return skip("there is no C++ compiler");
    }
    let library = scratch("libnew.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/shim/malloc_new.cpp");
    let mut command = Command::new(compiler);
    succeed(command.args(["-shared", "-fPIC", "-std=c++17", "-o"]).arg(&library).arg(source));
    let record = counted(program("malloc_family", &[])).arg(&library).succeed();
    assert_as_told(&record, "loaded", 4);
    fs_err::remove_file(library).unwrap();
}

#[test]
fn the_rust_heap_is_in_malloc_unless_rust_has_another_allocator() {
    let grown = |flags: &[&str]| {
        let record = counted(program("malloc_family", flags)).arg("rust-heap").succeed();
        let grown = |metric| record.figure("vector", metric) - record.figure("before", metric);
        (grown("heap.live"), grown("malloc.live"))
    };
    let (heap, malloc) = grown(&[]);
    assert_eq!(heap, 3 << 20);
    assert!((3 << 20..(3 << 20) + 8_192).contains(&malloc), "{malloc}");
    assert_eq!(grown(&["--cfg", "own_allocator"]), (3 << 20, 0));
}

#[test]
fn a_program_with_its_own_malloc_has_no_figures_but_the_reason() {
    let record = counted(program("own_malloc", &[])).succeed();
    for metric in METRICS {
        assert!(reason(&record, metric).contains("another allocator replaces malloc"), "{metric}");
        assert_eq!(record.checkpoint("ready")["metrics"][metric], Value::Null);
    }
}

#[test]
fn a_static_program_has_no_figures_but_the_reason() {
    let static_program = ["-C", "target-feature=+crt-static"];
    if !crate::laboratory::links(&static_program) {
        return skip("there is no static C library");
    }
    let record = counted(program("heap", &static_program)).env("MEMPROF_TRIM", "1").succeed();
    for metric in METRICS {
        let reason = reason(&record, metric);
        assert!(reason.contains("the executable is static"), "{metric}: {reason}");
    }
    if cfg!(target_env = "gnu") {
        let reason = reason(&record, "malloc.live");
        assert!(reason.ends_with("mallinfo2 cannot be looked up in a static executable"), "{reason}");
        let source = record.lines()[0]["sources"]["cpu.rss"].as_str().unwrap();
        assert!(source.ends_with("malloc_trim cannot be looked up in a static executable"), "{source}");
    }
}

#[test]
fn without_the_library_only_the_c_librarys_own_statistics_are_left() {
    let experiment = || Experiment::of(program("malloc_family", &[])).env("MEMPROF_METRICS", ALL);
    let refused = experiment().env("MEMPROF_MALLOC", "/nonexistent/lib.so").succeed();
    let none = experiment().env("MEMPROF_MALLOC_ABSENT", "no linker").succeed();
    for (record, words) in [(refused, "LD_PRELOAD did not reach this process"), (none, "no linker")] {
        for metric in &METRICS[1..] {
            assert!(reason(&record, metric).contains(words), "{}", record.log_text());
        }
        if cfg!(target_env = "gnu") {
            let source = record.lines()[0]["sources"]["malloc.live"].as_str().unwrap();
            assert!(source.starts_with("mallinfo2"), "{source}");
        }
    }
}

#[test]
#[cfg(target_env = "gnu")]
fn blocks_that_were_allocated_past_the_library_make_no_wrong_figures() {
    for stacks in ["", "table"] {
        let record = counted(program("malloc_family", &[]))
            .arg("past-the-library")
            .env("MEMPROF_STACKS", stacks)
            .succeed();
        for metric in METRICS {
            assert!(record.figure("before", metric) > 0);
            assert_eq!(record.checkpoint("after")["metrics"][metric], Value::Null);
            assert!(reason(&record, metric).contains("RTLD_DEEPBIND"), "{metric}");
        }
    }
}

/// For each interval of a family: its label, its own figures, and the sums over all sites.
fn intervals(record: &Record, family: &str) -> Vec<(String, [i64; 4], [i64; 4])> {
    let mut sites: BTreeMap<i64, i64> = BTreeMap::new();
    let mut all = Vec::new();
    for line in record.events("interval").into_iter().filter(|line| line["family"] == family) {
        assert_eq!(line["parts"], 1);
        let numbers: Vec<i64> =
            line["sites"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
        let (mut peak, mut allocated, mut count) = (0, 0, 0);
        let changed: BTreeMap<i64, &[i64]> = numbers.chunks(5).map(|site| (site[0], &site[1..])).collect();
        peak +=
            sites.iter().filter(|(site, _)| !changed.contains_key(site)).map(|(_, live)| live).sum::<i64>();
        for (site, figures) in changed {
            peak += figures[0];
            sites.insert(site, figures[1]);
            allocated += figures[2];
            count += figures[3];
        }
        let own = ["live", "peak", "allocated", "count"].map(|name| line[name].as_i64().unwrap());
        all.push((
            line["label"].as_str().unwrap().to_owned(),
            own,
            [sites.values().sum(), peak, allocated, count],
        ));
    }
    all
}

#[test]
fn sites_add_up_to_the_figures_which_are_those_of_a_run_without_call_stacks() {
    for what in ["family", "threads", "ending-thread", "rust-heap"] {
        let plain = counted(program("malloc_family", &[])).arg(what).succeed();
        for blocks in ["headers", "table"] {
            let record =
                counted(program("malloc_family", &[])).arg(what).env("MEMPROF_STACKS", blocks).succeed();
            assert_eq!(record.events("stacks")[0]["blocks"], "table", "headers would change the blocks");
            assert!(record.events("stacks_incomplete").is_empty(), "{}", record.log_text());
            let intervals = intervals(&record, "malloc");
            assert_eq!(intervals.len(), record.labels().len());
            for ((label, own, sums), line) in intervals.iter().zip(record.events("checkpoint")) {
                assert_eq!(line["label"], label.as_str());
                assert_eq!(own, sums, "{what}, {label}");
                let figures = METRICS.map(|metric| crate::laboratory::figure(line, metric));
                assert_eq!(own, &figures, "{what}, {label}");
                // The order of threads differs from run to run, and with it the peak while they start.
                if what != "threads" || label.starts_with("met: ") {
                    let plain = METRICS.map(|metric| plain.figure(label, metric));
                    assert_eq!(figures, plain, "{what}, {label}");
                }
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn sites_of_a_body_add_up_with_what_a_librarys_constructor_allocated() {
    let early = cdylib(Path::new("fixtures/shim/malloc_early.rs"), "malloc_early");
    let marked = body::marked(&body::tests(&[]), "a_block").env("MEMPROF_STACKS", "table");
    let record = in_front_of(marked, &[&early]).succeed();
    assert_eq!(record.events("body")[0]["begins"], "body");
    let intervals = intervals(&record, "malloc");
    assert_eq!(intervals.len(), record.labels().len());
    for (label, own, sums) in &intervals {
        assert!(own[0] >= 5_000, "{label}: {own:?}");
        assert_eq!(own, sums, "{label}");
    }
}

#[test]
fn a_block_of_c_has_the_site_of_the_function_that_asked_for_it() {
    let record =
        counted(program("malloc_family", &[])).arg("family").env("MEMPROF_STACKS", "table").succeed();
    let found = intervals(&record, "malloc").into_iter().find(|(label, ..)| label.starts_with("calloc: "));
    assert_eq!(found.unwrap().1[3], 1, "one allocation");
    let line = record
        .events("interval")
        .into_iter()
        .find(|line| line["family"] == "malloc" && line["label"].as_str().unwrap().starts_with("calloc: "));
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let site = number(&line.unwrap()["sites"][0]);
    let numbers = |event: &str, field: &str| -> Vec<usize> {
        let lines = record.events(event).into_iter();
        lines.flat_map(|line| line[field].as_array().unwrap()).map(number).collect()
    };
    let (nodes, frames) = (numbers("sites", "nodes"), numbers("frames", "frames"));
    let innermost = &frames[(nodes[site - 1] - 1) * 3..][..3];
    // Module 0 is the executable: the library's own frames are left out.
    assert_eq!(innermost[1], 0, "{innermost:?}");
}
