//! The devices that tests are spread over: `devices: all`, or a list.

use schemars::json_schema;

use crate::config::mistake::Mistake;
use crate::config::yaml::{FromText, inline_schema, one_or_list};
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

/// Checks that these names can go together.
fn check_names(names: &[String]) -> Result<(), String> {
    visible_devices::check_names(names)?;
    if names.len() > 1 && names.iter().any(|name| name == ALL) {
        return Err(format!("`{ALL}` cannot be combined with a device"));
    }
    Ok(())
}

impl<'de> serde::Deserialize<'de> for PoolNames {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        one_or_list(deserializer, |PoolDevice(name)| name, check_names).map(Self)
    }
}

inline_schema!(PoolNames, |_generator| {
    let one = json_schema!({"type": ["string", "integer"], "examples": [0, "GPU-8932f937", "all"]});
    json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
});
