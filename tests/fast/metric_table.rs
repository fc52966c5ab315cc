//! The shim, the table of metrics and the documentation name the same metrics.

use std::collections::BTreeMap;

use memprof_plan::metric::{self, METRICS, Property};
use memprof_plan::metric_family::MetricGroup;
use regex::Regex;
use walkdir::WalkDir;

const DOCUMENTATION: [&str; 2] = [include_str!("../../docs/metrics.md"), include_str!("../../docs/gpu.md")];

/// The metrics of the first table of each page with their units: `gpu.*.pool.used`, `bytes`. A device and a
/// pool are `*`.
fn documented() -> BTreeMap<String, String> {
    let quoted = Regex::new("`([^`]+)`").unwrap();
    let variable = Regex::new(r"\b(N|NAME|host_pinned)\b|<place>").unwrap();
    let mut all = BTreeMap::new();
    for page in DOCUMENTATION {
        let lines = page.lines().skip_while(|line| !line.starts_with("| metric |"));
        let mut lines = lines.take_while(|line| line.starts_with('|'));
        let has_unit = lines.next().is_some_and(|head| head.starts_with("| metric | unit |"));
        for line in lines.skip(1) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let unit = if has_unit { cells[2].replace("ns", "nanoseconds") } else { "bytes".to_owned() };
            let mut before = String::new();
            for name in
                quoted.captures_iter(cells[1]).map(|found| variable.replace(&found[1], "*").into_owned())
            {
                let family = before.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
                before = if name.starts_with('.') { family + &name } else { name };
                all.insert(before.clone(), unit.clone());
            }
        }
    }
    all
}

#[test]
fn each_metric_is_documented_with_its_unit_and_no_other() {
    let is_of_points =
        |metric: &&metric::Metric| !metric.is(Property::OfScopes) && !metric.is(Property::OfLines);
    let known: BTreeMap<String, String> = (METRICS.iter().filter(is_of_points))
        .map(|metric| (metric.name.to_owned(), metric.source.unit().as_str().to_owned()))
        .collect();
    assert_eq!(documented(), known);
}

/// The shim's files without comments.
fn code_of_the_shim() -> Vec<String> {
    let files = WalkDir::new("templates/memprof").into_iter().map(Result::unwrap);
    let sources = files.filter(|file| file.path().extension().is_some_and(|end| end == "rs"));
    let code = |text: String| {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        lines.join("\n")
    };
    sources.map(|file| code(std::fs::read_to_string(file.path()).unwrap())).collect()
}

#[test]
fn a_level_a_peak_or_a_total_of_the_shim_is_one_in_the_table() {
    let added = Regex::new(r#""([a-z]+\.[a-z_]+)",[^;"]*?Kind::(Level|Peak|Total)"#).unwrap();
    let code = code_of_the_shim();
    let added: BTreeMap<&str, &str> = code
        .iter()
        .flat_map(|code| added.captures_iter(code))
        .map(|found| (found.get(1).unwrap().as_str(), found.get(2).unwrap().as_str()))
        .collect();
    for (name, kind) in &added {
        assert_eq!(format!("{:?}", metric::find(name).unwrap().figure), *kind, "{name}");
    }
    for name in ["heap.live", "heap.peak", "heap.count", "cpu.rss", "cpu.kept"] {
        assert!(added.contains_key(name), "{name} was not found: {added:?}");
    }
}

#[test]
fn the_shim_knows_the_groups_of_metrics() {
    let arm = Regex::new(r#""([a-z]+)" => &mut self\."#).unwrap();
    let code = std::fs::read_to_string("templates/memprof/metrics/columns.rs").unwrap();
    let mut words: Vec<&str> = arm.captures_iter(&code).map(|found| found.get(1).unwrap().as_str()).collect();
    words.sort_unstable();
    let mut groups = MetricGroup::ALL.map(MetricGroup::as_str);
    groups.sort_unstable();
    assert_eq!(words, groups);
}

#[test]
fn each_metric_that_the_shim_logs_is_in_the_table() {
    let literal = Regex::new(r#""([a-z_]+(?:\.[a-z_{}]+)+)""#).unwrap();
    let lists = Regex::new(r"(?s)const (OF_DEVICE|METRICS): \[&str; \d+\] =\s*\[(.*?)\];").unwrap();
    let part = Regex::new(r#""([a-z_.]+)""#).unwrap();
    let hole = Regex::new(r"\{[a-z_]*\}").unwrap();
    let mut names = Vec::new();
    for code in code_of_the_shim() {
        for list in lists.captures_iter(&code) {
            let family = if &list[1] == "METRICS" { "pool" } else { "gpu" };
            names.extend(part.captures_iter(&list[2]).map(|part| format!("{family}.0.{}", &part[1])));
        }
        let literals =
            literal.captures_iter(&code).map(|found| hole.replace_all(&found[1], "0").into_owned());
        // A name that ends with a hole is in one of the lists.
        let of_group = |name: &String| match name.split('.').next() {
            Some("heap" | "cpu" | "malloc") => true,
            Some("gpu" | "pool") => name.contains(".0.") && !name.ends_with('0'),
            _ => false,
        };
        names.extend(literals.filter(of_group));
    }
    names.sort_unstable();
    names.dedup();
    let lacking: Vec<&String> = names.iter().filter(|name| metric::find(name).is_none()).collect();
    assert!(lacking.is_empty(), "crates/plan/src/metric.rs lacks {lacking:?}");
    for name in ["heap.live", "cpu.pss", "malloc.count", "gpu.0.context", "gpu.0.vram", "pool.0.in_use_peak"]
    {
        assert!(names.iter().any(|known| known == name), "{name} was not found: {names:?}");
    }
}
