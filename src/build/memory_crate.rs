//! The crate `memprof` that a revision's manifest names: the shim takes its place.
//!
//! Both would otherwise be linked, and the calls would go to the one that does nothing. Cargo still
//! compiles the crate, because manifests and lock files stay unchanged.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The name of an item in the crate, and so a text in its metadata. A crate of the same name that
/// lacks it has nothing to do with us. The shim has it, too, so that a copy of it is replaced.
const MARK: &[u8] = b"cargo_memprof_replaces_this_crate";

/// Replaces the crate in the arguments of a call of the compiler. A dependency may be renamed, so
/// the file decides.
pub fn replace(arguments: &mut [OsString], shim: &Path) {
    let mut is_extern = false;
    for argument in arguments {
        if std::mem::replace(&mut is_extern, argument == "--extern")
            && let Some((name, library)) = split(argument)
            && is_ours(Path::new(library))
        {
            let mut replaced = OsString::from(format!("{name}="));
            replaced.push(shim);
            *argument = replaced;
        }
    }
}

/// Splits `priv:name=path`.
fn split(argument: &OsStr) -> Option<(&str, &str)> {
    argument.to_str()?.split_once('=')
}

/// Whether a library is this crate, in any version.
fn is_ours(library: &Path) -> bool {
    let name = library.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_named = name.strip_prefix("libmemprof").is_some_and(|rest| rest.starts_with(['-', '.']));
    // Where the metadata is only in the other file, the library has none. If neither can be read,
    // the compiler says so.
    let has_mark =
        |path: &Path| std::fs::read(path).is_ok_and(|bytes| memchr::memmem::find(&bytes, MARK).is_some());
    is_named && (has_mark(library) || has_mark(&library.with_extension("rmeta")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_crate_is_replaced_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let ours = file("libmemprof-1.rmeta", &[b"rust", MARK, b"end"].concat());
        let theirs = file("libmemprof-2.rlib", b"rust");
        let split = file("libmemprof-3.rlib", b"no metadata");
        file("libmemprof-3.rmeta", MARK);
        // This program has the text, too.
        let program = file("libmemprof_shim-4.rlib", MARK);
        let line = format!(
            "--extern memprof={ours} --extern priv:renamed={ours} --extern memprof={theirs} --extern a={split} \
             --extern b={program} --extern serde -o memprof={ours} --extern gone=/libmemprof-5.rlib"
        );
        let mut arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        replace(&mut arguments, Path::new("/s/m.rlib"));
        let replaced = arguments.join(OsStr::new(" ")).into_string().unwrap();
        let expected = format!(
            "--extern memprof=/s/m.rlib --extern priv:renamed=/s/m.rlib --extern memprof={theirs} \
             --extern a=/s/m.rlib --extern b={program} --extern serde -o memprof={ours} \
             --extern gone=/libmemprof-5.rlib"
        );
        assert_eq!(replaced, expected);
    }
}
