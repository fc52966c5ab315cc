//! The documented exit codes. Only `main` exits.

/// What the process tells its caller. If several apply, [`ExitCode::worst`] picks one: 1 wins over
/// 3, and 3 over 4. A job that accepts inconclusive comparisons must not accept missing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// No regression.
    Success = 0,
    /// A regression beyond a threshold.
    Regression = 1,
    /// A mistake in the command line or the configuration.
    Usage = 2,
    /// A build or a test failed, or an executable could not be measured, so part of the comparison is missing.
    Incomplete = 3,
    /// Growth beyond the threshold cannot be ruled out.
    Inconclusive = 4,
    /// A bisection whose two ends do not differ.
    NothingFound = 5,
    /// A bug in this program.
    Internal = 101,
    /// Interrupted by Ctrl-C or a termination signal; what was measured is kept.
    Interrupted = 130,
}

impl ExitCode {
    /// Returns the code to exit with if both `self` and `other` apply.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        let rank = |code| match code {
            Self::Success => 0,
            Self::NothingFound => 1,
            Self::Inconclusive => 2,
            Self::Incomplete => 3,
            Self::Regression => 4,
            Self::Usage => 5,
            Self::Interrupted => 6,
            Self::Internal => 7,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::ExitCode::{Incomplete, Inconclusive, Regression, Success};

    #[test]
    fn a_regression_wins_over_a_failed_build_and_that_over_noise() {
        assert_eq!(Inconclusive.worst(Regression), Regression);
        assert_eq!(Regression.worst(Incomplete), Regression);
        assert_eq!(Incomplete.worst(Inconclusive), Incomplete);
        assert_eq!(Inconclusive.worst(Incomplete), Incomplete);
        assert_eq!(Success.worst(Incomplete), Incomplete);
    }
}
