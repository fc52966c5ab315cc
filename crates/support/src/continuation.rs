//! The command that continues what this process does, for advice after an interrupt or an error.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static COMMAND: OnceLock<String> = OnceLock::new();

/// Whether there is a run to continue.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Sets the command: `cargo memprof bisect --resume`. It counts once [`begin`] was called.
pub fn offer(command: String) {
    // Only the first one counts. There is one command line.
    let _ = COMMAND.set(command);
}

/// Notes that the run has a folder, which `--resume` finds.
pub fn begin() {
    HAS_BEGUN.store(true, Ordering::Relaxed);
}

/// Returns the command; `None` if there is nothing to continue.
pub fn command() -> Option<&'static str> {
    COMMAND.get().map(String::as_str).filter(|_| HAS_BEGUN.load(Ordering::Relaxed))
}

/// Returns what to do for a purpose such as `to continue`.
pub fn advice(purpose: &str) -> String {
    match command() {
        Some(command) => format!("{purpose}: {command}"),
        None => format!("{purpose}, run the same command again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The command belongs to the process, so one test sees all of its states.
    #[test]
    fn a_command_is_advised_once_there_is_a_run() {
        let again = "to continue, run the same command again";
        assert_eq!(advice("to continue"), again);
        offer("cargo memprof bisect --resume".to_owned());
        assert_eq!(advice("to continue"), again);
        begin();
        assert_eq!(advice("to continue"), "to continue: cargo memprof bisect --resume");
    }
}
