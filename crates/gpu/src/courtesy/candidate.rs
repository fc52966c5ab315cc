//! A process whose memory may be set aside, with the devices that it uses.

use crate::courtesy::process::ProcessFacts;
use crate::devices::{CudaDevice, Device, Occupancy};
use crate::nvml::ProcessIds;

/// What can be used as a device, with what is on it now.
pub type Place = (CudaDevice, Occupancy);

/// The process, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub process: ProcessFacts,
    /// The devices, as far as they are known.
    pub devices: Vec<CudaDevice>,
    /// The bytes on them, if NVML knows them.
    pub bytes: Option<u64>,
}

impl Candidate {
    /// Adds what NVML and the process's open files say of its devices.
    pub fn new(process: ProcessFacts, devices: &[Device], places: &[Place], ids: ProcessIds) -> Self {
        let shown = |(_, occupancy): &&Place| {
            let all = occupancy.processes.as_deref().unwrap_or_default();
            all.iter().find(|one| one.process == process.id).cloned()
        };
        // In a container, NVML's ids may name other processes.
        let listed: Vec<&Place> = match ids {
            ProcessIds::Hosts => places.iter().filter(|place| shown(place).is_some()).collect(),
            ProcessIds::Containers => Vec::new(),
        };
        if !listed.is_empty() {
            let bytes = listed.iter().map(|place| shown(place).and_then(|one| one.bytes)).sum();
            let devices = listed.into_iter().map(|(device, _)| device.clone()).collect();
            return Self { process, devices, bytes };
        }
        let opened =
            devices.iter().filter(|one| one.minor.is_some_and(|it| process.device_files.contains(&it)));
        let devices = opened.flat_map(Device::cuda_devices).collect();
        Self { process, devices, bytes: None }
    }

    /// Whether the process uses a device, as far as this is known.
    pub fn may_use(&self, device: &CudaDevice) -> bool {
        self.devices.is_empty() || self.devices.contains(device)
    }
}

/// How much host memory the device memory of some processes takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// NVML knows each process's bytes.
    Exactly(u64),
    /// All that is in use on their devices.
    AtMost(u64),
    /// Neither is known.
    Unknown,
}

impl Need {
    /// Returns what these processes take, with what is on all devices now.
    pub(crate) fn of_candidates(candidates: &[Candidate], places: &[Place]) -> Self {
        if let Some(bytes) = candidates.iter().map(|one| one.bytes).sum() {
            return Self::Exactly(bytes);
        }
        let is_unknown = candidates.iter().any(|one| one.devices.is_empty());
        let concerned = places
            .iter()
            .filter(|(device, _)| is_unknown || candidates.iter().any(|one| one.devices.contains(device)));
        let used: Result<u64, &String> =
            concerned.map(|(_, occupancy)| occupancy.used.as_ref().copied()).sum();
        used.map_or(Self::Unknown, Self::AtMost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::DeviceProcess;

    fn place(index: u32, used: u64, processes: &[(u32, u64)]) -> Place {
        let device = CudaDevice { index, part: None, uuid: format!("GPU-{index}") };
        let one = |(process, bytes): &(u32, u64)| DeviceProcess {
            process: *process,
            is_alive: false,
            name: None,
            bytes: Some(*bytes),
        };
        (device, Occupancy { used: Ok(used), processes: Ok(processes.iter().map(one).collect()) })
    }

    fn device(index: u32) -> Device {
        Device { index, uuid: format!("GPU-{index}"), minor: Some(index + 4), ..Device::default() }
    }

    #[test]
    fn nvml_says_what_a_process_has_on_each_device() {
        let process = ProcessFacts { id: 7, ..ProcessFacts::default() };
        let places = [place(0, 9, &[(7, 5), (8, 1)]), place(1, 3, &[(8, 3)]), place(2, 4, &[(7, 2)])];
        let devices = [device(0), device(1), device(2)];
        let candidate = Candidate::new(process.clone(), &devices, &places, ProcessIds::Hosts);
        let names: Vec<String> = candidate.devices.iter().map(CudaDevice::to_string).collect();
        assert_eq!((names.join(" ").as_str(), candidate.bytes), ("GPU 0 GPU 2", Some(7)));
        assert_eq!(Need::of_candidates(&[candidate], &places), Need::Exactly(7));
        let hidden = Candidate::new(process, &devices, &places, ProcessIds::Containers);
        assert_eq!((hidden.devices.len(), hidden.bytes), (0, None), "ids of another table are not believed");
        assert_eq!(Need::of_candidates(&[hidden], &places), Need::AtMost(16));
    }

    #[test]
    fn in_a_container_the_open_files_say_which_devices_it_uses() {
        let process = ProcessFacts { id: 7, device_files: [5].into(), ..ProcessFacts::default() };
        let places = [place(0, 9, &[]), place(1, 3, &[])];
        let candidate = Candidate::new(process, &[device(0), device(1)], &places, ProcessIds::Containers);
        assert_eq!(candidate.devices, [places[1].0.clone()]);
        assert_eq!(Need::of_candidates(&[candidate], &places), Need::AtMost(3));
    }
}
