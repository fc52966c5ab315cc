//! `gpu.N.…`: NVIDIA GPUs, from the moment that the program uses one. In a program that uses none,
//! a checkpoint looks once at the loader's count of libraries, and nothing is loaded.
//!
//! There are three sources: the injection library, which sees every allocation through CUPTI (see
//! `rendezvous`), the driver for its default memory pool, and NVML. `N` is NVML's index, found
//! by the device's UUID. Without NVML it is the beginning of the UUID.
//!
//! The driver has its own exit handlers and may not be called after them, but `done` is logged
//! after all handlers. So a handler that is registered after the driver's, and thus runs before it,
//! reads the figures for `done`.

use crate::blocks::site_figures::{AtNextMark, Changed, Interval};
use crate::blocks::size_count::SizeCount;
use crate::gpu::cuda_driver::{self, Driver, Pool, PoolFigures};
use crate::gpu::device_metrics::{DeviceMetrics, OF_HOST, UNLISTED};
use crate::gpu::handlers::Handlers;
use crate::gpu::rendezvous::{Figures, HOST, Rendezvous};
use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, MAXIMUM, Values};
use crate::metrics::source::{Extent, Source};
use crate::platform::loaded;
use crate::platform::untracked::{Untracked, kept};
use crate::shared::nvml::{self, Nvml, Problem, Uuid};
use crate::stacks::stack_recording;

/// In the executable's writable data, where the injection library looks for it.
#[used]
static RENDEZVOUS: Rendezvous = Rendezvous::new();

const CUPTI_SOURCE: &str = "CUPTI driver API callbacks";
const POOL_SOURCE: &str = "CUDA driver, default memory pool";
const CONTEXT_SOURCE: &str =
    "NVML's figure for this process minus what it had allocated, at the device's first checkpoint";
const AFTER_SHUTDOWN: &str =
    "the CUDA driver shut down before the first checkpoint; add a checkpoint inside the test";
const NOT_INJECTED: &str = "the CUDA driver did not load the library that CUDA_INJECTION64_PATH names, or loaded it \
                            before this executable's first code ran";
const UNLISTED_AT_FIRST: &str = "NVML did not list this process when the device was first seen";
const NO_POOL: &str = "the CUDA driver has no figures of a memory pool on this device";
/// Stands for page-locked host memory in the names of metrics.
const OF_HOST_NAME: &str = "host_pinned";
const OUTSIDE_A_RUN: &str = "counted only in a run of cargo memprof";

const USED: [&str; 2] = ["pool.used", "pool.used_peak"];
const RESERVED: [&str; 2] = ["pool.reserved", "pool.reserved_peak"];
const OF_NVML: [&str; 3] = ["process", "device", "context"];
/// As many as the injection library can return at once: 64 devices and the host.
const ROOM: usize = 65;

pub(crate) struct Gpu {
    /// Why CUPTI cannot be used, as far as that is known before the driver is initialised.
    cupti_absent: Option<&'static str>,
    /// `None` outside a run.
    handlers: Option<Handlers>,
    nvml: Option<Result<Nvml, &'static str>>,
    devices: Untracked<Device>,
    host: Option<(Index, Index)>,
    /// The injection library's figures at this mark.
    figures: [Figures; ROOM],
    figure_count: usize,
    /// Whether the last figures of the driver and of NVML were read, before the driver's exit
    /// handlers.
    taken: bool,
    ending: bool,
}

#[derive(Clone, Copy)]
struct Device {
    name: &'static str,
    /// The driver's ordinal, among the visible devices.
    ordinal: u32,
    live: Option<(Index, Index)>,
    pool: Option<(Pool, [Index; 4])>,
    nvml: Option<nvml::Device>,
    process: Option<Index>,
    /// Whether NVML listed this process when the device was first seen, so that it hides no ids.
    was_listed: bool,
    memory: Option<Index>,
    context: Option<(Index, u64)>,
    last: Last,
}

/// The figures of the driver and of NVML for a device.
#[derive(Clone, Copy)]
struct Last {
    pool: Option<PoolFigures>,
    /// `None` if NVML was not asked.
    process: Option<Result<u64, Problem>>,
    memory: Option<u64>,
}

const NOT_ASKED: Last = Last { pool: None, process: None, memory: None };

/// A device that the program uses now and did not use before.
struct Seen<'a> {
    ordinal: u32,
    uuid: Option<[u8; 16]>,
    pool: Result<Pool, &'static str>,
    /// `None` once the driver has shut down.
    driver: Option<&'a Driver>,
}

impl Device {
    fn new(name: &'static str, ordinal: u32) -> Self {
        Self {
            name,
            ordinal,
            live: None,
            pool: None,
            nvml: None,
            process: None,
            was_listed: false,
            memory: None,
            context: None,
            last: NOT_ASKED,
        }
    }

    fn add_pool(&mut self, pool: Result<Pool, &'static str>, metrics: &mut DeviceMetrics<'_>) {
        match pool {
            Ok(pool) => {
                let (used, used_peak) = metrics.add_pair(USED, ".pool", POOL_SOURCE);
                let (reserved, reserved_peak) = metrics.add_pair(RESERVED, ".pool.reserved", POOL_SOURCE);
                self.pool = Some((pool, [used, used_peak, reserved, reserved_peak]));
            }
            Err(reason) => {
                metrics.add_absent(&USED, reason);
                metrics.add_absent(&RESERVED, reason);
            }
        }
    }
}

const NO_FIGURES: Figures =
    Figures { ordinal: 0, has_uuid: 0, uuid: [0; 16], live: 0, peak: 0, pooled: 0, managed: 0 };

/// Finds out whether the program uses CUDA by now, and waits for the work on its devices, so that a
/// mark shows a moment that the program knows. The caller must not hold a lock that the user's code
/// may want: functions that the program gave to a device may run meanwhile.
pub(crate) fn settle() {
    loaded::look();
    cuda_driver::look();
    // The wait would invalidate a capture, and the program would fail.
    if !RENDEZVOUS.is_capturing() {
        cuda_driver::synchronise();
    }
}

/// Makes the primary context of a device, unless it exists.
pub(crate) fn make_context(ordinal: u32) -> Result<(), &'static str> {
    let library = cuda_driver::load()?;
    settle();
    cuda_driver::in_use().ok_or(library)?.make_context(ordinal)
}

/// Asks the driver's default pools to release what nobody uses.
pub(crate) fn trim_pools() {
    // Frees in order with a stream take effect once the stream gets there.
    settle();
    if let Some(driver) = cuda_driver::in_use() {
        driver.trim_default_pools();
    }
}

impl Gpu {
    pub(crate) const fn new() -> Self {
        Self {
            cupti_absent: Some(OUTSIDE_A_RUN),
            handlers: None,
            nvml: None,
            devices: Untracked::new(),
            host: None,
            figures: [NO_FIGURES; ROOM],
            figure_count: 0,
            taken: false,
            ending: false,
        }
    }

    /// This is a run, and these are the recorder's functions.
    pub(crate) fn set_handlers(&mut self, handlers: Handlers) {
        self.handlers = Some(handlers);
    }

    /// The process is in its exit handlers. The driver's figures are then those that were read
    /// before, if any.
    pub(crate) fn end(&mut self) {
        cuda_driver::end();
        self.ending = true;
    }

    /// Reads the figures of the driver and of NVML for the last time.
    pub(crate) fn take_last(&mut self, catalogue: &mut Catalogue) {
        if let (Some(driver), false) = (cuda_driver::in_use(), self.taken) {
            let _relaxed = driver.relax_captures();
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

    /// The name of a device that has figures.
    pub(crate) fn known_device(&self, ordinal: u32) -> Option<&'static str> {
        self.devices.iter().find(|device| device.ordinal == ordinal).map(|device| device.name)
    }

    /// The metrics of a device's default pool, in the order of [`USED`] and [`RESERVED`], or why there
    /// are none; `None` for a device that is not in use.
    pub(crate) fn pool_metrics(&self, ordinal: u32) -> Option<Result<[Index; 4], &'static str>> {
        let device = self.devices.iter().find(|device| device.ordinal == ordinal)?;
        Some(device.pool.map(|(_, metrics)| metrics).ok_or(NO_POOL))
    }

    /// The name of a device that may not have been seen yet, or of page-locked host memory.
    pub(crate) fn device_name(&mut self, ordinal: u32) -> Option<&'static str> {
        if ordinal == HOST {
            return Some(OF_HOST_NAME);
        }
        if let Some(name) = self.known_device(ordinal) {
            return Some(name);
        }
        loaded::look();
        cuda_driver::look();
        let driver = cuda_driver::in_use()?;
        let uuid = driver.uuid(driver.device(ordinal)?);
        let found = self.find_in_nvml(uuid).ok();
        Some(self.name_of(ordinal, uuid, found.map(|(_, device)| device)))
    }

    /// Each device with this process's bytes on it: from NVML, else the allocated bytes.
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
        let pool = device.pool.and_then(|(pool, _)| driver.pool_figures(pool));
        let process = |(nvml, found): (&Nvml, nvml::Device)| match nvml.process_memory(found) {
            Err(Problem::Unlisted(_)) if device.was_listed && self.is_released(driver, device, pool) => Ok(0),
            process => process,
        };
        Last {
            pool,
            process: nvml.filter(|_| device.process.is_some()).map(process),
            memory: nvml
                .filter(|_| device.memory.is_some())
                .and_then(|(nvml, device)| nvml.device_memory(device).ok()),
        }
    }

    /// Whether the program has nothing on a device. Without a context NVML does not list the process,
    /// also if memory of a pool or of `cuMemCreate` is left (driver 580).
    fn is_released(&self, driver: &Driver, device: &Device, pool: Option<PoolFigures>) -> bool {
        let is_empty = pool.map_or(true, |pool| pool.reserved == 0)
            && self.figures(device.ordinal).map_or(true, |figures| figures.live == 0);
        is_empty && !driver.has_context(device.ordinal)
    }

    /// The injection library's figures for a device, or for the host.
    fn figures(&self, ordinal: u32) -> Option<&Figures> {
        self.figures[..self.figure_count].iter().find(|figures| figures.ordinal == ordinal)
    }

    /// Tells the next mark what it means for the intervals of call stacks.
    pub(crate) fn at_next_mark(what: AtNextMark) {
        if let Some(sites) = RENDEZVOUS.sites() {
            sites(0, what as u32, std::ptr::null_mut(), std::ptr::null_mut(), 0);
        }
    }

    /// Calls `each` with each device's family of metrics, and with the figures of the interval that
    /// ended at the last mark and of the sites that changed in it.
    pub(crate) fn each_interval(&self, each: &mut dyn FnMut(&str, Interval, &[Changed])) {
        let sites = match RENDEZVOUS.sites() {
            Some(sites) => sites,
            None => return,
        };
        let devices = self.devices.iter().filter(|device| device.live.is_some());
        let families = devices.map(|device| (device.ordinal, device.name));
        for (ordinal, name) in families.chain(self.host.map(|_| (HOST, OF_HOST_NAME))) {
            let mut interval = Interval { live: 0, peak: 0, allocated: 0, count: 0 };
            let mut changed = Untracked::new();
            let nothing = Changed { site: 0, at_peak: 0, live: 0, allocated: 0, count: 0 };
            loop {
                let room = changed.len();
                let count = sites(ordinal, 0, &mut interval, changed.as_mut().as_mut_ptr(), room);
                if count <= room {
                    each(kept(format_args!("gpu.{name}")), interval, &changed[..count]);
                    break;
                }
                for _ in room..count {
                    changed.push(nothing);
                }
            }
        }
    }

    /// Puts the sizes of the live blocks of a device into the array, and returns the beginning of its
    /// metrics. Devices have places from 0 on; `None` behind the last.
    pub(crate) fn live_sizes(&self, place: usize, into: &mut Untracked<SizeCount>) -> Option<&'static str> {
        let sizes = RENDEZVOUS.live_sizes()?;
        let device = self.devices.iter().filter(|device| device.live.is_some()).nth(place)?;
        into.clear();
        loop {
            let room = into.len();
            let count = sizes(device.ordinal, into.as_mut().as_mut_ptr(), room);
            if count <= room {
                into.truncate(count);
                return Some(kept(format_args!("gpu.{}", device.name)));
            }
            for _ in room..count {
                into.push(SizeCount { bytes: 0, count: 0, site: 0 });
            }
        }
    }

    fn take_figures(&mut self, ends_interval: bool) {
        self.figure_count = match RENDEZVOUS.reader() {
            Some(read) => read(self.figures.as_mut_ptr(), ROOM, ends_interval).min(ROOM),
            None => 0,
        };
    }

    /// Adds the devices that have come into use.
    fn look_for_devices(&mut self, driver: &Driver, catalogue: &mut Catalogue) {
        let current = driver.current_device();
        for ordinal in 0..driver.device_count() {
            if self.devices.iter().any(|device| device.ordinal == ordinal) {
                continue;
            }
            let handle = match driver.device(ordinal) {
                Some(handle) => handle,
                None => continue,
            };
            let in_use = current == Some(handle)
                || driver.has_primary_context(handle)
                || self.figures(ordinal).is_some();
            if in_use {
                let pool = driver.default_pool(handle).map_err(|status| match status {
                    0 => "this CUDA driver has no memory pools (they came with CUDA 11.2)",
                    status => kept(format_args!("cuDeviceGetDefaultMemPool failed with error {status}")),
                });
                let seen = Seen { ordinal, uuid: driver.uuid(handle), pool, driver: Some(driver) };
                self.add_device(&seen, catalogue);
            }
        }
    }

    /// Adds the devices that only the injection library knows, after the driver has shut down.
    fn look_for_devices_at_the_end(&mut self, catalogue: &mut Catalogue) {
        for place in 0..self.figure_count {
            let figures = self.figures[place];
            let known = self.devices.iter().any(|device| device.ordinal == figures.ordinal);
            if !known && figures.ordinal != HOST {
                let uuid = if figures.has_uuid == 0 { None } else { Some(figures.uuid) };
                let pool = Err(AFTER_SHUTDOWN);
                self.add_device(&Seen { ordinal: figures.ordinal, uuid, pool, driver: None }, catalogue);
            }
        }
    }

    fn add_device(&mut self, seen: &Seen<'_>, catalogue: &mut Catalogue) {
        if let (true, false, Some(handlers)) = (self.devices.is_empty(), self.ending, self.handlers) {
            // The driver has registered its handlers by now, so this one runs before them.
            (handlers.first_use)();
        }
        let found = self.find_in_nvml(seen.uuid);
        let nvml_device = found.ok().map(|(_, device)| device);
        let name = self.name_of(seen.ordinal, seen.uuid, nvml_device);
        let mut device = Device::new(name, seen.ordinal);
        let is_part = nvml_device.map_or(false, |device| device.is_part);
        let mut metrics = DeviceMetrics { device: name, is_part, catalogue };
        if metrics.fit() {
            device.nvml = nvml_device;
            match self.why_uncounted() {
                None => device.live = Some(metrics.add_pair(["live", "peak"], "", CUPTI_SOURCE)),
                Some(reason) => metrics.add_absent(&["live", "peak"], reason),
            }
            device.add_pool(seen.pool, &mut metrics);
            match (found, seen.driver) {
                (Ok(found), Some(driver)) => self.add_nvml(&mut device, found, driver, &mut metrics),
                (Ok(_), None) => metrics.add_absent(&OF_NVML, AFTER_SHUTDOWN),
                (Err(reason), _) => metrics.add_absent(&OF_NVML, kept(format_args!("NVML: {reason}"))),
            }
        }
        self.devices.push(device);
    }

    /// NVML and its handle for a device, or why there is none.
    fn find_in_nvml(&mut self, uuid: Option<[u8; 16]>) -> Result<(Nvml, nvml::Device), &'static str> {
        let nvml = (*self.nvml.get_or_insert_with(Nvml::open))?;
        let uuid = uuid.ok_or("the driver gives no UUID for this device")?;
        nvml.device(uuid).map(|device| (nvml, device)).map_err(|problem| nvml.reason(problem))
    }

    fn add_nvml(
        &self,
        device: &mut Device,
        (nvml, found): (Nvml, nvml::Device),
        driver: &Driver,
        metrics: &mut DeviceMetrics<'_>,
    ) {
        match nvml.device_memory(found) {
            Ok(_) => device.memory = Some(metrics.add("device", nvml::MEMORY_SOURCE, Kind::Level)),
            Err(problem) => metrics.add_absent(&["device"], nvml.reason(problem)),
        }
        let context = match nvml.process_memory(found) {
            Ok(process) => {
                device.was_listed = true;
                self.context_cost(device, process, driver)
            }
            // NVML may list it once it has a context.
            Err(Problem::Unlisted(_)) if !driver.has_context(device.ordinal) => Err(UNLISTED_AT_FIRST),
            Err(problem) => return metrics.add_absent(&["process", "context"], nvml.reason(problem)),
        };
        device.process = Some(metrics.add("process", nvml::PROCESS_SOURCE, Kind::Level));
        match context {
            Ok(cost) => device.context = Some((metrics.add("context", CONTEXT_SOURCE, Kind::Level), cost)),
            Err(reason) => metrics.add_absent(&["context"], reason),
        }
    }

    /// Bytes of the device's context: what NVML counts for the process, without what the process
    /// allocated itself.
    fn context_cost(&self, device: &Device, process: u64, driver: &Driver) -> Result<u64, &'static str> {
        if device.live.is_none() {
            return Err("needs CUPTI to know what was allocated when the device was first used");
        }
        let figures = self.figures(device.ordinal).copied().unwrap_or(NO_FIGURES);
        let _relaxed = driver.relax_captures();
        let pool = device.pool.and_then(|(pool, _)| driver.pool_now(pool));
        let (used, reserved) = pool.unwrap_or((0, 0));
        if figures.managed != 0 || figures.pooled > used {
            return Err(
                "the program already used managed memory or its own memory pool when the device was first seen",
            );
        }
        let allocated = figures.live - figures.pooled + reserved;
        process.checked_sub(allocated).ok_or("NVML's figure was smaller than what was allocated")
    }

    /// Why there are no exact figures; `None` if there are.
    fn why_uncounted(&self) -> Option<&'static str> {
        if RENDEZVOUS.reader().is_some() {
            return None;
        }
        self.cupti_absent.or_else(|| RENDEZVOUS.problem()).or(Some(NOT_INJECTED))
    }

    /// `0` for NVML's first device. Two parts of one device in one process cannot both have its
    /// name.
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
        let handlers = match self.handlers {
            Some(handlers) => handlers,
            None => return,
        };
        self.cupti_absent = match environment.cupti() {
            Ok(path) => {
                if stack_recording::are_recorded() {
                    RENDEZVOUS.give_sites(stack_recording::current_site_of_gpu);
                }
                RENDEZVOUS.listen(path, handlers.first_use, handlers.out_of_memory);
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
            let mut metrics = DeviceMetrics { device: OF_HOST_NAME, is_part: false, catalogue };
            self.host = Some(metrics.add_pair(["live", "peak"], "", CUPTI_SOURCE));
        }
    }

    fn read(&mut self, values: &mut Values, extent: Extent) {
        let driver = cuda_driver::in_use();
        let _relaxed = driver.and_then(Driver::relax_captures);
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
                None => {
                    self.devices.as_mut()[place].last = NOT_ASKED;
                    continue;
                }
            };
            self.devices.as_mut()[place].last = last;
            if let (Some((_, [used, used_peak, reserved, reserved_peak])), Some(figures)) =
                (device.pool, last.pool)
            {
                values.set(used, Some(figures.used));
                values.set(used_peak, Some(figures.used_peak));
                values.set(reserved, Some(figures.reserved));
                values.set(reserved_peak, Some(figures.reserved_peak));
            }
            let process = last.process.and_then(Result::ok);
            for (index, figure) in [(device.process, process), (device.memory, last.memory)] {
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

    fn why_lost(&self, index: Index) -> Option<&'static str> {
        let device = self.devices.iter().find(|device| device.process == Some(index))?;
        match device.last.process?.err()? {
            Problem::Unlisted(_) => Some(UNLISTED),
            problem => Some(self.nvml.as_ref()?.as_ref().ok()?.reason(problem)),
        }
    }
}
