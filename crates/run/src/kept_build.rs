//! The build of a baseline that was measured earlier.

use camino::Utf8Path;

use memprof_build::attempts::Build;
use memprof_build::provenance::Provenance;
use memprof_build::store::{self, Stored};
use memprof_plan::resolved::Plan;

/// A baseline that was measured earlier. It is the last revision of its plan.
pub struct KeptBuild<'a> {
    /// The plan with the baseline.
    pub plan: &'a Plan,
    pub provenance: Provenance,
}

impl KeptBuild<'_> {
    /// Returns the build, if the store still has it.
    pub(crate) fn stored(&self, store: &Utf8Path) -> Option<Build> {
        match store::find(store, &self.provenance.key) {
            // A build of the same key may have been made from other files outside of the repository.
            Stored::Complete(entry) if entry.provenance.outside == self.provenance.outside => {
                Some(Build::Done(entry))
            }
            Stored::Complete(_) | Stored::Absent | Stored::Damaged(_) => None,
        }
    }
}
