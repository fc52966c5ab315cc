//! Brings a process back from any state between the driver's calls to running, and removes its note
//! once the driver confirms it. The driver's restore is called only if the devices have room.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::courtesy::driver::{CallError, CheckpointDriver, OUT_OF_MEMORY, State};
use crate::courtesy::note::{Note, Notes};
use crate::courtesy::room::Lack;
use memprof_support::event::{Event, Sink};
use memprof_support::user_error::UserError;

/// How long a call of a killed run may still be under way in the process, and how often to look.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(100);

/// How long memory of tests that were just killed may still be in use on a device.
const ROOM_PATIENCE: Duration = Duration::from_mins(1);

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Has its memory again, and runs.
    Restored(Duration),
    /// Ran already.
    Ran,
    /// Has ended.
    Ended,
}

/// What to do if a device has no room.
#[derive(Clone, Copy)]
pub(crate) enum WithoutRoom<'a> {
    /// Say so at once.
    Refuse,
    /// Wait a while before saying so: the tests have just ended.
    Wait {
        /// Hears what it waits for.
        sink: &'a dyn Sink,
    },
}

/// What a process is restored with.
pub(crate) struct Returning<'a> {
    pub driver: &'a CheckpointDriver,
    pub notes: &'a Notes,
    /// Asks for the first device without room.
    pub lack: &'a dyn Fn(&Note) -> Option<Lack>,
    /// What to do then.
    pub without_room: WithoutRoom<'a>,
}

impl Returning<'_> {
    /// Restores a process, and removes its note.
    ///
    /// # Errors
    /// A device has no room, or the driver failed. The note stays.
    pub fn put_back(&self, note: &Note) -> anyhow::Result<Returned> {
        let began = Instant::now();
        let mut ran = true;
        loop {
            if !note.is_of_living() {
                self.notes.remove(note)?;
                return Ok(Returned::Ended);
            }
            let done = match self.driver.state(note.process) {
                Ok(State::Running) => {
                    let text = || format!("{note} runs again, but its note stays");
                    self.notes.remove(note).with_context(text)?;
                    return Ok(if ran { Returned::Ran } else { Returned::Restored(began.elapsed()) });
                }
                Ok(State::SetAside) => {
                    expect_room(note, self.lack, self.without_room)?;
                    self.driver.restore(note.process)
                }
                Ok(State::Locked) => self.driver.unlock(note.process),
                Ok(State::Failed | State::Unknown(_)) => return Err(failed(note).into()),
                Err(error) => Err(error),
            };
            ran = false;
            if let Err(error) = done {
                // Another `restore` may have made the same call first.
                let state = self.driver.state(note.process);
                if note.is_of_living() && state != Ok(State::Running) {
                    if !error.is_of_moment() || began.elapsed() > PATIENCE {
                        return Err(stuck(note, &error).into());
                    }
                    std::thread::sleep(POLL);
                }
            }
        }
    }
}

/// Returns once the devices have room.
fn expect_room(
    note: &Note,
    lack: &dyn Fn(&Note) -> Option<Lack>,
    without_room: WithoutRoom<'_>,
) -> Result<(), UserError> {
    let began = Instant::now();
    let mut was_told = false;
    while let Some(lack) = lack(note) {
        let WithoutRoom::Wait { sink } = without_room else { return Err(no_room(note, &lack)) };
        if began.elapsed() > ROOM_PATIENCE || !note.is_of_living() {
            return Err(no_room(note, &lack));
        }
        if !was_told {
            let text = format!("for room on {} to restore {note}: {}", lack.device, lack.reason);
            sink.emit(Event::WaitingForRoom { text });
            was_told = true;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn no_room(note: &Note, lack: &Lack) -> UserError {
    let Lack { device, reason } = lack;
    UserError::new(format!("{note} is not restored, because {device} may have no room: {reason}"))
        .help(format!("free memory, then: cargo memprof restore {}", note.process))
}

/// A restore that ran out of memory leaves a process that may never be restored: see
/// [`room`](crate::courtesy::room).
fn stuck(note: &Note, error: &CallError) -> UserError {
    let id = note.process;
    if error.call != "cuCheckpointProcessRestore" {
        return UserError::new(format!("{note} could not be restored: {error}"))
            .help(format!("try again: cargo memprof restore {id}"));
    }
    let why = if error.code == OUT_OF_MEMORY {
        "after this, the driver may refuse every later restore with CUDA_ERROR_OPERATING_SYSTEM (304)"
    } else {
        "the driver also says this after a restore that ran out of memory (CUDA_ERROR_OUT_OF_MEMORY)"
    };
    let message = format!("{note} could not be restored, and may have lost its GPU data: {error}; {why}");
    UserError::new(message)
        .help(format!("try once more: cargo memprof restore {id}; if that fails, end it: kill -9 {id}"))
}

fn failed(note: &Note) -> UserError {
    UserError::new(format!(
        "{note} could not be restored, and has lost its GPU data: the driver failed with it"
    ))
    .help(format!("it cannot go on; to end it: kill -9 {}", note.process))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;

    use super::*;
    use crate::courtesy::process::ProcessFacts;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Sink for Heard {
        fn emit(&self, event: Event) {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }

    #[test]
    fn after_tests_room_is_awaited_with_one_line_and_by_hand_it_is_not() {
        let own = ProcessFacts::read(std::process::id()).unwrap();
        let note = Note::for_process(&own, Vec::new(), None);
        let (left, heard) = (Cell::new(3), Heard::default());
        let lack = |_: &Note| {
            left.set(left.get() - 1);
            (left.get() > 0).then(|| Lack { device: "GPU 0".into(), reason: "1 B is free".into() })
        };
        expect_room(&note, &lack, WithoutRoom::Wait { sink: &heard }).unwrap();
        assert_eq!(left.get(), 0);
        let told = heard.0.lock().unwrap().clone();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("WaitingForRoom") && told[0].contains("GPU 0"), "{told:?}");
        left.set(3);
        let error = expect_room(&note, &lack, WithoutRoom::Refuse).unwrap_err();
        assert_eq!(left.get(), 2);
        assert!(error.to_string().ends_with("is not restored, because GPU 0 may have no room: 1 B is free"));
    }
}
