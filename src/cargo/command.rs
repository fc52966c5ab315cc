//! Cargo's command line, and what cargo says while it builds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Artifact, CompilerMessage, Message};

use crate::plan::request::{BuildOptions, TargetKind};

/// What a build left, as far as cargo's messages tell.
#[derive(Debug, Default)]
pub struct Messages {
    /// Everything that was compiled or found fresh, in cargo's order.
    pub artifacts: Vec<Artifact>,
    /// Compiler messages at level error.
    pub errors: Vec<CompilerMessage>,
    /// Messages below level error that the caller asked for, each once. Cargo repeats those of fresh targets.
    pub kept: Vec<String>,
    /// `OUT_DIR` of each dependency from outside the checkout: what lies there is the same in every revision that has the
    /// dependency.
    pub foreign_out_directories: Vec<Utf8PathBuf>,
}

/// The arguments after `cargo` that build the tests, and then run each through the runner.
///
/// `cargo test` and not `cargo build --tests`: it builds `--lib` and `--bin` as tests, and it hands each executable to the
/// runner with its environment. `--no-fail-fast` makes one broken target cost only itself.
pub fn test_argv(options: &BuildOptions, features: &[String], target_directory: &Utf8Path) -> Vec<String> {
    let mut argv: Vec<String> =
        ["test", "--no-fail-fast", "--message-format=json"].map(ToOwned::to_owned).to_vec();
    argv.extend(["--target-dir".to_owned(), target_directory.to_string()]);
    let mut flag = |wanted: bool, name: &str| argv.extend(wanted.then(|| name.to_owned()));
    flag(options.workspace, "--workspace");
    flag(options.all_features, "--all-features");
    flag(options.no_default_features, "--no-default-features");
    flag(options.lib, "--lib");
    flag(options.offline, "--offline");
    flag(options.locked, "--locked");
    let named = [
        ("--package", &options.packages),
        ("--bin", &options.bins),
        ("--test", &options.tests),
        ("--example", &options.examples),
        ("--bench", &options.benches),
        ("--config", &options.config),
    ];
    for (name, values) in named {
        argv.extend(values.iter().flat_map(|value| [name.to_owned(), value.clone()]));
    }
    if !features.is_empty() {
        argv.extend(["--features".to_owned(), features.join(",")]);
    }
    let valued = [("--profile", &options.profile), ("--target", &options.target)];
    for (name, value) in valued {
        argv.extend(value.iter().flat_map(|value| [name.to_owned(), value.clone()]));
    }
    argv.extend(options.jobs.iter().flat_map(|jobs| ["--jobs".to_owned(), jobs.to_string()]));
    let selects_targets = options.lib
        || [&options.bins, &options.tests, &options.examples, &options.benches]
            .iter()
            .any(|names| !names.is_empty());
    if !selects_targets {
        // Without it `cargo test` runs doc-tests and builds every example.
        argv.push("--tests".to_owned());
    }
    argv
}

impl Messages {
    /// Takes one line of cargo's standard output and returns the crate that was compiled, if one was. Keeps the messages
    /// for which `is_kept` holds.
    pub fn take(&mut self, line: &[u8], is_kept: fn(&str) -> bool) -> Option<String> {
        match serde_json::from_slice::<Message>(line).ok()? {
            Message::CompilerArtifact(artifact) => {
                let name = (!artifact.fresh).then(|| artifact.target.name.clone());
                self.artifacts.push(artifact);
                name
            }
            Message::CompilerMessage(message) => {
                if matches!(
                    message.message.level,
                    cargo_metadata::diagnostic::DiagnosticLevel::Error
                        | cargo_metadata::diagnostic::DiagnosticLevel::Ice
                ) {
                    self.errors.push(message);
                } else if is_kept(&message.message.message) && !self.kept.contains(&message.message.message) {
                    self.kept.push(message.message.message);
                }
                None
            }
            Message::BuildScriptExecuted(script) => {
                if !is_path_id(&script.package_id.repr) {
                    self.foreign_out_directories.push(script.out_dir);
                }
                None
            }
            _ => None,
        }
    }

    /// The text of the first errors, as the compiler rendered them.
    pub fn first_errors(&self, count: usize) -> String {
        let mut seen = Vec::new();
        for error in &self.errors {
            let text = error.message.rendered.as_deref().unwrap_or(&error.message.message).trim_end();
            // "aborting due to 2 previous errors" says nothing, and the library's error comes again with its tests.
            if !text.starts_with("error: aborting due to") && !seen.contains(&text) {
                seen.push(text);
            }
        }
        seen.truncate(count);
        seen.join("\n")
    }
}

/// The kind of a target that can hold tests.
pub fn target_kind(target: &cargo_metadata::Target) -> Option<TargetKind> {
    use cargo_metadata::TargetKind as Kind;
    target.kind.iter().find_map(|kind| match kind {
        Kind::Lib | Kind::RLib | Kind::DyLib | Kind::CDyLib | Kind::StaticLib | Kind::ProcMacro => {
            Some(TargetKind::Lib)
        }
        Kind::Bin => Some(TargetKind::Bin),
        Kind::Test => Some(TargetKind::Test),
        Kind::Example => Some(TargetKind::Example),
        Kind::Bench => Some(TargetKind::Bench),
        _ => None,
    })
}

/// Whether the sources of this package are files that a checkout can change, and not a registry's or a pinned commit's.
pub fn is_path_package(artifact: &Artifact) -> bool {
    is_path_id(&artifact.package_id.repr)
}

/// The same for a package id as cargo writes it, in its new form or the one before Rust 1.77.
pub fn is_path_id(id: &str) -> bool {
    id.starts_with("path+") || id.contains("(path+")
}

/// The variable that overrides the runner of a target.
pub fn runner_variable(triple: &str) -> String {
    format!("CARGO_TARGET_{}_RUNNER", triple.to_uppercase().replace(['-', '.'], "_"))
}

/// The targets of a manifest that have `harness = false`, by kind and name.
///
/// `cargo metadata` does not say it, and running such a target with `--list` would run it.
pub fn without_harness(manifest: &Utf8Path) -> anyhow::Result<Vec<(TargetKind, String)>> {
    let document: toml_edit::DocumentMut = fs_err::read_to_string(manifest)?.parse()?;
    let mut targets = Vec::new();
    let off = |item: &toml_edit::Item| item.get("harness").and_then(toml_edit::Item::as_bool) == Some(false);
    if document.get("lib").is_some_and(off) {
        targets.push((TargetKind::Lib, String::new()));
    }
    let kinds = [
        ("bin", TargetKind::Bin),
        ("test", TargetKind::Test),
        ("example", TargetKind::Example),
        ("bench", TargetKind::Bench),
    ];
    for (key, kind) in kinds {
        let Some(item) = document.get(key) else { continue };
        let tables: Vec<BTreeMap<String, toml_edit::Value>> = tables(item);
        for table in tables {
            let name = table.get("name").and_then(|name| name.as_str());
            if table.get("harness").and_then(toml_edit::Value::as_bool) == Some(false) {
                targets.extend(name.map(|name| (kind, name.to_owned())));
            }
        }
    }
    Ok(targets)
}

/// `[[test]]` tables, or an inline `test = [{…}]`.
fn tables(item: &toml_edit::Item) -> Vec<BTreeMap<String, toml_edit::Value>> {
    let values = |table: &dyn toml_edit::TableLike| {
        table
            .iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.as_value()?.clone())))
            .collect::<BTreeMap<_, _>>()
    };
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|table| values(table)).collect();
    }
    let inline = item.as_array().into_iter().flatten();
    inline.filter_map(|value| Some(values(value.as_inline_table()?))).collect()
}

/// The name of an artifact's package, from its manifest: package ids have it in several forms.
pub fn package_name(artifact: &Artifact) -> anyhow::Result<String> {
    let document: toml_edit::DocumentMut = fs_err::read_to_string(&artifact.manifest_path)?.parse()?;
    let name =
        document.get("package").and_then(|package| package.get("name")).and_then(toml_edit::Item::as_str);
    name.map(ToOwned::to_owned).with_context(|| format!("{} names no package", artifact.manifest_path))
}

/// The folder of an artifact's package.
pub fn package_folder(artifact: &Artifact) -> Utf8PathBuf {
    artifact.manifest_path.parent().unwrap_or(Utf8Path::new("/")).to_owned()
}

/// A path of the operating system as text; what is not UTF-8 is an error that names it.
pub fn utf8(path: PathBuf) -> anyhow::Result<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(path).map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(options: &BuildOptions) -> String {
        test_argv(options, &options.features, Utf8Path::new("/t")).join(" ")
    }

    #[test]
    fn without_a_selection_every_target_with_tests_is_built_and_no_doc_test() {
        assert_eq!(
            argv(&BuildOptions::default()),
            "test --no-fail-fast --message-format=json --target-dir /t --tests"
        );
    }

    #[test]
    fn cargos_options_are_passed_through() {
        let options = BuildOptions {
            packages: vec!["a".into()],
            features: vec!["x".into(), "y".into()],
            profile: Some("release".into()),
            target: Some("t".into()),
            lib: true,
            tests: vec!["it".into()],
            jobs: Some(3),
            offline: true,
            locked: true,
            config: vec!["net.retry=1".into()],
            ..BuildOptions::default()
        };
        assert_eq!(
            argv(&options),
            "test --no-fail-fast --message-format=json --target-dir /t --lib --offline --locked --package a --test it \
             --config net.retry=1 --features x,y --profile release --target t --jobs 3"
        );
    }

    #[test]
    fn targets_without_a_harness_are_read_from_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = Utf8Path::from_path(folder.path()).unwrap().join("Cargo.toml");
        fs_err::write(
            &manifest,
            "[[test]]\nname='a'\nharness=false\n[[test]]\nname='b'\n[[bench]]\nname='c'\nharness=false\n",
        )
        .unwrap();
        let found = without_harness(&manifest).unwrap();
        assert_eq!(found, [(TargetKind::Test, "a".to_owned()), (TargetKind::Bench, "c".to_owned())]);
    }
}
