//! Resolves a workspace's dependencies into a lock file: with today's versions, or as of a moment.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Metadata;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cargo::lockfile::{self, day};
use crate::cargo::moved_package::{self, MovedPackage, Requirement};
use crate::cargo::toolchain::Toolchain;
use memprof_plan::request::BuildOptions;
use memprof_support::paths;
use memprof_support::process::Command;
use memprof_support::redaction;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// What became of a resolution. The outer error is the tool's, the inner one cargo's.
type Attempt<T> = anyhow::Result<Result<T, Unresolved>>;

/// How many packages may move to a later day before all of them do.
const MOST_MOVED: usize = 32;

/// How many packages are looked into for the dependency that has no version.
const MOST_CONFLICTS: usize = 4;

/// A manifest to resolve.
pub(crate) struct Resolution<'a> {
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
pub(crate) struct Resolved {
    pub text: Vec<u8>,
    /// Versions that were not available at the moment.
    pub notes: Vec<String>,
}

/// Cargo found no versions for the dependencies. Displays as cargo's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unresolved(pub String);

/// Returns the error if cargo's message says that something cannot be downloaded. Then nobody knows whether a
/// lock file fits.
pub fn out_of_reach(name: &str, message: &str) -> Option<UserError> {
    let says = ["failed to download", "failed to fetch", "unable to update registry"];
    says.iter().any(|text| message.contains(text)).then(|| {
        UserError::new(format!("{name} needs crates that cannot be downloaded: {message}"))
            .help("try again later, or with --offline, which uses the crates that are on this machine")
    })
}

impl Unresolved {
    /// Whether a version is missing, as opposed to a registry that does not answer.
    pub(crate) fn lacks_version(&self) -> bool {
        ["failed to select a version for", "no matching package"].iter().any(|text| self.0.contains(text))
    }

    /// Returns the dependency without a version, `serde = "^1.0.200"` or `serde`.
    fn requirement(&self) -> Option<&str> {
        let after = self.0.split_once("failed to select a version for")?.1;
        after.split('`').nth(1)
    }

    /// Returns the package that has versions, but none whose own dependencies can be resolved.
    fn conflict(&self) -> Option<Requirement> {
        let (_, after) = self.0.split_once("failed to select a version for `")?;
        let (package, after) = after.split_once('`')?;
        let (_, after) = after.split_once("versions that meet the requirements `")?;
        let (versions, _) = after.split_once('`')?;
        Some(Requirement { package: package.to_owned(), versions: versions.to_owned() })
    }
}

impl Resolution<'_> {
    /// Resolves with today's versions.
    ///
    /// # Errors
    /// The outer error is the tool's, the inner one cargo's.
    pub fn today(&self) -> anyhow::Result<Result<Resolved, Unresolved>> {
        Ok(self.lock(self.toolchain, &When::today())?.map(|text| self.resolved(text, Vec::new())))
    }

    /// Resolves with the versions that were published before `moment`. A package without such a
    /// version gets the next later one, and a note names it.
    ///
    /// # Errors
    /// The outer error is the tool's, the inner one cargo's.
    pub(crate) fn as_of(&self, moment: Timestamp) -> anyhow::Result<Result<Resolved, Unresolved>> {
        let toolchain = self.toolchain_with_dates()?;
        let error = match self.lock(&toolchain, &When::from_moment(moment))? {
            Ok(text) => return Ok(Ok(self.resolved(text, Vec::new()))),
            Err(error) if !error.lacks_version() => return Ok(Err(error)),
            Err(error) => error,
        };
        match self.with_moved_packages(&toolchain, moment, &error)? {
            Ok(Some(resolved)) => Ok(Ok(resolved)),
            Ok(None) => self.all_later(&toolchain, moment, error),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Resolves as of a moment, with a later version only of the packages that have none of that
    /// moment. `None` if this is not possible.
    fn with_moved_packages(
        &self,
        toolchain: &Toolchain,
        moment: Timestamp,
        first: &Unresolved,
    ) -> Attempt<Option<Resolved>> {
        let scratch = tempfile::tempdir()?;
        let scratch = paths::utf8(scratch.path().to_owned())?;
        let patches = scratch.join("patches.toml");
        let mut when = When::from_moment(moment);
        let mut error = first.clone();
        let mut moved: Vec<Found<MovedPackage>> = Vec::new();
        while moved.len() < MOST_MOVED {
            let folder = scratch.join(moved.len().to_string());
            let requirement = self.lacking(toolchain, &when, error, &folder)?;
            // One that still has no version is of another registry.
            let is_moved = |wanted: &Requirement| moved.iter().any(|one| one.value.requirement == *wanted);
            let Some(requirement) = requirement.filter(|wanted| !is_moved(wanted)) else { break };
            match self.next_version(toolchain, moment, requirement, &folder)? {
                Ok(Some(found)) => moved.push(found),
                Ok(None) => break,
                Err(error) => return Ok(Err(error)),
            }
            let all: Vec<&MovedPackage> = moved.iter().map(|one| &one.value).collect();
            fs_err::write(&patches, MovedPackage::patches(&all))?;
            when.patches = Some(patches.clone());
            match self.lock(toolchain, &when)? {
                Ok(text) => return Ok(Ok(self.registered(toolchain, text, moment, moved)?)),
                Err(next) if next.lacks_version() => error = next,
                // Cargo does not want the folders.
                Err(_) => break,
            }
        }
        Ok(Ok(None))
    }

    /// Returns the dependency that an error is about. If it only names a package whose own
    /// dependencies conflict, asks what is wrong with that one, with all its features.
    fn lacking(
        &self,
        toolchain: &Toolchain,
        when: &When,
        mut error: Unresolved,
        folder: &Utf8Path,
    ) -> anyhow::Result<Option<Requirement>> {
        for depth in 0..MOST_CONFLICTS {
            if let Some(requirement) = error.requirement().and_then(Requirement::parse) {
                return Ok(Some(requirement));
            }
            let Some(conflict) = error.conflict() else { break };
            let manifest = Self::package_with(&conflict, &folder.join(format!("conflict-{depth}")))?;
            let alone = Resolution { manifest: &manifest, ..*self };
            match alone.lock(toolchain, when)? {
                Ok(_) => {}
                Err(inner) => {
                    error = inner;
                    continue;
                }
            }
            let Some(metadata) = alone.metadata(toolchain, when)? else { break };
            let features: Vec<String> = moved_package::chosen(&metadata)?.features.keys().cloned().collect();
            fs_err::write(&manifest, conflict.manifest(&features))?;
            match alone.lock(toolchain, when)? {
                Ok(_) => break,
                Err(inner) => error = inner,
            }
        }
        Ok(None)
    }

    /// Writes a package that depends on a requirement alone, and returns its manifest.
    fn package_with(requirement: &Requirement, folder: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
        fs_err::create_dir_all(folder)?;
        fs_err::write(folder.join("lib.rs"), "")?;
        let manifest = folder.join("Cargo.toml");
        fs_err::write(&manifest, requirement.manifest(&[]))?;
        Ok(manifest)
    }

    /// Returns the first version after `moment` that meets a requirement, and its day. `None` if there
    /// is none, or if one of the moment itself does: then something else is wrong.
    fn next_version(
        &self,
        toolchain: &Toolchain,
        moment: Timestamp,
        requirement: Requirement,
        folder: &Utf8Path,
    ) -> Attempt<Option<Found<MovedPackage>>> {
        let manifest = Self::package_with(&requirement, folder)?;
        let alone = Resolution { manifest: &manifest, ..*self };
        let is_of_moment = alone.lock(toolchain, &When::from_moment(moment))?;
        let (Err(before), Ok(text)) = (is_of_moment, alone.lock(toolchain, &When::today())?) else {
            return Ok(Ok(None));
        };
        if !before.lacks_version() {
            return Ok(Err(before));
        }
        let today = Found { moment: Timestamp::now(), value: text };
        let found = match earliest(moment, today, |moment| alone.lock(toolchain, &When::from_moment(moment)))?
        {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        fs_err::write(alone.lockfile(), &found.value)?;
        // Without it, it cannot be downloaded: cargo may be offline.
        let Some(metadata) = alone.metadata(toolchain, &When::today())? else { return Ok(Ok(None)) };
        let value = MovedPackage::new(requirement, &metadata, &found.value)?;
        Ok(Ok(Some(Found { moment: found.moment, value })))
    }

    /// Returns a lock file with packages of crates.io in the place of their folders, if cargo takes it
    /// as it is.
    fn registered(
        &self,
        toolchain: &Toolchain,
        mut text: String,
        moment: Timestamp,
        mut moved: Vec<Found<MovedPackage>>,
    ) -> anyhow::Result<Option<Resolved>> {
        let mut is_clear = true;
        moved.retain(|one| {
            let Some((registered, is_used)) = one.value.registered(&text) else {
                is_clear = false;
                return true;
            };
            text = registered;
            is_used
        });
        if !is_clear {
            return Ok(None);
        }
        fs_err::write(self.lockfile(), &text)?;
        // This resolves, compares, and downloads nothing.
        let check = self.cargo(toolchain, "update").args(["--workspace", "--locked"]).capture()?;
        let note = MovedPackage::note(moved.iter().map(|one| (&one.value, day(one.moment))), &day(moment));
        Ok(check.status.success().then(|| self.resolved(text, vec![note])))
    }

    /// Resolves as of the first later day on which every dependency has a version. `error` is that of
    /// the moment itself.
    fn all_later(&self, toolchain: &Toolchain, moment: Timestamp, error: Unresolved) -> Attempt<Resolved> {
        let today = match self.lock(toolchain, &When::today())? {
            Ok(text) => Found { moment: Timestamp::now(), value: text },
            Err(_) => return Ok(Err(error)),
        };
        let mut missing = requirement_once(Vec::new(), &error);
        let found = earliest(moment, today, |moment| {
            let locked = self.lock(toolchain, &When::from_moment(moment))?;
            if let Err(error) = &locked {
                missing = requirement_once(std::mem::take(&mut missing), error);
            }
            Ok(locked)
        })?;
        Ok(found.map(|found| {
            let packages = lockfile::packages(found.value.as_bytes());
            let note = |one: &String| moved_note(one, moment, found.moment, &packages);
            self.resolved(found.value.clone(), missing.iter().map(note).collect())
        }))
    }

    /// Asks cargo for the packages of the lock file as it is. `None` if they cannot be had.
    fn metadata(&self, toolchain: &Toolchain, when: &When) -> anyhow::Result<Option<Metadata>> {
        let cargo = when.patched(self.cargo(toolchain, "metadata"));
        let cargo = cargo.args(["--locked", "--format-version", "1", "--filter-platform", toolchain.host()]);
        let captured = cargo.capture()?;
        if !captured.status.success() {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&captured.stdout).context("cannot read cargo's metadata")?))
    }

    /// Calls cargo, and returns the text of the lock file.
    fn lock(&self, toolchain: &Toolchain, when: &When) -> Attempt<String> {
        let mut cargo = when.patched(self.cargo(toolchain, "generate-lockfile"));
        if let Some(moment) = when.moment {
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
        Ok(Ok(followed::text(self.lockfile())?))
    }

    /// Returns a call of cargo for the manifest.
    fn cargo(&self, toolchain: &Toolchain, subcommand: &str) -> Command {
        let mut cargo = toolchain.cargo().arg(subcommand).arg("--manifest-path").arg(self.manifest);
        cargo = cargo.current_dir(self.workspace);
        if self.options.settings.offline {
            cargo = cargo.arg("--offline");
        }
        self.options.config.iter().fold(cargo, |cargo, setting| cargo.args(["--config", setting]))
    }

    /// Returns the path at which cargo writes the lock file.
    fn lockfile(&self) -> Utf8PathBuf {
        self.manifest.with_file_name("Cargo.lock")
    }

    fn resolved(&self, text: String, notes: Vec<String>) -> Resolved {
        Resolved { text: readable_by(self.toolchain, text).into_bytes(), notes }
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

/// Which versions a resolution may take.
struct When {
    /// Only versions published before this moment; all if absent.
    moment: Option<Timestamp>,
    /// A configuration that replaces packages.
    patches: Option<Utf8PathBuf>,
}

impl When {
    fn today() -> Self {
        Self { moment: None, patches: None }
    }

    fn from_moment(moment: Timestamp) -> Self {
        Self { moment: Some(moment), patches: None }
    }

    fn patched(&self, cargo: Command) -> Command {
        match &self.patches {
            Some(patches) => cargo.arg("--config").arg(patches),
            None => cargo,
        }
    }
}

/// A moment, and what was found there.
struct Found<T> {
    moment: Timestamp,
    value: T,
}

/// Searches for the first day at whose end `probe` finds something. It finds nothing at `fails`, and
/// `works` is what it finds today. An error that is not about a missing version ends the search.
fn earliest<T>(
    fails: Timestamp,
    mut works: Found<T>,
    mut probe: impl FnMut(Timestamp) -> Attempt<T>,
) -> Attempt<Found<T>> {
    let date = |moment: Timestamp| moment.to_zoned(TimeZone::UTC).date();
    // Nothing was there before that day. Something may have been published later on it.
    let mut fails = date(fails).yesterday()?;
    loop {
        let days = (date(works.moment) - fails).get_days();
        if days <= 1 {
            return Ok(Ok(works));
        }
        let middle = fails.checked_add(SignedDuration::from_hours(24 * i64::from(days / 2)))?;
        match probe(end_of(middle)?)? {
            Ok(value) => works = Found { moment: end_of(middle)?, value },
            Err(error) if error.lacks_version() => fails = middle,
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Returns the last second of a day.
fn end_of(date: Date) -> anyhow::Result<Timestamp> {
    Ok(date.at(23, 59, 59, 0).to_zoned(TimeZone::UTC)?.timestamp())
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
    format!("{}: took {versions}, and all dependencies as of {}", lack(requirement, asked), day(taken))
}

fn lack(requirement: &str, moment: Timestamp) -> String {
    format!("`{requirement}` has no version of {} that can be used", day(moment))
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
    use crate::cargo::toolchain::ToolchainChoice;

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_day_with_a_version_is_found() {
        let first = moment("2024-05-02T10:00:00Z");
        let works = Found { moment: moment("2026-01-01T00:00:00Z"), value: () };
        let mut probes = 0;
        let missing = || Unresolved("error: failed to select a version for `x`".to_owned());
        let found = earliest(moment("2023-01-01T00:00:00Z"), works, |moment| {
            probes += 1;
            Ok((moment >= first).then_some(()).ok_or_else(missing))
        });
        assert_eq!(found.unwrap().unwrap().moment, moment("2024-05-02T23:59:59Z"));
        assert!(probes <= 12, "{probes}");

        let works = || Found { moment: moment("2024-05-02T10:00:00Z"), value: () };
        let on_that_day = earliest(moment("2024-05-02T08:00:00Z"), works(), |_| panic!("nothing to try"));
        assert_eq!(on_that_day.unwrap().unwrap().moment, works().moment);
        let offline = Unresolved("error: failed to get `x` as a dependency".to_owned());
        let ended = earliest(moment("2023-01-01T00:00:00Z"), works(), |_| Ok(Err(offline.clone())));
        assert_eq!(ended.unwrap().err(), Some(offline), "no answer is not a missing version");
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
        assert_eq!((conflict.requirement(), conflict.conflict()), (Some("links"), None));
        let conflict = Unresolved(
            "error: failed to select a version for `hf-hub`.\n    ... required by package `x v0.1.0 (/x)`\n\
             versions that meet the requirements `^0.3.0` are: 0.3.2, 0.3.1\n\nall possible versions conflict"
                .into(),
        );
        assert_eq!(conflict.conflict(), Requirement::parse("hf-hub = \"^0.3.0\""));
        let network = Unresolved("error: failed to get `serde` as a dependency\nCaused by: timeout".into());
        assert!(!network.lacks_version());
    }

    #[test]
    fn a_registry_out_of_reach_says_nothing_about_a_lock_file() {
        let message = "failed to get `itoa` as a dependency; failed to download from `https://index.crates.io/config.json`";
        let error = out_of_reach("main", message).unwrap().to_string();
        assert!(
            error.starts_with("main needs crates that cannot be downloaded: failed to get `itoa`"),
            "{error}"
        );
        assert!(out_of_reach("main", "failed to select a version for `serde`").is_none());
    }

    /// The optional dependency of `hubs` has no version.
    #[test]
    fn a_conflict_is_traced_to_the_dependency_without_a_version() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        let write = |path: &str, text: &str| {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
        };
        let sources = "[source.crates-io]\nreplace-with = 'disk'\n[source.disk]\ndirectory = 'vendor'\n";
        write(".cargo/config.toml", sources);
        let optional = "[dependencies.inner]\nversion = '2'\noptional = true\n";
        for (name, dependencies) in [("hubs", optional), ("inner", "")] {
            let package = format!("[package]\nname = '{name}'\nversion = '1.0.0'\nedition = '2021'\n");
            write(&format!("vendor/{name}/Cargo.toml"), &(package + dependencies));
            write(&format!("vendor/{name}/src/lib.rs"), "");
            let checksum = format!("{{\"files\":{{}},\"package\":\"{}\"}}", "0".repeat(64));
            write(&format!("vendor/{name}/.cargo-checksum.json"), &checksum);
        }
        let toolchain = Toolchain::ask(&ToolchainChoice::OfRevision, root, None).unwrap();
        let (manifest, options) = (root.join("Cargo.toml"), BuildOptions::default());
        let resolution =
            Resolution { manifest: &manifest, workspace: root, options: &options, toolchain: &toolchain };
        let lacking = |versions: &str| {
            let error = format!(
                "error: failed to select a version for `hubs`.\n\
                 versions that meet the requirements `{versions}` are: 1.0.0\n"
            );
            let folder = root.join(format!("scratch{versions}"));
            resolution.lacking(&toolchain, &When::today(), Unresolved(error), &folder).unwrap()
        };
        assert_eq!(lacking("^1"), Requirement::parse("inner = \"^2\""));
        assert_eq!(lacking("^7"), Requirement::parse("hubs = \"^7\""));
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
