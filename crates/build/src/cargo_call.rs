//! A call of cargo in the checkout that builds nothing.

use camino::Utf8Path;

use crate::job::Job;
use memprof_plan::request::BuildOptions;
use memprof_support::process::Command;

/// Returns a call of cargo for this manifest, with the options that decide what it resolves.
pub(crate) fn in_checkout(
    job: &Job<'_>,
    options: &BuildOptions,
    manifest: &Utf8Path,
    arguments: &[&str],
) -> Command {
    let inputs = job.inputs;
    let mut cargo = job.toolchain.cargo().args(arguments);
    cargo = cargo.arg("--manifest-path").arg(manifest).current_dir(inputs.workspace());
    cargo = cargo.envs(job.requested_environment()).env("CARGO_TERM_COLOR", "never");
    if options.settings.offline {
        cargo = cargo.arg("--offline");
    }
    options.config.iter().fold(cargo, |cargo, setting| cargo.args(["--config", setting]))
}
