//! What the log is told of named memory: tensors, the ends of their groups, pools, and which devices these are on.

use crate::recorder::{Mark, Recorder, hold};
use crate::tensors::{Extents, Pool, Tensor};
use crate::untracked::Text;

/// Logs that a tensor is alive, in this group, or in a new one for 0. Returns the group; 0 where there is no log.
pub(crate) fn log_tensor(group: u64, tensor: &Tensor<'_>) -> u64 {
    match hold() {
        Some(mut recorder) => recorder.log_tensor(group, tensor),
        None => group,
    }
}

/// All tensors of a group have ended.
#[cold]
pub(crate) fn end_tensors(group: u64) {
    if let Some(mut recorder) = hold() {
        let nanoseconds = recorder.nanoseconds();
        recorder.log(|_, log| {
            log.write("tensors_end", nanoseconds, |json| json.number("group", format_args!("{group}")))
        });
    }
}

#[cold]
pub(crate) fn log_pool(pool: &Pool<'_>) {
    if let Some(mut recorder) = hold() {
        recorder.tensors.met(pool.device);
        let device = Text::of(format_args!("{}", pool.device));
        let nanoseconds = recorder.nanoseconds();
        recorder.log(|_, log| {
            log.write("pool", nanoseconds, |json| {
                json.text("name", pool.name);
                json.text("device", device.as_str());
                json.number("in_use", format_args!("{}", pool.in_use));
                json.number("padding", format_args!("{}", pool.padding));
                json.number("reserved", format_args!("{}", pool.reserved));
            })
        });
    }
}

impl Recorder {
    fn log_tensor(&mut self, group: u64, tensor: &Tensor<'_>) -> u64 {
        if self.log.is_none() {
            return group;
        }
        let group = if group == 0 { self.tensors.new_group() } else { group };
        self.tensors.met(tensor.device);
        let device = Text::of(format_args!("{}", tensor.device));
        let nanoseconds = self.nanoseconds();
        self.log(|_, log| {
            log.write("tensor", nanoseconds, |json| {
                json.number("group", format_args!("{group}"));
                json.text("name", tensor.name);
                json.text("kind", tensor.kind.name());
                json.number("shape", format_args!("{}", Extents(tensor.shape)));
                json.text("dtype", tensor.dtype);
                json.text("device", device.as_str());
                json.number("storage", format_args!("{}", tensor.storage));
                json.number("bytes", format_args!("{}", tensor.bytes));
                if let Some(allocated) = tensor.allocated {
                    json.number("allocated", format_args!("{allocated}"));
                }
                if let Some((start, end)) = tensor.range {
                    json.number("range", format_args!("[{start},{end}]"));
                }
            })
        });
        group
    }

    /// Which of the machine's devices the CUDA devices are that tensors were said to be on, as soon as that is known.
    pub(crate) fn log_tensor_devices(&mut self, mark: &Mark) {
        while let Some((ordinal, device)) =
            self.tensors.next_named(|ordinal| self.sources.gpu.known_device(ordinal))
        {
            self.log(|_, log| {
                log.write("cuda_device", mark.nanoseconds, |json| {
                    json.number("ordinal", format_args!("{ordinal}"));
                    json.text("device", device);
                })
            });
        }
    }
}
