//! The facts about a machine that `doctor` judges.

use camino::Utf8PathBuf;

use memprof_gpu::courtesy::note::Note;
use memprof_gpu::devices::{CudaDevice, Devices, Occupancy};
use memprof_gpu::nvml::ProcessIds;

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
    /// The version, if it can be loaded and asked.
    pub version: Result<u32, String>,
}
