//! `gpu.N.…`: NVIDIA GPUs, from the moment that the program uses one. A program that uses none pays for one look at the
//! loader's count of loaded libraries at each checkpoint, and nothing is loaded on its behalf.
//!
//! Three parties are asked: the injection library, which sees every allocation through CUPTI (see `gpu_rendezvous`),
//! the driver for its default memory pool, and NVML. `N` is NVML's index, found through the device's UUID; where NVML is
//! not to be had, it is the beginning of the UUID itself.
//!
//! The driver has exit handlers of its own, after which it may not be called, and `done` is logged after all handlers. So
//! a handler that was registered later than the driver's, and thus runs before, takes the figures that `done` shows.

use std::os::raw::c_int;

use crate::cuda_driver::{self, Driver, Pool, PoolFigures};
use crate::dynamic_library;
use crate::environment::Environment;
use crate::gpu_rendezvous::{Figures, HOST, Rendezvous};
use crate::metric::{Catalogue, Index, Kind, MAXIMUM, Metric, Values};
use crate::nvml::{self, Nvml, Uuid};
use crate::recorder;
use crate::sources::{Extent, Source};
use crate::untracked::{Untracked, kept};

/// In the executable's writable data, where the injection library looks for it.
#[used]
static RENDEZVOUS: Rendezvous = Rendezvous::new();

const CUPTI_SOURCE: &str = "CUPTI driver API callbacks";
const POOL_SOURCE: &str = "CUDA driver, default memory pool";
const CONTEXT_SOURCE: &str =
    "NVML's figure of this process less what it had allocated, at the first checkpoint with the device";
const AFTER_SHUTDOWN: &str =
    "the CUDA driver had shut down, and no checkpoint came while it was up; log one inside the test";
const NOT_ANSWERED: &str = "the driver no longer answers for it";
const NOT_INJECTED: &str = "the CUDA driver did not load the library that CUDA_INJECTION64_PATH names, or loaded it \
                            before this executable's first code ran";
const OUTSIDE_A_RUN: &str = "counted in a run of cargo memprof only";

/// Metrics of one device. Where there is no room left for another one's, they are absent.
const PER_DEVICE: usize = OF_DEVICE.len();
const OF_DEVICE: [&str; 9] = [
    "live",
    "peak",
    "pool.used",
    "pool.used_peak",
    "pool.reserved",
    "pool.reserved_peak",
    "process",
    "device",
    "context",
];
/// Metrics of page-locked host memory, for which there is always room.
const OF_HOST: usize = 2;
const NO_ROOM: &str = "this process uses more devices than the log has room for";
/// As many as the injection library can be asked for at once.
const ROOM: usize = 65;

pub(crate) struct Gpu {
    /// Why CUPTI cannot be used, as far as that is known before the driver is initialised.
    cupti_absent: Option<&'static str>,
    in_a_run: bool,
    nvml: Option<Result<Nvml, &'static str>>,
    devices: Untracked<Device>,
    host: Option<(Index, Index)>,
    /// The injection library's figures of this mark.
    figures: [Figures; ROOM],
    figure_count: usize,
    /// What the driver and NVML said last, taken before the driver's exit handlers.
    taken: bool,
    ending: bool,
}

#[derive(Clone, Copy)]
struct Device {
    name: &'static str,
    /// The driver's number, among the visible devices.
    ordinal: u32,
    live: Option<(Index, Index)>,
    pool: Option<(Pool, [Index; 4])>,
    nvml: Option<nvml::Device>,
    process: Option<Index>,
    memory: Option<Index>,
    context: Option<(Index, u64)>,
    last: Last,
}

/// What the driver and NVML said of a device.
#[derive(Clone, Copy)]
struct Last {
    pool: Option<PoolFigures>,
    process: Option<u64>,
    memory: Option<u64>,
}

const NO_FIGURES: Figures =
    Figures { ordinal: 0, has_uuid: 0, uuid: [0; 16], live: 0, peak: 0, pooled: 0, managed: 0 };

/// Finds out whether the program uses CUDA by now, and waits for the work that it gave to its devices.
pub(crate) fn settle() {
    dynamic_library::look();
    cuda_driver::look();
    cuda_driver::synchronise();
}

impl Gpu {
    pub(crate) const fn new() -> Self {
        Self {
            cupti_absent: Some(OUTSIDE_A_RUN),
            in_a_run: false,
            nvml: None,
            devices: Untracked::new(),
            host: None,
            figures: [NO_FIGURES; ROOM],
            figure_count: 0,
            taken: false,
            ending: false,
        }
    }

    /// The process is in its exit handlers. Without figures that were taken before there are none of the driver.
    pub(crate) fn end(&mut self) {
        cuda_driver::end();
        self.ending = true;
    }

    /// Reads what the driver and NVML have to say for the last time.
    pub(crate) fn take_last(&mut self, catalogue: &mut Catalogue) {
        if let (Some(driver), false) = (cuda_driver::in_use(), self.taken) {
            self.take_figures(false);
            self.look_for_devices(driver, catalogue);
            for place in 0..self.devices.len() {
                let device = self.devices[place];
                self.devices.as_mut()[place].last = self.ask(driver, &device, Extent::Whole);
            }
            self.taken = true;
        }
        cuda_driver::end();
    }

    /// The name of a device that there are figures of.
    pub(crate) fn known_device(&self, ordinal: u32) -> Option<&'static str> {
        self.devices.iter().find(|device| device.ordinal == ordinal).map(|device| device.name)
    }

    /// The name of a device that may not have been seen yet.
    pub(crate) fn device_name(&mut self, ordinal: u32) -> Option<&'static str> {
        if let Some(name) = self.known_device(ordinal) {
            return Some(name);
        }
        dynamic_library::look();
        cuda_driver::look();
        let driver = cuda_driver::in_use()?;
        let uuid = driver.uuid(driver.device(c_int::try_from(ordinal).ok()?)?);
        let nvml = *self.nvml.get_or_insert_with(Nvml::open);
        let found = nvml.ok().zip(uuid).and_then(|(nvml, uuid)| nvml.device(uuid).ok());
        Some(self.name_of(ordinal, uuid, found))
    }

    /// Each device with the bytes that this process has on it: by NVML, else as allocated.
    pub(crate) fn in_use<'a>(&'a self, values: &'a Values) -> impl Iterator<Item = (&'a str, u64)> + Clone {
        self.devices.iter().filter_map(move |device| {
            let process = device.process.and_then(|index| values.get(index));
            let live = device.live.and_then(|(live, _)| values.get(live));
            Some((device.name, process.or(live)?))
        })
    }

    fn ask(&self, driver: &Driver, device: &Device, extent: Extent) -> Last {
        let nvml = self.nvml.as_ref().filter(|_| extent == Extent::Whole);
        let nvml = nvml.and_then(|nvml| nvml.as_ref().ok()).zip(device.nvml);
        Last {
            pool: device.pool.and_then(|(pool, _)| driver.pool_figures(pool)),
            process: nvml
                .filter(|_| device.process.is_some())
                .and_then(|(nvml, device)| nvml.process_memory(device).ok()),
            memory: nvml
                .filter(|_| device.memory.is_some())
                .and_then(|(nvml, device)| nvml.device_memory(device).ok()),
        }
    }

    /// What the injection library says of a device, or of the host.
    fn figures(&self, ordinal: u32) -> Option<&Figures> {
        self.figures[..self.figure_count].iter().find(|figures| figures.ordinal == ordinal)
    }

    fn take_figures(&mut self, ends_interval: bool) {
        self.figure_count = match RENDEZVOUS.reader() {
            Some(read) => read(self.figures.as_mut_ptr(), ROOM, ends_interval).min(ROOM),
            None => 0,
        };
    }

    /// Devices that are in use now and were not.
    fn look_for_devices(&mut self, driver: &Driver, catalogue: &mut Catalogue) {
        let current = driver.current_device();
        for ordinal in 0..driver.device_count() {
            if self.devices.iter().any(|device| device.ordinal == ordinal as u32) {
                continue;
            }
            let handle = match driver.device(ordinal as c_int) {
                Some(handle) => handle,
                None => continue,
            };
            let in_use = current == Some(handle)
                || driver.has_primary_context(handle)
                || self.figures(ordinal as u32).is_some();
            if in_use {
                let pool = driver.default_pool(handle).map_err(|status| match status {
                    0 => "the driver is older than memory pools (CUDA 11.2)",
                    status => kept(format_args!("cuDeviceGetDefaultMemPool failed with error {status}")),
                });
                self.add_device(ordinal as u32, driver.uuid(handle), pool, Some(driver), catalogue);
            }
        }
    }

    /// Devices of which only the injection library can tell, now that the driver has shut down.
    fn look_for_devices_at_the_end(&mut self, catalogue: &mut Catalogue) {
        for place in 0..self.figure_count {
            let figures = self.figures[place];
            let known = self.devices.iter().any(|device| device.ordinal == figures.ordinal);
            if !known && figures.ordinal != HOST {
                let uuid = if figures.has_uuid == 0 { None } else { Some(figures.uuid) };
                self.add_device(figures.ordinal, uuid, Err(AFTER_SHUTDOWN), None, catalogue);
            }
        }
    }

    fn add_device(
        &mut self,
        ordinal: u32,
        uuid: Option<[u8; 16]>,
        pool: Result<Pool, &'static str>,
        driver: Option<&Driver>,
        catalogue: &mut Catalogue,
    ) {
        if self.devices.is_empty() && self.in_a_run && !self.ending {
            // The driver has registered its handlers by now, so this one runs before them.
            recorder::take_last_figures_at_exit();
        }
        let nvml = *self.nvml.get_or_insert_with(Nvml::open);
        let found = match (nvml, uuid) {
            (Ok(nvml), Some(uuid)) => nvml.device(uuid).map_err(|problem| nvml.reason(problem)),
            (Ok(_), None) => Err("the driver gives no UUID for this device"),
            (Err(reason), _) => Err(reason),
        };
        let name = self.name_of(ordinal, uuid, found.ok());
        let mut device = Device {
            name,
            ordinal,
            live: None,
            pool: None,
            nvml: found.ok(),
            process: None,
            memory: None,
            context: None,
            last: Last { pool: None, process: None, memory: None },
        };
        let names = Names { device: name, part: found.map_or(false, |device| device.is_part) };
        if catalogue.length() + PER_DEVICE + OF_HOST > MAXIMUM {
            device.nvml = None;
            self.devices.push(device);
            return names.add_absent(&OF_DEVICE, NO_ROOM, catalogue);
        }
        match self.why_uncounted() {
            None => {
                let source = names.source(CUPTI_SOURCE);
                device.live = Some(names.add_pair(["live", "peak"], "", source, catalogue));
            }
            Some(reason) => names.add_absent(&["live", "peak"], reason, catalogue),
        }
        match pool {
            Ok(pool) => {
                let source = names.source(POOL_SOURCE);
                let (used, used_peak) =
                    names.add_pair(["pool.used", "pool.used_peak"], ".pool", source, catalogue);
                let (reserved, reserved_peak) = names.add_pair(
                    ["pool.reserved", "pool.reserved_peak"],
                    ".pool.reserved",
                    source,
                    catalogue,
                );
                device.pool = Some((pool, [used, used_peak, reserved, reserved_peak]));
            }
            Err(reason) => {
                let pool = ["pool.used", "pool.used_peak", "pool.reserved", "pool.reserved_peak"];
                names.add_absent(&pool, reason, catalogue);
            }
        }
        self.add_nvml_metrics(&mut device, nvml.ok(), found, driver, &names, catalogue);
        self.devices.push(device);
    }

    fn add_nvml_metrics(
        &self,
        device: &mut Device,
        nvml: Option<Nvml>,
        found: Result<nvml::Device, &'static str>,
        driver: Option<&Driver>,
        names: &Names,
        catalogue: &mut Catalogue,
    ) {
        let (nvml, found) = match (nvml, found, driver) {
            (Some(nvml), Ok(found), Some(_)) => (nvml, found),
            (_, Ok(_), _) => {
                return names.add_absent(&["process", "device", "context"], AFTER_SHUTDOWN, catalogue);
            }
            (_, Err(reason), _) => {
                let reason = kept(format_args!("NVML: {reason}"));
                return names.add_absent(&["process", "device", "context"], reason, catalogue);
            }
        };
        match nvml.device_memory(found) {
            Ok(_) => {
                let source = names.source(nvml::MEMORY_SOURCE);
                device.memory = Some(names.add("device", source, Kind::Level, catalogue));
            }
            Err(problem) => names.add_absent(&["device"], nvml.reason(problem), catalogue),
        }
        let process = match nvml.process_memory(found) {
            Ok(process) => process,
            Err(problem) => {
                return names.add_absent(&["process", "context"], nvml.reason(problem), catalogue);
            }
        };
        let source = names.source(nvml::PROCESS_SOURCE);
        device.process = Some(names.add("process", source, Kind::Level, catalogue));
        match self.context_cost(device, process, driver) {
            Ok(cost) => {
                let source = names.source(CONTEXT_SOURCE);
                device.context = Some((names.add("context", source, Kind::Level, catalogue), cost));
            }
            Err(reason) => names.add_absent(&["context"], reason, catalogue),
        }
    }

    /// What the device's context takes: what NVML counts for the process and the process did not ask for itself.
    fn context_cost(
        &self,
        device: &Device,
        process: u64,
        driver: Option<&Driver>,
    ) -> Result<u64, &'static str> {
        if device.live.is_none() {
            return Err("needs CUPTI, to know what was allocated when the device was first seen");
        }
        let figures = self.figures(device.ordinal).copied().unwrap_or(NO_FIGURES);
        let pool = match (device.pool, driver) {
            (Some((pool, _)), Some(driver)) => driver.pool_now(pool),
            _ => None,
        };
        let (used, reserved) = pool.unwrap_or((0, 0));
        if figures.managed != 0 || figures.pooled > used {
            return Err(
                "managed memory or a memory pool of the program's own was in use when the device was first seen",
            );
        }
        let allocated = figures.live - figures.pooled + reserved;
        process.checked_sub(allocated).ok_or("NVML's figure was below what was allocated")
    }

    /// Why there are no exact figures, if there are none.
    fn why_uncounted(&self) -> Option<&'static str> {
        if RENDEZVOUS.reader().is_some() {
            return None;
        }
        self.cupti_absent.or_else(|| RENDEZVOUS.problem()).or(Some(NOT_INJECTED))
    }

    /// `0` for NVML's first device. Two parts of one device in one process cannot both have its name.
    fn name_of(&self, ordinal: u32, uuid: Option<[u8; 16]>, found: Option<nvml::Device>) -> &'static str {
        let taken = |name: &str| self.devices.iter().any(|device| device.name == name);
        let by_index = found.map(|device| kept(format_args!("{}", device.index)));
        match (by_index.filter(|name| !taken(name)), uuid) {
            (Some(name), _) => name,
            (None, Some(uuid)) => {
                let kind = if found.map_or(false, |device| device.is_part) { "MIG" } else { "GPU" };
                let uuid = kept(format_args!("{}", Uuid(uuid)));
                kept(format_args!("{}-{}", kind, &uuid[..8]))
            }
            (None, None) => kept(format_args!("visible{ordinal}")),
        }
    }
}

impl Source for Gpu {
    fn open(&mut self, environment: &Environment, _catalogue: &mut Catalogue) {
        cuda_driver::set_synchronises(environment.synchronises());
        self.in_a_run = environment.in_a_run();
        if !self.in_a_run {
            return;
        }
        self.cupti_absent = match environment.cupti() {
            Ok(path) => {
                RENDEZVOUS.listen(path, recorder::take_last_figures_at_exit, recorder::gpu_out_of_memory);
                None
            }
            Err(reason) => Some(reason),
        };
    }

    fn appear(&mut self, catalogue: &mut Catalogue) {
        self.take_figures(true);
        match cuda_driver::in_use() {
            Some(driver) => self.look_for_devices(driver, catalogue),
            None if self.ending => self.look_for_devices_at_the_end(catalogue),
            None => {}
        }
        let has_room = catalogue.length() + OF_HOST <= MAXIMUM;
        if self.host.is_none() && has_room && self.figures(HOST).is_some() {
            let names = Names { device: "host_pinned", part: false };
            self.host = Some(names.add_pair(["live", "peak"], "", CUPTI_SOURCE, catalogue));
        }
    }

    fn read(&mut self, values: &mut Values, extent: Extent) {
        let driver = cuda_driver::in_use();
        for place in 0..self.devices.len() {
            let device = self.devices[place];
            if let Some((live, peak)) = device.live {
                let figures = self.figures(device.ordinal).copied().unwrap_or(NO_FIGURES);
                values.set(live, Some(figures.live));
                values.set(peak, Some(figures.peak));
            }
            let last = match driver {
                Some(driver) => self.ask(driver, &device, extent),
                None if self.taken => device.last,
                None => continue,
            };
            if let (Some((_, [used, used_peak, reserved, reserved_peak])), Some(figures)) =
                (device.pool, last.pool)
            {
                values.set(used, Some(figures.used));
                values.set(used_peak, Some(figures.used_peak));
                values.set(reserved, Some(figures.reserved));
                values.set(reserved_peak, Some(figures.reserved_peak));
            }
            for (index, figure) in [(device.process, last.process), (device.memory, last.memory)] {
                if let Some(index) = index {
                    values.set(index, figure);
                }
            }
            if let Some((index, cost)) = device.context {
                values.set(index, Some(cost));
            }
        }
        if let Some((live, peak)) = self.host {
            let figures = self.figures(HOST).copied().unwrap_or(NO_FIGURES);
            values.set(live, Some(figures.live));
            values.set(peak, Some(figures.peak));
        }
    }
}

/// Makes the names of one device's metrics.
struct Names {
    device: &'static str,
    /// Whether NVML's figures and the rest are of a part of the device (MIG).
    part: bool,
}

impl Names {
    fn of(&self, metric: &str) -> &'static str {
        kept(format_args!("gpu.{}.{}", self.device, metric))
    }

    fn source(&self, source: &'static str) -> &'static str {
        if self.part { kept(format_args!("{source}, of a part of the device (MIG)")) } else { source }
    }

    fn add(&self, metric: &str, source: &'static str, kind: Kind, catalogue: &mut Catalogue) -> Index {
        catalogue.add_metric(Metric { name: self.of(metric), source, kind, lost: NOT_ANSWERED })
    }

    /// A level and its peak. What scopes make of them is named by the device and this suffix.
    fn add_pair(
        &self,
        metrics: [&str; 2],
        family: &str,
        source: &'static str,
        catalogue: &mut Catalogue,
    ) -> (Index, Index) {
        let level = self.add(metrics[0], source, Kind::Level, catalogue);
        let family = kept(format_args!("gpu.{}{}", self.device, family));
        (level, self.add(metrics[1], source, Kind::Peak { family, level }, catalogue))
    }

    fn add_absent(&self, metrics: &[&str], reason: &'static str, catalogue: &mut Catalogue) {
        for metric in metrics {
            catalogue.add_absent(self.of(metric), reason);
        }
    }
}
