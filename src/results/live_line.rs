//! A checkpoint of a log that is still being written, as one line for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::support::bytes::Bytes;

/// A checkpoint as it was logged.
#[derive(Debug, Deserialize)]
pub struct LiveCheckpoint {
    event: String,
    label: String,
    #[serde(default)]
    metrics: BTreeMap<String, Option<i64>>,
}

/// A GPU's figures, the best first.
const OF_GPU: [&str; 3] = ["live", "process", "device"];

impl LiveCheckpoint {
    /// Reads a line of a log; `None` for another event, and for a line that is not whole.
    pub fn of_line(line: &[u8]) -> Option<Self> {
        // Most lines of a traced run are no checkpoints.
        memchr::memmem::find(line, b"\"checkpoint\"")?;
        let checkpoint: Self = serde_json::from_slice(line).ok()?;
        (checkpoint.event == "checkpoint").then_some(checkpoint)
    }

    fn figure(&self, metric: &str) -> Option<Bytes> {
        self.metrics.get(metric).copied().flatten().and_then(|value| u64::try_from(value).ok()).map(Bytes)
    }

    /// Returns the devices by number, each with its first available figure.
    fn gpus(&self) -> Vec<(&str, Bytes)> {
        let mut devices: Vec<&str> =
            self.metrics.keys().filter_map(|metric| metric.strip_prefix("gpu.")?.split('.').next()).collect();
        devices.dedup();
        let figure =
            |device: &str| OF_GPU.iter().find_map(|part| self.figure(&format!("gpu.{device}.{part}")));
        devices.into_iter().filter_map(|device| Some((device, figure(device)?))).collect()
    }
}

/// `done encoder: GPU 9.97 GiB, CPU 5.85 GiB, heap 1.20 GiB`.
impl fmt::Display for LiveCheckpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpus = self.gpus();
        let several = gpus.len() > 1;
        let of_gpu = |(device, bytes): &(&str, Bytes)| {
            if several { format!("GPU {device} {bytes}") } else { format!("GPU {bytes}") }
        };
        let mut figures: Vec<String> = gpus.iter().map(of_gpu).collect();
        let others = [("CPU", "cpu.rss"), ("heap", "heap.live")];
        figures.extend(
            others.iter().filter_map(|(name, metric)| Some(format!("{name} {}", self.figure(metric)?))),
        );
        // A label may have any text; a checkpoint is one line.
        write!(formatter, "{}: {}", self.label.replace(['\n', '\r'], "↵"), figures.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<String> {
        LiveCheckpoint::of_line(line.as_bytes()).map(|checkpoint| checkpoint.to_string())
    }

    #[test]
    fn a_checkpoint_is_one_line_with_gpus_resident_memory_and_heap() {
        let line = |metrics: &str| {
            shown(&format!(r#"{{"v":1,"event":"checkpoint","label":"a\nb","metrics":{{{metrics}}}}}"#))
                .unwrap()
        };
        assert_eq!(line(r#""cpu.rss":1024,"heap.live":512,"time":9"#), "a↵b: CPU 1.00 KiB, heap 512 B");
        let one = r#""gpu.0.device":4096,"gpu.0.process":2048,"gpu.0.live":null,"cpu.rss":1024"#;
        assert_eq!(line(one), "a↵b: GPU 2.00 KiB, CPU 1.00 KiB");
        let two = r#""gpu.0.live":1024,"gpu.1.live":2048"#;
        assert_eq!(line(two), "a↵b: GPU 0 1.00 KiB, GPU 1 2.00 KiB");
    }

    #[test]
    fn other_events_and_torn_lines_are_left_out() {
        assert_eq!(shown(r#"{"event":"scope","label":"checkpoint","metrics":{}}"#), None);
        assert_eq!(shown(r#"{"event":"checkpoint","label":"a","metr"#), None);
        assert_eq!(shown(""), None);
    }
}
