//! What burn tells about a tensor, and how it becomes a line of the log.

use std::fmt::Debug;

use memprof::{Kind, Names};

use crate::device_name::DeviceName;

/// A tensor as burn describes it. Burn does not tell which tensors share a storage.
pub(crate) struct Described<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    pub(crate) shape: &'a [usize],
    /// The element type's name and its size in bytes. Tensors without one are not named.
    pub(crate) element: Option<(&'a str, usize)>,
    pub(crate) device: &'a dyn Debug,
    /// The name of the backend's type; empty where the device names the backend.
    pub(crate) backend: &'a str,
}

impl Described<'_> {
    pub(crate) fn add_to(&self, names: &mut Names) {
        let Some((dtype, size)) = self.element else { return };
        let device = DeviceName::from_debug(self.device);
        names.add(memprof::Tensor {
            name: self.name,
            kind: self.kind,
            shape: self.shape,
            dtype,
            device: device.device(self.backend),
            storage: 0,
            bytes: (self.shape.iter().product::<usize>() * size) as u64,
            allocated: None,
            range: None,
        });
    }
}
