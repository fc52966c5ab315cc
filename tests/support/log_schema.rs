//! The lines of a log against `schemas/log-1.json`: each has what the schema requires, and nothing that the
//! schema lacks.

use serde_json::Value;

/// The schema.
pub const LOG: &str = include_str!("../../schemas/log-1.json");

/// The events about call stacks, which only the tool reads.
const OF_THE_TOOL: [&str; 10] = [
    "frames",
    "interval",
    "module",
    "releases",
    "sites",
    "stacks",
    "stacks_compared",
    "stacks_incomplete",
    "thread",
    "timeline",
];

/// Fails with the first line that does not fit.
pub fn assert_fit(lines: &[Value]) {
    let schema: Value = serde_json::from_str(LOG).unwrap();
    for line in lines {
        let event = line["event"].as_str().unwrap();
        let of_event = &schema["$defs"][event];
        if of_event.is_null() {
            assert!(OF_THE_TOOL.contains(&event), "schemas/log-1.json lacks the event {event}: {line}");
            continue;
        }
        for parts in [&schema, of_event] {
            for name in parts["required"].as_array().unwrap() {
                assert!(line.get(name.as_str().unwrap()).is_some(), "no {name} in {line}");
            }
        }
        for (name, value) in line.as_object().unwrap() {
            let property = of_event["properties"].get(name).or_else(|| schema["properties"].get(name));
            let property =
                property.unwrap_or_else(|| panic!("schemas/log-1.json lacks {event}.{name}: {line}"));
            assert!(fits(value, property), "{event}.{name} is not {property}: {line}");
        }
    }
}

/// Whether a value has the type, is one of the choices, and so is what is in it.
fn fits(value: &Value, schema: &Value) -> bool {
    let is_of = |name: &Value| match name.as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        other => panic!("{other:?} is no type of this schema"),
    };
    let has_type = match &schema["type"] {
        Value::Null => true,
        Value::Array(types) => types.iter().any(is_of),
        one => is_of(one),
    };
    let least = schema["minimum"].as_i64();
    let is_enough = value.as_i64().is_none_or(|number| least.is_none_or(|least| number >= least));
    let is_choice = schema["enum"].as_array().is_none_or(|choices| choices.contains(value));
    let is_constant = schema.get("const").is_none_or(|constant| constant == value);
    let of_list =
        schema.get("items").is_none_or(|items| value.as_array().unwrap().iter().all(|one| fits(one, items)));
    let of_map = (schema.get("additionalProperties"))
        .is_none_or(|each| value.as_object().unwrap().values().all(|one| fits(one, each)));
    has_type && is_enough && is_choice && is_constant && of_list && of_map
}
