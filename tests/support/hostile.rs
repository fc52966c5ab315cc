//! A run's folder whose every text is hostile: markup, scripts, links, mentions, marks that reorder text, escape codes,
//! commands to CI runners.

use memprof_judge::results::outcome::Status;
use memprof_judge::results::stored;
use memprof_plan::axis_labels::AxisLabels;
use memprof_support::sealed;
use serde_json::{Value, json};

use super::synthetic::{Log, Synthetic, readings};

const MIB: i64 = 1 << 20;

pub const HOSTILE: &str = "</script></title><script>alert(1)</script><img src=x onerror=alert(1)>]]>\"' onload=x [l](javascript:alert(1)) \
                       https://e.example/ @bot #1 <!-- --> | `b` ```` \u{202e}\u{2066}\u{1b}[31m\r\n# h\n| a | b |\n::error::p";

/// A test with all that a log may say.
fn log(more: i64) -> Log {
    let function = "bart::Layer::forward";
    let calls = json!({
        "node": 0, "parent": null, "label": function, "at": "src/lib.rs:3", "calls": 1, "recursive": 0, "open": 0,
        "overlapped": 0, "metrics": {"heap.consumed": more, "heap.peaked": 0}, "most": {"heap.consumed": more, "heap.peaked": 0},
    });
    let line = json!({
        "label": function, "at": "src/lib.rs:3", "line": 4, "times": 6,
        "metrics": {"heap.peak": more, "heap.allocated": more, "heap.grown": 0},
    });
    let tensor = json!({
        "group": 1, "name": "model.weight", "kind": "weight", "shape": [8, 8], "dtype": "f32", "device": "cpu",
        "storage": 1, "bytes": 256, "allocated": 256,
    });
    let layer = json!({
        "name": "block.0", "memory": "heap", "calls": 1, "depth": 1, "allocated": more, "freed": 0, "freed_later": 0,
        "retained": more, "peak": more,
    });
    let pool = json!({"name": "cubecl cpu", "device": "cpu", "in_use": 3 + more, "padding": 1, "reserved": 9 + more});
    Log::new()
        .absent("gpu.0.live", "the device was not used")
        .checkpoint("start", &readings(MIB, MIB, 1, 0))
        .event("tensor", &tensor)
        .event("pool", &pool)
        .checkpoint("loaded", &readings(2 * MIB + more, 2 * MIB, 1, 0))
        .event("tensors_end", &json!({"group": 1}))
        .event("forward", &json!({"label": "train", "occurrence": 1, "elsewhere": 0}))
        .event("layer", &layer)
        .scope("decoder", &[("heap.consumed", more), ("heap.peaked", more), ("heap.used", more)])
        .call(0, function, &[("heap.consumed", more), ("heap.peaked", 0), ("heap.used", more)])
        .checkpoint("done", &readings(3 * MIB + more, 7 * MIB, 90, 4))
        .event("calls", &calls)
        .event("line", &line)
}

/// A folder with a text of each kind, none of them hostile yet.
pub fn folder() -> Synthetic {
    let facts = |untraced: &str| {
        let text = json!({"first": 3, "text": "fn forward() {\n    // what it does\n}"});
        json!({
            "functions": [
                {"path": "bart::Layer::forward", "file": "src/lib.rs", "line": 3, "text": text},
                {"path": "bart::later", "file": "src/lib.rs", "line": 70, "untraced": {"impossible": untraced}},
            ],
            "unmet": ["bart::no_such"],
        })
    };
    let executable = json!({"package": "bart", "binary": "hidden", "kind": "test", "reason": "no place for the build key"});
    let builds = json!({
        "0": {"toolchain": "1.95.0", "profile": "test", "notes": ["a note"], "not_measured": [executable]},
        "1": {"toolchain": "1.94.1", "profile": "test", "packages": "bart 0.1.0"},
        "2": {"build_failed": "error[E0308]: mismatched types"},
    });
    let axis = AxisLabels { key: "size".to_owned(), values: ["1", "2", "3"].map(str::to_owned).into() };
    Synthetic::new(&["main", "pr/1", "pr/2"])
        .axes(&[axis], &[&["wide"], &[], &["narrow"]])
        .environment(&json!({"cpu": "a", "gpu": null, "variables": {"RAYON_NUM_THREADS": "1"}}))
        .builds(&builds)
        .traces(&json!({"0": facts("it is an `async fn`"), "1": facts("it is a `const fn`")}))
        .passed("keeps", 0, 0, &log(0))
        .passed("keeps", 1, 0, &log(4 * MIB))
        .passed_with("sized", &[("batch", "8")], 0, &log(0))
        .passed_with("sized", &[("batch", "8")], 1, &log(MIB))
        .passed("crashes", 0, 0, &log(0))
        .failed(
            "crashes",
            1,
            Status::Failed { exit_code: 101 },
            "thread 'main' panicked at src/lib.rs:3:\nboom",
            Some(&log(1)),
        )
        .failed("keeps", 2, Status::NotMeasured, "it did not build", None)
}

/// The objects whose fields may have any name.
const OPEN: [&str; 5] = ["/sources", "/metrics", "/most", "/variables", "/1"];

/// The places of all texts, and of the names that fields may have.
fn places(value: &Value, at: &str, places: &mut Vec<(String, Option<String>)>) {
    match value {
        Value::String(_) if ["/outcome", "/event"].contains(&at) => {}
        Value::String(_) => places.push((at.to_owned(), None)),
        Value::Array(list) => {
            (list.iter().enumerate())
                .for_each(|(index, one)| self::places(one, &format!("{at}/{index}"), places));
        }
        Value::Object(fields) => {
            for (name, one) in fields {
                if OPEN.iter().any(|open| at.ends_with(open)) {
                    places.push((at.to_owned(), Some(name.clone())));
                }
                self::places(one, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        _ => {}
    }
}

fn poison(value: &mut Value, at: &str, field: Option<&str>) {
    match (value.pointer_mut(at).unwrap(), field) {
        (Value::String(text), None) => text.push_str(HOSTILE),
        (Value::Object(fields), Some(name)) => {
            let one = fields.remove(name).unwrap();
            fields.insert(format!("{name}{HOSTILE}"), one);
        }
        other => panic!("{other:?}"),
    }
}

/// A file of the folder as a list of JSON values.
fn read(path: &std::path::Path) -> Vec<Value> {
    let text = fs_err::read_to_string(path).unwrap();
    if path.ends_with("builds.json") {
        return vec![sealed::unsealed(text.as_bytes()).unwrap()];
    }
    let is_log = path.extension().is_some_and(|end| end == "jsonl");
    let parse = |text: &str| serde_json::from_str(text).unwrap();
    if is_log { text.lines().map(parse).collect() } else { vec![parse(&text)] }
}

fn write(path: &std::path::Path, values: &[Value]) {
    let text = match values {
        [one] if path.ends_with("builds.json") => String::from_utf8(sealed::sealed(one).unwrap()).unwrap(),
        [one] => one.to_string(),
        lines => lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n",
    };
    fs_err::write(path, text).unwrap();
}

/// Makes every text hostile that may be so, beside those that are it already. Returns how many.
pub fn poisoned(synthetic: &Synthetic) -> usize {
    let files = walkdir::WalkDir::new(&synthetic.folder().0).sort_by_file_name().into_iter().flatten();
    let files =
        files.filter(|entry| entry.path().extension().is_some_and(|end| end == "json" || end == "jsonl"));
    let mut count = 0;
    for file in files {
        let mut values = read(file.path());
        for line in 0..values.len() {
            let mut all = Vec::new();
            places(&values[line], "", &mut all);
            // The inner ones first: a field's name is part of the places in it.
            all.reverse();
            count += poison_some(synthetic, file.path(), &mut values, line, &all);
        }
    }
    count
}

/// Makes those of these texts hostile with which the folder can still be read.
fn poison_some(
    synthetic: &Synthetic,
    file: &std::path::Path,
    values: &mut Vec<Value>,
    line: usize,
    places: &[(String, Option<String>)],
) -> usize {
    let before = values[line].clone();
    for (at, field) in places {
        poison(&mut values[line], at, field.as_deref());
    }
    write(file, values);
    // A log that cannot be read is no error of the whole.
    let results = stored::read(synthetic.folder());
    if results.is_ok_and(|results| results.runs.iter().all(|run| run.unreadable.is_none())) {
        return places.len();
    }
    values[line] = before;
    write(file, values);
    let (first, second) = places.split_at(places.len() / 2);
    if first.is_empty() {
        return 0;
    }
    poison_some(synthetic, file, values, line, first) + poison_some(synthetic, file, values, line, second)
}
