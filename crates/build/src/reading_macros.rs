//! Whether procedural macros may read files: what the standard library needs for that is among their symbols.

use camino::Utf8Path;
use memchr::memmem;
use object::{Object as _, ObjectSymbol as _};

use memprof_support::regular_file::followed;

/// Parts of symbols that list, read or ask about files, or start a program that may: of the standard library, `rustix`
/// and the C library. Each macro has `File::open_c` and `File::metadata`, for backtraces.
const READING: [&[u8]; 24] = [
    b"read_dir",
    b"readdir",
    b"3dir3Dir",
    b"2fs4read",
    b"2fs14read_to_string",
    b"11OpenOptions",
    b"3std2fs6exists",
    b"3std2fs8metadata",
    b"3std2fs9read_link",
    b"3std2fs12canonicalize",
    b"3std2fs16symlink_metadata",
    b"4Path6exists",
    b"4Path6is_dir",
    b"4Path7is_file",
    b"4Path8metadata",
    b"4Path9read_link",
    b"4Path10is_symlink",
    b"4Path10try_exists",
    b"4Path12canonicalize",
    b"4Path16symlink_metadata",
    b"fopen",
    b"openat",
    b"7Command3new",
    b"7Command5spawn",
];

/// `File::open`, which is of the standard library's user. The library's own is in `fs::unix`.
const OPENING: &[u8] = b"4File4open";
const OWN: &[u8] = b"4unix";

/// The section with a crate's metadata. The compiler needs it of a macro; a `cdylib` or a program has none.
const METADATA: &str = ".rustc";

/// Whether a library is a macro that may read files. One that cannot be read may be one, and a macro without symbols
/// may read.
pub(crate) fn may_read_files(library: &Utf8Path) -> bool {
    let Ok(content) = followed::read_within(library, followed::MOST_OF_BINARY) else { return true };
    let Ok(file) = object::File::parse(&*content) else { return true };
    if file.section_by_name(METADATA).is_none() {
        return false;
    }
    let has = |name: &[u8], part: &[u8]| memmem::find(name, part).is_some();
    let reads =
        |name: &[u8]| READING.iter().any(|part| has(name, part)) || has(name, OPENING) && !has(name, OWN);
    let mut names = file.symbols().filter_map(|symbol| symbol.name_bytes().ok()).peekable();
    names.peek().is_none() || names.any(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_macro_that_embeds_files_is_told_from_one_that_derives_code() {
        let program = std::env::current_exe().unwrap();
        let deps = Utf8Path::from_path(program.parent().unwrap()).unwrap();
        let macros = |name: &str| {
            let entries = deps.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path());
            let is_it = |path: &camino::Utf8PathBuf| {
                path.extension().is_some_and(|kind| ["so", "dylib"].contains(&kind))
                    && path.file_name().is_some_and(|file| file.starts_with(&format!("lib{name}-")))
            };
            entries.filter(is_it).collect::<Vec<_>>()
        };
        for (name, reads) in
            [("include_dir_macros", true), ("serde_derive", false), ("thiserror_impl", false)]
        {
            let found = macros(name);
            assert!(!found.is_empty(), "{name}");
            assert!(found.iter().all(|library| may_read_files(library) == reads), "{name}");
        }
        let program = Utf8Path::from_path(&program).unwrap();
        assert!(!may_read_files(program), "it reads files, and is no macro");
        assert!(may_read_files("/no/such/library.so".into()));
    }
}
