//! Every case of the zoo builds and passes without the tool.

use std::process::Command;

use crate::support::zoo::{self, ZooRepository};
use crate::support::{isolated, succeed};

/// Builds each case as its own cargo does; a minute's work on two cores.
#[test]
fn every_case_passes_its_own_tests_uninjected() {
    for case in zoo::cases() {
        let repository = ZooRepository::of(&case);
        for revision in ["old", "new"] {
            let checkout = ["checkout", "--quiet", revision];
            succeed(isolated("git").args(checkout).current_dir(repository.root()));
            let mut cargo = Command::new("cargo");
            // What cargo and rustup set for this test is not a user's.
            for (name, _) in std::env::vars_os() {
                let text = name.to_string_lossy();
                if (text.starts_with("CARGO_") && text != "CARGO_HOME") || text == "RUSTUP_TOOLCHAIN" {
                    cargo.env_remove(&name);
                }
            }
            cargo.args(["test", "--workspace", "--offline", "--quiet"]).current_dir(repository.root());
            // Neither is looked at, and both take their time.
            cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
            if case != "no-lock" {
                cargo.arg("--locked");
            }
            if case == "failing" {
                cargo.args(["--", "--exact", "passes", "passes_by_panicking"]);
            }
            let output = cargo.output().unwrap();
            let passes = (case.as_str(), revision) != ("broken-build", "new");
            assert_eq!(
                output.status.success(),
                passes,
                "{case} {revision}:\n{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
