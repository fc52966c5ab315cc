//! NVML: the NVIDIA driver's figures for this process and for the whole device. Loaded only once
//! the process uses CUDA.
//!
//! Devices are found by the UUID from the CUDA driver, never by index: `CUDA_VISIBLE_DEVICES` and
//! `CUDA_DEVICE_ORDER` give the CUDA driver its own numbers. Types are from `nvml.h` 13; these
//! versions of the functions exist since driver 510.

use std::os::raw::{c_char, c_int, c_uint, c_void};

use crate::platform::untracked::{Text, kept};
use crate::shared::library::{Library, function};

type Status = c_int;

const SUCCESS: Status = 0;
const INSUFFICIENT_SIZE: Status = 7;
/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: u64 = u64::MAX;
/// `nvmlMemory_v2`: the size of the structure, and its version in the highest byte.
const MEMORY_VERSION: c_uint = 0x0200_0028;

/// `nvmlProcessInfo_v2_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ProcessInfo {
    process: c_uint,
    used: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
struct Memory {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_t`, whose `used` includes what the driver reserves for itself.
#[repr(C)]
struct MemoryOfOld {
    total: u64,
    free: u64,
    used: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Nvml {
    by_uuid: unsafe extern "C" fn(*const c_char, *mut Handle) -> Status,
    index: unsafe extern "C" fn(Handle, *mut c_uint) -> Status,
    is_mig: Option<unsafe extern "C" fn(Handle, *mut c_uint) -> Status>,
    parent: Option<unsafe extern "C" fn(Handle, *mut Handle) -> Status>,
    processes: Option<unsafe extern "C" fn(Handle, *mut c_uint, *mut ProcessInfo) -> Status>,
    memory: Option<unsafe extern "C" fn(Handle, *mut Memory) -> Status>,
    memory_of_old: Option<unsafe extern "C" fn(Handle, *mut MemoryOfOld) -> Status>,
    error: Option<unsafe extern "C" fn(Status) -> *const c_char>,
}

/// `nvmlDevice_t`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: NVML accepts it from any thread.
unsafe impl Send for Handle {}

/// A device in NVML.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    handle: Handle,
    /// NVML's index; for a part of a device (MIG), the index of the whole device.
    pub(crate) index: u32,
    /// Whether it is a part of a device.
    pub(crate) is_part: bool,
}

/// Why a figure is unavailable. It becomes text only when it is logged.
#[derive(Clone, Copy)]
pub(crate) enum Problem {
    Call(&'static str, Status),
    Known(&'static str),
    /// NVML's list of processes lacks this one: it has no context on the device, or its id is hidden.
    Unlisted(&'static str),
}

/// How the device's memory is read.
pub(crate) const MEMORY_SOURCE: &str = "NVML, memory in use on the device by all processes";
pub(crate) const PROCESS_SOURCE: &str = "NVML, memory of this process on the device, its context included";

const NOT_HAD_HERE: &str = "NVML does not have this figure on this machine (NVML_VALUE_NOT_AVAILABLE)";
const NO_PROCESSES: &str =
    "NVML lists no process on this device, for example in a container that hides process ids";
const FOREIGN_PROCESSES: &str = "NVML lists processes on this device, but not this one, for example in a container with its own process ids";

impl Nvml {
    /// Loads and initialises NVML, or returns the reason why not.
    pub(crate) fn open() -> Result<Self, &'static str> {
        let library = Library::open(b"libnvidia-ml.so.1\0")?;
        let lacks = "libnvidia-ml.so.1 is too old: it lacks a function that memprof needs";
        let initialise: unsafe extern "C" fn() -> Status = function!(library, "nvmlInit_v2").ok_or(lacks)?;
        let nvml = Self {
            by_uuid: function!(library, "nvmlDeviceGetHandleByUUID").ok_or(lacks)?,
            index: function!(library, "nvmlDeviceGetIndex").ok_or(lacks)?,
            is_mig: function!(library, "nvmlDeviceIsMigDeviceHandle"),
            parent: function!(library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"),
            processes: function!(library, "nvmlDeviceGetComputeRunningProcesses_v3"),
            memory: function!(library, "nvmlDeviceGetMemoryInfo_v2"),
            memory_of_old: function!(library, "nvmlDeviceGetMemoryInfo"),
            error: function!(library, "nvmlErrorString"),
        };
        // SAFETY: for this and all calls below: the types are NVML's, and what it writes to lives
        // long enough.
        match unsafe { initialise() } {
            SUCCESS => Ok(nvml),
            status => Err(nvml.reason(Problem::Call("nvmlInit_v2", status))),
        }
    }

    /// The device with this UUID, or why NVML has none.
    pub(crate) fn device(&self, uuid: [u8; 16]) -> Result<Device, Problem> {
        let mut handle = Handle(std::ptr::null_mut());
        let mut status = SUCCESS;
        for kind in ["GPU", "MIG"] {
            let name = Text::format(format_args!("{}-{}\0", kind, Uuid(uuid)));
            // SAFETY: the name ends with a zero byte.
            status = unsafe { (self.by_uuid)(name.as_str().as_ptr().cast(), &mut handle) };
            if status == SUCCESS {
                break;
            }
        }
        if status != SUCCESS {
            return Err(Problem::Call("nvmlDeviceGetHandleByUUID", status));
        }
        let mut whole = handle;
        let mut is_part = 0;
        // SAFETY: the handles are NVML's.
        unsafe {
            if let (Some(is_mig), Some(parent)) = (self.is_mig, self.parent) {
                if is_mig(handle, &mut is_part) == SUCCESS && is_part != 0 {
                    match parent(handle, &mut whole) {
                        SUCCESS => {}
                        status => {
                            return Err(Problem::Call(
                                "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
                                status,
                            ));
                        }
                    }
                }
            }
            let mut index = 0;
            match (self.index)(whole, &mut index) {
                SUCCESS => Ok(Device { handle, index, is_part: is_part != 0 }),
                status => Err(Problem::Call("nvmlDeviceGetIndex", status)),
            }
        }
    }

    /// Bytes in use on the device, by all processes.
    pub(crate) fn device_memory(&self, device: Device) -> Result<u64, Problem> {
        let mut status = SUCCESS;
        if let Some(memory) = self.memory {
            let mut figures = Memory { version: MEMORY_VERSION, total: 0, reserved: 0, free: 0, used: 0 };
            // SAFETY: as above.
            status = unsafe { memory(device.handle, &mut figures) };
            if status == SUCCESS {
                return Ok(figures.used);
            }
        }
        if let Some(memory) = self.memory_of_old {
            let mut figures = MemoryOfOld { total: 0, free: 0, used: 0 };
            // SAFETY: as above.
            status = unsafe { memory(device.handle, &mut figures) };
            if status == SUCCESS {
                return Ok(figures.used);
            }
        }
        Err(Problem::Call("nvmlDeviceGetMemoryInfo", status))
    }

    /// Bytes of this process on the device.
    pub(crate) fn process_memory(&self, device: Device) -> Result<u64, Problem> {
        const MANY: c_uint = 256;
        let processes = self
            .processes
            .ok_or(Problem::Known("this NVML has no nvmlDeviceGetComputeRunningProcesses_v3"))?;
        let nothing = ProcessInfo { process: 0, used: 0, gpu_instance: 0, compute_instance: 0 };
        let mut infos = [nothing; MANY as usize];
        let mut count = MANY;
        // SAFETY: as above; the count is the room in the array.
        match unsafe { processes(device.handle, &mut count, infos.as_mut_ptr()) } {
            SUCCESS => {}
            INSUFFICIENT_SIZE => return Err(Problem::Known("more than 256 processes use this device")),
            status => return Err(Problem::Call("nvmlDeviceGetComputeRunningProcesses_v3", status)),
        }
        let infos = &infos[..count.min(MANY) as usize];
        // On a part of a device, the process may be listed once for each of its instances.
        let own = std::process::id();
        match infos.iter().filter(|info| info.process == own).map(|info| info.used).max() {
            Some(NOT_AVAILABLE) => Err(Problem::Known(NOT_HAD_HERE)),
            Some(used) => Ok(used),
            None if infos.is_empty() => Err(Problem::Unlisted(NO_PROCESSES)),
            None => Err(Problem::Unlisted(FOREIGN_PROCESSES)),
        }
    }

    /// The text for the log; it is never freed.
    pub(crate) fn reason(&self, problem: Problem) -> &'static str {
        let (call, status) = match problem {
            Problem::Call(call, status) => (call, status),
            Problem::Known(reason) | Problem::Unlisted(reason) => return reason,
        };
        // SAFETY: NVML's texts are constants.
        let text = self.error.and_then(|error| unsafe {
            let text = error(status);
            if text.is_null() { None } else { std::ffi::CStr::from_ptr(text).to_str().ok() }
        });
        kept(format_args!("{}: {} ({})", call, text.unwrap_or("error"), status))
    }
}

/// Sixteen bytes as `5d2c1f0a-…`.
pub(crate) struct Uuid(pub(crate) [u8; 16]);

impl std::fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&index) {
                formatter.write_str("-")?;
            }
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}
