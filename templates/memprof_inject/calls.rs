//! The driver's calls that allocate and free: their numbers, their parameters, and what each does to the ledger.
//!
//! Numbers (`cupti_driver_cbid.h`) and parameters (`generated_cuda_meta.h`) were read from the headers of CUPTI 12.4
//! (`nvidia-cuda-cupti-cu12` 12.4.127) and 13.0 (`nvidia-cuda-cupti` 13.0.85), where they are the same: CUPTI gives new
//! calls new numbers and keeps the old ones. Structures that they point to are of `cuda.h` 13.0.
//!
//! An allocation is counted at its exit, when it has succeeded and its address is known, and nobody else knows it yet. A
//! free is counted at its entry, before the address can be given to another thread.

use std::os::raw::{c_int, c_uint, c_void};

use crate::cupti::with_ledger;
use crate::driver::{self, Home};
use crate::ledger::{Block, Kind, Place, Space};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Allocate,
    Allocate32,
    AllocatePitch,
    AllocatePitch32,
    AllocateManaged,
    AllocateAsync,
    AllocateFromPool,
    AllocateHost,
    AllocateHost32,
    CreateArray,
    CreateArray3,
    CreateMipmappedArray,
    Create,
    Map,
    Unmap,
    Retain,
    Free,
    Free32,
    FreeHost,
    DestroyArray,
    DestroyMipmappedArray,
    Release,
    CreateContext,
    DestroyContext,
    ResetPrimaryContext,
}

/// Calls without which figures are right all the same: those of CUDA 3, which no program of 64 bits can use, and the
/// making and ending of contexts, of which each driver has its own version.
const DISPENSABLE: [u32; 15] = [29, 31, 33, 37, 271, 10, 235, 645, 757, 11, 322, 387, 389, 544, 545];

/// Whether figures would be too low if CUPTI did not know the call: one older than CUDA 11.2 lacks the memory pools'.
pub(crate) fn must_be_seen(number: u32) -> bool {
    !DISPENSABLE.contains(&number)
}

/// `CUPTI_DRIVER_TRACE_CBID_…`
pub(crate) const CALLS: [(u32, Call); 38] = [
    (29, Call::Allocate32),             // cuMemAlloc
    (31, Call::AllocatePitch32),        // cuMemAllocPitch
    (33, Call::Free32),                 // cuMemFree
    (37, Call::AllocateHost32),         // cuMemAllocHost
    (38, Call::FreeHost),               // cuMemFreeHost
    (39, Call::AllocateHost),           // cuMemHostAlloc
    (89, Call::DestroyArray),           // cuArrayDestroy
    (243, Call::Allocate),              // cuMemAlloc_v2
    (244, Call::AllocatePitch),         // cuMemAllocPitch_v2
    (245, Call::Free),                  // cuMemFree_v2
    (271, Call::AllocateHost),          // cuMemHostAlloc_v2
    (272, Call::CreateArray),           // cuArrayCreate_v2
    (274, Call::CreateArray3),          // cuArray3DCreate_v2
    (294, Call::AllocateHost),          // cuMemAllocHost_v2
    (347, Call::CreateMipmappedArray),  // cuMipmappedArrayCreate
    (349, Call::DestroyMipmappedArray), // cuMipmappedArrayDestroy
    (371, Call::AllocateManaged),       // cuMemAllocManaged
    (549, Call::Create),                // cuMemCreate
    (550, Call::Release),               // cuMemRelease
    (551, Call::Map),                   // cuMemMap
    (552, Call::Unmap),                 // cuMemUnmap
    (565, Call::Retain),                // cuMemRetainAllocationHandle
    (598, Call::AllocateAsync),         // cuMemAllocAsync
    (599, Call::AllocateAsync),         // cuMemAllocAsync_ptsz
    (600, Call::Free),                  // cuMemFreeAsync
    (601, Call::Free),                  // cuMemFreeAsync_ptsz
    (611, Call::AllocateFromPool),      // cuMemAllocFromPoolAsync
    (612, Call::AllocateFromPool),      // cuMemAllocFromPoolAsync_ptsz
    (10, Call::CreateContext),          // cuCtxCreate
    (235, Call::CreateContext),         // cuCtxCreate_v2
    (645, Call::CreateContext),         // cuCtxCreate_v3
    (757, Call::CreateContext),         // cuCtxCreate_v4
    (11, Call::DestroyContext),         // cuCtxDestroy
    (322, Call::DestroyContext),        // cuCtxDestroy_v2
    (387, Call::ResetPrimaryContext),   // cuDevicePrimaryCtxRelease
    (389, Call::ResetPrimaryContext),   // cuDevicePrimaryCtxReset
    (544, Call::ResetPrimaryContext),   // cuDevicePrimaryCtxRelease_v2
    (545, Call::ResetPrimaryContext),   // cuDevicePrimaryCtxReset_v2
];

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: c_int = 2;

/// `CUmemLocationType`: on a device. All others are of the host.
const LOCATION_DEVICE: c_int = 1;

/// What the shim is to know of a call.
pub(crate) enum Outcome {
    Usual,
    /// It was the first allocation at its place.
    FirstUse,
    /// There was no memory for it.
    Refused {
        place: Place,
        requested: u64,
        /// Bytes live there at that moment.
        live: u64,
    },
}

/// `cuMemAlloc_v2_params`, and the beginning of those of `cuMemAllocManaged`, `cuMemAllocAsync`,
/// `cuMemAllocFromPoolAsync`, `cuMemHostAlloc` and `cuMemAllocHost_v2`.
#[repr(C)]
struct Allocate {
    address: *const u64,
    bytes: usize,
}

/// `cuMemAlloc_params` and `cuMemAllocHost_params`, of CUDA 3.1 and before.
#[repr(C)]
struct Allocate32<A> {
    address: *const A,
    bytes: c_uint,
}

/// `cuMemAllocPitch_v2_params`.
#[repr(C)]
struct AllocatePitch {
    address: *const u64,
    pitch: *const usize,
    width: usize,
    height: usize,
    element_size: c_uint,
}

/// `cuMemAllocPitch_params`.
#[repr(C)]
struct AllocatePitch32 {
    address: *const u32,
    pitch: *const c_uint,
    width: c_uint,
    height: c_uint,
    element_size: c_uint,
}

/// `cuMemFree_v2_params`, and the beginning of those of `cuMemFreeAsync`, `cuMemFreeHost`, `cuMemRelease`,
/// `cuArrayDestroy`, `cuMipmappedArrayDestroy` and `cuCtxDestroy`.
#[repr(C)]
struct Free {
    address: u64,
}

/// `cuMemCreate_params`.
#[repr(C)]
struct Create {
    handle: *const u64,
    bytes: usize,
    properties: *const AllocationProperties,
    flags: u64,
}

/// `CUmemAllocationProp`, up to its location.
#[repr(C)]
struct AllocationProperties {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location: c_int,
}

/// `cuMemMap_params`.
#[repr(C)]
struct Map {
    address: u64,
    bytes: usize,
    offset: usize,
    handle: u64,
    flags: u64,
}

/// `cuMemUnmap_params`.
#[repr(C)]
struct Unmap {
    address: u64,
    bytes: usize,
}

/// `cuMemRetainAllocationHandle_params`.
#[repr(C)]
struct Retain {
    handle: *const u64,
    address: u64,
}

/// `cuArrayCreate_v2_params`, `cuArray3DCreate_v2_params` and the beginning of `cuMipmappedArrayCreate_params`.
#[repr(C)]
struct CreateArray<D> {
    handle: *const u64,
    descriptor: *const D,
    levels: c_uint,
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
struct ArrayDescriptor {
    width: usize,
    height: usize,
    format: c_int,
    channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
struct Array3Descriptor {
    width: usize,
    height: usize,
    depth: usize,
    format: c_int,
    channels: c_uint,
    flags: c_uint,
}

/// `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`: arrays that have no memory until some is mapped to them.
const WITHOUT_MEMORY: c_uint = 0x40 | 0x80;

/// Before a call.
///
/// # Safety
///
/// The parameters are those of this call.
pub(crate) unsafe fn enter(call: Call, parameters: *const c_void, correlation: u32) {
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
        _ => return,
    };
    with_ledger(|ledger| ledger.begin_free(correlation, space, address));
}

/// After a call.
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
    if let Some(allocation) = allocation(call, parameters, status == 0) {
        return match status {
            0 => count_in(allocation, context),
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
            with_ledger(|ledger| ledger.end_free(correlation, status == 0));
        }
        _ if status != 0 => {}
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
            // All versions begin with where the context is put.
            let context = **parameters.cast::<*const u64>();
            with_ledger(|ledger| ledger.begin_context(context));
        }
        Call::DestroyContext => {
            let context = (*parameters.cast::<Free>()).address;
            with_ledger(|ledger| ledger.end_context(context));
        }
        Call::ResetPrimaryContext => {
            let device = *parameters.cast::<c_int>();
            if driver::has_no_primary_context(device) {
                with_ledger(|ledger| ledger.end_primary_context(device as u32));
            }
        }
        _ => {}
    }
    Outcome::Usual
}

/// What a call asked for and, if it succeeded, was given.
struct Allocation {
    /// `None` for `cuMemCreate`, whose handles are no addresses.
    space: Option<Space>,
    address: u64,
    bytes: u64,
    place: Place,
    kind: Kind,
}

/// `None` if the call allocates nothing, or nothing that could be placed or measured.
unsafe fn allocation(call: Call, parameters: *const c_void, succeeded: bool) -> Option<Allocation> {
    let given = |address: *const u64| if succeeded { *address } else { 0 };
    let direct = |address: u64, bytes: u64| {
        let place = Place::Device(driver::current_device()?);
        Some(Allocation { space: Some(Space::Memory), address, bytes, place, kind: Kind::Direct })
    };
    match call {
        Call::Allocate => {
            let allocate = &*parameters.cast::<Allocate>();
            direct(given(allocate.address), allocate.bytes as u64)
        }
        Call::Allocate32 => {
            let allocate = &*parameters.cast::<Allocate32<u32>>();
            let address = if succeeded { u64::from(*allocate.address) } else { 0 };
            direct(address, u64::from(allocate.bytes))
        }
        Call::AllocatePitch => {
            let allocate = &*parameters.cast::<AllocatePitch>();
            // A row is as long as the driver found best.
            let row = if succeeded { *allocate.pitch } else { allocate.width };
            direct(given(allocate.address), row as u64 * allocate.height as u64)
        }
        Call::AllocatePitch32 => {
            let allocate = &*parameters.cast::<AllocatePitch32>();
            let (address, row) =
                if succeeded { (u64::from(*allocate.address), *allocate.pitch) } else { (0, allocate.width) };
            direct(address, u64::from(row) * u64::from(allocate.height))
        }
        Call::AllocateManaged => {
            let allocate = &*parameters.cast::<Allocate>();
            let managed = direct(given(allocate.address), allocate.bytes as u64)?;
            Some(Allocation { kind: Kind::Managed, ..managed })
        }
        Call::AllocateAsync => {
            let allocate = &*parameters.cast::<Allocate>();
            let address = given(allocate.address);
            let of_pointer = if succeeded { driver::device_of_pointer(address) } else { None };
            let place = Place::Device(of_pointer.or_else(driver::current_device)?);
            let bytes = allocate.bytes as u64;
            Some(Allocation { space: Some(Space::Memory), address, bytes, place, kind: Kind::Pooled })
        }
        Call::AllocateFromPool => {
            let allocate = &*parameters.cast::<Allocate>();
            let address = given(allocate.address);
            let of_pointer = if succeeded { driver::home_of_pointer(address) } else { None };
            let place = match of_pointer {
                Some(Home::Host) => Place::Host,
                Some(Home::Device(ordinal)) => Place::Device(ordinal),
                None => Place::Device(driver::current_device()?),
            };
            let bytes = allocate.bytes as u64;
            Some(Allocation { space: Some(Space::Memory), address, bytes, place, kind: Kind::Pooled })
        }
        Call::AllocateHost => {
            let allocate = &*parameters.cast::<Allocate>();
            Some(host(given(allocate.address), allocate.bytes as u64))
        }
        Call::AllocateHost32 => {
            let allocate = &*parameters.cast::<Allocate32<u64>>();
            Some(host(given(allocate.address), u64::from(allocate.bytes)))
        }
        Call::Create => {
            let create = &*parameters.cast::<Create>();
            let properties = create.properties.as_ref()?;
            let place = if properties.location_kind == LOCATION_DEVICE {
                Place::Device(u32::try_from(properties.location).ok()?)
            } else {
                Place::Host
            };
            let (address, bytes) = (given(create.handle), create.bytes as u64);
            Some(Allocation { space: None, address, bytes, place, kind: Kind::Virtual })
        }
        Call::CreateArray => {
            let create = &*parameters.cast::<CreateArray<ArrayDescriptor>>();
            let descriptor = create.descriptor.as_ref()?;
            let size = [descriptor.width, descriptor.height, 1];
            let bytes = array_bytes(size, descriptor.format, descriptor.channels)?;
            let array = direct(given(create.handle), bytes)?;
            Some(Allocation { space: Some(Space::Array), ..array })
        }
        Call::CreateArray3 | Call::CreateMipmappedArray => {
            let create = &*parameters.cast::<CreateArray<Array3Descriptor>>();
            let descriptor = create.descriptor.as_ref()?;
            if descriptor.flags & WITHOUT_MEMORY != 0 {
                return None;
            }
            let (levels, space) = if call == Call::CreateArray3 {
                (1, Space::Array)
            } else {
                (create.levels, Space::MipmappedArray)
            };
            let bytes = mipmapped_bytes(descriptor, levels)?;
            let array = direct(given(create.handle), bytes)?;
            Some(Allocation { space: Some(space), ..array })
        }
        _ => None,
    }
}

fn host(address: u64, bytes: u64) -> Allocation {
    Allocation { space: Some(Space::Memory), address, bytes, place: Place::Host, kind: Kind::Direct }
}

fn count_in(allocation: Allocation, context: u64) -> Outcome {
    let Allocation { space, address, bytes, place, kind } = allocation;
    let is_first = with_ledger(|ledger| ledger.knows(place)) == Some(false);
    let uuid = match place {
        Place::Device(ordinal) if is_first => driver::uuid(ordinal),
        _ => None,
    };
    let owner = match place {
        Place::Device(ordinal) => Some(ordinal),
        Place::Host => driver::current_device(),
    };
    let block = Block { bytes, place, kind, context, owner };
    with_ledger(|ledger| {
        ledger.open(place, uuid);
        match space {
            Some(space) => ledger.add(space, address, block),
            None => ledger.create(address, block),
        }
    });
    if is_first { Outcome::FirstUse } else { Outcome::Usual }
}

/// Each level is half as wide, high and deep as the one before. Layers are not halved, and stand as depth in the
/// descriptor.
fn mipmapped_bytes(descriptor: &Array3Descriptor, levels: c_uint) -> Option<u64> {
    /// `CUDA_ARRAY3D_LAYERED` and `CUDA_ARRAY3D_CUBEMAP`.
    const LAYERS: c_uint = 0x01 | 0x04;
    let mut size = [descriptor.width, descriptor.height, descriptor.depth];
    let mut bytes = 0;
    for _ in 0..levels.clamp(1, 64) {
        bytes += array_bytes(size, descriptor.format, descriptor.channels)?;
        let halved = if descriptor.flags & LAYERS == 0 { 3 } else { 2 };
        for length in &mut size[..halved] {
            // Zero says that there is no such direction.
            if *length > 1 {
                *length /= 2;
            }
        }
    }
    Some(bytes)
}

/// Elements times their size, as far as the format has elements: video and compressed formats are not counted.
fn array_bytes(size: [usize; 3], format: c_int, channels: c_uint) -> Option<u64> {
    let channel = match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => return None,
    };
    let elements = size.iter().map(|&length| length.max(1) as u64).product::<u64>();
    Some(elements * u64::from(channels) * channel)
}
