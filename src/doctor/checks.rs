//! Turns facts about a machine into `doctor`'s findings: what each measurement needs, and how to
//! get it. Pure.

use camino::Utf8PathBuf;

use crate::courtesy::note::Note;
use crate::doctor::diagnosis::{Availability, Diagnosis, DiagnosisSection, Finding};
use crate::gpu::devices::{CudaDevice, Device, DeviceProcess, Devices, Mig, Occupancy};
use crate::gpu::nvml::ProcessIds;
use crate::gpu::visible_devices::{self, VisibleDevices};
use crate::support::bytes::Bytes;
use crate::support::counted::ordinal;

/// The facts about a machine. An `Err` is the reason why something is missing.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    /// Each program's name, and the version that it prints.
    pub programs: Vec<(&'static str, Result<String, String>)>,
    /// The folder of all caches, if it is writable.
    pub cache: Result<Utf8PathBuf, String>,
    /// How many bytes it takes, and its limit if it has one.
    pub cache_size: Result<(u64, Option<u64>), String>,
    /// The locked caches in it, each with the process that holds the lock.
    pub cache_locks: Vec<(String, String)>,
    /// The platform.
    pub platform: String,
    /// How to read the resident memory of a process.
    pub resident: Resident,
    /// Whether a GPU's kernel driver exists, or the user set the path of NVML.
    pub may_have_devices: bool,
    /// What NVML shows.
    pub nvml: Result<NvmlFacts, String>,
    /// Whether the loader finds the CUDA driver's library.
    pub cuda: Result<(), String>,
    /// CUPTI, if it exists.
    pub cupti: Result<Cupti, String>,
    /// The current value of `CUDA_INJECTION64_PATH`.
    pub injected: Option<String>,
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible: Option<String>,
    /// `CUDA_DEVICE_ORDER`.
    pub order: Option<String>,
    /// Kernel drivers that report GPU memory per process (amdgpu, i915, xe).
    pub drm_drivers: Vec<String>,
    /// This user's processes whose GPU memory is set aside.
    pub set_aside: Vec<Note>,
}

/// How to read the resident memory of a process.
#[derive(Clone, Debug)]
pub enum Resident {
    /// On Linux, through `/proc`. Each way was tried on this process.
    Linux {
        /// `/proc/self/statm`.
        statm: Result<(), String>,
        /// Resetting the high-water mark through `/proc/self/clear_refs`.
        reset: Result<(), String>,
        /// `/proc/self/smaps_rollup`.
        rollup: Result<(), String>,
    },
    /// By a system call, which always works.
    BySystem(&'static str),
    /// Not supported on this platform.
    Unknown,
}

/// What NVML shows.
#[derive(Clone, Debug)]
pub struct NvmlFacts {
    /// The devices.
    pub devices: Devices,
    /// The use of each device or MIG part that CUDA can use, and who measures on it.
    pub places: Vec<(CudaDevice, Occupancy, DeviceRuns)>,
    /// Whether NVML's process ids are valid in this process's table.
    pub process_ids: ProcessIds,
}

/// The runs of this program that use a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceRuns {
    /// Who holds its lock: user, command, process, and since when.
    pub holder: Option<String>,
    /// Who waits for it, in order: the user, and what `holder` has.
    pub waiting: Vec<(String, String)>,
}

/// CUPTI's file and version.
#[derive(Clone, Debug)]
pub struct Cupti {
    /// The file, with links resolved.
    pub path: Utf8PathBuf,
    /// Its version, if it can be loaded and asked.
    pub version: Result<u32, String>,
}

/// Derives the findings from the facts.
pub fn diagnose(facts: &MachineFacts) -> Diagnosis {
    let mut sections = vec![
        DiagnosisSection { title: "Programs", findings: programs(facts) },
        DiagnosisSection { title: "Cache", findings: cache(facts) },
        DiagnosisSection { title: "GPUs", findings: gpus(facts) },
        DiagnosisSection { title: "Metrics", findings: metrics(facts) },
    ];
    sections.retain(|section| !section.findings.is_empty());
    let devices = facts.nvml.as_ref().ok().map(|nvml| nvml.devices.clone());
    Diagnosis { tool: env!("CARGO_PKG_VERSION"), platform: facts.platform.clone(), sections, devices }
}

const NEEDED: [&str; 3] = ["git", "cargo", "rustc"];

fn programs(facts: &MachineFacts) -> Vec<Finding> {
    let is_missing =
        |name: &str| facts.programs.iter().any(|(known, found)| *known == name && found.is_err());
    // A machine without cargo and rustc is meant for archives.
    let builds = !(is_missing("cargo") && is_missing("rustc"));
    let finding = |(name, found): &(&'static str, Result<String, String>)| match found {
        Ok(version) => Finding::new(*name, Availability::Good, version),
        Err(reason) if !NEEDED.contains(name) => Finding::new(*name, Availability::Absent, reason)
            .help("only repositories that store files in Git LFS need it"),
        Err(reason) if !builds && *name != "cargo" => Finding::new(*name, Availability::Absent, reason),
        Err(reason) if !builds => Finding::new(*name, Availability::Absent, reason)
            .help("this machine cannot build, but can run archives: `cargo-memprof run --archive FILE`"),
        Err(reason) => {
            let help = if *name == "git" { "install git" } else { "install Rust: https://rustup.rs" };
            Finding::new(*name, Availability::Broken, reason).help(help)
        }
    };
    facts.programs.iter().map(finding).collect()
}

fn cache(facts: &MachineFacts) -> Vec<Finding> {
    let folder = match &facts.cache {
        Ok(folder) => Finding::new("folder", Availability::Good, folder.as_str()),
        Err(reason) => Finding::new("folder", Availability::Broken, reason)
            .help("set CARGO_MEMPROF_HOME to a folder that is writable and outside of any repository"),
    };
    let size = match &facts.cache_size {
        Ok((bytes, Some(limit))) => Finding::new(
            "size",
            Availability::Good,
            format!("{} of at most {}", Bytes(*bytes), Bytes(*limit)),
        ),
        Ok((bytes, None)) => {
            Finding::new("size", Availability::Good, format!("{}, without a limit", Bytes(*bytes)))
        }
        Err(reason) => Finding::new("size", Availability::Broken, reason),
    };
    let lock = |(name, holder): &(String, String)| {
        Finding::new("lock", Availability::Limited, format!("{name} is held by {holder}"))
            .help("a comparison in that repository waits until that process ends; with --no-wait, it fails")
    };
    let locks: Vec<Finding> = facts.cache_locks.iter().map(lock).collect();
    let free = locks.is_empty().then(|| Finding::new("locks", Availability::Good, "no cache is locked"));
    [folder, size].into_iter().chain(locks).chain(free).collect()
}

fn gpus(facts: &MachineFacts) -> Vec<Finding> {
    if !facts.may_have_devices {
        let text = "no NVIDIA kernel driver (looked for /dev/nvidiactl, /proc/driver/nvidia and /dev/dxg)";
        return vec![Finding::new("driver", Availability::Absent, text).help(
            "a container needs access to the GPU: `docker run --gpus all` (with the NVIDIA Container \
             Toolkit)",
        )];
    }
    let mut findings = match &facts.nvml {
        Ok(nvml) => nvml_devices(facts, nvml),
        Err(reason) => vec![Finding::new("NVML", Availability::Absent, reason).help(
            "in a container, set NVIDIA_DRIVER_CAPABILITIES=utility,compute to get NVML and the CUDA driver; \
             if NVML is elsewhere, set MEMPROF_NVML to the library's path",
        )],
    };
    findings.push(match &facts.cuda {
        Ok(()) => Finding::new("libcuda", Availability::Good, "the loader finds libcuda.so.1"),
        Err(reason) => Finding::new("libcuda", Availability::Absent, reason)
            .help("tests cannot use CUDA; in a container, set NVIDIA_DRIVER_CAPABILITIES=utility,compute"),
    });
    findings.push(cupti(facts));
    findings.extend(facts.set_aside.iter().map(set_aside));
    findings
}

fn set_aside(note: &Note) -> Finding {
    let devices = if note.devices.is_empty() { "the GPU".to_owned() } else { note.devices.join(", ") };
    let by = match note {
        note if note.is_abandoned() => format!("{}, which was killed", note.by),
        note if note.is_in_use() => format!("{}, which restores it at its end", note.by),
        note => note.by.to_string(),
    };
    let text = format!("{note}, {}{devices}, since {} by {by}", note.amount(), note.since);
    Finding::new("set aside", Availability::Limited, text)
        .help(format!("to restore it: cargo memprof restore {}", note.process))
}

fn nvml_devices(facts: &MachineFacts, nvml: &NvmlFacts) -> Vec<Finding> {
    let version = nvml.devices.driver.as_deref().unwrap_or("unknown version");
    let cuda = nvml.devices.cuda.as_ref();
    let cuda = cuda.map_or_else(String::new, |cuda| format!(", supports CUDA up to {cuda}"));
    let mut findings = vec![Finding::new("driver", Availability::Good, format!("{version}{cuda}"))];
    findings.extend(nvml.devices.devices.iter().flat_map(|device| of_device(device, nvml)));
    if nvml.devices.devices.is_empty() {
        findings.push(
            Finding::new("devices", Availability::Absent, "NVML shows no devices")
                .help("in a container, NVIDIA_VISIBLE_DEVICES selects the devices that it can use"),
        );
    }
    findings.extend(process_ids(nvml));
    findings.extend(seen_by_tests(facts, &nvml.devices));
    findings
}

fn of_device(device: &Device, nvml: &NvmlFacts) -> Vec<Finding> {
    let mig = match device.mig {
        Mig::NotSupported => "",
        Mig::Off => ", MIG off",
        Mig::On => ", MIG on",
    };
    let text = format!("{}, {}{mig}", device.name, device.uuid);
    let mut findings = vec![Finding::new(format!("GPU {}", device.index), Availability::Good, text)];
    if device.mig == Mig::On && device.parts.is_empty() {
        findings[0].availability = Availability::Limited;
        findings[0].help =
            Some("MIG is on, but has no parts; create them: `nvidia-smi mig -cgi PROFILE -C`".to_owned());
    }
    let of_this = nvml.places.iter().filter(|(place, ..)| place.index == device.index);
    for (place, occupancy, runs) in of_this {
        let part = device.parts.iter().find(|part| Some(part.index) == place.part);
        let total = part.map_or(device.memory_bytes, |part| part.memory_bytes);
        if let Some(part) = part {
            findings.push(Finding::new(place.to_string(), Availability::Good, &part.uuid));
        }
        findings.push(in_use(occupancy, total));
        findings.extend(of_runs(runs));
    }
    findings
}

/// Who holds the device's lock, and the queue behind it.
fn of_runs(runs: &DeviceRuns) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(holder) = &runs.holder {
        let mut finding = Finding::new("  lock", Availability::Limited, format!("held by {holder}"));
        if runs.waiting.is_empty() {
            finding =
                finding.help("a run on this device waits until that process ends; with --no-wait, it fails");
        }
        findings.push(finding);
    }
    for (index, (_, waiting)) in runs.waiting.iter().enumerate() {
        let place = ordinal(index + 1);
        let text = match index.checked_sub(1).map(|before| &runs.waiting[before].0) {
            Some(user) => format!("{place} in line behind {user}: {waiting}"),
            None => format!("{place} in line: {waiting}"),
        };
        findings.push(Finding::new("  queue", Availability::Limited, text));
    }
    if let Some(last) = findings.last_mut().filter(|_| !runs.waiting.is_empty()) {
        last.help = Some(
            "a run on this device waits for its turn; --wait 30m limits that, and with --no-wait, it fails"
                .to_owned(),
        );
    }
    findings
}

fn in_use(occupancy: &Occupancy, total: Option<u64>) -> Finding {
    let used = match (&occupancy.used, total) {
        (Ok(used), Some(total)) => format!("{} of {} in use", Bytes(*used), Bytes(total)),
        (Ok(used), None) => format!("{} in use", Bytes(*used)),
        (Err(reason), _) => format!("memory in use is unknown ({reason})"),
    };
    match &occupancy.processes {
        Ok(others) if others.is_empty() => {
            Finding::new("  memory", Availability::Good, format!("{used}, no other processes"))
        }
        Ok(others) => {
            let others: Vec<String> = others.iter().map(with_bytes).collect();
            Finding::new("  memory", Availability::Limited, format!("{used}; {}", others.join(", ")))
                .help("runs beside other processes are marked, and their gpu.N.device is not compared")
        }
        Err(reason) => Finding::new(
            "  memory",
            Availability::Limited,
            format!("{used}; NVML does not list processes ({reason})"),
        ),
    }
}

fn with_bytes(process: &DeviceProcess) -> String {
    match process.bytes {
        Some(bytes) => format!("{process} uses {}", Bytes(bytes)),
        None => format!("{process} uses an unknown part"),
    }
}

fn process_ids(nvml: &NvmlFacts) -> Option<Finding> {
    let text = "this process has its own process table, as in a container; if NVML shows the host's \
                process ids or none, gpu.N.process and gpu.N.context are unavailable";
    (nvml.process_ids == ProcessIds::Containers && !nvml.devices.devices.is_empty()).then(|| {
        Finding::new("process ids", Availability::Limited, text)
            .help("start the container with `--pid=host` (Kubernetes: `hostPID: true`)")
    })
}

fn seen_by_tests(facts: &MachineFacts, devices: &Devices) -> Option<Finding> {
    let list = facts.visible.as_ref()?;
    let VisibleDevices { devices: visible, uncertain } =
        visible_devices::visible(devices, Some(list), facts.order.as_deref());
    let seen: Vec<String> = visible.iter().map(CudaDevice::to_string).collect();
    let seen = if seen.is_empty() { "no devices".to_owned() } else { seen.join(", ") };
    let text = format!("CUDA_VISIBLE_DEVICES={list}: tests see {seen}");
    Some(match uncertain {
        None if visible.is_empty() => Finding::new("visible", Availability::Limited, text)
            .help("--device 0 gives tests this device, regardless of CUDA_VISIBLE_DEVICES"),
        None => Finding::new("visible", Availability::Good, text),
        Some(why) => {
            Finding::new("visible", Availability::Limited, format!("{text}, or some of them")).help(why)
        }
    })
}

/// Returns how to get CUPTI. Up to CUDA 12, NVIDIA's package on `PyPI` has the CUDA version in its
/// name.
fn get_cupti(facts: &MachineFacts) -> String {
    let cuda = facts.nvml.as_ref().ok().and_then(|nvml| nvml.devices.cuda.as_deref());
    let major = cuda.and_then(|cuda| cuda.split('.').next()?.parse::<u32>().ok());
    let package = match (major, cuda) {
        (Some(13..), Some(cuda)) => format!("'nvidia-cuda-cupti<={cuda}.999'"),
        _ => "nvidia-cuda-cupti-cu12".to_owned(),
    };
    format!(
        "`pip install {package}`, or install the CUDA toolkit; if the file is elsewhere, set \
         MEMPROF_CUPTI to it"
    )
}

fn cupti(facts: &MachineFacts) -> Finding {
    match &facts.cupti {
        Ok(Cupti { path, version: Ok(version) }) => {
            Finding::new("CUPTI", Availability::Good, format!("{path}, API version {version}"))
        }
        Ok(Cupti { path, version: Err(reason) }) => {
            Finding::new("CUPTI", Availability::Absent, format!("{path} cannot be used: {reason}"))
                .help(get_cupti(facts))
        }
        Err(reason) => Finding::new("CUPTI", Availability::Absent, reason).help(get_cupti(facts)),
    }
}

fn metrics(facts: &MachineFacts) -> Vec<Finding> {
    let mut findings = vec![Finding::new(
        "heap.*",
        Availability::Good,
        "the allocator that is built into each test (Rust's global allocator), exact",
    )];
    findings.extend(resident(&facts.resident));
    findings.push(malloc(&facts.platform));
    if facts.may_have_devices {
        findings.extend(gpu_metrics(facts));
    } else {
        findings.push(Finding::new("gpu.N.*", Availability::Absent, "no NVIDIA GPU"));
    }
    findings.push(if facts.drm_drivers.is_empty() {
        let text = "no GPU whose kernel driver reports memory per process (amdgpu, i915, xe)";
        Finding::new("gpu.PLACE.vram", Availability::Absent, text)
    } else {
        let text = format!("DRM's fdinfo: {}", facts.drm_drivers.join(", "));
        Finding::new("gpu.PLACE.vram", Availability::Good, text)
    });
    findings
}

fn malloc(platform: &str) -> Finding {
    if !platform.starts_with("linux ") {
        return Finding::new("malloc.*", Availability::Absent, "available on Linux only (LD_PRELOAD)");
    }
    let text = "on request (--metrics 'malloc.*'): a library in front of the C library's allocator, exact in usable \
                bytes; not in static executables (such as musl targets), nor in executables that bring their own \
                malloc";
    Finding::new("malloc.*", Availability::Good, text)
}

fn resident(resident: &Resident) -> Vec<Finding> {
    let (statm, reset, rollup) = match resident {
        Resident::Linux { statm, reset, rollup } => (statm, reset, rollup),
        Resident::BySystem(call) => {
            let peak = format!("{call}: the peak since the process began");
            return vec![
                Finding::new("cpu.rss", Availability::Good, *call),
                Finding::new("cpu.peak", Availability::Limited, peak),
            ];
        }
        Resident::Unknown => {
            let text = "not supported on this platform";
            return vec![Finding::new("cpu.*", Availability::Absent, text)];
        }
    };
    let rss = match statm {
        Ok(()) => Finding::new("cpu.rss", Availability::Good, "/proc/self/statm"),
        Err(reason) => Finding::new("cpu.rss", Availability::Broken, reason).help("mount /proc"),
    };
    let peak = match reset {
        Ok(()) => {
            let text = "VmHWM, the peak since the last checkpoint (reset through /proc/self/clear_refs)";
            Finding::new("cpu.peak", Availability::Good, text)
        }
        Err(reason) => {
            let text = format!("VmHWM, the peak since the process began, marked in reports ({reason})");
            Finding::new("cpu.peak", Availability::Limited, text).help(
                "the kernel needs CONFIG_PROC_PAGE_MONITOR, and /proc must be writable; sandboxes such as \
                 gVisor have neither",
            )
        }
    };
    let pss = match rollup {
        Ok(()) => Finding::new(
            "cpu.pss",
            Availability::Good,
            "on request, like cpu.private and cpu.shared: /proc/self/smaps_rollup",
        ),
        Err(reason) => {
            Finding::new("cpu.pss", Availability::Absent, reason).help("needs Linux 4.14 or later")
        }
    };
    vec![rss, peak, pss]
}

/// The metrics of NVIDIA GPUs.
fn gpu_metrics(facts: &MachineFacts) -> Vec<Finding> {
    let pool = match &facts.cuda {
        Ok(()) => {
            Finding::new("gpu.N.pool.*", Availability::Good, "the CUDA driver's default memory pool, exact")
        }
        Err(_) => Finding::new("gpu.N.pool.*", Availability::Absent, "no CUDA driver"),
    };
    let mut findings = vec![live_metrics(facts), pool];
    findings.extend(nvml_metrics(facts));
    findings
}

fn live_metrics(facts: &MachineFacts) -> Finding {
    let finding = |availability, text: &str| Finding::new("gpu.N.live, .peak", availability, text);
    match (&facts.injected, &facts.cuda, &facts.cupti) {
        (Some(other), ..) => {
            let text = format!("CUDA_INJECTION64_PATH is in use by another tool ({other})");
            finding(Availability::Absent, &text).help("unset it: the CUDA driver loads only one such library")
        }
        (None, Err(_), _) => finding(Availability::Absent, "no CUDA driver"),
        (None, Ok(()), Ok(Cupti { version: Ok(_), .. })) => finding(
            Availability::Good,
            "CUPTI: every allocation through the driver, exact, without the CUDA context",
        ),
        (None, Ok(()), _) => finding(Availability::Absent, "no CUPTI (see above)"),
    }
}

fn nvml_metrics(facts: &MachineFacts) -> Vec<Finding> {
    let Ok(nvml) = &facts.nvml else {
        let names = "gpu.N.process, .device, .context";
        return vec![Finding::new(names, Availability::Absent, "no NVML (see above)")];
    };
    let (availability, if_shown) = match nvml.process_ids {
        ProcessIds::Hosts => (Availability::Good, ""),
        ProcessIds::Containers => (Availability::Limited, ", if it shows the container's process ids"),
    };
    let process = Finding::new("gpu.N.process", availability, format!("NVML{if_shown}"));
    let device = Finding::new(
        "gpu.N.device",
        Availability::Good,
        "NVML, all processes on the device; compared only between runs without other processes there",
    );
    let has_cupti = matches!(&facts.cupti, Ok(Cupti { version: Ok(_), .. }));
    let context = if has_cupti && facts.cuda.is_ok() && facts.injected.is_none() {
        let text = format!("NVML's figure of the process minus CUPTI's, once per process{if_shown}");
        Finding::new("gpu.N.context", availability, text)
    } else {
        Finding::new("gpu.N.context", Availability::Absent, "needs gpu.N.live (see above)")
    };
    vec![process, device, context]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::text::render;
    use crate::gpu::devices::MigDevice;

    fn bare() -> MachineFacts {
        let program = |name, version: &str| (name, Ok(version.to_owned()));
        MachineFacts {
            programs: vec![
                program("git", "git version 2.47.0"),
                program("cargo", "cargo 1.95.0"),
                program("rustc", "rustc 1.95.0"),
                ("git-lfs", Err("not found".into())),
            ],
            cache: Ok("/home/me/.cache/cargo-memprof".into()),
            cache_size: Ok((3 << 30, Some(20 << 30))),
            cache_locks: Vec::new(),
            platform: "linux x86_64".into(),
            resident: Resident::Linux { statm: Ok(()), reset: Ok(()), rollup: Ok(()) },
            may_have_devices: false,
            nvml: Err("not looked for".into()),
            cuda: Err("not looked for".into()),
            cupti: Err("not looked for".into()),
            injected: None,
            visible: None,
            order: None,
            drm_drivers: Vec::new(),
            set_aside: Vec::new(),
        }
    }

    fn place(
        device: &Device,
        used: u64,
        processes: Vec<DeviceProcess>,
    ) -> (CudaDevice, Occupancy, DeviceRuns) {
        let occupancy = Occupancy { used: Ok(used), processes: Ok(processes) };
        (device.cuda_devices()[0].clone(), occupancy, DeviceRuns::default())
    }

    fn with_gpus() -> MachineFacts {
        let whole = Device {
            index: 0,
            uuid: "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6".into(),
            name: "NVIDIA H200".into(),
            memory_bytes: Some(141 << 30),
            mig: Mig::Off,
            ..Device::default()
        };
        let part = MigDevice { index: 1, uuid: "MIG-5cab8c1b-0000".into(), memory_bytes: Some(17 << 30) };
        let divided = Device {
            index: 1,
            uuid: "GPU-c0ffee00-0000-4106-c12f-20bd9faed9f6".into(),
            mig: Mig::On,
            parts: vec![part],
            ..whole.clone()
        };
        let python = DeviceProcess { process: 4711, name: Some("python".into()), bytes: Some(3 << 30) };
        let mut places = vec![place(&whole, 4 << 30, vec![python]), place(&divided, 12 << 20, Vec::new())];
        places[1].2.holder = Some("process 99 (cargo-memprof run)".into());
        let devices = Devices {
            driver: Some("580.95.05".into()),
            cuda: Some("13.0".into()),
            devices: vec![whole, divided],
        };
        MachineFacts {
            may_have_devices: true,
            nvml: Ok(NvmlFacts { devices, places, process_ids: ProcessIds::Hosts }),
            cuda: Ok(()),
            cupti: Ok(Cupti {
                path: "/usr/local/cuda/lib64/libcupti.so.2025.3.1".into(),
                version: Ok(130_000),
            }),
            visible: Some("GPU-8932".into()),
            ..bare()
        }
    }

    #[test]
    fn a_machine_without_a_gpu_can_measure_the_cpu() {
        let diagnosis = diagnose(&bare());
        assert!(!diagnosis.is_broken());
        insta::assert_snapshot!(render(&diagnosis, false, None));
    }

    #[test]
    fn devices_are_shown_one_by_one_with_their_processes() {
        insta::assert_snapshot!(render(&diagnose(&with_gpus()), false, None));
    }

    #[test]
    fn a_devices_queue_is_shown_in_order_behind_its_holder() {
        let mut facts = with_gpus();
        let run = |user: &str, process: u32| {
            let text = format!("{user}: cargo memprof main..pr/7, process {process}, since 14:02");
            (user.to_owned(), text)
        };
        let runs = &mut facts.nvml.as_mut().unwrap().places[1].2;
        *runs = DeviceRuns {
            holder: Some(run("carol", 4700).1),
            waiting: vec![run("alice", 4711), run("bob", 4712)],
        };
        let text = render(&diagnose(&facts), false, None);
        let line = |text: &str, name: &str| {
            let of_name = text.lines().filter(|line| line.contains(name));
            of_name.map(|line| line.split_once(name).unwrap().1.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            line(&text, "  lock "),
            ["held by carol: cargo memprof main..pr/7, process 4700, since 14:02"]
        );
        assert_eq!(
            line(&text, "  queue "),
            [
                "1st in line: alice: cargo memprof main..pr/7, process 4711, since 14:02",
                "2nd in line behind alice: bob: cargo memprof main..pr/7, process 4712, since 14:02",
            ]
        );
        assert_eq!(text.matches("--wait 30m limits that").count(), 1);
    }

    #[test]
    fn texts_wrap_at_the_width_of_the_terminal() {
        let narrow = render(&diagnose(&with_gpus()), false, Some(80));
        // Only a line with a single long word, such as a path, may be wider.
        let is_one_word = |line: &str| line.split_whitespace().count() <= 3;
        assert!(narrow.lines().all(|line| line.chars().count() <= 80 || is_one_word(line)), "{narrow}");
    }

    #[test]
    fn in_a_container_the_help_says_how_to_get_what_is_missing() {
        let mut facts = with_gpus();
        let nvml = facts.nvml.as_mut().unwrap();
        nvml.process_ids = ProcessIds::Containers;
        nvml.devices.devices.truncate(1);
        nvml.places.truncate(1);
        facts.cupti = Err("libcupti.so not found (looked in /usr/local/cuda/lib64)".into());
        facts.visible = Some(String::new());
        facts.resident = Resident::Linux {
            statm: Ok(()),
            reset: Err("/proc/self/clear_refs: Permission denied".into()),
            rollup: Err("/proc/self/smaps_rollup: No such file".into()),
        };
        facts.programs.iter_mut().for_each(|(_, found)| *found = Err("not found".into()));
        let diagnosis = diagnose(&facts);
        assert!(!diagnosis.is_broken(), "a machine that only runs archives needs no toolchain");
        insta::assert_snapshot!(render(&diagnosis, false, None));
        facts.nvml = Err("libnvidia-ml.so.1: cannot open shared object file".into());
        facts.cuda = Err("libcuda.so.1: cannot open shared object file".into());
        let text = render(&diagnose(&facts), false, None);
        assert!(text.contains("NVIDIA_DRIVER_CAPABILITIES=utility,compute"), "{text}");
        assert!(text.contains("no NVML (see above)"), "{text}");
    }

    #[test]
    fn a_missing_requirement_of_every_measurement_is_broken() {
        let with = |change: &dyn Fn(&mut MachineFacts)| {
            let mut facts = bare();
            change(&mut facts);
            diagnose(&facts)
        };
        let is_broken = |change: &dyn Fn(&mut MachineFacts)| with(change).is_broken();
        assert!(is_broken(&|facts| facts.programs[0].1 = Err("not found".into())));
        assert!(is_broken(&|facts| facts.cache = Err("/cache: Read-only file system".into())));
        assert!(!is_broken(&|facts| facts.cache_locks = vec![("ripgrep-1".into(), "process 1".into())]));
        assert!(
            render(&with(&|facts| facts.programs[1].1 = Err("not found".into())), false, None)
                .contains("✗ cargo")
        );
    }

    #[test]
    fn colour_adds_no_information_and_json_has_the_same_findings() {
        let diagnosis = diagnose(&with_gpus());
        let coloured = render(&diagnosis, true, None);
        assert!(coloured.contains("\u{1b}["));
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), render(&diagnosis, false, None));
        let json = serde_json::to_value(&diagnosis).unwrap();
        assert_eq!(json["devices"]["devices"][1]["parts"][0]["uuid"], "MIG-5cab8c1b-0000");
        assert_eq!(json["sections"][2]["findings"][0]["standing"], "good");
    }
}
