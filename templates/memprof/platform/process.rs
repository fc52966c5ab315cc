//! This process: whether it records, and whether it is a forked child of the one that does.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Whether there is a log. Outside a run, a checkpoint costs one look at this.
static RECORDING: AtomicBool = AtomicBool::new(false);
/// The process that opened the recorder; 0 before that.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether this process writes a log.
#[inline]
pub(crate) fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

/// Notes that there is a log from now on, or none any more.
pub(crate) fn set_recording(recording: bool) {
    RECORDING.store(recording, Ordering::Release);
}

/// Whether this is the process that the recorder belongs to, not a forked child.
pub(crate) fn is_own_process() -> bool {
    let process = std::process::id();
    match PROCESS.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(opener) => opener == process,
    }
}
