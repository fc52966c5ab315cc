//! The folder of one run while its test runs. The test knows the folder and can do anything to it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use memprof_judge::results::outcome::RunRecord;
use memprof_judge::results::run_folder::file;
use memprof_support::bytes::Bytes;
use memprof_support::sealed;
use memprof_support::stamp::file_id;
use memprof_support::{redacted_file, redaction, regular_file};

/// How many bytes of a test's standard output, and of its standard error, are kept: each run keeps its own.
const MOST_OF_OUTPUT: u64 = 4 << 20;

/// The empty folder of a run, and the files that the test writes to.
pub(crate) struct RunHome {
    /// The folder, without symlinks.
    pub path: Utf8PathBuf,
    /// The folder and the files, open, so that no new file gets their inodes.
    folder: File,
    outputs: [(&'static str, File); 2],
}

impl RunHome {
    /// Creates the folder of a run, empty, with the files for the test's output. `root` exists.
    pub fn create(root: &Utf8Path, folder: &Utf8Path) -> anyhow::Result<(Self, File, File)> {
        restore(root, folder)?;
        regular_file::remove(folder).with_context(|| format!("cannot empty {folder}"))?;
        fs_err::create_dir(folder)?;
        let path = folder.canonicalize_utf8()?;
        let create = |name: &'static str| -> anyhow::Result<(File, (&'static str, File))> {
            let file = regular_file::create(&path.join(name)).with_context(|| path.join(name).to_string())?;
            Ok((file.try_clone()?, (name, file)))
        };
        let ((stdout, of_stdout), (stderr, of_stderr)) = (create(file::STDOUT)?, create(file::STDERR)?);
        let folder = File::open(&path)?;
        Ok((Self { path, folder, outputs: [of_stdout, of_stderr] }, stdout, stderr))
    }

    /// Returns what the test did to the folder and its files, if that makes the run useless.
    pub(crate) fn harm(&self) -> Option<String> {
        let found = match self.path.symlink_metadata() {
            Ok(found) if self.path.canonicalize_utf8().is_ok_and(|path| path == self.path) => found,
            Ok(_) | Err(_) => return Some("the test deleted or moved its run's folder".to_owned()),
        };
        if !is_same(&self.folder, &found) {
            return Some("the test replaced its run's folder".to_owned());
        }
        let of_output = |(name, output): &(&str, File)| match self.path.join(name).symlink_metadata() {
            Ok(found) if is_same(output, &found) => None,
            Ok(found) => Some(replaced(&format!("its {name}"), &found)),
            Err(_) => Some(format!("the test deleted its {name}")),
        };
        self.outputs.iter().find_map(of_output).or_else(|| self.harm_of_log())
    }

    fn harm_of_log(&self) -> Option<String> {
        let path = self.path.join(file::LOG);
        match path.symlink_metadata() {
            // A process that did not reach its first checkpoint leaves no log.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Ok(found) if regular_file::irregular(&found).is_some() => Some(replaced("its log", &found)),
            Ok(_) | Err(_) => {
                let problem = regular_file::open(&path).err()?;
                Some(format!("the test made its log unusable: {problem}"))
            }
        }
    }

    /// Shortens the test's outputs to 4 MiB. Returns remarks for the report.
    pub(crate) fn shorten_outputs(&self) -> anyhow::Result<Vec<String>> {
        let mut remarks = Vec::new();
        for (name, output) in &self.outputs {
            make_accessible(output, 0o600)?;
            let path = self.path.join(name);
            if self.is_output(&path) && regular_file::shorten(&path, MOST_OF_OUTPUT)? {
                let most = Bytes(MOST_OF_OUTPUT);
                remarks.push(format!("{name} was longer than {most}, and lost its middle"));
            }
        }
        Ok(remarks)
    }

    /// Replaces the secrets in the test's outputs.
    pub(crate) fn redact_outputs(&self) -> anyhow::Result<()> {
        for (name, _) in &self.outputs {
            let path = self.path.join(name);
            if self.is_output(&path) {
                redacted_file::redact(&path, &redaction::of_process())?;
            }
        }
        Ok(())
    }

    /// Whether this is a file of the folder. What a test puts there instead stays as it is.
    fn is_output(&self, path: &Utf8Path) -> bool {
        let is_file = |found: Metadata| regular_file::irregular(&found).is_none() && found.nlink() == 1;
        self.path.canonicalize_utf8().is_ok_and(|folder| folder == self.path)
            && path.symlink_metadata().is_ok_and(is_file)
    }
}

/// Gives the user back the rights that a test took away.
fn make_accessible(file: &File, needed: u32) -> io::Result<()> {
    let mode = file.metadata()?.mode();
    let permissions = std::fs::Permissions::from_mode(mode & 0o7777 | needed);
    if mode & needed == needed { Ok(()) } else { file.set_permissions(permissions) }
}

/// Whether an open file is what was found at a path.
fn is_same(file: &File, found: &Metadata) -> bool {
    file.metadata().is_ok_and(|own| file_id(&own) == file_id(found))
}

fn replaced(what: &str, by: &Metadata) -> String {
    format!("the test replaced {what} by {}", regular_file::irregular(by).unwrap_or("another file"))
}

/// Writes the record of a run whose folder this is, in the place of whatever is there. After a power failure, the
/// last runs may be damaged, which `--resume` measures again: to wait for the disk takes as long as many tests do.
pub(crate) fn record(root: &Utf8Path, folder: &Utf8Path, record: &RunRecord) -> anyhow::Result<()> {
    restore(root, folder)?;
    sealed::write_unsynced(&folder.join(file::OUTCOME), record)
}

/// Makes every folder from `root` to `folder` a real folder, which the user may enter and change.
pub(crate) fn restore(root: &Utf8Path, folder: &Utf8Path) -> anyhow::Result<()> {
    let below = folder.strip_prefix(root).with_context(|| format!("{folder} is not below {root}"))?;
    fs_err::create_dir_all(root)?;
    let mut path = root.to_owned();
    for name in below {
        path.push(name);
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() && found.mode() & 0o700 == 0o700 => {}
            Ok(found) if found.is_dir() => {
                let mode = found.mode() & 0o7777 | 0o700;
                fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
            }
            Ok(_) | Err(_) => {
                regular_file::remove(&path)?;
                fs_err::create_dir(&path)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        root: Utf8PathBuf,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        Place { _folder: folder, root: root.join("root") }
    }

    fn home(place: &Place) -> RunHome {
        fs_err::create_dir_all(&place.root).unwrap();
        RunHome::create(&place.root, &place.root.join("cells/a/0")).unwrap().0
    }

    #[test]
    fn a_folder_is_emptied_and_a_planted_link_is_not_followed() {
        let place = place();
        fs_err::create_dir_all(place.root.join("cells")).unwrap();
        let outside = place.root.with_file_name("outside");
        fs_err::create_dir_all(outside.join("0")).unwrap();
        fs_err::write(outside.join("0/stdout"), "untouched").unwrap();
        symlink(&outside, place.root.join("cells/a")).unwrap();
        let home = home(&place);
        assert_eq!(home.harm(), None);
        assert_eq!(fs_err::read_to_string(outside.join("0/stdout")).unwrap(), "untouched");
    }

    #[test]
    fn an_output_without_end_is_shortened_before_it_is_read() {
        let place = place();
        let home = home(&place);
        let stdout = home.path.join("stdout");
        fs_err::write(&stdout, "running 1 test\n").unwrap();
        File::options().write(true).open(&stdout).unwrap().set_len(1 << 40).unwrap();
        let remark = "stdout was longer than 4.00 MiB, and lost its middle";
        assert_eq!(home.shorten_outputs().unwrap(), [remark]);
        assert_eq!(stdout.metadata().unwrap().len(), MOST_OF_OUTPUT);
        assert_eq!(home.shorten_outputs().unwrap(), [""; 0]);
    }

    #[test]
    fn rights_that_a_test_took_away_are_given_back() {
        let place = place();
        let home = home(&place);
        let mode = |path: &Utf8Path, mode| {
            let before = path.metadata().unwrap().mode() & 0o777;
            fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            before
        };
        mode(&home.path.join("stderr"), 0);
        home.shorten_outputs().unwrap();
        assert_eq!(mode(&home.path.join("stderr"), 0), 0o600);
        mode(&home.path, 0);
        restore(&place.root, &home.path).unwrap();
        assert_eq!(mode(&home.path, 0o755), 0o700);
    }

    #[test]
    fn what_a_test_does_to_its_files_is_told() {
        let place = place();
        let harm = |act: &dyn Fn(&Utf8Path)| {
            let home = home(&place);
            act(&home.path);
            let harm = home.harm();
            restore(&place.root, &home.path).unwrap();
            assert!(home.path.symlink_metadata().unwrap().is_dir());
            harm.unwrap_or_default()
        };
        assert_eq!(harm(&|_| {}), "");
        assert_eq!(harm(&|home| fs_err::write(home.join("log.jsonl"), "").unwrap()), "");
        assert_eq!(
            harm(&|home| fs_err::create_dir(home.join("log.jsonl")).unwrap()),
            "the test replaced its log by a folder"
        );
        let link = |home: &Utf8Path| {
            fs_err::remove_file(home.join("stderr")).unwrap();
            symlink("/nowhere", home.join("stderr")).unwrap();
        };
        assert_eq!(harm(&link), "the test replaced its stderr by a symlink");
        assert_eq!(
            harm(&|home| fs_err::remove_file(home.join("stdout")).unwrap()),
            "the test deleted its stdout"
        );
        assert_eq!(
            harm(&|home| fs_err::remove_dir_all(home).unwrap()),
            "the test deleted or moved its run's folder"
        );
        let move_away = |home: &Utf8Path| {
            let other = home.with_file_name("other");
            fs_err::rename(home, &other).unwrap();
            symlink(&other, home).unwrap();
        };
        assert_eq!(harm(&move_away), "the test deleted or moved its run's folder");
        let twin = |home: &Utf8Path| {
            fs_err::write(home.join("log.jsonl"), "").unwrap();
            fs_err::hard_link(home.join("log.jsonl"), home.join("twin")).unwrap();
        };
        assert_eq!(harm(&twin), "the test made its log unusable: this file has 2 names (hard links)");
    }
}
