//! The driver's calls that allocate and free, those that begin and end the capture of a stream
//! into a graph, and their numbers.
//!
//! The numbers are from `cupti_driver_cbid.h` of CUPTI 12.4 (`nvidia-cuda-cupti-cu12` 12.4.127) and
//! 13.0 (`nvidia-cuda-cupti` 13.0.85), which agree: CUPTI gives new calls new numbers and keeps the
//! old ones.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Allocate,
    Allocate32,
    AllocatePitch,
    AllocatePitch32,
    AllocateManaged,
    /// In order with a stream. The number is the stream that 0 means: `CU_STREAM_LEGACY` (1), or
    /// `CU_STREAM_PER_THREAD` (2).
    AllocateAsync(u64),
    AllocateFromPool(u64),
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
    BeginCapture,
    EndCapture,
    DestroyStream,
}

/// Calls that may be unknown to CUPTI without an error in the figures: those of CUDA 3, which no
/// 64-bit program can use, those that make and end contexts, which each driver has in one version,
/// and those that captures need.
const DISPENSABLE: [u32; 25] = [
    29, 31, 33, 37, 271, 10, 235, 645, 757, 11, 322, 387, 389, 544, 545, 495, 496, 497, 498, 539, 540, 720,
    721, 127, 326,
];

/// Whether the figures would be too low if CUPTI did not know the call. A CUPTI from before CUDA
/// 11.2 lacks the calls of memory pools.
pub(crate) fn must_be_seen(number: u32) -> bool {
    !DISPENSABLE.contains(&number)
}

/// `CUPTI_DRIVER_TRACE_CBID_…`
pub(crate) const CALLS: [(u32, Call); 48] = [
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
    (598, Call::AllocateAsync(1)),      // cuMemAllocAsync
    (599, Call::AllocateAsync(2)),      // cuMemAllocAsync_ptsz
    (600, Call::Free),                  // cuMemFreeAsync
    (601, Call::Free),                  // cuMemFreeAsync_ptsz
    (611, Call::AllocateFromPool(1)),   // cuMemAllocFromPoolAsync
    (612, Call::AllocateFromPool(2)),   // cuMemAllocFromPoolAsync_ptsz
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
    (495, Call::BeginCapture),          // cuStreamBeginCapture
    (496, Call::BeginCapture),          // cuStreamBeginCapture_ptsz
    (497, Call::EndCapture),            // cuStreamEndCapture
    (498, Call::EndCapture),            // cuStreamEndCapture_ptsz
    (539, Call::BeginCapture),          // cuStreamBeginCapture_v2
    (540, Call::BeginCapture),          // cuStreamBeginCapture_v2_ptsz
    (720, Call::BeginCapture),          // cuStreamBeginCaptureToGraph
    (721, Call::BeginCapture),          // cuStreamBeginCaptureToGraph_ptsz
    (127, Call::DestroyStream),         // cuStreamDestroy
    (326, Call::DestroyStream),         // cuStreamDestroy_v2
];
