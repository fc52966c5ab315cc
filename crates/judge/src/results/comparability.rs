//! Which figures can be compared. Resident memory needs the same kernel, GPU memory the same device
//! and driver, and every metric the same target. The report lists other differences, and compares
//! the figures.

use std::collections::BTreeMap;

use crate::results::build_facts::{BuildFacts, Fact};
use serde_json::Value;

use memprof_support::glob;

/// Metrics of a candidate that cannot be compared with the baseline's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomparableMetrics {
    /// The metrics, with `*` for any part of a name.
    pub metrics: String,
    /// The reason: `the kernels differ: 5.10.0 / 6.1.0`.
    pub reason: String,
}

impl IncomparableMetrics {
    /// Whether this metric is among them.
    pub(crate) fn is_about(&self, metric: &str) -> bool {
        glob::matches(&self.metrics, metric)
    }
}

/// Compares the machines of two runs by their `environment.json`. A fact that one of them lacks
/// counts as equal. If a run was merged from shards of several machines, each of them counts.
pub fn of_machines(a: &Value, b: &Value) -> Vec<IncomparableMetrics> {
    let mut apart = Vec::new();
    for a in machines(a) {
        for b in machines(b) {
            for one in of_two_machines(a, b) {
                if !apart.contains(&one) {
                    apart.push(one);
                }
            }
        }
    }
    apart
}

/// The machines of a run: one, or those of its shards.
fn machines(environment: &Value) -> Vec<&Value> {
    match environment["machines"].as_array() {
        Some(machines) => machines.iter().map(|machine| &machine["environment"]).collect(),
        None => vec![environment],
    }
}

fn of_two_machines(a: &Value, b: &Value) -> Vec<IncomparableMetrics> {
    let facts = [
        ("/os", "*", "the operating systems"),
        ("/architecture", "*", "the architectures"),
        ("/kernel", "cpu.*", "the kernels"),
        ("/transparent_huge_pages", "cpu.*", "the settings of huge pages"),
        ("/cpu", "time", "the processors"),
        ("/gpu/driver", "gpu.*", "the GPU drivers"),
    ];
    let mut apart: Vec<IncomparableMetrics> = facts
        .into_iter()
        .filter_map(|(fact, metrics, what)| differing(a.pointer(fact)?, b.pointer(fact)?, metrics, what))
        .collect();
    let devices = |machine: &Value| -> BTreeMap<u64, Value> {
        let devices = machine.pointer("/gpu/devices").and_then(Value::as_array);
        let each = devices.into_iter().flatten();
        each.filter_map(|device| Some((device["index"].as_u64()?, device["name"].clone()))).collect()
    };
    let (of_a, of_b) = (devices(a), devices(b));
    apart.extend(of_a.iter().filter_map(|(index, name)| {
        differing(name, of_b.get(index)?, &format!("gpu.{index}.*"), &format!("GPU {index}'s models"))
    }));
    apart
}

/// Compares two builds by their facts in `builds.json`.
pub(crate) fn of_builds(a: &BuildFacts, b: &BuildFacts) -> Vec<IncomparableMetrics> {
    let (a, b) = (a.get(Fact::Target), b.get(Fact::Target));
    if a == b {
        return Vec::new();
    }
    let [a, b] = [a, b].map(|target| target.unwrap_or("the host's"));
    vec![IncomparableMetrics { metrics: "*".to_owned(), reason: format!("the targets differ: {a} / {b}") }]
}

fn differing(a: &Value, b: &Value, metrics: &str, what: &str) -> Option<IncomparableMetrics> {
    if a.is_null() || b.is_null() || a == b {
        return None;
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let reason = format!("{what} differ: {} / {}", text(a), text(b));
    Some(IncomparableMetrics { metrics: metrics.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_kernel_makes_resident_memory_another_figure_and_another_device_its_own() {
        let machine = |kernel: &str, names: [&str; 2]| {
            json!({
                "kernel": kernel, "architecture": "x86_64", "cpus": 8,
                "gpu": {"driver": "580", "devices": [{"index": 0, "name": names[0]}, {"index": 1, "name": names[1]}]},
            })
        };
        let a = machine("5.10", ["H200", "A100"]);
        assert_eq!(of_machines(&a, &a), []);
        let apart = of_machines(&a, &machine("6.1", ["H200", "H200"]));
        let shown: Vec<_> = apart.iter().map(|one| (one.metrics.as_str(), one.reason.as_str())).collect();
        assert_eq!(
            shown,
            [("cpu.*", "the kernels differ: 5.10 / 6.1"), ("gpu.1.*", "GPU 1's models differ: A100 / H200")]
        );
        assert!(apart[0].is_about("cpu.peak") && !apart[0].is_about("heap.peak"));
        assert!(apart[1].is_about("gpu.1.pool.used") && !apart[1].is_about("gpu.0.peak"));
    }

    #[test]
    fn what_a_side_does_not_state_makes_no_difference() {
        assert_eq!(
            of_machines(&json!({"kernel": "6.1", "gpu": null}), &json!({"gpu": {"driver": "580"}})),
            []
        );
        assert_eq!(of_machines(&Value::Null, &json!({"kernel": "6.1"})), []);
    }

    #[test]
    fn each_machine_of_a_merged_run_counts() {
        let machine = |kernel: &str| json!({"os": "linux", "kernel": kernel});
        let shard = |number: u32, kernel: &str| json!({"shard": number, "environment": machine(kernel)});
        let merged =
            json!({"os": "linux", "machines": [shard(1, "6.1"), shard(2, "5.10"), shard(3, "5.10")]});
        let reasons = |a: &Value, b: &Value| -> Vec<String> {
            of_machines(a, b).into_iter().map(|one| one.reason).collect()
        };
        assert_eq!(reasons(&machine("6.1"), &merged), ["the kernels differ: 6.1 / 5.10"]);
        assert_eq!(reasons(&merged, &machine("5.10")), ["the kernels differ: 6.1 / 5.10"]);
        assert_eq!(reasons(&merged, &merged).len(), 2, "a test may have run on either machine");
    }

    #[test]
    fn figures_of_two_targets_are_never_compared() {
        let target = |name: &str| BuildFacts::from_iter([(Fact::Target, name.to_owned())]);
        assert_eq!(of_builds(&target("a"), &target("a")), []);
        let apart = of_builds(&target("a"), &BuildFacts::default());
        assert_eq!(apart[0].reason, "the targets differ: a / the host's");
    }
}
