//! An error of the compiler, or of cargo: where it is, and the names that it quotes.

use std::collections::BTreeSet;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticSpan};
use serde::{Deserialize, Serialize};

/// An error of the compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileError {
    /// Its first line.
    pub message: String,
    /// Where it is: files, relative to the repository, with lines from 1.
    pub places: Vec<(String, usize)>,
    /// The names that the message quotes.
    pub names: BTreeSet<String>,
}

impl CompileError {
    pub(crate) fn new(error: &Diagnostic, workspace: &Utf8Path) -> Self {
        let mut found = Self { message: error.message.clone(), ..Self::default() };
        for message in std::iter::once(error).chain(&error.children) {
            for span in &message.spans {
                add_places(span, workspace, &mut found.places);
            }
            found.names.extend(quoted_names(&message.message));
        }
        found
    }

    /// An error of cargo. Names of packages have `_` for `-`, as in code.
    pub(crate) fn of_text(text: &str) -> Self {
        let first = text.split("error: ").nth(1).unwrap_or(text).lines().next().unwrap_or_default();
        let names = quoted_names(&text.replace('-', "_")).collect();
        Self { message: first.to_owned(), places: Vec::new(), names }
    }
}

/// Returns the names in the backticks of a message.
fn quoted_names(message: &str) -> impl Iterator<Item = String> {
    let quoted = message.split('`').skip(1).step_by(2);
    let words = quoted.flat_map(|text| text.split(|one: char| !(one.is_alphanumeric() || one == '_')));
    words.filter(|word| word.len() > 1).map(str::to_owned)
}

/// The compiler may blame a whole item. These are the lines that count.
const MOST_LINES: usize = 50;

/// Adds the lines of a span, and those of the macros around it.
fn add_places(span: &DiagnosticSpan, workspace: &Utf8Path, places: &mut Vec<(String, usize)>) {
    let mut path = Utf8PathBuf::new();
    for part in workspace.join(&span.file_name).components() {
        match part {
            Utf8Component::ParentDir => _ = path.pop(),
            Utf8Component::CurDir => {}
            part => path.push(part),
        }
    }
    let last = span.line_end.min(span.line_start + MOST_LINES);
    places.extend((span.line_start..=last).map(|line| (path.to_string(), line)));
    if let Some(expansion) = &span.expansion {
        add_places(&expansion.span, workspace, places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_cargo_names_packages() {
        let error = CompileError::of_text(
            "    Updating index\nerror: failed to select a version for `some-crate`.\n  required by `app v0.1.0`\n",
        );
        assert_eq!(error.message, "failed to select a version for `some-crate`.");
        assert!(error.names.contains("some_crate") && error.names.contains("app"));
    }
}
