//! The line of a changed manifest or lock file that names a dependency's version.

use crate::why::stored::StoredFile;
use crate::why::versions::ChangedDependency;

/// Returns the file and the line: of a manifest, or else of the lock file. `None` if the diff changed
/// neither. A package that the candidate lacks has no line.
pub(super) fn line_of(changed: &ChangedDependency, files: &[StoredFile]) -> Option<(String, u32)> {
    let is_named = |path: &str, name: &str| path.rsplit('/').next() == Some(name);
    let find = |name: &str, line: &dyn Fn(&str) -> Option<usize>| {
        files.iter().find_map(|file| {
            let path = file.paths[1].as_deref().filter(|path| is_named(path, name))?;
            let found = line(file.texts[1].as_deref()?)?;
            Some((path.to_owned(), u32::try_from(found + 1).ok()?))
        })
    };
    let of_manifest = |text: &str| {
        text.lines().position(|line| {
            let key = line.trim_start().strip_prefix(changed.name.as_str());
            let is_table = line.trim_end().ends_with(&format!("dependencies.{}]", changed.name));
            is_table || key.is_some_and(|rest| rest.trim_start().starts_with(['=', '.']))
        })
    };
    let of_lock_file = |text: &str| {
        let name = format!("name = \"{}\"", changed.name);
        let version = format!("version = \"{}\"", changed.new.as_ref()?);
        let lines: Vec<&str> = text.lines().collect();
        lines.windows(2).position(|pair| pair[0] == name && pair[1] == version).map(|at| at + 1)
    };
    find("Cargo.toml", &of_manifest).or_else(|| find("Cargo.lock", &of_lock_file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<(String, u32)> {
        let [old, new] = ["1.0.0", "1.1.0"].map(|version| Some(version.to_owned()));
        let changed = ChangedDependency { name: "serde".to_owned(), old, new };
        let file = |(path, text): &(&str, &str)| StoredFile {
            paths: [None, Some((*path).to_owned())],
            texts: [None, Some((*text).to_owned())],
        };
        line_of(&changed, &files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn a_manifest_comes_before_the_lock_file() {
        let lock = ("Cargo.lock", "[[package]]\nname = \"serde\"\nversion = \"1.1.0\"\n");
        let manifest = ("a/Cargo.toml", "[dependencies]\nserde_json = \"1\"\nserde = \"1.1\"\n");
        let table = ("Cargo.toml", "[dependencies.serde]\nversion = \"1.1\"\n");
        assert_eq!(found(&[lock]), Some(("Cargo.lock".to_owned(), 3)));
        assert_eq!(found(&[lock, manifest]), Some(("a/Cargo.toml".to_owned(), 3)));
        assert_eq!(found(&[table]), Some(("Cargo.toml".to_owned(), 1)));
        assert_eq!(found(&[("src/Cargo.rs", "serde = 1")]), None);
    }
}
