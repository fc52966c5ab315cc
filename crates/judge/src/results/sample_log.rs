//! Sample logs for tests.

use serde_json::{Value, json};

use crate::results::measurement::Measurement;
use crate::results::shim_log;

/// Returns a tensor on a device. `said` is its name, kind, storage and bytes.
pub(crate) fn tensor(group: u64, device: &str, said: (&str, &str, u64, u64)) -> Value {
    let (name, kind, storage, bytes) = said;
    json!({
        "event": "tensor", "group": group, "name": name, "kind": kind, "shape": [bytes / 4], "dtype": "f32",
        "device": device, "storage": storage, "bytes": bytes,
    })
}

pub(crate) fn end(group: u64) -> Value {
    json!({"event": "tensors_end", "group": group})
}

pub(crate) fn checkpoint(label: &str, occurrence: u32, metrics: &Value) -> Value {
    json!({"event": "checkpoint", "label": label, "occurrence": occurrence, "at": null, "metrics": metrics})
}

/// Returns the lines, completed with the fields that every line has.
pub(crate) fn text(lines: &[Value]) -> String {
    let mut text = String::new();
    for (sequence, line) in lines.iter().enumerate() {
        let mut whole = json!({"v": 1, "seq": sequence, "ns": sequence, "pid": 7, "thread": 1});
        let fields = line.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(fields);
        text.push_str(&whole.to_string());
        text.push('\n');
    }
    text
}

pub(crate) fn measurement(lines: &[Value]) -> Measurement {
    let begin = json!({"event": "begin", "build": null, "shim": "0.1.0", "sources": {}});
    let lines: Vec<Value> = std::iter::once(begin).chain(lines.iter().cloned()).collect();
    let measurement = shim_log::read(text(&lines).as_bytes(), "log.jsonl").unwrap();
    assert_eq!(measurement.notes, Vec::<String>::new());
    measurement
}
