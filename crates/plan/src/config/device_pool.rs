//! The devices that tests are spread over: `devices: all`, or a list.

use schemars::json_schema;
use serde::de::{self, SeqAccess, Visitor};

use crate::config::limits;
use crate::config::mistake::Mistake;
use crate::config::yaml::{FromText, Scalar, inline_schema};
use memprof_gpu::spreading::{self, ALL};
use memprof_gpu::visible_devices;

/// The devices of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolNames(pub Vec<String>);

impl PoolNames {
    /// Reads the name of one device, or `all`.
    pub(crate) fn name(text: &str) -> Result<String, Mistake> {
        spreading::check_name(text).map(|()| text.to_owned()).map_err(Mistake::new)
    }
}

/// One device of a pool.
struct PoolDevice(String);

impl FromText for PoolDevice {
    const EXPECTED: &'static str = "`all`, or a device such as 0 or GPU-8932f937";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        PoolNames::name(text).map(Self)
    }
}

impl<'de> serde::Deserialize<'de> for PoolNames {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamesVisitor;
        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = PoolNames;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(formatter, "{} or a list of them", PoolDevice::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PoolNames, E> {
                let PoolDevice(name) = PoolDevice::from_text(text).map_err(Mistake::raise)?;
                Ok(PoolNames(vec![name]))
            }

            fn visit_u64<E: de::Error>(self, index: u64) -> Result<PoolNames, E> {
                self.visit_str(&index.to_string())
            }

            fn visit_i64<E: de::Error>(self, index: i64) -> Result<PoolNames, E> {
                self.visit_str(&index.to_string())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<PoolNames, A::Error> {
                let mut names = Vec::new();
                while let Some(Scalar(PoolDevice(name))) = sequence.next_element()? {
                    limits::check_count(names.len(), limits::MOST_MAPPINGS).map_err(Mistake::raise)?;
                    names.push(name);
                }
                let mistake = |message| Mistake::new(message).raise::<A::Error>();
                visible_devices::check_names(&names).map_err(mistake)?;
                if names.len() > 1 && names.iter().any(|name| name == ALL) {
                    return Err(mistake(format!("`{ALL}` cannot be combined with a device")));
                }
                Ok(PoolNames(names))
            }
        }
        deserializer.deserialize_any(NamesVisitor)
    }
}

inline_schema!(PoolNames, |_generator| {
    let one = json_schema!({"type": ["string", "integer"], "examples": [0, "GPU-8932f937", "all"]});
    json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
});
