//! What `doctor` makes of what was found: a finding for each thing that measuring needs, and how to
//! get what is missing. Pure.

use camino::Utf8PathBuf;

use crate::doctor::diagnosis::{Diagnosis, Finding, Section, Standing};
use crate::gpu::devices::{CudaDevice, Device, DeviceProcess, Devices, Mig, Occupancy};
use crate::gpu::nvml::ProcessIds;
use crate::gpu::visible_devices::{self, VisibleDevices};
use crate::support::bytes::Bytes;

/// What was found on this machine. In place of a thing stands the reason for its absence.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Each program by its name, with its version in its own words.
    pub programs: Vec<(&'static str, Result<String, String>)>,
    /// The folder of all caches, if it can be written.
    pub cache: Result<Utf8PathBuf, String>,
    /// The locks on folders in it that are held, with who holds them.
    pub cache_locks: Vec<(String, String)>,
    /// The platform.
    pub platform: String,
    /// How the resident figures of processes can be read.
    pub resident: Resident,
    /// Whether a GPU's kernel driver is there, or the user named an NVML.
    pub may_have_devices: bool,
    /// What NVML shows.
    pub nvml: Result<NvmlFacts, String>,
    /// Whether programs find the CUDA driver's library.
    pub cuda: Result<(), String>,
    /// Where CUPTI is.
    pub cupti: Result<Cupti, String>,
    /// What `CUDA_INJECTION64_PATH` is already.
    pub injected: Option<String>,
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible: Option<String>,
    /// `CUDA_DEVICE_ORDER`.
    pub order: Option<String>,
    /// Kernel drivers of GPUs that tell each process's memory (amdgpu, i915, xe).
    pub drm_drivers: Vec<String>,
}

/// How the resident figures can be read.
#[derive(Clone, Debug)]
pub enum Resident {
    /// On Linux: what was tried, on this process itself.
    Linux {
        /// `/proc/self/statm`.
        statm: Result<(), String>,
        /// Resetting the high-water mark through `/proc/self/clear_refs`.
        reset: Result<(), String>,
        /// `/proc/self/smaps_rollup`.
        rollup: Result<(), String>,
    },
    /// By the system's own calls, which need no probing.
    BySystem(&'static str),
    /// In no way that is known.
    Unknown,
}

/// What NVML shows.
#[derive(Clone, Debug)]
pub struct NvmlFacts {
    /// The devices.
    pub devices: Devices,
    /// What is on each place that CUDA can use, and who holds its lock.
    pub places: Vec<(CudaDevice, Occupancy, Option<String>)>,
    /// Whose process table NVML's ids are of, seen from here.
    pub process_ids: ProcessIds,
}

/// CUPTI, as it answers.
#[derive(Clone, Debug)]
pub struct Cupti {
    /// The file, links followed.
    pub path: Utf8PathBuf,
    /// Its version, if it could be loaded and asked.
    pub version: Result<u32, String>,
}

/// Judges what was found.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let mut sections = vec![
        Section { title: "Programs", findings: programs(facts) },
        Section { title: "Cache", findings: cache(facts) },
        Section { title: "GPUs", findings: gpus(facts) },
        Section { title: "Metrics", findings: metrics(facts) },
    ];
    sections.retain(|section| !section.findings.is_empty());
    let devices = facts.nvml.as_ref().ok().map(|nvml| nvml.devices.clone());
    Diagnosis { tool: env!("CARGO_PKG_VERSION"), platform: facts.platform.clone(), sections, devices }
}

const NEEDED: [&str; 3] = ["git", "cargo", "rustc"];

fn programs(facts: &Facts) -> Vec<Finding> {
    let is_missing =
        |name: &str| facts.programs.iter().any(|(known, found)| *known == name && found.is_err());
    // A machine that has nothing to build with is one for archives.
    let builds = !(is_missing("cargo") && is_missing("rustc"));
    let finding = |(name, found): &(&'static str, Result<String, String>)| match found {
        Ok(version) => Finding::new(*name, Standing::Good, version),
        Err(reason) if !NEEDED.contains(name) => Finding::new(*name, Standing::Absent, reason)
            .help("needed for repositories that keep files in Git LFS, and for no other"),
        Err(reason) if !builds && *name != "cargo" => Finding::new(*name, Standing::Absent, reason),
        Err(reason) if !builds => Finding::new(*name, Standing::Absent, reason)
            .help("nothing is built here; what was built elsewhere runs: `cargo-memprof run --archive FILE`"),
        Err(reason) => {
            let help = if *name == "git" { "install git" } else { "install Rust: https://rustup.rs" };
            Finding::new(*name, Standing::Broken, reason).help(help)
        }
    };
    facts.programs.iter().map(finding).collect()
}

fn cache(facts: &Facts) -> Vec<Finding> {
    let folder = match &facts.cache {
        Ok(folder) => Finding::new("folder", Standing::Good, folder.as_str()),
        Err(reason) => Finding::new("folder", Standing::Broken, reason)
            .help("set CARGO_MEMPROF_HOME to a folder that can be written"),
    };
    let lock = |(name, holder): &(String, String)| {
        Finding::new("lock", Standing::Limited, format!("{name} is held by {holder}"))
            .help("a comparison on it waits until that one has ended, or fails with --no-wait")
    };
    let locks: Vec<Finding> = facts.cache_locks.iter().map(lock).collect();
    let free = locks.is_empty().then(|| Finding::new("locks", Standing::Good, "none is held"));
    std::iter::once(folder).chain(locks).chain(free).collect()
}

fn gpus(facts: &Facts) -> Vec<Finding> {
    if !facts.may_have_devices {
        let text =
            "no kernel driver of an NVIDIA GPU (neither /dev/nvidiactl, /proc/driver/nvidia nor /dev/dxg)";
        return vec![Finding::new("driver", Standing::Absent, text).help(
            "in a container, the GPU must be handed over: docker run --gpus all (with the NVIDIA Container Toolkit)",
        )];
    }
    let mut findings = Vec::new();
    match &facts.nvml {
        Ok(nvml) => {
            let version = nvml.devices.driver.as_deref().unwrap_or("of unknown version");
            let cuda = nvml.devices.cuda.as_ref();
            let cuda = cuda.map_or_else(String::new, |cuda| format!(", serves CUDA up to {cuda}"));
            findings.push(Finding::new("driver", Standing::Good, format!("{version}{cuda}")));
            findings.extend(nvml.devices.devices.iter().flat_map(|device| of_device(device, nvml)));
            if nvml.devices.devices.is_empty() {
                findings.push(Finding::new("devices", Standing::Absent, "NVML shows none").help(
                    "in a container, NVIDIA_VISIBLE_DEVICES says which are handed over",
                ));
            }
            findings.extend(process_ids(nvml));
            findings.extend(seen_by_tests(facts, &nvml.devices));
        }
        Err(reason) => findings.push(Finding::new("NVML", Standing::Absent, reason).help(
            "in a container, NVIDIA_DRIVER_CAPABILITIES=utility,compute brings NVML and the CUDA driver along; \
             MEMPROF_NVML names the library",
        )),
    }
    findings.push(match &facts.cuda {
        Ok(()) => Finding::new("libcuda", Standing::Good, "the loader finds libcuda.so.1"),
        Err(reason) => Finding::new("libcuda", Standing::Absent, reason)
            .help("tests cannot use CUDA; in a container, NVIDIA_DRIVER_CAPABILITIES=utility,compute brings it along"),
    });
    findings.push(cupti(facts));
    findings
}

fn of_device(device: &Device, nvml: &NvmlFacts) -> Vec<Finding> {
    let mig = match device.mig {
        Mig::NotSupported => "",
        Mig::Off => ", MIG off",
        Mig::On => ", MIG on",
    };
    let text = format!("{}, {}{mig}", device.name, device.uuid);
    let mut findings = vec![Finding::new(format!("GPU {}", device.index), Standing::Good, text)];
    if device.mig == Mig::On && device.parts.is_empty() {
        findings[0].standing = Standing::Limited;
        findings[0].help =
            Some("it is divided and has no parts: nvidia-smi mig -cgi … -C makes them".to_owned());
    }
    let of_this = nvml.places.iter().filter(|(place, ..)| place.index == device.index);
    for (place, occupancy, lock) in of_this {
        let part = device.parts.iter().find(|part| Some(part.index) == place.part);
        let total = part.map_or(device.memory_bytes, |part| part.memory_bytes);
        if let Some(part) = part {
            findings.push(Finding::new(place.to_string(), Standing::Good, &part.uuid));
        }
        findings.push(in_use(occupancy, total));
        findings.extend(lock.as_ref().map(|holder| {
            Finding::new("  lock", Standing::Limited, format!("held by {holder}"))
                .help("a run that may use it waits until that one has ended, or fails with --no-wait")
        }));
    }
    findings
}

fn in_use(occupancy: &Occupancy, total: Option<u64>) -> Finding {
    let used = match (&occupancy.used, total) {
        (Ok(used), Some(total)) => format!("{} of {} in use", Bytes(*used), Bytes(total)),
        (Ok(used), None) => format!("{} in use", Bytes(*used)),
        (Err(reason), _) => format!("memory in use is not known ({reason})"),
    };
    match &occupancy.processes {
        Ok(others) if others.is_empty() => {
            Finding::new("  memory", Standing::Good, format!("{used}, no other process"))
        }
        Ok(others) => {
            let others: Vec<String> = others.iter().map(with_bytes).collect();
            Finding::new("  memory", Standing::Limited, format!("{used}, beside {}", others.join(", ")))
                .help("runs beside another process are marked, and gpu.N.device of theirs is not compared")
        }
        Err(reason) => Finding::new(
            "  memory",
            Standing::Limited,
            format!("{used}; NVML does not list processes here ({reason})"),
        ),
    }
}

fn with_bytes(process: &DeviceProcess) -> String {
    match process.bytes {
        Some(bytes) => format!("{process} with {}", Bytes(bytes)),
        None => process.to_string(),
    }
}

fn process_ids(nvml: &NvmlFacts) -> Option<Finding> {
    let text = "this process has a process table of its own, as in a container: NVML may show the host's ids, or none, and \
                gpu.N.process and gpu.N.context are then absent";
    (nvml.process_ids == ProcessIds::Containers && !nvml.devices.devices.is_empty()).then(|| {
        Finding::new("process ids", Standing::Limited, text)
            .help("start it with --pid=host (Kubernetes: hostPID: true)")
    })
}

fn seen_by_tests(facts: &Facts, devices: &Devices) -> Option<Finding> {
    let list = facts.visible.as_ref()?;
    let VisibleDevices { devices: visible, uncertain } =
        visible_devices::visible(devices, Some(list), facts.order.as_deref());
    let seen: Vec<String> = visible.iter().map(CudaDevice::to_string).collect();
    let seen = if seen.is_empty() { "no device".to_owned() } else { seen.join(", ") };
    let text = format!("CUDA_VISIBLE_DEVICES={list}: tests see {seen}");
    Some(match uncertain {
        None if visible.is_empty() => Finding::new("visible", Standing::Limited, text)
            .help("--device 0 gives the tests a device whatever the variable says"),
        None => Finding::new("visible", Standing::Good, text),
        Some(why) => Finding::new("visible", Standing::Limited, format!("{text}, or some of them")).help(why),
    })
}

/// NVIDIA's package on `PyPI` has the CUDA version in its name up to 12, and no longer from 13 on.
fn get_cupti(facts: &Facts) -> String {
    let cuda = facts.nvml.as_ref().ok().and_then(|nvml| nvml.devices.cuda.as_deref());
    let major = cuda.and_then(|cuda| cuda.split('.').next()?.parse::<u32>().ok());
    let package = match (major, cuda) {
        (Some(13..), Some(cuda)) => format!("'nvidia-cuda-cupti<={cuda}.999'"),
        _ => "nvidia-cuda-cupti-cu12".to_owned(),
    };
    format!("`pip install {package}`, or the CUDA toolkit; MEMPROF_CUPTI names the file if it lies elsewhere")
}

fn cupti(facts: &Facts) -> Finding {
    match &facts.cupti {
        Ok(Cupti { path, version: Ok(version) }) => {
            Finding::new("CUPTI", Standing::Good, format!("{path}, API version {version}"))
        }
        Ok(Cupti { path, version: Err(reason) }) => {
            Finding::new("CUPTI", Standing::Absent, format!("{path} cannot be used: {reason}"))
                .help(get_cupti(facts))
        }
        Err(reason) => Finding::new("CUPTI", Standing::Absent, reason).help(get_cupti(facts)),
    }
}

fn metrics(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![Finding::new(
        "heap.*",
        Standing::Good,
        "the allocator that is built into each test, exact (Rust's global allocator)",
    )];
    findings.extend(resident(&facts.resident));
    let malloc = "on request (MEMPROF_METRICS=malloc.live): the C library's own statistics, in tests that link glibc 2.33 \
                  or later";
    findings.push(Finding::new("malloc.live", Standing::Good, malloc));
    if facts.may_have_devices {
        findings.extend(of_gpus(facts));
    } else {
        findings.push(Finding::new("gpu.N.*", Standing::Absent, "no NVIDIA GPU"));
    }
    findings.push(if facts.drm_drivers.is_empty() {
        let text = "no GPU whose kernel driver tells each process's memory (amdgpu, i915, xe)";
        Finding::new("gpu.PLACE.vram", Standing::Absent, text)
    } else {
        let text = format!("DRM's fdinfo: {}", facts.drm_drivers.join(", "));
        Finding::new("gpu.PLACE.vram", Standing::Good, text)
    });
    findings
}

fn resident(resident: &Resident) -> Vec<Finding> {
    let (statm, reset, rollup) = match resident {
        Resident::Linux { statm, reset, rollup } => (statm, reset, rollup),
        Resident::BySystem(call) => {
            let peak = format!("{call}: the most since the process began");
            return vec![
                Finding::new("cpu.rss", Standing::Good, *call),
                Finding::new("cpu.peak", Standing::Limited, peak),
            ];
        }
        Resident::Unknown => {
            let text = "not known how to read it on this platform";
            return vec![Finding::new("cpu.*", Standing::Absent, text)];
        }
    };
    let rss = match statm {
        Ok(()) => Finding::new("cpu.rss", Standing::Good, "/proc/self/statm"),
        Err(reason) => Finding::new("cpu.rss", Standing::Broken, reason).help("mount /proc"),
    };
    let peak = match reset {
        Ok(()) => {
            let text = "VmHWM, the most since the last checkpoint (reset through /proc/self/clear_refs)";
            Finding::new("cpu.peak", Standing::Good, text)
        }
        Err(reason) => {
            let text = format!("VmHWM, the most since the process began, marked so ({reason})");
            Finding::new("cpu.peak", Standing::Limited, text).help(
                "the kernel needs CONFIG_PROC_PAGE_MONITOR and /proc must be writable; sandboxes such as gVisor have neither",
            )
        }
    };
    let pss = match rollup {
        Ok(()) => Finding::new(
            "cpu.pss",
            Standing::Good,
            "on request, as are cpu.private and cpu.shared: /proc/self/smaps_rollup",
        ),
        Err(reason) => Finding::new("cpu.pss", Standing::Absent, reason).help("needs Linux 4.14 or later"),
    };
    vec![rss, peak, pss]
}

fn of_gpus(facts: &Facts) -> Vec<Finding> {
    let live = match (&facts.injected, &facts.cuda, &facts.cupti) {
        (Some(other), ..) => Finding::new(
            "gpu.N.live, .peak",
            Standing::Absent,
            format!("CUDA_INJECTION64_PATH is in use by another tool ({other})"),
        )
        .help("unset it: the CUDA driver loads one library only"),
        (None, Err(_), _) => Finding::new("gpu.N.live, .peak", Standing::Absent, "no CUDA driver"),
        (None, Ok(()), Ok(Cupti { version: Ok(_), .. })) => Finding::new(
            "gpu.N.live, .peak",
            Standing::Good,
            "CUPTI: every allocation through the driver, exact, without the context",
        ),
        (None, Ok(()), _) => Finding::new("gpu.N.live, .peak", Standing::Absent, "no CUPTI (above)"),
    };
    let pool = match &facts.cuda {
        Ok(()) => {
            Finding::new("gpu.N.pool.*", Standing::Good, "the CUDA driver's default memory pool, exact")
        }
        Err(_) => Finding::new("gpu.N.pool.*", Standing::Absent, "no CUDA driver"),
    };
    let mut findings = vec![live, pool];
    let Ok(nvml) = &facts.nvml else {
        findings.push(Finding::new("gpu.N.process, .device, .context", Standing::Absent, "no NVML (above)"));
        return findings;
    };
    let standing = match nvml.process_ids {
        ProcessIds::Hosts => Standing::Good,
        ProcessIds::Containers => Standing::Limited,
    };
    let if_shown = match nvml.process_ids {
        ProcessIds::Hosts => "",
        ProcessIds::Containers => ", if it shows the container's process ids",
    };
    findings.push(Finding::new("gpu.N.process", standing, format!("NVML{if_shown}")));
    let exclusive = "NVML, everyone on the device; compared only between runs that had it to themselves";
    findings.push(Finding::new("gpu.N.device", Standing::Good, exclusive));
    let counted = matches!(&facts.cupti, Ok(Cupti { version: Ok(_), .. }));
    findings.push(if counted && facts.cuda.is_ok() && facts.injected.is_none() {
        let text = format!("NVML's figure of the process less what CUPTI counted, once a process{if_shown}");
        Finding::new("gpu.N.context", standing, text)
    } else {
        Finding::new("gpu.N.context", Standing::Absent, "needs gpu.N.live (above)")
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::text::render;
    use crate::gpu::devices::MigDevice;

    fn bare() -> Facts {
        let program = |name, version: &str| (name, Ok(version.to_owned()));
        Facts {
            programs: vec![
                program("git", "git version 2.47.0"),
                program("cargo", "cargo 1.95.0"),
                program("rustc", "rustc 1.95.0"),
                ("git-lfs", Err("not found".into())),
            ],
            cache: Ok("/home/me/.cache/cargo-memprof".into()),
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
        }
    }

    fn place(
        device: &Device,
        used: u64,
        processes: Vec<DeviceProcess>,
    ) -> (CudaDevice, Occupancy, Option<String>) {
        (device.cuda_devices()[0].clone(), Occupancy { used: Ok(used), processes: Ok(processes) }, None)
    }

    fn with_gpus() -> Facts {
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
        places[1].2 = Some("process 99 (cargo-memprof run)".into());
        let devices = Devices {
            driver: Some("580.95.05".into()),
            cuda: Some("13.0".into()),
            devices: vec![whole, divided],
        };
        Facts {
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
    fn a_machine_without_a_gpu_is_well_for_the_cpu() {
        let diagnosis = diagnose(&bare());
        assert!(!diagnosis.is_broken());
        insta::assert_snapshot!(render(&diagnosis, false));
    }

    #[test]
    fn devices_are_shown_one_by_one_with_who_else_is_on_them() {
        insta::assert_snapshot!(render(&diagnose(&with_gpus()), false));
    }

    #[test]
    fn a_container_that_lacks_things_is_told_how_to_get_them() {
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
        assert!(!diagnosis.is_broken(), "a machine for archives needs no toolchain");
        insta::assert_snapshot!(render(&diagnosis, false));
        facts.nvml = Err("libnvidia-ml.so.1: cannot open shared object file".into());
        facts.cuda = Err("libcuda.so.1: cannot open shared object file".into());
        let text = render(&diagnose(&facts), false);
        assert!(text.contains("NVIDIA_DRIVER_CAPABILITIES=utility,compute"), "{text}");
        assert!(text.contains("no NVML (above)"), "{text}");
    }

    #[test]
    fn what_nothing_works_without_is_broken() {
        let with = |change: &dyn Fn(&mut Facts)| {
            let mut facts = bare();
            change(&mut facts);
            diagnose(&facts)
        };
        let is_broken = |change: &dyn Fn(&mut Facts)| with(change).is_broken();
        assert!(is_broken(&|facts| facts.programs[0].1 = Err("not found".into())));
        assert!(is_broken(&|facts| facts.cache = Err("/cache: Read-only file system".into())));
        assert!(!is_broken(&|facts| facts.cache_locks = vec![("ripgrep-1".into(), "process 1".into())]));
        assert!(
            render(&with(&|facts| facts.programs[1].1 = Err("not found".into())), false).contains("✗ cargo")
        );
    }

    #[test]
    fn without_colour_nothing_is_lost_and_json_has_the_same_words() {
        let diagnosis = diagnose(&with_gpus());
        let coloured = render(&diagnosis, true);
        assert!(coloured.contains("\u{1b}["));
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), render(&diagnosis, false));
        let json = serde_json::to_value(&diagnosis).unwrap();
        assert_eq!(json["devices"]["devices"][1]["parts"][0]["uuid"], "MIG-5cab8c1b-0000");
        assert_eq!(json["sections"][2]["findings"][0]["standing"], "good");
    }
}
