//! Whether tests may start binaries or examples that cargo does not build for the tests alone.
//!
//! Cargo builds the binaries of packages with integration tests anyway. The others may take long, and
//! are built only if a text of the revision says that a test starts a program.

use crate::job::Job;
use memprof_plan::request::OverlayMode;

/// What a test's text has that finds a program in the target folder, or asks cargo for it.
const SIGNS: [&str; 8] = [
    "\"examples\"",
    "\"examples/",
    "/examples/{",
    "\"--example",
    "current_exe",
    "cargo_bin(",
    "target/debug",
    "escargot",
];

/// Whether a test may start a program that cargo does not build for the tests alone.
pub(crate) fn are_started(job: &Job<'_>) -> bool {
    if !job.wants_tests() || !job.inputs.overlay_of(OverlayMode::External).is_empty() {
        return false;
    }
    let has_sign = |content: &[u8]| {
        let text = String::from_utf8_lossy(content);
        SIGNS.iter().any(|sign| text.contains(sign))
    };
    let mut added = job.overlay().into_iter();
    let sources = [":(top)*.rs", ":(top,exclude,glob)**/examples/**"];
    // In doubt they are built: a partial clone may lack files.
    let has_source = job.inputs.repository.has_text(&job.revision().commit, &SIGNS, &sources);
    added.any(|file| has_sign(&file.content)) || has_source.unwrap_or(true)
}
