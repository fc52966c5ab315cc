//! Cargo's kinds of target.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Cargo's kinds of target that can hold tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// Unit tests of a library (proc-macro ones too).
    Lib,
    /// Unit tests of a binary.
    Bin,
    /// Integration tests.
    Test,
    /// Examples.
    Example,
    /// Benches.
    Bench,
}

impl TargetKind {
    /// `lib`, `bin`, `test`, `example`, `bench`
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lib => "lib",
            Self::Bin => "bin",
            Self::Test => "test",
            Self::Example => "example",
            Self::Bench => "bench",
        }
    }
}
