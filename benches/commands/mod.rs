//! Commands of a bench, which must succeed.

use std::process::Command;

/// Removes what the cargo that runs this bench set.
pub fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO") {
            command.env_remove(name);
        }
    }
    command
}

/// Returns the output of a command that must succeed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
