//! Whether a run had its devices to itself, judged by what NVML showed before and after it.
//!
//! Other processes do not affect what the shim counts for its own process: `gpu.N.live`, the pool,
//! NVML's figure for the process. They do affect NVML's figure for the whole device, which is the
//! test's own only if nobody else uses the device.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::devices::{CudaDevice, DeviceProcess, Occupancy};
use crate::nvml::ProcessIds;
use memprof_support::bytes::Bytes;
use memprof_support::counted::some;

/// How far a device's memory may stay above its level before the run and still count as free again.
/// The driver itself needs some memory at a device's first use. A process has much more: at least
/// its context (526 MiB on an H200).
pub(crate) const TOLERANCE: u64 = 16 << 20;

/// How much memory the driver itself, or a process without a context, may use on an idle device. This, too,
/// is less than a context.
const IDLE: u64 = 64 << 20;

/// The most processes that one mark names.
const MOST_NAMED: usize = 3;

/// A device before and after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedDevice {
    pub device: CudaDevice,
    /// What was on it just before the process started.
    pub before: Occupancy,
    /// What was on it after the process ended, and after the wait.
    pub after: Occupancy,
    /// How long the tool waited in vain for the memory to be freed; `None` if it was freed.
    pub waited_in_vain: Option<Duration>,
}

/// How other processes affected a run's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interference {
    /// Remarks on the figures.
    pub marks: Vec<String>,
    /// Metrics that may include memory of other processes, with the reason.
    pub withdrawn: BTreeMap<String, String>,
}

/// Whether this process keeps the tests of a pool off its device. One that has less than any context draws
/// (Xorg), or serves others (MPS). In a container, nobody knows whether it is alive.
pub(crate) fn is_other(process: &DeviceProcess, ids: ProcessIds) -> bool {
    (process.is_alive || ids == ProcessIds::Containers) && process.bytes.is_none_or(|bytes| bytes > IDLE)
}

/// Returns how many more bytes are in use than before, without those that other living processes
/// have taken since.
pub(crate) fn excess(before: &Occupancy, now: &Occupancy) -> u64 {
    let (Ok(level), Ok(used)) = (&before.used, &now.used) else { return 0 };
    let others = processes(now).iter().filter(|process| process.is_alive).map(|process| {
        let had = processes(before).iter().find(|known| known.process == process.process);
        let had = had.and_then(|known| known.bytes).unwrap_or_default();
        process.bytes.unwrap_or_default().saturating_sub(had)
    });
    used.saturating_sub(*level).saturating_sub(others.sum())
}

/// Whether the memory of a device is free again.
pub(crate) fn is_back(before: &Occupancy, now: &Occupancy) -> bool {
    excess(before, now) <= TOLERANCE
}

/// Whether other processes affected the device's figures, if the run used the device.
pub(crate) fn is_remarkable(watched: &WatchedDevice) -> bool {
    watched.waited_in_vain.is_some() || neighbours(watched, ProcessIds::Hosts).is_some()
}

/// Returns how other processes affected a run that used these devices.
pub(crate) fn interference<'a>(
    used: impl IntoIterator<Item = &'a WatchedDevice>,
    ids: ProcessIds,
) -> Interference {
    let mut interference = Interference::default();
    for watched in used {
        let left_over = watched.waited_in_vain.map(|waited| {
            format!(
                "{} had {} more in use {} s after the run than before the run",
                watched.device,
                Bytes(excess(&watched.before, &watched.after)),
                waited.as_secs()
            )
        });
        let reasons = [neighbours(watched, ids), left_over];
        for reason in reasons.into_iter().flatten() {
            let metric = watched.device.shared_metric();
            interference
                .withdrawn
                .entry(metric)
                .or_insert_with(|| format!("may include memory of other processes: {reason}"));
            interference.marks.push(reason);
        }
    }
    interference
}

fn processes(occupancy: &Occupancy) -> &[DeviceProcess] {
    occupancy.processes.as_deref().unwrap_or_default()
}

/// Returns who else was on the device; `None` if nobody was.
fn neighbours(watched: &WatchedDevice, ids: ProcessIds) -> Option<String> {
    let device = &watched.device;
    let (before, after) = (processes(&watched.before), processes(&watched.after));
    let was_there = |process: &&DeviceProcess| before.iter().any(|known| known.process == process.process);
    let stayed: Vec<&DeviceProcess> = after.iter().filter(was_there).collect();
    let came: Vec<&DeviceProcess> = after.iter().filter(|process| !was_there(process)).collect();
    let is_gone = |process: &&DeviceProcess| after.iter().all(|known| known.process != process.process);
    let left: Vec<&DeviceProcess> = before.iter().filter(is_gone).collect();
    let was = if stayed.len() == 1 { "was on" } else { "were on" };
    let groups =
        [(stayed, was, "too"), (came, "came onto", "during the run"), (left, "left", "during the run")];
    let said: Vec<String> = groups
        .iter()
        .filter(|(group, ..)| !group.is_empty())
        .map(|(group, verb, when)| format!("{} {verb} {device} {when}", listed(group)))
        .collect();
    if !said.is_empty() {
        let note = match ids {
            ProcessIds::Hosts => "",
            ProcessIds::Containers => " (NVML's process ids, which may be the host's)",
        };
        return Some(format!("{}{note}", said.join("; ")));
    }
    let level = *watched.before.used.as_ref().ok().filter(|level| **level > IDLE)?;
    let why = match &watched.before.processes {
        Ok(_) => "by processes that NVML does not show (a container may hide them)".to_owned(),
        Err(reason) => format!("and NVML cannot list processes here ({reason})"),
    };
    Some(format!("{} of {device} was in use before the run, {why}", Bytes(level)))
}

/// Returns `process 4711 (python, 3.00 MiB), process 4712 and 2 more`.
pub(super) fn listed(processes: &[&DeviceProcess]) -> String {
    let one = |process: &&DeviceProcess| {
        let facts: Vec<String> =
            process.name.iter().cloned().chain(process.bytes.map(|bytes| Bytes(bytes).to_string())).collect();
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        format!("process {}{facts}", process.process)
    };
    some(&processes.iter().map(one).collect::<Vec<_>>(), MOST_NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn process(process: u32, name: Option<&str>, mebibytes: u64) -> DeviceProcess {
        let is_alive = name.is_some();
        DeviceProcess { process, is_alive, name: name.map(str::to_owned), bytes: Some(mebibytes * MIB) }
    }

    /// A process of another user where `/proc` hides these.
    fn hidden(process: u32, mebibytes: u64) -> DeviceProcess {
        DeviceProcess { process, is_alive: true, name: None, bytes: Some(mebibytes * MIB) }
    }

    fn occupancy(mebibytes: u64, processes: &[DeviceProcess]) -> Occupancy {
        Occupancy { used: Ok(mebibytes * MIB), processes: Ok(processes.to_vec()) }
    }

    fn watched(before: Occupancy, after: Occupancy) -> WatchedDevice {
        let device = CudaDevice { index: 2, part: None, uuid: "GPU-a".into() };
        WatchedDevice { device, before, after, waited_in_vain: None }
    }

    fn marks(watched: &WatchedDevice) -> Vec<String> {
        let interference = super::interference([watched], ProcessIds::Hosts);
        assert_eq!(interference.withdrawn.contains_key("gpu.2.device"), !interference.marks.is_empty());
        assert_eq!(is_remarkable(watched), !interference.marks.is_empty());
        interference.marks
    }

    #[test]
    fn a_device_that_nobody_else_was_on_is_not_spoken_of() {
        assert_eq!(marks(&watched(occupancy(3, &[]), occupancy(4, &[]))), [] as [&str; 0]);
        let unknown = Occupancy { used: Err("Not Supported".into()), processes: Err("Not Supported".into()) };
        assert_eq!(marks(&watched(unknown.clone(), unknown)), [] as [&str; 0]);
    }

    #[test]
    fn others_are_named_with_what_they_had_and_when() {
        let python = || process(7, Some("python"), 300);
        let stayed = watched(occupancy(303, &[python()]), occupancy(303, &[python()]));
        assert_eq!(marks(&stayed), ["process 7 (python, 300 MiB) was on GPU 2 too"]);
        let came = watched(occupancy(3, &[]), occupancy(303, &[python()]));
        assert_eq!(marks(&came), ["process 7 (python, 300 MiB) came onto GPU 2 during the run"]);
        let left = watched(occupancy(303, &[python()]), occupancy(3, &[]));
        assert_eq!(marks(&left), ["process 7 (python, 300 MiB) left GPU 2 during the run"]);
        let four = [process(7, None, 1), process(8, None, 1), process(9, None, 1), process(10, None, 1)];
        let many = watched(occupancy(4, &four), occupancy(4, &four));
        assert_eq!(
            marks(&many),
            ["process 7 (1.00 MiB), process 8 (1.00 MiB), process 9 (1.00 MiB) and 1 more were on GPU 2 too"]
        );
    }

    #[test]
    fn in_a_container_ids_are_said_to_be_perhaps_the_hosts() {
        let both = occupancy(303, &[process(7, None, 300)]);
        let interference = super::interference([&watched(both.clone(), both)], ProcessIds::Containers);
        assert_eq!(
            interference.withdrawn["gpu.2.device"],
            "may include memory of other processes: process 7 (300 MiB) was on GPU 2 too (NVML's process ids, which may be the host's)"
        );
    }

    #[test]
    fn where_processes_are_hidden_the_level_tells_whether_somebody_is_there() {
        let busy = watched(occupancy(700, &[]), occupancy(700, &[]));
        assert_eq!(
            marks(&busy),
            [
                "700 MiB of GPU 2 was in use before the run, by processes that NVML does not show (a container may \
                 hide them)"
            ]
        );
        let unlisted = || Occupancy { used: Ok(700 * MIB), processes: Err("not supported".into()) };
        let marks = marks(&watched(unlisted(), unlisted()));
        assert!(marks[0].ends_with("and NVML cannot list processes here (not supported)"), "{marks:?}");
    }

    #[test]
    fn memory_that_did_not_come_back_is_said_with_its_size() {
        let mut left = watched(occupancy(3, &[]), occupancy(529, &[]));
        left.waited_in_vain = Some(Duration::from_secs(30));
        assert_eq!(marks(&left), ["GPU 2 had 526 MiB more in use 30 s after the run than before the run"]);
    }

    #[test]
    fn what_a_living_process_of_others_took_is_not_waited_for() {
        let before = occupancy(3, &[]);
        assert!(is_back(&before, &occupancy(3 + 16, &[])));
        assert!(!is_back(&before, &occupancy(3 + 17, &[])));
        assert!(is_back(&before, &occupancy(303, &[process(7, Some("python"), 300)])));
        assert!(is_back(&before, &occupancy(303, &[hidden(7, 300)])));
        // This process has ended, or belongs to another process table. It may be the test's own.
        assert!(!is_back(&before, &occupancy(303, &[process(7, None, 300)])));
        let grew = occupancy(403, &[process(7, Some("python"), 400)]);
        assert!(is_back(&occupancy(303, &[process(7, Some("python"), 300)]), &grew));
    }

    #[test]
    fn processes_that_are_alive_keep_a_pool_off_also_without_a_name() {
        let training = hidden(7, 60 << 10);
        assert!(is_other(&training, ProcessIds::Hosts));
        let unknown = DeviceProcess { is_alive: false, ..training };
        assert!(!is_other(&unknown, ProcessIds::Hosts), "it has ended");
        assert!(is_other(&unknown, ProcessIds::Containers));
    }

    #[test]
    fn a_process_with_less_than_a_context_does_not_keep_a_pool_off() {
        for ids in [ProcessIds::Hosts, ProcessIds::Containers] {
            assert!(!is_other(&process(7, Some("Xorg"), 4), ids));
            assert!(is_other(&process(7, Some("python"), 65), ids));
            assert!(is_other(&DeviceProcess { bytes: None, ..process(7, Some("python"), 0) }, ids));
        }
    }
}
