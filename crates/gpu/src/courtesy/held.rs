//! What a process held on a device, noted when it is set aside. Pure.

use serde::{Deserialize, Serialize};

use crate::devices::{CudaDevice, Occupancy};

/// What a process held on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The device's UUID.
    pub device: String,
    /// The process's bytes on it.
    pub bytes: u64,
    /// The bytes in use on it just after, by others.
    pub others: u64,
}

impl Held {
    /// Returns what a process held: what NVML listed for it, else what became free.
    pub fn from_readings(
        process: u32,
        before: &Occupancy,
        after: &Occupancy,
        device: &CudaDevice,
    ) -> Option<Self> {
        let (Ok(used), Ok(others)) = (&before.used, &after.used) else { return None };
        let listed = before.processes.as_deref().unwrap_or_default();
        let listed = listed.iter().find(|one| one.process == process).and_then(|one| one.bytes);
        let bytes = listed.unwrap_or(0).max(used.saturating_sub(*others));
        (bytes > 0).then(|| Self { device: device.uuid.clone(), bytes, others: *others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::DeviceProcess;

    fn occupancy(used: u64, processes: &[(u32, u64)]) -> Occupancy {
        let one = |(process, bytes): &(u32, u64)| DeviceProcess {
            process: *process,
            is_alive: false,
            name: None,
            bytes: Some(*bytes),
        };
        Occupancy { used: Ok(used), processes: Ok(processes.iter().map(one).collect()) }
    }

    #[test]
    fn what_became_free_counts_where_nvml_hides_the_process() {
        let device = CudaDevice { index: 0, part: None, uuid: "GPU-0".into() };
        let (before, after) = (occupancy(9, &[(4711, 5)]), occupancy(1, &[]));
        let held = |before: &Occupancy| Held::from_readings(7, before, &after, &device).unwrap();
        assert_eq!((held(&before).bytes, held(&before).others), (8, 1));
        let listed = occupancy(9, &[(7, 9)]);
        assert_eq!(held(&listed).bytes, 9, "another process came in between");
        assert_eq!(Held::from_readings(7, &after, &after, &device), None);
    }
}
