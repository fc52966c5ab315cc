//! Programs that tests start: the binaries and examples that `cargo test` builds beside the tests.

use std::collections::BTreeSet;
use std::io::Write;

use cargo_metadata::{Artifact, Package, TargetKind};

use crate::cargo::command;
use crate::cargo::messages::Messages;
use crate::compilation::{self, CargoCall};
use crate::failure::BuildFailure;
use crate::job::Job;
use crate::prepared_source::PreparedSource;
use crate::provenance::KeyInputs;
use crate::traced_sources;

/// What cargo built beside the tests.
#[derive(Default)]
pub(crate) struct ProgramsOfTests {
    /// Cargo's artifacts.
    pub artifacts: Vec<Artifact>,
    /// The first error, if a program does not compile: the tests are measured all the same.
    pub error: Option<String>,
}

/// Builds the programs, if the tests may start one that was not built with them.
pub(crate) fn build(
    job: &Job<'_>,
    key_inputs: &KeyInputs,
    prepared: &PreparedSource,
    tests: &Messages,
    log: &mut fs_err::File,
) -> anyhow::Result<ProgramsOfTests> {
    let selected = &job.options().settings.packages;
    if !key_inputs.programs_of_tests || !has_missing(&prepared.packages, selected, &tests.artifacts) {
        return Ok(ProgramsOfTests::default());
    }
    let target = traced_sources::target_folder(job)?;
    let arguments = command::programs_argv(&job.options(), &job.features(), &target);
    let call = CargoCall { arguments, wrapper: job.wrapper()?, unselected: BTreeSet::new() };
    let built = compilation::compile(job, &call, prepared, log)?;
    let mut error = None;
    if !built.success {
        let errors = BuildFailure::from_compiler(&built.messages, &built.stderr).first_errors;
        let first = errors.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        error = Some(first.trim().to_owned());
        writeln!(log, "# a binary or an example does not build")?;
    }
    Ok(ProgramsOfTests { artifacts: built.messages.artifacts, error })
}

/// Whether a selected package has a binary or an example that cargo did not build with the tests. Cargo would take a tenth
/// of a second to find none.
fn has_missing(packages: &[Package], selected: &[String], artifacts: &[Artifact]) -> bool {
    let is_name = |specification: &String| packages.iter().any(|package| *package.name == *specification);
    let may_be_selected = |package: &&Package| {
        selected.is_empty() || selected.contains(&package.name) || !selected.iter().all(is_name)
    };
    packages.iter().filter(may_be_selected).any(|package| {
        let built: Vec<_> = artifacts.iter().filter(|artifact| artifact.package_id == package.id).collect();
        package.targets.iter().any(|target| {
            let is_program =
                target.kind.iter().any(|kind| matches!(kind, TargetKind::Bin | TargetKind::Example));
            let is_it =
                |built: &cargo_metadata::Target| built.name == target.name && built.kind == target.kind;
            let is_built = built.iter().any(|artifact| !artifact.profile.test && is_it(&artifact.target));
            // Cargo leaves out what needs another feature.
            let is_enabled = |feature| {
                built.is_empty() || built.iter().any(|artifact| artifact.features.contains(feature))
            };
            is_program && !is_built && target.required_features.iter().all(is_enabled)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn target(kind: &str, required: &[&str]) -> Value {
        json!({
            "kind": [kind], "crate_types": ["bin"], "name": kind, "src_path": "/w/a.rs", "edition": "2024",
            "required-features": required, "doc": true, "doctest": false, "test": true,
        })
    }

    fn package(name: &str, targets: &[Value]) -> Package {
        let package = json!({
            "name": name, "version": "1.0.0", "id": name, "manifest_path": format!("/w/{name}/Cargo.toml"),
            "targets": targets, "dependencies": [], "features": {}, "source": null, "license": null,
            "license_file": null, "description": null, "metadata": null, "publish": null, "authors": [],
            "categories": [], "keywords": [], "readme": null, "repository": null, "homepage": null,
            "documentation": null, "edition": "2024", "links": null, "default_run": null, "rust_version": null,
        });
        serde_json::from_value(package).expect("a package as cargo prints it")
    }

    fn artifact(package: &str, kind: &str, is_test: bool, features: &[&str]) -> Artifact {
        let artifact = json!({
            "package_id": package, "manifest_path": "/w/Cargo.toml", "target": target(kind, &[]),
            "profile": {
                "opt_level": "0", "debuginfo": 2, "debug_assertions": true, "overflow_checks": true, "test": is_test,
            },
            "features": features, "filenames": [], "executable": null, "fresh": false,
        });
        serde_json::from_value(artifact).expect("an artifact as cargo prints it")
    }

    #[test]
    fn only_a_program_that_was_not_built_with_the_tests_is_missing() {
        let of = |kind, required: &[&str]| [package("a", &[target(kind, required)]), package("b", &[])];
        let lib = artifact("a", "lib", true, &["x"]);
        let missing = |packages: &[Package], selected: &str, artifacts: &[Artifact]| {
            has_missing(
                packages,
                &selected.split_terminator(' ').map(str::to_owned).collect::<Vec<_>>(),
                artifacts,
            )
        };
        assert!(missing(&of("example", &[]), "", std::slice::from_ref(&lib)));
        assert!(missing(&of("example", &[]), "a b", std::slice::from_ref(&lib)));
        assert!(!missing(&of("example", &[]), "b", std::slice::from_ref(&lib)));
        assert!(missing(&of("example", &[]), "file:///w/a", std::slice::from_ref(&lib)));
        assert!(!missing(&of("test", &[]), "", std::slice::from_ref(&lib)));
        // A binary that an integration test needs is there already; one with a harness is not it.
        assert!(!missing(&of("bin", &[]), "", &[artifact("a", "bin", false, &[])]));
        assert!(missing(&of("bin", &[]), "", &[artifact("a", "bin", true, &[])]));
        // With a feature that is on, and with one that is not.
        assert!(missing(&of("example", &["x"]), "", std::slice::from_ref(&lib)));
        assert!(!missing(&of("example", &["x", "y"]), "", &[lib]));
        // Of a package without an artifact, the features are unknown.
        assert!(missing(&of("example", &["y"]), "", &[]));
    }
}
