//! The runner's settings for the process, read once before `main` and then removed. A program that
//! the test starts, or a cargo inside the test, must not write to this run's log.
//!
//! Reading them allocates through the global allocator. That memory is freed before the first
//! figures are read.

use std::ffi::OsString;

use crate::log::checksum;
use crate::platform::untracked::kept;

/// Path of the log. Without it the shim does nothing.
const LOG: &str = "MEMPROF_LOG";
/// The key for the log's checksum: 32 hexadecimal digits.
const LOG_KEY: &str = "MEMPROF_LOG_KEY";
/// `1` prints a line on standard error at each checkpoint.
const PRINT: &str = "MEMPROF_PRINT";
/// Why there are no heap metrics, in case they are absent.
const HEAP_ABSENT: &str = "MEMPROF_HEAP_ABSENT";
/// Metrics that are read on request only, separated by commas.
const METRICS: &str = "MEMPROF_METRICS";

/// Path of CUPTI, for the injection library.
const CUPTI: &str = "MEMPROF_CUPTI";
/// Why there is no CUPTI, if the runner found none.
const CUPTI_ABSENT: &str = "MEMPROF_CUPTI_ABSENT";
/// Path of the library in front of the C library's allocator, if the runner has it loaded, and why it
/// does not.
const MALLOC: &str = "MEMPROF_MALLOC";
const MALLOC_ABSENT: &str = "MEMPROF_MALLOC_ABSENT";
/// `0`: checkpoints do not wait for the GPUs in use.
const SYNC: &str = "MEMPROF_SYNC";
/// `0`: resident memory is not read, and the only system call of a checkpoint is for its line in
/// the log.
const RESIDENT: &str = "MEMPROF_RESIDENT";
/// How many calls of each traced function are logged one by one.
const TRACE_EVENTS: &str = "MEMPROF_TRACE_EVENTS";
/// Each so many-th call of a function is logged, and its lines are measured.
const TRACE_EVERY: &str = "MEMPROF_TRACE_EVERY";
/// `1`: the lines of each measured call are logged apart.
const TRACE_PER_CALL: &str = "MEMPROF_TRACE_PER_CALL";
/// What is read when a traced function begins and ends: `heap`, `cpu`, `gpu`, `malloc`, `pool`,
/// `time`, separated by commas.
const TRACE_COLUMNS: &str = "MEMPROF_TRACE_COLUMNS";

/// `1`: free memory of pools and of the C library's allocator is released before each reading.
const TRIM: &str = "MEMPROF_TRIM";

/// Whether call stacks are recorded, and how. The allocator reads them before this crate does:
/// see `stacks::stack_recording`.
const STACKS: &str = "MEMPROF_STACKS";
const UNWIND_TABLE: &str = "MEMPROF_UNWIND_TABLE";
const STACKS_SAMPLE: &str = "MEMPROF_STACKS_SAMPLE";
/// `1`: the sites of each thread are apart.
const STACKS_THREADS: &str = "MEMPROF_STACKS_THREADS";
/// Where the live blocks and the pointers between them are written, and at which moment: see
/// `stacks::snapshot`.
const OWNERS: &str = "MEMPROF_OWNERS";
const OWNERS_AT: &str = "MEMPROF_OWNERS_AT";

/// The seed of the process's random numbers: 16 hexadecimal digits.
const RANDOM: &str = "MEMPROF_RANDOM";

/// The test's name, if libtest runs it in a thread of this name.
const HARNESS_TEST: &str = "MEMPROF_HARNESS_TEST";

/// The addresses of libtest's function that calls the test, as the executable's file has them, in
/// hexadecimal and separated by commas; or why there are none.
const BODY: &str = "MEMPROF_BODY";
const BODY_ABSENT: &str = "MEMPROF_BODY_ABSENT";

/// All variables. Add new ones here, or child processes inherit them.
const ALL: [&str; 26] = [
    LOG,
    LOG_KEY,
    PRINT,
    HEAP_ABSENT,
    METRICS,
    CUPTI,
    CUPTI_ABSENT,
    MALLOC,
    MALLOC_ABSENT,
    SYNC,
    RESIDENT,
    TRACE_EVENTS,
    TRACE_EVERY,
    TRACE_PER_CALL,
    TRACE_COLUMNS,
    TRIM,
    STACKS,
    UNWIND_TABLE,
    STACKS_SAMPLE,
    STACKS_THREADS,
    OWNERS,
    OWNERS_AT,
    RANDOM,
    HARNESS_TEST,
    BODY,
    BODY_ABSENT,
];

#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // Each is a variable.
pub(crate) struct Environment {
    pub(crate) log: OsString,
    pub(crate) key: (u64, u64),
    pub(crate) print: bool,
    pub(crate) heap_absent: Option<String>,
    metrics: String,
    cupti: Option<String>,
    cupti_absent: Option<String>,
    malloc: Option<String>,
    malloc_absent: Option<String>,
    leaves_gpus_alone: bool,
    leaves_resident_out: bool,
    pub(crate) trace_events: Option<u64>,
    pub(crate) trace_every: Option<u64>,
    pub(crate) lines_per_call: bool,
    pub(crate) trace_columns: Option<String>,
    trims: bool,
    pub(crate) random_seed: Option<u64>,
    pub(crate) harness_test: String,
    body: Option<String>,
    body_absent: Option<String>,
}

impl Environment {
    /// Reads and removes the variables. Returns `None` outside a run, and then changes nothing.
    pub(crate) fn take() -> Option<Self> {
        let log = std::env::var_os(LOG).filter(|path| !path.is_empty())?;
        let environment = Self {
            log,
            key: take_key(),
            print: std::env::var_os(PRINT).map_or(false, |value| value == "1"),
            heap_absent: std::env::var(HEAP_ABSENT).ok().filter(|reason| !reason.is_empty()),
            metrics: std::env::var(METRICS).unwrap_or_default(),
            cupti: std::env::var(CUPTI).ok().filter(|path| !path.is_empty()),
            cupti_absent: std::env::var(CUPTI_ABSENT).ok().filter(|reason| !reason.is_empty()),
            malloc: std::env::var(MALLOC).ok().filter(|path| !path.is_empty()),
            malloc_absent: std::env::var(MALLOC_ABSENT).ok().filter(|reason| !reason.is_empty()),
            leaves_gpus_alone: is_off(SYNC),
            leaves_resident_out: is_off(RESIDENT),
            trace_events: std::env::var(TRACE_EVENTS).ok().and_then(|value| value.parse().ok()),
            trace_every: std::env::var(TRACE_EVERY).ok().and_then(|value| value.parse().ok()),
            lines_per_call: std::env::var_os(TRACE_PER_CALL).map_or(false, |value| value == "1"),
            trace_columns: std::env::var(TRACE_COLUMNS).ok().filter(|columns| !columns.is_empty()),
            trims: std::env::var_os(TRIM).map_or(false, |value| value == "1"),
            random_seed: std::env::var(RANDOM).ok().and_then(|seed| u64::from_str_radix(&seed, 16).ok()),
            harness_test: std::env::var(HARNESS_TEST).unwrap_or_default(),
            body: std::env::var(BODY).ok().filter(|addresses| !addresses.is_empty()),
            body_absent: std::env::var(BODY_ABSENT).ok().filter(|reason| !reason.is_empty()),
        };
        if let Some(library) = &environment.malloc {
            leave_out_of_preload(library);
        }
        for name in ALL {
            std::env::remove_var(name);
        }
        Some(environment)
    }

    /// Whether a runner asked for a log. If not, the process only reads figures for itself.
    pub(crate) fn in_a_run(&self) -> bool {
        !self.log.is_empty()
    }

    /// CUPTI's path with a zero byte at its end, or why there is none. Both stay for the life of
    /// the process.
    pub(crate) fn cupti(&self) -> Result<&'static [u8], &'static str> {
        match (&self.cupti, &self.cupti_absent) {
            // The user may have chosen a path that the runner cannot use.
            (_, Some(reason)) => Err(kept(format_args!("{reason}"))),
            (Some(path), None) => Ok(kept(format_args!("{path}\0")).as_bytes()),
            (None, None) => Err("the runner gave no path of CUPTI (MEMPROF_CUPTI)"),
        }
    }

    /// Path of the library in front of the C library's allocator, or why there is none.
    pub(crate) fn malloc_library(&self) -> Result<&str, &'static str> {
        match (&self.malloc, &self.malloc_absent) {
            (Some(path), _) => Ok(path),
            (None, Some(reason)) => Err(kept(format_args!("{reason}"))),
            (None, None) => Err("the runner gave no library to count malloc (MEMPROF_MALLOC)"),
        }
    }

    /// Where the test's body is called, or why that is unknown. `None` without libtest's harness.
    pub(crate) fn body(&self) -> Option<Result<&str, &'static str>> {
        match (&self.body, &self.body_absent) {
            (Some(addresses), _) => Some(Ok(addresses)),
            (None, Some(reason)) => Some(Err(kept(format_args!("{reason}")))),
            (None, None) => None,
        }
    }

    /// Whether a checkpoint waits for the GPUs in use.
    pub(crate) fn synchronises(&self) -> bool {
        !self.leaves_gpus_alone
    }

    /// Whether free memory is released before each reading.
    pub(crate) fn trims(&self) -> bool {
        self.trims
    }

    /// Whether resident memory is read.
    pub(crate) fn reads_resident(&self) -> bool {
        !self.leaves_resident_out
    }

    /// Whether the runner requested a metric that is read on request only.
    pub(crate) fn wants(&self, metric: &str) -> bool {
        self.metrics.split(',').any(|wanted| wanted.trim() == metric)
    }
}

/// Takes a library out of `LD_PRELOAD`, so that programs that the test starts do not load it. What
/// the user has there stays.
fn leave_out_of_preload(library: &str) {
    const PRELOAD: &str = "LD_PRELOAD";
    if let Ok(value) = std::env::var(PRELOAD) {
        // The loader takes both characters for a separator.
        let mut rest = value.split([' ', ':'].as_ref()).filter(|path| *path != library && !path.is_empty());
        match rest.next() {
            None => std::env::remove_var(PRELOAD),
            Some(first) => {
                let rest = rest.fold(first.to_owned(), |all, path| all + ":" + path);
                std::env::set_var(PRELOAD, rest);
            }
        }
    }
}

/// Reads the key, and wipes it: `/proc/self/environ` shows the variables that the process started
/// with, whatever it removes later.
fn take_key() -> (u64, u64) {
    let key = std::env::var(LOG_KEY).ok().and_then(|key| checksum::key(&key)).unwrap_or_default();
    wipe_key();
    key
}

#[cfg(all(unix, not(miri)))]
fn wipe_key() {
    extern "C" {
        fn getenv(name: *const std::os::raw::c_char) -> *mut std::os::raw::c_char;
    }
    // SAFETY: the name ends in a zero byte. The value belongs to this process, is writable, and no
    // other thread exists before `main`. Only bytes before its end are written.
    unsafe {
        let mut byte = getenv(b"MEMPROF_LOG_KEY\0".as_ptr().cast());
        while !byte.is_null() && *byte != 0 {
            *byte = b'0' as std::os::raw::c_char;
            byte = byte.add(1);
        }
    }
}

#[cfg(not(all(unix, not(miri))))]
fn wipe_key() {}

fn is_off(name: &str) -> bool {
    std::env::var_os(name).map_or(false, |value| value == "0")
}
