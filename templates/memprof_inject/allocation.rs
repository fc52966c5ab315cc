//! What a driver call allocates: how many bytes, where, and under which name.

use std::os::raw::{c_int, c_uint, c_void};

use crate::call::Call;
use crate::driver::{self, Home};
use crate::ledger::{Kind, Place, Space};
use crate::parameters::{
    Allocate, Allocate32, AllocateAsync, AllocateFromPool, AllocatePitch, AllocatePitch32, Array3Descriptor,
    ArrayDescriptor, Create, CreateArray,
};

/// What a call asked for, and what it got if it succeeded.
pub(crate) struct Allocation {
    /// What `address` names; `None` for `cuMemCreate`, which returns a handle.
    pub(crate) space: Option<Space>,
    /// 0 if the call failed.
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
}

/// The address that a call returned, or 0 if it failed, and the bytes that it asked for.
#[derive(Clone, Copy)]
struct Span {
    address: u64,
    bytes: u64,
}

/// `CUmemLocationType`: on a device. All others are on the host.
const LOCATION_DEVICE: c_int = 1;

/// `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`: such arrays have no memory until some
/// is mapped to them.
const WITHOUT_MEMORY: c_uint = 0x40 | 0x80;

impl Allocation {
    /// Returns `None` if the call allocates nothing, or if the place or the size is not known.
    ///
    /// # Safety
    ///
    /// The parameters are those of this call. If it succeeded, what they point to is as the driver
    /// left it.
    pub(crate) unsafe fn of_call(call: Call, parameters: *const c_void, succeeded: bool) -> Option<Self> {
        match call {
            Call::Allocate => Self::on_device(span(parameters.cast(), succeeded), Kind::Direct),
            Call::Allocate32 => {
                Self::on_device(span_32(parameters.cast::<Allocate32<u32>>(), succeeded), Kind::Direct)
            }
            Call::AllocatePitch => Self::on_device(pitched(parameters.cast(), succeeded), Kind::Direct),
            Call::AllocatePitch32 => Self::on_device(pitched_32(parameters.cast(), succeeded), Kind::Direct),
            Call::AllocateManaged => Self::on_device(span(parameters.cast(), succeeded), Kind::Managed),
            Call::AllocateAsync(zero) => {
                let stream = (*parameters.cast::<AllocateAsync>()).stream;
                if succeeded && is_captured(stream, zero) {
                    return None;
                }
                Self::from_current_pool(span(parameters.cast(), succeeded), succeeded)
            }
            Call::AllocateFromPool(zero) => {
                let stream = (*parameters.cast::<AllocateFromPool>()).stream;
                if succeeded && is_captured(stream, zero) {
                    return None;
                }
                Self::from_any_pool(span(parameters.cast(), succeeded), succeeded)
            }
            Call::AllocateHost => Some(Self::on_host(span(parameters.cast(), succeeded))),
            Call::AllocateHost32 => {
                Some(Self::on_host(span_32(parameters.cast::<Allocate32<u64>>(), succeeded)))
            }
            Call::Create => Self::physical(&*parameters.cast(), succeeded),
            Call::CreateArray => Self::array(&*parameters.cast(), succeeded),
            Call::CreateArray3 => Self::array_3(&*parameters.cast(), succeeded, 1, Space::Array),
            Call::CreateMipmappedArray => {
                let create = &*parameters.cast::<CreateArray<Array3Descriptor>>();
                Self::array_3(create, succeeded, create.levels, Space::MipmappedArray)
            }
            _ => None,
        }
    }

    fn on_device(span: Span, kind: Kind) -> Option<Self> {
        let place = Place::Device(driver::current_device()?);
        Some(Self { space: Some(Space::Memory), address: span.address, bytes: span.bytes, place, kind })
    }

    fn on_host(span: Span) -> Self {
        let Span { address, bytes } = span;
        Self { space: Some(Space::Memory), address, bytes, place: Place::Host, kind: Kind::Direct }
    }

    /// The current pool belongs to the stream's device, which need not be the context's.
    fn from_current_pool(span: Span, succeeded: bool) -> Option<Self> {
        let of_pointer = if succeeded { driver::device_of_pointer(span.address) } else { None };
        let place = Place::Device(of_pointer.or_else(driver::current_device)?);
        Some(Self::pooled(span, place))
    }

    fn from_any_pool(span: Span, succeeded: bool) -> Option<Self> {
        let of_pointer = if succeeded { driver::home_of_pointer(span.address) } else { None };
        let place = match of_pointer {
            Some(Home::Host) => Place::Host,
            Some(Home::Device(ordinal)) => Place::Device(ordinal),
            None => Place::Device(driver::current_device()?),
        };
        Some(Self::pooled(span, place))
    }

    fn pooled(span: Span, place: Place) -> Self {
        let Span { address, bytes } = span;
        Self { space: Some(Space::Memory), address, bytes, place, kind: Kind::Pooled }
    }

    /// `cuMemCreate`.
    unsafe fn physical(create: &Create, succeeded: bool) -> Option<Self> {
        let properties = create.properties.as_ref()?;
        let place = if properties.location_kind == LOCATION_DEVICE {
            Place::Device(u32::try_from(properties.location).ok()?)
        } else {
            Place::Host
        };
        let address = returned(create.handle, succeeded);
        Some(Self { space: None, address, bytes: create.bytes as u64, place, kind: Kind::Virtual })
    }

    unsafe fn array(create: &CreateArray<ArrayDescriptor>, succeeded: bool) -> Option<Self> {
        let descriptor = create.descriptor.as_ref()?;
        let size = [descriptor.width, descriptor.height, 1];
        let bytes = array_bytes(size, descriptor.format, descriptor.channels)?;
        let address = returned(create.handle, succeeded);
        let array = Self::on_device(Span { address, bytes }, Kind::Direct)?;
        Some(Self { space: Some(Space::Array), ..array })
    }

    unsafe fn array_3(
        create: &CreateArray<Array3Descriptor>,
        succeeded: bool,
        levels: c_uint,
        space: Space,
    ) -> Option<Self> {
        let descriptor = create.descriptor.as_ref()?;
        if descriptor.flags & WITHOUT_MEMORY != 0 {
            return None;
        }
        let bytes = mipmapped_bytes(descriptor, levels)?;
        let address = returned(create.handle, succeeded);
        let array = Self::on_device(Span { address, bytes }, Kind::Direct)?;
        Some(Self { space: Some(space), ..array })
    }
}

/// Whether a call on this stream only makes a node of a graph, which has memory once it is launched.
/// Stream 0 means `zero`.
fn is_captured(stream: u64, zero: u64) -> bool {
    driver::is_captured(if stream == 0 { zero } else { stream })
}

/// What the driver wrote to `place`, or 0 if the call failed and it wrote nothing.
unsafe fn returned<A: Copy + Into<u64>>(place: *const A, succeeded: bool) -> u64 {
    if succeeded { (*place).into() } else { 0 }
}

unsafe fn span(parameters: *const Allocate, succeeded: bool) -> Span {
    let allocate = &*parameters;
    Span { address: returned(allocate.address, succeeded), bytes: allocate.bytes as u64 }
}

unsafe fn span_32<A: Copy + Into<u64>>(parameters: *const Allocate32<A>, succeeded: bool) -> Span {
    let allocate = &*parameters;
    Span { address: returned(allocate.address, succeeded), bytes: u64::from(allocate.bytes) }
}

/// The driver chooses the length of a row. If the call failed, the requested width is used.
unsafe fn pitched(parameters: *const AllocatePitch, succeeded: bool) -> Span {
    let allocate = &*parameters;
    let row = if succeeded { *allocate.pitch } else { allocate.width };
    Span { address: returned(allocate.address, succeeded), bytes: row as u64 * allocate.height as u64 }
}

unsafe fn pitched_32(parameters: *const AllocatePitch32, succeeded: bool) -> Span {
    let allocate = &*parameters;
    let row = if succeeded { *allocate.pitch } else { allocate.width };
    Span {
        address: returned(allocate.address, succeeded),
        bytes: u64::from(row) * u64::from(allocate.height),
    }
}

/// Bytes of all levels. Each is half as wide, high and deep as the one before. Layers are given as
/// depth, and are not halved.
fn mipmapped_bytes(descriptor: &Array3Descriptor, levels: c_uint) -> Option<u64> {
    /// `CUDA_ARRAY3D_LAYERED` and `CUDA_ARRAY3D_CUBEMAP`.
    const LAYERS: c_uint = 0x01 | 0x04;
    let mut size = [descriptor.width, descriptor.height, descriptor.depth];
    let mut bytes = 0;
    for _ in 0..levels.clamp(1, 64) {
        bytes += array_bytes(size, descriptor.format, descriptor.channels)?;
        let halved = if descriptor.flags & LAYERS == 0 { 3 } else { 2 };
        for length in &mut size[..halved] {
            // Zero means that the array does not have this dimension.
            if *length > 1 {
                *length /= 2;
            }
        }
    }
    Some(bytes)
}

/// Elements times their size in bytes. Video and compressed formats have no elements and are not
/// counted.
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
