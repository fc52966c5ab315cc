//! How two lock files differ: which packages moved from which version to which, in words.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::semver::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml_edit::{ArrayOfTables, DocumentMut, Table};

use memprof_support::counted::counted;

/// A package of a lock file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockedPackage {
    pub name: String,
    pub version: String,
    /// The registry or git repository that it comes from; `None` for a folder.
    pub source: Option<String>,
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
}

impl MovedDependency {
    /// Returns `serde 1.0.180 → 1.0.200`, `memchr 2.7.1 is new`.
    pub fn words(&self) -> String {
        let Self { name, from, to } = self;
        match (from, to) {
            (Some(from), Some(to)) => format!("{name} {from} → {to}"),
            (None, Some(to)) => format!("{name} {to} is new"),
            (Some(from), None) => format!("{name} {from} is gone"),
            (None, None) => name.clone(),
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

/// Returns what differs between two lists of names and versions, by name.
pub fn moved<'a>(
    old: impl IntoIterator<Item = (&'a str, &'a str)>,
    new: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<MovedDependency> {
    fn by_name<'a>(
        packages: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
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

/// Pairs the versions of one package that only one side has: first those that replace each other, then
/// what is left, in order.
fn of_name(name: &str, old: &BTreeSet<&str>, new: &BTreeSet<&str>) -> Vec<MovedDependency> {
    let mut gone: Vec<&str> = old.difference(new).copied().collect();
    let mut added: Vec<&str> = new.difference(old).copied().collect();
    let mut pairs: Vec<(Option<&str>, Option<&str>)> = Vec::new();
    gone.retain(|from| match added.iter().position(|to| is_compatible(from, to)) {
        Some(place) => {
            pairs.push((Some(from), Some(added.remove(place))));
            false
        }
        None => true,
    });
    let mut added = added.into_iter();
    pairs.extend(gone.into_iter().map(|from| (Some(from), added.next())));
    pairs.extend(added.map(|to| (None, Some(to))));
    let owned = |version: Option<&str>| version.map(str::to_owned);
    let pairs = pairs.into_iter();
    pairs
        .map(|(from, to)| MovedDependency { name: name.to_owned(), from: owned(from), to: owned(to) })
        .collect()
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

    fn read(packages: &str) -> impl Iterator<Item = (&str, &str)> {
        packages.split(", ").filter_map(|one| one.split_once(' '))
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
        assert!(locked(b"<<<<<<< HEAD").is_empty());
    }
}
