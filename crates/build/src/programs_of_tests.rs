//! Programs that tests start: the binaries and examples that `cargo test` builds beside the tests.

use std::collections::BTreeSet;
use std::io::Write;

use crate::cargo::command;
use crate::cargo_call::configuration_above;
use crate::compilation::{self, CargoCall, Compiled};
use crate::failure::BuildFailure;
use crate::job::Job;
use crate::prepared_source::PreparedSource;
use crate::traced_sources;

/// Builds the programs, and adds them to what cargo built. Returns the first error if one does not
/// compile: the tests are measured all the same.
pub(crate) fn build(
    job: &Job<'_>,
    prepared: &PreparedSource,
    tests: &mut Compiled,
    log: &mut fs_err::File,
) -> anyhow::Result<Option<String>> {
    let target = traced_sources::target_folder(job)?;
    let mut arguments = command::programs_argv(&job.options(), &job.features(), &target);
    arguments.extend(configuration_above(job.inputs));
    let call = CargoCall { arguments, wrapper: job.wrapper()?, unselected: BTreeSet::new() };
    let built = compilation::compile(job, &call, prepared, log)?;
    tests.messages.artifacts.extend(built.messages.artifacts.iter().cloned());
    if built.success {
        return Ok(None);
    }
    let errors = BuildFailure::from_compiler(&built.messages, &built.stderr).first_errors;
    let error = errors.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
    writeln!(log, "# a binary or an example does not build")?;
    Ok(Some(error))
}
