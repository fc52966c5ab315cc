//! Why test files of one revision cannot be put into another one, in words.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use memprof_support::counted::counted;

/// Why a test file stays at one revision.
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) help: String,
    /// What is counted in one message with other files.
    pub(crate) shared: Option<SharedReason>,
}

/// A test file that is refused for a reason that many files have.
pub(crate) struct SharedReason {
    /// The index of the revision that has it.
    pub(crate) donor: usize,
    pub(crate) reason: Reason,
    /// The file, with what is known of it: `tests/a.rs`.
    pub(crate) file: String,
    /// The number of its tests.
    pub(crate) tests: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// It does not compile there.
    DoesNotBuild,
    /// The revision has a file of this name with other tests.
    OtherVersion,
    /// The revision has the same file, and other modules of it.
    OtherModules,
}

impl Reason {
    /// `HEAD~9 has other versions of 2 test files`.
    fn of(self, files: usize, revision: &str) -> String {
        let files = counted(files, "test file");
        match self {
            Self::DoesNotBuild => format!("{files} do not build in {revision}"),
            Self::OtherVersion => format!("{revision} has other versions of {files}"),
            Self::OtherModules => format!("{revision} has other modules of {files}"),
        }
    }
}

/// Merges the refusals of several files for one reason: one message for each donor. `shown` names a revision by its
/// index; the files are refused by `revision`.
pub(crate) fn merged(
    revision: usize,
    refusals: Vec<Refusal>,
    shown: impl Fn(usize) -> String,
) -> Vec<Refusal> {
    let mut alone = Vec::new();
    let mut groups: BTreeMap<(usize, Reason), Vec<(SharedReason, Refusal)>> = BTreeMap::new();
    for mut refusal in refusals {
        match refusal.shared.take() {
            Some(shared) => groups.entry((shared.donor, shared.reason)).or_default().push((shared, refusal)),
            None => alone.push(refusal),
        }
    }
    for ((donor, reason), mut files) in groups {
        files.sort_by_key(|(shared, _)| Reverse(shared.tests));
        let (count, tests) = (files.len(), files.iter().map(|(shared, _)| shared.tests).sum());
        let (most, mut refusal) = files.swap_remove(0);
        if count > 1 {
            refusal.message = format!(
                "{} are only in {}, because {}: {} and {} more",
                counted(tests, "test"),
                shown(donor),
                reason.of(count, &shown(revision)),
                most.file,
                count - 1,
            );
        }
        alone.push(refusal);
    }
    alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_one_reason_are_one_message_and_others_stay() {
        let refusal = |shared: Option<(Reason, &str, usize)>, message: &str| {
            let shared = shared.map(|(reason, file, tests)| SharedReason {
                donor: 1,
                reason,
                file: file.to_owned(),
                tests,
            });
            Refusal { message: message.to_owned(), help: String::new(), shared }
        };
        let built = |file, tests| refusal(Some((Reason::DoesNotBuild, file, tests)), file);
        let refusals = vec![
            built("tests/a.rs", 2),
            refusal(None, "no package"),
            built("tests/b.rs (error[E0599])", 16),
            refusal(Some((Reason::OtherVersion, "tests/c.rs", 1)), "tests/c.rs: 1 test"),
        ];
        let merged = merged(0, refusals, |index| ["main", "pr/7"][index].to_owned());
        let messages: Vec<_> = merged.into_iter().map(|refusal| refusal.message).collect();
        let built = "18 tests are only in pr/7, because 2 test files do not build in main: \
                     tests/b.rs (error[E0599]) and 1 more";
        assert_eq!(messages, ["no package", built, "tests/c.rs: 1 test"]);
    }
}
