//! Ctrl-C and termination signals. The first one asks the tool to finish cleanly. A later one ends
//! it at once, whatever it waits for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::exit_code::ExitCode;
use crate::terminal_mode;

/// Signals within this time count as one. GNU `timeout` sends its signal to the process and then to
/// its group.
const SAME: Duration = Duration::from_millis(50);

const LAST_WORDS: &[u8] = b"error: interrupted twice, so the tool and what it started were killed\n  \
    help: finished runs are kept; to continue, run the same command again with `--resume`\n";

const OF_MEMORY_ASIDE: &[u8] =
    b"GPU memory of other processes is still set aside; to restore it: cargo memprof restore\n";

/// Whether processes are set aside, which wait until they are restored.
static IS_MEMORY_ASIDE: AtomicBool = AtomicBool::new(false);

/// Whether a second signal came.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Notes whether GPU memory of other processes is set aside, for the last words.
pub fn note_memory_aside(is_aside: bool) {
    IS_MEMORY_ASIDE.store(is_aside, Ordering::Relaxed);
}

/// Handles a signal, on a thread of its own.
pub fn handle(interrupt: &AtomicBool) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    interrupt.store(true, Ordering::Relaxed);
    if FIRST.get_or_init(Instant::now).elapsed() >= SAME {
        end_at_once();
    }
}

/// Does not return if a second signal is ending the process: its children are being killed, and the
/// main thread must not end the process before that.
pub fn leave_the_end_to_the_signal() {
    while IS_ENDING.load(Ordering::Relaxed) {
        std::thread::park();
    }
}

/// Kills everything that this process has started, and ends without unwinding: other threads may
/// wait forever.
#[expect(unsafe_code, reason = "the standard library's exit waits for locks and runs exit handlers")]
fn end_at_once() -> ! {
    IS_ENDING.store(true, Ordering::Relaxed);
    #[cfg(target_os = "linux")]
    {
        crate::process_tree::adopt_orphans();
        crate::process_tree::kill_all();
    }
    terminal_mode::restore_last();
    // SAFETY: the buffers have these lengths; `_exit` only ends the process.
    unsafe {
        libc::write(2, LAST_WORDS.as_ptr().cast(), LAST_WORDS.len());
        if IS_MEMORY_ASIDE.load(Ordering::Relaxed) {
            libc::write(2, OF_MEMORY_ASIDE.as_ptr().cast(), OF_MEMORY_ASIDE.len());
        }
        libc::_exit(ExitCode::Interrupted as i32)
    }
}
