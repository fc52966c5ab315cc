//! How large a plan may be: its cells, its runs, and the variables that it holds in memory.

use std::fmt::Display;

use crate::repeat::Repeat;
use memprof_support::counted::grouped;
use memprof_support::user_error::UserError;

/// The most cells of a plan. More than this are a mistake in `params`.
pub(crate) const MOST_CELLS: usize = 100_000;

/// The most runs of a plan. With one run a second, they take eleven days.
const MOST_RUNS: u64 = 1_000_000;

/// The most variables in the environments of all cells together. They take some hundred megabytes.
const MOST_VARIABLES: usize = 2_000_000;

/// The size of a plan so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlanSize {
    cells: usize,
    runs: u64,
    variables: usize,
}

impl PlanSize {
    /// Adds a cell at one revision, with this many variables in its environment.
    pub fn add(&mut self, repeat: Repeat, variables: usize) {
        self.cells += 1;
        self.variables += variables;
        self.runs += match repeat {
            Repeat::Auto => 1,
            Repeat::Times(times) => u64::from(times),
        };
    }

    /// Refuses a plan that would fill the memory, or never end. `entry` is the entry of `tests`
    /// that made it too large.
    pub fn check(&self, entry: &dyn Display) -> Result<(), UserError> {
        let too_many = |most: u64, what: &str, help: &str| {
            let fewer = "select fewer tests, or give the parameters fewer values";
            Err(UserError::new(format!("{entry}: more than {} {what}", grouped(i128::from(most))))
                .help(format!("{fewer}{help}")))
        };
        if self.cells > MOST_CELLS {
            too_many(MOST_CELLS as u64, "cells", "")
        } else if self.runs > MOST_RUNS {
            too_many(MOST_RUNS, "runs", ", or repeat them less often: --repeat auto")
        } else if self.variables > MOST_VARIABLES {
            let what = "environment variables in all cells together";
            too_many(MOST_VARIABLES as u64, what, ", or set fewer variables in `env`")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(cells: usize, repeat: Repeat, variables: usize) -> Result<(), String> {
        let mut size = PlanSize::default();
        (0..cells).for_each(|_| size.add(repeat, variables));
        size.check(&"tests[3]").map_err(|error| error.rendered())
    }

    #[test]
    fn a_plan_that_is_too_large_is_refused_with_the_limit() {
        assert_eq!(size(MOST_CELLS, Repeat::Auto, 20), Ok(()));
        let cells = size(MOST_CELLS + 1, Repeat::Auto, 0).unwrap_err();
        assert!(cells.starts_with("error: tests[3]: more than 100,000 cells"), "{cells}");
        let runs = size(1_001, Repeat::Times(1_000), 0).unwrap_err();
        assert!(runs.contains("more than 1,000,000 runs") && runs.contains("--repeat auto"), "{runs}");
        let variables = size(2_001, Repeat::Auto, 1_000).unwrap_err();
        assert!(variables.contains("more than 2,000,000 environment variables"), "{variables}");
    }
}
