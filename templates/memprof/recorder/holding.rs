//! The lock of the recorder, which ties the sources, the log and the measured intervals together.
//!
//! A *mark* reads all sources. Checkpoints, scopes and readings are made of marks. The lock gives
//! the log's lines, their sequence numbers and their times one order. No user code runs while it is
//! held: labels are formatted before.
//!
//! A child made by `fork` without `exec` has a copy of all this, of the log's descriptor, and maybe
//! of a lock that another thread held. Its process id tells it apart, and it does nothing here: it
//! logs nothing, in particular no second `done` and `end`, and its readings are empty. Its
//! allocator keeps working.

use crate::blocks::harness;
use crate::gpu::devices;
use crate::platform::lock::{Held, Lock};
use crate::platform::process::is_own_process;
use crate::platform::thread_number;
use crate::recorder::checkpoints;
use crate::recorder::marks::Recorder;
use crate::sources::pool_metrics;

static RECORDER: Lock<Recorder> = Lock::new(Recorder::new());

/// The recorder; `None` in a forked child.
pub(crate) fn hold() -> Option<Held<'static, Recorder>> {
    if is_own_process() { hold_here() } else { None }
}

/// For all but the beginning and end of the test's body.
fn hold_here() -> Option<Held<'static, Recorder>> {
    let mut held = hold_at_any_time();
    if let Some(recorder) = &mut held {
        recorder.begin_with_process("something was logged or read before the test's body");
    }
    held
}

/// Leaves out what a signal handler logs while the interrupted thread writes a line.
pub(crate) fn hold_at_any_time() -> Option<Held<'static, Recorder>> {
    harness::settle();
    let mut held = RECORDER.hold_as(thread_number::place());
    match &mut held {
        Some(recorder) => recorder.sources.pools.is_asked = false,
        None => checkpoints::warn_of_left_out(),
    }
    held
}

/// Like [`hold`], after work on devices has ended and pools have told their figures. Both come
/// before the lock, because they run the program's code.
pub(crate) fn settle_and_hold() -> Option<Held<'static, Recorder>> {
    settle_ask_and_hold(pool_metrics::trim_and_ask)
}

/// Like [`settle_and_hold`], but pools keep the memory that nobody uses.
pub(crate) fn settle_untrimmed_and_hold() -> Option<Held<'static, Recorder>> {
    settle_ask_and_hold(pool_metrics::ask)
}

fn settle_ask_and_hold(ask: fn() -> bool) -> Option<Held<'static, Recorder>> {
    if is_own_process() {
        devices::settle();
        let is_asked = ask();
        let mut recorder = hold_here()?;
        recorder.sources.pools.is_asked = is_asked;
        Some(recorder)
    } else {
        None
    }
}

/// Like [`settle_and_hold`], without the figures of pools.
pub(crate) fn settle_devices_and_hold() -> Option<Held<'static, Recorder>> {
    if is_own_process() {
        devices::settle();
        hold_here()
    } else {
        None
    }
}
