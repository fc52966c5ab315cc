//! A dependency from a folder or a git repository: the copy of the folder that cargo gets, and the
//! settings that put it in the place of the registry's.

use camino::{Utf8Path, Utf8PathBuf};

use crate::checkout::cache::Cache;
use crate::git::program::searching_git;
use memprof_plan::dependency_change::{DependencyChange, Replacement};
use memprof_support::process::shell_quoted;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The source of crates.io in lock files, as git and as sparse index.
const CRATES_IO: [&str; 2] =
    ["registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];

/// Returns the settings for cargo that put a folder or a git repository in the place of a package.
/// `source` is that of the lock file, and `rev` the commit or name of a git repository. Empty for a version.
pub(crate) fn settings(
    change: &DependencyChange,
    source: Option<&str>,
    rev: Option<&str>,
    cache: &Cache,
) -> anyhow::Result<Vec<String>> {
    let keys = match &change.to {
        Replacement::Version(_) => return Ok(Vec::new()),
        Replacement::Path(path) => {
            vec![("path", copied(&change.package, Utf8Path::new(path), cache)?.into_string())]
        }
        Replacement::Git { url, .. } => {
            let rev = rev.map(|rev| ("rev", rev.to_owned()));
            std::iter::once(("git", url.clone())).chain(rev).collect()
        }
    };
    let registry = patched_registry(source);
    let package = &change.package;
    let setting = |(key, value): (&str, String)| {
        format!("patch.{registry}.{package}.{key}={}", toml_edit::Value::from(value))
    };
    Ok(keys.into_iter().map(setting).collect())
}

/// Returns the key of `patch` for a source: `crates-io`, or its URL in quotes.
fn patched_registry(source: Option<&str>) -> String {
    let Some(source) = source.filter(|source| !CRATES_IO.contains(source)) else {
        return "crates-io".to_owned();
    };
    let url = match source.split_once('+') {
        // A git source ends with the query of its branch and with its commit.
        Some(("git", url)) => url.split(['?', '#']).next().unwrap_or(url),
        Some(("registry", url)) => url,
        _ => source,
    };
    format!("\"{url}\"")
}

/// Copies a package into the cache, with the repository or workspace around it, and returns the copy's
/// folder. Its path depends on the content, so cargo never takes another state for it.
pub(crate) fn copied(package: &str, folder: &Utf8Path, cache: &Cache) -> anyhow::Result<Utf8PathBuf> {
    let manifest = folder.join("Cargo.toml");
    if !manifest.is_file() {
        return Err(UserError::new(format!("{package}={folder}: there is no {manifest}"))
            .help("name the folder of the package, with its Cargo.toml")
            .into());
    }
    let folder = folder.canonicalize_utf8()?;
    let root = root_of(&folder)?;
    let files = files_below(&root, &folder)?;
    let hash = hash_of(&root, &files)?.to_hex();
    let all = cache.replacements();
    let copy = all.join(&hash[..32]);
    if !copy.exists() {
        fs_err::create_dir_all(&all)?;
        let partial = tempfile::tempdir_in(&all)?;
        for file in &files {
            let (from, to) = (root.join(file), partial.path().join(file));
            if let Some(above) = to.parent() {
                fs_err::create_dir_all(above)?;
            }
            if is_link_inside(&root, &from)? {
                fs_err::os::unix::fs::symlink(from.read_link_utf8()?, to)?;
            } else {
                followed::copy(from, to)?;
            }
        }
        let partial_root = memprof_support::paths::utf8(partial.path().to_owned())?;
        if hash_of(&partial_root, &files)?.to_hex() != hash {
            return Err(UserError::new(format!("{root} changed while it was copied"))
                .help("run the command again when nothing writes there")
                .into());
        }
        fs_err::rename(partial.keep(), &copy)?;
    }
    let inside = folder.strip_prefix(&root).unwrap_or(Utf8Path::new(""));
    Ok(if inside.as_str().is_empty() { copy } else { copy.join(inside) })
}

/// Whether a file is a link that leads to the same place in a copy of the folder. What other links lead to
/// is copied in their place.
fn is_link_inside(root: &Utf8Path, file: &Utf8Path) -> anyhow::Result<bool> {
    if !file.is_symlink() {
        return Ok(false);
    }
    let target = file.read_link_utf8()?;
    let inside = match file.canonicalize_utf8() {
        Ok(found) => found.starts_with(root) && !target.is_absolute(),
        // The link leads nowhere, and will lead nowhere in the copy.
        Err(_) => return Ok(true),
    };
    if !inside && file.is_dir() {
        return Err(UserError::new(format!(
            "{file} is a link to a folder outside of {root}, which is copied"
        ))
        .help(format!("put a copy in its place: cp -RL {file} COPY"))
        .into());
    }
    Ok(inside)
}

/// Returns a hash of these files. A link out of the folder counts as what it leads to, as it is copied.
fn hash_of(root: &Utf8Path, files: &[Utf8PathBuf]) -> anyhow::Result<blake3::Hash> {
    let mut all = blake3::Hasher::new();
    for file in files {
        let path = root.join(file);
        let target = if is_link_inside(root, &path)? { Some(path.read_link_utf8()?) } else { None };
        let mut content = blake3::Hasher::new();
        if path.is_file() {
            content.update_reader(followed::open_within(&path, followed::MOST_OF_BINARY)?)?;
        }
        // Of fixed length, or with its length in front: no two lists of files have one hash.
        for text in [file.as_str(), target.as_ref().map_or("", |target| target.as_str())] {
            all.update(&text.len().to_le_bytes()).update(text.as_bytes());
        }
        all.update(content.finalize().as_bytes());
    }
    Ok(all.finalize())
}

/// Returns the folder to copy: the git repository around a package, else its workspace.
fn root_of(folder: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    let git = searching_git(folder).args(["rev-parse", "--show-toplevel"]).capture()?;
    if git.status.success() {
        return Ok(Utf8PathBuf::from(git.text()).canonicalize_utf8()?);
    }
    let above = folder.ancestors().skip(1).find(|above| {
        let manifest = followed::text(above.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line.trim_start().starts_with("[workspace"))
    });
    Ok(above.unwrap_or(folder).to_owned())
}

/// Returns the files to copy, relative to the folder and sorted: those that git tracks or would track, also
/// in submodules, else all but `target` and `.git`.
///
/// # Errors
/// A submodule in the package's own folder is empty.
fn files_below(root: &Utf8Path, package: &Utf8Path) -> anyhow::Result<Vec<Utf8PathBuf>> {
    let mut files = match listed_by_git(root)? {
        Some(listed) => listed,
        None => found_below(root)?,
    };
    // A file may be deleted and still in the index. git lists a submodule as a folder.
    let folders: Vec<Utf8PathBuf> =
        files.extract_if(.., |path| !root.join(&*path).is_symlink() && root.join(path).is_dir()).collect();
    files.retain(|file| root.join(file).is_symlink() || root.join(file).is_file());
    for folder in folders {
        let submodule = root.join(&folder);
        let inside = if submodule.join(".git").exists() {
            files_below(&submodule, package)?
        } else {
            let found = found_below(&submodule)?;
            // The build may do without a submodule elsewhere, such as test data.
            if found.is_empty() && submodule.starts_with(package) {
                return Err(UserError::new(format!("the submodule {submodule} is empty"))
                    .help(format!(
                        "to fetch it: git -C {} submodule update --init {}",
                        shell_quoted(root.as_ref()),
                        shell_quoted(folder.as_ref())
                    ))
                    .into());
            }
            found
        };
        files.extend(inside.iter().map(|file| folder.join(file)));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Returns the paths that git tracks or would track, with folders for submodules; `None` if this is no
/// repository.
fn listed_by_git(root: &Utf8Path) -> anyhow::Result<Option<Vec<Utf8PathBuf>>> {
    let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let git = searching_git(root).args(listed).capture()?;
    if !git.status.success() {
        return Ok(None);
    }
    let listed = String::from_utf8_lossy(&git.stdout).into_owned();
    // If a submodule's repository is broken, git finds the one around it and lists the folder itself.
    let paths = listed.split('\0').filter(|path| !["", "./"].contains(path));
    Ok(Some(paths.map(Utf8PathBuf::from).collect()))
}

/// Returns all files but those in `target` and `.git`.
fn found_below(root: &Utf8Path) -> anyhow::Result<Vec<Utf8PathBuf>> {
    let is_meant = |entry: &walkdir::DirEntry| {
        entry.depth() == 0 || ![".git", "target"].iter().any(|name| entry.file_name() == *name)
    };
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(root).into_iter().filter_entry(is_meant) {
        let entry = entry?;
        if !entry.file_type().is_dir() {
            let path = memprof_support::paths::utf8(entry.into_path())?;
            found.push(path.strip_prefix(root)?.to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::repository::Repository;
    use memprof_support::process::Command;

    #[test]
    fn a_patch_is_for_the_source_of_the_lock_file() {
        for (source, key) in [
            (None, "crates-io"),
            (Some("registry+https://github.com/rust-lang/crates.io-index"), "crates-io"),
            (Some("git+https://example.org/x?branch=main#abc"), "\"https://example.org/x\""),
            (Some("registry+https://example.org/index"), "\"https://example.org/index\""),
            (Some("sparse+https://example.org/index/"), "\"sparse+https://example.org/index/\""),
        ] {
            assert_eq!(patched_registry(source), key);
        }
    }

    #[test]
    fn the_hash_has_the_content_behind_a_link() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let files = ["file", "link"].map(Utf8PathBuf::from);
        let outside = root.join("outside");
        fs_err::write(&outside, "one").unwrap();
        fs_err::write(root.join("file"), "text").unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        let hash = || hash_of(root, &files).unwrap();
        let first = hash();
        assert_eq!(hash(), first);
        fs_err::write(&outside, "two").unwrap();
        assert_ne!(hash(), first, "what the link leads to");
        fs_err::write(&outside, "one").unwrap();
        assert_eq!(hash(), first);
        fs_err::remove_file(root.join("link")).unwrap();
        fs_err::write(root.join("link"), "one").unwrap();
        assert_eq!(hash(), first, "a link out of the folder is copied as a file");
    }

    #[test]
    fn links_out_of_a_folder_are_copied_as_files_and_folders_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap().canonicalize_utf8().unwrap();
        let package = root.join("package");
        fs_err::create_dir_all(package.join("src")).unwrap();
        fs_err::write(root.join("outside.rs"), "").unwrap();
        let link = |target: &str| {
            let path = package.join("src/link");
            let _ = fs_err::remove_file(&path);
            std::os::unix::fs::symlink(target, &path).unwrap();
            is_link_inside(&package, &path)
        };
        assert!(link("lib.rs").unwrap(), "it leads nowhere");
        fs_err::write(package.join("src/lib.rs"), "").unwrap();
        assert!(link("lib.rs").unwrap() && link("../src").unwrap());
        assert!(!link("../../outside.rs").unwrap());
        assert!(!link(package.join("src/lib.rs").as_str()).unwrap(), "the copy would read the original");
        let error = link("../..").unwrap_err().to_string();
        assert!(error.contains("src/link is a link to a folder outside of"), "{error}");
    }

    #[test]
    fn a_workspace_is_copied_without_what_cargo_built() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap().canonicalize_utf8().unwrap();
        let write = |path: &str, text: &str| {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
        };
        write("all/Cargo.toml", "[workspace]\nmembers = ['one']\n");
        write("all/one/Cargo.toml", "[package]\nname = 'one'\n");
        write("all/one/src/lib.rs", "");
        write("all/target/debug/x", "");
        let one = root.join("all/one");
        assert_eq!(root_of(&one).unwrap(), root.join("all"));
        assert_eq!(
            files_below(&root.join("all"), &one).unwrap(),
            ["Cargo.toml", "one/Cargo.toml", "one/src/lib.rs"]
        );
    }

    #[test]
    fn git_is_not_asked_about_the_repository_of_a_hook() {
        let scratch = tempfile::tempdir().unwrap();
        let hook = Utf8Path::from_path(scratch.path()).unwrap();
        Command::new("git").args(["init", "--quiet"]).current_dir(hook).run().unwrap();
        let test = "patched_source::tests::a_workspace_is_copied_without_what_cargo_built";
        let again = Command::new(std::env::current_exe().unwrap()).args(["--exact", test]);
        let printed =
            again.env("GIT_DIR", hook.join(".git")).env("GIT_WORK_TREE", hook).run().unwrap().text();
        assert!(printed.contains("1 passed"), "{printed}");
    }

    #[test]
    fn the_files_of_submodules_are_copied_and_an_empty_one_of_the_package_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap().canonicalize_utf8().unwrap();
        let all = root.join("all");
        let git = |folder: &Utf8Path, arguments: &[&str]| {
            let person = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
            Command::new("git").args(person).args(arguments).current_dir(folder).run().unwrap().text()
        };
        let write = |path: &str, text: &str| {
            fs_err::create_dir_all(all.join(path).parent().unwrap()).unwrap();
            fs_err::write(all.join(path), text).unwrap();
        };
        write("sys/Cargo.toml", "[package]\nname = 'sys'\n");
        write("sys/c/lib.c", "int one;");
        write("sys/c/.gitignore", "*.o");
        write("sys/c/lib.o", "");
        git(&all, &["init", "--quiet"]);
        let c = all.join("sys/c");
        git(&c, &["init", "--quiet"]);
        git(&c, &["add", "."]);
        git(&c, &["commit", "--quiet", "--message", "one"]);
        let commit = git(&c, &["rev-parse", "HEAD"]);
        git(&all, &["add", "."]);
        let link = |path: &str| {
            fs_err::create_dir_all(all.join(path)).unwrap();
            git(&all, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
        };
        link("data");
        let cache = Cache::open(&root.join("home"), &Repository::discover(&all).unwrap()).unwrap();
        let copy = || copied("sys", &all.join("sys"), &cache);
        let first = copy().unwrap();
        assert_eq!(fs_err::read_to_string(first.join("c/lib.c")).unwrap(), "int one;");
        assert!(!first.join("c/lib.o").exists(), "the submodule ignores it");
        write("sys/c/lib.c", "int two;");
        let second = copy().unwrap();
        assert_ne!(second, first);
        assert_eq!(fs_err::read_to_string(second.join("c/lib.c")).unwrap(), "int two;");
        fs_err::remove_dir_all(c.join(".git")).unwrap();
        assert!(copy().unwrap().join("c/lib.c").exists(), "its files are there without git");
        link("sys/d");
        let error = copy().unwrap_err();
        assert!(error.to_string().ends_with("all/sys/d is empty"), "{error}");
        let help = error.downcast::<UserError>().unwrap().help.unwrap();
        assert!(help.ends_with("all submodule update --init sys/d"), "{help}");
    }
}
