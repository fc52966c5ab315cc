//! Resolves a workspace's dependencies into a lock file: with today's versions, or as of a moment.

use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};

use crate::cargo::lockfile;
use crate::cargo::toolchain::Toolchain;
use crate::plan::request::BuildOptions;
use crate::support::redaction;
use crate::support::user_error::UserError;

/// A manifest to resolve.
pub struct Resolution<'a> {
    /// The manifest. Cargo writes the lock file beside it.
    pub manifest: &'a Utf8Path,
    /// The folder whose configuration cargo reads.
    pub workspace: &'a Utf8Path,
    /// The request's options for cargo.
    pub options: &'a BuildOptions,
    /// The toolchain that builds the revision.
    pub toolchain: &'a Toolchain,
}

/// A lock file, and what the report says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Its text.
    pub text: Vec<u8>,
    /// Versions that were not available at the moment.
    pub notes: Vec<String>,
}

/// Cargo found no versions for the dependencies. Displays as cargo's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unresolved(pub String);

impl Unresolved {
    /// Whether a version is missing, as opposed to a registry that does not answer.
    pub fn lacks_version(&self) -> bool {
        ["failed to select a version for", "no matching package"].iter().any(|text| self.0.contains(text))
    }

    /// Returns the dependency without a version, `serde = "^1.0.200"` or `serde`.
    fn requirement(&self) -> Option<&str> {
        let after = self.0.split_once("failed to select a version for")?.1;
        after.split('`').nth(1)
    }
}

impl Resolution<'_> {
    /// Resolves with today's versions.
    ///
    /// # Errors
    /// The outer error is the tool's, the inner one cargo's.
    pub fn today(&self) -> anyhow::Result<Result<Resolved, Unresolved>> {
        let resolved = self.lock(self.toolchain, None)?;
        Ok(resolved.map(|text| Resolved { text, notes: Vec::new() }))
    }

    /// Resolves with the versions that were published before `moment`. If one is missing, the moment
    /// moves on to the first day on which there is one, and a note names it.
    ///
    /// # Errors
    /// The outer error is the tool's, the inner one cargo's.
    pub fn as_of(&self, moment: Timestamp) -> anyhow::Result<Result<Resolved, Unresolved>> {
        let toolchain = self.toolchain_with_dates()?;
        let error = match self.lock(&toolchain, Some(moment))? {
            Ok(text) => return Ok(Ok(Resolved { text, notes: Vec::new() })),
            Err(error) if !error.lacks_version() => return Ok(Err(error)),
            Err(error) => error,
        };
        let today = match self.lock(&toolchain, None)? {
            Ok(text) => Found { moment: Timestamp::now(), value: text },
            Err(_) => return Ok(Err(error)),
        };
        let mut missing = requirement_once(Vec::new(), &error);
        let found = earliest(moment, today, |moment| {
            Ok(match self.lock(&toolchain, Some(moment))? {
                Ok(text) => Some(text),
                Err(error) => {
                    missing = requirement_once(std::mem::take(&mut missing), &error);
                    None
                }
            })
        })?;
        let packages = lockfile::packages(&found.value);
        let notes = missing.iter().map(|one| moved_note(one, moment, found.moment, &packages)).collect();
        Ok(Ok(Resolved { text: found.value, notes }))
    }

    /// Calls cargo, and returns the text of the lock file.
    fn lock(
        &self,
        toolchain: &Toolchain,
        moment: Option<Timestamp>,
    ) -> anyhow::Result<Result<Vec<u8>, Unresolved>> {
        let mut cargo = toolchain.cargo().arg("generate-lockfile").arg("--manifest-path").arg(self.manifest);
        cargo = cargo.current_dir(self.workspace);
        if self.options.offline {
            cargo = cargo.arg("--offline");
        }
        for setting in &self.options.config {
            cargo = cargo.args(["--config", setting]);
        }
        if let Some(moment) = moment {
            // This variable enables the flag on stable. The command compiles nothing.
            cargo = cargo
                .env("RUSTC_BOOTSTRAP", "1")
                .args(["-Zunstable-options", "--publish-time"])
                .arg(moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
        let captured = cargo.capture()?;
        if !captured.status.success() {
            let stderr = String::from_utf8_lossy(&captured.stderr);
            return Ok(Err(Unresolved(redaction::text(stderr.trim()).into_owned())));
        }
        let text = fs_err::read_to_string(self.manifest.with_file_name("Cargo.lock"))?;
        Ok(Ok(readable_by(self.toolchain, text).into_bytes()))
    }

    /// Returns the first toolchain whose cargo can resolve as of a moment: the one that builds, else
    /// the installed stable or nightly one.
    fn toolchain_with_dates(&self) -> anyhow::Result<Toolchain> {
        let others = ["stable", "nightly"]
            .map(|name| Toolchain { pinned: Some(name.to_owned()), ..self.toolchain.clone() });
        for toolchain in std::iter::once(self.toolchain.clone()).chain(others) {
            let help = toolchain.cargo().args(["generate-lockfile", "--help"]).capture()?;
            if String::from_utf8_lossy(&help.stdout).contains("--publish-time") {
                return Ok(toolchain);
            }
        }
        Err(UserError::new("no installed cargo can resolve dependencies as of a date")
            .help("rustup toolchain install stable")
            .into())
    }
}

/// A moment, and what was found there.
struct Found<T> {
    moment: Timestamp,
    value: T,
}

/// Searches for the first moment, to the day, for which `probe` finds something. It finds nothing at
/// `fails`, and `works` is what it finds today.
fn earliest<T>(
    mut fails: Timestamp,
    mut works: Found<T>,
    mut probe: impl FnMut(Timestamp) -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Found<T>> {
    let day = SignedDuration::from_hours(24);
    while works.moment.duration_since(fails) > day {
        let middle = fails.checked_add(works.moment.duration_since(fails) / 2)?;
        match probe(middle)? {
            Some(value) => works = Found { moment: middle, value },
            None => fails = middle,
        }
    }
    Ok(works)
}

/// Adds the dependency of an error to the list, unless it is there.
fn requirement_once(mut known: Vec<String>, error: &Unresolved) -> Vec<String> {
    let requirement = error.requirement().unwrap_or("a dependency");
    if !known.iter().any(|one| one == requirement) {
        known.push(requirement.to_owned());
    }
    known
}

/// Returns the note on a dependency that had no version at the moment.
fn moved_note(requirement: &str, asked: Timestamp, taken: Timestamp, packages: &[String]) -> String {
    let name = requirement.split(" = ").next().unwrap_or(requirement);
    let versions: Vec<&str> =
        packages.iter().map(String::as_str).filter(|one| one.split(' ').next() == Some(name)).collect();
    let versions = if versions.is_empty() { "a later one".to_owned() } else { versions.join(" and ") };
    format!(
        "`{requirement}` has no version of {} that can be used: took {versions}, and all dependencies as of {}",
        day(asked),
        day(taken)
    )
}

/// Returns the day of a moment, `2023-05-01`.
pub fn day(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d").to_string()
}

/// Returns a lock file in a format that the toolchain can read. Before Rust 1.78, that is version 3,
/// which differs from version 4 only in the URLs of git dependencies.
fn readable_by(toolchain: &Toolchain, text: String) -> String {
    let minor = toolchain.short().split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    let is_old = toolchain.short().starts_with("rustc 1.") && minor.is_some_and(|minor| minor < 78);
    if is_old { text.replacen("\nversion = 4\n", "\nversion = 3\n", 1) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_day_with_a_version_is_found() {
        let first = moment("2024-05-02T10:00:00Z");
        let works = Found { moment: moment("2026-01-01T00:00:00Z"), value: () };
        let mut probes = 0;
        let found = earliest(moment("2023-01-01T00:00:00Z"), works, |moment| {
            probes += 1;
            Ok((moment >= first).then_some(()))
        });
        let found = found.unwrap().moment;
        assert!(found >= first && found.duration_since(first) <= SignedDuration::from_hours(24), "{found}");
        assert!(probes <= 12, "{probes}");
    }

    #[test]
    fn cargos_message_names_the_dependency_without_a_version() {
        let error = Unresolved(
            "error: failed to select a version for the requirement `serde = \"^1.0.200\"`\n  version 1.0.200 is unavailable\n"
                .into(),
        );
        assert!(error.lacks_version());
        let missing = requirement_once(requirement_once(Vec::new(), &error), &error);
        assert_eq!(missing, ["serde = \"^1.0.200\""]);
        let packages = ["serde 1.0.200".to_owned(), "serde_derive 1.0.200".to_owned()];
        let note = moved_note(
            &missing[0],
            moment("2023-05-01T08:00:00Z"),
            moment("2024-05-02T10:00:00Z"),
            &packages,
        );
        assert_eq!(
            note,
            "`serde = \"^1.0.200\"` has no version of 2023-05-01 that can be used: took serde 1.0.200, and all dependencies as of 2024-05-02"
        );
        let conflict =
            Unresolved("error: failed to select a version for `links`.\n    ... required by".into());
        assert_eq!(conflict.requirement(), Some("links"));
        let network = Unresolved("error: failed to get `serde` as a dependency\nCaused by: timeout".into());
        assert!(!network.lacks_version());
    }

    #[test]
    fn an_old_cargo_gets_a_lock_file_that_it_can_read() {
        let toolchain = |version: &str| Toolchain {
            pinned: None,
            directory: "/".into(),
            version: version.to_owned(),
            clean_env: None,
        };
        let text = "# generated\nversion = 4\n\n[[package]]\n";
        let old = readable_by(&toolchain("rustc 1.70.0 (90c541806 2023-05-31)"), text.to_owned());
        assert_eq!(old, "# generated\nversion = 3\n\n[[package]]\n");
        assert_eq!(readable_by(&toolchain("rustc 1.95.0 (x)"), text.to_owned()), text);
    }
}
