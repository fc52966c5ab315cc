//! A package that has no version of a moment and moves to a later one, while all others stay: what
//! cargo is given to choose it, and what the lock file says about it in the end.

use std::fmt;

use anyhow::Context;
use camino::Utf8PathBuf;
use cargo_metadata::{Metadata, Package};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};

/// A requirement on a package of crates.io, as cargo's messages name it: `lz4_flex = "^0.11"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub package: String,
    /// The versions that fit.
    pub versions: String,
}

impl Requirement {
    /// Reads `lz4_flex = "^0.11"`.
    pub fn parse(text: &str) -> Option<Self> {
        let (package, versions) = text.split_once(" = ")?;
        let versions = versions.strip_prefix('"')?.strip_suffix('"')?;
        Some(Self { package: package.to_owned(), versions: versions.to_owned() })
    }

    /// Returns the manifest of a package that depends on this alone, with these features.
    pub fn manifest(&self, features: &[String]) -> String {
        let mut dependency = InlineTable::new();
        dependency.insert("version", self.versions.as_str().into());
        // A feature that nobody asked for may need more packages without a version.
        dependency.insert("default-features", false.into());
        dependency.insert("features", features.iter().collect::<Array>().into());
        let mut dependencies = Table::new();
        dependencies.insert(&self.package, value(dependency));
        let mut document = DocumentMut::new();
        document.insert("dependencies", Item::Table(dependencies));
        format!(
            "[package]\nname = \"memprof-requirement\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
             [lib]\npath = \"lib.rs\"\n\n[workspace]\n\n{document}"
        )
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} = \"{}\"", self.package, self.versions)
    }
}

/// The version of a package that is taken instead of one of the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MovedPackage {
    /// What had no version.
    pub requirement: Requirement,
    pub version: String,
    /// Where cargo has unpacked it.
    folder: Utf8PathBuf,
    /// The lines about its origin in a lock file: its source, and its checksum.
    origin: Vec<String>,
}

impl MovedPackage {
    /// Reads the version that cargo chose for a package that depends on the requirement alone.
    pub fn new(requirement: Requirement, metadata: &Metadata, lockfile: &str) -> anyhow::Result<Self> {
        let package = chosen(metadata)?;
        let version = package.version.to_string();
        let block = blocks(lockfile)
            .find(|block| is_of(block, &requirement.package, &version))
            .with_context(|| format!("the lock file lacks {} {version}", requirement.package))?;
        let is_origin = |line: &&str| line.starts_with("source = ") || line.starts_with("checksum = ");
        let origin = block.lines().filter(is_origin).map(str::to_owned).collect();
        let folder = package.manifest_path.parent().context("a manifest has a folder")?.to_owned();
        Ok(Self { requirement, version, folder, origin })
    }

    /// Returns the note on packages that moved, each with its day. `asked` is the day that they lack.
    pub fn note<'a>(moved: impl Iterator<Item = (&'a Self, String)>, asked: &str) -> String {
        let (lacking, taken): (Vec<String>, Vec<String>) = moved
            .map(|(Self { requirement, version, .. }, day)| {
                (format!("`{requirement}` has"), format!("{} {version} of {day}", requirement.package))
            })
            .unzip();
        let lacking = match &lacking[..] {
            [one] => one.clone(),
            all => format!("{} packages have", all.len()),
        };
        format!("{lacking} no version of {asked} that can be used: took {}", taken.join(", "))
    }

    /// Returns the configuration that puts the folders of these packages in the place of crates.io's.
    pub fn patches(moved: &[&Self]) -> String {
        let mut patches = Table::new();
        for (index, one) in moved.iter().enumerate() {
            let mut patch = Table::new();
            patch.insert("package", value(&one.requirement.package));
            patch.insert("path", value(one.folder.as_str()));
            // One package may move twice, to versions that do not fit each other.
            patches.insert(&format!("moved-{index}"), Item::Table(patch));
        }
        let implicit = |key: &str, of: Table| {
            let mut table = Table::new();
            table.set_implicit(true);
            table.insert(key, Item::Table(of));
            table
        };
        patches.set_implicit(true);
        let mut document = DocumentMut::new();
        document.insert("patch", Item::Table(implicit("crates-io", patches)));
        document.to_string()
    }

    /// Returns the lock file with the package from crates.io in the place of its folder, and whether it
    /// has the package. `None` if the folder cannot be told from another package.
    pub fn registered(&self, lockfile: &str) -> Option<(String, bool)> {
        let package = &self.requirement.package;
        let is_folder = |block: &str| is_of(block, package, &self.version) && !block.contains("\nsource = ");
        let mut found = 0;
        let mut edited = Vec::new();
        for block in blocks(lockfile) {
            if !is_folder(block) {
                edited.push(block.to_owned());
            } else if block.starts_with("[[package]]\n") {
                found += 1;
                let version = version_line(&self.version);
                let origin = self.origin.join("\n");
                edited.push(block.replacen(&version, &format!("{version}\n{origin}"), 1));
            }
        }
        (found <= 1).then(|| (edited.join("\n\n") + "\n", found == 1))
    }
}

/// Returns the package that cargo chose for a package that depends on one requirement alone.
pub(crate) fn chosen(metadata: &Metadata) -> anyhow::Result<&Package> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata has no resolution")?;
    let root = resolve.nodes.iter().find(|node| Some(&node.id) == resolve.root.as_ref());
    let id = root.and_then(|node| node.dependencies.first()).context("the requirement has no package")?;
    Ok(&metadata[id])
}

/// Returns the parts of a lock file: its head, then the packages.
fn blocks(lockfile: &str) -> impl Iterator<Item = &str> {
    lockfile.trim_end().split("\n\n")
}

/// Whether a part of a lock file is about this version of a package.
fn is_of(block: &str, package: &str, version: &str) -> bool {
    let mut lines = block.lines().skip(1);
    lines.next() == Some(&format!("name = \"{package}\""))
        && lines.next() == Some(&version_line(version))
        && block.starts_with("[[")
}

fn version_line(version: &str) -> String {
    format!("version = \"{version}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

    fn moved(package: &str, version: &str) -> MovedPackage {
        MovedPackage {
            requirement: Requirement { package: package.to_owned(), versions: "^0.11".to_owned() },
            version: version.to_owned(),
            folder: format!("/registry/src/{package}-{version}").into(),
            origin: vec![SOURCE.to_owned(), "checksum = \"abc\"".to_owned()],
        }
    }

    #[test]
    fn a_requirement_is_read_and_becomes_the_only_dependency_of_a_package() {
        let requirement = Requirement::parse("lz4_flex = \">=0.11, <0.12\"").unwrap();
        assert_eq!(requirement.to_string(), "lz4_flex = \">=0.11, <0.12\"");
        let manifest: DocumentMut = requirement.manifest(&["std".to_owned()]).parse().unwrap();
        let dependencies = manifest["dependencies"].as_table().unwrap();
        assert_eq!(dependencies.len(), 1);
        assert_eq!(dependencies["lz4_flex"]["version"].as_str(), Some(">=0.11, <0.12"));
        assert_eq!(dependencies["lz4_flex"]["default-features"].as_bool(), Some(false));
        let features = dependencies["lz4_flex"]["features"].as_array().unwrap();
        assert_eq!(features.get(0).and_then(|feature| feature.as_str()), Some("std"));
        assert!(manifest["workspace"].is_table(), "a package of its own, wherever its folder is");
        assert_eq!(Requirement::parse("links"), None);
    }

    #[test]
    fn a_note_names_all_that_moved() {
        let named = |moved: &[(&MovedPackage, &str)]| {
            MovedPackage::note(moved.iter().map(|(one, day)| (*one, (*day).to_owned())), "2024-05-01")
        };
        let (one, other) = (moved("lz4_flex", "0.11.6"), moved("half", "0.11.1"));
        assert_eq!(
            named(&[(&one, "2026-03-14")]),
            "`lz4_flex = \"^0.11\"` has no version of 2024-05-01 that can be used: took lz4_flex 0.11.6 of 2026-03-14"
        );
        assert_eq!(
            named(&[(&one, "2026-03-14"), (&other, "2025-01-01")]),
            "2 packages have no version of 2024-05-01 that can be used: \
             took lz4_flex 0.11.6 of 2026-03-14, half 0.11.1 of 2025-01-01"
        );
    }

    #[test]
    fn two_versions_of_one_package_can_move() {
        let (one, other) = (moved("lz4_flex", "0.11.6"), moved("lz4_flex", "0.10.1"));
        assert_eq!(
            MovedPackage::patches(&[&one, &other]),
            "[patch.crates-io.moved-0]\npackage = \"lz4_flex\"\npath = \"/registry/src/lz4_flex-0.11.6\"\n\n\
             [patch.crates-io.moved-1]\npackage = \"lz4_flex\"\npath = \"/registry/src/lz4_flex-0.10.1\"\n"
        );
    }

    #[test]
    fn the_lock_file_names_the_registry_instead_of_the_folder() {
        let lock = |origin: &str, unused: &str| {
            format!(
                "# generated\nversion = 4\n\n\
                 [[package]]\nname = \"lz4_flex\"\nversion = \"0.10.1\"\n{SOURCE}\nchecksum = \"old\"\n\n\
                 [[package]]\nname = \"lz4_flex\"\nversion = \"0.11.6\"\n{origin}dependencies = [\n \"twox-hash\",\n]\n\n\
                 [[package]]\nname = \"shop\"\nversion = \"0.11.6\"\ndependencies = [\n \"lz4_flex 0.11.6\",\n]\n{unused}"
            )
        };
        let unused = "\n[[patch.unused]]\nname = \"lz4_flex\"\nversion = \"0.11.6\"\n";
        let own = "\n[[patch.unused]]\nname = \"mine\"\nversion = \"0.1.0\"\n";
        let expected = lock(&format!("{SOURCE}\nchecksum = \"abc\"\n"), own);
        let moved = moved("lz4_flex", "0.11.6");
        assert_eq!(moved.registered(&lock("", &format!("{unused}{own}"))), Some((expected.clone(), true)));
        assert_eq!(moved.registered(&expected), Some((expected, false)), "it is not needed");
        let twice = lock("", "\n[[package]]\nname = \"lz4_flex\"\nversion = \"0.11.6\"\n");
        assert_eq!(moved.registered(&twice), None, "a member of the workspace may have the same name");
    }
}
