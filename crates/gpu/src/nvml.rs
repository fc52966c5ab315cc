//! Asks NVML which devices there are and what is on them.
//!
//! It stays initialised while tests run. Without a client, the driver may put a device to sleep
//! between two tests. What it sets up again at the next use would then count as the run's.

use std::ffi::OsStr;

use crate::cupti;
use crate::devices::{Device, DeviceProcess, Devices, Mig, MigDevice, Occupancy};
use crate::nvml_library::{self as library, Library, NvmlError, ProcessInfo};
use memprof_support::labels;

/// The variable that names the library.
pub(crate) const VARIABLE: &str = "MEMPROF_NVML";

/// NVML, loaded and initialised.
#[derive(Debug)]
pub struct Nvml {
    library: Library,
    process_ids: ProcessIds,
}

/// Which process table this process sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessIds {
    /// The machine's own table, which NVML's ids refer to.
    Hosts,
    /// A container's table, in which NVML's ids name other processes, or none.
    Containers,
}

impl ProcessIds {
    /// Returns the table of this process. The machine's own table has a fixed inode
    /// (`PROC_PID_INIT_INO` in the kernel's `include/linux/proc_ns.h`).
    pub fn here() -> Self {
        match std::fs::read_link("/proc/self/ns/pid") {
            Ok(namespace) if namespace.as_os_str() == "pid:[4026531836]" => Self::Hosts,
            _ => Self::Containers,
        }
    }
}

/// Whether there may be devices: there is a kernel driver, or the user named a library. Without
/// either, nothing is loaded.
pub fn may_have_devices() -> bool {
    named_by_user().is_some() || cupti::has_driver()
}

fn named_by_user() -> Option<std::ffi::OsString> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty())
}

impl Nvml {
    /// Loads the library that `VARIABLE` names, else the loader's `libnvidia-ml.so.1`.
    ///
    /// # Errors
    /// Says why NVML cannot be used.
    pub fn open() -> Result<Self, String> {
        let named = named_by_user();
        let path = named.as_deref().unwrap_or(OsStr::new("libnvidia-ml.so.1"));
        Ok(Self { library: Library::open(path)?, process_ids: ProcessIds::here() })
    }

    /// Returns all devices.
    pub fn devices(&self) -> Result<Devices, String> {
        let count = self.library.device_count().map_err(|error| error.to_string())?;
        // The count includes devices that this user may not use, and those are skipped.
        let all = (0..count).filter_map(|index| self.library.device_by_index(index).ok());
        let cuda = self.library.cuda().ok();
        Ok(Devices {
            driver: self.library.driver().ok(),
            cuda: cuda.map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
            devices: all.filter_map(|device| read(&device).ok()).collect(),
        })
    }

    /// Returns why a device, or a part of one, no longer answers; `None` if it does.
    pub fn lost(&self, uuid: &str) -> Option<String> {
        let device = match self.library.device_by_uuid(uuid) {
            Ok(device) => device,
            Err(error) => return Some(error.to_string()),
        };
        device.memory().err().filter(NvmlError::is_lost_device).map(|error| error.to_string())
    }

    /// Returns what is on a device, or a part of one, now.
    pub fn occupancy(&self, uuid: &str) -> Occupancy {
        let device = match self.library.device_by_uuid(uuid) {
            Ok(device) => device,
            Err(error) => {
                return Occupancy { used: Err(error.to_string()), processes: Err(error.to_string()) };
            }
        };
        Occupancy {
            used: device.memory().map(|memory| memory.used).map_err(|error| error.to_string()),
            processes: self.processes(&device).map_err(|error| error.to_string()),
        }
    }

    /// Returns the bytes that are free on a device, or why that is unknown.
    pub fn free(&self, uuid: &str) -> Result<u64, String> {
        let memory = self.library.device_by_uuid(uuid).and_then(|device| device.memory());
        memory.map(|memory| memory.free).map_err(|error| error.to_string())
    }

    /// Returns the programs that compute and those that draw, each once. Both use the device's
    /// memory.
    fn processes(&self, device: &library::Device<'_>) -> Result<Vec<DeviceProcess>, NvmlError> {
        let mut all = device.computing_processes()?;
        // A device without a screen may not support this question.
        all.extend(device.drawing_processes().unwrap_or_default());
        let mut processes: Vec<DeviceProcess> = all.into_iter().map(|info| self.process(&info)).collect();
        // A program that does both is in both lists, with the same figure.
        processes.sort_by_key(|process| (process.process, std::cmp::Reverse(process.bytes)));
        processes.dedup_by_key(|process| process.process);
        Ok(processes)
    }

    fn process(&self, info: &ProcessInfo) -> DeviceProcess {
        // The host's id would be that of an unrelated process here.
        let is_alive = self.process_ids == ProcessIds::Hosts && is_alive(info.process);
        let name = is_alive.then(|| name_of(info.process)).flatten();
        DeviceProcess { process: info.process, is_alive, name, bytes: info.used() }
    }
}

fn read(device: &library::Device<'_>) -> Result<Device, NvmlError> {
    let mig = match device.is_divided() {
        Ok(false) => Mig::Off,
        Ok(true) => Mig::On,
        Err(_) => Mig::NotSupported,
    };
    let most = if mig == Mig::On { device.most_parts().unwrap_or_default() } else { 0 };
    // An index without a part is an error, not the end of the list.
    let parts = (0..most).filter_map(|index| Some((index, device.part(index).ok()?)));
    let parts = parts.filter_map(|(index, part)| {
        let memory_bytes = part.memory().ok().map(|memory| memory.total);
        Some(MigDevice { index, uuid: part.uuid().ok()?, memory_bytes })
    });
    let parts = parts.collect();
    let bus = device.pci().map(|pci| (pci.domain, pci.bus, pci.device));
    Ok(Device {
        index: device.index()?,
        uuid: device.uuid()?,
        name: device.name()?,
        bus: bus.unwrap_or_default(),
        minor: device.minor().ok(),
        memory_bytes: device.memory().ok().map(|memory| memory.total),
        mig,
        parts,
    })
}

/// Whether a process is alive, also one of another user that `/proc` does not show (`hidepid`).
fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    process.is_some_and(|process| rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH))
}

/// Returns the kernel's name for a process; `None` once it has ended, or if `/proc` does not show it.
fn name_of(process: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{process}/comm")).ok()?;
    let name = labels::one_line(String::from_utf8_lossy(&name).trim_end()).into_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_until_it_has_ended() {
        assert!(is_alive(std::process::id()));
        assert!(is_alive(1), "a process of another user, unless this is root");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        assert!(!is_alive(ended.id()));
        assert!(!is_alive(0) && !is_alive(u32::MAX));
    }
}
