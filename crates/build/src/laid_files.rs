//! The files that a request adds to revisions, or patches there.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use crate::builder::Builder;
use crate::inject::patch::Patch;
use memprof_support::counted::some;

/// A note names this many files.
const NAMED: usize = 3;

impl Builder<'_> {
    /// Whether the request adds the file at this path to a revision, or patches it.
    pub fn is_laid(&self, path: &Utf8Path) -> bool {
        let added = self.inputs.overlay.iter().chain(self.inputs.added_tests.values().flatten());
        // A destination may be relative to a package's folder.
        let mut destinations = added.map(|file| &file.destination);
        destinations.any(|one| path.ends_with(one)) || self.patched().any(|one| one == path)
    }

    /// Returns what reports say about the lines of patched files.
    pub fn note_on_patched_lines(&self) -> Option<String> {
        let sources = self.patched().filter(|path| path.extension() == Some("rs"));
        let paths: BTreeSet<&str> = sources.map(|path| path.as_str()).collect();
        let paths: Vec<&str> = paths.into_iter().collect();
        let lines = "lines of call sites are those of the patched file (--overlay-patch)";
        (!paths.is_empty()).then(|| format!("{}: {lines}", some(&paths, NAMED)))
    }

    fn patched(&self) -> impl Iterator<Item = &Utf8PathBuf> {
        self.inputs.patches.iter().flat_map(Patch::paths)
    }
}
