//! The folder for temporary files that a run has to itself. With the same random numbers, both sides of a comparison
//! choose the same names for files, and one of them must not find what the other one left.

use std::cell::OnceCell;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use memprof_support::event::{Event, Sink};
use memprof_support::regular_file;

/// The variable that names a process's folder for temporary files.
pub(crate) const VARIABLE: &str = "TMPDIR";

/// How many names are tried. Each run that leaves files of another user takes one.
const ATTEMPTS: u32 = 10_000;

/// An empty folder. It is removed at the end, with everything in it.
pub(crate) struct TemporaryFolder {
    pub path: Utf8PathBuf,
}

/// The folders of a session's runs. Whether there are any is decided once: the paths of both sides then have the same
/// length.
#[derive(Default)]
pub(crate) struct TemporaryFolders(OnceCell<Option<Utf8PathBuf>>);

impl TemporaryFolders {
    /// Creates the folder of a cell, in the folder for temporary files of this process. `None` if that one has a
    /// relative path or one that is not UTF-8, or takes no folder: the test then gets it, too.
    ///
    /// All runs of a cell in a comparison have the same path. It may be in what a test allocates or writes. It is
    /// short, because the path of a socket has a hundred bytes at most.
    pub fn create(
        &self,
        comparison: &Utf8Path,
        cell: &str,
        sink: &dyn Sink,
    ) -> anyhow::Result<Option<TemporaryFolder>> {
        let of_process = || Utf8PathBuf::from_path_buf(std::env::temp_dir()).ok();
        let above = self.0.get_or_init(|| usable(of_process()?, comparison, sink));
        above.as_ref().map(|above| TemporaryFolder::create_in(above, comparison, cell)).transpose()
    }
}

/// Returns the folder if runs can have folders in it. Otherwise, a warning says why not.
fn usable(above: Utf8PathBuf, comparison: &Utf8Path, sink: &dyn Sink) -> Option<Utf8PathBuf> {
    if !above.is_absolute() {
        return None;
    }
    let Err(error) = TemporaryFolder::create_in(&above, comparison, "") else { return Some(above) };
    let message = format!("tests have no folders of their own for temporary files: {error:#}");
    let help = Some(format!("set {VARIABLE} to a folder that exists and is writable"));
    sink.emit(Event::Warning { message, help });
    None
}

impl TemporaryFolder {
    fn create_in(above: &Utf8Path, comparison: &Utf8Path, cell: &str) -> anyhow::Result<Self> {
        let path = |attempt: u32| {
            let hash = blake3::hash(format!("{attempt} {comparison} {cell}").as_bytes()).to_hex();
            above.join(format!("memprof-{}", &hash[..10]))
        };
        let mut attempt = 0;
        loop {
            let path = path(attempt);
            attempt += 1;
            // What a killed session left, unless it is another user's.
            let _ = regular_file::remove(&path);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => {}
                Err(error) => return Err(error).with_context(|| format!("cannot create {path}")),
            }
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be removed, such as files of another user, stays. The next run gets another folder.
        let _ = regular_file::remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn all_runs_of_a_cell_find_the_same_folder_empty() {
        let above = tempfile::tempdir().unwrap();
        let above = Utf8Path::from_path(above.path()).unwrap();
        let create = |cell| TemporaryFolder::create_in(above, Utf8Path::new("/run"), cell).unwrap();
        let first = create("a::b");
        let (path, other) = (first.path.clone(), create("a::c").path.clone());
        assert_ne!(path, other);
        assert_eq!(path.as_str().len(), other.as_str().len());
        let inner = path.join("inner");
        fs_err::create_dir(&inner).unwrap();
        fs_err::write(inner.join("file"), "left").unwrap();
        for read_only in [&inner, &path] {
            fs_err::set_permissions(read_only, std::fs::Permissions::from_mode(0o500)).unwrap();
        }
        drop(first);
        assert!(!path.exists(), "also if nobody may write there");
        fs_err::create_dir_all(&inner).unwrap();
        let again = create("a::b");
        assert_eq!(again.path, path);
        assert_eq!(fs_err::read_dir(&path).unwrap().count(), 0, "what a killed session left is gone");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_takes_none_warns_once() {
        struct Warnings(RefCell<Vec<String>>);
        impl Sink for Warnings {
            fn emit(&self, event: Event) {
                let Event::Warning { message, .. } = event else { panic!("only a warning") };
                self.0.borrow_mut().push(message);
            }
        }
        let warnings = Warnings(RefCell::default());
        let temporary = tempfile::tempdir().unwrap();
        let there = Utf8Path::from_path(temporary.path()).unwrap().to_owned();
        let missing = there.join("missing");
        let folders = TemporaryFolders::default();
        let decide = |above: &Utf8Path| {
            folders.0.get_or_init(|| usable(above.to_owned(), Utf8Path::new("/run"), &warnings))
        };
        assert_eq!(decide(&missing), &None);
        fs_err::create_dir(&missing).unwrap();
        let of_run = folders.create(Utf8Path::new("/run"), "a", &warnings).unwrap();
        assert!(of_run.is_none(), "both sides have the same");
        let warnings = warnings.0.into_inner();
        let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
        let begin = "tests have no folders of their own for temporary files: cannot create";
        assert!(
            warning.starts_with(&format!("{begin} {missing}/memprof-")) && warning.contains("No such file"),
            "{warning}"
        );
    }
}
