//! Windows: `GetProcessMemoryInfo` has the working set and its peak since the process began, which
//! cannot be reset.

use std::os::raw::{c_int, c_void};

use super::{Figures, Found, Parts};

/// `PROCESS_MEMORY_COUNTERS` of `psapi.h`.
#[repr(C)]
#[derive(Default)]
struct MemoryCounters {
    size: u32,
    page_fault_count: u32,
    peak_working_set_size: usize,
    working_set_size: usize,
    quota: [usize; 4],
    pagefile_usage: usize,
    peak_pagefile_usage: usize,
}

#[link(name = "kernel32")]
extern "system" {
    fn GetCurrentProcess() -> *mut c_void;
    fn K32GetProcessMemoryInfo(process: *mut c_void, counters: *mut MemoryCounters, size: u32) -> c_int;
}

pub(super) struct Process;

pub(super) fn open(_reset: bool) -> Result<Found, &'static str> {
    match counters() {
        Some(_) => Ok(Found {
            process: Process,
            resident_source: "GetProcessMemoryInfo WorkingSetSize",
            peak_source: "GetProcessMemoryInfo PeakWorkingSetSize since start",
        }),
        None => Err("GetProcessMemoryInfo failed"),
    }
}

impl Process {
    pub(super) fn read(&mut self) -> Option<Figures> {
        let counters = counters()?;
        Some(Figures {
            resident: counters.working_set_size as u64,
            peak: Some(counters.peak_working_set_size as u64),
        })
    }

    pub(super) fn open_parts(&mut self) -> Result<&'static str, &'static str> {
        Err("available on Linux only (/proc/self/smaps_rollup)")
    }

    pub(super) fn read_parts(&mut self) -> Option<Parts> {
        None
    }
}

fn counters() -> Option<MemoryCounters> {
    let size = std::mem::size_of::<MemoryCounters>() as u32;
    let mut counters = MemoryCounters { size, ..MemoryCounters::default() };
    // SAFETY: the pseudo handle of the current process is always valid, and `size` is the size of
    // `counters`.
    let succeeded = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &mut counters, size) } != 0;
    if succeeded { Some(counters) } else { None }
}
