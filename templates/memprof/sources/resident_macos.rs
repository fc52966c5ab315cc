//! macOS: `task_info` has the resident size and its maximum since the process began, which cannot
//! be reset.

use std::os::raw::c_int;

use super::{Figures, Found, Parts};

/// `mach_task_basic_info` of `mach/task_info.h`.
#[repr(C)]
#[derive(Default)]
struct BasicInfo {
    virtual_size: u64,
    resident_size: u64,
    resident_size_max: u64,
    user_time: [i32; 2],
    system_time: [i32; 2],
    policy: i32,
    suspend_count: i32,
}

extern "C" {
    static mach_task_self_: u32;
    fn task_info(task: u32, flavor: u32, info: *mut BasicInfo, count: *mut u32) -> c_int;
}

const MACH_TASK_BASIC_INFO: u32 = 20;
const KERN_SUCCESS: c_int = 0;

pub(super) struct Process;

pub(super) fn open(_reset: bool) -> Result<Found, &'static str> {
    match basic_info() {
        Some(_) => Ok(Found {
            process: Process,
            resident_source: "task_info resident_size",
            peak_source: "task_info resident_size_max since start",
        }),
        None => Err("task_info(MACH_TASK_BASIC_INFO) failed"),
    }
}

impl Process {
    pub(super) fn read(&mut self) -> Option<Figures> {
        let info = basic_info()?;
        Some(Figures { resident: info.resident_size, peak: Some(info.resident_size_max) })
    }

    pub(super) fn open_parts(&mut self) -> Result<&'static str, &'static str> {
        Err("available on Linux only (/proc/self/smaps_rollup)")
    }

    pub(super) fn read_parts(&mut self) -> Option<Parts> {
        None
    }
}

fn basic_info() -> Option<BasicInfo> {
    let mut info = BasicInfo::default();
    // In units of `natural_t`, as the call expects.
    let mut count = (std::mem::size_of::<BasicInfo>() / std::mem::size_of::<u32>()) as u32;
    // SAFETY: this flavor fills `info`, and `count` has its size. The task port is set before any
    // constructor runs and does not change.
    let result = unsafe { task_info(mach_task_self_, MACH_TASK_BASIC_INFO, &mut info, &mut count) };
    if result == KERN_SUCCESS { Some(info) } else { None }
}
