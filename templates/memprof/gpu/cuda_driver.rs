//! The CUDA driver, after the program itself has loaded it: the devices in use, waiting for them,
//! and the figures of the default memory pool.
//!
//! Nothing here loads or initialises the driver, or makes a context, unless the program asks for it
//! ([`load`]). A program that does not use CUDA is left alone, and one that does keeps the devices that
//! it chose. Types and numbers are
//! from `cuda.h` 13.0.

use std::os::raw::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use crate::platform::loaded;
use crate::platform::untracked::{kept, kept_value};
use crate::shared::library::{Library, function};

type Status = c_int;
pub(crate) type DeviceHandle = c_int;
type Context = *mut c_void;
type MemoryPool = *mut c_void;

const SUCCESS: Status = 0;
/// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`.
const CAPTURE_IMPLICIT: Status = 906;
/// `CU_STREAM_LEGACY`.
const LEGACY_STREAM: u64 = 1;

/// `CUmemPool_attribute`.
const RESERVED_NOW: c_int = 5;
const RESERVED_HIGH: c_int = 6;
const USED_NOW: c_int = 7;
const USED_HIGH: c_int = 8;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

#[derive(Clone, Copy)]
pub(crate) struct Driver {
    device_count: unsafe extern "C" fn(*mut c_int) -> Status,
    device: unsafe extern "C" fn(*mut DeviceHandle, c_int) -> Status,
    uuid: unsafe extern "C" fn(*mut [u8; 16], DeviceHandle) -> Status,
    current_context: unsafe extern "C" fn(*mut Context) -> Status,
    context_device: unsafe extern "C" fn(*mut DeviceHandle) -> Status,
    context_version: Option<unsafe extern "C" fn(Context, *mut c_uint) -> Status>,
    synchronise: unsafe extern "C" fn() -> Status,
    push: unsafe extern "C" fn(Context) -> Status,
    pop: unsafe extern "C" fn(*mut Context) -> Status,
    primary_state: unsafe extern "C" fn(DeviceHandle, *mut c_uint, *mut c_int) -> Status,
    primary_retain: unsafe extern "C" fn(*mut Context, DeviceHandle) -> Status,
    primary_release: unsafe extern "C" fn(DeviceHandle) -> Status,
    capture_mode: Option<unsafe extern "C" fn(*mut c_int) -> Status>,
    stream_capture: Option<unsafe extern "C" fn(u64, *mut c_int) -> Status>,
    default_pool: Option<unsafe extern "C" fn(*mut MemoryPool, DeviceHandle) -> Status>,
    pool_attribute: Option<unsafe extern "C" fn(MemoryPool, c_int, *mut c_void) -> Status>,
    set_pool_attribute: Option<unsafe extern "C" fn(MemoryPool, c_int, *mut c_void) -> Status>,
    trim_pool: Option<unsafe extern "C" fn(MemoryPool, usize) -> Status>,
}

/// The figures of a memory pool, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct PoolFigures {
    pub(crate) used: u64,
    /// Since the last call.
    pub(crate) used_peak: u64,
    pub(crate) reserved: u64,
    /// Since the last call.
    pub(crate) reserved_peak: u64,
}

/// A device's default pool.
#[derive(Clone, Copy)]
pub(crate) struct Pool(MemoryPool);

// SAFETY: the driver accepts it from any thread.
unsafe impl Send for Pool {}

/// Gives the thread its own capture mode back when dropped.
pub(crate) struct RelaxedCaptures {
    exchange: unsafe extern "C" fn(*mut c_int) -> Status,
    mode: c_int,
}

impl Drop for RelaxedCaptures {
    fn drop(&mut self) {
        // SAFETY: the type is the driver's, which writes the mode of before.
        unsafe { (self.exchange)(&mut self.mode) };
    }
}

/// The driver, once found; never freed.
static FOUND: AtomicPtr<Driver> = AtomicPtr::new(std::ptr::null_mut());
/// How many objects the process had loaded at the last look for the driver.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);
/// Set before the driver's own exit handlers run. After them, a call of the driver may never
/// return.
static ENDED: AtomicBool = AtomicBool::new(false);
/// `MEMPROF_SYNC=0` clears it.
static SYNCHRONISES: AtomicBool = AtomicBool::new(true);

/// The driver, if [`look`] has found it in this process and it may still be called.
pub(crate) fn in_use() -> Option<&'static Driver> {
    if ENDED.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: it was published whole and is never freed.
    unsafe { FOUND.load(Ordering::Acquire).as_ref() }
}

/// Looks for the driver if libraries were loaded since the last time.
pub(crate) fn look() {
    let loads = loaded::loads();
    if !FOUND.load(Ordering::Relaxed).is_null() || LOOKED_AT.swap(loads, Ordering::Relaxed) == loads {
        return;
    }
    // The handle keeps the library loaded, so its functions stay valid.
    let library = loaded::find(is_the_driver).and_then(|path| Library::loaded(path.as_c_str()));
    if let Some(driver) = library.and_then(Driver::from_library) {
        let driver: *const Driver = kept_value(driver);
        FOUND.store(driver as *mut Driver, Ordering::Release);
    }
}

/// Loads and initialises the driver. Returns the reason to give if [`look`] does not find it then.
pub(crate) fn load() -> Result<&'static str, &'static str> {
    let library = Library::open(b"libcuda.so.1\0")?;
    let lacks = "libcuda.so.1 lacks a function that memprof needs";
    let initialise: unsafe extern "C" fn(c_uint) -> Status = function!(library, "cuInit").ok_or(lacks)?;
    // SAFETY: the type is the driver's, which allows more than one such call.
    match unsafe { initialise(0) } {
        SUCCESS => Ok(lacks),
        status => Err(kept(format_args!("cuInit failed with error {status}"))),
    }
}

/// `libcuda.so`, `libcuda.so.1`, `libcuda.so.580.65.06`; not the debugger's `libcudadebugger.so.1`.
fn is_the_driver(file_name: &[u8]) -> bool {
    file_name.starts_with(b"libcuda.so")
}

/// Ends all calls of the driver.
pub(crate) fn end() {
    ENDED.store(true, Ordering::Relaxed);
}

pub(crate) fn set_synchronises(synchronises: bool) {
    SYNCHRONISES.store(synchronises, Ordering::Relaxed);
}

/// Waits for the work on all devices in use, so that the figures belong to a moment that the
/// program knows.
///
/// The caller must not hold a lock that the program's own code may want: functions that it put on a
/// stream run meanwhile.
pub(crate) fn synchronise() {
    if !SYNCHRONISES.load(Ordering::Relaxed) {
        return;
    }
    if let Some(driver) = in_use() {
        driver.synchronise_all();
    }
}

impl Driver {
    fn from_library(library: Library) -> Option<Self> {
        Some(Self {
            device_count: function!(library, "cuDeviceGetCount")?,
            device: function!(library, "cuDeviceGet")?,
            // The second version, since CUDA 11.4, tells the parts of a MIG device apart.
            uuid: function!(library, "cuDeviceGetUuid_v2")
                .or_else(|| function!(library, "cuDeviceGetUuid"))?,
            current_context: function!(library, "cuCtxGetCurrent")?,
            context_device: function!(library, "cuCtxGetDevice")?,
            context_version: function!(library, "cuCtxGetApiVersion"),
            synchronise: function!(library, "cuCtxSynchronize")?,
            push: function!(library, "cuCtxPushCurrent_v2")?,
            pop: function!(library, "cuCtxPopCurrent_v2")?,
            primary_state: function!(library, "cuDevicePrimaryCtxGetState")?,
            primary_retain: function!(library, "cuDevicePrimaryCtxRetain")?,
            primary_release: function!(library, "cuDevicePrimaryCtxRelease_v2")
                .or_else(|| function!(library, "cuDevicePrimaryCtxRelease"))?,
            capture_mode: function!(library, "cuThreadExchangeStreamCaptureMode"),
            stream_capture: function!(library, "cuStreamIsCapturing"),
            default_pool: function!(library, "cuDeviceGetDefaultMemPool"),
            pool_attribute: function!(library, "cuMemPoolGetAttribute"),
            set_pool_attribute: function!(library, "cuMemPoolSetAttribute"),
            trim_pool: function!(library, "cuMemPoolTrimTo"),
        })
    }

    /// How many devices the program can see; 0 before it has initialised the driver.
    pub(crate) fn device_count(&self) -> u32 {
        let mut count = 0;
        // SAFETY: for this and all calls below: the types are the driver's, and what it writes to
        // lives long enough.
        let status = unsafe { (self.device_count)(&mut count) };
        succeeded(status, count).and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
    }

    /// The device with this ordinal, among those that `CUDA_VISIBLE_DEVICES` allows.
    pub(crate) fn device(&self, ordinal: u32) -> Option<DeviceHandle> {
        let ordinal = c_int::try_from(ordinal).ok()?;
        let mut device = 0;
        // SAFETY: as above.
        succeeded(unsafe { (self.device)(&mut device, ordinal) }, device)
    }

    pub(crate) fn uuid(&self, device: DeviceHandle) -> Option<[u8; 16]> {
        let mut uuid = [0; 16];
        // SAFETY: as above.
        let status = unsafe { (self.uuid)(&mut uuid, device) };
        succeeded(status, uuid)
    }

    /// This thread's context with its device, if it has one.
    fn current(&self) -> Option<(Context, DeviceHandle)> {
        let mut context = std::ptr::null_mut();
        let mut device = 0;
        // SAFETY: as above.
        unsafe {
            if (self.current_context)(&mut context) != SUCCESS || context.is_null() {
                return None;
            }
            succeeded((self.context_device)(&mut device), (context, device))
        }
    }

    /// The device of this thread's context, if it has one.
    pub(crate) fn current_device(&self) -> Option<DeviceHandle> {
        self.current().map(|(_, device)| device)
    }

    /// Whether the device's primary context exists. Frameworks and the CUDA runtime use that one.
    pub(crate) fn has_primary_context(&self, device: DeviceHandle) -> bool {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: as above.
        unsafe { (self.primary_state)(device, &mut flags, &mut active) == SUCCESS && active != 0 }
    }

    /// Whether the program has a context on the device. A context of its own must be this thread's.
    pub(crate) fn has_context(&self, ordinal: u32) -> bool {
        self.device(ordinal).map_or(true, |device| {
            let is_on_it = |(context, of): (Context, DeviceHandle)| of == device && self.exists(context);
            self.has_primary_context(device) || self.current().map_or(false, is_on_it)
        })
    }

    /// Whether this thread's context still exists. A released primary context stays the thread's, and
    /// the driver still says on which device it was (driver 580).
    fn exists(&self, context: Context) -> bool {
        let mut version = 0;
        // SAFETY: as above. The driver knows the contexts that exist.
        self.context_version.map_or(true, |ask| unsafe { ask(context, &mut version) == SUCCESS })
    }

    /// Makes the primary context of a device, which stays to the end of the process.
    pub(crate) fn make_context(&self, ordinal: u32) -> Result<(), &'static str> {
        let device = self.device(ordinal).ok_or_else(|| {
            kept(format_args!("number of CUDA devices that the process sees: {}", self.device_count()))
        })?;
        let mut context = std::ptr::null_mut();
        // SAFETY: as above. It is never released.
        match unsafe { (self.primary_retain)(&mut context, device) } {
            SUCCESS => Ok(()),
            status => Err(kept(format_args!("cuDevicePrimaryCtxRetain failed with error {status}"))),
        }
    }

    fn synchronise_all(&self) {
        let _relaxed = self.relax_captures();
        let current = self.current().map(|(context, _)| context);
        if current.is_some() {
            self.synchronise_current();
        }
        for ordinal in 0..self.device_count() {
            if let Some(device) = self.device(ordinal) {
                if self.has_primary_context(device) {
                    self.synchronise_primary(device, current);
                }
            }
        }
    }

    /// Waits for the current context, unless one of its blocking streams is being captured. The driver
    /// tells nothing of other streams: see [`crate::gpu::rendezvous::Rendezvous::is_capturing`].
    fn synchronise_current(&self) {
        let mut capture = 0;
        // SAFETY: as above. An error of the wait comes from the program's earlier work, and the program
        // will get it again.
        unsafe {
            let asked = self.stream_capture.map(|ask| ask(LEGACY_STREAM, &mut capture));
            if asked != Some(CAPTURE_IMPLICIT) {
                (self.synchronise)();
            }
        }
    }

    /// Releases what the default pools of the devices in use hold and nobody uses.
    pub(crate) fn trim_default_pools(&self) {
        let trim = match self.trim_pool {
            Some(trim) => trim,
            None => return,
        };
        let _relaxed = self.relax_captures();
        let current = self.current_device();
        for ordinal in 0..self.device_count() {
            let device = self.device(ordinal);
            let is_in_use =
                |device: &DeviceHandle| current == Some(*device) || self.has_primary_context(*device);
            let pool = device.filter(is_in_use).and_then(|device| self.default_pool(device).ok());
            if let Some(pool) = pool {
                // SAFETY: as above. A pool that cannot be trimmed keeps what it holds.
                unsafe { trim(pool.0, 0) };
            }
        }
    }

    /// Lets this thread call the functions of pools, which would otherwise invalidate a stream capture
    /// in this thread or, in the global mode, in any other. A wait invalidates a capture nevertheless.
    pub(crate) fn relax_captures(&self) -> Option<RelaxedCaptures> {
        let exchange = self.capture_mode?;
        let mut mode = RELAXED;
        // SAFETY: as above.
        match unsafe { exchange(&mut mode) } {
            SUCCESS => Some(RelaxedCaptures { exchange, mode }),
            _ => None,
        }
    }

    /// Waits for the primary context, unless it is the current one, for which the caller has waited.
    /// Retaining gives access to a context that exists. It is released at once.
    fn synchronise_primary(&self, device: DeviceHandle, current: Option<Context>) {
        let mut context = std::ptr::null_mut();
        // SAFETY: as above; what was pushed is popped, and what was retained is released.
        unsafe {
            if (self.primary_retain)(&mut context, device) != SUCCESS {
                return;
            }
            if current != Some(context) && (self.push)(context) == SUCCESS {
                self.synchronise_current();
                (self.pop)(&mut context);
            }
            (self.primary_release)(device);
        }
    }

    /// The device's default pool, or the driver's error; 0 if the driver has no pools.
    pub(crate) fn default_pool(&self, device: DeviceHandle) -> Result<Pool, Status> {
        let mut pool = std::ptr::null_mut();
        let default_pool = self.default_pool.ok_or(0)?;
        // SAFETY: as above.
        match unsafe { default_pool(&mut pool, device) } {
            SUCCESS => Ok(Pool(pool)),
            status => Err(status),
        }
    }

    /// Reads the pool and begins a new interval for its peaks. If another thread allocates and
    /// frees in the tenth of a microsecond between these two, neither interval has it.
    pub(crate) fn pool_figures(&self, pool: Pool) -> Option<PoolFigures> {
        let used_peak = self.pool_attribute(pool, USED_HIGH)?;
        let reserved_peak = self.pool_attribute(pool, RESERVED_HIGH)?;
        let used = self.pool_attribute(pool, USED_NOW)?;
        let reserved = self.pool_attribute(pool, RESERVED_NOW)?;
        if let Some(set) = self.set_pool_attribute {
            // Zero is the only allowed value, and means the current one.
            for attribute in [USED_HIGH, RESERVED_HIGH] {
                let mut zero = 0_u64;
                // SAFETY: as above.
                unsafe { set(pool.0, attribute, std::ptr::addr_of_mut!(zero).cast()) };
            }
        }
        Some(PoolFigures {
            used,
            used_peak: used_peak.max(used),
            reserved,
            reserved_peak: reserved_peak.max(reserved),
        })
    }

    /// Bytes used and reserved now.
    pub(crate) fn pool_now(&self, pool: Pool) -> Option<(u64, u64)> {
        Some((self.pool_attribute(pool, USED_NOW)?, self.pool_attribute(pool, RESERVED_NOW)?))
    }

    fn pool_attribute(&self, pool: Pool, attribute: c_int) -> Option<u64> {
        let mut value = 0_u64;
        // SAFETY: as above.
        let status =
            unsafe { (self.pool_attribute?)(pool.0, attribute, std::ptr::addr_of_mut!(value).cast()) };
        succeeded(status, value)
    }
}

fn succeeded<T>(status: Status, value: T) -> Option<T> {
    if status == SUCCESS { Some(value) } else { None }
}
