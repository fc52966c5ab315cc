//! The JSON Schema of `memprof.yaml`, from the types that read it.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::config::matrix::Matrix;

/// Returns the schema, for editors and for `cargo memprof schema matrix`.
pub fn schema() -> Value {
    let mut schema = SchemaGenerator::new(SchemaSettings::draft07()).into_root_schema_for::<Matrix>();
    tidy(&mut schema);
    schema.insert("title".to_owned(), "memprof.yaml".into());
    schema.to_value()
}

/// Makes the schema and those inside of it fit for people and editors.
fn tidy(schema: &mut Schema) {
    // Doc comments wrap their lines, descriptions do not.
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    without_null(schema);
    transform_subschemas(&mut tidy, schema);
}

/// Removes `null` from the choices. The fields are options because a key may be absent, but a value
/// is never null.
fn without_null(schema: &mut Schema) {
    let is_null = |value: &Value| value == "null" || value == &serde_json::json!({"type": "null"});
    for key in ["type", "anyOf", "enum"] {
        let Some(Value::Array(choices)) = schema.get_mut(key) else { continue };
        choices.retain(|choice| !is_null(choice) && !choice.is_null());
        if choices.len() > 1 {
            continue;
        }
        let Some(only) = choices.pop() else { continue };
        match (key, only) {
            ("anyOf", Value::Object(only)) => {
                schema.remove("anyOf");
                // draft-07 ignores keys beside a `$ref`, so it goes into an `allOf` of its own.
                if only.contains_key("$ref") {
                    schema.insert("allOf".to_owned(), Value::Array(vec![Value::Object(only)]));
                } else {
                    only.into_iter().for_each(|(key, value)| {
                        schema.insert(key, value);
                    });
                }
            }
            ("type", only) => {
                schema.insert("type".to_owned(), only);
            }
            (key, only) => {
                schema.insert(key.to_owned(), Value::Array(vec![only]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::matrix;

    /// Returns the `properties` of the mapping among the alternatives.
    fn keys(schema: &Value) -> Option<BTreeSet<String>> {
        let alternatives = schema.get("anyOf").and_then(Value::as_array);
        let properties =
            schema.get("properties").or_else(|| alternatives?.iter().find_map(|one| one.get("properties")));
        Some(properties?.as_object()?.keys().cloned().collect())
    }

    #[test]
    fn the_schema_has_exactly_the_keys_that_the_parser_knows() {
        let schema = schema();
        let definitions = schema["definitions"].as_object().expect("there are definitions");
        let of_schema: BTreeSet<BTreeSet<String>> =
            definitions.values().chain([&schema]).filter_map(keys).collect();
        let of_parser: BTreeSet<BTreeSet<String>> = (matrix::all_keys().iter())
            .map(|(_, keys)| keys.iter().map(|key| key.name.to_owned()).collect())
            .collect();
        assert_eq!(of_schema, of_parser);
    }

    #[test]
    fn each_key_is_described_and_none_may_be_null() {
        let schema = schema();
        for (name, key) in schema["properties"].as_object().unwrap() {
            assert!(key["description"].as_str().is_some_and(|text| text.len() > 10), "{name}");
        }
        let text = serde_json::to_string(&schema).unwrap();
        assert!(!text.contains("null"), "{text}");
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["patternProperties"]["^x-"], true);
    }
}
