//! Whether the sources of a package have a way out of the package's folder that its executables do not show.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use camino::{Utf8Path, Utf8PathBuf};

use memprof_build::git::repository::Repository;

/// What leaves a folder. Code that pops an element of a list looks the same.
const SIGNS: [&str; 6] = [".pop()", "with_file_name(", "set_file_name(", "\"..\"", "/..\"", "ParentDir"];

/// The sources of a revision that was built.
pub(crate) struct WaysOut<'a> {
    repository: &'a Repository,
    commit: &'a str,
    /// Files of the build that the commit lacks, or has with another text.
    injection: &'a BTreeMap<Utf8PathBuf, Vec<u8>>,
    known: RefCell<HashMap<Utf8PathBuf, bool>>,
}

impl<'a> WaysOut<'a> {
    /// Nothing is read yet.
    pub fn new(
        repository: &'a Repository,
        commit: &'a str,
        injection: &'a BTreeMap<Utf8PathBuf, Vec<u8>>,
    ) -> Self {
        Self { repository, commit, injection, known: RefCell::default() }
    }

    /// Whether a source in this folder has a way out. In doubt it has: git may lack a file.
    pub fn has(&self, package: &Utf8Path) -> bool {
        *self.known.borrow_mut().entry(package.to_owned()).or_insert_with(|| self.search(package))
    }

    fn search(&self, package: &Utf8Path) -> bool {
        let is_pattern = package.as_str().contains(['*', '?', '[', '\\']);
        let is_own = |path: &Utf8Path| path.starts_with(package) && path.extension() == Some("rs");
        if is_pattern || self.injection.iter().any(|(path, text)| is_own(path) && has_sign(text)) {
            return true;
        }
        let sources = format!(":(top,glob){}", package.join("**/*.rs"));
        self.repository.has_text(self.commit, &SIGNS, &[&sources]).unwrap_or(true)
    }
}

fn has_sign(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    SIGNS.iter().any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_leaves_its_folder_if_one_of_its_sources_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        for (path, text) in [
            ("app/tests/deep/er/walk.rs", "fn up(mut path: PathBuf) { path.pop(); }"),
            ("beside/src/lib.rs", "fn up(path: &Path) -> PathBuf { path.join(\"..\") }"),
            ("named/src/lib.rs", "const ROOT: &str = concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/..\");"),
            ("stays/src/lib.rs", "fn all() { 0..9 }"),
            ("stays/notes.txt", "path.pop()"),
        ] {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
        }
        for arguments in [
            &["init", "-q"][..],
            &["add", "."],
            &["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "all"],
        ] {
            let git = std::process::Command::new("git").args(arguments).current_dir(root).status();
            assert!(git.unwrap().success());
        }
        let repository = Repository::discover(root).unwrap();
        let injection = [
            ("given/tests/mem.rs", "fn up(path: &Path) -> PathBuf { path.join(\"..\") }"),
            ("given/data.txt", "path.pop()"),
            // Each target's root has lines of the tool.
            ("stays/src/lib.rs", "fn all() { 0..9 }\n#[cfg(memprof_heap)] extern crate memprof_heap as _;\n"),
            ("stays/Cargo.toml", "path = \"..\""),
        ];
        let injection =
            injection.into_iter().map(|(path, text)| (path.into(), text.as_bytes().to_vec())).collect();
        let ways_out = WaysOut::new(&repository, "HEAD", &injection);
        let has = |package: &str| ways_out.has(package.into());
        assert!(has("app") && has("beside") && has("named") && has("given") && has(""));
        assert!(!has("stays") && !has("absent"));
        let missing = WaysOut::new(&repository, "0123456789012345678901234567890123456789", &injection);
        assert!(missing.has("stays".into()), "nobody knows");
    }
}
