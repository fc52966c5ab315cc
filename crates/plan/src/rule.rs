//! The rules for verdicts: how much metrics may grow, how large they may be, how much memory a test
//! may leave behind, and which changes are expected.

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::quantity::Limit;
use crate::quantity::Threshold;
use crate::target_kind::TargetKind;

/// The rules for verdicts, in addition to the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judging {
    /// Later rules win over earlier ones, in what they say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Changes that are expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowance>,
    /// How large each metric may be at each checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The metrics that the user asked to see. `*` stands for any part of a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// How much figures are known to vary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<NoiseFigure>,
}

/// A rule about a metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Which metrics. `*` stands for any part of a name.
    pub metric: String,
    /// Which tests, as a `-k` expression. All if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Which checkpoints, as a pattern of labels with `*`. All if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// How much the metric may grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// How large the metric may be, in its own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much larger the metric may be at `done` than at `start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leak: Option<u64>,
    /// Whether it is from the command line, without `*` in its metric. At least one test must have a figure for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_check: bool,
}

/// How much a metric may grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// Growth is not judged.
    Off,
    /// Growth by more than this is a regression. If both parts are given, both must be exceeded.
    Within(Threshold),
}

/// A change that is expected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// Which metrics, as in a rule. All if absent.
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
    /// The most growth that is expected. Any growth if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The last day on which the entry holds, `2026-12-31`. No end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// How far apart the figures of one metric at one checkpoint were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseFigure {
    /// `package::binary::test`.
    pub test: String,
    /// The target's kind. Older files state it only if targets of several kinds have the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TargetKind>,
    /// The cell's title, which has the parameters.
    pub title: String,
    pub metric: String,
    /// The source of the figures. Another source has other noise.
    pub source: Option<String>,
    /// The checkpoint's label.
    pub checkpoint: String,
    /// 1-based occurrence of this label.
    pub occurrence: u32,
    /// Whether it is a scope.
    pub scope: bool,
    /// The greatest figure minus the least.
    pub spread: u64,
    /// The largest difference between the two runs of a round, which got the same random numbers. Older files lack it,
    /// and so do runs with numbers of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_rounds: Option<u64>,
    /// The greatest figure.
    pub most: i64,
    /// The number of runs.
    pub runs: usize,
}

impl NoiseFigure {
    /// How far the two runs of a round may be apart. Any two runs are at most `spread` apart.
    pub fn of_rounds(&self) -> u64 {
        self.within_rounds.unwrap_or(self.spread)
    }
}
