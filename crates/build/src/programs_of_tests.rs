//! Programs that tests start: the binaries and examples that `cargo test` builds beside the tests.

use std::collections::BTreeSet;
use std::io::Write;

use cargo_metadata::Artifact;

use crate::cargo::command;
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

/// Builds the programs, if the tests may start one.
pub(crate) fn build(
    job: &Job<'_>,
    key_inputs: &KeyInputs,
    prepared: &PreparedSource,
    log: &mut fs_err::File,
) -> anyhow::Result<ProgramsOfTests> {
    if !key_inputs.programs_of_tests {
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
