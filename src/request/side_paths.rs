//! The files and folders that the settings of single refs name.

use camino::Utf8Path;

use crate::request::cargo_options;
use crate::request::surroundings::{Surroundings, normalized};
use memprof_plan::dependency_change::{DependencyChange, Replacement};
use memprof_plan::request::{RefRequest, Request};
use memprof_plan::side_lockfile::SideLockfile;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// Makes the paths in the settings of a ref of memprof.yaml absolute.
pub fn located_in_file(mut one: RefRequest, surroundings: Surroundings<'_>) -> Result<RefRequest, UserError> {
    let base = surroundings.matrix;
    one.with = std::mem::take(&mut one.with).into_iter().map(|change| located(change, base)).collect();
    if let Some(given) = &one.lockfile {
        one.lockfile = Some(lockfile(given.written(), base, surroundings));
    }
    let config = std::mem::take(&mut one.config).into_iter();
    one.config =
        config.map(|text| cargo_options::setting(text, base, surroundings)).collect::<Result<Vec<_>, _>>()?;
    Ok(one)
}

/// Makes the path of a change absolute.
pub fn located(change: DependencyChange, base: &Utf8Path) -> DependencyChange {
    match change.to {
        Replacement::Path(path) => {
            DependencyChange { to: Replacement::Path(normalized(&base.join(path)).into_string()), ..change }
        }
        Replacement::Version(_) | Replacement::Git { .. } => change,
    }
}

/// Returns the lock file that a text names: a file if there is one, else a ref.
pub fn lockfile(text: &str, base: &Utf8Path, surroundings: Surroundings<'_>) -> SideLockfile {
    let path = normalized(&base.join(text));
    if (surroundings.exists)(&path) {
        SideLockfile::File { path: path.into_string(), hash: String::new() }
    } else {
        SideLockfile::Ref { spec: text.to_owned(), commit: String::new() }
    }
}

/// Notes the hashes of the lock files on the disk, so that a run that continues finds the same.
pub fn note_hashes(request: &mut Request) -> anyhow::Result<()> {
    for one in &mut request.refs {
        if let Some(SideLockfile::File { path, hash }) = &mut one.lockfile {
            *hash = blake3::hash(&followed::read(&*path)?).to_hex().to_string();
        }
    }
    Ok(())
}
