//! Where figures come from, one file for each: heap, resident memory, page faults, `malloc`, DRM, pools.
//! `all_sources` lists them, and the GPUs.

pub(crate) mod all_sources;
pub(crate) mod callback;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), path = "drm_elsewhere.rs")]
pub(crate) mod drm;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod drm_fdinfo;
pub(crate) mod heap_metrics;
pub(crate) mod malloc;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "malloc_library_elsewhere.rs"
)]
pub(crate) mod malloc_library;
pub(crate) mod malloc_link;
pub(crate) mod page_faults;
pub(crate) mod pool_metrics;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "program_pages_elsewhere.rs"
)]
pub(crate) mod program_pages;
pub(crate) mod resident;
