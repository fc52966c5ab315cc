//! The NVIDIA devices of a machine, and what was on one of them at a moment, as NVML reports it.

use std::fmt;

use serde::Serialize;

/// All devices that NVML shows. A container sees only those that it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Devices {
    /// The driver's version: `580.95.05`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The newest CUDA that the driver supports: `13.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// In the order of their indices.
    pub devices: Vec<Device>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    /// NVML's index, which `nvidia-smi` shows and metric names contain: `gpu.0.peak`.
    pub index: u32,
    /// `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`.
    pub uuid: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// Domain, bus and device on the PCI bus, the order of `CUDA_DEVICE_ORDER=PCI_BUS_ID`. Not
    /// stored, because the slot does not affect any figure.
    #[serde(skip)]
    pub bus: (u32, u32, u32),
    /// The number of its file, `/dev/nvidia0`. Not stored, like its slot.
    #[serde(skip)]
    pub minor: Option<u32>,
    /// The memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether it is divided into parts (MIG).
    pub mig: Mig,
    /// The parts, if it is divided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MigDevice>,
}

/// Whether a device is divided into parts, which CUDA treats as devices (MIG).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mig {
    /// Cannot be divided.
    #[default]
    NotSupported,
    /// Is not divided.
    Off,
    /// Is divided: only its parts can be used.
    On,
}

/// A part of a device (MIG).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MigDevice {
    /// The index among the device's parts.
    pub index: u32,
    /// `MIG-5cab8c1b-…`, or `MIG-GPU-8932f937-…/1/0` before driver 470.
    pub uuid: String,
    /// The memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// What a CUDA program can use as one device: a whole device, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaDevice {
    /// NVML's index of the whole device.
    pub index: u32,
    /// The part's index among the device's parts; `None` for the whole device.
    pub part: Option<u32>,
    /// The UUID of the part, or of the whole device.
    pub uuid: String,
}

impl Device {
    /// Returns what CUDA programs can use: the device itself, or its parts.
    pub fn cuda_devices(&self) -> Vec<CudaDevice> {
        if self.mig != Mig::On {
            return vec![CudaDevice { index: self.index, part: None, uuid: self.uuid.clone() }];
        }
        let parts = self.parts.iter();
        parts
            .map(|part| CudaDevice { index: self.index, part: Some(part.index), uuid: part.uuid.clone() })
            .collect()
    }
}

impl CudaDevice {
    /// Returns the metric that counts the memory of all processes on the device.
    pub(crate) fn shared_metric(&self) -> String {
        format!("gpu.{}.device", self.index)
    }
}

impl fmt::Display for CudaDevice {
    /// `GPU 0`, or `GPU 0 part 1`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GPU {}", self.index)?;
        match self.part {
            Some(part) => write!(formatter, " part {part}"),
            None => Ok(()),
        }
    }
}

/// What was on a device at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// Bytes in use by all processes, or why that is unknown.
    pub used: Result<u64, String>,
    /// The processes on it in the order of their ids, or why they are unknown. A container may hide
    /// them, and then the list is empty.
    pub processes: Result<Vec<DeviceProcess>, String>,
}

/// A process on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceProcess {
    /// The id. In a container this may be the host's id.
    pub process: u32,
    /// Whether the id belongs to our process table and the process is alive.
    #[serde(skip)]
    pub is_alive: bool,
    /// The name of a living process, for display. Where `/proc` hides other users' processes (`hidepid`), they
    /// have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The bytes that it uses on the device, if NVML knows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl fmt::Display for DeviceProcess {
    /// `process 4711 (python)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {}", self.process)?;
        match &self.name {
            Some(name) => write!(formatter, " ({name})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_divided_device_is_used_by_its_parts_alone() {
        let part = MigDevice { index: 1, uuid: "MIG-b".into(), ..MigDevice::default() };
        let whole = Device { index: 3, uuid: "GPU-a".into(), parts: vec![part], ..Device::default() };
        let names =
            |device: &Device| device.cuda_devices().iter().map(CudaDevice::to_string).collect::<Vec<_>>();
        assert_eq!(names(&whole), ["GPU 3"]);
        assert_eq!(names(&Device { mig: Mig::On, ..whole.clone() }), ["GPU 3 part 1"]);
        assert_eq!(whole.cuda_devices()[0].shared_metric(), "gpu.3.device");
        assert!(Device { mig: Mig::On, parts: Vec::new(), ..whole }.cuda_devices().is_empty());
    }
}
