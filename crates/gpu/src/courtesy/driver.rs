//! The CUDA driver's calls that set a process's device memory aside. The library is loaded at run
//! time; nothing is linked. Only `cuInit` is called besides, so this process gets no context.
//!
//! Reference: "CUDA Checkpointing" in the CUDA driver API (`cuda.h`).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::time::Duration;

use crate::courtesy::refusal::Refusal;

/// How long the driver may wait for work of the process that is under way.
const PATIENCE: Duration = Duration::from_secs(30);

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: c_int = 2;

/// `CUDA_ERROR_NOT_READY`: the work was not done in time.
pub(crate) const NOT_READY: c_int = 600;

/// `CUDA_ERROR_ILLEGAL_STATE`: another call is under way, or was made before.
const ILLEGAL_STATE: c_int = 401;

/// `CUDA_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: c_int = 801;

/// The first driver with the calls, and its CUDA version.
const NEEDED: &str = "driver 570 or later (CUDA 12.8)";

type OnProcess = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;
type AskState = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
type AskName = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

/// `CUcheckpointLockArgs`.
#[repr(C)]
struct LockArguments {
    timeout_ms: c_uint,
    reserved0: c_uint,
    reserved1: [u64; 7],
}

/// The driver's state of a process (`CUprocessState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Runs as usual.
    Running,
    /// The next call into CUDA waits. Its memory is still on the device.
    Locked,
    /// The memory is in host memory, and its next call into CUDA waits.
    SetAside,
    /// The driver failed, and the process cannot go on.
    Failed,
    /// A state that this program does not know.
    Unknown(c_int),
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct CallError {
    /// The function.
    pub call: &'static str,
    /// `CUresult`.
    pub code: c_int,
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
}

impl fmt::Display for CallError {
    /// `cuCheckpointProcessLock: CUDA_ERROR_NOT_READY (600)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} ({})", self.call, self.name, self.code)
    }
}

impl CallError {
    /// Whether the same call may work a moment later.
    pub fn is_of_moment(&self) -> bool {
        [NOT_READY, ILLEGAL_STATE].contains(&self.code)
    }

    /// Whether the driver says that it cannot do this at all.
    pub(crate) fn is_not_supported(&self) -> bool {
        self.code == NOT_SUPPORTED
    }
}

/// The driver, loaded and initialised.
pub(crate) struct CheckpointDriver {
    /// Stays loaded, because unloading such a library may crash.
    library: ManuallyDrop<libloading::Library>,
    state: AskState,
    lock: OnProcess,
    checkpoint: OnProcess,
    restore: OnProcess,
    unlock: OnProcess,
    name: AskName,
}

impl CheckpointDriver {
    /// Loads `libcuda.so.1`. The version is what NVML says, for the error.
    #[expect(unsafe_code, reason = "loading a library runs its code")]
    pub fn open(version: Option<&str>) -> Result<Self, Refusal> {
        // SAFETY: this is the user's own driver, which test processes load too.
        let library = unsafe { libloading::Library::new("libcuda.so.1") };
        let library = library.map(ManuallyDrop::new).map_err(|error| {
            Refusal::new(format!("the CUDA driver cannot be loaded: {error}"))
                .help("in a container, set NVIDIA_DRIVER_CAPABILITIES=utility,compute")
        })?;
        let too_old = |_| {
            let driver =
                version.map_or_else(|| "this driver".to_owned(), |version| format!("driver {version}"));
            Refusal::new(format!("{driver} cannot set GPU memory aside: it has no cuCheckpointProcessLock"))
                .help(format!("install {NEEDED}: https://www.nvidia.com/drivers"))
        };
        // SAFETY: the signatures are those of `cuda.h`. A pointer to an argument structure may be
        // null, and is taken as an untyped pointer here.
        let driver = unsafe {
            Self {
                state: *library.get(b"cuCheckpointProcessGetState\0").map_err(too_old)?,
                lock: *library.get(b"cuCheckpointProcessLock\0").map_err(too_old)?,
                checkpoint: *library.get(b"cuCheckpointProcessCheckpoint\0").map_err(too_old)?,
                restore: *library.get(b"cuCheckpointProcessRestore\0").map_err(too_old)?,
                unlock: *library.get(b"cuCheckpointProcessUnlock\0").map_err(too_old)?,
                name: *library.get(b"cuGetErrorName\0").map_err(too_old)?,
                library,
            }
        };
        driver.initialise().map_err(|error| {
            Refusal::new(format!("the CUDA driver does not start: {error}"))
                .help("`cargo memprof doctor` shows what is missing")
        })?;
        Ok(driver)
    }

    /// Restoring needs an initialised driver in the caller, unless the device is in persistence mode.
    #[expect(unsafe_code, reason = "a call into C")]
    fn initialise(&self) -> Result<(), CallError> {
        // SAFETY: the signature is `CUresult cuInit(unsigned int)`, and the flags must be 0.
        let status = unsafe {
            match self.library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0") {
                Ok(initialise) => initialise(0),
                Err(_) => NOT_SUPPORTED,
            }
        };
        self.checked("cuInit", status)
    }

    /// Returns the state of a process.
    ///
    /// # Errors
    /// The process does not use CUDA, among others.
    #[expect(unsafe_code, reason = "a call into C")]
    pub fn state(&self, process: u32) -> Result<State, CallError> {
        let mut state = 0;
        // SAFETY: the driver writes one `int`-sized enumeration.
        let status = unsafe { (self.state)(process.cast_signed(), &raw mut state) };
        self.checked("cuCheckpointProcessGetState", status)?;
        Ok(match state {
            0 => State::Running,
            1 => State::Locked,
            2 => State::SetAside,
            3 => State::Failed,
            other => State::Unknown(other),
        })
    }

    /// Waits for the process's work and holds up its next call: running → locked.
    pub fn lock(&self, process: u32) -> Result<(), CallError> {
        let timeout_ms = u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX);
        let mut arguments = LockArguments { timeout_ms, reserved0: 0, reserved1: [0; 7] };
        self.call("cuCheckpointProcessLock", self.lock, process, (&raw mut arguments).cast())
    }

    /// Moves the process's device memory to host memory: locked → set aside.
    pub fn checkpoint(&self, process: u32) -> Result<(), CallError> {
        self.call("cuCheckpointProcessCheckpoint", self.checkpoint, process, std::ptr::null_mut())
    }

    /// Moves the memory back to the device: set aside → locked.
    pub fn restore(&self, process: u32) -> Result<(), CallError> {
        self.call("cuCheckpointProcessRestore", self.restore, process, std::ptr::null_mut())
    }

    /// Lets the process go on: locked → running.
    pub fn unlock(&self, process: u32) -> Result<(), CallError> {
        self.call("cuCheckpointProcessUnlock", self.unlock, process, std::ptr::null_mut())
    }

    #[expect(unsafe_code, reason = "a call into C")]
    fn call(
        &self,
        name: &'static str,
        function: OnProcess,
        process: u32,
        arguments: *mut c_void,
    ) -> Result<(), CallError> {
        // SAFETY: the arguments are null, which the driver accepts, or the structure that the
        // function takes.
        let status = unsafe { function(process.cast_signed(), arguments) };
        self.checked(name, status)
    }

    #[expect(unsafe_code, reason = "a call into C")]
    fn checked(&self, call: &'static str, code: c_int) -> Result<(), CallError> {
        if code == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: the driver sets the pointer to a constant text, or leaves null for a code that it
        // does not know.
        let name = unsafe {
            (self.name)(code, &raw mut text);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Err(CallError { call, code, name: name.unwrap_or_else(|| "an unknown error".to_owned()) })
    }
}
