//! Whether a revision still compiles with some of its files changed. Nothing is stored.

use std::collections::BTreeSet;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticSpan};

use crate::build_key::key_inputs;
use crate::build_tree::BuildTree;
use crate::compilation::{self, CargoCall};
use crate::failure;
use crate::job::Job;
use crate::prepared_source::{self, ChangedSource, SkippedEdits};
use crate::wrapper;

/// A revision in its checkout, which the compiler checks with one change after the other.
pub struct CompileCheck<'a, 'b> {
    job: &'a Job<'a>,
    tree: &'a mut BuildTree<'b>,
    /// Cargo's arguments.
    arguments: Vec<String>,
    /// The messages of the revision itself. A target that does not compile anyway says nothing.
    own: BTreeSet<String>,
    log: fs_err::File,
    _folder: tempfile::TempDir,
}

/// An error of the compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileError {
    /// Where it is: files, relative to the repository, with lines from 1.
    pub places: Vec<(String, usize)>,
    /// The names that the message quotes.
    pub names: BTreeSet<String>,
}

impl<'a, 'b> CompileCheck<'a, 'b> {
    /// Checks the targets that the revision's build compiles.
    pub(crate) fn new(job: &'a Job<'a>, tree: &'a mut BuildTree<'b>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let log = fs_err::File::create(folder.path().join("log"))?;
        let arguments = checking(key_inputs(job)?.arguments);
        let mut check = Self { job, tree, arguments, own: BTreeSet::new(), log, _folder: folder };
        check.own = check.diagnostics(&[])?.1.into_iter().map(|error| error.message).collect();
        Ok(check)
    }

    /// Returns the errors that the revision has with these changes, and not without them. They are empty if
    /// cargo cannot even read the manifests.
    pub fn errors(&mut self, changes: &[ChangedSource]) -> anyhow::Result<Result<(), Vec<CompileError>>> {
        let (success, errors) = self.diagnostics(changes)?;
        let new: Vec<&Diagnostic> =
            errors.iter().filter(|error| !self.own.contains(&error.message)).collect();
        if new.is_empty() && (success || !errors.is_empty()) {
            return Ok(Ok(()));
        }
        let workspace = &self.job.inputs.plan.workspace;
        Ok(Err(new.into_iter().map(|error| CompileError::new(error, workspace)).collect()))
    }

    fn diagnostics(&mut self, changes: &[ChangedSource]) -> anyhow::Result<(bool, Vec<Diagnostic>)> {
        let prepared =
            prepared_source::prepare_changed(self.job, self.tree, &SkippedEdits::default(), changes);
        let prepared = match prepared {
            Err(error) if failure::concerns_one_revision(&error) => return Ok((false, Vec::new())),
            prepared => prepared?,
        };
        let call = CargoCall { arguments: self.arguments.clone(), wrapper: wrapper::WRAP_NAME };
        let compiled = compilation::compile(self.job, &call, &prepared, &mut self.log)?;
        // The wrapper lets cargo succeed although a target does not compile.
        let errors = compiled.messages.errors.into_iter().map(|error| error.message).collect();
        Ok((compiled.success, errors))
    }
}

impl CompileError {
    fn new(error: &Diagnostic, workspace: &Utf8Path) -> Self {
        let mut found = Self::default();
        for message in std::iter::once(error).chain(&error.children) {
            for span in &message.spans {
                add_places(span, workspace, &mut found.places);
            }
            let quoted = message.message.split('`').skip(1).step_by(2);
            let words =
                quoted.flat_map(|text| text.split(|one: char| !(one.is_alphanumeric() || one == '_')));
            found.names.extend(words.filter(|word| word.len() > 1).map(str::to_owned));
        }
        found
    }
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

/// Returns the arguments of `cargo check` for those of `cargo test` or `cargo run`.
fn checking(mut arguments: Vec<String>) -> Vec<String> {
    arguments.retain(|argument| argument != "--no-fail-fast");
    if let Some(command) = arguments.first_mut() {
        "check".clone_into(command);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_the_targets_and_options_of_the_build() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let of_build = words("test --no-fail-fast --message-format=json --target-dir /t --test it --locked");
        assert_eq!(
            checking(of_build).join(" "),
            "check --message-format=json --target-dir /t --test it --locked"
        );
    }
}
