//! GPUs that the program uses through CUDA: the driver, its pools, and NVML.
//! The crate `memprof_inject` hands over its counts at the `rendezvous`.

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod cuda_driver;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod device_metrics;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "devices_elsewhere.rs"
)]
pub(crate) mod devices;
pub(crate) mod handlers;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod rendezvous;
