//! Ctrl-C and termination signals. The first one asks the tool to finish cleanly. A later one ends
//! it at once, whatever it waits for. So does a panic, which is a bug.

use std::io::Write as _;
use std::mem::MaybeUninit;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::continuation;
use crate::exit_code::ExitCode;
use crate::terminal_mode;

/// Signals within this time count as one. GNU `timeout` sends its signal to the process and then to
/// its group.
const SAME: Duration = Duration::from_millis(50);

const LAST_WORDS: &[u8] = b"error: interrupted twice, so the tool and what it started were killed\n  \
    help: finished runs are kept; to continue: ";

const OF_MEMORY_ASIDE: &[u8] =
    b"GPU memory of other processes is still set aside; to restore it: cargo memprof restore\n";

/// The exit code of a panic, as the standard library has it.
const OF_PANIC: i32 = 101;

/// Whether processes are set aside, which wait until they are restored.
static IS_MEMORY_ASIDE: AtomicBool = AtomicBool::new(false);

/// Whether a second signal came.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Notes whether GPU memory of other processes is set aside, for the last words.
pub fn note_memory_aside(is_aside: bool) {
    IS_MEMORY_ASIDE.store(is_aside, Ordering::Relaxed);
}

/// Installs handlers, but goes on ignoring the signals that this process was started to ignore: `nohup` ignores SIGHUP,
/// and a script's `&` ignores SIGINT.
#[expect(unsafe_code, reason = "the standard library knows no signals")]
pub fn but_ignored<T>(install: impl FnOnce() -> T) -> T {
    let is_ignored = |signal: &libc::c_int| {
        let mut found = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: without a new action, this only fills `found`, and zeros are valid in it.
        unsafe {
            libc::sigaction(*signal, std::ptr::null(), found.as_mut_ptr()) == 0
                && found.assume_init().sa_sigaction == libc::SIG_IGN
        }
    };
    let ignored: Vec<_> = [libc::SIGHUP, libc::SIGINT].into_iter().filter(is_ignored).collect();
    let installed = install();
    for signal in ignored {
        // SAFETY: it takes no pointers.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    installed
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
    kill_and_restore();
    let command = continuation::command().unwrap_or("run the same command again");
    // SAFETY: the buffers have these lengths; `_exit` only ends the process.
    unsafe {
        for words in [LAST_WORDS, command.as_bytes(), b"\n"] {
            libc::write(2, words.as_ptr().cast(), words.len());
        }
        if IS_MEMORY_ASIDE.load(Ordering::Relaxed) {
            libc::write(2, OF_MEMORY_ASIDE.as_ptr().cast(), OF_MEMORY_ASIDE.len());
        }
        libc::_exit(ExitCode::Interrupted as i32)
    }
}

/// Ends the process at the first panic of any thread, after its message. What was taken from others is given
/// back, as when a panic unwinds.
#[expect(unsafe_code, reason = "the standard library's exit waits for locks and runs exit handlers")]
pub fn end_at_panics() {
    let message = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        message(panic);
        IS_ENDING.store(true, Ordering::Relaxed);
        kill_and_restore();
        if IS_MEMORY_ASIDE.load(Ordering::Relaxed) {
            restore_memory();
        }
        // SAFETY: it only ends the process.
        unsafe { libc::_exit(OF_PANIC) }
    }));
}

/// Runs `cargo memprof restore`, which needs nothing of this process.
fn restore_memory() {
    let program = std::env::current_exe();
    let ended = program.and_then(|program| Command::new(program).args(["memprof", "restore"]).status());
    if !ended.is_ok_and(|status| status.success()) {
        // Nobody is left to hear of an error of the terminal.
        let _ = std::io::stderr().write_all(OF_MEMORY_ASIDE);
    }
}

/// Kills everything that this process has started, and gives the terminal its mode back.
fn kill_and_restore() {
    #[cfg(target_os = "linux")]
    {
        crate::process_tree::adopt_orphans();
        crate::process_tree::kill_all();
    }
    terminal_mode::restore_last();
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: &str = "MEMPROF_TEST_OF_A_PANIC";

    /// In the process that panics, this is the test itself.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_panic_of_any_thread_ends_the_process_and_what_it_started() {
        if let Some(file) = std::env::var_os(ROLE) {
            end_at_panics();
            let mut child = Command::new("sleep").arg("600").spawn().unwrap();
            std::fs::write(file, child.id().to_string()).unwrap();
            let _ = std::thread::spawn(|| panic!("a bug")).join();
            let ended = child.wait();
            unreachable!("the thread's panic has ended the process: {ended:?}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = "termination::tests::a_panic_of_any_thread_ends_the_process_and_what_it_started";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let ended = again.args(["--exact", name, "--nocapture"]).env(ROLE, file.path()).output().unwrap();
        assert_eq!(ended.status.code(), Some(OF_PANIC), "{ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("a bug"), "{ended:?}");
        let child = std::fs::read_to_string(file.path()).unwrap();
        // Nobody may have reaped it yet.
        let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "the child was killed: {state}");
    }
}
