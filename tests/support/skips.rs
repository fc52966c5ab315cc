//! Parts of tests that were left out because something is not installed. `summary`, a test of `crates/support`, shows them at the end.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of notes, one file per run of cargo.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("skips")
}

/// The file of this run: cargo is the parent of all test executables, so its process id tells runs apart.
pub fn file() -> PathBuf {
    folder().join(std::os::unix::process::parent_id().to_string())
}

/// Notes that the test of this thread leaves something out, and why: `git-lfs is not installed`.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("a test"));
    std::fs::create_dir_all(folder()).expect("the folder can be made");
    let file = OpenOptions::new().create(true).append(true).open(file());
    // One write per line: other tests append at the same time.
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the note can be written");
}
