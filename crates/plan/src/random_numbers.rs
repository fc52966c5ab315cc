//! Which random numbers the processes of a test get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The random numbers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RandomNumbers {
    /// The same for all revisions in a round, and others in the next round.
    #[default]
    Same,
    /// The kernel's random numbers: others in every process.
    Own,
}

impl RandomNumbers {
    /// What plans mean that say nothing.
    pub(crate) fn of_earlier_plans() -> Self {
        Self::Own
    }

    /// Returns the seed for a cell in a round, as the shim takes it. Each round has its own. Otherwise a
    /// change that draws one number more, and so works on other input, would look like an exact
    /// change of memory, however often it is repeated. Each cell has its own, so that tests beside
    /// each other do not choose the same names for temporary files.
    pub fn seed(self, cell: &str, repeat: u32) -> Option<String> {
        let seed = || blake3::hash(format!("{repeat} {cell}").as_bytes()).to_hex()[..16].to_owned();
        (self == Self::Same).then(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_depends_on_cell_and_round_alone() {
        let seed = |cell: &str, repeat| RandomNumbers::Same.seed(cell, repeat).unwrap();
        assert_eq!(seed("a::b::c", 0), seed("a::b::c", 0));
        assert_ne!(seed("a::b::c", 0), seed("a::b::c", 1));
        assert_ne!(seed("a::b::c", 0), seed("a::b::d", 0));
        assert!(u64::from_str_radix(&seed("a", 0), 16).is_ok_and(|_| seed("a", 0).len() == 16));
        assert_eq!(RandomNumbers::Own.seed("a::b::c", 0), None);
    }
}
