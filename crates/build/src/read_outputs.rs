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

/// Returns the files of a script's folder, if one of these executables may read them. Links are left out. A folder that
/// is too large or cannot be read is not kept.
pub(crate) fn of_script(
    folder: &Utf8Path,
    executables: &[(Utf8PathBuf, &Executable)],
) -> anyhow::Result<Vec<Utf8PathBuf>> {
    let Ok((files, size)) = files_of(folder) else { return Ok(Vec::new()) };
    if files.is_empty() || size > MOST {
        return Ok(Vec::new());
    }
    let is_source = |file: &&Utf8PathBuf| file.extension() == Some("rs");
    let sources: Vec<&str> = files
        .iter()
        .filter(is_source)
        .filter_map(|file| Some(file.strip_prefix(folder).ok()?.as_str()))
        .collect();
    for (path, executable) in executables {
        let bytes = followed::mapped_within(path, MOST_OF_BINARY)?;
        // Most executables name no such folder, or only in their debug information.
        if is_given(executable, folder)
            || (names(&bytes, folder) || asks(&bytes))
                && may_read(Texts::of(&bytes).bytes(), folder, &sources)
        {
            return Ok(files);
        }
    }
    Ok(Vec::new())
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

/// Whether a variable tells a test the folder, other than those that cargo always sets.
fn is_given(executable: &Executable, folder: &Utf8Path) -> bool {
    executable.environment.iter().any(|(name, value)| {
        name != "OUT_DIR" && !name.ends_with("LIBRARY_PATH") && value.contains(folder.as_str())
    })
}

/// Whether code with these texts may read files of the folder: it has the folder's path, other than as the place of
/// generated code, or asks for the variable.
fn may_read(texts: &[u8], folder: &Utf8Path, sources: &[&str]) -> bool {
    let mut found = memmem::find_iter(texts, folder.as_str());
    found.any(|at| !is_place(&texts[at + folder.as_str().len()..], sources)) || asks(texts)
}

fn names(bytes: &[u8], folder: &Utf8Path) -> bool {
    memmem::find(bytes, folder.as_str().as_bytes()).is_some()
}

fn asks(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"OUT_DIR").is_some()
}

/// Whether a path goes on as that of a source: a panic in generated code has it. Other texts may follow at once.
fn is_place(rest: &[u8], sources: &[&str]) -> bool {
    let below = rest.strip_prefix(b"/");
    below.is_some_and(|below| sources.iter().any(|source| below.starts_with(source.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::samples;

    #[test]
    fn a_folder_is_read_if_its_path_is_not_that_of_a_source() {
        let folder = Utf8Path::new("/t/build/app-1/out");
        let reads = |texts: &str| may_read(texts.as_bytes(), folder, &["generated.rs"]);
        assert!(reads("/t/build/app-1/out/model.binsrc/lib.rs"));
        assert!(reads("one/t/build/app-1/outtwo"));
        assert!(reads("/t/build/app-1/out/rustc/library/alloc/entry.rs"));
        assert!(reads("the variable OUT_DIR is not set"));
        assert!(!reads("/t/build/app-1/out/generated.rsassertion failed"));
        assert!(!reads("/t/build/app-2/out/model.bin"));
        assert!(reads("/t/build/app-1/out/generated.rs\0/t/build/app-1/out"));
    }

    #[test]
    fn the_files_of_a_folder_that_is_read_are_listed() {
        let home = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(home.path()).unwrap();
        let folder = home.join("out");
        fs_err::create_dir_all(folder.join("sub")).unwrap();
        fs_err::write(home.join("plain"), "nothing").unwrap();
        fs_err::write(home.join("reads"), format!("{folder}/a.bin")).unwrap();
        let (executable, mut given) = (samples::executable(), samples::executable());
        given.environment.insert("OUT_DIR".to_owned(), folder.to_string());
        let plain = [(home.join("plain"), &given)];
        let both = [(home.join("plain"), &executable), (home.join("reads"), &executable)];
        assert!(of_script(&folder, &both).unwrap().is_empty(), "there are none");
        for file in ["a.bin", "sub/b.bin"] {
            fs_err::write(folder.join(file), file).unwrap();
        }
        let files = ["a.bin", "sub/b.bin"].map(|file| folder.join(file));
        assert_eq!(of_script(&folder, &both).unwrap(), files);
        assert!(of_script(&folder, &plain).unwrap().is_empty(), "cargo always sets OUT_DIR");
        given.environment.insert("MODEL".to_owned(), format!("{folder}/a.bin"));
        assert_eq!(of_script(&folder, &[(home.join("plain"), &given)]).unwrap(), files);
        assert!(of_script(&home.join("absent"), &both).unwrap().is_empty());
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
