//! Which thread allocates and which one frees: exact, and without a change of any other figure.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::laboratory::{Experiment, Record, program};
use crate::stacks::{KINDS, figures, recording, sums};

fn numbers(line: &Value, key: &str) -> Vec<i64> {
    line[key].as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

/// The thread of each site: its kind and its name, and whether it is several.
fn threads(record: &Record) -> BTreeMap<i64, (String, i64)> {
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let called = |line: &Value| format!("{} {}", text(line, "kind"), text(line, "name")).trim().to_owned();
    let known: BTreeMap<i64, (String, i64)> = (record.events("thread").into_iter())
        .map(|line| (line["number"].as_i64().unwrap(), (called(line), line["shared"].as_i64().unwrap())))
        .collect();
    let sites = record.events("sites").into_iter().flat_map(|line| {
        let threads = numbers(line, "threads");
        assert_eq!(threads.len(), numbers(line, "nodes").len(), "{line}");
        (line["first"].as_i64().unwrap()..).zip(threads)
    });
    sites.map(|(site, thread)| (site, known[&thread].clone())).collect()
}

/// The bytes of blocks of this size, by the thread that allocates.
fn allocated(record: &Record, size: i64) -> BTreeMap<String, i64> {
    let of = threads(record);
    let mut sums = BTreeMap::new();
    for line in record.events("interval") {
        for site in numbers(line, "sites").chunks(5).filter(|site| site[0] != 0 && site[3] == size * site[4])
        {
            *sums.entry(of[&site[0]].0.clone()).or_default() += site[3];
        }
    }
    sums.retain(|_, bytes| *bytes != 0);
    sums
}

/// The freed bytes of pairs that freed so many, by the two threads.
fn freed(record: &Record, bytes: i64) -> Vec<(String, String)> {
    let of = threads(record);
    let mut pairs = BTreeMap::new();
    for line in record.events("releases") {
        for pair in numbers(line, "pairs").chunks(5).filter(|pair| pair[2] == 0) {
            pairs.insert((pair[0], pair[1]), pair[4]);
        }
    }
    let pairs = pairs.into_iter().filter(|(_, freed)| *freed == bytes);
    pairs.map(|((site, by), _)| (of[&site].0.clone(), of[&by].0.clone())).collect()
}

fn recorded(blocks: &str, asks: bool) -> Record {
    let executable = program("thread_names", &["-Cdebuginfo=1"]);
    let experiment = recording(&executable, blocks);
    if asks { experiment.env("MEMPROF_STACKS_THREADS", "1") } else { experiment }.succeed()
}

#[test]
fn each_thread_has_what_it_allocates_and_frees() {
    for blocks in ["headers", "table"] {
        let record = recorded(blocks, true);
        assert_eq!(record.events("stacks_incomplete"), Vec::<&Value>::new());
        assert_eq!(sums(&record), figures(&record));
        let one = |name: &str, bytes: i64| BTreeMap::from([(name.to_owned(), bytes)]);
        let by = |owner: &str, by: &str| vec![(owner.to_owned(), by.to_owned())];
        assert_eq!(allocated(&record, 1_000_000), one("named producer-1", 3_000_000), "{blocks}");
        assert_eq!(freed(&record, 3_000_000), by("named producer-1", "main"), "{blocks}");
        assert_eq!(freed(&record, 2_000_000), by("main", "named consumer"));
        assert_eq!(freed(&record, 300_000), by("named producer-2", "named producer-2"));
        // Renamed, unnamed, and in destructors.
        assert_eq!(allocated(&record, 50_000), one("named early", 50_000));
        assert_eq!(freed(&record, 8_000), by("unnamed", "unnamed"));
        assert_eq!(freed(&record, 90_000), by("named keeps", "named keeps"));
        assert_eq!(freed(&record, 600_000), by("named keeps", "named keeps"));
        assert_eq!(allocated(&record, 700_000), BTreeMap::new(), "a child's");
        // Many threads of one name, apart from its number, and of many names.
        let many = allocated(&record, 10_000);
        assert!(many["named many-0"] == 10_000 && many["named many-*"] > 2_000_000, "{many:?}");
        assert_eq!(many.values().sum::<i64>(), 3_000_000);
        let names = allocated(&record, 20_000);
        assert!(names["named aa"] == 20_000 && names["others"] > 1_000_000, "{names:?}");
        assert_eq!(names.values().sum::<i64>(), 256 * 20_000);
        let known = record.events("thread");
        assert_eq!(known.len(), 256);
        assert_eq!(known.iter().filter(|thread| thread["shared"] == 0).count(), 64);
    }
}

#[test]
fn threads_change_no_figure_and_are_not_asked_for_without_the_variable() {
    let [with, without] = [true, false].map(|asks| recorded("headers", asks));
    assert_eq!(figures(&with), figures(&without));
    assert_eq!(without.events("thread"), Vec::<&Value>::new());
    assert!(without.events("sites").iter().all(|line| line.get("threads").is_none()));
    let plain = Experiment::of(program("thread_names", &["-Cdebuginfo=1"])).succeed();
    assert_eq!(figures(&with), figures(&plain));
}

#[test]
fn threads_at_once_signals_and_callbacks_add_up() {
    let executable = program("stacks", &["-Copt-level=3"]);
    for blocks in ["headers", "table"] {
        let experiment = KINDS.iter().fold(recording(&executable, blocks), Experiment::arg);
        let record = experiment.env("MEMPROF_STACKS_THREADS", "1").succeed();
        assert_eq!(sums(&record), figures(&record));
        // Four threads without a name, which are told apart.
        let unnamed = record.events("thread").into_iter().filter(|thread| thread["kind"] == "unnamed");
        assert_eq!(unnamed.count(), 4);
        let kept = |name: &str| allocated(&record, 100).get(name).copied();
        assert_eq!(kept("unnamed"), Some(400), "{:?}", allocated(&record, 100));
    }
}
