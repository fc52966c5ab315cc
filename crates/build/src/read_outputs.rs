//! The files that a build script left in `OUT_DIR`, for tests that read them while they run. All revisions share the
//! folder, so each build keeps its own files.

use camino::{Utf8Path, Utf8PathBuf};
use memchr::memmem;

use crate::texts::Texts;
use memprof_support::paths;
use memprof_support::regular_file::followed::{self, MOST_OF_BINARY};

/// A folder with more bytes is not kept.
const MOST: u64 = 256 << 20;

/// Returns the files of a script's folder, if one of these executables may read them. None if they are too large.
pub(crate) fn of_script(folder: &Utf8Path, executables: &[Utf8PathBuf]) -> anyhow::Result<Vec<Utf8PathBuf>> {
    let (mut files, mut size) = (Vec::new(), 0);
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry?;
        if entry.file_type().is_file() {
            size += entry.metadata()?.len();
            files.push(paths::utf8(entry.into_path())?);
        }
    }
    if files.is_empty() || size > MOST {
        return Ok(Vec::new());
    }
    for executable in executables {
        let bytes = followed::mapped_within(executable, MOST_OF_BINARY)?;
        // Most executables name no such folder, or only in their debug information.
        if (names(&bytes, folder) || asks(&bytes)) && may_read(Texts::of(&bytes).bytes(), folder) {
            return Ok(files);
        }
    }
    Ok(Vec::new())
}

/// Whether code with these texts may read files of the folder: it has the folder's path, other than as the place of
/// generated code, or asks for the variable.
fn may_read(texts: &[u8], folder: &Utf8Path) -> bool {
    let mut found = memmem::find_iter(texts, folder.as_str());
    found.any(|at| !is_place(&texts[at + folder.as_str().len()..])) || asks(texts)
}

fn names(bytes: &[u8], folder: &Utf8Path) -> bool {
    memmem::find(bytes, folder.as_str().as_bytes()).is_some()
}

fn asks(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"OUT_DIR").is_some()
}

/// Whether a path goes on as that of a source: a panic in generated code has it. Other texts may follow at once.
fn is_place(rest: &[u8]) -> bool {
    let name = rest.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"/_-".contains(byte)));
    rest.first() == Some(&b'/') && name.is_some_and(|end| rest[end..].starts_with(b".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_if_its_path_is_not_that_of_a_source() {
        let folder = Utf8Path::new("/t/build/app-1/out");
        let reads = |texts: &str| may_read(texts.as_bytes(), folder);
        assert!(reads("/t/build/app-1/out/model.binsrc/lib.rs"));
        assert!(reads("one/t/build/app-1/outtwo"));
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
        let both = [home.join("plain"), home.join("reads")];
        assert!(of_script(&folder, &both).unwrap().is_empty(), "there are none");
        for file in ["a.bin", "sub/b.bin"] {
            fs_err::write(folder.join(file), file).unwrap();
        }
        let files = ["a.bin", "sub/b.bin"].map(|file| folder.join(file));
        assert_eq!(of_script(&folder, &both).unwrap(), files);
        assert!(of_script(&folder, &both[..1]).unwrap().is_empty());
    }
}
