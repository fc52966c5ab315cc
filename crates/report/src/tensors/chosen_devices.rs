//! Which devices' tensors a report shows: those whose metrics were chosen.

use crate::options::Options;
use memprof_plan::metric_family::{MetricGroup, family_of_point};
use memprof_support::glob;

/// The chosen devices, as patterns of their metrics' families: `heap`, `malloc`, `gpu.0`, `gpu.*`.
/// Empty for all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChosenDevices(Vec<String>);

impl ChosenDevices {
    /// Reads `--metrics`. Metrics that are of no device choose none: `time`, `cpu.peak`.
    pub(crate) fn from_options(options: &Options) -> Self {
        let asked = options.metrics.iter().flatten().filter(|_| !options.all);
        let family = |pattern: &String| match MetricGroup::of(pattern)? {
            group @ (MetricGroup::Heap | MetricGroup::Malloc) => Some(group.as_str().to_owned()),
            MetricGroup::Gpu => {
                let device = pattern.strip_prefix("gpu.").and_then(|rest| rest.split('.').next());
                Some(format!("gpu.{}", device.unwrap_or("*")))
            }
            _ => None,
        };
        Self(asked.filter_map(family).collect())
    }

    /// Whether to show the device of an allocator's metrics (`gpu.0.live`). A device without
    /// metrics was not measured. It is shown unless the user chose other devices.
    pub(super) fn contain(&self, metrics: &[String]) -> bool {
        let of_device = |metric: &String| {
            let family = family_of_point(metric).unwrap_or(metric);
            self.0.iter().any(|pattern| glob::matches(pattern, family))
        };
        self.0.is_empty() || metrics.iter().any(of_device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(metrics: &[&str]) -> ChosenDevices {
        let metrics = metrics.iter().map(|&metric| metric.to_owned()).collect();
        ChosenDevices::from_options(&Options { metrics: Some(metrics), ..Options::default() })
    }

    #[test]
    fn a_metric_chooses_its_device() {
        for (metrics, heap, gpu_0, gpu_1) in [
            (&["gpu.0.*"][..], false, true, false),
            (&["gpu.1.peak"], false, false, true),
            (&["gpu.*.live", "time"], false, true, true),
            (&["gpu*"], false, true, true),
            (&["heap.peak"], true, false, false),
            (&["heap.*", "gpu.1.pool.*"], true, false, true),
            (&["time", "cpu.peak"], true, true, true),
            (&[], true, true, true),
        ] {
            let chosen = chosen(metrics);
            let shown =
                ["heap.live", "gpu.0.live", "gpu.1.live"].map(|live| chosen.contain(&[live.to_owned()]));
            assert_eq!(shown, [heap, gpu_0, gpu_1], "{metrics:?}");
        }
        assert!(!chosen(&["gpu.0.*"]).contain(&[]) && ChosenDevices::default().contain(&[]));
    }
}
