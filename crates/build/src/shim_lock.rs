//! The lock of a shim that is being compiled. The compiler wrapper waits for it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use memprof_support::regular_file::followed;

/// Returns the file that is locked while a shim is compiled.
pub(crate) fn lock_of(folder: &Path) -> PathBuf {
    folder.with_extension("lock")
}

/// Waits until a shim is compiled, if another process is compiling it.
///
/// # Errors
/// It was not compiled. That process reports why.
pub(crate) fn wait_for(folder: &Path) -> anyhow::Result<()> {
    if !folder.exists() {
        let lock = followed::open(lock_of(folder))?;
        lock.lock_shared().context("cannot wait for the shim")?;
    }
    anyhow::ensure!(folder.exists(), "the shim was not compiled");
    Ok(())
}
