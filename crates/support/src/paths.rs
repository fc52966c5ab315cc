//! Paths as UTF-8 text, with `.` and `..` resolved.

use std::path::PathBuf;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

/// Returns a path of the operating system as UTF-8.
///
/// # Errors
/// The path is not UTF-8.
pub fn utf8(path: PathBuf) -> anyhow::Result<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(path)
        .map_err(|path| anyhow::anyhow!("the path {} is not UTF-8", path.display()))
}

/// Returns the path without `.` and `..`: `a/../b/./c` is `b/c`. Links are not followed, and
/// nothing is looked up.
pub fn without_dots(path: &Utf8Path) -> Utf8PathBuf {
    let mut plain = Utf8PathBuf::new();
    for component in path.components() {
        match component {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

/// Whether a path leads into a folder, as it is written or behind symlinks. The last parts of the path need not exist.
pub fn is_inside(path: &Utf8Path, folder: &Utf8Path) -> bool {
    let existing = path.ancestors().find_map(|ancestor| ancestor.canonicalize_utf8().ok());
    without_dots(path).starts_with(folder) || existing.is_some_and(|existing| existing.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_resolved() {
        assert_eq!(without_dots(Utf8Path::new("/a/../b/./c")), "/b/c");
        assert_eq!(without_dots(Utf8Path::new("a/b/..")), "a");
    }

    #[test]
    #[cfg(unix)]
    fn a_path_is_inside_of_a_folder_as_it_is_written_or_behind_symlinks() {
        let temporary = tempfile::tempdir().unwrap();
        let home = utf8(temporary.path().canonicalize().unwrap()).unwrap();
        let (folder, other) = (home.join("folder"), home.join("other"));
        for made in [&folder, &other] {
            fs_err::create_dir(made).unwrap();
        }
        fs_err::os::unix::fs::symlink(&other, folder.join("link")).unwrap();
        fs_err::os::unix::fs::symlink(&folder, home.join("name")).unwrap();
        for inside in ["folder/target", "folder/link/target", "name/target", "other/../folder/target"] {
            assert!(is_inside(&home.join(inside), &folder), "{inside}");
        }
        for outside in ["other", "folder/../other", "folders"] {
            assert!(!is_inside(&home.join(outside), &folder), "{outside}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_path_that_is_not_utf8_is_named_in_the_error() {
        use std::os::unix::ffi::OsStringExt;
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"/a\xff".to_vec()));
        assert_eq!(utf8(path).unwrap_err().to_string(), "the path /a\u{fffd} is not UTF-8");
    }
}
