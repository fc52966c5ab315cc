//! Named memory: what the log says of it, and that it costs the heap nothing.

use serde_json::{Value, json};

use crate::laboratory::{Experiment, Record, program};

fn named() -> Record {
    Experiment::of(program("tensors", &[])).succeed()
}

/// A line without what every line has.
fn fields(line: &Value) -> Value {
    let mut fields = line.clone();
    let every = ["v", "event", "seq", "ns", "pid", "thread"];
    fields.as_object_mut().unwrap().retain(|field, _| !every.contains(&field.as_str()));
    fields
}

fn place(record: &Record, line: &Value) -> usize {
    record.lines().iter().position(|one| one == line).unwrap()
}

#[test]
fn a_report_has_what_was_measured_so_far_and_the_tensors_that_are_alive() {
    let record = Experiment::of(program("report", &[])).succeed();
    let report = String::from_utf8_lossy(&record.output.stdout).into_owned();
    let rows: Vec<String> =
        report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let row = |start: &str| {
        rows.iter().find(|row| row.starts_with(start)).unwrap_or_else(|| panic!("{start}: {report}")).as_str()
    };
    assert!(row("checkpoint ").starts_with("checkpoint heap.live heap.peak"), "{report}");
    assert!(row("start ").starts_with("start 0 B 0 B"), "{report}");
    assert!(row("loaded \\\"a\\\" #2").contains("#2 1.00 MiB 1.00 MiB"), "{report}");
    assert!(row("scope ").starts_with("scope heap.consumed heap.peaked heap.used"), "{report}");
    assert!(row("decode ").starts_with("decode 0 B 2.00 MiB 1.00 MiB"), "{report}");
    assert_eq!(row("weight "), "weight weight [512,1024] u16 cpu 1.00 MiB");
    assert_eq!(row("tied"), "tied(->weight) weight [512,1024] u16 cpu 0 B");
    assert_eq!(row("2 tensors"), "2 tensors alive, 1048576 elements, 1.00 MiB");
    assert!(!report.contains("ended") && !report.contains("after"), "{report}");
    let source = record.lines()[0]["sources"]["heap.live"].as_str().unwrap();
    assert_eq!(row("heap.live:"), format!("heap.live: {source}"));
    // It is made outside of the heap. Only standard output has a buffer there.
    let count = |label: &str| record.figure(label, "heap.allocated");
    assert!(count("after") < (2 << 20) + (64 << 10), "{}", count("after"));
}

#[test]
fn a_report_after_many_groups_of_tensors_takes_no_time_for_each_pair_of_them() {
    let record = Experiment::of(program("report", &[])).arg("many").succeed();
    let report = String::from_utf8_lossy(&record.output.stdout).into_owned();
    assert!(report.contains("\n1 tensor alive, "), "{report}");
    // It takes milliseconds. When each group looked through the whole log, it took 20 s.
    let seconds: u64 = report.lines().next().unwrap().parse().unwrap();
    assert!(seconds < 5, "{seconds} s");
}

#[test]
fn a_naming_is_one_line_with_all_that_was_said() {
    let record = named();
    let mut weight = fields(record.events("tensor")[0]);
    assert!(weight["storage"].as_u64().unwrap() > 0, "its address");
    weight["storage"] = json!("address");
    let expected = json!({
        "group": 1, "name": "encoder.0.\"weight\"", "kind": "weight", "shape": [10, 100], "dtype": "f32",
        "device": "cpu", "storage": "address", "bytes": 4000, "allocated": 4000,
        "range": [0, 4000],
    });
    assert_eq!(weight, expected);
    let state = json!({
        "group": 2, "name": "m", "kind": "optimizer-state", "shape": [], "dtype": "", "device": "cpu", "storage": 0,
        "bytes": 8,
    });
    assert_eq!(fields(record.events("tensor")[1]), state);
}

#[test]
fn a_storage_may_have_any_number() {
    assert_eq!(named().events("tensor")[4]["storage"], u64::MAX);
}

#[test]
fn every_device_and_kind_has_a_name_of_its_own() {
    let record = named();
    let of = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
    let said: Vec<_> = record.events("tensor")[..5]
        .iter()
        .map(|line| (of(line, "name"), of(line, "kind"), of(line, "device")))
        .collect();
    let expected = [
        ("encoder.0.\"weight\"", "weight", "cpu"),
        ("m", "optimizer-state", "cpu"),
        ("g", "gradient", "malloc"),
        ("a", "activation", "cuda:3"),
        ("b", "other", "other:metal:0"),
    ];
    let expected = expected.map(|(name, kind, device)| (name.to_owned(), kind.to_owned(), device.to_owned()));
    assert_eq!(said, expected);
}

#[test]
fn a_group_ends_with_one_line_and_a_kept_one_with_none() {
    let record = named();
    let ends: Vec<&Value> = record.events("tensors_end");
    assert_eq!(fields(ends[0]), json!({"group": 1}));
    assert!(place(&record, record.checkpoint("named")) < place(&record, ends[0]));
    assert!(place(&record, ends[0]) < place(&record, record.checkpoint("dropped")));
    assert!(ends.iter().all(|end| end["group"] != 2), "it was kept");
    assert_eq!(ends.len(), 1 + 4 * 100, "an empty group ends unseen");
}

#[test]
fn threads_name_at_once_and_every_group_is_ended_after_it_began() {
    let record = named();
    let mut open = std::collections::BTreeSet::new();
    for line in record.lines() {
        let group = line["group"].as_u64();
        match line["event"].as_str().unwrap() {
            "tensor" => _ = open.insert(group),
            "tensors_end" => assert!(open.remove(&group), "{line}"),
            _ => {}
        }
    }
    assert_eq!(open.into_iter().collect::<Vec<_>>(), [Some(2)]);
}

#[test]
fn a_pool_is_logged_as_it_describes_itself() {
    let record = named();
    let pool = json!({"name": "pool", "device": "cuda:1", "in_use": 1, "padding": 2, "reserved": 3});
    assert_eq!(fields(record.events("pool")[0]), pool);
}

#[test]
fn a_device_that_the_driver_does_not_know_is_never_given_a_name() {
    assert!(named().events("cuda_device").is_empty());
}

#[test]
fn naming_allocates_nothing() {
    let record = named();
    assert_eq!(record.figure("named", "heap.count"), 0);
    assert_eq!(record.figure("dropped", "heap.count"), 0);
    assert_eq!(record.figure("named", "heap.live"), record.figure("before", "heap.live"));
}

#[test]
fn sizes_of_live_blocks_are_logged_once_a_tensor_has_a_name_and_when_they_change() {
    let record = named();
    let sizes = |line: &Value| -> Vec<[u64; 3]> {
        let numbers: Vec<u64> =
            line["sizes"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect();
        numbers.chunks(3).map(|one| one.try_into().unwrap()).collect()
    };
    let of_heap = record.events("live_sizes");
    assert!(
        of_heap.iter().all(|line| line["family"] == "heap" && line["least"] == 4096 && line["whole"] == 1)
    );
    let [first, .., last] = &of_heap[..] else { panic!("too few lines: {of_heap:?}") };
    assert!(place(&record, record.checkpoint("before")) < place(&record, first), "nothing had a name");
    assert!(place(&record, first) < place(&record, record.checkpoint("named")));
    let count = |line: &Value, bytes| sizes(line).iter().find(|one| one[0] == bytes).map_or(0, |one| one[1]);
    // Three of 40,000 bytes, one of which grew from 5,000, and one of 12,000 that was freed.
    let grown = record.events("live_sizes")[1];
    assert_eq!([count(first, 40_000), count(first, 5000), count(first, 12_000)], [2, 1, 1]);
    assert_eq!([count(grown, 40_000), count(grown, 5000), count(grown, 12_000)], [3, 0, 0]);
    assert_eq!(count(last, 40_000), 0, "all are freed at the end");
    assert_eq!(of_heap.len(), 3, "no line repeats the one before it");
}

#[test]
fn of_too_many_sizes_the_largest_are_logged_and_the_sum_of_the_others() {
    let record = Experiment::of(program("tensors", &[])).arg("many").succeed();
    let of_heap = record.events("live_sizes");
    let many = of_heap.iter().find(|line| line["rest_count"] != 0).expect("a line with a rest");
    let numbers = many["sizes"].as_array().unwrap();
    assert_eq!(numbers.len(), 3 * 4096);
    assert_eq!(numbers[numbers.len() - 3].as_u64().unwrap().max(120_000), 120_000, "the vector of vectors");
    // The sizes from 5,000 to 9,999, and the vector that holds them.
    let rest: u64 = (5000..5000 + 905).sum();
    assert_eq!((many["rest_count"].as_u64(), many["rest_bytes"].as_u64()), (Some(905), Some(rest)));
}

#[test]
fn outside_a_run_names_are_inert() {
    let record = Experiment::outside_a_run(program("tensors", &[])).succeed();
    assert!(!record.has_log());
}
