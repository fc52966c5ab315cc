//! Questions to the driver from within its callbacks. None of these calls allocates or waits, and
//! none has a callback itself. Types are from `cuda.h` 13.0 and the same in 12.4.

use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

type Status = c_int;

const SUCCESS: Status = 0;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE` and `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const MEMORY_TYPE: c_int = 2;
const DEVICE_ORDINAL: c_int = 9;
/// `CU_MEMORYTYPE_HOST`.
const HOST_MEMORY: c_uint = 1;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

struct Driver {
    device_count: Option<unsafe extern "C" fn(*mut c_int) -> Status>,
    device: Option<unsafe extern "C" fn(*mut c_int, c_int) -> Status>,
    uuid: Option<unsafe extern "C" fn(*mut [u8; 16], c_int) -> Status>,
    context_device: Option<unsafe extern "C" fn(*mut c_int) -> Status>,
    pointer_attribute: Option<unsafe extern "C" fn(*mut c_void, c_int, u64) -> Status>,
    primary_state: Option<unsafe extern "C" fn(c_int, *mut c_uint, *mut c_int) -> Status>,
    stream_capture: Option<unsafe extern "C" fn(u64, *mut c_int) -> Status>,
}

static DRIVER: AtomicPtr<Driver> = AtomicPtr::new(std::ptr::null_mut());
/// How many devices the program can see; 0 before the first question.
static DEVICE_COUNT: AtomicI32 = AtomicI32::new(0);

/// The place of an allocation from a memory pool.
pub(crate) enum Home {
    Device(u32),
    Host,
}

/// Finds the functions, in the driver that is loading this library.
pub(crate) fn find() -> Result<(), &'static str> {
    // SAFETY: the name is a C string, and nothing is loaded.
    let library = unsafe { dlopen(b"libcuda.so.1\0".as_ptr().cast(), RTLD_LAZY | RTLD_NOLOAD) };
    if library.is_null() {
        return Err("libcuda.so.1 is not loaded under that name");
    }
    macro_rules! function {
        ($name:literal) => {{
            // SAFETY: the handle is open and the name is a C string; the types are those of the
            // header.
            let address = unsafe { dlsym(library, concat!($name, "\0").as_ptr().cast()) };
            // The type is that of the field which takes the function.
            #[allow(clippy::missing_transmute_annotations)]
            if address.is_null() {
                None
            } else {
                Some(unsafe { std::mem::transmute::<*mut c_void, _>(address) })
            }
        }};
    }
    let driver = Driver {
        device_count: function!("cuDeviceGetCount"),
        device: function!("cuDeviceGet"),
        uuid: function!("cuDeviceGetUuid_v2").or_else(|| function!("cuDeviceGetUuid")),
        context_device: function!("cuCtxGetDevice"),
        pointer_attribute: function!("cuPointerGetAttribute"),
        primary_state: function!("cuDevicePrimaryCtxGetState"),
        stream_capture: function!("cuStreamIsCapturing"),
    };
    if driver.context_device.is_none() {
        return Err("libcuda.so.1 has no cuCtxGetDevice");
    }
    DRIVER.store(Box::into_raw(Box::new(driver)), Ordering::Release);
    Ok(())
}

fn driver() -> Option<&'static Driver> {
    // SAFETY: it was published whole and is never freed.
    unsafe { DRIVER.load(Ordering::Acquire).as_ref() }
}

fn has_several_devices() -> bool {
    let mut count = DEVICE_COUNT.load(Ordering::Relaxed);
    if count == 0 {
        // SAFETY: for this and all calls below: the types are the driver's, and what it writes to
        // lives long enough.
        let asked = driver().and_then(|driver| driver.device_count).map(|ask| unsafe { ask(&mut count) });
        if asked == Some(SUCCESS) {
            DEVICE_COUNT.store(count, Ordering::Relaxed);
        }
    }
    count != 1
}

/// The device of this thread's context.
pub(crate) fn current_device() -> Option<u32> {
    if !has_several_devices() {
        return Some(0);
    }
    let mut device = 0;
    // SAFETY: as above.
    let status = unsafe { driver()?.context_device?(&mut device) };
    if status == SUCCESS { u32::try_from(device).ok() } else { None }
}

/// The device of memory from a stream's current pool. It is the stream's device, which need not be
/// the context's.
pub(crate) fn device_of_pointer(address: u64) -> Option<u32> {
    if !has_several_devices() {
        return Some(0);
    }
    let mut ordinal = 0;
    pointer_attribute(address, DEVICE_ORDINAL, &mut ordinal)?;
    u32::try_from(ordinal).ok()
}

/// The place of memory from any pool: maybe another device, or the host.
pub(crate) fn home_of_pointer(address: u64) -> Option<Home> {
    let mut kind: c_uint = 0;
    if pointer_attribute(address, MEMORY_TYPE, &mut kind).is_some() && kind == HOST_MEMORY {
        return Some(Home::Host);
    }
    device_of_pointer(address).map(Home::Device)
}

fn pointer_attribute<T>(address: u64, attribute: c_int, value: &mut T) -> Option<()> {
    let ask = driver()?.pointer_attribute?;
    // SAFETY: as above; both attributes have 32 bits.
    match unsafe { ask((value as *mut T).cast(), attribute, address) } {
        SUCCESS => Some(()),
        _ => None,
    }
}

pub(crate) fn uuid(ordinal: u32) -> Option<[u8; 16]> {
    let driver = driver()?;
    let (mut device, mut uuid) = (0, [0; 16]);
    // SAFETY: as above.
    unsafe {
        if driver.device?(&mut device, c_int::try_from(ordinal).ok()?) != SUCCESS {
            return None;
        }
        if driver.uuid?(&mut uuid, device) != SUCCESS {
            return None;
        }
    }
    Some(uuid)
}

/// Whether the device's primary context is gone.
pub(crate) fn has_no_primary_context(device: c_int) -> bool {
    let (mut flags, mut active) = (0, 1);
    let asked = driver()
        .and_then(|driver| driver.primary_state)
        // SAFETY: as above.
        .map(|ask| unsafe { ask(device, &mut flags, &mut active) });
    asked == Some(SUCCESS) && active == 0
}

/// Whether the stream's calls are captured into a graph.
pub(crate) fn is_captured(stream: u64) -> bool {
    /// `CU_STREAM_LEGACY`, which cannot be captured.
    const LEGACY: u64 = 1;
    /// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
    const ACTIVE: c_int = 1;
    let mut capture = 0;
    let ask = driver().and_then(|driver| driver.stream_capture).filter(|_| stream != LEGACY);
    // SAFETY: as above.
    let asked = ask.map(|ask| unsafe { ask(stream, &mut capture) });
    asked == Some(SUCCESS) && capture == ACTIVE
}
