//! The values of keys as a plan keeps them: plain, and with a default for a key that is absent.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::config::device_pool::PoolNames;
use crate::config::mapping::OpenMapping;
use crate::config::values::{Delay, Dependency, Parsed, Refspec, RegularExpression, Seconds, Value};
use crate::config::yaml::{List, Scalar};
use crate::trace_pattern::TracePattern;

/// A key's value that is kept as a `T`.
pub trait Keep<T> {
    fn keep(&self) -> T;
}

/// Returns what a plan keeps of a key.
pub fn kept<K: Keep<T>, T: Default>(key: Option<&K>) -> T {
    key.map(Keep::keep).unwrap_or_default()
}

/// Returns the text of a key.
pub fn text(key: Option<&Scalar<String>>) -> Option<&str> {
    key.map(|Scalar(text)| text.as_str())
}

impl<T: Clone> Keep<T> for Scalar<T> {
    fn keep(&self) -> T {
        self.0.clone()
    }
}

impl<T: Clone> Keep<Option<T>> for Scalar<T> {
    fn keep(&self) -> Option<T> {
        Some(self.0.clone())
    }
}

impl Keep<Option<u64>> for Scalar<Seconds> {
    fn keep(&self) -> Option<u64> {
        Some(self.0.0)
    }
}

/// A pause of no length is none.
impl Keep<Option<u64>> for Scalar<Delay> {
    fn keep(&self) -> Option<u64> {
        Some(self.0.0).filter(|milliseconds| *milliseconds > 0)
    }
}

/// The text as written.
impl<T> Keep<Option<String>> for Scalar<Parsed<T>> {
    fn keep(&self) -> Option<String> {
        Some(self.0.text.clone())
    }
}

impl Keep<Option<String>> for Scalar<RegularExpression> {
    fn keep(&self) -> Option<String> {
        Some(self.0.0.clone())
    }
}

impl<T: Clone> Keep<Vec<T>> for List<Scalar<T>> {
    fn keep(&self) -> Vec<T> {
        self.0.iter().map(|Scalar(value)| value.clone()).collect()
    }
}

impl<T: Clone> Keep<Vec<T>> for List<Scalar<Parsed<T>>> {
    fn keep(&self) -> Vec<T> {
        self.0.iter().map(|Scalar(parsed)| parsed.value.clone()).collect()
    }
}

/// The patterns as written.
impl Keep<Vec<String>> for List<Scalar<Parsed<TracePattern>>> {
    fn keep(&self) -> Vec<String> {
        self.0.iter().map(|Scalar(pattern)| pattern.text.clone()).collect()
    }
}

impl Keep<Option<Vec<String>>> for PoolNames {
    fn keep(&self) -> Option<Vec<String>> {
        Some(self.0.clone())
    }
}

/// In the order of the file.
impl Keep<IndexMap<String, String>> for OpenMapping<Scalar<Refspec>> {
    fn keep(&self) -> IndexMap<String, String> {
        self.0.iter().map(|(name, Scalar(Refspec(pattern)))| (name.clone(), pattern.clone())).collect()
    }
}

impl Keep<BTreeMap<String, String>> for OpenMapping<Scalar<Value>> {
    fn keep(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, Scalar(Value(value)))| (name.clone(), value.clone())).collect()
    }
}

impl Keep<BTreeMap<String, String>> for OpenMapping<Scalar<Dependency>> {
    fn keep(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, Scalar(Dependency(toml)))| (name.clone(), toml.clone())).collect()
    }
}
