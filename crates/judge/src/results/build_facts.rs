//! The facts about builds in `builds.json`, and which of them two builds must share to count as the same.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::results::added_test::AddedTest;
use crate::results::run_folder::RunFolder;
use crate::results::same_code::SameCode;
use memprof_plan::listing::NotMeasured;
use memprof_support::regular_file;
use memprof_support::sealed;
use memprof_support::user_error::UserError;
use memprof_support::whole_file::write_whole;

/// A fact that decides a build. Its name is a key of `builds.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The hash of everything that decides the build.
    Key,
    Commit,
    /// The hash of the sources that were built.
    Sources,
    Toolchain,
    Profile,
    Target,
    Features,
    /// The hash of the lock file.
    Lock,
    /// The packages of the lock file, a line each: `serde 1.0.228 crates.io`. Runs of earlier versions have no source.
    Packages,
    /// The hash of the shim's sources.
    Shim,
    /// The variables, a line each: `RUSTC 0123456789abcdef`.
    Environment,
    Configuration,
    /// The hash of what else cargo tracks: files outside of the repository, and variables. Builds with the same key may
    /// differ in it. Absent in runs of earlier versions.
    Outside,
    /// The overlay's files, a line each, like the variables.
    Overlay,
    /// `RUSTFLAGS`.
    Flags,
}

/// Why two builds are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A run continues with a build like that of its finished runs.
    Continue,
    /// A saved baseline is compared with new candidates, whose sources differ.
    Keep,
    /// Shards become one run. Machines have variables, configuration and folders of their own.
    Merge,
    /// A report names what differs, apart from sources and dependencies.
    Report,
}

use Purpose::{Continue, Keep, Merge, Report};

/// What must be equal for which purpose, in the order and with the words of messages.
const FACTS: [(Fact, &str, &[Purpose]); 14] = [
    (Fact::Toolchain, "the toolchain", &[Continue, Keep, Merge, Report]),
    (Fact::Profile, "the profile", &[Continue, Keep, Merge, Report]),
    (Fact::Features, "the features", &[Continue, Keep, Merge, Report]),
    (Fact::Lock, "the lock file", &[Continue, Merge, Report]),
    (Fact::Packages, "the versions of dependencies", &[Continue, Merge]),
    (Fact::Target, "the target", &[Continue, Keep, Merge, Report]),
    (Fact::Flags, "RUSTFLAGS", &[Continue, Keep, Merge, Report]),
    (Fact::Shim, "the version of cargo-memprof", &[Continue, Keep, Merge]),
    (Fact::Environment, "the build's variables", &[Continue, Keep]),
    (Fact::Configuration, "cargo's configuration", &[Continue, Keep]),
    (Fact::Overlay, "the overlay's files", &[Continue, Keep]),
    (Fact::Sources, "the sources", &[Continue, Merge]),
    (Fact::Outside, "files outside of the repository, or variables that the code reads", &[Continue]),
    (Fact::Commit, "the commit", &[Merge]),
];

impl Fact {
    /// The fact's key in `builds.json`.
    pub(crate) fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
    }
}

/// The facts about one build, as text. Empty if it failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BuildFacts(BTreeMap<Fact, String>);

impl FromIterator<(Fact, String)> for BuildFacts {
    fn from_iter<I: IntoIterator<Item = (Fact, String)>>(facts: I) -> Self {
        Self(facts.into_iter().collect())
    }
}

impl BuildFacts {
    /// Returns a fact; `None` if the build has none of it.
    pub fn get(&self, fact: Fact) -> Option<&str> {
        self.0.get(&fact).map(String::as_str)
    }

    /// Replaces a fact.
    pub fn set(&mut self, fact: Fact, text: String) {
        self.0.insert(fact, text);
    }

    /// Returns what differs from another build of what must be equal, with its name in messages.
    pub fn differing(&self, other: &Self, purpose: Purpose) -> impl Iterator<Item = (Fact, &'static str)> {
        let differs = move |fact: Fact| self.get(fact) != other.get(fact);
        FACTS
            .into_iter()
            .filter(move |(fact, _, purposes)| purposes.contains(&purpose) && differs(*fact))
            .map(|(fact, words, _)| (fact, words))
    }
}

/// Why a revision did not build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureFacts {
    /// The first errors of the compiler or of cargo.
    pub build_failed: String,
    /// Which lock file the build used, if the revision has committed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockfile: Option<String>,
}

/// What `builds.json` says of one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct StoredBuild {
    #[serde(flatten)]
    pub facts: BuildFacts,
    #[serde(flatten)]
    pub failure: Option<FailureFacts>,
    /// The executables that cannot be measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<NotMeasured>,
    /// The test files of other revisions that were put into this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added_tests: Vec<AddedTest>,
    /// Notes for the report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The tests that did not run because their code is the same at all revisions. The baseline's build has
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_code: Vec<SameCode>,
}

impl TryFrom<Value> for StoredBuild {
    type Error = serde_json::Error;

    fn try_from(stored: Value) -> Result<Self, Self::Error> {
        /// The lists.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Lists {
            not_measured: Vec<NotMeasured>,
            added_tests: Vec<AddedTest>,
            notes: Vec<String>,
            same_code: Vec<SameCode>,
        }
        // Earlier versions wrote a text.
        if let Some(errors) = stored.as_str().and_then(|text| text.strip_prefix("build failed: ")) {
            let failure = FailureFacts { build_failed: errors.to_owned(), lockfile: None };
            return Ok(Self { failure: Some(failure), ..Self::default() });
        }
        let fact = |(name, fact): (&String, &Value)| {
            let name = Fact::deserialize(Value::from(name.as_str())).ok()?;
            let text = match fact {
                Value::Null => return None,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Some((name, text))
        };
        let facts = stored.as_object().into_iter().flatten().filter_map(fact).collect();
        let failure = FailureFacts::deserialize(&stored).ok();
        let Lists { not_measured, added_tests, notes, same_code } = Lists::deserialize(stored)?;
        Ok(Self { facts, failure, not_measured, added_tests, notes, same_code })
    }
}

/// Reads `builds.json`: what is known of each revision's build, by its index in the plan. Empty if there
/// is no such file.
///
/// # Errors
/// The file is not as it was written.
pub fn read(folder: &RunFolder) -> anyhow::Result<BTreeMap<usize, StoredBuild>> {
    let path = folder.builds();
    let text = match regular_file::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
    };
    sealed::unsealed(&text).or_else(|damage| {
        // Before files had a hash, all their keys were revisions.
        serde_json::from_slice(&text).map_err(|_| damaged(folder, &damage).into())
    })
}

/// Writes `builds.json`.
pub fn write(folder: &RunFolder, builds: &BTreeMap<usize, StoredBuild>) -> anyhow::Result<()> {
    write_whole(&folder.builds(), &sealed::sealed(builds)?)
}

fn damaged(folder: &RunFolder, damage: &sealed::Damage) -> UserError {
    let user_error = UserError::new(format!("{} is damaged: {damage}", folder.builds()));
    match folder.0.file_name().filter(|_| !folder.search().exists()) {
        Some(id) => user_error.help(format!("write it again: cargo memprof run --resume {id}")),
        None => user_error.help("start the search again, without --resume"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn build(facts: &[(Fact, &str)]) -> BuildFacts {
        facts.iter().map(|(fact, text)| (*fact, (*text).to_owned())).collect()
    }

    #[test]
    fn what_must_be_equal_depends_on_the_purpose() {
        let old = build(&[(Fact::Toolchain, "1.95.0"), (Fact::Sources, "a"), (Fact::Overlay, "/a")]);
        let new = build(&[(Fact::Toolchain, "1.95.0"), (Fact::Sources, "b"), (Fact::Overlay, "/b")]);
        let differing = |purpose| old.differing(&new, purpose).map(|(fact, _)| fact).collect::<Vec<_>>();
        assert_eq!(differing(Purpose::Continue), [Fact::Overlay, Fact::Sources]);
        assert_eq!(differing(Purpose::Keep), [Fact::Overlay]);
        assert_eq!(differing(Purpose::Merge), [Fact::Sources]);
        assert_eq!(differing(Purpose::Report), []);
    }

    #[test]
    fn entries_of_earlier_versions_are_read_and_other_keys_left_out() {
        let stored = json!({
            "key": "k", "lock": null, "features": "simd", "jobs": 8, "notes": ["a note"],
            "not_measured": [{ "package": "p", "binary": "b", "kind": "test", "reason": "no harness" }],
        });
        let read: StoredBuild = serde_json::from_value(stored).unwrap();
        assert_eq!(read.facts, build(&[(Fact::Key, "k"), (Fact::Features, "simd")]));
        assert_eq!((read.notes.len(), read.not_measured.len(), &read.failure), (1, 1, &None));
        assert_eq!(serde_json::from_value::<StoredBuild>(json!(read)).unwrap(), read);
        for failed in [json!("build failed: E0425"), json!({ "build_failed": "E0425", "notes": ["a"] })] {
            let read: StoredBuild = serde_json::from_value(failed).unwrap();
            assert_eq!(read.failure.as_ref().unwrap().build_failed, "E0425");
            assert_eq!(serde_json::from_value::<StoredBuild>(json!(read)).unwrap(), read);
        }
        assert!(serde_json::from_value::<StoredBuild>(json!({ "notes": 3 })).is_err());
    }
}
