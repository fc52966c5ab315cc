//! What the system and the loader offer, without the global allocator: locks, memory, threads, libraries.
//! `random` gives the program random numbers that are the same in each revision.

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub(crate) mod configuration;
pub(crate) mod descriptor;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod first_variables;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod loaded;
pub(crate) mod lock;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod mappings;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod numbered_entries;
pub(crate) mod own_memory;
pub(crate) mod process;
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    )),
    path = "random_elsewhere.rs"
)]
pub(crate) mod random;
pub(crate) mod resource_usage;
pub(crate) mod thread_number;
pub(crate) mod untracked;
