//! The facts about the machine of a run, in `environment.json`. Reports of runs from different
//! machines list the differences.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use memprof_gpu::nvml::{self, Nvml};
use memprof_plan::clean_env::own_variables;
use memprof_support::redaction;

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
        "variables": variables(),
    })
}

/// Inherited variables that change how much memory a process takes: of allocators, of thread pools,
/// and of the loader.
const VARIABLES: [&str; 16] = [
    "MALLOC_",
    "_RJEM_MALLOC_",
    "MIMALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "RAYON_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "TOKIO_WORKER_THREADS",
    "RUST_MIN_STACK",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "PYTORCH_",
];

fn variables() -> BTreeMap<String, String> {
    let is_known = |name: &str| VARIABLES.iter().any(|known| name.starts_with(known));
    own_variables()
        .filter(|(name, _)| is_known(name))
        .map(|(name, value)| {
            let shown = redaction::setting(&value).into_owned();
            (name, shown)
        })
        .collect()
}

/// Returns the GPUs and their driver; `null` if there are none.
fn devices() -> Value {
    if !nvml::may_have_devices() {
        return Value::Null;
    }
    let devices = Nvml::open().and_then(|nvml| nvml.devices());
    devices.map_or(Value::Null, |devices| json!(devices))
}
