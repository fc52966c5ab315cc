//! How much is done at once.

use clap::Args;

use memprof_plan::jobs::Jobs;

/// The most parallel build jobs. Cargo keeps a token for each in a pipe, and a pipe holds 65,536.
const MOST_JOBS: i64 = 10_000;

/// How much is done at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Run")]
pub struct JobsArguments {
    /// Run N tests at once, or one per processor [default: 1]; a number also limits cargo's build
    /// jobs
    ///
    /// Exact figures, such as heap.peak, do not depend on the tests beside them. Tests whose time or
    /// PSS is shown or judged, and tests that see the same GPU, do not run at the same time.
    #[arg(short, long, value_name = "N|auto")]
    pub jobs: Option<Jobs>,
    /// Number of parallel build jobs [default: that of --jobs, else cargo's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_JOBS))]
    pub build_jobs: Option<u32>,
}

impl JobsArguments {
    /// Returns the number of build jobs.
    pub fn of_build(&self) -> Option<u32> {
        self.build_jobs.or(match self.jobs {
            Some(Jobs::Number(number)) => Some(number),
            Some(Jobs::Auto) | None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_gets_the_number_unless_it_has_its_own() {
        let of_build = |jobs, build_jobs| JobsArguments { jobs, build_jobs }.of_build();
        assert_eq!(of_build(Some(Jobs::Number(3)), None), Some(3));
        assert_eq!(of_build(Some(Jobs::Number(3)), Some(2)), Some(2));
        assert_eq!(of_build(Some(Jobs::Auto), None), None);
        assert_eq!(of_build(None, None), None);
    }
}
