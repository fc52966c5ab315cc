//! What cargo prints while it builds: `--message-format=json`, one message a line.

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::diagnostic::DiagnosticLevel;
use cargo_metadata::{Artifact, CompilerMessage, Message};

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
                if matches!(message.message.level, DiagnosticLevel::Error | DiagnosticLevel::Ice) {
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

/// Whether the sources of this package are files that a checkout can change, and not a registry's or a pinned commit's.
pub fn is_path_package(artifact: &Artifact) -> bool {
    is_path_id(&artifact.package_id.repr)
}

/// The same for a package id as cargo writes it, in its new form or the one before Rust 1.77.
pub fn is_path_id(id: &str) -> bool {
    id.starts_with("path+") || id.contains("(path+")
}

/// The folder of an artifact's package.
pub fn package_folder(artifact: &Artifact) -> Utf8PathBuf {
    artifact.manifest_path.parent().unwrap_or(Utf8Path::new("/")).to_owned()
}
