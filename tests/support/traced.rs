//! Calls of the tool that trace functions, and what their reports say of them.

use serde_json::Value;

use crate::support::{Printed, TestRepository, home_at, tool};

pub fn memprof(repository: &TestRepository, arguments: &[&str]) -> Printed {
    let mut command = tool();
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home_at(repository.beside("home")));
    command.arg("memprof").args(arguments);
    Printed::of(command)
}

/// The JSON report of a run that must succeed.
pub fn report(repository: &TestRepository, arguments: &[&str]) -> Value {
    let printed = memprof(repository, &[arguments, &["--format", "json"]].concat());
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    serde_json::from_str(&printed.stdout).unwrap()
}

/// Calls, sum of what was consumed, most that was peaked, by function in one ref.
pub fn calls(report: &Value, of: &str, label: &str) -> (i64, i64, i64) {
    let cells = report["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["ref"] == of).unwrap();
    let nodes = cell["trace"]["nodes"].as_object().unwrap();
    let node =
        nodes.values().find(|node| node["label"] == label).unwrap_or_else(|| panic!("{label} in {nodes:#?}"));
    let number = |value: &Value| value.as_i64().unwrap();
    (number(&node["calls"]), number(&node["metrics"]["heap.consumed"]), number(&node["most"]["heap.peaked"]))
}

/// Why each function of one ref is not traced.
pub fn untraced(report: &Value, of: &str) -> Vec<(String, String)> {
    let functions = report["traced"][of]["functions"].as_array().unwrap();
    let reason = |function: &Value| {
        let reason = function["untraced"].as_object()?.values().next()?.as_str()?;
        Some((function["path"].as_str()?.to_owned(), reason.to_owned()))
    };
    functions.iter().filter_map(reason).collect()
}
