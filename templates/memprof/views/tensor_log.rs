//! Named memory in the log: tensors, the ends of their groups, pools, and the devices of all these.

use crate::platform::untracked::Text;
use crate::recorder::holding::hold;
use crate::recorder::marks::Recorder;
use crate::shared::tensor::{Device, Pool, Tensor};

/// Logs that a tensor is alive in this group, or in a new group for 0. Returns the group; 0 without
/// a log.
pub(crate) fn log_tensor(group: u64, tensor: &Tensor<'_>) -> u64 {
    match hold() {
        Some(mut recorder) => recorder.log_tensor(group, tensor),
        None => group,
    }
}

/// Logs that all tensors of a group have ended.
#[cold]
pub(crate) fn end_tensors(group: u64) {
    if let Some(mut recorder) = hold() {
        let nanoseconds = recorder.nanoseconds();
        recorder
            .log(|_, log| log.write_later("tensors_end", nanoseconds, |json| json.figure("group", group)));
    }
}

#[cold]
pub(crate) fn log_pool(pool: &Pool<'_>) {
    if let Some(mut recorder) = hold() {
        recorder.tensors.met(pool.device);
        let device = Text::format(format_args!("{}", pool.device));
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
        let nanoseconds = self.nanoseconds();
        self.log(|_, log| {
            log.write_later("tensor", nanoseconds, |json| {
                json.figure("group", group);
                json.text("name", tensor.name);
                json.text("kind", tensor.kind.name());
                json.numbers("shape", tensor.shape.iter().map(|&extent| Some(extent as u64)));
                json.text("dtype", tensor.dtype);
                match tensor.device {
                    // Formatting would take a tenth of the time.
                    Device::Cpu => json.text("device", "cpu"),
                    device => json.text("device", Text::format(format_args!("{device}")).as_str()),
                }
                // The program's own number. It may use all 64 bits.
                json.number("storage", format_args!("{}", tensor.storage));
                json.figure("bytes", tensor.bytes);
                if let Some(allocated) = tensor.allocated {
                    json.figure("allocated", allocated);
                }
                if let Some((start, end)) = tensor.range {
                    json.numbers("range", [Some(start), Some(end)].iter().copied());
                }
            })
        });
        group
    }
}
