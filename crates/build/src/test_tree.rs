//! The folders in which tests find their files, set up for one revision at a time.

use camino::Utf8PathBuf;

use crate::builder::Builder;
use crate::store::Entry;

/// The files around a test executable: the checkout on the build host, or an archive's extracted
/// files. Also the libraries that the loader and the CUDA driver load into it.
pub trait TestTree {
    /// Brings the folders to the state that a revision's tests expect. This is cheap if nothing
    /// changed.
    fn bring_to(&mut self, revision: usize, entry: &Entry) -> anyhow::Result<()>;

    /// Whether the folders are still in that state. Unless nothing runs (`is_idle`), this changes no
    /// file that a test reads. It then says no if only a change could tell.
    fn holds(&mut self, revision: usize, entry: &Entry, is_idle: bool) -> anyhow::Result<bool>;

    /// Returns the library that the CUDA driver loads into test processes, or why it is missing.
    fn injection_library(&mut self) -> Result<Utf8PathBuf, String>;

    /// Returns the library that counts the C library's allocator, or why it is missing.
    fn malloc_library(&mut self) -> Result<Utf8PathBuf, String>;
}

impl TestTree for Builder<'_> {
    /// Restores the checkout to the state of the build, and its companions to the paths where tests
    /// look for them.
    fn bring_to(&mut self, index: usize, entry: &Entry) -> anyhow::Result<()> {
        self.tree.restore(&self.inputs, index, entry)?;
        entry.place_companions(&self.inputs.placed)
    }

    fn holds(&mut self, index: usize, entry: &Entry, is_idle: bool) -> anyhow::Result<bool> {
        self.tree.is_restored(&self.inputs, index, entry, is_idle)
    }

    fn injection_library(&mut self) -> Result<Utf8PathBuf, String> {
        let (shim, toolchain) = self.shim_of_baseline().map_err(|error| format!("{error:#}"))?;
        shim.injection(&toolchain, self.inputs.plan.request.build.settings.target.as_deref())
    }

    fn malloc_library(&mut self) -> Result<Utf8PathBuf, String> {
        let (shim, toolchain) = self.shim_of_baseline().map_err(|error| format!("{error:#}"))?;
        shim.malloc(&toolchain, self.inputs.plan.request.build.settings.target.as_deref())
    }
}
