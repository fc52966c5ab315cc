//! The file of an integration test, in the repository.

use camino::{Utf8Path, Utf8PathBuf};

use memprof_build::git::repository::Repository;
use memprof_plan::request::MERGE_BASE;
use memprof_plan::resolved::Revision;

/// Returns the files in a package that cargo takes for the root of a test target.
pub(crate) fn roots(binary: &str) -> [Utf8PathBuf; 2] {
    [format!("tests/{binary}.rs").into(), format!("tests/{binary}/main.rs").into()]
}

/// Returns which of these files a revision has. A link has no content of its own.
pub(crate) fn root_of(
    repository: &Repository,
    revision: &Revision,
    folder: &Utf8Path,
    binary: &str,
) -> Option<Utf8PathBuf> {
    let is_file = |root: &Utf8PathBuf| {
        matches!(repository.show(&revision.commit, folder.join(root).as_str()), Ok(Some(_)))
    };
    roots(binary).into_iter().find(is_file)
}

/// Returns the folder of a root file's modules: `tests/NAME`, for `tests/NAME.rs` and for `tests/NAME/main.rs`.
pub(crate) fn folder_of(root: &Utf8Path) -> Utf8PathBuf {
    if root.file_name() == Some("main.rs") {
        root.parent().unwrap_or(root).to_owned()
    } else {
        root.with_extension("")
    }
}

/// Returns the flags that put a test of one revision into all: with its root and the folder of its modules, unless the
/// other revision has the same.
pub(crate) fn overlay_flags(
    repository: &Repository,
    [donor, other]: [&Revision; 2],
    root: &Utf8Path,
) -> anyhow::Result<Vec<String>> {
    let folder = folder_of(root);
    // The folder of a `main.rs` contains it.
    let files = if root.starts_with(&folder) { vec![folder.as_path()] } else { vec![root, &folder] };
    let mut flags = Vec::new();
    for path in files {
        let entry = repository.tree_entry(&donor.commit, path.as_str())?;
        if entry.is_some() && entry != repository.tree_entry(&other.commit, path.as_str())? {
            flags.push(format!("--overlay {}", overlay_source(repository, donor, path)));
        }
    }
    Ok(flags)
}

/// Returns how `--overlay` names a file of a revision.
pub(crate) fn overlay_source(repository: &Repository, revision: &Revision, path: &Utf8Path) -> String {
    // A path on the disk is relative to where the user is.
    let start = repository.start().strip_prefix(repository.root()).unwrap_or(Utf8Path::new(""));
    match path.strip_prefix(start) {
        Ok(relative) if revision.working_tree => relative.to_string(),
        Err(_) if revision.working_tree => repository.root().join(path).to_string(),
        // Git knows no file of `A...B`, nor the plan's own name for the merge base.
        _ if revision.spec == MERGE_BASE || revision.spec.contains("..") => {
            format!("{}:{path}", revision.commit)
        }
        _ => format!("{}:{path}", revision.spec),
    }
}
