//! Forward passes: what each layer allocates, frees and keeps, to the byte.

use serde_json::{Value, json};

use crate::laboratory::{Experiment, Record, program, text};

fn passes() -> Record {
    Experiment::of(program("layers", &[])).succeed()
}

/// The rows of a pass: name, calls, allocated, freed, freed later, retained.
fn rows(record: &Record, label: &str, occurrence: u64) -> Vec<Value> {
    let mut lines = record.lines().iter().skip_while(|line| {
        !(line["event"] == "forward" && line["label"] == label && line["occurrence"] == occurrence)
    });
    assert!(lines.next().is_some(), "no pass {label} {occurrence}");
    let row = |line: &Value| {
        assert_eq!(line["memory"], "heap");
        let fields = ["name", "depth", "calls", "allocated", "freed", "freed_later", "retained"];
        Value::from(fields.map(|field| line[field].clone()).to_vec())
    };
    lines.take_while(|line| line["event"] == "layer").map(row).collect()
}

#[test]
fn bytes_count_for_the_innermost_layer_and_add_up_to_the_pass() {
    let record = passes();
    let expected = [
        json!([null, 0, 1, 70, 0, 0, 70]),
        json!(["mlp.0", 1, 2, 8000, 6000, 0, 2000]),
        json!(["mlp.1", 1, 1, 4000, 3000, 0, 1000]),
        // It frees the second layer's output.
        json!(["block", 1, 1, 200, 1000, 0, -800]),
        json!(["block.inner", 2, 1, 4000, 3000, 0, 1000]),
    ];
    let rows = rows(&record, "pass", 1);
    assert_eq!(rows, expected);
    let kept: i64 = rows.iter().map(|row| row[6].as_i64().unwrap()).sum();
    let growth = record.figure("after", "heap.live") - record.figure("before", "heap.live");
    assert_eq!(kept, growth);
}

#[test]
fn the_peak_of_a_layer_is_above_its_own_beginning() {
    let record = passes();
    let peak = |name: &str| {
        let line = record.events("layer").into_iter().find(|line| line["name"] == name).unwrap();
        line["peak"].as_u64().unwrap()
    };
    assert_eq!((peak("mlp.0"), peak("mlp.1"), peak("block")), (3000, 3000, 3000));
}

#[test]
fn an_output_that_is_gone_at_the_end_is_not_kept_by_its_layer() {
    let expected = [json!([null, 0, 1, 0, 0, 0, 0]), json!(["mlp.0", 1, 1, 1000, 0, 1000, 0])];
    assert_eq!(rows(&passes(), "followed", 1), expected);
}

#[test]
fn the_outermost_layer_is_a_pass_and_other_threads_are_counted_apart() {
    let record = passes();
    let rows = rows(&record, "alone", 2);
    let names: Vec<&Value> = rows.iter().map(|row| &row[0]).collect();
    assert_eq!(names, [&json!("alone"), &json!("alone.inner")]);
    let passes = record.events("forward").into_iter().filter(|line| line["label"] == "alone");
    let elsewhere: Vec<&Value> = passes.map(|line| &line["elsewhere"]).collect();
    assert_eq!(elsewhere, [&json!(1), &json!(1)]);
}

#[test]
fn a_tensors_number_leads_to_the_innermost_layer_that_made_it() {
    let record = passes();
    let expected = [
        "12: inner true false 2",
        "13: inner true true 3",
        "14: outer true false 6",
        "15: outer true true 7",
        "20: outer false false 5",
    ];
    assert_eq!(text(&record.output.stdout).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn epochs_are_checkpoints_with_one_name() {
    let record = passes();
    let epochs = record.events("checkpoint").into_iter().filter(|line| line["label"] == "epoch");
    assert_eq!(epochs.map(|line| line["occurrence"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2)]);
}

#[test]
fn outside_a_run_layers_are_inert() {
    let record = Experiment::outside_a_run(program("layers", &[])).succeed();
    assert!(!record.has_log());
}

#[test]
fn a_pass_in_which_the_level_was_lost_has_no_rows_of_that_memory() {
    let record = passes();
    assert!(rows(&record, "lost", 1).is_empty(), "{}", record.log_text());
    assert!(
        record.events("absent").iter().any(|line| line["metric"] == "heap.live"),
        "{}",
        record.log_text()
    );
}
