//! `doctor`'s findings about GPUs: drivers, devices, who uses them and waits for them, and CUPTI. Pure.

use crate::doctor::diagnosis::{Availability, Finding};
use crate::doctor::machine::{Cupti, DeviceRuns, MachineFacts, NvmlFacts};
use memprof_gpu::courtesy::note::Note;
use memprof_gpu::devices::{CudaDevice, Device, DeviceProcess, Devices, Mig, Occupancy};
use memprof_gpu::nvml::ProcessIds;
use memprof_gpu::visible_devices::{self, VisibleDevices};
use memprof_support::bytes::Bytes;
use memprof_support::counted::ordinal;

/// What is known of the GPUs, and what is missing to measure on them.
pub(crate) fn gpus(facts: &MachineFacts) -> Vec<Finding> {
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
