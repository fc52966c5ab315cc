//! A line of a log that is still being written, for people: a checkpoint, a scope, or a layer of a
//! forward pass.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use memprof_plan::metric_family::{families_of_scopes, in_words, instance, level_and_peak};
use memprof_support::bytes::Bytes;
use memprof_support::elapsed;

/// An event as it was logged. Each kind has some of the fields.
#[derive(Debug, Deserialize)]
pub struct LiveLine {
    event: String,
    #[serde(default)]
    label: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    depth: usize,
    #[serde(default)]
    traced: bool,
    #[serde(default)]
    metrics: BTreeMap<String, Option<i64>>,
    #[serde(default)]
    memory: String,
    #[serde(default)]
    retained: i64,
    #[serde(default)]
    peak: i64,
}

/// A GPU's figures, the best first.
const OF_GPU: [&str; 3] = ["gpu.*.live", "gpu.*.process", "gpu.*.device"];

/// Kinds of memory at a checkpoint, beside GPUs.
const OTHERS: [&str; 2] = ["heap", "cpu"];

/// The events that are shown.
const SHOWN: [&str; 4] = ["checkpoint", "scope", "forward", "layer"];

impl LiveLine {
    /// Reads a line of a log; `None` for another event, for a traced call, which may be one of very
    /// many, and for a line that is not whole.
    pub fn read(line: &[u8]) -> Option<Self> {
        // Most lines of a traced run are none of these.
        let event = |event: &str| memchr::memmem::find(line, format!("\"event\":\"{event}\"").as_bytes());
        SHOWN.into_iter().find_map(event)?;
        let read: Self = serde_json::from_slice(line).ok()?;
        (SHOWN.contains(&read.event.as_str()) && !read.traced).then_some(read)
    }

    fn figure(&self, metric: &str) -> Option<Bytes> {
        self.metrics.get(metric).copied().flatten().and_then(|value| u64::try_from(value).ok()).map(Bytes)
    }

    /// Returns the devices by number, each with its first available figure.
    fn gpus(&self) -> Vec<(&str, Bytes)> {
        let device = |metric| OF_GPU.iter().find_map(|pattern| instance(pattern, metric));
        let mut devices: Vec<&str> = self.metrics.keys().filter_map(|metric| device(metric)).collect();
        devices.dedup();
        let figure =
            |device: &str| OF_GPU.iter().find_map(|pattern| self.figure(&pattern.replacen('*', device, 1)));
        devices.into_iter().filter_map(|device| Some((device, figure(device)?))).collect()
    }

    /// Returns `GPU 9.97 GiB, heap 1.20 GiB, resident 5.85 GiB`.
    fn levels(&self) -> String {
        let gpus = self.gpus();
        let several = gpus.len() > 1;
        let of_gpu = |(device, bytes): &(&str, Bytes)| {
            if several { format!("GPU {device} {bytes}") } else { format!("GPU {bytes}") }
        };
        let mut figures: Vec<String> = gpus.iter().map(of_gpu).collect();
        figures.extend(OTHERS.iter().filter_map(|family| {
            let [level, _] = level_and_peak(family)?;
            Some(format!("{} {}", in_words(family), self.figure(&level)?))
        }));
        figures.join(", ")
    }

    /// Returns `heap +1.20 GiB (peaked 512 MiB above), 4.0 s`, with each kind of memory.
    fn growth(&self) -> String {
        let families = families_of_scopes(self.metrics.keys().map(String::as_str));
        let of_family = |family: &str| {
            let consumed = self.metrics.get(&format!("{family}.consumed")).copied().flatten()?;
            let peaked = self.figure(&format!("{family}.peaked")).filter(|peaked| peaked.0 > 0);
            let peaked = peaked.map_or_else(String::new, |peaked| format!(" (peaked {peaked} above)"));
            Some(format!("{} {}{peaked}", in_words(family), grown(consumed)))
        };
        let time = self.metrics.get("time").copied().flatten().and_then(|time| u64::try_from(time).ok());
        let time = time.map(|time| elapsed::shown(Duration::from_nanos(time)));
        families.into_iter().filter_map(of_family).chain(time).collect::<Vec<_>>().join(", ")
    }
}

fn grown(bytes: i64) -> String {
    if bytes == 0 { "+0 B".to_owned() } else { Bytes::delta(bytes.into()) }
}

impl fmt::Display for LiveLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A label may have any text, and this is one line.
        let line = |text: &str| text.replace(['\n', '\r'], "↵");
        let indent = "  ".repeat(self.depth.min(20));
        match self.event.as_str() {
            "scope" => write!(formatter, "{indent}{} (scope): {}", line(&self.label), self.growth()),
            "forward" => write!(formatter, "{} (forward pass)", line(&self.label)),
            "layer" => {
                let name = line(self.name.as_deref().unwrap_or("all layers"));
                let peak = Bytes(u64::try_from(self.peak).unwrap_or(0));
                let retained = grown(self.retained);
                let memory = in_words(&self.memory);
                write!(formatter, "{indent}{name} (layer): {memory} {retained}, peak {peak}")
            }
            _ => write!(formatter, "{}: {}", line(&self.label), self.levels()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<String> {
        LiveLine::read(line.as_bytes()).map(|line| line.to_string())
    }

    #[test]
    fn a_checkpoint_is_one_line_with_gpus_resident_memory_and_heap() {
        let line = |metrics: &str| {
            shown(&format!(r#"{{"v":1,"event":"checkpoint","label":"a\nb","metrics":{{{metrics}}}}}"#))
                .unwrap()
        };
        assert_eq!(line(r#""cpu.rss":1024,"heap.live":512,"time":9"#), "a↵b: heap 512 B, resident 1.00 KiB");
        let one = r#""gpu.0.device":4096,"gpu.0.process":2048,"gpu.0.live":null,"cpu.rss":1024"#;
        assert_eq!(line(one), "a↵b: GPU 2.00 KiB, resident 1.00 KiB");
        let two = r#""gpu.0.live":1024,"gpu.1.live":2048"#;
        assert_eq!(line(two), "a↵b: GPU 0 1.00 KiB, GPU 1 2.00 KiB");
    }

    #[test]
    fn a_scope_and_a_layer_say_what_they_needed() {
        let metrics =
            r#""heap.consumed":2048,"heap.peaked":1024,"heap.used":4096,"cpu.consumed":-512,"time":2000000"#;
        let scope = format!(r#"{{"event":"scope","label":"decoder","depth":1,"metrics":{{{metrics}}}}}"#);
        assert_eq!(
            shown(&scope).unwrap(),
            "  decoder (scope): heap +2.00 KiB (peaked 1.00 KiB above), resident -512 B, 2 ms"
        );
        let layer = r#"{"event":"layer","name":"encoder.0","memory":"gpu.0","calls":1,"depth":0,"freed_later":0,"retained":1024,"peak":2048}"#;
        assert_eq!(shown(layer).unwrap(), "encoder.0 (layer): GPU 0 +1.00 KiB, peak 2.00 KiB");
    }

    #[test]
    fn other_events_and_torn_lines_are_left_out() {
        assert_eq!(shown(r#"{"event":"calls","label":"checkpoint","metrics":{}}"#), None);
        assert_eq!(shown(r#"{"event":"scope","traced":true,"label":"a","metrics":{}}"#), None);
        assert_eq!(shown(r#"{"event":"checkpoint","label":"a","metr"#), None);
        assert_eq!(shown(""), None);
    }
}
