//! Which versions of a dependency would work: those of the registry that meet the requirements of all
//! packages that use it.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Metadata;
use cargo_metadata::semver::{Version, VersionReq};
use serde::Deserialize;

use memprof_support::counted::counted;
use memprof_support::regular_file::followed;

/// A requirement on a package, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequiredBy {
    /// The versions that fit: `^1.0.190`.
    pub versions: VersionReq,
    /// The package that needs them, with its version.
    pub package: String,
}

/// Returns the requirements on one version of a package, of a resolved workspace.
pub(crate) fn requirements(metadata: &Metadata, package: &str, version: &str) -> Vec<RequiredBy> {
    let Some(resolve) = &metadata.resolve else { return Vec::new() };
    let is_it = |id: &cargo_metadata::PackageId| {
        let one = &metadata[id];
        one.name.as_str() == package && one.version.to_string() == version
    };
    let users = resolve.nodes.iter().filter(|node| node.deps.iter().any(|dependency| is_it(&dependency.pkg)));
    let mut found: Vec<RequiredBy> = Vec::new();
    for user in users.map(|node| &metadata[&node.id]) {
        let meant = user.dependencies.iter().filter(|one| one.name == package);
        for versions in meant.map(|one| one.req.clone()) {
            // A package may need several versions of one crate.
            let fits = Version::parse(version).is_ok_and(|version| versions.matches(&version));
            let one = RequiredBy { versions, package: format!("{} {}", user.name, user.version) };
            if fits && !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

/// One line of a registry's index.
#[derive(Deserialize)]
struct IndexLine {
    vers: String,
    #[serde(default)]
    yanked: bool,
}

/// Returns the versions of a crate in an index file, as registries or cargo's cache keep it, without
/// those that were yanked. Unreadable parts are skipped: the answer is advice.
fn versions_in(index: &[u8]) -> BTreeSet<Version> {
    let parts = index.split(|byte| *byte == 0 || *byte == b'\n');
    let lines = parts.filter_map(|part| serde_json::from_slice::<IndexLine>(part).ok());
    lines.filter(|line| !line.yanked).filter_map(|line| Version::parse(&line.vers).ok()).collect()
}

/// Returns a crate's path in an index: `se/rd/serde`, `3/s/syn`.
fn path_in_index(name: &str) -> Option<Utf8PathBuf> {
    let name = name.to_lowercase();
    let folder = match name.len() {
        0 => return None,
        1 | 2 => name.len().to_string(),
        3 => format!("3/{}", name.get(..1)?),
        _ => format!("{}/{}", name.get(..2)?, name.get(2..4)?),
    };
    Some(Utf8PathBuf::from(folder).join(name))
}

/// Returns the versions of a crate that cargo knows here. `home` is cargo's, whose indexes are up to
/// date after a resolution; `local` are registries on the disk.
pub(crate) fn published(name: &str, home: Option<&Utf8Path>, local: &[Utf8PathBuf]) -> BTreeSet<Version> {
    let Some(path) = path_in_index(name) else { return BTreeSet::new() };
    let indexes = home.into_iter().flat_map(|home| {
        let entries = home.join("registry/index").read_dir_utf8();
        entries.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path().join(".cache"))
    });
    let indexes = indexes.chain(local.iter().map(|registry| registry.join("index")));
    indexes
        .filter_map(|index| followed::read(index.join(&path)).ok())
        .flat_map(|text| versions_in(&text))
        .collect()
}

/// How many versions are named.
const NAMED: usize = 8;

/// Returns the versions that meet all requirements, newest first.
pub(crate) fn usable(published: &BTreeSet<Version>, required: &[RequiredBy]) -> Vec<Version> {
    let fits = |version: &&Version| required.iter().all(|one| one.versions.matches(version));
    published.iter().rev().filter(fits).cloned().collect()
}

/// Returns advice: the versions to choose from, and the requirements.
pub(crate) fn advice(package: &str, usable: &[Version], required: &[RequiredBy]) -> String {
    let named: Vec<String> = usable.iter().take(NAMED).map(ToString::to_string).collect();
    let more = usable.len().saturating_sub(NAMED);
    let rest = if more > 0 {
        format!(" and {} down to {}", counted(more, "more version"), usable[usable.len() - 1])
    } else {
        String::new()
    };
    let by: Vec<String> =
        required.iter().map(|one| format!("{} needs {package} {}", one.package, one.versions)).collect();
    let mut lines = Vec::new();
    if !named.is_empty() {
        lines.push(format!("versions that work: {}{rest}", named.join(", ")));
    }
    let (first, others) = by.split_at(by.len().min(NAMED));
    if !first.is_empty() {
        let others = if others.is_empty() { String::new() } else { format!("; and {} more", others.len()) };
        lines.push(format!("{}{others}", first.join("; ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(requirements: &[(&str, &str)]) -> Vec<RequiredBy> {
        let one = |(package, versions): &(&str, &str)| RequiredBy {
            versions: versions.parse().unwrap(),
            package: (*package).to_owned(),
        };
        requirements.iter().map(one).collect()
    }

    #[test]
    fn an_index_has_a_line_for_each_version() {
        let cached =
            b"\x03\x02\0\0\0etag\x001.0.0\0{\"name\": \"x\", \"vers\": \"1.0.0\", \"yanked\": false}\0\
                       1.1.0\0{\"vers\":\"1.1.0\",\"yanked\":true}\x001.2.0\0{\"vers\":\"1.2.0\"}\0";
        let plain = b"{\"vers\":\"1.0.0\"}\n{\"vers\":\"1.1.0\",\"yanked\":true}\n{\"vers\":\"1.2.0\"}\n";
        for index in [cached.as_slice(), plain] {
            let versions: Vec<String> = versions_in(index).iter().map(ToString::to_string).collect();
            assert_eq!(versions, ["1.0.0", "1.2.0"]);
        }
        for (name, path) in [("a", "1/a"), ("ab", "2/ab"), ("syn", "3/s/syn"), ("Serde", "se/rd/serde")] {
            assert_eq!(path_in_index(name).unwrap(), path);
        }
    }

    #[test]
    fn versions_that_work_meet_all_requirements() {
        let published: BTreeSet<Version> =
            ["1.0.180", "1.0.190", "1.0.200", "2.0.0"].iter().map(|text| text.parse().unwrap()).collect();
        let all = required(&[("app 0.1.0", "^1"), ("json 1.0.9", ">=1.0.185")]);
        let usable = usable(&published, &all);
        assert_eq!(
            advice("serde", &usable, &all),
            "versions that work: 1.0.200, 1.0.190\napp 0.1.0 needs serde ^1; json 1.0.9 needs serde >=1.0.185"
        );
        assert_eq!(advice("serde", &[], &[]), "");
        let many: Vec<Version> = (0..12).map(|patch| Version::new(1, 0, 20 - patch)).collect();
        assert!(advice("x", &many, &[]).ends_with("1.0.13 and 4 more versions down to 1.0.9"));
    }

    #[test]
    fn the_registries_of_the_disk_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        let write = |path: &str, text: &str| {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
        };
        write("home/registry/index/one-1/.cache/st/oc/stock", "x\0{\"vers\":\"1.0.0\"}\0");
        write("local/index/st/oc/stock", "{\"vers\":\"1.1.0\"}\n");
        let found = published("stock", Some(&root.join("home")), &[root.join("local")]);
        assert_eq!(found.len(), 2);
        assert!(published("other", Some(&root.join("home")), &[]).is_empty());
    }
}
