//! The names that tests of several kinds of target have, as those of src/lib.rs and src/main.rs in one package.

use std::collections::BTreeMap;

use memprof_plan::request::TargetKind;

/// The kinds by the names that a file has for tests, if there are several.
#[derive(Default)]
pub(crate) struct TestKinds(BTreeMap<String, Vec<TargetKind>>);

impl TestKinds {
    /// Takes the names of these tests, each with its kind.
    pub fn from_tests(tests: impl Iterator<Item = (String, TargetKind)>) -> Self {
        let mut kinds: BTreeMap<String, Vec<TargetKind>> = BTreeMap::new();
        for (test, kind) in tests {
            let known = kinds.entry(test).or_default();
            if !known.contains(&kind) {
                known.push(kind);
            }
        }
        kinds.retain(|_, kinds| kinds.len() > 1);
        Self(kinds)
    }

    /// Returns the kind that a file must state for a test, because its name alone fits several tests.
    pub fn stated(&self, test: &str, kind: TargetKind) -> Option<TargetKind> {
        self.0.contains_key(test).then_some(kind)
    }

    /// Whether an entry of a file is about a test. `stated` is the kind that the entry has.
    pub fn fits(&self, stated: Option<TargetKind>, test: &str, kind: TargetKind) -> bool {
        match stated {
            Some(stated) => stated == kind,
            None => !self.0.contains_key(test),
        }
    }

    /// Returns the kinds of the tests with this name, `lib and bin`, if there are several.
    pub fn listed(&self, test: &str) -> Option<String> {
        let names: Vec<&str> = self.0.get(test)?.iter().map(|kind| kind.as_str()).collect();
        let (last, others) = names.split_last()?;
        Some(format!("{} and {last}", others.join(", ")))
    }
}
