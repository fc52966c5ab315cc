//! Call stacks: their sums are the heap's figures, and the unwind table walks as the unwinder does.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use memprof_judge::symbols::resolver::Resolver;
use memprof_judge::symbols::{code_place::Paths, kept_table};
use serde_json::Value;

use crate::laboratory::{self, Experiment, Record, program, rustc, scratch, succeed, text};

pub(crate) const KINDS: [&str; 9] =
    ["generics", "closures", "recursion", "async", "threads", "callbacks", "signals", "realloc", "fork"];

/// An experiment that records call stacks with the executable's own table.
pub(crate) fn recording(executable: &Path, blocks: &str) -> Experiment {
    let table = format!("{}.unwind", executable.display());
    let path = Utf8Path::from_path(executable).unwrap();
    kept_table::keep(path, Utf8Path::new(&table)).unwrap().unwrap();
    Experiment::of(executable).env("MEMPROF_STACKS", blocks).env("MEMPROF_UNWIND_TABLE", table)
}

/// The sums over all sites at each checkpoint: at the peak, live, allocated, and their number.
pub(crate) fn sums(record: &Record) -> BTreeMap<String, [i64; 4]> {
    let mut live: BTreeMap<i64, i64> = BTreeMap::new();
    let mut sums = BTreeMap::new();
    for line in record.events("interval") {
        let (mut at_peak, mut totals) = (live.clone(), [0; 2]);
        let numbers: Vec<i64> =
            line["sites"].as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect();
        for site in numbers.chunks(5) {
            at_peak.insert(site[0], site[1]);
            live.insert(site[0], site[2]);
            totals[0] += site[3];
            totals[1] += site[4];
        }
        let all = [at_peak.values().sum(), live.values().sum(), totals[0], totals[1]];
        let stated = ["peak", "live", "allocated", "count"].map(|name| line[name].as_i64().unwrap());
        assert_eq!(all, stated, "{line}");
        sums.insert(line["label"].as_str().unwrap().to_owned(), all);
    }
    sums
}

/// The figures of the checkpoints.
pub(crate) fn figures(record: &Record) -> BTreeMap<String, [i64; 4]> {
    let metrics = ["heap.peak", "heap.live", "heap.allocated", "heap.count"];
    let of = |label: &str| metrics.map(|metric| record.figure(label, metric));
    record.labels().into_iter().map(|label| (label.to_owned(), of(label))).collect()
}

/// Checks a recording against itself and against a plain run, and that both ways to walk agree.
fn check(executable: &Path, blocks: &str, kinds: &[&str], is_repeatable: impl Fn(&str) -> bool) -> Record {
    let with = |experiment: Experiment| kinds.iter().fold(experiment, Experiment::arg).succeed();
    let record = with(recording(executable, blocks));
    let [begin] = record.events("stacks")[..] else { panic!("one line says how stacks are recorded") };
    assert_eq!(
        (begin["blocks"].as_str(), begin["walker"].as_str()),
        (Some(blocks), Some("table")),
        "{begin}"
    );
    assert_eq!(record.events("stacks_incomplete"), Vec::<&Value>::new());
    assert!(record.events("stacks_compared")[0]["stacks"].as_u64() > Some(0));
    assert_eq!(sums(&record), figures(&record));
    let plain = with(Experiment::of(executable));
    for (label, figures) in figures(&plain).into_iter().filter(|(label, _)| is_repeatable(label)) {
        assert_eq!(sums(&record)[&label], figures, "'{label}' of a plain run");
    }
    record
}

/// With several threads, the peak depends on their order.
fn is_of_one_thread(label: &str) -> bool {
    label != "threads" && label != "callbacks"
}

fn check_kinds(flags: &[&str]) {
    let executable = program("stacks", flags);
    for blocks in ["headers", "table"] {
        check(&executable, blocks, &KINDS, is_of_one_thread);
    }
}

#[test]
fn unoptimised_code_with_lines() {
    check_kinds(&["-Copt-level=0", "-Cdebuginfo=2"]);
}

#[test]
fn optimised_code() {
    check_kinds(&["-Copt-level=3"]);
}

#[test]
fn code_optimised_for_size_and_stripped() {
    check_kinds(&["-Copt-level=s", "-Cstrip=symbols"]);
}

#[test]
fn code_that_allocates_before_the_c_library_has_the_environment() {
    let executable = program("preinit", &[]);
    for blocks in ["headers", "table"] {
        let record = check(&executable, blocks, &[], |_| true);
        let kept = record.figure("kept", "heap.live") - record.figure("start", "heap.live");
        assert!(kept >= 300_000, "{kept}");
    }
}

#[test]
fn code_that_aborts_on_panic() {
    check_kinds(&["-Copt-level=2", "-Cpanic=abort"]);
}

#[test]
#[ignore = "it takes long; `just test-all` runs it"]
fn code_optimised_at_link_time() {
    check_kinds(&["-Copt-level=2", "-Clto=fat", "-Ccodegen-units=1"]);
}

#[test]
fn an_allocator_of_its_own() {
    check_kinds(&["-Copt-level=1", "--cfg=own_allocator"]);
}

#[test]
fn a_static_executable() {
    let target = "x86_64-unknown-linux-musl";
    let sysroot = succeed(rustc().args(["--print", "target-libdir", "--target", target]));
    if !Path::new(text(&sysroot.stdout).trim()).exists() {
        crate::skips::skip(&format!("the target {target} is not installed"));
        return;
    }
    let libraries = laboratory::shim(&["--target", target]);
    let executable = scratch("static");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/shim/stacks.rs");
    succeed(
        rustc()
            .args(["--edition", "2021", "--target", target, "-O"])
            .args(laboratory::shim_flags(&libraries))
            .arg(source)
            .arg("-o")
            .arg(&executable),
    );
    check(&executable, "headers", &KINDS, is_of_one_thread);
}

/// Builds the library that calls back.
fn library() -> PathBuf {
    let library = scratch("calls_back.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/shim/calls_back.rs");
    succeed(
        rustc()
            .args(["--edition", "2021", "--crate-type", "cdylib", "-O"])
            .arg(source)
            .arg("-o")
            .arg(&library),
    );
    library
}

/// The functions of the stack on which a block of this size was allocated, innermost first.
fn stack_of(record: &Record, executable: &Path, size: i64) -> Vec<String> {
    let mut frames: BTreeMap<i64, (i64, i64, u64)> = BTreeMap::new();
    let numbers = |line: &Value, key: &str| -> Vec<i64> {
        line[key].as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
    };
    for line in record.events("frames") {
        let first = line["first"].as_i64().unwrap();
        for (place, frame) in (first..).zip(numbers(line, "frames").chunks(3)) {
            frames.insert(place, (frame[0], frame[1], u64::try_from(frame[2]).unwrap()));
        }
    }
    let sites: BTreeMap<i64, i64> = (record.events("sites").into_iter())
        .flat_map(|line| (line["first"].as_i64().unwrap()..).zip(numbers(line, "nodes")))
        .collect();
    let allocated = record.events("interval").into_iter().flat_map(|line| {
        numbers(line, "sites").chunks(5).map(|site| (site[0], site[3], site[4])).collect::<Vec<_>>()
    });
    let (found, ..) = allocated.into_iter().find(|(_, bytes, count)| *count == 1 && *bytes == size).unwrap();
    let mut resolver =
        Resolver::open(Utf8Path::from_path(executable).unwrap(), &Paths::new("/nowhere".into())).unwrap();
    let mut names = Vec::new();
    let mut node = sites[&found];
    while node != 0 {
        let (parent, module, address) = frames[&node];
        if module == 0 {
            names.extend(resolver.frames(address).iter().filter_map(|frame| frame.function.clone()));
        } else {
            names.push(format!("module {module}"));
        }
        node = parent;
    }
    names
}

#[test]
fn a_library_that_calls_back_is_on_the_stack() {
    let (executable, library) = (program("stacks", &["-Cdebuginfo=1"]), library());
    let record = check(&executable, "headers", &[library.to_str().unwrap()], |_| true);
    let stack = stack_of(&record, &executable, 77);
    let place = |name: &str| stack.iter().position(|function| function.contains(name));
    let order = [place("stacks::keep"), place("stacks::called_back"), place("module"), place("stacks::run")];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?} {stack:#?}");
}

#[test]
fn a_deep_recursion_is_whole() {
    let executable = program("stacks", &["-Cdebuginfo=1"]);
    let record = check(&executable, "headers", &["recursion"], |_| true);
    let stack = stack_of(&record, &executable, 1000);
    assert_eq!(stack.iter().filter(|function| function.ends_with("stacks::recursive")).count(), 10_001);
}

#[test]
fn the_frames_below_a_signal_handler_are_found() {
    let executable = program("stacks", &["-Cdebuginfo=1"]);
    let record = check(&executable, "headers", &["signals"], |_| true);
    let stack = stack_of(&record, &executable, 300);
    let place = |name: &str| stack.iter().position(|function| function.contains(name));
    assert!(
        place("stacks::handle") < place("stacks::run") && place("stacks::handle").is_some(),
        "{stack:#?}"
    );
}

#[test]
fn the_tests_of_a_proc_macro() {
    let executable = program("proc_macro_tests", &["--test", "--crate-type", "proc-macro"]);
    let libraries = text(&succeed(rustc().args(["--print", "target-libdir"])).stdout);
    for blocks in ["headers", "table"] {
        let inside = recording(&executable, blocks).env("LD_LIBRARY_PATH", libraries.trim());
        let record = inside.succeed();
        assert_eq!(record.events("stacks_incomplete"), Vec::<&Value>::new());
        assert_eq!(sums(&record), figures(&record));
        let allocated = sums(&record)["kept 1234567"][2];
        assert!((1_234_567..1_234_567 + 1_024).contains(&allocated), "{allocated}");
    }
}

#[test]
fn outside_a_run_nothing_is_recorded() {
    let outside = Experiment::outside_a_run(program("stacks", &["-Copt-level=3"]));
    let record = outside.env("MEMPROF_STACKS", "headers").arg("generics").succeed();
    assert!(!record.has_log());
}

#[test]
fn a_block_that_c_frees_needs_the_table_of_blocks() {
    let executable = program("stacks", &["-Copt-level=3"]);
    let with_headers = recording(&executable, "headers").arg("c-free").run();
    assert!(!with_headers.output.status.success(), "C's free gets an address inside of its block");
    let record = recording(&executable, "table").arg("c-free").succeed();
    // Nobody tells the allocator, so the block stays live, as in a plain run.
    assert_eq!(sums(&record), figures(&record));
    assert_eq!(figures(&record), figures(&Experiment::of(&executable).arg("c-free").succeed()));
}

#[test]
fn without_a_table_the_unwinder_walks() {
    let executable = program("stacks", &["-Copt-level=3"]);
    let broken = scratch("table");
    fs_err::write(&broken, [b'x'; 100]).unwrap();
    for (table, reason) in
        [(None, "the runner gave no unwind table"), (Some(broken), "the unwind table has an unknown format")]
    {
        let experiment = Experiment::of(&executable).env("MEMPROF_STACKS", "headers").arg("async");
        let experiment = table.iter().fold(experiment, |one, table| one.env("MEMPROF_UNWIND_TABLE", table));
        let record = experiment.succeed();
        let begin = record.events("stacks")[0];
        assert_eq!((begin["walker"].as_str(), begin["reason"].as_str()), (Some("unwinder"), Some(reason)));
        assert_eq!(sums(&record), figures(&record));
    }
}

#[test]
fn blocks_that_end_are_counted_where_they_do() {
    let executable = program("stacks", &["-Cdebuginfo=1"]);
    for blocks in ["headers", "table"] {
        let record = check(&executable, blocks, &["generics", "realloc"], |_| true);
        let of_label = |line: &&Value| line["label"] == "realloc";
        let numbers = record.events("releases").into_iter().filter(of_label).flat_map(|line| {
            line["pairs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|number| number.as_i64().unwrap())
                .collect::<Vec<_>>()
        });
        let numbers: Vec<i64> = numbers.collect();
        let has = |way: i64, bytes: i64| numbers.chunks(5).any(|pair| pair[2] == way && pair[4] == bytes);
        // The vector doubles up to 131,072 bytes, shrinks to fit, and is freed.
        assert!(has(1, 31_072) && has(0, 100_000), "{numbers:?}");
        // None of it was the peak before: at that, the vector was whole.
        let before = |way: i64, bytes: i64| {
            numbers.chunks(5).any(|pair| pair[2] == way && pair[3] == 0 && pair[4] == bytes)
        };
        assert!(before(1, 31_072) && before(0, 100_000), "{numbers:?}");
    }
}

#[test]
fn live_bytes_over_time_lie_between_zero_and_the_peak() {
    let record =
        recording(&program("stacks", &["-Copt-level=3"]), "headers").arg("threads").arg("realloc").succeed();
    let [line] = record.events("timeline")[..] else { panic!("one timeline") };
    let buckets: Vec<i64> =
        line["buckets"].as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect();
    let peak = sums(&record).values().map(|sums| sums[0]).max().unwrap();
    assert!(buckets.len() <= 4000 && buckets.chunks(2).all(|span| span[0] <= span[1]), "{line}");
    assert_eq!(buckets.chunks(2).map(|span| span[1]).max().unwrap(), peak);
}

/// What `fixtures/shim/hostile_stacks.rs` does to a stack.
const HOSTILE: [&str; 8] =
    ["swapped", "bare", "contexts", "jumps", "signal-stack", "timer", "forks", "ends-with-threads"];

#[test]
#[ignore = "it takes long; `just test-all` runs it"]
fn stacks_that_no_compiler_made_end_no_program_and_change_no_figure() {
    for flags in
        [&["-Copt-level=0"][..], &["-Copt-level=3"], &["-Copt-level=3", "-Cforce-frame-pointers=yes"]]
    {
        let executable = program("hostile_stacks", flags);
        for kind in HOSTILE {
            let plain = figures(&Experiment::of(&executable).arg(kind).succeed());
            for blocks in ["headers", "table"] {
                let record = recording(&executable, blocks).arg(kind).succeed();
                assert_eq!(sums(&record), figures(&record), "{kind}");
                let left_out = record.events("stacks_incomplete");
                let reasons: Vec<&str> = left_out.iter().filter_map(|line| line["reason"].as_str()).collect();
                let is_swapped = kind == "swapped" && flags[0] != "-Copt-level=0";
                assert!(
                    !is_swapped || reasons[0].starts_with("the program switched to a stack"),
                    "{reasons:?}"
                );
                let depends_on_time = ["timer", "forks", "ends-with-threads"].contains(&kind);
                assert!(
                    depends_on_time || figures(&record) == plain,
                    "{kind}: {record:?} {plain:?}",
                    record = figures(&record)
                );
            }
        }
    }
}
