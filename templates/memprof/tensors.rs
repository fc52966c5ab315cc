//! Names for pieces of memory: which weight, gradient or activation they are, what they take, and until when.
//!
//! A naming is one line of the log, and one more when its group ends, whatever a group holds. Nothing is kept here: what was
//! named at a checkpoint is told by the lines before it.

use std::fmt;

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
    /// What revisions are matched by, together with kind and device: the path of the layer, as in a checkpoint file of weights.
    pub name: &'a str,
    /// What it is for.
    pub kind: Kind,
    /// Its extents; none for a scalar.
    pub shape: &'a [usize],
    /// The type of its elements, such as `f32`.
    pub dtype: &'a str,
    /// Whose memory it is.
    pub device: Device<'a>,
    /// The same for tensors of a device that share a storage, such as its address; 0 where it is not known and never shared.
    pub storage: u64,
    /// Elements times the size of one.
    pub bytes: u64,
    /// Bytes that the allocator holds for its storage (capacity, rounding), where that is known.
    pub allocated: Option<u64>,
    /// For a part of its storage, such as a slice: the bytes of the storage that its elements lie in, from the first to behind the
    /// last. Parts count each for itself; without it they are taken to begin where the storage does, and the largest counts.
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
    /// What an optimizer keeps of a parameter from step to step.
    OptimizerState,
    /// What a layer gave, kept for the backward pass or for the next layer.
    Activation,
    /// Anything else.
    #[default]
    Other,
}

/// The device that a tensor lies on, and for the CPU the allocator it came from: by that is known which figure it is a part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device<'a> {
    /// The CPU, from Rust's global allocator.
    #[default]
    Cpu,
    /// The CPU, from the C library's `malloc`, as tensors of C++ libraries are.
    CpuMalloc,
    /// The CUDA device of this number, among those that the process sees.
    Cuda(u32),
    /// Any other, by its name.
    Other(&'a str),
}

/// What a framework's own memory pool says of itself at this moment.
///
/// ```ignore
/// memprof::pool(memprof::Pool { name: "cubecl cuda:0", device: memprof::Device::Cuda(0), in_use, padding, reserved });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whose memory it hands out.
    pub device: Device<'a>,
    /// Bytes handed out, as asked for.
    pub in_use: u64,
    /// Bytes lost to the rounding of those.
    pub padding: u64,
    /// Bytes that the pool holds, handed out or not.
    pub reserved: u64,
}

/// Names a piece of memory as alive until the guard is dropped.
///
/// Outside a run of `cargo memprof` it costs a branch. Keep what is described no longer than the guard, and the guard no longer
/// than that: what is named and already freed is counted all the same.
#[inline]
pub fn tensor(tensor: Tensor<'_>) -> Names {
    let mut names = Names::new();
    names.add(tensor);
    names
}

/// Says what a framework's pool holds now. It belongs to the checkpoint that follows.
#[inline]
pub fn pool(pool: Pool<'_>) {
    if recorder::is_recording() {
        tensor_log::log_pool(&pool);
    }
}

/// Tensors that end together, when this is dropped.
#[must_use = "the tensors count as freed when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Names {
    /// Its number in the log; 0 as long as it names nothing.
    group: u64,
}

impl Names {
    /// A group that names nothing yet.
    #[inline]
    pub const fn new() -> Self {
        Self { group: 0 }
    }

    /// Names one more.
    #[inline]
    pub fn add(&mut self, tensor: Tensor<'_>) {
        if recorder::is_recording() {
            self.log(&tensor);
        }
    }

    /// Lets all that it names be alive to the end of the process.
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
            Self::Other => "other",
        }
    }
}

/// As it stands in the log: what comes after `other:` is the program's, so that it is never taken for one of the first three.
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

/// Extents as a JSON array.
pub(crate) struct Extents<'a>(pub(crate) &'a [usize]);

impl fmt::Display for Extents<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[")?;
        for (place, extent) in self.0.iter().enumerate() {
            write!(formatter, "{}{}", if place == 0 { "" } else { "," }, extent)?;
        }
        formatter.write_str("]")
    }
}

/// What the recorder knows of namings.
pub(crate) struct Registry {
    groups: u64,
    /// CUDA devices that something was said to be on, and whether the log was told which of the machine's they are.
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

    pub(crate) fn met(&mut self, device: Device<'_>) {
        if let Device::Cuda(ordinal) = device {
            if self.ordinals.iter().all(|known| known.0 != ordinal) {
                self.ordinals.push((ordinal, false));
            }
        }
    }

    /// The next device that the log has not been told of and that has a name by now; it counts as told of then.
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
