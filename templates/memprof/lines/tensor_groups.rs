//! Named tensors: the numbers of their groups, and the devices that they were on.

use std::io;

use crate::log::run_log::Log;
use crate::platform::untracked::Untracked;
use crate::shared::tensor::Device;

/// What the recorder keeps about named tensors.
pub(crate) struct TensorGroups {
    groups: u64,
    /// CUDA ordinals that tensors were on, and whether the log has the machine's device for each.
    ordinals: Untracked<(u32, bool)>,
}

impl TensorGroups {
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

    /// Logs which of the machine's devices each CUDA ordinal of a tensor is, once that is known.
    pub(crate) fn log_devices(
        &mut self,
        log: &mut Log,
        nanoseconds: u64,
        name_of: impl Fn(u32) -> Option<&'static str>,
    ) -> io::Result<()> {
        while let Some((ordinal, device)) = self.next_named(&name_of) {
            log.write("cuda_device", nanoseconds, |json| {
                json.number("ordinal", format_args!("{ordinal}"));
                json.text("device", device);
            })?;
        }
        Ok(())
    }

    /// Returns the next ordinal whose device the log does not have yet and whose name is known now.
    /// It counts as logged then.
    fn next_named(&mut self, name_of: &impl Fn(u32) -> Option<&'static str>) -> Option<(u32, &'static str)> {
        self.ordinals.as_mut().iter_mut().filter(|known| !known.1).find_map(|known| {
            let name = name_of(known.0)?;
            known.1 = true;
            Some((known.0, name))
        })
    }
}
