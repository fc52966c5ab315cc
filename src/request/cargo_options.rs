//! Cargo's options of a request: those of the flags, or else of memprof.yaml.

use camino::Utf8Path;

use crate::arguments::cargo::CargoArguments;
use crate::request::surroundings::{Surroundings, normalized};
use memprof_plan::config::keep::kept;
use memprof_plan::config::matrix::Matrix;
use memprof_plan::config::yaml::{List, Scalar};
use memprof_plan::request::BuildOptions;
use memprof_plan::settings::BuildSettings;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// Returns cargo's options.
pub fn build_options(
    flags: &CargoArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
) -> Result<BuildOptions, UserError> {
    let profile = only("--profile", &flags.profile)?.or_else(|| flags.release.then(|| "release".to_owned()));
    let toolchain = only("--toolchain", &flags.toolchain)?;
    Ok(BuildOptions {
        manifest_path: flags.manifest_path.as_deref().map(|path| manifest(path, surroundings)).transpose()?,
        settings: BuildSettings::from(matrix),
        features: features(&list(&flags.features, matrix.features.as_ref())),
        no_default_features: !flags.no_default_features.is_empty()
            || kept(matrix.no_default_features.as_ref()),
        profile: profile.or_else(|| kept(matrix.profile.as_ref())),
        all_tests: flags.all_tests,
        lib: flags.lib,
        bins: flags.bin_tests.clone(),
        tests: flags.test.clone(),
        benches: if flags.benches { vec!["*".to_owned()] } else { flags.bench.clone() },
        jobs: None,
        config: config(&flags.config, matrix.config.as_ref(), surroundings)?,
        toolchain: toolchain.or_else(|| kept(matrix.toolchain.as_ref())),
    })
}

/// Returns the list of the flags, or else that of the key.
fn list(flags: &[String], key: Option<&List<Scalar<String>>>) -> Vec<String> {
    if flags.is_empty() { kept(key) } else { flags.to_vec() }
}

/// Returns cargo's `--config` settings, with paths made absolute.
///
/// Cargo runs in the checkout, and the user means paths relative to the current folder or to
/// memprof.yaml.
fn config(
    flags: &[String],
    key: Option<&List<Scalar<String>>>,
    surroundings: Surroundings<'_>,
) -> Result<Vec<String>, UserError> {
    let base = if flags.is_empty() { surroundings.matrix } else { surroundings.current };
    list(flags, key).into_iter().map(|text| setting(text, base, surroundings)).collect()
}

/// Returns a setting as it is, or the absolute path of the file that it names.
pub fn setting(
    setting: String,
    base: &Utf8Path,
    surroundings: Surroundings<'_>,
) -> Result<String, UserError> {
    let file = normalized(&base.join(&setting));
    // Cargo also looks for a file first.
    if (surroundings.exists)(&file) {
        return Ok(file.into_string());
    }
    if setting.contains('=') {
        return Ok(setting);
    }
    Err(UserError::new(format!("--config {setting}: there is no file {file}"))
        .help("for a single setting, write KEY=VALUE: --config net.retry=3"))
}

/// Returns the one value that holds for every ref.
fn only(flag: &str, values: &[String]) -> Result<Option<String>, UserError> {
    match values {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [one, other, ..] => {
            Err(UserError::new(format!("{flag} {one} and {flag} {other} are both for every ref"))
                .help(format!("name the sides: {flag} old:{one} {flag} new:{other}")))
        }
    }
}

/// Returns features that are written with commas or spaces between them.
pub fn features(written: &[String]) -> Vec<String> {
    let parts = written.iter().flat_map(|features| features.split([',', ' ']));
    parts.filter(|feature| !feature.is_empty()).map(str::to_owned).collect()
}

/// Returns the manifest's path, which depends on the current folder until the workspace is found.
fn manifest(path: &Utf8Path, surroundings: Surroundings<'_>) -> Result<String, UserError> {
    let absolute = normalized(&surroundings.current.join(path));
    if absolute.file_name() != Some("Cargo.toml") {
        let help = (absolute.file_name())
            .and_then(|name| suggest::did_you_mean(name, ["Cargo.toml"]))
            .unwrap_or_else(|| format!("write --manifest-path {}", path.join("Cargo.toml")));
        return Err(UserError::new(format!("--manifest-path {path} is not a Cargo.toml")).help(help));
    }
    if !absolute.starts_with(surroundings.repository) {
        return Err(UserError::new(format!("--manifest-path {path} is outside the repository"))
            .help(format!("the repository is {}; name a Cargo.toml in it", surroundings.repository)));
    }
    Ok(absolute.into_string())
}
