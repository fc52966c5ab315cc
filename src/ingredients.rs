//! What decides a build beside the revision's own files: the environment, and the toolchain file that rustup would find.

use std::collections::BTreeMap;

use camino::Utf8Path;

use crate::git::Repository;
use crate::plan::Plan;

/// Variables that the user gave for builds and runs of a revision.
pub fn requested_environment(plan: &Plan, index: usize) -> BTreeMap<String, String> {
    let mut environment = plan.request.env.clone();
    environment.extend(plan.request.refs.get(index).map(|wanted| wanted.env.clone()).unwrap_or_default());
    environment
}

/// Variables that decide what is built: those the user gave, and those that cargo, rustc and common build scripts read.
pub fn build_environment(plan: &Plan, index: usize) -> BTreeMap<String, String> {
    const NAMES: [&str; 12] = [
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
    let decides =
        |name: &str| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let not_ours = |name: &str| {
        // Which devices a run sees is no matter of the build.
        !crate::toolchain::is_of_our_cargo(name)
            && name != "CUDA_VISIBLE_DEVICES"
            && !name.ends_with("_RUNNER")
    };
    let mut environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| decides(name) && not_ours(name))
        .collect();
    environment.extend(requested_environment(plan, index));
    environment
}

/// Name and text of the toolchain file that rustup would find from the workspace upwards.
pub fn toolchain_file(
    repository: &Repository,
    commit: &str,
    workspace: &Utf8Path,
) -> anyhow::Result<Option<(String, Vec<u8>)>> {
    for folder in workspace.ancestors() {
        for name in ["rust-toolchain", "rust-toolchain.toml"] {
            if let Some(text) = repository.show(commit, folder.join(name).as_str())? {
                return Ok(Some((name.to_owned(), text)));
            }
        }
    }
    Ok(None)
}
