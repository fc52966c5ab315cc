//! Brings a process back from any state between the driver's calls to running, and removes its note
//! once the driver confirms it.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::courtesy::driver::{CallError, CheckpointDriver, State};
use crate::courtesy::note::{Note, Notes};
use crate::support::user_error::UserError;

/// How long a call of a killed run may still be under way in the process, and how often to look.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(100);

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It has its memory again, and runs.
    Restored(Duration),
    /// It ran already.
    Ran,
    /// It has ended.
    Ended,
}

/// Restores a process, and removes its note.
pub fn put_back(driver: &CheckpointDriver, notes: &Notes, note: &Note) -> anyhow::Result<Returned> {
    let began = Instant::now();
    let mut ran = true;
    loop {
        if !note.is_of_living() {
            notes.remove(note)?;
            return Ok(Returned::Ended);
        }
        let done = match driver.state(note.process) {
            Ok(State::Running) => {
                let text = || format!("{note} runs again, but its note stays");
                notes.remove(note).with_context(text)?;
                return Ok(if ran { Returned::Ran } else { Returned::Restored(began.elapsed()) });
            }
            Ok(State::SetAside) => driver.restore(note.process),
            Ok(State::Locked) => driver.unlock(note.process),
            Ok(State::Failed | State::Unknown(_)) => return Err(failed(note).into()),
            Err(error) => Err(error),
        };
        ran = false;
        if let Err(error) = done {
            // Another `restore` may have made the same call first.
            let state = driver.state(note.process);
            if note.is_of_living() && state != Ok(State::Running) {
                if !error.is_of_moment() || began.elapsed() > PATIENCE {
                    return Err(stuck(note, &error, state.as_ref()).into());
                }
                std::thread::sleep(POLL);
            }
        }
    }
}

fn stuck(note: &Note, error: &CallError, state: Result<&State, &CallError>) -> UserError {
    let kept = match state {
        Ok(State::SetAside) => "; its data is safe in host memory",
        _ => "",
    };
    UserError::new(format!("{note} could not be restored{kept}: {error}")).help(format!(
        "free GPU memory (`nvidia-smi` shows who uses it), then: cargo memprof restore {}",
        note.process
    ))
}

fn failed(note: &Note) -> UserError {
    UserError::new(format!("{note} could not be restored: the driver failed with it"))
        .help(format!("it cannot go on; to end it: kill -9 {}", note.process))
}
