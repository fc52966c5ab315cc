//! What cargo prints while it builds: `--message-format=json`, one message a line.

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::diagnostic::DiagnosticLevel;
use cargo_metadata::{Artifact, CompilerMessage, Message, PackageId};

use memprof_support::paths::without_dots;

/// A build script of a package of the checkout, as it ran.
#[derive(Debug)]
pub struct LocalScript {
    pub package: PackageId,
    /// Its `OUT_DIR`.
    pub out: Utf8PathBuf,
}

/// The results of a build, according to cargo's messages.
#[derive(Debug, Default)]
pub struct Messages {
    /// All artifacts that were compiled or fresh, in cargo's order.
    pub artifacts: Vec<Artifact>,
    /// Compiler messages at level error.
    pub errors: Vec<CompilerMessage>,
    /// Messages below level error that the caller wants, each once. Cargo repeats those of fresh
    /// targets.
    pub kept: Vec<String>,
    /// `OUT_DIR` of each dependency from outside of the checkout. Its content is the same in every
    /// revision with this dependency.
    pub foreign_out_directories: Vec<Utf8PathBuf>,
    /// The build scripts of the packages of the checkout.
    pub scripts: Vec<LocalScript>,
    /// The first message about an artifact that cannot be read, and why. Without it, tests would be
    /// missing.
    pub unreadable: Option<String>,
}

/// The begin of a message about an artifact.
const ARTIFACT: &[u8] = br#"{"reason":"compiler-artifact""#;

impl Messages {
    /// Takes one line of cargo's standard output, and returns the crate that was compiled, if any.
    /// Keeps the messages for which `is_kept` holds.
    pub fn take(&mut self, line: &[u8], is_kept: fn(&str) -> bool) -> Option<String> {
        let message = match serde_json::from_slice::<Message>(line) {
            Ok(message) => message,
            Err(error) => {
                // Other lines are a program's output, and mean nothing.
                if line.starts_with(ARTIFACT) {
                    self.unreadable.get_or_insert(format!("{error} in {}", String::from_utf8_lossy(line)));
                }
                return None;
            }
        };
        match message {
            Message::CompilerArtifact(mut artifact) => {
                artifact.target.src_path = without_dots(&artifact.target.src_path);
                let name = (!artifact.fresh).then(|| artifact.target.name.clone());
                self.artifacts.push(artifact);
                name
            }
            Message::CompilerMessage(mut message) => {
                message.target.src_path = without_dots(&message.target.src_path);
                if matches!(message.message.level, DiagnosticLevel::Error | DiagnosticLevel::Ice) {
                    self.errors.push(message);
                } else if is_kept(&message.message.message) && !self.kept.contains(&message.message.message) {
                    self.kept.push(message.message.message);
                }
                None
            }
            Message::BuildScriptExecuted(script) => {
                if is_path_id(&script.package_id.repr) {
                    self.scripts.push(LocalScript { package: script.package_id, out: script.out_dir });
                } else {
                    self.foreign_out_directories.push(script.out_dir);
                }
                None
            }
            _ => None,
        }
    }

    /// Adds what cargo printed in another build of the same sources.
    pub fn join(&mut self, other: Self) {
        self.artifacts.extend(other.artifacts);
        self.errors.extend(other.errors);
        self.kept.extend(other.kept.into_iter().filter(|text| !self.kept.contains(text)).collect::<Vec<_>>());
        self.foreign_out_directories.extend(other.foreign_out_directories);
        self.scripts.extend(other.scripts);
        self.unreadable = self.unreadable.take().or(other.unreadable);
    }

    /// Returns the folder of a package that has an artifact.
    pub(crate) fn folder_of(&self, package: &PackageId) -> Option<Utf8PathBuf> {
        self.artifacts.iter().find(|artifact| artifact.package_id == *package).map(package_folder)
    }

    /// Returns the text of the first errors, as the compiler rendered them.
    pub fn first_errors(&self, count: usize) -> String {
        first_of(self.errors.iter(), count)
    }

    /// Returns the text of the first errors in an artifact's target.
    pub(crate) fn errors_in(&self, artifact: &Artifact, count: usize) -> String {
        let is_of_target = |error: &&CompilerMessage| {
            error.package_id == artifact.package_id && error.target.src_path == artifact.target.src_path
        };
        first_of(self.errors.iter().filter(is_of_target), count)
    }
}

fn first_of<'a>(errors: impl Iterator<Item = &'a CompilerMessage>, count: usize) -> String {
    let mut seen = Vec::new();
    for error in errors {
        let text = error.message.rendered.as_deref().unwrap_or(&error.message.message).trim_end();
        // "aborting due to 2 previous errors" adds nothing. A library's error appears again with its
        // tests.
        if !text.starts_with("error: aborting due to") && !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen.truncate(count);
    seen.join("\n")
}

/// Whether a checkout can change the sources of this package, because they are not from a registry
/// or a pinned commit.
pub(crate) fn is_path_package(artifact: &Artifact) -> bool {
    is_path_id(&artifact.package_id.repr)
}

/// Whether a checkout can change the package with this id. Accepts cargo's ids before and since
/// Rust 1.77.
pub(crate) fn is_path_id(id: &str) -> bool {
    id.starts_with("path+") || id.contains("(path+")
}

/// Returns the folder of an artifact's package.
pub(crate) fn package_folder(artifact: &Artifact) -> Utf8PathBuf {
    artifact.manifest_path.parent().unwrap_or(Utf8Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_that_cannot_be_read_is_not_overlooked() {
        let mut messages = Messages::default();
        for line in [&b"some output"[..], b"{\"reason\":\"unknown\"}", b"{"] {
            assert_eq!(messages.take(line, |_| false), None);
            assert_eq!(messages.unreadable, None);
        }
        messages.take(b"{\"reason\":\"compiler-artifact\",\"package_id\":\"kept", |_| false);
        assert!(messages.unreadable.is_some_and(|message| message.ends_with("\"kept")));
    }
}
