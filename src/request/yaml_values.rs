//! Values of memprof.yaml as plain values, and the rules by which a flag replaces them.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use memprof_plan::config::mapping::OpenMapping;
use memprof_plan::config::values::{Parsed, Value};
use memprof_plan::config::yaml::{List, Scalar};
use memprof_plan::dependency_change::DependencyChange;

/// Returns the text of a key, if the file has it.
pub fn text(value: Option<&Scalar<String>>) -> Option<&str> {
    value.map(|Scalar(value)| value.as_str())
}

/// Returns a list of texts, empty if the file has no such key.
pub fn texts(values: Option<&List<Scalar<String>>>) -> Vec<String> {
    values.iter().flat_map(|List(values)| values).map(|Scalar(value)| value.clone()).collect()
}

/// Returns changed dependencies, empty if the file has no such key.
pub fn changes(values: Option<&List<Scalar<Parsed<DependencyChange>>>>) -> Vec<DependencyChange> {
    values.iter().flat_map(|List(values)| values).map(|Scalar(change)| change.value.clone()).collect()
}

/// Returns the list of the flags, or else that of the key.
pub fn list(flags: &[String], key: Option<&List<Scalar<String>>>) -> Vec<String> {
    if flags.is_empty() { texts(key) } else { flags.to_vec() }
}

/// Returns a mapping with converted values, in the order of the file.
pub fn named<T, U>(values: Option<&OpenMapping<T>>, convert: impl Fn(&T) -> U) -> IndexMap<String, U> {
    values
        .iter()
        .flat_map(|OpenMapping(values)| values)
        .map(|(name, value)| (name.clone(), convert(value)))
        .collect()
}

/// Returns environment variables by name.
pub fn environment(values: Option<&OpenMapping<Scalar<Value>>>) -> BTreeMap<String, String> {
    named(values, |Scalar(Value(value))| value.clone()).into_iter().collect()
}

/// Returns whether a switch is on.
pub fn is_on(key: Option<&Scalar<bool>>) -> bool {
    key == Some(&Scalar(true))
}
