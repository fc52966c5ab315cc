//! Watches the devices around the runs: keeps other runs off them, and finds out whether other
//! processes use them and whether a run's memory was freed.
//!
//! Without NVML this does nothing.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};

use crate::devices::{CudaDevice, Device, DeviceProcess, Devices, Occupancy};
use crate::locks;
use crate::neighbours::{self, Interference, WatchedDevice, is_back, is_remarkable};
use crate::nvml::{self, Nvml, ProcessIds};
use crate::queue::DeviceQueue;
use crate::spreading;
use crate::visible_devices::{self, ORDER, VISIBLE};
use memprof_support::bounded_lines;
use memprof_support::event::{Event, Sink};
use memprof_support::file_lock::{self, Lock, WhenHeld};
use memprof_support::regular_file;
use memprof_support::user_error::UserError;

/// The variable that sets how many seconds to wait for memory to be freed.
pub(crate) const PATIENCE_VARIABLE: &str = "MEMPROF_DEVICE_WAIT";
/// The driver frees a process's memory when the process ends. What is in use after this time
/// belongs to another process.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to ask NVML while waiting. It answers within microseconds.
const POLL: Duration = Duration::from_millis(20);
/// A wait that takes longer is reported.
const UNTOLD: Duration = Duration::from_millis(500);

/// The devices of this machine, watched.
pub struct DeviceWatch<'a> {
    nvml: Option<Nvml>,
    devices: Devices,
    process_ids: ProcessIds,
    locks: Utf8PathBuf,
    patience: Duration,
    when_held: WhenHeld,
    sink: &'a dyn Sink,
    interrupt: &'a AtomicBool,
    held: Mutex<Held>,
}

/// The devices that this process keeps others off.
#[derive(Default)]
struct Held {
    devices: BTreeSet<CudaDevice>,
    _locks: Vec<Lock>,
}

/// The devices that a run can see, and what was on them before the run.
#[derive(Debug, Default)]
pub struct OccupancyBefore(Vec<(CudaDevice, Occupancy)>);

impl<'a> DeviceWatch<'a> {
    /// Finds the devices, if there are any.
    pub fn open(when_held: WhenHeld, sink: &'a dyn Sink, interrupt: &'a AtomicBool) -> Self {
        let nvml = nvml::may_have_devices().then(|| Nvml::open().ok()).flatten();
        let devices = nvml.as_ref().and_then(|nvml| nvml.devices().ok()).unwrap_or_default();
        let patience = std::env::var(PATIENCE_VARIABLE).ok().and_then(|text| {
            let seconds = text.parse().ok();
            if seconds.is_none() {
                let message = format!("{PATIENCE_VARIABLE} is '{text}'; expected a number of seconds");
                let help = format!("using {} s", PATIENCE.as_secs());
                sink.emit(Event::Warning { message, help: Some(help) });
            }
            seconds
        });
        Self {
            nvml,
            devices,
            process_ids: ProcessIds::here(),
            locks: locks::folder(),
            patience: patience.map_or(PATIENCE, Duration::from_secs),
            when_held,
            sink,
            interrupt,
            held: Mutex::default(),
        }
    }

    /// Returns the devices that the user named for a run.
    pub fn given(&self, names: &[String]) -> Result<Vec<CudaDevice>, UserError> {
        visible_devices::named(&self.devices, names)
    }

    /// Checks that the devices of each cell's list exist, before anything is built.
    pub fn check<'n>(&self, lists: impl IntoIterator<Item = &'n Vec<String>>) -> Result<(), UserError> {
        lists.into_iter().try_for_each(|names| self.given(names).map(drop))
    }

    /// Returns the devices of a pool that the user named.
    pub fn pool(&self, names: &[String]) -> Result<Vec<CudaDevice>, UserError> {
        spreading::pool(&self.devices, names)
    }

    /// Returns a device by its UUID, `GPU 0`; the UUID itself if the machine has no such device.
    pub fn name(&self, uuid: &str) -> String {
        let mut all = self.devices.devices.iter().flat_map(Device::cuda_devices);
        all.find(|device| device.uuid == uuid).map_or_else(|| uuid.to_owned(), |device| device.to_string())
    }

    /// Returns which other run has locked a device; `None` if none has. Takes no lock, so runs that
    /// begin at the same time do not see each other's question as a lock.
    pub fn holder(&self, device: &CudaDevice) -> Option<String> {
        file_lock::held_by(&locks::path(&self.locks, device))
    }

    /// Returns why no run may begin on a device of which no test runs now: it is lost, or other
    /// processes use it.
    pub fn trouble(&self, device: &CudaDevice) -> Option<String> {
        let nvml = self.nvml.as_ref()?;
        if let Some(reason) = nvml.lost(&device.uuid) {
            return Some(format!("it no longer answers ({reason})"));
        }
        let begin = Instant::now();
        loop {
            let occupancy = nvml.occupancy(&device.uuid);
            let is_other = |one: &&DeviceProcess| neighbours::is_other(one, self.process_ids);
            let others: Vec<&DeviceProcess> = occupancy.processes.iter().flatten().filter(is_other).collect();
            if others.is_empty() {
                return None;
            }
            // NVML may still list a process that has just ended.
            if begin.elapsed() >= UNTOLD || self.interrupt.load(Ordering::Relaxed) {
                return Some(format!("used by {}", neighbours::listed(&others)));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns the devices that a process with these variables can see.
    pub fn visible(&self, variable: impl Fn(&str) -> Option<String>) -> Vec<CudaDevice> {
        let (list, order) = (variable(VISIBLE), variable(ORDER));
        visible_devices::visible(&self.devices, list.as_deref(), order.as_deref()).devices
    }

    /// Keeps other runs of this program off the devices until the locks are dropped. Waits for its
    /// turn if others use them.
    pub fn lock(&self, devices: &BTreeSet<CudaDevice>) -> anyhow::Result<Vec<Lock>> {
        self.lock_by(self.when_held, self.interrupt, devices)
    }

    fn lock_by(
        &self,
        when_held: WhenHeld,
        interrupt: &AtomicBool,
        devices: &BTreeSet<CudaDevice>,
    ) -> anyhow::Result<Vec<Lock>> {
        DeviceQueue { folder: &self.locks, when_held, sink: self.sink, interrupt }.acquire(devices)
    }

    /// Like [`Self::lock`], until [`Self::release`]. Devices that are held already stay held: a run
    /// does not queue again for each of its rounds.
    pub fn hold(&self, devices: &BTreeSet<CudaDevice>) -> anyhow::Result<()> {
        self.hold_by(self.when_held, self.interrupt, devices)
    }

    /// Like [`Self::hold`], but always waits, also after Ctrl-C: for what must be done before this
    /// process ends.
    pub fn hold_at_end(&self, devices: &BTreeSet<CudaDevice>) -> anyhow::Result<()> {
        self.hold_by(WhenHeld::Wait, &AtomicBool::new(false), devices)
    }

    fn hold_by(
        &self,
        when_held: WhenHeld,
        interrupt: &AtomicBool,
        devices: &BTreeSet<CudaDevice>,
    ) -> anyhow::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !devices.is_subset(&held.devices) {
            let all = &held.devices | devices;
            // Nobody waits for a device while holding another.
            *held = Held::default();
            *held = Held { _locks: self.lock_by(when_held, interrupt, &all)?, devices: all };
        }
        Ok(())
    }

    /// Lets others use the devices.
    pub fn release(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Held::default();
    }

    /// Returns what is on the devices before a run.
    pub fn before(&self, devices: Vec<CudaDevice>) -> OccupancyBefore {
        let Some(nvml) = &self.nvml else { return OccupancyBefore::default() };
        let with_occupancy = |device: CudaDevice| {
            let occupancy = nvml.occupancy(&device.uuid);
            (device, occupancy)
        };
        OccupancyBefore(devices.into_iter().map(with_occupancy).collect())
    }

    /// Waits until the run's memory is free again, and returns how other processes affected the
    /// figures. `passed` is false for a run that may have used a device without logging it.
    pub fn after(
        &self,
        before: OccupancyBefore,
        log: &Utf8Path,
        passed: bool,
    ) -> anyhow::Result<Interference> {
        let Some(nvml) = &self.nvml else { return Ok(Interference::default()) };
        let look = |(device, before): (CudaDevice, Occupancy)| {
            let after = nvml.occupancy(&device.uuid);
            WatchedDevice { device, before, after, waited_in_vain: None }
        };
        let mut watched: Vec<WatchedDevice> = before.0.into_iter().map(look).collect();
        let is_quiet =
            |watched: &WatchedDevice| is_back(&watched.before, &watched.after) && !is_remarkable(watched);
        if watched.iter().all(is_quiet) {
            return Ok(Interference::default());
        }
        let used = devices_in(log)?;
        watched.retain(|watched| !passed || used.contains(&watched.device.index));
        for watched in &mut watched {
            self.wait(nvml, watched);
        }
        watched.retain(|watched| watched.waited_in_vain.is_some() || used.contains(&watched.device.index));
        Ok(neighbours::interference(&watched, self.process_ids))
    }

    fn wait(&self, nvml: &Nvml, watched: &mut WatchedDevice) {
        let start = Instant::now();
        let mut told = false;
        while !is_back(&watched.before, &watched.after) {
            let waited = start.elapsed();
            if waited >= self.patience || self.interrupt.load(Ordering::Relaxed) {
                watched.waited_in_vain = Some(waited);
                break;
            }
            if waited >= UNTOLD && !told {
                self.sink.emit(Event::WaitingForMemory { device: watched.device.to_string() });
                told = true;
            }
            std::thread::sleep(POLL);
            watched.after = nvml.occupancy(&watched.device.uuid);
        }
        if watched.waited_in_vain.is_some() {
            let interference = neighbours::interference([&*watched], self.process_ids);
            self.sink.emit(Event::Warning {
                message: interference.marks.last().cloned().unwrap_or_default(),
                help: Some(
                    "`nvidia-smi` shows which process uses it; the report marks the run's figures".to_owned(),
                ),
            });
        }
    }
}

/// Returns NVML's indices of the devices that a log has figures for: `"gpu.0.live"`.
fn devices_in(log: &Utf8Path) -> anyhow::Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    // The outcome says why a log cannot be opened, for example because the test replaced it.
    let Ok(log) = regular_file::open_within(log, MOST_OF_LOG) else { return Ok(found) };
    let finder = memchr::memmem::Finder::new("\"gpu.");
    bounded_lines::each_line(BufReader::with_capacity(1 << 18, log), MOST_OF_LINE, |line| {
        for at in finder.find_iter(line) {
            let rest = &line[at + finder.needle().len()..];
            let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
            if rest.get(end) == Some(&b'.') {
                found.extend(
                    std::str::from_utf8(&rest[..end]).ok().and_then(|index| index.parse::<u32>().ok()),
                );
            }
        }
        true
    })?;
    Ok(found)
}

/// A longer log is refused, and its devices do not matter.
const MOST_OF_LOG: u64 = 512 << 20;

/// How many bytes of a log's line are searched for devices.
const MOST_OF_LINE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_devices_stay_held_between_rounds_until_they_are_released() {
        let folder = tempfile::tempdir().unwrap();
        let interrupt = AtomicBool::new(false);
        let ignore = |_: Event| ();
        let watch = DeviceWatch {
            nvml: None,
            devices: Devices::default(),
            process_ids: ProcessIds::here(),
            locks: Utf8PathBuf::try_from(folder.path().join("devices")).unwrap(),
            patience: PATIENCE,
            when_held: WhenHeld::Fail,
            sink: &ignore,
            interrupt: &interrupt,
            held: Mutex::default(),
        };
        let device = |index| CudaDevice { index, part: None, uuid: format!("GPU-{index}") };
        let (both, first) = (BTreeSet::from([device(0), device(1)]), BTreeSet::from([device(0)]));
        let is_free = |index| watch.lock(&BTreeSet::from([device(index)])).is_ok();
        assert_eq!(watch.holder(&device(0)), None);
        watch.hold(&both).unwrap();
        assert!(watch.holder(&device(0)).unwrap().contains(&std::process::id().to_string()));
        // A second lock of the same device would fail.
        watch.hold(&first).unwrap();
        assert!(!is_free(0) && !is_free(1));
        watch.release();
        assert!(is_free(0) && is_free(1));
        watch.hold(&first).unwrap();
        watch.hold(&BTreeSet::from([device(1)])).unwrap();
        assert!(!is_free(0) && !is_free(1));
    }

    #[test]
    fn the_devices_of_a_log_are_those_it_has_figures_of() {
        let folder = tempfile::tempdir().unwrap();
        let log = Utf8Path::from_path(folder.path()).unwrap().join("log");
        assert_eq!(devices_in(&log).unwrap(), BTreeSet::new());
        let lines = "{\"metrics\":{\"gpu.0.live\":1,\"gpu.0.peak\":2,\"heap.live\":3}}\n\
                     {\"metrics\":{\"gpu.12.device\":1,\"gpu.host_pinned.live\":1}}\n\
                     {\"label\":\"gpu.7.x\",\"metric\":\"gpu.0000:03:00.0.vram\"}\n";
        fs_err::write(&log, lines).unwrap();
        // A label may look like a metric. Then the list has a device too many, but none too few.
        assert_eq!(devices_in(&log).unwrap(), BTreeSet::from([0, 7, 12]));
    }
}
