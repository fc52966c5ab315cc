//! CUPTI: loads it from the path that the shim hands over, and subscribes to the driver's
//! allocation and free calls, and to those of captures.
//!
//! Layouts and numbers are from `cupti_callbacks.h` of CUPTI 12.4 (`nvidia-cuda-cupti-cu12`
//! 12.4.127) and 13.0 (`nvidia-cuda-cupti` 13.0.85), which agree.

use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};

use crate::blocks::site_figures::{AtNextMark, Changed, Interval};
use crate::blocks::size_count::SizeCount;
use crate::call::{self, CALLS};
use crate::calls::{self, Outcome};
use crate::driver;
use crate::gpu::rendezvous::{Figures, HOST, Rendezvous};
use crate::ledger::{Ledger, Place};
use crate::platform::untracked::Untracked;
use crate::state::{self, with_ledger};

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *mut c_char;
}

const RTLD_NOW: c_int = 2;

type Status = c_int;
type Subscriber = *mut c_void;
type Callback = extern "C" fn(*mut c_void, c_int, u32, *const CallbackData);

const SUCCESS: Status = 0;
/// `CUPTI_ERROR_MAX_LIMIT_REACHED` and `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const OTHER_SUBSCRIBER: [Status; 2] = [12, 39];
/// `CUPTI_CB_DOMAIN_DRIVER_API`.
const DRIVER_API: c_int = 1;
/// `CUPTI_API_ENTER`.
const ENTER: c_int = 0;

/// `CUpti_CallbackData`.
#[repr(C)]
struct CallbackData {
    site: c_int,
    function_name: *const c_char,
    parameters: *const c_void,
    /// A `CUresult` for the driver's calls; set at the exit only.
    return_value: *const c_int,
    symbol_name: *const c_char,
    context: *mut c_void,
    context_number: u32,
    correlation_data: *mut u64,
    /// The call's number, the same at its entry and its exit.
    correlation: u32,
}

/// Loads CUPTI, subscribes, and answers the shim. Returns the reason if that is not possible.
pub(crate) fn subscribe(rendezvous: &'static Rendezvous) -> Result<(), CString> {
    driver::find().map_err(words)?;
    let path = rendezvous.cupti();
    // SAFETY: the shim's path is a C string.
    let library = unsafe { dlopen(path, RTLD_NOW) };
    if library.is_null() {
        return Err(loading_failed());
    }
    macro_rules! function {
        ($name:literal, $type:ty) => {{
            // SAFETY: the handle is open and the name is a C string; the type is that of the
            // header.
            let address = unsafe { dlsym(library, concat!($name, "\0").as_ptr().cast()) };
            if address.is_null() {
                return Err(words(concat!("this CUPTI has no ", $name)));
            }
            unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
        }};
    }
    let subscribe =
        function!("cuptiSubscribe", unsafe extern "C" fn(*mut Subscriber, Callback, *mut c_void) -> Status);
    let enable =
        function!("cuptiEnableCallback", unsafe extern "C" fn(u32, Subscriber, c_int, u32) -> Status);
    let unsubscribe = function!("cuptiUnsubscribe", unsafe extern "C" fn(Subscriber) -> Status);
    state::open_ledger(Ledger::default());
    state::listen_at(rendezvous);

    let mut subscriber = std::ptr::null_mut();
    // SAFETY: the callback lives as long as the process, because this library is never unloaded.
    match unsafe { subscribe(&mut subscriber, called, std::ptr::null_mut()) } {
        SUCCESS => {}
        status if OTHER_SUBSCRIBER.contains(&status) => {
            return Err(words(&format!(
                "another tool in this process uses CUPTI (cuptiSubscribe: {status})"
            )));
        }
        status => return Err(words(&format!("cuptiSubscribe failed with error {status}"))),
    }
    for (number, _) in CALLS {
        // SAFETY: the subscriber is ours.
        let status = unsafe { enable(1, subscriber, DRIVER_API, number) };
        if status != SUCCESS && call::must_be_seen(number) {
            // SAFETY: as above; nothing else has it.
            unsafe { unsubscribe(subscriber) };
            return Err(words(&format!(
                "this CUPTI is too old: it does not know the driver's call {number} ({status})"
            )));
        }
    }
    rendezvous.answer_with_sites(sites);
    rendezvous.answer_with_live_sizes(live_sizes);
    rendezvous.answer(read);
    Ok(())
}

fn words(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// The loader's text names the file and what is wrong with it.
fn loading_failed() -> CString {
    // SAFETY: the text belongs to this thread until its next call of the loader.
    unsafe {
        let text = dlerror();
        if text.is_null() { words("CUPTI could not be loaded") } else { CStr::from_ptr(text).to_owned() }
    }
}

/// Called by CUPTI on the thread that calls the driver, before and after each call.
extern "C" fn called(_user: *mut c_void, domain: c_int, number: u32, data: *const CallbackData) {
    if domain != DRIVER_API || data.is_null() {
        return;
    }
    let call = match CALLS.iter().find(|(known, _)| *known == number) {
        Some((_, call)) => *call,
        None => return,
    };
    // SAFETY: CUPTI's data and the parameters of this call are valid during the callback.
    let data = unsafe { &*data };
    if data.site == ENTER {
        // SAFETY: as above.
        unsafe { calls::enter(call, data.parameters, data.correlation, data.context as u64) };
        return;
    }
    if data.return_value.is_null() {
        return;
    }
    // SAFETY: as above; at the exit there is a return value.
    let outcome = unsafe {
        calls::exit(call, data.parameters, data.correlation, data.context as u64, *data.return_value)
    };
    let rendezvous = match state::rendezvous() {
        Some(rendezvous) => rendezvous,
        None => return,
    };
    // The ledger's lock is not held here, because the shim may ask for figures.
    match outcome {
        Outcome::Usual => {}
        Outcome::FirstUse => rendezvous.tell_first_use(),
        Outcome::Refused { place, requested, live } => {
            rendezvous.tell_out_of_memory(ordinal_of(place), requested, live);
        }
    }
}

fn ordinal_of(place: Place) -> u32 {
    match place {
        Place::Device(ordinal) => ordinal,
        Place::Host => HOST,
    }
}

/// The shim calls this around the marks of checkpoints: see [`crate::gpu::rendezvous::Sites`].
extern "C" fn sites(
    ordinal: u32,
    at_next_mark: u32,
    interval: *mut Interval,
    into: *mut Changed,
    room: usize,
) -> usize {
    let place = if ordinal == HOST { Place::Host } else { Place::Device(ordinal) };
    with_ledger(|ledger| {
        if at_next_mark != 0 {
            let end = AtNextMark::End as u32;
            ledger.at_next_mark(if at_next_mark == end { AtNextMark::End } else { AtNextMark::Begin });
            return 0;
        }
        let account = match ledger.account_mut(place) {
            Some(account) => account,
            None => return 0,
        };
        let (ended, changed): (Interval, &Untracked<Changed>) = account.sites.ended();
        // SAFETY: the caller gives a place for the interval, and the array's length in `room`.
        unsafe {
            interval.write(ended);
            into.copy_from_nonoverlapping(changed.as_ptr(), changed.len().min(room));
        }
        changed.len()
    })
    .unwrap_or(0)
}

/// The shim calls this before checkpoints of a program that names tensors.
extern "C" fn live_sizes(ordinal: u32, into: *mut SizeCount, room: usize) -> usize {
    with_ledger(|ledger| {
        let sizes = ledger.live_sizes(Place::Device(ordinal));
        // SAFETY: the caller gives the array's length in `room`.
        unsafe { into.copy_from_nonoverlapping(sizes.as_ptr(), sizes.len().min(room)) };
        sizes.len()
    })
    .unwrap_or(0)
}

/// The shim calls this at each mark.
extern "C" fn read(figures: *mut Figures, room: usize, ends_interval: bool) -> usize {
    with_ledger(|ledger| {
        let mut count = 0;
        for account in ledger.accounts().iter().take(room) {
            let figure = Figures {
                ordinal: ordinal_of(account.place),
                has_uuid: u32::from(account.uuid.is_some()),
                uuid: account.uuid.unwrap_or_default(),
                live: account.level.live,
                peak: account.level.peak,
                pooled: account.level.pooled,
                managed: account.level.managed,
            };
            // SAFETY: the caller gives the array's length in `room`.
            unsafe { figures.add(count).write(figure) };
            count += 1;
        }
        if ends_interval {
            ledger.begin_interval();
        }
        count
    })
    .unwrap_or(0)
}
