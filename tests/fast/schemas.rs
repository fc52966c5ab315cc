//! `schemas/` has a file for each version of what the program reads and writes, and the newest is what it
//! reads and writes now.

use std::collections::BTreeMap;

use fs_err as fs;
use serde_json::{Value, json};

use crate::support::hostile;
use crate::support::log_schema::LOG;
use memprof_judge::compare::from_results::compare;
use memprof_report::options::{Format, Options};
use memprof_report::{json, why};

/// The version of `memprof.yaml`, which is nowhere in the file.
const MATRIX: u32 = 1;
/// The version of all CSV.
const CSV: u32 = 1;

/// Compares with the file. With `INSTA_UPDATE=always` it writes the file, if what is new is only added.
fn assert_is_in_repository(name: &str, version: u32, now: &Value) {
    let path = format!("{}/schemas/{name}-{version}.json", env!("CARGO_MANIFEST_DIR"));
    let known: Option<Value> =
        fs::read_to_string(&path).ok().map(|text| serde_json::from_str(&text).unwrap());
    if known.as_ref() == Some(now) {
        return;
    }
    let lost = known.as_ref().map_or_else(Vec::new, |known| removed(known, now, ""));
    assert!(
        lost.is_empty(),
        "{path}: version {version} of {name} had these, which readers rely on:\n{}\n\
         Keep them, or raise the version of {name}: CONTRIBUTING.md, \"Formats and their versions\"",
        lost.join("\n")
    );
    assert!(
        std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always"),
        "{path} lacks what is new; to write it: INSTA_UPDATE=always cargo test --test fast schemas"
    );
    fs::write(&path, serde_json::to_string_pretty(now).unwrap() + "\n").unwrap();
}

/// Returns the places where something was removed or changed. Text for people may change; a list of choices
/// and an object of fields may grow; the fields that are always there may not become fewer.
fn removed(known: &Value, now: &Value, at: &str) -> Vec<String> {
    match (known, now) {
        (Value::Object(known), Value::Object(now)) => {
            let fields = known.iter().filter(|(name, _)| !["description", "title"].contains(&name.as_str()));
            let of_field = |(name, value): (&String, &Value)| match now.get(name) {
                Some(now) => removed(value, now, &format!("{at}/{name}")),
                None => vec![format!("{at}/{name}")],
            };
            fields.flat_map(of_field).collect()
        }
        (Value::Array(known), Value::Array(now)) => {
            let is_lost = |value: &&Value| !now.iter().any(|one| removed(value, one, "").is_empty());
            known.iter().filter(is_lost).map(|value| format!("{at}: {value}")).collect()
        }
        _ if known == now => Vec::new(),
        _ => vec![format!("{at}: {known} is {now} now")],
    }
}

#[test]
fn the_json_report_has_its_schema() {
    assert_is_in_repository("report", json::schema::VERSION, &json::schema::schema());
}

#[test]
fn call_sites_have_their_schema() {
    assert_is_in_repository("call-sites", why::json::VERSION, &why::json::schema());
}

#[test]
fn memprof_yaml_has_its_schema() {
    assert_is_in_repository("memprof-yaml", MATRIX, &memprof_plan::config::schema::schema());
}

#[test]
fn csv_has_its_columns() {
    let comparison = compare(&hostile::folder().results());
    let metrics: Vec<String> = comparison.metrics.iter().map(|metric| metric.name.clone()).collect();
    let placeholder = |heading: &str| {
        let parts: Vec<&str> = (heading.split(':'))
            .enumerate()
            .map(|(index, part)| match part {
                "main" if index > 0 => "REF",
                "pr/1" | "pr/2" => "CANDIDATE",
                "param.batch" => "param.NAME",
                // Metrics, also those of single calls and lines.
                part if part.strip_suffix(".most").is_some() => "METRIC.most",
                part if part.contains('.') || metrics.iter().any(|metric| metric == part) => "METRIC",
                part => part,
            })
            .collect();
        // A candidate has the columns of each ref, and some of its own.
        let text = parts.join(":");
        let is_difference = text.ends_with(":delta") || text.ends_with(":percent");
        if is_difference { text } else { text.replace("CANDIDATE", "REF") }
    };
    let mut columns: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, format) in [
        ("csv", Format::Csv),
        ("csv=wide", Format::CsvWide),
        ("csv=scopes", Format::CsvScopes),
        ("csv=calls", Format::CsvCalls),
        ("csv=lines", Format::CsvLines),
        ("csv=tensors", Format::CsvTensors),
        ("csv=layers", Format::CsvLayers),
        ("csv=causes", Format::CsvCauses),
        ("csv=sites", Format::CsvSites),
        ("csv=owners", Format::CsvOwners),
        ("csv=threads", Format::CsvThreads),
    ] {
        let mut text = Vec::new();
        memprof_report::render::render(format, &comparison, &Options::default(), &mut text).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_slice());
        let known = columns.entry(name).or_default();
        for heading in reader.headers().unwrap() {
            let heading = placeholder(heading);
            if !known.contains(&heading) {
                known.push(heading);
            }
        }
        assert!(known.len() > 5, "{name}: {known:?}");
    }
    assert_is_in_repository("csv", CSV, &json!(columns));
}

#[test]
fn the_log_has_its_schema() {
    let schema: Value = serde_json::from_str(LOG).unwrap();
    let events = schema["$defs"].as_object().unwrap();
    // The shim writes each event by one call with its name.
    let mut written: Vec<String> = Vec::new();
    let calls = regex::Regex::new(r#"\.write(?:_later)?\(\s*"([a-z_]+)""#).unwrap();
    for file in walkdir::WalkDir::new(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/memprof")) {
        let file = file.unwrap();
        // What call stacks need is for the tool alone.
        let is_of_stacks = file.path().ends_with("lines/stack_log.rs");
        if file.path().extension().is_some_and(|end| end == "rs") && !is_of_stacks {
            let text = fs::read_to_string(file.path()).unwrap();
            written.extend(calls.captures_iter(&text).map(|found| found[1].to_owned()));
        }
    }
    written.sort();
    written.dedup();
    assert_eq!(written, events.keys().cloned().collect::<Vec<_>>());
    let documented = include_str!("../../docs/shim.md").split_once("| event | meaning |").unwrap().1;
    for event in events.keys() {
        assert!(documented.contains(&format!("| `{event}` |")), "docs/shim.md lacks {event}");
    }
}

#[test]
fn what_a_schema_may_not_lose_is_noticed() {
    let known = json!({"properties": {"a": {"type": "string", "description": "one"}}, "required": ["a"]});
    let more = json!({
        "properties": {"a": {"type": "string", "description": "two"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    });
    assert_eq!(removed(&known, &more, ""), [""; 0]);
    assert_eq!(removed(&more, &known, "").len(), 2, "a field, and that it is always there");
    let other = json!({"properties": {"a": {"type": "integer"}}, "required": ["a"]});
    assert_eq!(removed(&known, &other, ""), ["/properties/a/type: \"string\" is \"integer\" now"]);
}
