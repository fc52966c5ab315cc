//! GPUs in a live notebook: NVML's figure for this process on each device that it uses. The driver is
//! neither loaded nor initialised here, and no context is made.

use std::ffi::CStr;
use std::os::raw::{c_int, c_uint, c_void};
use std::sync::Mutex;

use crate::platform::untracked::kept;
use crate::shared::library::{Library, function};
use crate::shared::nvml::{Nvml, Problem};

type Status = c_int;

const SUCCESS: Status = 0;

/// This process's bytes on a device, or why they are unknown.
pub(crate) struct GpuReading {
    /// NVML's index, or CUDA's ordinal as `cuda:0` where NVML does not know the device.
    pub(crate) device: &'static str,
    pub(crate) bytes: Result<u64, &'static str>,
}

/// The functions of the CUDA driver that are needed to find the devices in use.
struct Driver {
    device_count: unsafe extern "C" fn(*mut c_int) -> Status,
    device: unsafe extern "C" fn(*mut c_int, c_int) -> Status,
    uuid: unsafe extern "C" fn(*mut [u8; 16], c_int) -> Status,
    current_context: unsafe extern "C" fn(*mut *mut c_void) -> Status,
    context_device: unsafe extern "C" fn(*mut c_int) -> Status,
    synchronise: unsafe extern "C" fn() -> Status,
    primary_state: unsafe extern "C" fn(c_int, *mut c_uint, *mut c_int) -> Status,
}

static NVML: Mutex<Option<Result<Nvml, &'static str>>> = Mutex::new(None);

/// Returns the devices with a context of this process, after the work of the current one has ended.
pub(crate) fn read() -> Vec<GpuReading> {
    let name = CStr::from_bytes_with_nul(b"libcuda.so.1\0").ok();
    let driver = match name.and_then(Library::loaded).and_then(Driver::from_library) {
        Some(driver) => driver,
        None => return Vec::new(),
    };
    let mut nvml = match NVML.lock() {
        Ok(nvml) => nvml,
        Err(poisoned) => poisoned.into_inner(),
    };
    let current = driver.current_device();
    let devices = (0..driver.device_count()).filter_map(|ordinal| Some((ordinal, driver.device(ordinal)?)));
    let in_use = devices.filter(|(_, device)| current == Some(*device) || driver.has_context(*device));
    in_use.map(|(ordinal, device)| driver.read(ordinal, device, &mut nvml)).collect()
}

impl Driver {
    fn from_library(library: Library) -> Option<Self> {
        Some(Self {
            device_count: function!(library, "cuDeviceGetCount")?,
            device: function!(library, "cuDeviceGet")?,
            uuid: function!(library, "cuDeviceGetUuid_v2")
                .or_else(|| function!(library, "cuDeviceGetUuid"))?,
            current_context: function!(library, "cuCtxGetCurrent")?,
            context_device: function!(library, "cuCtxGetDevice")?,
            synchronise: function!(library, "cuCtxSynchronize")?,
            primary_state: function!(library, "cuDevicePrimaryCtxGetState")?,
        })
    }

    /// 0 before the program has initialised the driver.
    fn device_count(&self) -> c_int {
        let mut count = 0;
        // SAFETY: for this and all calls below: the types are the driver's, and what it writes to lives
        // long enough.
        if unsafe { (self.device_count)(&mut count) } == SUCCESS { count } else { 0 }
    }

    fn device(&self, ordinal: c_int) -> Option<c_int> {
        let mut device = 0;
        // SAFETY: as above.
        if unsafe { (self.device)(&mut device, ordinal) } == SUCCESS { Some(device) } else { None }
    }

    /// The device of this thread's context, whose work has ended then. An error of that work is the
    /// program's, which will get it again.
    fn current_device(&self) -> Option<c_int> {
        let mut context = std::ptr::null_mut();
        let mut device = 0;
        // SAFETY: as above.
        unsafe {
            if (self.current_context)(&mut context) != SUCCESS || context.is_null() {
                return None;
            }
            (self.synchronise)();
            if (self.context_device)(&mut device) == SUCCESS { Some(device) } else { None }
        }
    }

    fn has_context(&self, device: c_int) -> bool {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: as above.
        unsafe { (self.primary_state)(device, &mut flags, &mut active) == SUCCESS && active != 0 }
    }

    fn read(
        &self,
        ordinal: c_int,
        device: c_int,
        nvml: &mut Option<Result<Nvml, &'static str>>,
    ) -> GpuReading {
        let mut uuid = [0; 16];
        // SAFETY: as above.
        let status = unsafe { (self.uuid)(&mut uuid, device) };
        let found = match nvml.get_or_insert_with(Nvml::open) {
            Ok(nvml) => Ok(*nvml),
            Err(reason) => Err(*reason),
        };
        let found = found.and_then(|nvml| {
            let problem = Problem::Known("the CUDA driver does not tell the device's UUID");
            let device = if status == SUCCESS { nvml.device(uuid) } else { Err(problem) };
            device.map(|device| (nvml, device)).map_err(|problem| nvml.reason(problem))
        });
        match found {
            Ok((nvml, device)) => GpuReading {
                device: kept(format_args!("{}", device.index)),
                bytes: nvml.process_memory(device).map_err(|problem| nvml.reason(problem)),
            },
            Err(reason) => GpuReading { device: kept(format_args!("cuda:{ordinal}")), bytes: Err(reason) },
        }
    }
}
