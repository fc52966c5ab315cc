//! `--format perfetto`: Chrome's trace events, with the checkpoints of both revisions one below the other.

use memprof_judge::compare::from_results::compare;
use memprof_report::options::{Format, Options};
use serde_json::Value;

use crate::reports::{MIB, rendered};
use crate::support::synthetic::{Log, Synthetic};

fn readings(peak: i64, nanoseconds: i64) -> [(&'static str, i64); 2] {
    [("heap.peak", peak), ("time", nanoseconds)]
}

fn events() -> Vec<Value> {
    let log = |more: i64| {
        Log::new()
            .checkpoint("start", &readings(MIB, 0))
            .scope("decode", &[("heap.peaked", MIB + more), ("time", 1)])
            .checkpoint("decoded", &readings(4 * MIB + more, 2))
            .checkpoint("done", &readings(5 * MIB + more, 3))
    };
    let synthetic =
        Synthetic::new(&["main", "pr/7"]).passed("reads", 0, 0, &log(0)).passed("reads", 1, 0, &log(MIB));
    let text = rendered(Format::Perfetto, &compare(&synthetic.results()), &Options::default());
    let trace: Value = serde_json::from_str(&text).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn each_test_and_ref_is_a_process_with_counters_and_slices() {
    let events = events();
    let of = |process: u64, kind: &str| -> Vec<&Value> {
        events.iter().filter(|event| event["pid"] == process && event["ph"] == kind).collect()
    };
    for (process, name, more) in [(1, "reads · main", 0), (2, "reads · pr/7", MIB)] {
        assert_eq!(of(process, "M")[0]["args"]["name"], name);
        let peaks: Vec<i64> =
            of(process, "C").iter().map(|one| one["args"]["value"].as_i64().unwrap()).collect();
        assert_eq!(peaks, [MIB, 4 * MIB + more, 5 * MIB + more]);
        let slices: Vec<(&str, u64)> = of(process, "X")
            .iter()
            .map(|one| (one["name"].as_str().unwrap(), one["tid"].as_u64().unwrap()))
            .collect();
        assert_eq!(slices, [("start", 0), ("decode", 1), ("decoded", 0), ("done", 0)]);
        let scope = of(process, "X")[1];
        assert_eq!(
            (&scope["args"]["heap.peaked"], &scope["args"]["nanoseconds"]),
            (&(MIB + more).into(), &1.into())
        );
    }
}

#[test]
fn common_checkpoints_are_at_the_same_time() {
    let times = |process: u64| -> Vec<f64> {
        let is_counter = |event: &&Value| event["pid"] == process && event["ph"] == "C";
        events().iter().filter(is_counter).map(|event| event["ts"].as_f64().unwrap()).collect()
    };
    assert_eq!(times(1), times(2));
    assert!(times(1).is_sorted(), "{:?}", times(1));
}
