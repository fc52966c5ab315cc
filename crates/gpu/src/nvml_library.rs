//! The functions of NVML that [`crate::nvml`] calls. The library is loaded at run time; nothing is
//! linked. Types and names are from `nvml.h` 13, and exist since driver 510.
#![expect(unsafe_code, reason = "NVML is a C library")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::mem::ManuallyDrop;

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 2;
const INSUFFICIENT_SIZE: c_int = 7;
const FUNCTION_NOT_FOUND: c_int = 13;
/// Codes that say that a device no longer answers: `GPU_IS_LOST`, `RESET_REQUIRED`, `UNKNOWN`.
const LOST: [c_int; 3] = [15, 16, 999];
/// `NVML_DEVICE_UUID_V2_BUFFER_SIZE`, the largest room that a text here may need.
const TEXT_ROOM: c_uint = 96;
/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;
/// `nvmlMemory_v2`: the size of the structure, and its version in the highest byte.
const MEMORY_VERSION: c_uint = 0x0200_0028;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NvmlError {
    call: &'static str,
    code: c_int,
    /// `Driver Not Loaded`.
    text: String,
}

impl NvmlError {
    /// Whether it says that the device no longer answers.
    pub(crate) fn is_lost_device(&self) -> bool {
        LOST.contains(&self.code)
    }
}

impl fmt::Display for NvmlError {
    /// `nvmlInit_v2: Driver Not Loaded (9)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} ({})", self.call, self.text, self.code)
    }
}

/// `nvmlMemory_v2_t`, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    version: c_uint,
    /// What the device has.
    pub total: c_ulonglong,
    /// What the driver keeps for itself.
    pub reserved: c_ulonglong,
    /// What nobody uses.
    pub free: c_ulonglong,
    /// What processes use.
    pub used: c_ulonglong,
}
const _: () = assert!(size_of::<Memory>() == MEMORY_VERSION as usize & 0xff);

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PciInfo {
    legacy: [u8; 16],
    /// The PCI domain.
    pub domain: c_uint,
    /// The bus on it.
    pub bus: c_uint,
    /// The device on that.
    pub device: c_uint,
    identifier: c_uint,
    subsystem: c_uint,
    name: [u8; 32],
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessInfo {
    /// The id, in the machine's own table.
    pub process: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

impl ProcessInfo {
    /// The bytes that it uses, if the driver knows them.
    pub fn used(&self) -> Option<u64> {
        (self.used != NOT_AVAILABLE).then_some(self.used)
    }
}

/// Calls a function of the library, which may be too old to have it. Returns its error.
macro_rules! call {
    ($library:expr, $function:ident($($argument:expr => $type:ty),*)) => {{
        let name = concat!(stringify!($function), "\0").as_bytes();
        // SAFETY: these are the types of `nvml.h`, and what NVML reads or writes lives until it
        // returns.
        let status = unsafe {
            match $library.0.get::<unsafe extern "C" fn($($type),*) -> c_int>(name) {
                Ok(function) => function($($argument),*),
                Err(_) => FUNCTION_NOT_FOUND,
            }
        };
        $library.checked(stringify!($function), status)
    }};
}

/// NVML, loaded and initialised. It stays loaded, because unloading such a library may crash.
#[derive(Debug)]
pub(crate) struct Library(ManuallyDrop<libloading::Library>);

impl Library {
    /// Loads and initialises it.
    pub fn open(path: &OsStr) -> Result<Self, String> {
        // SAFETY: this is the user's own driver, which test processes load too.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
        let library = Self(ManuallyDrop::new(library));
        match call!(library, nvmlInit_v2()) {
            Ok(()) => Ok(library),
            Err(error) => {
                // The library was not initialised, so there is nothing to shut down.
                std::mem::forget(library);
                Err(format!("{}: {error}", path.display()))
            }
        }
    }

    /// Returns the driver's version.
    pub fn driver(&self) -> Result<String, NvmlError> {
        text(|room, size| call!(self, nvmlSystemGetDriverVersion(room => *mut c_char, size => c_uint)))
    }

    /// Returns the newest CUDA that the driver supports: 13020 is 13.2.
    pub fn cuda(&self) -> Result<i32, NvmlError> {
        let mut version = 0;
        call!(self, nvmlSystemGetCudaDriverVersion_v2(&raw mut version => *mut c_int))?;
        Ok(version)
    }

    /// Returns how many devices there are, with those that this user may not use.
    pub fn device_count(&self) -> Result<u32, NvmlError> {
        let mut count = 0;
        call!(self, nvmlDeviceGetCount_v2(&raw mut count => *mut c_uint))?;
        Ok(count)
    }

    /// Returns the device with this index.
    pub(crate) fn device_by_index(&self, index: u32) -> Result<Device<'_>, NvmlError> {
        self.device(
            |handle| call!(self, nvmlDeviceGetHandleByIndex_v2(index => c_uint, handle => *mut Handle)),
        )
    }

    /// Returns the device, or the part of one, with this UUID.
    pub(crate) fn device_by_uuid(&self, uuid: &str) -> Result<Device<'_>, NvmlError> {
        let Ok(uuid) = CString::new(uuid) else {
            return Err(self.error("nvmlDeviceGetHandleByUUID", INVALID_ARGUMENT));
        };
        self.device(|handle| {
            call!(self, nvmlDeviceGetHandleByUUID(uuid.as_ptr() => *const c_char, handle => *mut Handle))
        })
    }

    fn device(
        &self,
        ask: impl FnOnce(*mut Handle) -> Result<(), NvmlError>,
    ) -> Result<Device<'_>, NvmlError> {
        let mut handle = Handle(std::ptr::null_mut());
        ask(&raw mut handle)?;
        Ok(Device { library: self, handle })
    }

    fn checked(&self, call: &'static str, code: c_int) -> Result<(), NvmlError> {
        if code == SUCCESS { Ok(()) } else { Err(self.error(call, code)) }
    }

    fn error(&self, call: &'static str, code: c_int) -> NvmlError {
        // SAFETY: the type is that of `nvml.h`, and NVML's texts are constants.
        let text = unsafe {
            let name = self.0.get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"nvmlErrorString\0");
            let text = name.map_or(std::ptr::null(), |name| name(code));
            if text.is_null() { None } else { CStr::from_ptr(text).to_str().ok() }
        };
        let otherwise = if code == FUNCTION_NOT_FOUND { "the library lacks it" } else { "error" };
        NvmlError { call, code, text: text.unwrap_or(otherwise).to_owned() }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // Nobody is left who could do something about its failure.
        let _ = call!(self, nvmlShutdown());
    }
}

/// `nvmlDevice_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
struct Handle(*mut c_void);

/// A device, or a part of one (MIG).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device<'l> {
    library: &'l Library,
    handle: Handle,
}

impl<'l> Device<'l> {
    /// Returns its index among the devices.
    pub fn index(&self) -> Result<u32, NvmlError> {
        let mut index = 0;
        call!(self.library, nvmlDeviceGetIndex(self.handle => Handle, &raw mut index => *mut c_uint))?;
        Ok(index)
    }

    /// Returns the number of its file, `/dev/nvidia0`.
    pub fn minor(&self) -> Result<u32, NvmlError> {
        let mut minor = 0;
        call!(self.library, nvmlDeviceGetMinorNumber(self.handle => Handle, &raw mut minor => *mut c_uint))?;
        Ok(minor)
    }

    /// Returns its UUID, which begins with `GPU-` or `MIG-`.
    pub fn uuid(&self) -> Result<String, NvmlError> {
        text(
            |room, size| call!(self.library, nvmlDeviceGetUUID(self.handle => Handle, room => *mut c_char, size => c_uint)),
        )
    }

    /// Returns its name.
    pub fn name(&self) -> Result<String, NvmlError> {
        text(
            |room, size| call!(self.library, nvmlDeviceGetName(self.handle => Handle, room => *mut c_char, size => c_uint)),
        )
    }

    /// Returns where it is on the PCI bus.
    pub(crate) fn pci(&self) -> Result<PciInfo, NvmlError> {
        let mut info = PciInfo::default();
        call!(self.library, nvmlDeviceGetPciInfo_v3(self.handle => Handle, &raw mut info => *mut PciInfo))?;
        Ok(info)
    }

    /// Returns its memory now.
    pub fn memory(&self) -> Result<Memory, NvmlError> {
        let mut memory = Memory { version: MEMORY_VERSION, ..Memory::default() };
        call!(self.library, nvmlDeviceGetMemoryInfo_v2(self.handle => Handle, &raw mut memory => *mut Memory))?;
        Ok(memory)
    }

    /// Whether it is divided into parts. An error says that it cannot be.
    pub(crate) fn is_divided(&self) -> Result<bool, NvmlError> {
        let (mut now, mut after_a_reset) = (0, 0);
        call!(
            self.library,
            nvmlDeviceGetMigMode(
                self.handle => Handle, &raw mut now => *mut c_uint, &raw mut after_a_reset => *mut c_uint
            )
        )?;
        Ok(now != 0)
    }

    /// Returns how many parts it can have.
    pub(crate) fn most_parts(&self) -> Result<u32, NvmlError> {
        let mut count = 0;
        call!(self.library, nvmlDeviceGetMaxMigDeviceCount(self.handle => Handle, &raw mut count => *mut c_uint))?;
        Ok(count)
    }

    /// Returns the part with this index. An index without a part is an error.
    pub fn part(&self, index: u32) -> Result<Device<'l>, NvmlError> {
        self.library.device(|part| {
            call!(
                self.library,
                nvmlDeviceGetMigDeviceHandleByIndex(self.handle => Handle, index => c_uint, part => *mut Handle)
            )
        })
    }

    /// Returns the programs that compute on it.
    pub(crate) fn computing_processes(&self) -> Result<Vec<ProcessInfo>, NvmlError> {
        processes(|count, infos| {
            call!(
                self.library,
                nvmlDeviceGetComputeRunningProcesses_v3(
                    self.handle => Handle, count => *mut c_uint, infos => *mut ProcessInfo
                )
            )
        })
    }

    /// Returns the programs that draw on it.
    pub(crate) fn drawing_processes(&self) -> Result<Vec<ProcessInfo>, NvmlError> {
        processes(|count, infos| {
            call!(
                self.library,
                nvmlDeviceGetGraphicsRunningProcesses_v3(
                    self.handle => Handle, count => *mut c_uint, infos => *mut ProcessInfo
                )
            )
        })
    }
}

/// Asks for a text, which ends with a zero byte.
fn text(ask: impl FnOnce(*mut c_char, c_uint) -> Result<(), NvmlError>) -> Result<String, NvmlError> {
    let mut room = [0_u8; TEXT_ROOM as usize];
    ask(room.as_mut_ptr().cast(), TEXT_ROOM)?;
    let length = room.iter().position(|byte| *byte == 0).unwrap_or(room.len());
    Ok(String::from_utf8_lossy(&room[..length]).into_owned())
}

/// Asks for processes, with more room if there are more than expected.
fn processes(
    ask: impl Fn(*mut c_uint, *mut ProcessInfo) -> Result<(), NvmlError>,
) -> Result<Vec<ProcessInfo>, NvmlError> {
    let mut room = 64;
    loop {
        let mut infos = vec![ProcessInfo::default(); room];
        let mut count = c_uint::try_from(room).unwrap_or(c_uint::MAX);
        match ask(&raw mut count, infos.as_mut_ptr()) {
            Ok(()) => {
                infos.truncate(count as usize);
                return Ok(infos);
            }
            // Some may start before the next call.
            Err(error) if error.code == INSUFFICIENT_SIZE && count as usize > room => {
                room = count as usize + 8;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processes_are_listed_however_many_there_are() {
        let ask = |present: u32| {
            processes(|count, infos| {
                // SAFETY: both are the caller's, and the count is the room in the list.
                unsafe {
                    let room = std::mem::replace(&mut *count, present);
                    if present > room {
                        let text = "Insufficient Size".to_owned();
                        return Err(NvmlError { call: "test", code: INSUFFICIENT_SIZE, text });
                    }
                    for process in 0..present {
                        let used = if process == 0 { NOT_AVAILABLE } else { 7 };
                        let info = ProcessInfo { process, used, ..ProcessInfo::default() };
                        infos.add(process as usize).write(info);
                    }
                }
                Ok(())
            })
        };
        for present in [0, 1, 64, 65, 1000] {
            let infos = ask(present).unwrap();
            assert!(infos.iter().map(|info| info.process).eq(0..present));
            assert!(infos.iter().all(|info| info.used() == (info.process > 0).then_some(7)));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_a_function_is_an_error_that_names_it() {
        let error = Library::open(OsStr::new("libc.so.6")).unwrap_err();
        assert_eq!(error, "libc.so.6: nvmlInit_v2: the library lacks it (13)");
    }
}
