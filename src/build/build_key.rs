//! What decides a build, whose hash is its key: cargo's arguments, the environment, configuration and the toolchain file
//! that rustup would find, beside the revision's own files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use camino::Utf8Path;

use crate::build::builder::Builder;
use crate::build::shim;
use crate::build::store::Ingredients;
use crate::cargo::command;
use crate::cargo::configuration;
use crate::cargo::lockfile::{self, Lockfile};
use crate::cargo::toolchain::Toolchain;
use crate::git::repository::Repository;
use crate::inject::external::PackageOptions;
use crate::inject::overlay;
use crate::plan::request::OverlayMode;
use crate::plan::resolved::Plan;

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
        !crate::cargo::toolchain::is_of_our_cargo(name)
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

impl Builder<'_> {
    /// All that decides a revision's build.
    pub(crate) fn ingredients(&self, index: usize, toolchain: &Toolchain) -> anyhow::Result<Ingredients> {
        let revision = &self.plan.revisions[index];
        let committed = lockfile::is_committed(self.plan, index, self.repository)?;
        let lock = match &self.lockfile {
            Lockfile::Given(text) if !committed => Some(blake3::hash(text).to_hex().to_string()),
            _ => None,
        };
        Ok(Ingredients {
            tree: revision.tree.clone(),
            workspace: self.plan.workspace.clone(),
            lock,
            toolchain: format!("{}\n{}", toolchain.pinned.as_deref().unwrap_or_default(), toolchain.version),
            arguments: self.arguments(index, &self.target(index)?),
            environment: build_environment(self.plan, index),
            configuration: self.outer_configuration(),
            shim: shim::source_hash(),
            overlay: self.overlay_ingredients(index),
            sparse_exclude: self.plan.request.sparse_exclude.clone(),
            checkout: self.worktree.path().to_owned(),
            trace: self.patterns.texts(),
        })
    }

    fn overlay_ingredients(&self, index: usize) -> BTreeMap<String, String> {
        let mut all = overlay::ingredients(&self.overlay);
        if self.has_external_overlay() {
            let (options, _) = PackageOptions::split_off(&self.plan.request.build, self.features(index));
            all.insert("external".to_owned(), format!("{options:?}"));
        }
        for request in &self.plan.request.overlay {
            all.extend(
                request.dependencies.iter().map(|(name, text)| (format!("dependency {name}"), text.clone())),
            );
        }
        all
    }

    fn has_external_overlay(&self) -> bool {
        self.overlay.iter().any(|file| file.mode == OverlayMode::External)
    }

    /// The features of all revisions, of this one and of the tests, each once.
    pub(crate) fn features(&self, index: usize) -> Vec<String> {
        let request = &self.plan.request;
        let mut features = request.build.features.clone();
        let of_ref = request.refs.get(index).map(|wanted| wanted.features.clone()).unwrap_or_default();
        let of_tests = request.tests.iter().flat_map(|test| test.features.clone());
        for feature in of_ref.into_iter().chain(of_tests) {
            if !features.contains(&feature) {
                features.push(feature);
            }
        }
        features
    }

    fn arguments(&self, index: usize, target: &Utf8Path) -> Vec<String> {
        let request = &self.plan.request;
        let features = self.features(index);
        let mut arguments = if self.has_external_overlay() {
            // The package is a dependency there, and what is about it goes into the crate's manifest.
            let (_, rest) = PackageOptions::split_off(&request.build, features);
            command::test_argv(&rest, &[], target)
        } else {
            command::test_argv(&request.build, &features, target)
        };
        // Configuration above the user's repository is not above our checkout.
        let above = self.repository.root().parent().into_iter().flat_map(Utf8Path::ancestors);
        for folder in above.filter(|folder| !self.worktree.path().starts_with(folder)) {
            let file = folder.join(".cargo/config.toml");
            if file.exists() {
                arguments.extend(["--config".to_owned(), file.to_string()]);
            }
        }
        arguments
    }

    /// A hash of the configuration files that are not the revision's own.
    fn outer_configuration(&self) -> String {
        let mut folders: Vec<PathBuf> =
            self.worktree.path().ancestors().skip(1).map(|f| f.join(".cargo").into()).collect();
        folders.extend(self.repository.root().ancestors().skip(1).map(|folder| folder.join(".cargo").into()));
        folders.extend(configuration::home());
        let mut hasher = blake3::Hasher::new();
        for setting in &self.plan.request.build.config {
            if let Ok(text) = fs_err::read(setting) {
                hasher.update(setting.as_bytes()).update(&text);
            }
        }
        for folder in folders {
            for name in ["config.toml", "config"] {
                if let Ok(text) = fs_err::read(folder.join(name)) {
                    hasher.update(folder.as_os_str().as_encoded_bytes()).update(&text);
                }
            }
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }
}
