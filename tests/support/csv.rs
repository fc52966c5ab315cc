//! Calls of the tool, and its report as CSV.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Printed, tool};

/// One value of the CSV report.
#[derive(Debug, serde::Deserialize)]
#[expect(clippy::struct_field_names, reason = "the columns of the report")]
pub struct Value {
    pub r#ref: String,
    pub test: String,
    pub outcome: String,
    pub checkpoint: String,
    pub metric: String,
    pub value: Option<u64>,
}

pub fn values(printed: &Printed) -> Vec<Value> {
    let mut reader = csv::Reader::from_reader(printed.stdout.as_bytes());
    reader.deserialize().map(|row| row.expect("a row of the report")).collect()
}

pub fn command(folder: &Path, home: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = tool();
    command.current_dir(folder).env("CARGO_MEMPROF_HOME", home).arg("memprof").args(arguments);
    if arguments.contains(&"--refs") {
        // The cases change memory on purpose, and what is asked here is not the verdict.
        command.args(["--threshold", "*=off"]);
    }
    command
}

pub fn memprof(folder: &Path, home: &Path, arguments: &[&str]) -> Printed {
    Printed::of(command(folder, home, arguments))
}

/// `heap.live` at `done` of each test and ref, where the run was ok.
pub fn kept(values: &[Value]) -> BTreeMap<(String, String), u64> {
    let at_done = values
        .iter()
        .filter(|value| value.checkpoint == "done" && value.metric == "heap.live" && value.outcome == "ok");
    at_done.map(|value| ((value.test.clone(), value.r#ref.clone()), value.value.expect("a figure"))).collect()
}
