//! Asks a test executable which tests it holds.

use std::collections::{BTreeMap, HashSet};

use camino::Utf8Path;

use crate::process::{Command, ProcessError};
use crate::store::ListedTest;
use crate::toolchain::clean;
use crate::wrapper::LIBRARY_PATHS;

/// The tests of an executable with libtest's harness, or why it does not list them.
pub fn list(
    executable: &Utf8Path,
    runner: &[String],
    directory: &Utf8Path,
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<(Vec<ListedTest>, Option<String>)> {
    let ask = |arguments: &[&str]| -> Result<Vec<String>, ProcessError> {
        let command = in_cargos_place(executable, runner, directory, environment).args(arguments);
        Ok(parse(&command.run()?.text()))
    };
    let all = ask(&["--list", "--format", "terse"]);
    let ignored = ask(&["--ignored", "--list", "--format", "terse"]);
    match (all, ignored) {
        (Ok(all), Ok(ignored)) => {
            let ignored: HashSet<String> = ignored.into_iter().collect();
            let listed = |name: String| ListedTest { ignored: ignored.contains(&name), name };
            Ok((all.into_iter().map(listed).collect(), None))
        }
        (Err(error), _) | (_, Err(error)) => Ok((Vec::new(), Some(error.to_string()))),
    }
}

/// The command that runs an executable as `cargo test` would: its runner, folder and environment.
pub fn in_cargos_place(
    executable: &Utf8Path,
    runner: &[String],
    directory: &Utf8Path,
    environment: &BTreeMap<String, String>,
) -> Command {
    let command = match runner.split_first() {
        Some((program, arguments)) => Command::new(program).args(arguments).arg(executable),
        None => Command::new(executable),
    };
    let mut command = clean(command).current_dir(directory).env_remove("RUST_RECURSION_COUNT");
    for (name, value) in environment {
        let users =
            std::env::var(name).ok().filter(|had| LIBRARY_PATHS.contains(&name.as_str()) && !had.is_empty());
        command = match users {
            Some(had) => command.env(name, format!("{value}:{had}")),
            None => command.env(name, value),
        };
    }
    command
}

fn parse(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, kind) = line.rsplit_once(": ")?;
        ["test", "benchmark"].contains(&kind).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_counts_are_not() {
        let text = "tests::a: test\ntests::b: benchmark\n\n2 tests, 0 benchmarks";
        assert_eq!(parse(text), ["tests::a", "tests::b"]);
    }
}
