//! Collects the inputs of a build. Their hash is the build's key.

use std::collections::BTreeMap;
use std::path::PathBuf;

use camino::Utf8Path;

use crate::cargo::configuration::{self, Source};
use crate::cargo::{command, toolchain};
use crate::inject::external::PackageOptions;
use crate::inject::overlay;
use crate::inject::patch;
use crate::job::Job;
use crate::line_tables;
use crate::provenance::KeyInputs;
use crate::{inserted_checkpoints, shim, started_programs, traced_sources, typed_names};
use memprof_plan::request::{BuildOptions, OverlayMode};

/// Returns everything that affects a revision's build.
pub(crate) fn key_inputs(job: &Job<'_>) -> anyhow::Result<KeyInputs> {
    let inputs = job.inputs;
    let toolchain = job.toolchain;
    let mut environment = build_environment(job);
    environment.extend(line_tables::variable(job)?);
    Ok(KeyInputs {
        tree: job.revision().tree.clone(),
        workspace: inputs.plan.workspace.clone(),
        lock: job.injected_lockfile()?.map(|text| blake3::hash(&text).to_hex().to_string()),
        toolchain: format!("{}\n{}", toolchain.pinned.as_deref().unwrap_or_default(), toolchain.version),
        arguments: arguments(job, &traced_sources::target_folder(job)?),
        environment,
        configuration: outer_configuration(job),
        shim: shim::source_hash().to_owned(),
        overlay: overlay_inputs(job),
        sparse_exclude: inputs.plan.request.settings.sparse_exclude.clone(),
        checkout: inputs.checkout.clone(),
        trace: inputs.patterns.texts(),
        clean_env: inputs.plan.request.clean_env.clone(),
        programs: programs(job),
        programs_of_tests: started_programs::are_started(job),
        affected: inputs.plan.request.build.settings.affected,
        typed_names: typed_names::are_added(job),
        selected: None,
        selected_cells: None,
    })
}

/// Whether this program's own variable of this name affects a build: cargo, rustc or common build
/// scripts read it. A runner is kept with the build, and its tests are started with it.
fn affects_builds(name: &str) -> bool {
    const NAMES: [&str; 13] = [
        "CARGO_INCREMENTAL",
        "RUSTFLAGS",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_BOOTSTRAP",
        "CC",
        "CXX",
        "CFLAGS",
        "CXXFLAGS",
        "LDFLAGS",
        "AR",
        "LIBRARY_PATH",
    ];
    const PREFIXES: [&str; 10] = [
        "CARGO_PROFILE_",
        "CARGO_BUILD_",
        "CARGO_TARGET_",
        "CARGO_UNSTABLE_",
        "CARGO_ENCODED_RUSTFLAGS",
        "CUDA_",
        "OPENSSL_",
        "LIBTORCH",
        "PKG_CONFIG",
        "BINDGEN_",
    ];
    // `CUDA_VISIBLE_DEVICES` affects runs only.
    let is_users = !toolchain::is_of_our_cargo(name) && name != "CUDA_VISIBLE_DEVICES";
    is_users && (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// Returns the variables that affect a build: those that the user gave, and those that cargo, rustc
/// and common build scripts read.
pub(crate) fn build_environment(job: &Job<'_>) -> BTreeMap<String, String> {
    let requested = job.requested_environment();
    let mut environment = job.environment();
    environment.retain(|name, _| affects_builds(name) || requested.contains_key(name));
    environment
}

/// Returns the programs of the request: `bin tool`, or `bin tool of PACKAGE`.
fn programs(job: &Job<'_>) -> Vec<String> {
    let named = job.inputs.plan.request.programs().into_iter().map(|(program, package)| {
        let of = package.map(|package| format!(" of {package}")).unwrap_or_default();
        format!("{}{of}", program.target())
    });
    let mut programs: Vec<String> = named.collect();
    programs.sort();
    programs
}

fn overlay_inputs(job: &Job<'_>) -> BTreeMap<String, String> {
    let request = &job.inputs.plan.request;
    let mut all = overlay::ingredients(&job.overlay());
    all.extend(inserted_checkpoints::ingredients(job));
    all.extend(patch::ingredients(&job.inputs.patches));
    let folders = job.side().into_iter().flat_map(|side| &side.folders);
    all.extend(folders.map(|one| (format!("path of {}", one.package), one.folder.to_string())));
    if has_external_overlay(job) {
        let (options, _) = PackageOptions::split_off(&job.options(), job.features());
        all.insert("external".to_owned(), format!("{options:?}"));
    }
    let dependencies = request.overlay.iter().flat_map(|overlay| &overlay.dependencies);
    all.extend(dependencies.map(|(name, text)| (format!("dependency {name}"), text.clone())));
    all
}

fn has_external_overlay(job: &Job<'_>) -> bool {
    job.inputs.overlay.iter().any(|file| file.mode == OverlayMode::External)
}

/// Returns cargo's arguments.
fn arguments(job: &Job<'_>, target: &Utf8Path) -> Vec<String> {
    let build = &job.options();
    let features = job.features();
    if !job.wants_tests() {
        // The arguments that name the package matter, too: they decide where the program is searched.
        let packages =
            build.settings.packages.iter().flat_map(|package| ["--package".to_owned(), package.clone()]);
        command::run_argv(build, &features, target).into_iter().chain(packages).collect()
    } else if has_external_overlay(job) {
        // The package is a dependency of the external crate, whose manifest gets the package's
        // options.
        let (_, rest) = PackageOptions::split_off(build, features);
        command::test_argv(&rest, &[], target)
    } else if let Some(tests) = job.only_tests() {
        let build = BuildOptions { tests: tests.into_iter().collect(), ..build.clone() };
        command::test_argv(&build, &features, target)
    } else {
        command::test_argv(build, &features, target)
    }
}

/// Returns a hash of the configuration files outside the revision.
fn outer_configuration(job: &Job<'_>) -> String {
    let inputs = job.inputs;
    let roots = [inputs.checkout.as_path(), inputs.repository.root()];
    let above = roots.into_iter().flat_map(|root| root.ancestors().skip(1));
    let mut folders: Vec<PathBuf> = above.map(|folder| folder.join(".cargo").into()).collect();
    folders.extend(configuration::home());
    let mut hasher = blake3::Hasher::new();
    let mut add = |name: &[u8], source: Source| {
        for source in source.with_included() {
            hasher.update(name).update(source.text.as_bytes());
        }
    };
    for setting in &job.options().config {
        if let Ok(source) = Source::of_argument(&inputs.workspace(), setting) {
            add(setting.as_bytes(), source);
        }
    }
    for folder in folders {
        for name in ["config.toml", "config"] {
            if let Ok(source) = Source::of_file(folder.join(name)) {
                add(folder.as_os_str().as_encoded_bytes(), source);
            }
        }
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_with_a_build_is_in_its_key() {
        for name in ["RUSTFLAGS", "CUDA_HOME", "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"] {
            assert!(affects_builds(name), "{name}");
        }
        for name in ["CUDA_VISIBLE_DEVICES", "HOME", "RUNNER"] {
            assert!(!affects_builds(name), "{name}");
        }
    }
}
