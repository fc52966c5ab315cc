//! What all runs of a command have in common: devices, pauses, variables that count memory, and where
//! events go.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

use crate::delay::Delay;
use crate::estimate::PastTimes;
use crate::follow::Follow;
use crate::malloc_variables::malloc_variables;
use crate::temporary_folder::TemporaryFolders;
use memprof_build::test_tree::TestTree;
use memprof_gpu::variables::{GpuTools, gpu_environment};
use memprof_gpu::watch::DeviceWatch;
use memprof_gpu::{cupti, nvml};
use memprof_plan::request::Request;
use memprof_plan::resolved::Plan;
use memprof_support::event::Sink;
use memprof_support::guarded_files::GuardedFiles;

/// What all runs of a command have in common.
pub struct Conditions<'a> {
    /// The devices that runs may use.
    pub devices: DeviceWatch<'a>,
    /// What to show of a test while it runs.
    pub follow: Follow,
    /// Where events go.
    pub(crate) sink: &'a dyn Sink,
    /// Set by Ctrl-C.
    pub(crate) interrupt: &'a AtomicBool,
    /// The pause between two runs.
    pub(crate) delay: Delay,
    /// How long tests took before.
    pub(crate) past: PastTimes,
    /// Variables that make test processes count GPU memory, on a machine with a GPU, and the C
    /// library's allocator, if that was requested. `None` before they are looked for.
    counting: Option<BTreeMap<&'static str, String>>,
    /// The files that a test must not take away.
    pub(crate) guarded: RefCell<GuardedFiles>,
    /// The folders for temporary files of runs.
    pub(crate) temporary: TemporaryFolders,
}

impl<'a> Conditions<'a> {
    /// The conditions of a plan's runs. `past` says how long its tests took before.
    pub fn new(
        plan: &Plan,
        past: PastTimes,
        devices: DeviceWatch<'a>,
        sink: &'a dyn Sink,
        interrupt: &'a AtomicBool,
    ) -> Self {
        Self {
            devices,
            follow: Follow::default(),
            sink,
            interrupt,
            delay: Delay::from_request(&plan.request),
            past,
            counting: None,
            guarded: RefCell::default(),
            temporary: TemporaryFolders::default(),
        }
    }

    /// Finds the variables that make processes count GPU memory and `malloc`, once.
    pub(crate) fn count_memory(&mut self, request: &Request, tree: &mut dyn TestTree) {
        if self.counting.is_none() {
            let mut counting = gpu_variables(tree);
            counting.extend(malloc_variables(request, || tree.malloc_library()));
            self.counting = Some(counting);
        }
    }

    /// Returns the variables that make processes count memory.
    pub(crate) fn counting(&self) -> anyhow::Result<&BTreeMap<&'static str, String>> {
        self.counting.as_ref().context("what counts memory is not known yet")
    }
}

/// Returns the variables that make test processes count GPU memory. Without a GPU driver, there are
/// none, and nothing is searched.
fn gpu_variables(tree: &mut dyn TestTree) -> BTreeMap<&'static str, String> {
    if !nvml::may_have_devices() {
        return BTreeMap::new();
    }
    let (cupti, injection) = (cupti::find(), tree.injection_library());
    let inherited = std::env::var("CUDA_INJECTION64_PATH").ok();
    let tools = GpuTools {
        cupti: cupti.as_deref().map_err(String::as_str),
        injection: injection.as_deref().map_err(String::as_str),
        inherited: inherited.as_deref(),
    };
    gpu_environment(tools)
}
