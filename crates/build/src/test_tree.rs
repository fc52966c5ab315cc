//! The folders in which tests find their files, set up for one revision at a time.

use camino::Utf8PathBuf;

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
