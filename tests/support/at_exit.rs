//! Removes what several tests share when the process ends: a static is never dropped.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the folder when this process ends, also after a failed test.
#[expect(unsafe_code, reason = "the standard library has no such call")]
pub fn remove_at_exit(folder: PathBuf) {
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if folders.is_empty() {
        // SAFETY: the function takes nothing and cannot unwind.
        assert_eq!(unsafe { libc::atexit(remove_all) }, 0, "the call can be registered");
    }
    folders.push(folder);
}

extern "C" fn remove_all() {
    for folder in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // There is no test left that could fail.
        let _ = std::fs::remove_dir_all(folder);
    }
}
