//! Turns facts about a machine into `doctor`'s findings: what each measurement needs, and how to
//! get it. Pure.

use crate::doctor::diagnosis::{Availability, Diagnosis, DiagnosisSection, Finding};
use crate::doctor::gpus::gpus;
use crate::doctor::machine::{Cupti, MachineFacts, Resident};
use memprof_gpu::nvml::ProcessIds;
use memprof_support::bytes::Bytes;

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
        Err(reason) => Finding::new("folder", Availability::Broken, reason).help(
            "set CARGO_MEMPROF_HOME to a folder outside of any repository, writable and not mounted noexec",
        ),
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
    use crate::doctor::machine::{DeviceRuns, NvmlFacts};
    use crate::doctor::text::render;
    use memprof_gpu::devices::{CudaDevice, Device, DeviceProcess, Devices, Mig, MigDevice, Occupancy};

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
        let python = DeviceProcess {
            process: 4711,
            is_alive: true,
            name: Some("python".into()),
            bytes: Some(3 << 30),
        };
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
