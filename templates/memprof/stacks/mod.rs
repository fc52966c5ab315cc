//! Call stacks of allocations, in runs that record them, and the figures of their sites.
//! `lines::stack_log` writes them.

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod allocating_thread;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod events;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod pointers;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod releases;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod sites;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod snapshot;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod snapshot_file;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod stack_bounds;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "stack_recording_elsewhere.rs"
)]
pub(crate) mod stack_recording;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod stack_walk;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod threads;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod timeline;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod unwind_table;
