//! The log's form, and what stands in it.

use std::collections::BTreeSet;

use memprof_judge::results::log_checksum::{Forgery, LogKey};
use serde_json::{Value, json};

use crate::laboratory::{Experiment, program, scratch, text};

#[test]
fn every_line_says_version_event_sequence_time_process_and_thread_in_this_order() {
    let record = Experiment::of(program("churn", &[])).env("MEMPROF_PRINT", "0").succeed();
    let mut nanoseconds = 0;
    for (index, (line, value)) in record.log_text().lines().zip(record.lines()).enumerate() {
        let head = format!(
            "{{\"v\":1,\"event\":{},\"seq\":{index},\"ns\":{},\"pid\":{},\"thread\":{}",
            value["event"], value["ns"], value["pid"], value["thread"]
        );
        assert!(line.starts_with(&head), "{line}");
        assert!(value["ns"].as_u64().unwrap() >= nanoseconds, "the sequence is in the order of time: {line}");
        nanoseconds = value["ns"].as_u64().unwrap();
        assert_eq!(value["pid"], record.lines()[0]["pid"]);
    }
    // On a slow machine, the free blocks are no longer counted at some checkpoint.
    let lines = record.lines().iter().filter(|line| line["metric"] != "cpu.kept");
    let events: Vec<_> = lines.map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events[..2], ["begin", "checkpoint"]);
    assert_eq!(events[events.len() - 3..], ["checkpoint", "causes", "end"]);
    let threads: std::collections::BTreeSet<_> =
        record.lines().iter().map(|line| line["thread"].as_u64().unwrap()).collect();
    assert_eq!(threads.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn the_first_line_names_the_source_of_every_metric() {
    let record = Experiment::of(program("heap", &[])).succeed();
    let begin = &record.lines()[0];
    assert_eq!(begin["build"], Value::Null);
    assert_eq!(begin["shim"], "0.1.0");
    let sources = begin["sources"].as_object().unwrap();
    assert_eq!(sources["heap.peak"], "tracking allocator");
    let metrics = record.checkpoint("kept")["metrics"].as_object().unwrap();
    assert_eq!(sources.keys().collect::<Vec<_>>(), metrics.keys().collect::<Vec<_>>());
}

#[test]
fn a_checkpoint_has_label_occurrence_place_and_metrics() {
    let record = Experiment::of(program("heap", &[])).succeed();
    let kept = record.checkpoint("kept");
    assert_eq!(kept["occurrence"], 1);
    assert!(kept["at"].as_str().unwrap().ends_with("fixtures/shim/heap.rs:14"), "{kept}");
    assert_eq!(kept["metrics"]["time"], kept["ns"]);
    assert_eq!(record.checkpoint("start")["at"], Value::Null);
    assert_eq!(record.labels().first(), Some(&"start"));
    assert_eq!(record.labels().last(), Some(&"done"));
}

#[test]
fn labels_arrive_unharmed_and_are_counted_each_for_itself() {
    let record = Experiment::of(program("labels", &[])).succeed();
    let long = "0123456789".repeat(1_000);
    let expected = [
        "start",
        "she said \"no\\yes\"\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}",
        "é 漢字 🦀 \u{2028}",
        "",
        "braces {} here     7",
        "done encoder, outputs shaped [24, 1024, 1024]",
        "[24, 1024, 1024]",
        "long",
        &long,
        "after the long one",
        "again",
        "again",
        "again",
        "done",
        "done",
    ];
    assert!(record.labels() == expected, "{:?}", record.labels());
    let occurrences: Vec<_> = record
        .events("checkpoint")
        .into_iter()
        .filter(|line| line["label"] == "again")
        .map(|line| line["occurrence"].as_u64().unwrap())
        .collect();
    assert_eq!(occurrences, [1, 2, 3]);
    assert_eq!(record.scope("again")["occurrence"], json!(1), "scopes are counted apart");
    let done = record.events("checkpoint").into_iter().filter(|line| line["label"] == "done");
    let done: Vec<_> = done.map(|line| (line["occurrence"].clone(), line["at"].is_null())).collect();
    assert_eq!(done, [(json!(1), false), (json!(1), true)], "and so are the shim's own");
}

#[test]
fn a_label_of_ten_thousand_bytes_leaves_no_trace_in_the_heap() {
    let record = Experiment::of(program("labels", &[])).succeed();
    let after = record.checkpoint("after the long one");
    assert_eq!(after["metrics"]["heap.allocated"], 0, "{after}");
    assert_eq!(after["metrics"]["heap.live"], record.checkpoint("long")["metrics"]["heap.live"]);
    let again: Vec<_> =
        record.events("checkpoint").into_iter().filter(|line| line["label"] == "again").collect();
    assert!(again.iter().all(|line| line["metrics"]["heap.count"] == 0), "{again:?}");
}

#[test]
fn people_see_a_line_for_each_of_their_checkpoints_if_they_want_it() {
    let executable = program("labels", &[]);
    let printing = Experiment::of(&executable).env("MEMPROF_PRINT", "1").succeed();
    let stderr = text(&printing.output.stderr);
    let shown = stderr.lines().find(|line| line.starts_with("done encoder")).unwrap();
    let (label, gigabytes) = shown.split_once(": CPU: 0.0").unwrap();
    assert_eq!(label, "done encoder, outputs shaped [24, 1024, 1024]");
    assert!(gigabytes.len() == 4 && gigabytes.ends_with("GB"), "{shown}");
    assert!(!stderr.contains("start:") && stderr.matches("done:").count() == 1, "{stderr}");

    let record = Experiment::of(&executable).succeed();
    assert_eq!(text(&record.output.stderr), "");
}

#[test]
fn outside_a_run_nothing_is_written_shown_or_formatted() {
    let record = Experiment::outside_a_run(program("inert", &[])).succeed();
    assert_eq!((text(&record.output.stdout), text(&record.output.stderr)), (String::new(), String::new()));
    assert!(!record.has_log());
    let record = Experiment::outside_a_run(program("inert", &[])).env("MEMPROF_LOG", "").succeed();
    assert_eq!(text(&record.output.stderr), "", "an empty name is no name");
}

#[test]
fn a_log_that_cannot_be_opened_is_said_and_the_program_runs() {
    let log = scratch("no-such-folder").join("log.jsonl");
    let record = Experiment::outside_a_run(program("heap", &[])).env("MEMPROF_LOG", &log).succeed();
    let stderr = text(&record.output.stderr);
    assert!(stderr.starts_with("memprof: nothing is recorded, because the log "), "{stderr}");
    assert!(stderr.contains("No such file or directory") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let record = Experiment::outside_a_run(program("heap", &[])).env("MEMPROF_LOG", "/dev/full").succeed();
    let stderr = text(&record.output.stderr);
    assert!(
        stderr.starts_with("memprof: recording ends here, because the log cannot be written: "),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
#[cfg(unix)]
fn a_program_that_closes_all_descriptors_finds_nothing_of_ours_in_its_files() {
    let files = scratch("files");
    let record = Experiment::of(program("closing", &[])).arg(&files).succeed();
    if cfg!(target_os = "linux") {
        assert_eq!(record.labels(), ["start", "before", "after", "and after", "done"], "the log is mapped");
        assert_eq!(record.events("end").len(), 1);
        // All for the same reason. `cpu.program` has another one if the process has read too many pages.
        let reasons: BTreeSet<_> =
            record.events("absent").iter().map(|line| line["reason"].as_str().unwrap()).collect();
        let lost = "can no longer be read; the program may have closed a file descriptor of memprof";
        assert_eq!(reasons, BTreeSet::from([lost]), "{}", record.log_text());
        let metrics = record.events("absent");
        assert!(metrics.iter().any(|line| line["metric"] == "cpu.program"), "{metrics:?}");
    }
    let long = Experiment::of(program("closing", &[])).arg(&files).arg("1000").succeed();
    assert!(long.events("end").is_empty(), "more than the mapped part");
    assert!(text(&long.output.stderr).contains("recording ends here"), "{}", text(&long.output.stderr));
    for index in 0..20 {
        fs_err::remove_file(
            files.with_file_name(format!("{}.{index}", files.file_name().unwrap().to_str().unwrap())),
        )
        .unwrap();
    }
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn a_log_of_many_lines_is_whole_and_has_nothing_behind_them() {
    let key = LogKey::random();
    let record = Experiment::of(program("churn", &[])).env("MEMPROF_LOG_KEY", key.as_str()).succeed();
    let log = fs_err::read(record.path()).unwrap();
    assert!(log.len() > 4 * 65_536, "several windows: {}", log.len());
    assert!(!log.contains(&0), "the mapped end is cut off");
    assert_eq!(key.check(&log[..], true).unwrap(), None);
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn what_another_process_adds_to_the_log_stays_for_the_reader_to_refuse() {
    let key = LogKey::random();
    let experiment = Experiment::of(program("adds_to_log", &[])).env("MEMPROF_LOG_KEY", key.as_str());
    assert_eq!(key.check(&experiment.run_with_log()[..], true).unwrap(), Some(Forgery::GoesOn));
}

#[test]
fn the_last_line_has_a_checksum_of_the_others_under_the_runs_key() {
    let key = LogKey::random();
    let record = Experiment::of(program("labels", &[])).env("MEMPROF_LOG_KEY", key.as_str()).succeed();
    let check = |key: &LogKey, log: &str| key.check(log.as_bytes(), true).unwrap();
    let log = record.log_text();
    assert_eq!(check(&key, &log), None);
    assert_eq!(check(&LogKey::random(), &log), Some(Forgery::OtherLines));
    assert_eq!(check(&key, &log.replacen("\"heap.live\":", "\"heap.live\":9", 1)), Some(Forgery::OtherLines));
}

#[test]
#[cfg(target_os = "linux")]
fn the_key_is_not_left_in_the_environment_that_others_can_read() {
    let key = LogKey::random();
    let record = Experiment::of(program("environ", &[])).env("MEMPROF_LOG_KEY", key.as_str()).succeed();
    let environment = text(&record.output.stdout);
    assert!(environment.contains("MEMPROF_LOG_KEY=00000000"), "{environment}");
    assert!(!environment.contains(key.as_str()), "{environment}");
}
