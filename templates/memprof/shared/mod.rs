//! What the crate for ordinary builds has, too: `crates/memprof/src/shared` is a link to this folder.
//! In both crates, these files import only `platform::untracked` and each other.

pub(crate) mod assertions;
pub(crate) mod bytes;
pub(crate) mod cells;
pub(crate) mod courtesy;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "courtesy_driver_elsewhere.rs"
)]
pub(crate) mod courtesy_driver;
pub(crate) mod every;
pub(crate) mod figure;
pub(crate) mod gpus;
pub(crate) mod heap;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod library;
#[cfg_attr(not(all(target_os = "linux", target_env = "gnu")), path = "malloc_statistics_elsewhere.rs")]
pub(crate) mod malloc_statistics;
pub(crate) mod memory;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod nvml;
pub(crate) mod pool_usage;
pub(crate) mod tensor;
pub(crate) mod usage;
