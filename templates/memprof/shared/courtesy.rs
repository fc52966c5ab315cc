//! This process's own GPU memory, moved to host memory for a while and back: by the CUDA driver, or
//! by functions that the program or an adapter registered.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::shared::bytes::Bytes;
use crate::shared::courtesy_driver::Aside;

/// Returns what gives this process's GPU memory to other programs for a while.
///
/// ```ignore
/// let mut courtesy = memprof::courtesy();
/// println!("{}", courtesy.yield_memory()); // 60.5 GiB by the CUDA driver
/// wait_for_the_other_program();
/// println!("{}", courtesy.restore());
/// ```
///
/// The CUDA driver moves all of it if it can (driver 570 or later; no managed memory). Else the
/// functions of [`movable`] move what they know. It works in ordinary builds, too.
///
/// Between the two calls, no thread may make a CUDA call or a checkpoint: it would wait until the
/// memory is back, and the thread that restores must not wait.
pub fn courtesy() -> Courtesy {
    Courtesy { state: State::Here }
}

/// Moves GPU memory away and back. Made by [`courtesy`]. Dropping it restores, if there is room.
#[must_use = "dropping it restores the memory"]
pub struct Courtesy {
    state: State,
}

enum State {
    Here,
    ByDriver(Aside),
    /// With the reason why the driver did not.
    ByFunctions(Vec<Registered>, String),
}

/// What a call of [`Courtesy`] moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The CUDA driver moved this many bytes of the process.
    ByDriver(u64),
    /// The functions of [`movable`] moved this many bytes, because the driver did not, for this
    /// reason.
    ByFunctions(u64, String),
    /// Nothing moved, for this reason.
    Nothing(String),
}

impl Moved {
    /// Returns the bytes that moved.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::ByDriver(bytes) | Self::ByFunctions(bytes, _) => *bytes,
            Self::Nothing(_) => 0,
        }
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByDriver(bytes) => write!(formatter, "{} by the CUDA driver", Bytes((*bytes).into())),
            Self::ByFunctions(bytes, reason) => {
                let bytes = Bytes((*bytes).into());
                write!(formatter, "{bytes} by registered functions, not by the CUDA driver: {reason}")
            }
            Self::Nothing(reason) => write!(formatter, "nothing moved: {reason}"),
        }
    }
}

impl Courtesy {
    /// Moves this process's GPU memory to host memory. The driver first waits up to 30 s for the
    /// work on the GPU.
    pub fn yield_memory(&mut self) -> Moved {
        if !matches!(self.state, State::Here) {
            return Moved::Nothing("it is set aside already".to_owned());
        }
        let of_driver = match Aside::take() {
            Ok(aside) => {
                let bytes = aside.bytes();
                self.state = State::ByDriver(aside);
                return Moved::ByDriver(bytes);
            }
            Err(reason) => reason,
        };
        match all_away() {
            Ok((moved, _)) if moved.is_empty() => {
                Moved::Nothing(format!("{of_driver}; and no function is registered (memprof::movable)"))
            }
            Ok((moved, bytes)) => {
                self.state = State::ByFunctions(moved, of_driver.clone());
                Moved::ByFunctions(bytes, of_driver)
            }
            Err(reason) => Moved::Nothing(format!("{of_driver}; {reason}")),
        }
    }

    /// Moves it back. Without room on a device, nothing changes: free memory there and call again.
    pub fn restore(&mut self) -> Moved {
        match std::mem::replace(&mut self.state, State::Here) {
            State::Here => Moved::Nothing("nothing is set aside".to_owned()),
            State::ByDriver(aside) => match aside.restore() {
                Ok(()) => Moved::ByDriver(aside.bytes()),
                Err(reason) => {
                    self.state = State::ByDriver(aside);
                    Moved::Nothing(reason)
                }
            },
            State::ByFunctions(moved, of_driver) => {
                let (bytes, left, reasons) = all_back(moved);
                if left.is_empty() {
                    return Moved::ByFunctions(bytes, of_driver);
                }
                self.state = State::ByFunctions(left, of_driver);
                Moved::Nothing(reasons.join("; "))
            }
        }
    }
}

impl Drop for Courtesy {
    fn drop(&mut self) {
        self.restore();
    }
}

impl fmt::Debug for Courtesy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_aside = !matches!(self.state, State::Here);
        formatter.debug_struct("Courtesy").field("is_aside", &is_aside).finish()
    }
}

type Away = Box<dyn FnMut() -> Result<u64, String> + Send>;
type Back = Box<dyn FnMut() -> Result<(), String> + Send>;

struct Functions {
    name: String,
    away: Away,
    back: Back,
    /// The bytes that are away.
    bytes: Option<u64>,
}

type Registered = Arc<Mutex<Functions>>;

static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// Registers functions that move some of the program's GPU memory, until the result is dropped.
///
/// [`Courtesy`] calls them if the driver cannot move the memory. `away` copies it to host memory,
/// frees it on the GPU, and returns the bytes. `back` must keep the copy if it fails, because it is
/// called again.
pub fn movable(
    name: &str,
    away: impl FnMut() -> Result<u64, String> + Send + 'static,
    back: impl FnMut() -> Result<(), String> + Send + 'static,
) -> Movable {
    let functions =
        Functions { name: name.to_owned(), away: Box::new(away), back: Box::new(back), bytes: None };
    let registered = Arc::new(Mutex::new(functions));
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&registered));
    Movable(registered)
}

/// Functions that are registered until this is dropped. Made by [`movable`].
#[must_use = "the functions are forgotten once this is dropped"]
pub struct Movable(Registered);

impl Drop for Movable {
    fn drop(&mut self) {
        let mut all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| !Arc::ptr_eq(one, &self.0));
    }
}

impl fmt::Debug for Movable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Movable").finish()
    }
}

/// Calls all functions, in the order in which they were registered. If one fails, those before it
/// bring their memory back.
fn all_away() -> Result<(Vec<Registered>, u64), String> {
    // Not locked while they run: they may register others.
    let all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (mut moved, mut total) = (Vec::new(), 0);
    for one in all {
        let done = {
            let mut functions = one.lock().unwrap_or_else(PoisonError::into_inner);
            if functions.bytes.is_some() {
                continue;
            }
            let done = (functions.away)();
            functions.bytes = done.as_ref().ok().copied();
            done.map_err(|reason| format!("{} could not be moved: {reason}", functions.name))
        };
        match done {
            Ok(bytes) => {
                total += bytes;
                moved.push(one);
            }
            Err(reason) => {
                let (_, _, reasons) = all_back(moved);
                let all: Vec<String> = std::iter::once(reason).chain(reasons).collect();
                return Err(all.join("; "));
            }
        }
    }
    Ok((moved, total))
}

/// Returns the bytes that are back, what is still away, and why.
fn all_back(moved: Vec<Registered>) -> (u64, Vec<Registered>, Vec<String>) {
    let (mut total, mut left, mut reasons) = (0, Vec::new(), Vec::new());
    for one in moved {
        let mut functions = one.lock().unwrap_or_else(PoisonError::into_inner);
        match (functions.back)() {
            Ok(()) => total += functions.bytes.take().unwrap_or(0),
            Err(reason) => {
                reasons.push(format!("{} could not be moved back: {reason}", functions.name));
                drop(functions);
                left.push(one);
            }
        }
    }
    (total, left, reasons)
}
