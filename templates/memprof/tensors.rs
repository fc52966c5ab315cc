//! Names for pieces of memory: which weight, gradient or activation they are, how many bytes they
//! take, and how long they live.
//!
//! Naming a tensor writes one line to the log, and the end of its group writes one more. Nothing is
//! kept here: the log's lines before a checkpoint tell what had a name at that checkpoint.

use std::fmt;

use crate::pool_metrics;
use crate::recorder;
use crate::tensor_log;
use crate::untracked::Untracked;

/// A piece of memory that a program holds, as its framework describes it.
///
/// ```ignore
/// let weight = memprof::Tensor {
///     name: "encoder.0.weight",
///     kind: memprof::Kind::Weight,
///     shape: &[1024, 1024],
///     dtype: "f32",
///     storage: weight.as_ptr() as u64,
///     bytes: 4 << 20,
///     ..memprof::Tensor::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// The path of the layer, as in a checkpoint file of weights. Revisions are matched by name,
    /// kind and device.
    pub name: &'a str,
    /// What it is for.
    pub kind: Kind,
    /// Its extents; empty for a scalar.
    pub shape: &'a [usize],
    /// The type of its elements, for example `f32`.
    pub dtype: &'a str,
    /// The device that has the memory.
    pub device: Device<'a>,
    /// A number that is equal for tensors that share a storage on a device, for example the address
    /// of the storage. 0 if it is not known; such a tensor shares nothing.
    pub storage: u64,
    /// Number of elements times the size of one, in bytes.
    pub bytes: u64,
    /// Bytes that the allocator holds for its storage (capacity, rounding), if known.
    pub allocated: Option<u64>,
    /// The byte range within its storage, `(start, end)` with the end excluded, for a part such as
    /// a slice. Each part then counts by itself. Without it, tensors of one storage count as
    /// beginning where the storage does, and the largest one counts.
    pub range: Option<(u64, u64)>,
}

/// What a tensor is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A parameter, trained or not.
    Weight,
    /// The gradient of a parameter.
    Gradient,
    /// The state of an optimizer for a parameter, kept from step to step.
    OptimizerState,
    /// The output of a layer, kept for the backward pass or for the next layer.
    Activation,
    /// The gradient of an activation or of an input.
    IntermediateGradient,
    /// Anything else.
    #[default]
    Other,
}

/// The device of a tensor. For the CPU, also the allocator. This selects the metric that the tensor
/// is a part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device<'a> {
    /// The CPU, with memory from Rust's global allocator (`heap.live`).
    #[default]
    Cpu,
    /// The CPU, with memory from the C library's `malloc` (`malloc.live`), like tensors of C++
    /// libraries.
    CpuMalloc,
    /// The CUDA device with this ordinal, among the devices that the process sees.
    Cuda(u32),
    /// Any other device, by its name.
    Other(&'a str),
}

/// What a framework's own memory pool reports at this moment, in bytes.
///
/// ```ignore
/// let device = memprof::Device::Cuda(0);
/// memprof::pool(memprof::Pool { name: "cubecl", device, in_use, padding, reserved });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool<'a> {
    /// The name that the report shows.
    pub name: &'a str,
    /// The device whose memory the pool hands out.
    pub device: Device<'a>,
    /// Bytes handed out, as requested.
    pub in_use: u64,
    /// Bytes lost to rounding the requests.
    pub padding: u64,
    /// Bytes that the pool holds, whether handed out or not.
    pub reserved: u64,
}

/// Names a piece of memory as alive until the returned guard is dropped.
///
/// Outside a run of `cargo memprof` it costs a branch. Drop the guard together with the memory:
/// memory that is freed while its guard lives still counts.
#[inline]
pub fn tensor(tensor: Tensor<'_>) -> Names {
    let mut names = Names::new();
    names.add(tensor);
    names
}

/// Logs what a framework's pool holds now. It belongs to the next checkpoint of the tensor report.
///
/// The metrics `pool.NAME.in_use` and `pool.NAME.reserved` keep these figures until the next call
/// with this name. [`watch_pool`](crate::watch_pool) asks the pool at each checkpoint instead.
#[inline]
pub fn pool(pool: Pool<'_>) {
    if recorder::is_recording() {
        tensor_log::log_pool(&pool);
        pool_metrics::report(pool.name, pool.in_use, pool.reserved);
    }
}

/// A group of tensors that end together, when this is dropped.
#[must_use = "the tensors count as freed when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Names {
    /// Its number in the log; 0 while the group is empty.
    group: u64,
}

impl Names {
    /// Makes an empty group.
    #[inline]
    pub const fn new() -> Self {
        Self { group: 0 }
    }

    /// Adds one more tensor to the group.
    #[inline]
    pub fn add(&mut self, tensor: Tensor<'_>) {
        if recorder::is_recording() {
            self.log(&tensor);
        }
    }

    /// Keeps the group's tensors alive until the process ends.
    pub fn keep(self) {
        std::mem::forget(self);
    }

    #[cold]
    fn log(&mut self, tensor: &Tensor<'_>) {
        self.group = tensor_log::log_tensor(self.group, tensor);
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Names {
    #[inline]
    fn drop(&mut self) {
        if self.group != 0 {
            tensor_log::end_tensors(self.group);
        }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Names").field("names_any", &(self.group != 0)).finish()
    }
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer-state",
            Self::Activation => "activation",
            Self::IntermediateGradient => "intermediate-gradient",
            Self::Other => "other",
        }
    }
}

/// The form in the log. The program chooses what comes after `other:`, so it is never confused with
/// the first three forms.
impl fmt::Display for Device<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => formatter.write_str("cpu"),
            Self::CpuMalloc => formatter.write_str("malloc"),
            Self::Cuda(ordinal) => write!(formatter, "cuda:{ordinal}"),
            Self::Other(name) => write!(formatter, "other:{name}"),
        }
    }
}

/// What the recorder keeps about named tensors.
pub(crate) struct Registry {
    groups: u64,
    /// CUDA ordinals that tensors were on, and whether the log has the machine's device for each.
    ordinals: Untracked<(u32, bool)>,
}

impl Registry {
    pub(crate) const fn new() -> Self {
        Self { groups: 0, ordinals: Untracked::new() }
    }

    pub(crate) fn new_group(&mut self) -> u64 {
        self.groups += 1;
        self.groups
    }

    /// Whether the program named any tensor so far.
    pub(crate) fn names_any(&self) -> bool {
        self.groups > 0
    }

    pub(crate) fn met(&mut self, device: Device<'_>) {
        if let Device::Cuda(ordinal) = device {
            if self.ordinals.iter().all(|known| known.0 != ordinal) {
                self.ordinals.push((ordinal, false));
            }
        }
    }

    /// Returns the next ordinal whose device the log does not have yet and whose name is known now.
    /// It counts as logged then.
    pub(crate) fn next_named(
        &mut self,
        name_of: impl Fn(u32) -> Option<&'static str>,
    ) -> Option<(u32, &'static str)> {
        self.ordinals.as_mut().iter_mut().filter(|known| !known.1).find_map(|known| {
            let name = name_of(known.0)?;
            known.1 = true;
            Some((known.0, name))
        })
    }
}
