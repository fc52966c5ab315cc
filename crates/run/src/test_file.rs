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
