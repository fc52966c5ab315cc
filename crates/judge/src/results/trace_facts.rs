//! Which functions a build traces, and why it does not trace others that were asked for.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The functions of one build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceFacts {
    /// The functions that match a pattern, in the order of files and lines.
    pub functions: Vec<TracedFunction>,
    /// Patterns that match no function.
    pub unmet: Vec<String>,
}

/// A function that matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedFunction {
    /// `bart::encoder::<Encoder as Module>::forward`
    pub path: String,
    /// The file, relative to the repository's root; `NAME-VERSION/…` for a registry's crate.
    #[schemars(with = "String")]
    pub file: Utf8PathBuf,
    /// The line of its name.
    pub line: usize,
    /// What distinguishes it from others of its path: conditions, the type of its `impl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
    /// Why it is not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untraced: Option<Untraced>,
    /// The text, if its lines are measured one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Excerpt>,
}

/// Why a function is not traced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Untraced {
    /// Cannot be traced.
    Impossible(String),
    /// Was traced, and did not compile.
    Dropped(String),
}

impl Untraced {
    /// Returns the reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Impossible(reason) | Self::Dropped(reason) => reason,
        }
    }
}

/// Lines of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// The number of the first line.
    pub first: usize,
    /// The text.
    pub text: String,
}

impl TracedFunction {
    /// Returns `FILE:LINE`, as in the log.
    pub fn at(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl TraceFacts {
    /// Whether nothing was to be traced.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number of traced functions.
    pub fn traced(&self) -> usize {
        self.functions.iter().filter(|function| function.untraced.is_none()).count()
    }

    /// Returns the functions whose edit was removed because it did not compile, with the reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&TracedFunction, &str)> {
        self.functions.iter().filter_map(|function| match &function.untraced {
            Some(Untraced::Dropped(reason)) => Some((function, reason.as_str())),
            _ => None,
        })
    }

    /// Returns the number of untraced functions by reason, the most frequent first.
    pub fn reasons(&self) -> Vec<(&str, usize)> {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for untraced in self.functions.iter().filter_map(|function| function.untraced.as_ref()) {
            *reasons.entry(untraced.reason()).or_default() += 1;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_dropped_edits_named() {
        let function = |path: &str, untraced: Option<Untraced>| TracedFunction {
            path: path.to_owned(),
            file: "a.rs".into(),
            line: 1,
            apart: None,
            untraced,
            text: None,
        };
        let facts = TraceFacts {
            functions: vec![
                function("a::b", None),
                function("a::c", Some(Untraced::Impossible("const".to_owned()))),
                function("a::d", Some(Untraced::Dropped("mismatched types".to_owned()))),
                function("a::e", Some(Untraced::Impossible("const".to_owned()))),
            ],
            unmet: Vec::new(),
        };
        assert_eq!(facts.traced(), 1);
        assert_eq!(facts.reasons(), [("const", 2), ("mismatched types", 1)]);
        assert_eq!(facts.dropped().map(|(function, _)| &*function.path).collect::<Vec<_>>(), ["a::d"]);
        assert!(!facts.is_empty());
    }
}
