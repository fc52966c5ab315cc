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
    fn a_path_that_is_not_utf8_is_named_in_the_error() {
        use std::os::unix::ffi::OsStringExt;
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"/a\xff".to_vec()));
        assert_eq!(utf8(path).unwrap_err().to_string(), "the path /a\u{fffd} is not UTF-8");
    }
}
