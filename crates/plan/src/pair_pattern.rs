//! `hf_*=fs_*`: which tests are compared with which, within one revision.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Two patterns of test names. Tests are a pair if the star stands for the same text in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PairPattern {
    /// The tests that are baselines.
    pub baseline: String,
    /// The tests that are candidates.
    pub candidate: String,
}

impl FromStr for PairPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "such as 'hf_*=fs_*'";
        let (baseline, candidate) =
            text.split_once('=').ok_or_else(|| format!("expected two patterns with `=`, {example}"))?;
        let (baseline, candidate) = (baseline.trim().to_owned(), candidate.trim().to_owned());
        let stars = |pattern: &str| pattern.matches('*').count();
        if baseline.is_empty() || candidate.is_empty() {
            return Err(format!("expected a pattern on both sides of `=`, {example}"));
        }
        if stars(&baseline) != stars(&candidate) || stars(&baseline) > 1 {
            return Err(format!("expected one `*` in each pattern, or none, {example}"));
        }
        if baseline == candidate {
            return Err(format!("expected two different patterns, {example}"));
        }
        Ok(Self { baseline, candidate })
    }
}

impl fmt::Display for PairPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.baseline, self.candidate)
    }
}

impl From<PairPattern> for String {
    fn from(pattern: PairPattern) -> Self {
        pattern.to_string()
    }
}

impl TryFrom<String> for PairPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_two_sides_with_a_star_each() {
        for (text, expected) in [
            ("hf_*", "with `=`"),
            ("hf_*=", "both sides"),
            ("hf_*=fs", "one `*` in each"),
            ("*_*=*.*", "one `*` in each"),
            ("a*=a*", "different"),
        ] {
            let error = text.parse::<PairPattern>().unwrap_err();
            assert!(error.contains(expected) && error.contains("'hf_*=fs_*'"), "{error}");
        }
    }
}
