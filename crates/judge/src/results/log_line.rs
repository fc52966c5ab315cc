//! One line of the shim's log, as JSON has it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};

/// A text that is borrowed from the line unless it contains escapes. The newtype lets `Option`
/// borrow, too.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The fields of all events; each event has some of them.
#[derive(Deserialize)]
pub(super) struct LogLine<'a> {
    pub(super) v: u32,
    #[serde(borrow)]
    pub(super) event: LogText<'a>,
    pub(super) seq: u64,
    pub(super) ns: Option<u64>,
    pub(super) pid: u64,
    pub(super) thread: Option<u32>,
    pub(super) depth: Option<u32>,
    pub(super) traced: Option<bool>,
    #[serde(borrow)]
    pub(super) label: Option<LogText<'a>>,
    pub(super) occurrence: Option<u32>,
    #[serde(borrow)]
    pub(super) at: Option<LogText<'a>>,
    #[serde(borrow)]
    pub(super) metrics: Option<Readings<'a>>,
    #[serde(borrow)]
    pub(super) build: Option<LogText<'a>>,
    #[serde(borrow)]
    pub(super) shim: Option<LogText<'a>>,
    #[serde(borrow)]
    pub(super) sources: Option<BTreeMap<LogText<'a>, LogText<'a>>>,
    #[serde(borrow)]
    pub(super) metric: Option<LogText<'a>>,
    #[serde(borrow)]
    pub(super) reason: Option<LogText<'a>>,
    #[serde(borrow)]
    pub(super) begins: Option<LogText<'a>>,
    #[serde(borrow)]
    pub(super) random: Option<LogText<'a>>,
    pub(super) random_numbers: Option<u64>,
    pub(super) hash_keys: Option<u64>,
    pub(super) threads: Option<u64>,
    pub(super) clock: Option<u64>,
}

/// The `metrics` map in the order written. A metric that could not be read at this checkpoint is
/// `null`.
pub(super) struct Readings<'a>(pub(super) Vec<(LogText<'a>, i64)>);

impl<'de: 'a, 'a> Deserialize<'de> for Readings<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Readings<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a map of metric names to integers")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut readings = Vec::with_capacity(8);
                while let Some((metric, value)) = map.next_entry::<LogText<'de>, Option<i64>>()? {
                    if let Some(value) = value {
                        readings.push((metric, value));
                    }
                }
                Ok(Readings(readings))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
