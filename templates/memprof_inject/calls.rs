//! What each of the driver's calls does to the ledger.
//!
//! An allocation counts at its exit: then it has succeeded, and no other thread knows its address
//! yet. A free counts at its entry, before the driver can give the address to another thread.

use std::os::raw::{c_int, c_void};

use crate::allocation::Allocation;
use crate::call::Call;
use crate::driver;
use crate::ledger::{Block, Capture, Place, Space};
use crate::parameters::{Free, Map, Retain, Unmap};
use crate::state::{self, with_captures, with_ledger};

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: c_int = 2;

/// `CU_STREAM_PER_THREAD`. It and the numbers below mean default streams. A thread's capture of its
/// default stream is not followed: the shim learns of it from the driver.
const LAST_SPECIAL_STREAM: u64 = 2;

/// What the shim must learn about a call.
pub(crate) enum Outcome {
    Usual,
    /// Was the first allocation at its place.
    FirstUse,
    /// The driver refused it, because memory ran out.
    Refused {
        place: Place,
        requested: u64,
        /// Live bytes there at that moment.
        live: u64,
    },
}

/// Counts what a call frees, and notes a capture that it begins, before the driver does it.
///
/// # Safety
///
/// The parameters are those of this call.
pub(crate) unsafe fn enter(call: Call, parameters: *const c_void, correlation: u32, context: u64) {
    let (space, address) = match call {
        Call::Free | Call::FreeHost => (Space::Memory, (*parameters.cast::<Free>()).address),
        Call::Free32 => (Space::Memory, u64::from(*parameters.cast::<u32>())),
        Call::DestroyArray => (Space::Array, (*parameters.cast::<Free>()).address),
        Call::DestroyMipmappedArray => (Space::MipmappedArray, (*parameters.cast::<Free>()).address),
        Call::Release => {
            let handle = (*parameters.cast::<Free>()).address;
            with_ledger(|ledger| ledger.begin_release(correlation, handle));
            return;
        }
        Call::BeginCapture => {
            let stream = (*parameters.cast::<Free>()).address;
            if stream > LAST_SPECIAL_STREAM {
                let capture = Capture { stream, context, owner: driver::current_device() };
                with_captures(|ledger| ledger.begin_capture(capture));
            }
            return;
        }
        Call::DestroyStream => {
            let stream = (*parameters.cast::<Free>()).address;
            with_captures(|ledger| ledger.end_capture(stream));
            return;
        }
        _ => return,
    };
    with_ledger(|ledger| ledger.begin_free(correlation, space, address));
}

/// Counts what a call did, after the driver has done it.
///
/// # Safety
///
/// The parameters are those of this call, and what they point to is as the driver left it.
pub(crate) unsafe fn exit(
    call: Call,
    parameters: *const c_void,
    correlation: u32,
    context: u64,
    status: c_int,
) -> Outcome {
    let succeeded = status == 0;
    if let Some(allocation) = Allocation::of_call(call, parameters, succeeded) {
        return match status {
            0 => count(&allocation, context),
            OUT_OF_MEMORY => {
                let place = allocation.place;
                let live = with_ledger(|ledger| ledger.live(place)).unwrap_or(0);
                Outcome::Refused { place, requested: allocation.bytes, live }
            }
            _ => Outcome::Usual,
        };
    }
    match call {
        Call::Free
        | Call::Free32
        | Call::FreeHost
        | Call::DestroyArray
        | Call::DestroyMipmappedArray
        | Call::Release => {
            with_ledger(|ledger| ledger.end_free(correlation, succeeded));
        }
        Call::BeginCapture | Call::EndCapture => {
            let stream = (*parameters.cast::<Free>()).address;
            if !driver::is_captured(stream) {
                with_captures(|ledger| ledger.end_capture(stream));
            }
        }
        _ if succeeded => note(call, parameters),
        _ => {}
    }
    Outcome::Usual
}

/// Notes mappings and contexts: what they hold, and what ends with them.
///
/// # Safety
///
/// As for [`exit`]; the call has succeeded.
unsafe fn note(call: Call, parameters: *const c_void) {
    match call {
        Call::Map => {
            let map = &*parameters.cast::<Map>();
            with_ledger(|ledger| ledger.map(map.address, map.bytes as u64, map.handle));
        }
        Call::Unmap => {
            let unmap = &*parameters.cast::<Unmap>();
            with_ledger(|ledger| ledger.unmap(unmap.address, unmap.bytes as u64));
        }
        Call::Retain => {
            let retain = &*parameters.cast::<Retain>();
            with_ledger(|ledger| ledger.retain(retain.address, *retain.handle));
        }
        Call::CreateContext => {
            // In all versions, the first parameter points to the new context.
            let context = **parameters.cast::<*const u64>();
            with_ledger(|ledger| ledger.begin_context(context));
        }
        Call::DestroyContext => {
            let context = (*parameters.cast::<Free>()).address;
            with_captures(|ledger| ledger.end_context(context));
        }
        Call::ResetPrimaryContext => {
            let device = *parameters.cast::<c_int>();
            if driver::has_no_primary_context(device) {
                if let Ok(ordinal) = u32::try_from(device) {
                    with_captures(|ledger| ledger.end_primary_context(ordinal));
                }
            }
        }
        _ => {}
    }
}

fn count(allocation: &Allocation, context: u64) -> Outcome {
    let &Allocation { space, address, bytes, place, kind } = allocation;
    let is_first = with_ledger(|ledger| ledger.knows(place)) == Some(false);
    let uuid = match place {
        Place::Device(ordinal) if is_first => driver::uuid(ordinal),
        _ => None,
    };
    let owner = match place {
        Place::Device(ordinal) => Some(ordinal),
        Place::Host => driver::current_device(),
    };
    // The ledger's lock is not held here.
    let block = Block { bytes, place, kind, context, owner, site: state::current_site() };
    with_ledger(|ledger| {
        ledger.open(place, uuid);
        match space {
            Some(space) => ledger.add(space, address, block),
            None => ledger.create(address, block),
        }
    });
    if is_first { Outcome::FirstUse } else { Outcome::Usual }
}
