//! What the recorder does for events of the GPU's driver.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::gpu::handlers::Handlers;
use crate::recorder::holding::{hold, settle_devices_and_hold};

/// The functions of this file.
pub(crate) const HANDLERS: Handlers =
    Handlers { first_use: take_last_figures_at_exit, out_of_memory: gpu_out_of_memory };

/// Registers an exit handler that reads the GPUs' last figures, for `done`. It runs before all
/// handlers registered earlier, such as the driver's. Called once a device is in use, and by the
/// injection library at the first allocation, because no checkpoint may follow.
extern "C" fn take_last_figures_at_exit() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    extern "C" {
        fn atexit(handler: extern "C" fn()) -> std::os::raw::c_int;
    }
    extern "C" fn take() {
        if let Some(mut recorder) = settle_devices_and_hold() {
            let recorder = &mut *recorder;
            recorder.sources.gpu.take_last(&mut recorder.catalogue);
        }
    }
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the function is never unloaded, as for the constructor's.
    unsafe { atexit(take) };
}

/// Logs an allocation that the GPU's driver refused, also one of page-locked host memory. It is logged at once, because the process may
/// end before a next checkpoint. The injection library calls this on the thread that made the
/// request.
extern "C" fn gpu_out_of_memory(ordinal: u32, requested: u64, live: u64) {
    if let Some(mut recorder) = hold() {
        let device = recorder.sources.gpu.device_name(ordinal);
        let nanoseconds = recorder.nanoseconds();
        recorder.log(|_, log| {
            log.write("gpu_out_of_memory", nanoseconds, |json| {
                match device {
                    // NVML's index is a number. The name that stands for it otherwise is text.
                    Some(device) if device.parse::<u32>().is_ok() => {
                        json.number("device", format_args!("{device}"));
                    }
                    device => json.text_or_null("device", device),
                }
                json.figure("requested", requested);
                json.figure("live", live);
            })
        });
    }
}
