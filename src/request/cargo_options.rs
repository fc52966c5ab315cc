//! Cargo's options of a request: those of the flags, or else of memprof.yaml.

use camino::Utf8Path;

use crate::arguments::cargo::CargoArguments;
use crate::request::surroundings::{Surroundings, normalized};
use crate::request::yaml_values::{is_on, list, text, texts};
use memprof_plan::config::matrix::Matrix;
use memprof_plan::config::yaml::{List, Scalar};
use memprof_plan::request::BuildOptions;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// Returns cargo's options.
pub fn build_options(
    flags: &CargoArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
) -> Result<BuildOptions, UserError> {
    let packages_named = !flags.package.is_empty() || flags.workspace;
    let profile = only("--profile", &flags.profile)?.or_else(|| flags.release.then(|| "release".to_owned()));
    let toolchain = only("--toolchain", &flags.toolchain)?;
    let owned = |value: Option<&Scalar<String>>| text(value).map(str::to_owned);
    Ok(BuildOptions {
        manifest_path: flags.manifest_path.as_deref().map(|path| manifest(path, surroundings)).transpose()?,
        packages: if packages_named { flags.package.clone() } else { texts(matrix.packages.as_ref()) },
        workspace: if packages_named { flags.workspace } else { is_on(matrix.workspace.as_ref()) },
        features: features(&list(&flags.features, matrix.features.as_ref())),
        all_features: is_on(matrix.all_features.as_ref()),
        no_default_features: !flags.no_default_features.is_empty()
            || is_on(matrix.no_default_features.as_ref()),
        profile: profile.or_else(|| owned(matrix.profile.as_ref())),
        target: owned(matrix.target.as_ref()),
        all_tests: flags.all_tests,
        lib: flags.lib,
        bins: flags.bin_tests.clone(),
        tests: flags.test.clone(),
        benches: if flags.benches { vec!["*".to_owned()] } else { flags.bench.clone() },
        jobs: None,
        offline: is_on(matrix.offline.as_ref()),
        locked: is_on(matrix.locked.as_ref()),
        config: config(&flags.config, matrix.config.as_ref(), surroundings)?,
        toolchain: toolchain.or_else(|| owned(matrix.toolchain.as_ref())),
    })
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

/// Returns the manifest's path relative to the repository, which is the same in every revision.
fn manifest(path: &Utf8Path, surroundings: Surroundings<'_>) -> Result<String, UserError> {
    let absolute = normalized(&surroundings.current.join(path));
    if absolute.file_name() != Some("Cargo.toml") {
        let help = (absolute.file_name())
            .and_then(|name| suggest::did_you_mean(name, ["Cargo.toml"]))
            .unwrap_or_else(|| format!("write --manifest-path {}", path.join("Cargo.toml")));
        return Err(UserError::new(format!("--manifest-path {path} is not a Cargo.toml")).help(help));
    }
    match absolute.strip_prefix(surroundings.repository) {
        Ok(inside) => Ok(inside.to_string()),
        Err(_) => Err(UserError::new(format!("--manifest-path {path} is outside the repository"))
            .help(format!("the repository is {}; name a Cargo.toml in it", surroundings.repository))),
    }
}
