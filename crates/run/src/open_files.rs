//! How many tests may run at once, by how many files this process may have open. Tests inherit that limit and
//! may depend on it, so it stays as it is.

use rustix::process::{Resource, getrlimit};

/// What else is open: executables, files that are put back, and what this process needs itself.
const BESIDE_TESTS: u64 = 700;
/// A test's folder, its two outputs, once more while it starts, and the pipe of its supervisor.
const OF_TEST: u64 = 6;
/// The outputs of a followed test, and what says when they were written to.
const OF_FOLLOWED: u64 = 4;

/// The limit of this process; `None` if there is none.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns how many tests may run at once with this limit, at least one.
pub(crate) fn most_tests(limit: Option<u64>, is_followed: bool) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let tests = limit.saturating_sub(BESIDE_TESTS) / of_test(is_followed);
    usize::try_from(tests).unwrap_or(usize::MAX).max(1)
}

/// Returns the limit with which so many tests may run at once.
pub(crate) fn needed(tests: u32, is_followed: bool) -> u64 {
    BESIDE_TESTS + u64::from(tests) * of_test(is_followed)
}

fn of_test(is_followed: bool) -> u64 {
    if is_followed { OF_TEST + OF_FOLLOWED } else { OF_TEST }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_tests_run_at_once_as_there_is_room_for_their_files() {
        assert_eq!([Some(1024), Some(256), None].map(|limit| most_tests(limit, false)), [54, 1, usize::MAX]);
        assert_eq!(most_tests(Some(1024), true), 32);
        for is_followed in [false, true] {
            assert_eq!(most_tests(Some(needed(256, is_followed)), is_followed), 256);
        }
    }
}
