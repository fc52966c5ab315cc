//! Whether the devices have room for what a process held on them. Pure.
//!
//! The driver's restore must not be called without room. On driver 580.159.04, a restore that ran
//! out of memory (`CUDA_ERROR_OUT_OF_MEMORY`) left a process that no later call could restore
//! (`CUDA_ERROR_OPERATING_SYSTEM`), although the memory was free again.

use crate::courtesy::note::Note;
use crate::devices::{CudaDevice, DeviceProcess, Occupancy};
use memprof_support::bytes::Bytes;

/// What must be free beyond the noted bytes. The driver makes the context anew (about 520 MiB on an
/// H200) and rounds blocks up to its pages. NVML's bytes include most of this, but too little room
/// would cost the process its data.
pub(crate) const MARGIN: u64 = 1 << 30;

/// What the driver itself may have in use on a device without a process (3.25 MiB on an H200).
const EMPTY: u64 = 16 << 20;

/// A device as it is now.
#[derive(Clone, Debug)]
pub(crate) struct DeviceNow {
    pub device: CudaDevice,
    /// The free bytes, or why they are unknown.
    pub free: Result<u64, String>,
    /// What is on it.
    pub occupancy: Occupancy,
}

/// Why a process is not restored now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// The device, as text: `GPU 0`.
    pub device: String,
    /// The reason, with who uses the memory.
    pub reason: String,
}

/// Returns the first device without room for the process; `None` if all have room.
///
/// `resident` is the process's host memory. Its device memory is in there, so it is the bound if
/// the note does not say how much that is.
pub(crate) fn lack(note: &Note, devices: &[DeviceNow], resident: Option<u64>) -> Option<Lack> {
    if !note.held.is_empty() {
        return note.held.iter().find_map(|held| {
            let Some(now) = devices.iter().find(|now| now.device.uuid == held.device) else {
                let reason = "NVML does not show it, so its free memory is unknown".to_owned();
                return Some(Lack { device: held.device.clone(), reason });
            };
            of_device(now, Some(held.bytes), held.others)
        });
    }
    let is_meant = |now: &&DeviceNow| note.devices.is_empty() || note.devices.contains(&now.device.uuid);
    let mut meant = devices.iter().filter(is_meant).peekable();
    if meant.peek().is_none() {
        let reason = "NVML shows none, so the free memory is unknown".to_owned();
        return Some(Lack { device: "the GPU".to_owned(), reason });
    }
    meant.find_map(|now| of_device(now, note.bytes.or(resident), 0))
}

fn of_device(now: &DeviceNow, bytes: Option<u64>, others: u64) -> Option<Lack> {
    let device = now.device.to_string();
    let unknown = |why: &str| Lack { device: device.clone(), reason: format!("NVML does not say: {why}") };
    let (used, free) = match (&now.occupancy.used, &now.free) {
        (Ok(used), Ok(free)) => (*used, *free),
        (Err(why), _) | (_, Err(why)) => return Some(unknown(why)),
    };
    // Others use no more than when the process was set aside, so it fits as it did before. A process that
    // was restored meanwhile may take a little more than it held.
    let has_as_much = bytes.is_some_and(|bytes| bytes <= free);
    if used <= others.max(EMPTY) || used <= others.saturating_add(EMPTY) && has_as_much {
        return None;
    }
    let Some(bytes) = bytes else { return Some(unknown("what the process held on it is unknown")) };
    let needed = bytes.saturating_add(MARGIN);
    (free < needed).then(|| Lack {
        reason: format!(
            "{} are free, and it needs {} ({} that it held, and {} in reserve); in use by {}",
            Bytes(free),
            Bytes(needed),
            Bytes(bytes),
            Bytes(MARGIN),
            users(used, &now.occupancy)
        ),
        device,
    })
}

/// Returns `process 4711 (python) 60.0 GiB, process 12 (x) 1.00 GiB`.
fn users(used: u64, occupancy: &Occupancy) -> String {
    let mut processes: Vec<&DeviceProcess> = occupancy.processes.iter().flatten().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.bytes));
    if processes.is_empty() {
        return format!("processes that NVML does not show here: {}", Bytes(used));
    }
    let text = |process: &&DeviceProcess| match process.bytes {
        Some(bytes) => format!("{process} {}", Bytes(bytes)),
        None => process.to_string(),
    };
    processes.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::courtesy::held::Held;
    use crate::courtesy::process::ProcessFacts;

    const GIB: u64 = 1 << 30;

    fn device(index: u32) -> CudaDevice {
        CudaDevice { index, part: None, uuid: format!("GPU-{index}") }
    }

    fn now(index: u32, used: u64, processes: &[(u32, u64)]) -> DeviceNow {
        let one = |(process, bytes): &(u32, u64)| DeviceProcess {
            process: *process,
            is_alive: true,
            name: Some("hog".into()),
            bytes: Some(*bytes),
        };
        let processes = Ok(processes.iter().map(one).collect());
        let occupancy = Occupancy { used: Ok(used), processes };
        DeviceNow { device: device(index), free: Ok(64 * GIB - used), occupancy }
    }

    fn note(held: &[(u32, u64, u64)]) -> Note {
        let process = ProcessFacts { id: 7, ..ProcessFacts::default() };
        let mut note = Note::for_process(&process, Vec::new(), None);
        let one = |(index, bytes, others): &(u32, u64, u64)| Held {
            device: format!("GPU-{index}"),
            bytes: *bytes,
            others: *others,
        };
        note.held = held.iter().map(one).collect();
        note
    }

    #[test]
    fn each_device_needs_the_noted_bytes_and_a_reserve() {
        let note = note(&[(0, 8 * GIB, 0), (1, 2 * GIB, 0)]);
        let free = |first: u64, second: u64| {
            [now(0, 64 * GIB - first, &[(9, 64 * GIB - first)]), now(1, 64 * GIB - second, &[])]
        };
        assert_eq!(lack(&note, &free(9 * GIB, 3 * GIB), None), None);
        let first = lack(&note, &free(9 * GIB - 1, 3 * GIB), None).unwrap();
        assert_eq!(first.device, "GPU 0");
        assert_eq!(
            first.reason,
            "9.00 GiB are free, and it needs 9.00 GiB (8.00 GiB that it held, and 1.00 GiB in reserve); in use by \
             process 9 (hog) 55.0 GiB"
        );
        let second = lack(&note, &free(9 * GIB, 3 * GIB - 1), None).unwrap();
        assert_eq!(second.device, "GPU 1");
        assert!(second.reason.ends_with("in use by processes that NVML does not show here: 61.0 GiB"));
        assert!(
            lack(&note, &free(9 * GIB, 3 * GIB)[..1], None).unwrap().reason.starts_with("NVML does not show")
        );
    }

    #[test]
    fn a_process_that_filled_its_device_fits_again_if_others_use_no_more_than_before() {
        let others = 3 * GIB + GIB / 2;
        let nearly_full = note(&[(0, 60 * GIB, others)]);
        assert_eq!(lack(&nearly_full, &[now(0, others, &[])], None), None);
        assert_eq!(lack(&nearly_full, &[now(0, others + EMPTY, &[])], None), None);
        assert!(lack(&nearly_full, &[now(0, others + EMPTY + 1, &[])], None).is_some());
        let full = note(&[(0, 64 * GIB - others, others)]);
        assert_eq!(lack(&full, &[now(0, others, &[])], None), None);
        assert!(lack(&full, &[now(0, others + 1, &[])], None).is_some(), "its own bytes are not free");
    }

    #[test]
    fn without_noted_bytes_the_host_memory_of_the_process_is_the_bound() {
        let unknown = note(&[]);
        let beside = |used| [now(0, used, &[])];
        assert_eq!(lack(&unknown, &beside(32 * GIB), Some(31 * GIB)), None);
        assert!(lack(&unknown, &beside(32 * GIB), Some(31 * GIB + 1)).is_some());
        assert!(lack(&unknown, &beside(32 * GIB), None).unwrap().reason.starts_with("NVML does not say: "));
        assert_eq!(lack(&unknown, &beside(EMPTY), None), None, "an empty device has all the room there is");
        assert!(lack(&unknown, &[], Some(1)).unwrap().reason.starts_with("NVML shows none"));
    }
}
