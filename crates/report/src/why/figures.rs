//! The figures of sites, for JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use memprof_judge::results::stack_log::Figures;

/// The figures of sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyFigures {
    /// Live bytes in the moment of the interval's peak.
    pub at_peak: i64,
    /// Live bytes at the checkpoint.
    pub live: i64,
    /// Bytes allocated since the last checkpoint.
    pub allocated: i64,
    /// Allocations since the last checkpoint.
    pub count: i64,
}

impl From<Figures> for WhyFigures {
    fn from(figures: Figures) -> Self {
        let Figures { at_peak, live, allocated, count } = figures;
        Self { at_peak, live, allocated, count }
    }
}
