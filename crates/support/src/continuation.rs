//! The command that continues what this process does, for advice after an interrupt or an error.

use std::sync::OnceLock;

/// The command without its run, unless the user has typed one.
static OFFERED: OnceLock<Offer> = OnceLock::new();

/// The whole command, once there is a run to continue.
static COMMAND: OnceLock<String> = OnceLock::new();

/// A command that continues a run: `cargo memprof bisect --resume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The command.
    pub command: String,
    /// Whether it says which run. Otherwise the run's id comes last.
    pub names_run: bool,
}

/// Sets the command. It counts once [`begin`] was called.
pub fn offer(offer: Offer) {
    // Only the first one counts. There is one command line.
    let _ = OFFERED.set(offer);
}

/// Notes that the run has a folder, which `--resume` finds by this id. The newest run may be of another terminal.
pub fn begin(id: &str) {
    let Some(Offer { command, names_run }) = OFFERED.get() else { return };
    // Only the first one counts: a proof belongs to the run that it explains.
    let _ = COMMAND.set(if *names_run { command.clone() } else { format!("{command} {id}") });
}

/// Returns the command; `None` if there is nothing to continue.
pub fn command() -> Option<&'static str> {
    COMMAND.get().map(String::as_str)
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
    fn a_command_is_advised_with_its_run_once_there_is_one() {
        let again = "to continue, run the same command again";
        assert_eq!(advice("to continue"), again);
        offer(Offer { command: "cargo memprof bisect --resume".to_owned(), names_run: false });
        assert_eq!(advice("to continue"), again);
        begin("20261130T101500.000Z-1a2b3c4");
        begin("later");
        let command = "to continue: cargo memprof bisect --resume 20261130T101500.000Z-1a2b3c4";
        assert_eq!(advice("to continue"), command);
    }
}
