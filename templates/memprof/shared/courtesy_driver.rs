//! The CUDA driver's calls that move this process's own memory, and `nvidia-smi`, which says whether
//! there is room for it again.
//!
//! The driver is neither loaded nor initialised here: a process that has not done so has no GPU
//! memory. On driver 580.159.04, a restore that ran out of memory left a process that no later call
//! could restore. So it is not called without room. There, NVML's functions also wait for ever in a
//! process whose memory is set aside. So a process of its own asks for the figures.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::process::{Command, Stdio};

use crate::shared::bytes::Bytes;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

/// How long the driver may wait for work that is under way.
const PATIENCE_MS: c_uint = 30_000;
/// What must be free beyond the bytes that were set aside: the driver makes the context anew (about
/// 520 MiB on an H200), and rounds blocks up to its pages.
const MARGIN: u64 = 1 << 30;

const RUNNING: c_int = 0;
const LOCKED: c_int = 1;
const SET_ASIDE: c_int = 2;

type Status = c_int;
type OnProcess = unsafe extern "C" fn(c_int, *mut c_void) -> Status;

/// The address of a function. The name ends with a zero byte.
fn symbol(library: *mut c_void, name: &'static str) -> Option<*mut c_void> {
    debug_assert!(name.ends_with('\0'));
    // SAFETY: the handle is open and stays so, and the name is a C string.
    let address = unsafe { dlsym(library, name.as_ptr().cast()) };
    if address.is_null() { None } else { Some(address) }
}

/// A function of a library, with the type of the place that it is assigned to.
macro_rules! function {
    ($library:expr, $name:literal) => {
        symbol($library, concat!($name, "\0"))
            .ok_or_else(|| concat!("it has no ", $name).to_owned())
            // SAFETY: the type is that of the function of this name in its header.
            .map(|address| unsafe { std::mem::transmute::<*mut c_void, _>(address) })
    };
}

/// `CUcheckpointLockArgs`.
#[repr(C)]
struct LockArguments {
    timeout_ms: c_uint,
    reserved0: c_uint,
    reserved1: [u64; 7],
}

struct Driver {
    count: unsafe extern "C" fn(*mut c_int) -> Status,
    device: unsafe extern "C" fn(*mut c_int, c_int) -> Status,
    uuid: unsafe extern "C" fn(*mut [u8; 16], c_int) -> Status,
    primary_state: unsafe extern "C" fn(c_int, *mut c_uint, *mut c_int) -> Status,
    state: unsafe extern "C" fn(c_int, *mut c_int) -> Status,
    lock: OnProcess,
    checkpoint: OnProcess,
    restore: OnProcess,
    unlock: OnProcess,
    name: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
}

impl Driver {
    fn find() -> Result<Self, String> {
        // SAFETY: the path is a C string. With this flag, nothing is loaded.
        let library = unsafe { dlopen(b"libcuda.so.1\0".as_ptr().cast(), RTLD_LAZY | RTLD_NOLOAD) };
        if library.is_null() {
            return Err("this process has not loaded the CUDA driver".to_owned());
        }
        Self::from_library(library).map_err(|lacks| {
            format!("this CUDA driver is older than 570 (CUDA 12.8) and cannot do it: {lacks}")
        })
    }

    fn from_library(library: *mut c_void) -> Result<Self, String> {
        Ok(Self {
            count: function!(library, "cuDeviceGetCount")?,
            device: function!(library, "cuDeviceGet")?,
            uuid: function!(library, "cuDeviceGetUuid_v2")?,
            primary_state: function!(library, "cuDevicePrimaryCtxGetState")?,
            state: function!(library, "cuCheckpointProcessGetState")?,
            lock: function!(library, "cuCheckpointProcessLock")?,
            checkpoint: function!(library, "cuCheckpointProcessCheckpoint")?,
            restore: function!(library, "cuCheckpointProcessRestore")?,
            unlock: function!(library, "cuCheckpointProcessUnlock")?,
            name: function!(library, "cuGetErrorName")?,
        })
    }

    /// Returns `cuCheckpointProcessLock: CUDA_ERROR_NOT_READY (600)` for an error.
    fn checked(&self, call: &str, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: the driver sets the pointer to a constant text, or leaves null.
        let name = unsafe {
            (self.name)(status, &mut text);
            if text.is_null() { "unknown error".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(format!("{call}: {name} ({status})"))
    }

    /// Returns the UUIDs of the devices with a primary context; of all visible ones if none has one.
    fn devices(&self) -> Result<Vec<[u8; 16]>, String> {
        let mut count = 0;
        // SAFETY: for this and all calls below: the types are the driver's, and what it writes to
        // lives long enough.
        let status = unsafe { (self.count)(&mut count) };
        self.checked("cuDeviceGetCount", status)
            .map_err(|error| format!("this process does not use CUDA ({error})"))?;
        let (mut used, mut all) = (Vec::new(), Vec::new());
        for ordinal in 0..count {
            let (mut device, mut uuid, mut flags, mut active) = (0, [0; 16], 0, 0);
            // SAFETY: as above.
            unsafe {
                self.checked("cuDeviceGet", (self.device)(&mut device, ordinal))?;
                self.checked("cuDeviceGetUuid_v2", (self.uuid)(&mut uuid, device))?;
                if (self.primary_state)(device, &mut flags, &mut active) == 0 && active != 0 {
                    used.push(uuid);
                }
            }
            all.push(uuid);
        }
        Ok(if used.is_empty() { all } else { used })
    }

    fn process_state(&self) -> Result<c_int, String> {
        let mut state = 0;
        // SAFETY: as above.
        let status = unsafe { (self.state)(own(), &mut state) };
        self.checked("cuCheckpointProcessGetState", status).map(|()| state)
    }

    fn call(&self, name: &str, function: OnProcess) -> Result<(), String> {
        // SAFETY: the driver accepts null for the arguments.
        self.checked(name, unsafe { function(own(), std::ptr::null_mut()) })
    }

    fn lock(&self) -> Result<(), String> {
        let mut arguments = LockArguments { timeout_ms: PATIENCE_MS, reserved0: 0, reserved1: [0; 7] };
        let arguments: *mut LockArguments = &mut arguments;
        // SAFETY: as above.
        self.checked("cuCheckpointProcessLock", unsafe { (self.lock)(own(), arguments.cast()) })
    }
}

fn own() -> c_int {
    std::process::id() as c_int
}

/// A GPU's memory, as `nvidia-smi` says it.
struct Memory {
    device: String,
    free: u64,
    used: u64,
}

/// The memory of each GPU.
fn memory() -> Result<Vec<Memory>, String> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=uuid,memory.free,memory.used", "--format=csv,noheader,nounits"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|error| format!("it cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("it ended with {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let memory = |line: &str| {
        let mut fields = line.split(',').map(str::trim);
        let device = fields.next()?.to_owned();
        let mut bytes = || Some(fields.next()?.parse::<u64>().ok()? << 20);
        Some(Memory { device, free: bytes()?, used: bytes()? })
    };
    text.lines().map(|line| memory(line).ok_or_else(|| format!("it says '{line}'"))).collect()
}

/// The memory of one GPU.
fn memory_of(device: &str) -> Result<Memory, String> {
    let found = memory()?.into_iter().find(|memory| memory.device == device);
    found.ok_or_else(|| format!("it has no device {device}"))
}

/// The UUID as `nvidia-smi` writes it.
fn name_of(uuid: [u8; 16]) -> String {
    let dash = |place| if [4, 6, 8, 10].contains(&place) { "-" } else { "" };
    let parts = uuid.iter().enumerate().map(|(place, byte)| format!("{}{byte:02x}", dash(place)));
    format!("GPU-{}", parts.collect::<Vec<_>>().concat())
}

/// What the process held on a device.
struct Held {
    device: String,
    bytes: u64,
    /// What was in use there just after.
    others: u64,
}

/// This process's memory, set aside.
pub(crate) struct Aside {
    driver: Driver,
    held: Vec<Held>,
}

impl Aside {
    /// Sets it aside, or returns why it cannot be. Nothing has changed then.
    pub(crate) fn take() -> Result<Self, String> {
        let driver = Driver::find()?;
        let devices = driver.devices()?;
        let needed = |why: String| {
            format!("nvidia-smi, which knows whether there is room again, does not answer: {why}")
        };
        let mut held = Vec::new();
        for uuid in devices {
            let Memory { device, used, .. } = memory_of(&name_of(uuid)).map_err(needed)?;
            // All that is in use until the memory is away.
            held.push((Held { device, bytes: 0, others: 0 }, used));
        }
        driver.lock()?;
        if let Err(error) = driver.call("cuCheckpointProcessCheckpoint", driver.checkpoint) {
            let undone = driver.call("cuCheckpointProcessUnlock", driver.unlock);
            return Err(undone.err().map_or(error.clone(), |why| format!("{error}, and then {why}")));
        }
        let held = held.into_iter().map(|(held, used)| {
            let others = memory_of(&held.device).map_or(0, |memory| memory.used);
            Held { bytes: used.saturating_sub(others), others, ..held }
        });
        let held = held.collect();
        Ok(Self { driver, held })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.held.iter().map(|held| held.bytes).sum()
    }

    /// Restores it, or returns why not.
    pub(crate) fn restore(&self) -> Result<(), String> {
        let mut state = self.driver.process_state()?;
        if state == SET_ASIDE {
            self.expect_room()?;
            self.driver.call("cuCheckpointProcessRestore", self.driver.restore).map_err(|error| {
                format!("the driver could not restore it, and its data may be lost: {error}")
            })?;
            state = LOCKED;
        }
        if state == LOCKED {
            self.driver.call("cuCheckpointProcessUnlock", self.driver.unlock)?;
            state = RUNNING;
        }
        if state == RUNNING { Ok(()) } else { Err(format!("the driver says that its state is {state}")) }
    }

    fn expect_room(&self) -> Result<(), String> {
        for held in self.held.iter().filter(|held| held.bytes > 0) {
            let memory = memory_of(&held.device)?;
            let needed = held.bytes.saturating_add(MARGIN);
            // If others use no more than before, it fits as it did before.
            if memory.used > held.others && memory.free < needed {
                let (free, needed) = (Bytes(memory.free.into()), Bytes(needed.into()));
                return Err(format!(
                    "there may be no room: {free} are free on the GPU, and it needs {needed}"
                ));
            }
        }
        Ok(())
    }
}
