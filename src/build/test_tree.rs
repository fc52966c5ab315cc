//! The folders that tests find their files in, set up for one revision at a time.

use crate::build::store::Entry;

/// What a test sees around its executable: the checkout on the machine that builds, or its copy on one that only runs.
pub trait TestTree {
    /// Brings the folders to the state that the tests of a revision expect. Cheap if they are in it already.
    fn bring_to(&mut self, revision: usize, entry: &Entry) -> anyhow::Result<()>;
}
