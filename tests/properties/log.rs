//! The shim's log. A test can write anything into it.

use memprof_judge::compare::from_results::compare;
use memprof_judge::results::shim_log;

use super::Target;
use super::comparing::{render_everything, results};

pub const TARGET: Target = Target {
    name: "log",
    check,
    seeds,
    words: &[
        r#""event":"begin""#,
        r#""event":"checkpoint""#,
        r#""event":"scope""#,
        r#""event":"calls""#,
        r#""event":"line""#,
        r#""event":"tensor""#,
        r#""event":"tensors_end""#,
        r#""event":"pool""#,
        r#""event":"absent""#,
        r#""event":"sources""#,
        r#""event":"end""#,
        r#""traced":true"#,
        r#""depth":4294967295"#,
        r#""parent":1"#,
        r#""parent":null"#,
        r#""node":0"#,
        r#""seq":18446744073709551615"#,
        "heap.live",
        "heap.peak",
        "gpu.0.live",
        "time",
        "null",
        "{",
        "}",
        "[]",
        "1.5",
    ],
};

/// An error names file and line. What is accepted reads the same twice, does not differ from itself, and every report can show it.
pub fn check(bytes: &[u8]) {
    let measurement = match shim_log::read(bytes, "log.jsonl") {
        Ok(measurement) => measurement,
        Err(error) => {
            let text = error.to_string();
            let line = text.strip_prefix("log.jsonl:").and_then(|rest| rest.split_once(':'));
            let line = line.and_then(|(line, _)| line.parse::<usize>().ok());
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "no place in: {text}");
            return;
        }
    };
    assert_eq!(measurement, shim_log::read(bytes, "log.jsonl").expect("it was read before"));
    let same = compare(&results(&measurement, &measurement));
    for pair in same.pairs() {
        for metric in same.metrics.iter().map(|metric| &metric.name) {
            let column = pair.column(metric);
            let deltas = pair.rows.iter().filter_map(|row| column.at(row).delta);
            deltas.for_each(|delta| assert_eq!(delta.difference, 0, "{metric} differs from itself"));
        }
    }
    let usual = shim_log::read(LOG.as_bytes(), "log.jsonl").expect("it is a log");
    render_everything(&results(&usual, &measurement));
    render_everything(&results(&measurement, &usual));
}

const BEGIN: &str = r#"{"v":1,"event":"begin","seq":0,"ns":0,"pid":7,"thread":1,"build":null,"shim":"0.1.0","sources":{"heap.live":"tracking allocator","time":"CLOCK_MONOTONIC"}}"#;

/// A log with a line of most kinds.
pub const LOG: &str = concat!(
    r#"{"v":1,"event":"begin","seq":0,"ns":0,"pid":7,"thread":1,"build":null,"shim":"0.1.0","sources":{"heap.live":"tracking allocator","heap.peak":"tracking allocator","time":"CLOCK_MONOTONIC"}}"#,
    "\n",
    r#"{"v":1,"event":"checkpoint","seq":1,"ns":1,"pid":7,"thread":1,"label":"start","occurrence":1,"at":null,"metrics":{"heap.live":0,"heap.peak":0,"time":200}}"#,
    "\n",
    r#"{"v":1,"event":"absent","seq":2,"ns":1,"pid":7,"thread":1,"metric":"cpu.peak","reason":"no /proc"}"#,
    "\n",
    r#"{"v":1,"event":"scope","seq":3,"ns":9,"pid":7,"thread":1,"label":"decoder","occurrence":1,"at":"src/lib.rs:10","depth":1,"metrics":{"heap.live":5,"heap.peak":50,"time":null}}"#,
    "\n",
    r#"{"v":1,"event":"scope","seq":4,"ns":9,"pid":7,"thread":1,"label":"bart::run","occurrence":1,"at":"src/lib.rs:3","depth":0,"traced":true,"metrics":{"heap.live":15,"heap.peak":60,"time":5}}"#,
    "\n",
    r#"{"v":1,"event":"calls","seq":5,"ns":9,"pid":7,"thread":1,"node":1,"parent":null,"label":"bart::run","at":"src/lib.rs:3","calls":2,"recursive":0,"open":0,"overlapped":0,"metrics":{"heap.grown":10,"time":7},"most":{"heap.peak":60}}"#,
    "\n",
    r#"{"v":1,"event":"calls","seq":6,"ns":9,"pid":7,"thread":1,"node":2,"parent":1,"label":"bart::step","at":"src/lib.rs:8","calls":4,"recursive":1,"open":0,"overlapped":0,"metrics":{"heap.grown":8},"most":{"heap.peak":40}}"#,
    "\n",
    r#"{"v":1,"event":"line","seq":7,"ns":9,"pid":7,"thread":1,"label":"bart::step","at":"src/lib.rs:8","line":9,"times":4,"metrics":{"heap.peak":40,"heap.grown":8}}"#,
    "\n",
    r#"{"v":1,"event":"tensor","seq":8,"ns":9,"pid":7,"thread":1,"group":1,"name":"encoder.weight","kind":"weight","shape":[2,3],"dtype":"f32","device":"cpu","storage":11,"bytes":24,"allocated":32,"range":[0,24]}"#,
    "\n",
    r#"{"v":1,"event":"checkpoint","seq":9,"ns":10,"pid":7,"thread":1,"label":"forward","occurrence":1,"at":"src/lib.rs:12","metrics":{"heap.live":100,"heap.peak":120,"time":900}}"#,
    "\n",
    r#"{"v":1,"event":"checkpoint","seq":10,"ns":11,"pid":7,"thread":1,"label":"done","occurrence":1,"at":null,"metrics":{"heap.live":40,"heap.peak":120,"time":1000}}"#,
    "\n",
    r#"{"v":1,"event":"end","seq":11,"ns":12,"pid":7,"thread":1}"#,
    "\n",
);

fn seeds() -> Vec<Vec<u8>> {
    let least = i64::MIN + 1;
    let extreme = format!(
        "{BEGIN}\n{}\n{}\n",
        format_args!(
            r#"{{"v":1,"event":"checkpoint","seq":1,"ns":1,"pid":7,"label":"start","occurrence":1,"at":null,"metrics":{{"heap.live":{least}}}}}"#
        ),
        format_args!(
            r#"{{"v":1,"event":"checkpoint","seq":2,"ns":1,"pid":7,"label":"done","occurrence":1,"at":null,"metrics":{{"heap.live":{}}}}}"#,
            i64::MAX
        ),
    );
    let tensors = LOG.replace(
        r#"{"v":1,"event":"end","seq":11"#,
        "{\"v\":1,\"event\":\"tensors_end\",\"seq\":11,\"pid\":7,\"group\":1}\n{\"v\":1,\"event\":\"pool\",\"seq\":12,\"pid\":7,\"name\":\"p\",\"device\":\"cuda:0\",\"in_use\":1,\"padding\":2,\"reserved\":3}\n{\"v\":1,\"event\":\"cuda_device\",\"seq\":13,\"pid\":7,\"ordinal\":0,\"device\":\"0\"}\n{\"v\":1,\"event\":\"end\",\"seq\":14",
    );
    // Two functions that call each other.
    let circle = LOG.replace(r#""node":1,"parent":null"#, r#""node":1,"parent":2"#);
    vec![LOG.into(), BEGIN.into(), extreme.into(), tensors.into(), circle.into()]
}
