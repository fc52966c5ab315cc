//! The NVIDIA devices of a machine, and what was on one of them at a moment: data, as NVML has it.

use std::fmt;

use serde::Serialize;

/// All devices that NVML shows. In a container these are the ones that it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Devices {
    /// The driver's version: `580.95.05`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The newest CUDA that the driver can serve: `13.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// By index.
    pub devices: Vec<Device>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    /// NVML's index, which `nvidia-smi` shows and metrics are named by: `gpu.0.peak`.
    pub index: u32,
    /// `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`.
    pub uuid: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// Domain, bus and device on the PCI bus, by which `CUDA_DEVICE_ORDER=PCI_BUS_ID` orders. Which slot it is says nothing of
    /// figures, so it is not kept.
    #[serde(skip)]
    pub bus: (u32, u32, u32),
    /// Its memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether it is divided into parts (MIG).
    pub mig: Mig,
    /// Its parts, if it is divided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MigDevice>,
}

/// Whether a device is divided into parts that are devices to CUDA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mig {
    /// It cannot be.
    #[default]
    NotSupported,
    /// It is not.
    Off,
    /// It is: only its parts can be used.
    On,
}

/// A part of a device (MIG).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MigDevice {
    /// Its place among the device's parts.
    pub index: u32,
    /// `MIG-5cab8c1b-…`; before driver 470 `MIG-GPU-8932f937-…/1/0`.
    pub uuid: String,
    /// Its memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// What a CUDA program can use as one device: a whole one, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaDevice {
    /// The whole device's index.
    pub index: u32,
    /// The part's place among its parts.
    pub part: Option<u32>,
    /// The UUID, of the part if it is one.
    pub uuid: String,
}

impl Device {
    /// What CUDA programs can use of it: itself, or its parts.
    pub fn places(&self) -> Vec<CudaDevice> {
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
    /// The metric that holds the memory of everyone on the place.
    pub fn shared_metric(&self) -> String {
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

/// What was on a place at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// Bytes in use by everyone, or why that is not known.
    pub used: Result<u64, String>,
    /// The processes on it, by id, or why they are not known. In a container that hides them there are none.
    pub processes: Result<Vec<DeviceProcess>, String>,
}

/// A process on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceProcess {
    /// Its id. Seen from a container it may be one of the host's.
    pub process: u32,
    /// Its name, where the id is of our own process table and the process lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The bytes that it has on the device, where NVML has that figure.
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
        let names = |device: &Device| device.places().iter().map(CudaDevice::to_string).collect::<Vec<_>>();
        assert_eq!(names(&whole), ["GPU 3"]);
        assert_eq!(names(&Device { mig: Mig::On, ..whole.clone() }), ["GPU 3 part 1"]);
        assert_eq!(whole.places()[0].shared_metric(), "gpu.3.device");
        assert!(Device { mig: Mig::On, parts: Vec::new(), ..whole }.places().is_empty());
    }
}
