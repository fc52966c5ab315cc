//! The files that a build script left in `OUT_DIR`, for tests that read them while they run. All revisions share the
//! folder, so each build keeps its own files.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use memchr::memmem;

use crate::provenance::Executable;
use crate::texts::Texts;
use memprof_support::paths;
use memprof_support::regular_file::followed::{self, MOST_OF_BINARY};
use memprof_support::regular_file::remove_file_if_there;

/// A folder with more bytes is not kept.
const MOST: u64 = 256 << 20;

/// What a script left in its folder.
struct Output<'a> {
    folder: &'a Utf8Path,
    files: Vec<Utf8PathBuf>,
}

/// Returns the files of these folders of scripts that an executable may read. Links are left out. A folder that is too
/// large or cannot be read is not kept.
pub(crate) fn of_scripts<'a>(
    folders: impl Iterator<Item = &'a Utf8Path>,
    executables: &[(Utf8PathBuf, &Executable)],
) -> anyhow::Result<Vec<Utf8PathBuf>> {
    let mut unread: Vec<Output<'_>> = folders.filter_map(Output::of).collect();
    // The folders of all packages are in one or two.
    let roots: BTreeSet<&Utf8Path> =
        unread.iter().filter_map(|output| output.folder.parent()?.parent()).collect();
    let mut read = Vec::new();
    for (path, executable) in executables {
        if unread.is_empty() {
            break;
        }
        let bytes = followed::mapped_within(path, MOST_OF_BINARY)?;
        // Most executables name no such folder, or only in their debug information.
        let names_one =
            asks(&bytes) || roots.iter().any(|root| memmem::find(&bytes, root.as_str().as_bytes()).is_some());
        let texts = names_one.then(|| Texts::of(&bytes));
        let texts = texts.as_ref().map_or(&[][..], Texts::bytes);
        let places: Vec<usize> =
            roots.iter().flat_map(|root| memmem::find_iter(texts, root.as_str())).collect();
        let is_read = |output: &mut Output<'_>| {
            output.is_given(executable, asks(texts)) || output.is_named(places.iter().map(|at| &texts[*at..]))
        };
        read.extend(unread.extract_if(.., is_read).flat_map(|output| output.files));
    }
    Ok(read)
}

impl<'a> Output<'a> {
    fn of(folder: &'a Utf8Path) -> Option<Self> {
        let (files, size) = files_of(folder).ok()?;
        (!files.is_empty() && size <= MOST).then_some(Self { folder, files })
    }

    /// Whether a variable tells a test the folder. Cargo always sets `OUT_DIR`, for tests that ask for it.
    fn is_given(&self, executable: &Executable, asks: bool) -> bool {
        executable.environment.iter().any(|(name, value)| {
            let is_asked = if name == "OUT_DIR" { asks } else { !name.ends_with("LIBRARY_PATH") };
            is_asked && value.contains(self.folder.as_str())
        })
    }

    /// Whether one of these texts begins with the folder's path, other than as the place of generated code, which a
    /// panic has. Other texts may follow at once.
    fn is_named<'t>(&self, mut texts: impl Iterator<Item = &'t [u8]>) -> bool {
        let is_source = |below: &[u8]| {
            let sources = self.files.iter().filter(|file| file.extension() == Some("rs"));
            let mut names = sources.filter_map(|file| file.strip_prefix(self.folder).ok());
            names.any(|name| below.starts_with(name.as_str().as_bytes()))
        };
        texts.any(|text| {
            let rest = text.strip_prefix(self.folder.as_str().as_bytes());
            rest.is_some_and(|rest| !rest.strip_prefix(b"/").is_some_and(is_source))
        })
    }
}

/// Removes the files of a script's folder that are not these. Without its output, cargo runs the script again before it
/// builds with this folder.
pub(crate) fn remove_others(folder: &Utf8Path, own: &BTreeSet<&Utf8Path>) -> anyhow::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in walkdir::WalkDir::new(folder) {
        let entry = entry?;
        let is_own = || Utf8Path::from_path(entry.path()).is_some_and(|path| own.contains(path));
        if !entry.file_type().is_dir() && !is_own() {
            remove_file_if_there(folder.with_file_name("output"))?;
            remove_file_if_there(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the files of a folder, and their size.
fn files_of(folder: &Utf8Path) -> anyhow::Result<(Vec<Utf8PathBuf>, u64)> {
    let (mut files, mut size) = (Vec::new(), 0);
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry?;
        if entry.file_type().is_file() {
            size += entry.metadata()?.len();
            files.push(paths::utf8(entry.into_path())?);
        }
    }
    Ok((files, size))
}

fn asks(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"OUT_DIR").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::samples;

    #[test]
    fn a_folder_is_read_if_its_path_is_not_that_of_a_source() {
        let folder = Utf8Path::new("/t/build/app-1/out");
        let output = Output { folder, files: vec![folder.join("generated.rs"), folder.join("model.bin")] };
        let reads = |texts: &[&str]| output.is_named(texts.iter().map(|text| text.as_bytes()));
        assert!(reads(&["/t/build/app-1/out/model.binsrc/lib.rs"]));
        assert!(reads(&["/t/build/app-1/outtwo"]));
        assert!(reads(&["/t/build/app-1/out/rustc/library/alloc/entry.rs"]));
        assert!(!reads(&["/t/build/app-1/out/generated.rsassertion failed"]));
        assert!(!reads(&["/t/build/app-2/out/model.bin"]));
        assert!(reads(&["/t/build/app-1/out/generated.rs", "/t/build/app-1/out"]));
    }

    #[test]
    fn the_files_of_a_folder_that_is_read_are_listed() {
        let home = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(home.path()).unwrap();
        let folder = home.join("app-1/out");
        fs_err::create_dir_all(folder.join("sub")).unwrap();
        fs_err::write(home.join("plain"), "nothing").unwrap();
        fs_err::write(home.join("asks"), "OUT_DIR").unwrap();
        fs_err::write(home.join("reads"), format!("{folder}/a.bin")).unwrap();
        let (executable, mut given) = (samples::executable(), samples::executable());
        given.environment.insert("OUT_DIR".to_owned(), folder.to_string());
        let of_script = |executables: &[(Utf8PathBuf, &Executable)]| {
            of_scripts([&*folder].into_iter(), executables).unwrap()
        };
        let both = [(home.join("plain"), &executable), (home.join("reads"), &executable)];
        assert!(of_script(&both).is_empty(), "there are none");
        for file in ["a.bin", "sub/b.bin"] {
            fs_err::write(folder.join(file), file).unwrap();
        }
        let files = ["a.bin", "sub/b.bin"].map(|file| folder.join(file));
        assert_eq!(of_script(&both), files);
        assert!(of_script(&[(home.join("plain"), &given)]).is_empty(), "cargo always sets OUT_DIR");
        assert_eq!(of_script(&[(home.join("asks"), &given)]), files);
        assert!(of_script(&[(home.join("asks"), &executable)]).is_empty(), "that of another package");
        given.environment.insert("MODEL".to_owned(), format!("{folder}/a.bin"));
        assert_eq!(of_script(&[(home.join("plain"), &given)]), files);
        assert!(of_scripts([&*home.join("absent/out")].into_iter(), &both).unwrap().is_empty());
    }

    #[test]
    fn files_of_another_revision_are_removed_with_the_scripts_output() {
        let home = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(home.path()).unwrap();
        let folder = home.join("out");
        fs_err::create_dir_all(folder.join("sub")).unwrap();
        for file in ["out/own", "out/sub/other", "beside", "output"] {
            fs_err::write(home.join(file), "").unwrap();
        }
        let own = folder.join("own");
        let own = BTreeSet::from([own.as_path()]);
        remove_others(&folder, &own).unwrap();
        let is_there = |file: &str| home.join(file).exists();
        assert!(
            is_there("out/own") && is_there("beside") && !is_there("out/sub/other") && !is_there("output")
        );
        fs_err::write(home.join("output"), "").unwrap();
        remove_others(&folder, &own).unwrap();
        remove_others(&home.join("absent"), &own).unwrap();
        assert!(is_there("output"), "nothing was removed");
    }
}
