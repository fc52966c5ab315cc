//! Finds the shared libraries that a program needs, among those that its build made or provides.
//!
//! The system's own libraries are ignored, because the machine that runs the program has them. Only
//! ELF files are read; other programs appear to need no libraries.

use std::collections::BTreeSet;
use std::io::Read;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use memprof_support::regular_file::followed;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader32, FileHeader64};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache};

/// What a program or shared library tells the loader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The names of the libraries that it needs.
    pub needed: Vec<String>,
    /// The folders to search for them, with `$ORIGIN` resolved.
    pub search: Vec<Utf8PathBuf>,
    /// The loader itself; `None` in libraries and statically linked programs.
    pub interpreter: Option<Utf8PathBuf>,
}

/// Whether a file is a shared library, by its name.
pub(crate) fn is_shared(file: &Utf8Path) -> bool {
    file.extension().is_some_and(|extension| ["so", "dylib"].contains(&extension))
}

/// Reads a file. A file that is not ELF, such as a script, needs nothing.
pub fn read(path: &Utf8Path) -> anyhow::Result<Dynamic> {
    let mut file = followed::open(path)?;
    let mut begin = Vec::new();
    Read::by_ref(&mut file)
        .take(16)
        .read_to_end(&mut begin)
        .with_context(|| format!("cannot read {path}"))?;
    let cache = ReadCache::new(file);
    let origin = path.parent().unwrap_or(Utf8Path::new("/"));
    let dynamic = match FileKind::parse(&begin[..]) {
        Ok(FileKind::Elf64) => of_elf::<FileHeader64<Endianness>>(&cache, origin),
        Ok(FileKind::Elf32) => of_elf::<FileHeader32<Endianness>>(&cache, origin),
        Ok(_) | Err(_) => Ok(Dynamic::default()),
    };
    dynamic.with_context(|| format!("cannot read the table of shared libraries in {path}"))
}

fn of_elf<Elf: FileHeader>(
    cache: &ReadCache<std::fs::File>,
    origin: &Utf8Path,
) -> Result<Dynamic, object::read::Error> {
    let file = ElfFile::<Elf, _>::parse(cache)?;
    let table = file.elf_dynamic_table()?;
    let mut dynamic = Dynamic::default();
    for entry in &table {
        let text = |entry| table.string(entry).map(|text| String::from_utf8_lossy(text).into_owned());
        if entry.tag == DT_NEEDED {
            dynamic.needed.push(text(entry)?);
        } else if entry.tag == DT_RPATH || entry.tag == DT_RUNPATH {
            let folders = text(entry)?;
            let resolved = folders.split(':').filter(|folder| !folder.is_empty()).map(|folder| {
                folder.replace("${ORIGIN}", origin.as_str()).replace("$ORIGIN", origin.as_str()).into()
            });
            dynamic.search.extend(resolved);
        }
    }
    for segment in file.elf_program_headers() {
        if let Some(text) = segment.interpreter(file.endian(), cache)? {
            dynamic.interpreter = Some(String::from_utf8_lossy(text).into_owned().into());
        }
    }
    Ok(dynamic)
}

/// Returns the libraries that these files need, directly or through other libraries. Searches
/// `folders` and the folders that the files name themselves, and keeps only libraries that match
/// `wanted`.
pub fn closure(
    files: impl IntoIterator<Item = Utf8PathBuf>,
    folders: &[Utf8PathBuf],
    wanted: impl Fn(&Utf8Path) -> bool,
) -> anyhow::Result<BTreeSet<Utf8PathBuf>> {
    let mut found = BTreeSet::new();
    let mut unread: Vec<Utf8PathBuf> = files.into_iter().collect();
    while let Some(file) = unread.pop() {
        let dynamic = read(&file)?;
        for name in &dynamic.needed {
            // As in the loader, the first folder with the name wins.
            let places = folders.iter().chain(&dynamic.search).map(|folder| folder.join(name));
            let Some(library) = places.into_iter().find(|path| path.is_file()) else { continue };
            if wanted(&library) && found.insert(library.clone()) {
                unread.push(library);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own executable, which is dynamically linked on every Linux with glibc.
    fn own_program() -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn a_program_lists_its_libraries_and_its_loader() {
        let dynamic = read(&own_program()).unwrap();
        assert!(dynamic.needed.iter().any(|name| name == "libc.so.6"), "{dynamic:?}");
        assert!(dynamic.interpreter.unwrap().is_file());
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn only_libraries_of_the_given_folders_are_found_and_the_first_folder_wins() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let folders: Vec<Utf8PathBuf> = ["empty", "first", "second"].map(|name| folder.join(name)).into();
        for place in &folders[1..] {
            fs_err::create_dir(place).unwrap();
            fs_err::write(place.join("libc.so.6"), "not a library").unwrap();
        }
        let all = closure([own_program()], &folders, |_| true).unwrap();
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [folder.join("first/libc.so.6")]);
        assert!(closure([own_program()], &folders, |_| false).unwrap().is_empty());
    }

    #[test]
    fn a_script_needs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let script = Utf8Path::from_path(folder.path()).unwrap().join("script");
        fs_err::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(read(&script).unwrap(), Dynamic::default());
    }
}
