//! What is judged, as data: by how much metrics may grow, how large they may be, what a test may leave behind, and which
//! changes are expected.

use serde::{Deserialize, Serialize};

use crate::plan::quantity::Limit;
use crate::plan::quantity::Threshold;

/// How verdicts are given, beside the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judging {
    /// Later rules win over earlier ones, each in what it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Changes that are expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowance>,
    /// What is known of how figures vary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<NoiseFigure>,
}

/// Something about a metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Which metrics; `*` stands for any part of a name.
    pub metric: String,
    /// Which tests, as a `-k` expression; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Which checkpoints, by their label with `*`; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// By how much it may grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// How large it may be, in its own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// By how much it may be larger at `done` than at `start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leak: Option<u64>,
}

/// By how much a metric may grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// It is not judged.
    Off,
    /// By this; where both parts are given, both must be exceeded.
    Within(Threshold),
}

/// A change that is expected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// Which metrics, as in a rule; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Which tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Which checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Why.
    pub reason: String,
    /// Up to which growth; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Through which day, `2026-12-31`; without an end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// How far the figures of one metric at one checkpoint lay apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseFigure {
    /// `package::binary::test`.
    pub test: String,
    /// The cell's title, which has the parameters.
    pub title: String,
    /// The metric.
    pub metric: String,
    /// Where the figures came from; another source has other noise.
    pub source: Option<String>,
    /// The checkpoint's label.
    pub checkpoint: String,
    /// The how-manieth of this label.
    pub occurrence: u32,
    /// Whether it is a scope.
    pub scope: bool,
    /// The greatest figure minus the least.
    pub spread: u64,
    /// The greatest figure.
    pub most: i64,
    /// Of how many runs.
    pub runs: usize,
}
