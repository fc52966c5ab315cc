//! The line of a changed manifest or lock file that names a dependency's version.

use crate::why::stored::StoredFile;
use crate::why::versions::ChangedDependency;

/// The keys of a table that choose a dependency's version.
const OF_VERSION: [&str; 6] = ["version", "git", "rev", "branch", "tag", "path"];

/// Returns the file and the line: of a manifest, if the diff changed that line, or else of the lock file.
/// `None` if the diff changed neither. A package that the candidate lacks has no line.
pub(super) fn line_of(changed: &ChangedDependency, files: &[StoredFile]) -> Option<(String, u32)> {
    let is_named = |path: &str, name: &str| path.rsplit('/').next() == Some(name);
    let find = |name: &str, line: &dyn Fn([&str; 2]) -> Option<usize>| {
        files.iter().find_map(|file| {
            let path = file.paths[1].as_deref().filter(|path| is_named(path, name))?;
            let found = line([file.texts[0].as_deref().unwrap_or_default(), file.texts[1].as_deref()?])?;
            Some((path.to_owned(), u32::try_from(found + 1).ok()?))
        })
    };
    let of_manifest = |[old, new]: [&str; 2]| {
        let known: Vec<&str> = requirements(&changed.name, old).map(|(_, line)| line).collect();
        requirements(&changed.name, new).find(|(_, line)| !known.contains(line)).map(|(at, _)| at)
    };
    let of_lock_file = |[_, text]: [&str; 2]| {
        let name = format!("name = \"{}\"", changed.name);
        let version = format!("version = \"{}\"", changed.new.as_ref()?);
        let lines: Vec<&str> = text.lines().collect();
        lines.windows(2).position(|pair| pair[0] == name && pair[1] == version).map(|at| at + 1)
    };
    find("Cargo.toml", &of_manifest).or_else(|| find("Cargo.lock", &of_lock_file))
}

/// Returns the lines of a manifest that require a dependency, with their indices: `NAME = …`, or the beginning of
/// `[dependencies.NAME]` and the table's version.
fn requirements<'a>(name: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_key = |line: &str, key: &str| {
        line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']))
    };
    let header = format!("dependencies.{name}]");
    let mut is_in_table = false;
    text.lines().map(str::trim).enumerate().filter(move |(_, line)| {
        if line.starts_with('[') {
            is_in_table = line.ends_with(&header);
            return is_in_table;
        }
        is_key(line, name) || is_in_table && OF_VERSION.iter().any(|key| is_key(line, key))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path and the line of `serde` in files with their paths and, for both sides, texts.
    fn found(files: &[(&str, &str, &str)]) -> Option<String> {
        let [old, new] = ["1.0.0", "1.1.0"].map(|version| Some(version.to_owned()));
        let changed = ChangedDependency { name: "serde".to_owned(), old, new };
        let file = |(path, old, new): &(&str, &str, &str)| StoredFile {
            paths: [old, path].map(|side| Some((*path).to_owned()).filter(|_| !side.is_empty())),
            texts: [old, new].map(|text| Some((*text).to_owned()).filter(|text| !text.is_empty())),
            ..StoredFile::default()
        };
        let (path, line) = line_of(&changed, &files.iter().map(file).collect::<Vec<_>>())?;
        Some(format!("{path}:{line}"))
    }

    const LOCK: (&str, &str, &str) = (
        "Cargo.lock",
        "[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\n",
        "[[package]]\nname = \"serde\"\nversion = \"1.1.0\"\n",
    );

    #[test]
    fn a_manifest_comes_before_the_lock_file() {
        let manifest = "[dependencies]\nserde_json = \"1\"\nserde = \"1.1\"\n";
        assert_eq!(found(&[LOCK]).as_deref(), Some("Cargo.lock:3"));
        assert_eq!(found(&[LOCK, ("a/Cargo.toml", "", manifest)]).as_deref(), Some("a/Cargo.toml:3"));
        let table = "[dependencies.serde]\nversion = \"1.1\"\n";
        assert_eq!(found(&[("Cargo.toml", "", table)]).as_deref(), Some("Cargo.toml:1"));
        assert_eq!(found(&[("src/Cargo.rs", "", "serde = 1")]), None);
    }

    #[test]
    fn a_line_that_the_baseline_has_is_not_the_update() {
        let manifest = |own: &str, serde: &str| {
            format!("[package]\nversion = \"{own}\"\n[dependencies]\nserde = \"{serde}\"\n")
        };
        let table = |own: &str, serde: &str| {
            format!(
                "[package]\nversion = \"{own}\"\n[dependencies.serde]\ndefault-features = false\n\
                 version = \"{serde}\"\n[features]\n"
            )
        };
        let of = |old: &str, new: &str| found(&[("Cargo.toml", old, new), LOCK]);
        assert_eq!(of(&manifest("0.1.0", "1"), &manifest("0.2.0", "1")).as_deref(), Some("Cargo.lock:3"));
        assert_eq!(of(&manifest("0.1.0", "1.0"), &manifest("0.1.0", "1.1")).as_deref(), Some("Cargo.toml:4"));
        assert_eq!(of(&table("0.1.0", "1"), &table("0.2.0", "1")).as_deref(), Some("Cargo.lock:3"));
        assert_eq!(of(&table("0.1.0", "1.0"), &table("0.1.0", "1.1")).as_deref(), Some("Cargo.toml:5"));
    }

    #[test]
    fn a_member_that_takes_the_workspaces_version_is_not_the_update() {
        let member =
            |own: &str| format!("[package]\nname = \"{own}\"\n[dependencies]\nserde.workspace = true\n");
        let root = |serde: &str| format!("[workspace.dependencies]\nserde = \"{serde}\"\n");
        let files = [("a/Cargo.toml", member("a"), member("b")), ("Cargo.toml", root("1.0"), root("1.1"))];
        let files = files.each_ref().map(|(path, old, new)| (*path, old.as_str(), new.as_str()));
        assert_eq!(found(&files).as_deref(), Some("Cargo.toml:2"));
    }
}
