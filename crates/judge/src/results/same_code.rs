//! The tests that did not run because they cannot differ between the revisions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use memprof_support::counted::{counted, grouped};

/// The tests of a package that did not run because their code is the same at all refs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SameCode {
    /// The package.
    pub package: String,
    /// The number of its tests that did not run.
    pub tests: usize,
}

impl SameCode {
    /// Returns the number of tests in all packages.
    pub fn tests(all: &[Self]) -> usize {
        all.iter().map(|one| one.tests).sum()
    }

    /// Returns `1,240 tests in 31 packages: same code`; `None` without such tests.
    pub fn words(all: &[Self]) -> Option<String> {
        Some(format!("{} {}", counted(Self::tests(all), "test"), Self::place(all)?))
    }

    /// Returns `1,240 in 31 packages: same code`, to go on after a number of other tests.
    pub fn short_words(all: &[Self]) -> Option<String> {
        Some(format!("{} {}", grouped(i128::try_from(Self::tests(all)).ok()?), Self::place(all)?))
    }

    fn place(all: &[Self]) -> Option<String> {
        let packages = match all {
            [] => return None,
            [only] => only.package.clone(),
            several => counted(several.len(), "package"),
        };
        Some(format!("in {packages}: same code"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_all_packages_are_one_line() {
        let of = |package: &str, tests| SameCode { package: package.to_owned(), tests };
        assert_eq!(SameCode::words(&[]), None);
        assert_eq!(SameCode::words(&[of("leaf", 1)]).unwrap(), "1 test in leaf: same code");
        let both = [of("leaf", 1200), of("app", 40)];
        assert_eq!(SameCode::words(&both).unwrap(), "1,240 tests in 2 packages: same code");
        assert_eq!(SameCode::short_words(&both).unwrap(), "1,240 in 2 packages: same code");
    }
}
