//! Cargo resolves lock files in the checkout of a revision.

use anyhow::Context;
use camino::Utf8PathBuf;

use crate::build_tree::BuildTree;
use crate::cargo_call;
use crate::inject::outside_paths::NamedFolder;
use crate::job::Job;
use crate::memory_crate;
use crate::prepared_source;
use memprof_plan::request::{BuildOptions, OverlayMode};
use memprof_support::process::Command;
use memprof_support::redaction;
use memprof_support::regular_file::{followed, remove_file_if_there};

/// The checkout of a revision, in which cargo resolves one lock file after the other.
pub struct LockfileResolver<'a> {
    job: &'a Job<'a>,
    options: BuildOptions,
    /// The manifest of the workspace, or of the crate for external overlays.
    manifest: Utf8PathBuf,
}

impl<'a> LockfileResolver<'a> {
    /// Checks the revision out, with the files and patches of the request.
    pub fn check_out(
        job: &'a Job<'a>,
        options: BuildOptions,
        folders: &[NamedFolder],
        tree: &mut BuildTree<'_>,
    ) -> anyhow::Result<Self> {
        let (_, mut injected) = prepared_source::lay_request(job, folders, tree)?;
        memory_crate::place(job.inputs.repository.root(), &job.inputs.checkout, &mut injected)?;
        injected.save()?;
        let manifest = if job.inputs.overlay_of(OverlayMode::External).is_empty() {
            job.inputs.workspace().join("Cargo.toml")
        } else {
            prepared_source::external_crate(job)?.manifest
        };
        let resolver = Self { job, options, manifest };
        let path = resolver.path();
        if path.is_symlink() {
            // Cargo would write through it.
            fs_err::remove_file(&path)?;
        }
        Ok(resolver)
    }

    fn path(&self) -> Utf8PathBuf {
        self.manifest.with_file_name("Cargo.lock")
    }

    /// Returns the lock file as it is now.
    pub fn read(&self) -> anyhow::Result<Vec<u8>> {
        followed::read(self.path()).context("cargo wrote no lock file")
    }

    /// Replaces the lock file.
    pub fn write(&self, text: &[u8]) -> anyhow::Result<()> {
        Ok(fs_err::write(self.path(), text)?)
    }

    /// Lets cargo complete a lock file: what it has stays, as far as this resolves.
    ///
    /// # Errors
    /// The outer error is the tool's. The inner one is cargo's message.
    pub fn completed(&self, text: &[u8]) -> anyhow::Result<Result<Vec<u8>, String>> {
        self.write(text)?;
        let done = self.cargo(&["update", "--workspace"]).capture()?;
        if done.status.success() {
            return Ok(Ok(self.read()?));
        }
        Ok(Err(String::from_utf8_lossy(&done.stderr).into_owned()))
    }

    /// Removes the lock file. An ignored one would survive checkouts.
    pub fn finish(self) -> anyhow::Result<()> {
        Ok(remove_file_if_there(self.path())?)
    }

    /// Returns a call of cargo in the checkout.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        cargo_call::in_checkout(self.job, &self.options, &self.manifest, arguments)
    }

    /// Returns cargo's reason in one line. The path of the checkout says nothing to the user.
    pub fn reason(&self, message: &str) -> String {
        reason(message).replace(&format!(" ({})", self.job.inputs.workspace()), "")
    }
}

/// How many lines of cargo's message are quoted.
const MOST_LINES: usize = 5;

/// Lines of cargo's messages without a reason.
const NO_REASON: [&str; 4] = ["location searched", "if you are looking", "perhaps a crate", "Caused by:"];

/// Returns cargo's reason in one line: its error, and what required it.
fn reason(message: &str) -> String {
    let text = redaction::text(message).into_owned();
    let (_, after) = text.split_once("error: ").unwrap_or(("", &text));
    let lines = after.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !NO_REASON.iter().any(|start| line.starts_with(start)));
    lines.take(MOST_LINES).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_reason_is_one_line() {
        let message = "    Updating crates.io index\nerror: failed to select a version for the requirement `serde = \"^1.0.190\"`\n\
                      candidate versions found which didn't match: 1.0.150\nlocation searched: crates.io index\n\
                      required by package `app v0.1.0 (/x)`\n";
        assert_eq!(
            reason(message),
            "failed to select a version for the requirement `serde = \"^1.0.190\"`; candidate versions found which \
             didn't match: 1.0.150; required by package `app v0.1.0 (/x)`"
        );
        assert_eq!(reason("killed"), "killed");
    }
}
