//! The mode of the terminal. A test that finds the terminal's device may set it to raw mode and end
//! without setting it back.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::sync::Mutex;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The mode before the current runs, for [`restore_last`].
static LAST: Mutex<LastMode> = Mutex::new(LastMode { runs: 0, saved: None });

/// The mode before the first of the runs that are under way.
struct LastMode {
    /// How many are under way.
    runs: usize,
    saved: Option<SavedMode>,
}

/// A terminal and the mode that it had.
struct SavedMode {
    terminal: File,
    mode: Termios,
}

/// Puts the mode of the controlling terminal back when it is dropped.
pub struct KeptMode(());

/// Notes the mode of the controlling terminal, if there is one.
pub fn keep() -> KeptMode {
    if let Ok(mut last) = LAST.lock() {
        if last.runs == 0 {
            let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok();
            last.saved = terminal.and_then(SavedMode::read);
        }
        last.runs += 1;
    }
    KeptMode(())
}

impl Drop for KeptMode {
    fn drop(&mut self) {
        restore_last();
        if let Ok(mut last) = LAST.lock() {
            last.runs = last.runs.saturating_sub(1);
            if last.runs == 0 {
                last.saved = None;
            }
        }
    }
}

/// Puts the mode back, if a run is under way. Does not wait.
pub(crate) fn restore_last() {
    let Ok(last) = LAST.try_lock() else { return };
    let Some(saved) = &last.saved else { return };
    // Setting the mode from the background would stop this process.
    if tcgetpgrp(&saved.terminal).is_ok_and(|group| group == rustix::process::getpgrp()) {
        saved.restore();
    }
}

impl SavedMode {
    fn read(terminal: File) -> Option<Self> {
        let mode = tcgetattr(terminal.as_fd()).ok()?;
        Some(Self { terminal, mode })
    }

    fn restore(&self) {
        let flags =
            |mode: &Termios| (mode.input_modes, mode.output_modes, mode.control_modes, mode.local_modes);
        if tcgetattr(&self.terminal).is_ok_and(|now| flags(&now) != flags(&self.mode)) {
            // If the terminal is gone, so is its mode.
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.mode);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use rustix::termios::LocalModes;

    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "no safe function opens a pseudo-terminal")]
    fn a_terminal_in_raw_mode_gets_its_mode_back() {
        let (mut master, mut slave) = (0, 0);
        let null = std::ptr::null_mut();
        // SAFETY: the call writes two descriptors; null means the defaults.
        let opened =
            unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), null.cast()) };
        assert_eq!(opened, 0);
        // SAFETY: both descriptors were just opened, and nothing else has them.
        let (_master, terminal) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
        let local = |terminal: &File| tcgetattr(terminal).unwrap().local_modes;
        let usual = local(&terminal);
        assert!(usual.contains(LocalModes::ECHO | LocalModes::ICANON));
        let saved = SavedMode::read(terminal.try_clone().unwrap()).unwrap();
        let mut raw = tcgetattr(&terminal).unwrap();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw).unwrap();
        assert_ne!(local(&terminal), usual);
        saved.restore();
        assert_eq!(local(&terminal), usual);
    }
}
