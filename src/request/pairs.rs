//! Whether the pairs of a request can be compared.

use crate::arguments::request::RequestArguments;
use crate::request::judging::refuse_unchecked;
use memprof_plan::cells::PlannedCell;
use memprof_plan::config::yaml::{List, Scalar};
use memprof_plan::pair_pattern::PairPattern;
use memprof_plan::resolved::{CellId, Plan};
use memprof_plan::test_pairs::Pairs;
use memprof_run::guards::Guard;
use memprof_run::runner::Runner;
use memprof_support::user_error::UserError;

/// Returns the first `--pair` of the command line.
fn first(arguments: &RequestArguments) -> Option<&PairPattern> {
    let List(pairs) = arguments.settings.pairs.as_ref()?;
    pairs.first().map(|Scalar(pair)| &pair.value)
}

/// Refuses `--pair` with several revisions. The pairs of memprof.yaml are for a single revision, and
/// do not count in a comparison of revisions.
pub fn check(arguments: &RequestArguments, plan: &mut Plan) -> Result<(), UserError> {
    match (plan.revisions.len(), first(arguments)) {
        (1, _) => Ok(()),
        (_, None) => {
            plan.request.settings.pairs.clear();
            Ok(())
        }
        (revisions, Some(pair)) => {
            let name = &plan.revisions[revisions - 1].spec;
            Err(UserError::new(format!(
                "--pair compares tests within one revision, and there are {revisions}"
            ))
            .help(format!("name one: cargo memprof {name} --pair '{pair}'")))
        }
    }
}

/// Checks before the first run that the tests are pairs, if pairs are asked for.
pub struct PairsOfTests<'a>(pub &'a RequestArguments);

impl Guard for PairsOfTests<'_> {
    fn enter(&mut self, runner: &Runner<'_>) -> anyhow::Result<()> {
        Ok(check_tests(self.0, runner.plan, runner.cells)?)
    }
}

/// Refuses `--pair` if no two tests are a pair. Without a pair, the patterns of memprof.yaml change
/// nothing: the revision is shown alone, and `--threshold` has nothing to compare.
fn check_tests(arguments: &RequestArguments, plan: &Plan, cells: &[PlannedCell]) -> Result<(), UserError> {
    let ids: Vec<&CellId> = cells.iter().map(|planned| &planned.cell).collect();
    if plan.request.settings.pairs.is_empty()
        || !Pairs::find(&plan.request.settings.pairs, &ids).pairs.is_empty()
    {
        return Ok(());
    }
    let Some(pair) = first(arguments) else {
        return refuse_unchecked(&arguments.judging, plan.revisions.len());
    };
    let name = &plan.revisions[0].spec;
    Err(UserError::new(format!("no two of the tests are a pair by --pair '{pair}'")).help(format!(
        "the star must stand for the same text in both names\nto see the names: cargo memprof list {name}"
    )))
}
