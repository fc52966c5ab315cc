//! The metrics of one NVIDIA device: their names, and their place in the catalogue.

use crate::metrics::metric::{Catalogue, Index, Kind, MAXIMUM, Metric};
use crate::platform::untracked::kept;

/// Metrics of one device. Where there is no room left for all of them, they are absent.
const OF_DEVICE: [&str; 9] = [
    "live",
    "peak",
    "pool.used",
    "pool.used_peak",
    "pool.reserved",
    "pool.reserved_peak",
    "process",
    "device",
    "context",
];
/// Metrics of page-locked host memory. There is always room for them.
pub(crate) const OF_HOST: usize = 2;

const NOT_ANSWERED: &str = "the driver no longer answers for this device";
pub(crate) const UNLISTED: &str = "NVML does not list this process on the device: it has no context there, or its id is hidden, as in a container";
const NO_ROOM: &str = "this process uses more devices than the log has room for";

/// Adds one device's metrics to the catalogue.
pub(crate) struct DeviceMetrics<'a> {
    pub(crate) device: &'a str,
    /// Whether the figures are for a part of a device (MIG).
    pub(crate) is_part: bool,
    pub(crate) catalogue: &'a mut Catalogue,
}

impl DeviceMetrics<'_> {
    /// Whether all metrics of one more device fit. If not, they are added as absent.
    pub(crate) fn fit(&mut self) -> bool {
        let fits = self.catalogue.length() + OF_DEVICE.len() + OF_HOST <= MAXIMUM;
        if !fits {
            self.add_absent(&OF_DEVICE, NO_ROOM);
        }
        fits
    }

    pub(crate) fn add(&mut self, metric: &str, source: &'static str, kind: Kind) -> Index {
        let source = if self.is_part {
            kept(format_args!("{source}, for a part of the device (MIG)"))
        } else {
            source
        };
        let name = self.name(metric);
        let lost = NOT_ANSWERED;
        self.catalogue.add_metric(Metric { name, source, kind, lost, is_zero_before: true, base: 0 })
    }

    /// Adds a level and its peak. Scopes name their figures by the device and this suffix.
    pub(crate) fn add_pair(
        &mut self,
        metrics: [&str; 2],
        suffix: &str,
        source: &'static str,
    ) -> (Index, Index) {
        let level = self.add(metrics[0], source, Kind::Level);
        let family = kept(format_args!("gpu.{}{}", self.device, suffix));
        (level, self.add(metrics[1], source, Kind::Peak { family, level }))
    }

    pub(crate) fn add_absent(&mut self, metrics: &[&str], reason: &'static str) {
        for metric in metrics {
            let name = self.name(metric);
            self.catalogue.add_absent(name, reason);
        }
    }

    fn name(&self, metric: &str) -> &'static str {
        kept(format_args!("gpu.{}.{}", self.device, metric))
    }
}
