//! Devices around the runs: who may use one, whether somebody else is on it, and whether a run's memory has left it.
//!
//! Without NVML there is nothing to watch: nothing is said, and nothing costs anything.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};

use crate::gpu::devices::{CudaDevice, Devices, Occupancy};
use crate::gpu::locks;
use crate::gpu::neighbours::{self, Interference, WatchedDevice, is_back, is_remarkable};
use crate::gpu::nvml::{self, Nvml, ProcessIds};
use crate::gpu::visible_devices::{self, ORDER, VISIBLE};
use crate::support::event::{Event, Sink};
use crate::support::file_lock::{Lock, LockError, WhenHeld};
use crate::support::user_error::Complaint;

/// The variable that says for how many seconds memory is waited for.
pub const PATIENCE_VARIABLE: &str = "MEMPROF_DEVICE_WAIT";
/// The driver takes a process's memory back as it ends; what is still there after this is somebody's.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often NVML is asked meanwhile: it answers in some microseconds.
const POLL: Duration = Duration::from_millis(20);
/// A wait that is longer is told.
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
}

/// The places that a run can see, with what was on them before it.
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
                let message = format!("{PATIENCE_VARIABLE} is '{text}', which is no number of seconds");
                let help = format!("{} s are waited for memory", PATIENCE.as_secs());
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
        }
    }

    /// What a run that is given these devices has in its environment, to see them and no others.
    pub fn given(&self, names: &[String]) -> Result<Vec<CudaDevice>, Complaint> {
        visible_devices::named(&self.devices, names)
    }

    /// Whether these devices are there, for each cell's list: told before anything is built.
    pub fn check<'n>(&self, lists: impl IntoIterator<Item = &'n Vec<String>>) -> Result<(), Complaint> {
        lists.into_iter().try_for_each(|names| self.given(names).map(drop))
    }

    /// The places that a process with these variables can see.
    pub fn visible(&self, variable: impl Fn(&str) -> Option<String>) -> Vec<CudaDevice> {
        let (list, order) = (variable(VISIBLE), variable(ORDER));
        visible_devices::visible(&self.devices, list.as_deref(), order.as_deref()).places
    }

    /// Keeps other runs of this program off the places until the locks are dropped.
    ///
    /// The set is in the order of its places, so that two runs that want the same two devices do not each hold one.
    pub fn lock(&self, places: &BTreeSet<CudaDevice>) -> anyhow::Result<Vec<Lock>> {
        let mut locks = Vec::new();
        for place in places {
            match Lock::acquire(
                &locks::lock_file(&self.locks, place),
                self.when_held,
                self.interrupt,
                self.sink,
            ) {
                Ok(lock) => locks.push(lock),
                Err(error) if error.is::<LockError>() => return Err(error),
                Err(error) => self.sink.emit(Event::Warning {
                    message: format!("other runs of this program are not kept off {place}: {error:#}"),
                    help: Some(format!("set {} to a folder that can be written", locks::VARIABLE)),
                }),
            }
        }
        Ok(locks)
    }

    /// What is on the places before a run.
    pub fn before(&self, places: Vec<CudaDevice>) -> OccupancyBefore {
        let Some(nvml) = &self.nvml else { return OccupancyBefore::default() };
        let with_occupancy = |place: CudaDevice| {
            let occupancy = nvml.occupancy(&place.uuid);
            (place, occupancy)
        };
        OccupancyBefore(places.into_iter().map(with_occupancy).collect())
    }

    /// Waits until the run's memory has left the places, and says what must be said of its figures. `passed` is false for a
    /// run that may have used a device and had no time to log it.
    pub fn after(
        &self,
        before: OccupancyBefore,
        log: &Utf8Path,
        passed: bool,
    ) -> anyhow::Result<Interference> {
        let Some(nvml) = &self.nvml else { return Ok(Interference::default()) };
        let look = |(place, before): (CudaDevice, Occupancy)| {
            let after = nvml.occupancy(&place.uuid);
            WatchedDevice { place, before, after, waited_in_vain: None }
        };
        let mut watched: Vec<WatchedDevice> = before.0.into_iter().map(look).collect();
        let is_quiet =
            |watched: &WatchedDevice| is_back(&watched.before, &watched.after) && !is_remarkable(watched);
        if watched.iter().all(is_quiet) {
            return Ok(Interference::default());
        }
        let used = devices_in(log)?;
        watched.retain(|watched| !passed || used.contains(&watched.place.index));
        for watched in &mut watched {
            self.wait(nvml, watched);
        }
        watched.retain(|watched| watched.waited_in_vain.is_some() || used.contains(&watched.place.index));
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
                self.sink.emit(Event::WaitingForMemory { device: watched.place.to_string() });
                told = true;
            }
            std::thread::sleep(POLL);
            watched.after = nvml.occupancy(&watched.place.uuid);
        }
        if watched.waited_in_vain.is_some() {
            let interference = neighbours::interference([&*watched], self.process_ids);
            self.sink.emit(Event::Warning {
                message: interference.marks.last().cloned().unwrap_or_default(),
                help: Some("`nvidia-smi` shows who holds it; the run's figures are marked".to_owned()),
            });
        }
    }
}

/// The devices that a log has figures of, by NVML's index: `"gpu.0.live"`.
fn devices_in(log: &Utf8Path) -> anyhow::Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    let log = match fs_err::File::open(log) {
        Ok(log) => log,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error.into()),
    };
    let finder = memchr::memmem::Finder::new("\"gpu.");
    for line in BufReader::with_capacity(1 << 18, log).split(b'\n') {
        let line = line?;
        for at in finder.find_iter(&line) {
            let rest = &line[at + finder.needle().len()..];
            let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
            if rest.get(end) == Some(&b'.') {
                found.extend(
                    std::str::from_utf8(&rest[..end]).ok().and_then(|index| index.parse::<u32>().ok()),
                );
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_devices_of_a_log_are_those_it_has_figures_of() {
        let folder = tempfile::tempdir().unwrap();
        let log = Utf8Path::from_path(folder.path()).unwrap().join("log");
        assert_eq!(devices_in(&log).unwrap(), BTreeSet::new());
        let lines = "{\"metrics\":{\"gpu.0.live\":1,\"gpu.0.peak\":2,\"heap.live\":3}}\n\
                     {\"metrics\":{\"gpu.12.device\":1,\"gpu.host_pinned.live\":1}}\n\
                     {\"label\":\"gpu.7.x\",\"metric\":\"gpu.0000:03:00.0.vram\"}\n";
        fs_err::write(&log, lines).unwrap();
        // A label may look like a metric: then a device too many is spoken of, not one too few.
        assert_eq!(devices_in(&log).unwrap(), BTreeSet::from([0, 7, 12]));
    }
}
