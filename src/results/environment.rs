//! The facts about the machine of a run, in `environment.json`. Reports of runs from different
//! machines list the differences.

use serde_json::{Value, json};

use crate::gpu::nvml::{self, Nvml};

/// Returns the facts about this machine that figures may depend on. A fact that cannot be read is
/// absent.
pub fn facts() -> Value {
    let read = |path: &str| fs_err::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpuinfo.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let memory = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    json!({
        "tool": env!("CARGO_PKG_VERSION"),
        "os": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpu": model,
        "cpus": std::thread::available_parallelism().ok().map(usize::from),
        "memory_kibibytes": memory.and_then(|memory| memory.parse::<u64>().ok()),
        "transparent_huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "gpu": devices(),
    })
}

/// Returns the GPUs and their driver; `null` if there are none.
fn devices() -> Value {
    if !nvml::may_have_devices() {
        return Value::Null;
    }
    let devices = Nvml::open().and_then(|nvml| nvml.devices());
    devices.map_or(Value::Null, |devices| json!(devices))
}
