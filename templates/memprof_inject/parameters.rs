//! The parameters of the driver's calls, as CUPTI hands them over.
//!
//! They are from `generated_cuda_meta.h` of CUPTI 12.4 (`nvidia-cuda-cupti-cu12` 12.4.127) and 13.0
//! (`nvidia-cuda-cupti` 13.0.85), which agree. The structures that they point to are from `cuda.h`
//! 13.0.

use std::os::raw::{c_int, c_uint};

/// `cuMemAlloc_v2_params`. Those of `cuMemAllocManaged`, `cuMemAllocAsync`,
/// `cuMemAllocFromPoolAsync`, `cuMemHostAlloc` and `cuMemAllocHost_v2` begin the same way.
#[repr(C)]
pub(crate) struct Allocate {
    pub(crate) address: *const u64,
    pub(crate) bytes: usize,
}

/// `cuMemAlloc_params` and `cuMemAllocHost_params`, of CUDA 3.1 and before.
#[repr(C)]
pub(crate) struct Allocate32<A> {
    pub(crate) address: *const A,
    pub(crate) bytes: c_uint,
}

/// `cuMemAllocAsync_params`.
#[repr(C)]
pub(crate) struct AllocateAsync {
    pub(crate) allocate: Allocate,
    pub(crate) stream: u64,
}

/// `cuMemAllocFromPoolAsync_params`.
#[repr(C)]
pub(crate) struct AllocateFromPool {
    pub(crate) allocate: Allocate,
    pub(crate) pool: u64,
    pub(crate) stream: u64,
}

/// `cuMemAllocPitch_v2_params`.
#[repr(C)]
pub(crate) struct AllocatePitch {
    pub(crate) address: *const u64,
    pub(crate) pitch: *const usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) element_size: c_uint,
}

/// `cuMemAllocPitch_params`.
#[repr(C)]
pub(crate) struct AllocatePitch32 {
    pub(crate) address: *const u32,
    pub(crate) pitch: *const c_uint,
    pub(crate) width: c_uint,
    pub(crate) height: c_uint,
    pub(crate) element_size: c_uint,
}

/// `cuMemFree_v2_params`. Those of `cuMemFreeAsync`, `cuMemFreeHost`, `cuMemRelease`,
/// `cuArrayDestroy`, `cuMipmappedArrayDestroy`, `cuCtxDestroy`, `cuStreamDestroy`, and the calls that
/// begin and end a capture begin the same way.
#[repr(C)]
pub(crate) struct Free {
    pub(crate) address: u64,
}

/// `cuMemCreate_params`.
#[repr(C)]
pub(crate) struct Create {
    pub(crate) handle: *const u64,
    pub(crate) bytes: usize,
    pub(crate) properties: *const AllocationProperties,
    pub(crate) flags: u64,
}

/// `CUmemAllocationProp`, up to its location.
#[repr(C)]
pub(crate) struct AllocationProperties {
    pub(crate) kind: c_int,
    pub(crate) handle_types: c_int,
    pub(crate) location_kind: c_int,
    pub(crate) location: c_int,
}

/// `cuMemMap_params`.
#[repr(C)]
pub(crate) struct Map {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    pub(crate) offset: usize,
    pub(crate) handle: u64,
    pub(crate) flags: u64,
}

/// `cuMemUnmap_params`.
#[repr(C)]
pub(crate) struct Unmap {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

/// `cuMemRetainAllocationHandle_params`.
#[repr(C)]
pub(crate) struct Retain {
    pub(crate) handle: *const u64,
    pub(crate) address: u64,
}

/// `cuArrayCreate_v2_params`, `cuArray3DCreate_v2_params`, and the beginning of
/// `cuMipmappedArrayCreate_params`.
#[repr(C)]
pub(crate) struct CreateArray<D> {
    pub(crate) handle: *const u64,
    pub(crate) descriptor: *const D,
    pub(crate) levels: c_uint,
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
pub(crate) struct ArrayDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: c_int,
    pub(crate) channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
pub(crate) struct Array3Descriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: c_int,
    pub(crate) channels: c_uint,
    pub(crate) flags: c_uint,
}
