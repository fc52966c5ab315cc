//! The crate `memprof` that a revision's manifest names: the shim takes its place.
//!
//! Both would otherwise be linked, and the calls would go to the one that does nothing. Cargo still
//! compiles the crate, because lock files stay unchanged, and manifests except for a path that leads out of the
//! repository.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use camino::Utf8Path;
use toml_edit::{DocumentMut, Table};

use crate::checkout::injected_files::InjectedFiles;
use crate::git::workspace_folder;
use crate::inject::checkout_edits::AddedFiles;
use crate::inject::outside_paths;
use memprof_plan::lock_differences::tables;
use memprof_support::paths::without_dots;
use memprof_support::regular_file::followed;

/// The name of an item in the crate, and so a text in its metadata. A crate of the same name that
/// lacks it has nothing to do with us. The shim has it, too, so that a copy of it is replaced.
const MARK: &[u8] = b"cargo_memprof_replaces_this_crate";

/// Replaces the crate in the arguments of a call of the compiler. Returns whether it was there. A
/// dependency may be renamed, so the file decides.
pub(crate) fn replace(arguments: &mut [OsString], shim: &Path) -> bool {
    let mut is_there = false;
    let mut is_extern = false;
    for argument in arguments {
        if std::mem::replace(&mut is_extern, argument == "--extern")
            && let Some((name, library)) = split(argument)
            && is_ours(Path::new(library))
        {
            let mut replaced = OsString::from(format!("{name}="));
            replaced.push(shim);
            *argument = replaced;
            is_there = true;
        }
    }
    is_there
}

/// Whether crates depend on it for which cargo does not call the workspace's wrapper.
///
/// `lock` and `manifest` are those of the workspace. The lock file does not say which packages are
/// members. With a `[workspace]`, those from a path count as members, otherwise only the root
/// package does. In an external overlay, none is a member.
pub(crate) fn is_used_outside(lock: &str, manifest: &str, is_external: bool) -> bool {
    if !lock.contains("\"memprof") {
        return false;
    }
    let Ok(manifest) = manifest.parse::<DocumentMut>() else { return false };
    let root = workspace_folder::package_name(&manifest);
    let is_member = |package: &Table| {
        let name = package.get("name").and_then(|name| name.as_str());
        !is_external
            && !package.contains_key("source")
            && (manifest.contains_key("workspace") || name == root.as_deref())
    };
    tables(lock.as_bytes()).iter().filter(|package| !is_member(package)).any(|package| {
        let dependencies = package.get("dependencies").and_then(|dependencies| dependencies.as_array());
        let names = dependencies.into_iter().flatten().filter_map(|dependency| dependency.as_str());
        // With several versions in the lock file, the version follows the name.
        names
            .map(|name| name.split(' ').next().unwrap_or_default())
            .collect::<BTreeSet<_>>()
            .contains("memprof")
    })
}

/// Lets path dependencies on the crate that lead out of the repository at `root` find it from the checkout, too.
/// Returns what was written.
pub(crate) fn place(
    root: &Utf8Path,
    checkout: &Utf8Path,
    injected: &mut InjectedFiles,
) -> anyhow::Result<AddedFiles> {
    outside_paths::replace_all(&["memprof"], checkout, injected, &mut |_, path| {
        let folder = without_dots(&root.join(path));
        let source = followed::read(folder.join("src/lib.rs")).ok()?;
        (folder != path && memchr::memmem::find(&source, MARK).is_some()).then_some(folder)
    })
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
    let has_mark = |path: &Path| {
        followed::read_within(path, followed::MOST_OF_BINARY)
            .is_ok_and(|bytes| memchr::memmem::find(&bytes, MARK).is_some())
    };
    is_named && (has_mark(library) || has_mark(&library.with_extension("rmeta")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_outside_the_workspace_are_found_in_the_lock_file() {
        let lock = |user: &str| {
            format!(
                "version = 4\n[[package]]\nname = \"memprof\"\nversion = \"0.1.0\"\n{user}\
                 dependencies = [\"libc\", \"memprof 0.1.0\"]\n"
            )
        };
        let of_path = lock("[[package]]\nname = \"user\"\nversion = \"1.0.0\"\n");
        let of_registry =
            lock("[[package]]\nname = \"user\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n");
        let root = "[package]\nname = \"user\"\n";
        let other_root = "[package]\nname = \"other\"\n";
        let workspace = "[workspace]\nmembers = [\"user\"]\n";
        for (lock, manifest, is_external, expected) in [
            (&of_path, root, false, false),
            (&of_path, workspace, false, false),
            (&of_path, other_root, false, true),
            (&of_path, root, true, true),
            (&of_registry, root, false, true),
            (&of_registry, workspace, false, true),
            (&of_registry.replace("memprof 0", "other 0"), root, false, false),
            (&String::new(), root, true, false),
        ] {
            assert_eq!(is_used_outside(lock, manifest, is_external), expected, "{manifest} {lock}");
        }
    }

    #[test]
    fn our_crate_beside_the_repository_is_found_from_the_checkout() {
        let scratch = tempfile::tempdir().unwrap();
        let all = Utf8Path::from_path(scratch.path()).unwrap();
        let (root, checkout) = (all.join("user/app"), all.join("cache/app/worktree"));
        let write = |path: &str, text: &str| {
            fs_err::create_dir_all(all.join(path).parent().unwrap()).unwrap();
            fs_err::write(all.join(path), text).unwrap();
        };
        write("user/clone/src/lib.rs", "pub mod cargo_memprof_replaces_this_crate {}");
        write("user/theirs/src/lib.rs", "");
        let manifest = |path: &str| {
            format!("[dev-dependencies]\nmemory = {{ package = \"memprof\", path = \"{path}\" }}\n")
        };
        let placed = |path: &str| {
            write("cache/app/worktree/one/Cargo.toml", &manifest(path));
            let mut injected = InjectedFiles::load(&all.join("record")).unwrap();
            let added = place(&root, &checkout, &mut injected).unwrap();
            added.into_values().next().map(|text| String::from_utf8(text).unwrap())
        };
        let clone = all.join("user/clone");
        assert_eq!(placed("../../clone"), Some(manifest(clone.as_str())));
        for path in ["../../theirs", "../../gone", "../clone", clone.as_str()] {
            assert_eq!(placed(path), None, "{path}");
        }
    }

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
        assert!(replace(&mut arguments, Path::new("/s/m.rlib")));
        assert!(!replace(&mut arguments, Path::new("/s/m.rlib")), "it is gone");
        let replaced = arguments.join(OsStr::new(" ")).into_string().unwrap();
        let expected = format!(
            "--extern memprof=/s/m.rlib --extern priv:renamed=/s/m.rlib --extern memprof={theirs} \
             --extern a=/s/m.rlib --extern b={program} --extern serde -o memprof={ours} \
             --extern gone=/libmemprof-5.rlib"
        );
        assert_eq!(replaced, expected);
    }
}
