//! A call of cargo in the checkout that builds nothing.

use camino::Utf8Path;

use crate::job::{Inputs, Job};
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
    cargo = options.config.iter().fold(cargo, |cargo, setting| cargo.args(["--config", setting]));
    cargo.args(configuration_above(inputs))
}

/// Returns the arguments with which cargo reads the configuration above the user's repository. By
/// itself, it looks above the checkout.
pub(crate) fn configuration_above(inputs: &Inputs<'_>) -> Vec<String> {
    let above = inputs.repository.root().parent().into_iter().flat_map(Utf8Path::ancestors);
    let outside = above.filter(|folder| !inputs.checkout.starts_with(folder));
    let files = outside.map(|folder| folder.join(".cargo/config.toml")).filter(|file| file.exists());
    files.flat_map(|file| ["--config".to_owned(), file.to_string()]).collect()
}
