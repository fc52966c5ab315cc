//! What a program says of a tensor and of a pool: plain data.

use std::fmt;

/// A piece of memory that a program holds, as its framework describes it.
///
/// ```
/// # let weight = [0.0_f32; 4];
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
    /// The extents; empty for a scalar.
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
/// ```
/// # let (in_use, padding, reserved) = (0, 0, 0);
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
