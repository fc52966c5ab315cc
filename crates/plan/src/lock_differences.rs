//! How two lock files differ: which packages moved from which version to which, in words.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::semver::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml_edit::{ArrayOfTables, DocumentMut, Table};

use crate::dependency_change::short_rev;
use memprof_support::counted::counted;

/// A package of a lock file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockedPackage {
    pub name: String,
    pub version: String,
    /// The registry or git repository that it comes from; `None` for a folder.
    pub source: Option<String>,
}

/// One version of a package in a lock file, for a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedVersion<'a> {
    pub version: &'a str,
    /// `crates.io`, `folder`, or another source as the lock file has it. Empty if it is not compared.
    pub source: &'a str,
}

impl LockedPackage {
    /// Returns the name, the version, and the source.
    pub fn named(&self) -> (&str, LockedVersion<'_>) {
        let source = match self.source.as_deref() {
            None => "folder",
            Some(CRATES_IO | CRATES_IO_SPARSE) => "crates.io",
            Some(other) => other,
        };
        (&self.name, LockedVersion { version: &self.version, source })
    }

    /// Returns the package as facts about builds have it: `serde 1.0.228 crates.io`. A URL loses its user and password.
    pub fn line(&self) -> String {
        let (name, LockedVersion { version, source }) = self.named();
        let (scheme, rest) = source.split_once("://").map_or(("", source), |parts| parts);
        let host = rest.split('/').next().unwrap_or_default();
        let user = host.rfind('@').map_or(0, |at| at + 1);
        let separator = if scheme.is_empty() { "" } else { "://" };
        format!("{name} {version} {scheme}{separator}{}", &rest[user..])
    }
}

/// Reads the packages of facts about builds. Those of earlier versions have no source.
pub fn of_lines(lines: &str) -> impl Iterator<Item = (&str, LockedVersion<'_>)> {
    lines.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ' ');
        let (name, version) = (parts.next()?, parts.next()?);
        Some((name, LockedVersion { version, source: parts.next().unwrap_or_default() }))
    })
}

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const CRATES_IO_SPARSE: &str = "sparse+https://index.crates.io/";

impl<'a> LockedVersion<'a> {
    /// Returns the commit of a git repository.
    pub fn commit(&self) -> Option<&'a str> {
        Some(self.source.strip_prefix("git+")?.rsplit_once('#')?.1)
    }

    /// Returns the sources of two versions in words, if they differ: their commits if both are of git.
    fn sources(old: Self, new: Self) -> Option<[String; 2]> {
        if old.source == new.source || old.source.is_empty() || new.source.is_empty() {
            return None;
        }
        let both = [old, new];
        let is_git = both.iter().all(|one| one.commit().is_some());
        let words = both.map(|one| match one.commit().map(short_rev) {
            Some(commit) if is_git => commit.to_owned(),
            Some(commit) => format!("git {commit}"),
            None => one.source.to_owned(),
        });
        // The same commit, from another repository or by another branch.
        Some(if words[0] == words[1] { both.map(|one| one.source.to_owned()) } else { words })
    }
}

/// A package that differs between two lock files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Dependency")]
pub struct MovedDependency {
    /// The package.
    pub name: String,
    /// The version in the old lock file, or the baseline's; `null` if that lacks it.
    pub from: Option<String>,
    /// The version in the new lock file, or this ref's; `null` if that lacks it.
    pub to: Option<String>,
    /// The source in the old lock file, or the baseline's, if the sources differ: a commit if both are of git, or
    /// else `crates.io`, `folder`, `git` with the commit, or the URL of a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_source: Option<String>,
    /// The source in the new lock file, or this ref's, if the sources differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_source: Option<String>,
}

impl MovedDependency {
    /// Returns `serde 1.0.180 → 1.0.200`, `memchr 2.7.1 is new`, `hex 0.4.1 (209b113 → c73fd12)`.
    pub fn words(&self) -> String {
        let Self { name, from, to, from_source, to_source } = self;
        match (from, to, from_source.as_ref().zip(to_source.as_ref())) {
            (Some(from), Some(to), Some((old, new))) if from == to => format!("{name} {to} ({old} → {new})"),
            (Some(from), Some(to), Some((old, new))) => format!("{name} {from} ({old}) → {to} ({new})"),
            (Some(from), Some(to), None) => format!("{name} {from} → {to}"),
            (None, Some(to), _) => format!("{name} {to} is new"),
            (Some(from), None, _) => format!("{name} {from} is gone"),
            (None, None, _) => name.clone(),
        }
    }
}

/// Returns the packages of a lock file, in its order. Empty if it cannot be parsed: cargo reports
/// that.
pub fn locked(text: &[u8]) -> Vec<LockedPackage> {
    let value = |table: &Table, key: &str| Some(table.get(key)?.as_str()?.to_owned());
    let package = |table: &Table| {
        let (name, version) = (value(table, "name")?, value(table, "version")?);
        Some(LockedPackage { name, version, source: value(table, "source") })
    };
    tables(text).iter().filter_map(package).collect()
}

/// Returns the tables of a lock file's packages, with all that cargo writes. Empty if it cannot be parsed.
pub fn tables(text: &[u8]) -> ArrayOfTables {
    let mut document = String::from_utf8_lossy(text).parse::<DocumentMut>().unwrap_or_default();
    document.remove("package").and_then(|packages| packages.into_array_of_tables().ok()).unwrap_or_default()
}

/// Whether two versions meet the same usual requirement, so that one replaces the other: they agree up
/// to the first number that is not zero.
pub fn is_compatible(one: &str, other: &str) -> bool {
    let slot = |text: &str| {
        let version = Version::parse(text).ok()?;
        Some(match (version.major, version.minor) {
            (0, 0) => (0, 0, version.patch),
            (0, minor) => (0, minor, 0),
            (major, _) => (major, 0, 0),
        })
    };
    slot(one).is_some() && slot(one) == slot(other)
}

/// Returns the newest of a package's versions.
pub fn newest(versions: &BTreeSet<String>) -> Option<&str> {
    versions.iter().map(String::as_str).max_by_key(|version| Version::parse(version).ok())
}

/// Returns what differs between two lists of packages, by name.
pub fn moved<'a>(
    old: impl IntoIterator<Item = (&'a str, LockedVersion<'a>)>,
    new: impl IntoIterator<Item = (&'a str, LockedVersion<'a>)>,
) -> Vec<MovedDependency> {
    type Versions<'a> = BTreeSet<LockedVersion<'a>>;
    fn by_name<'a>(
        packages: impl IntoIterator<Item = (&'a str, LockedVersion<'a>)>,
    ) -> BTreeMap<&'a str, Versions<'a>> {
        let mut versions: BTreeMap<&str, Versions<'_>> = BTreeMap::new();
        for (name, version) in packages {
            versions.entry(name).or_default().insert(version);
        }
        versions
    }
    let (old, new) = (by_name(old), by_name(new));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let none = BTreeSet::new();
    names
        .into_iter()
        .flat_map(|name| of_name(name, old.get(name).unwrap_or(&none), new.get(name).unwrap_or(&none)))
        .collect()
}

/// Pairs the versions of one package that only one side has: first the same version from another source,
/// then those that replace each other, then what is left, in order.
fn of_name(
    name: &str,
    old: &BTreeSet<LockedVersion<'_>>,
    new: &BTreeSet<LockedVersion<'_>>,
) -> Vec<MovedDependency> {
    let mut gone: Vec<LockedVersion<'_>> = old.difference(new).copied().collect();
    let mut added: Vec<LockedVersion<'_>> = new.difference(old).copied().collect();
    let mut pairs: Vec<(Option<LockedVersion<'_>>, Option<LockedVersion<'_>>)> = Vec::new();
    for is_next in [|one: &str, other: &str| one == other, is_compatible] {
        gone.retain(|from| match added.iter().position(|to| is_next(from.version, to.version)) {
            Some(place) => {
                pairs.push((Some(*from), Some(added.remove(place))));
                false
            }
            None => true,
        });
    }
    let mut added = added.into_iter();
    pairs.extend(gone.into_iter().map(|from| (Some(from), added.next())));
    pairs.extend(added.map(|to| (None, Some(to))));
    let owned = |one: Option<LockedVersion<'_>>| one.map(|one| one.version.to_owned());
    let moved = pairs.into_iter().map(|(from, to)| {
        let sources = from.zip(to).and_then(|(from, to)| LockedVersion::sources(from, to));
        let [from_source, to_source] = sources.map_or([None, None], |both| both.map(Some));
        MovedDependency { name: name.to_owned(), from: owned(from), to: owned(to), from_source, to_source }
    });
    moved.collect()
}

/// How many packages are named if the user asked for none.
const NAMED: usize = 3;

/// Returns what moved in one phrase. The packages that the user asked for come first: `serde 1.0.180 →
/// 1.0.200, and 3 crates with it`. `None` if nothing moved.
pub fn summary(moved: &[MovedDependency], asked: &[&str]) -> Option<String> {
    let (named, with): (Vec<_>, Vec<_>) = moved.iter().partition(|one| asked.contains(&one.name.as_str()));
    let words = |all: &[&MovedDependency]| all.iter().map(|one| one.words()).collect::<Vec<_>>().join(", ");
    if named.is_empty() {
        let (first, rest) = with.split_at(with.len().min(NAMED));
        return match (first.is_empty(), rest.len()) {
            (true, _) => None,
            (false, 0) => Some(words(first)),
            (false, rest) => Some(format!("{}, and {}", words(first), counted(rest, "more crate"))),
        };
    }
    let it = if named.len() == 1 { "it" } else { "them" };
    Some(match with.len() {
        0 => words(&named),
        1 => format!("{}, and with {it} {}", words(&named), with[0].words()),
        count => format!("{}, and {} with {it}", words(&named), counted(count, "crate")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(packages: &str) -> impl Iterator<Item = (&str, LockedVersion<'_>)> {
        packages.split(", ").flat_map(of_lines)
    }

    fn differences(old: &str, new: &str) -> String {
        moved(read(old), read(new)).iter().map(MovedDependency::words).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn versions_that_replace_each_other_are_one_move() {
        assert_eq!(differences("a 1.0.0, b 1.0.0", "a 1.0.0, b 1.2.0"), "b 1.0.0 → 1.2.0");
        assert_eq!(differences("a 1.0.0", "b 2.0.0"), "a 1.0.0 is gone, b 2.0.0 is new");
        assert_eq!(
            differences("syn 1.0.1, syn 2.0.1", "syn 2.0.3, syn 1.0.1, syn 3.0.0"),
            "syn 2.0.1 → 2.0.3, syn 3.0.0 is new"
        );
        assert_eq!(
            differences("rand 0.7.3, rand 0.8.4", "rand 0.8.5, rand 0.9.1"),
            "rand 0.8.4 → 0.8.5, rand 0.7.3 → 0.9.1"
        );
        assert_eq!(differences("a 1.0.0, b 1.0.0", "b 1.0.0, a 1.0.0"), "");
    }

    #[test]
    fn the_same_version_from_another_source_is_a_move() {
        let [first, second] = ["209b113", "c73fd12"].map(|start| format!("{start}{}", "0".repeat(33)));
        let git = |commit: &str| format!("hex 0.4.1 git+https://x.org/hex?branch=main#{commit}");
        assert_eq!(differences(&git(&first), &git(&second)), "hex 0.4.1 (209b113 → c73fd12)");
        assert_eq!(differences(&git(&first), &git(&first)), "");
        let (registry, folder) = ("hex 0.4.1 crates.io", "hex 0.4.1 folder");
        assert_eq!(differences(registry, &git(&first)), "hex 0.4.1 (crates.io → git 209b113)");
        assert_eq!(differences(registry, folder), "hex 0.4.1 (crates.io → folder)");
        let older = "hex 0.4.0 crates.io";
        assert_eq!(differences(older, &git(&first)), "hex 0.4.0 (crates.io) → 0.4.1 (git 209b113)");
        assert_eq!(
            differences(&format!("{older}, {registry}"), &format!("{}, hex 0.4.2 crates.io", git(&first))),
            "hex 0.4.1 (crates.io → git 209b113), hex 0.4.0 → 0.4.2"
        );
        let renamed = git(&first).replace("branch=main", "branch=trunk");
        assert!(differences(&git(&first), &renamed).contains("branch=main#209b113"));
    }

    #[test]
    fn the_first_number_that_is_not_zero_decides_what_replaces_what() {
        for (one, other, compatible) in [
            ("1.0.0", "1.9.3", true),
            ("0.8.4", "0.8.5", true),
            ("0.8.4", "0.9.0", false),
            ("0.0.3", "0.0.4", false),
            ("1.0.0", "2.0.0", false),
            ("x", "x", false),
        ] {
            assert_eq!(is_compatible(one, other), compatible, "{one} {other}");
        }
    }

    #[test]
    fn the_packages_that_the_user_asked_for_come_first() {
        let of = |old: &str, new: &str, asked: &[&str]| summary(&moved(read(old), read(new)), asked);
        let old = "a 1.0.0, b 1.0.0, c 1.0.0, d 1.0.0, serde 1.0.180";
        let new = "a 1.0.1, b 1.0.1, c 1.0.1, d 1.0.1, serde 1.0.200";
        assert_eq!(of(old, new, &["serde"]).unwrap(), "serde 1.0.180 → 1.0.200, and 4 crates with it");
        assert_eq!(
            of(old, new, &[]).unwrap(),
            "a 1.0.0 → 1.0.1, b 1.0.0 → 1.0.1, c 1.0.0 → 1.0.1, and 2 more crates"
        );
        assert_eq!(
            of("a 1.0.0, b 1.0.0", "a 1.0.1, b 1.0.2", &["b"]).unwrap(),
            "b 1.0.0 → 1.0.2, and with it a 1.0.0 → 1.0.1"
        );
        assert_eq!(of("a 1.0.0", "a 1.0.0", &["a"]), None);
    }

    #[test]
    fn a_lock_file_has_packages_with_sources() {
        let text = b"version = 4\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nsource = \"registry+x\"\n";
        let packages = locked(text);
        let shown: Vec<_> = packages.iter().map(|one| (one.name.as_str(), one.source.as_deref())).collect();
        assert_eq!(shown, [("a", None), ("b", Some("registry+x"))]);
        let lines: Vec<String> = packages.iter().map(LockedPackage::line).collect();
        assert_eq!(lines, ["a 1.0.0 folder", "b 2.0.0 registry+x"]);
        let source = Some("git+https://me:secret@x.org/c@d#1".to_owned());
        let package = LockedPackage { name: "c".to_owned(), version: "1.0.0".to_owned(), source };
        assert_eq!(package.line(), "c 1.0.0 git+https://x.org/c@d#1");
        assert!(locked(b"<<<<<<< HEAD").is_empty());
    }
}
