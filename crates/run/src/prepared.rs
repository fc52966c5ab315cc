//! A comparison that is ready to run: its runs round after round, then the changed tests once more with
//! call stacks, and what surrounds all of them.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::attribution::{self, Attribution};
use crate::conditions::Conditions;
use crate::guards::{FilesOfRun, Guard, Unfinished};
use crate::left_out::LeftOut;
use crate::own_shard::OwnShard;
use crate::planned;
use crate::runner::{Completion, Runner};
use crate::spread::Spread;
use crate::stretch::DeviceGone;
use memprof_build::attempts::Build;
use memprof_build::test_tree::TestTree;
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::cells::PlannedCell;
use memprof_plan::resolved::Plan;
use memprof_support::exit_code::ExitCode;

/// The builds of a plan, the cells that follow from them, and the folders in which tests find their files.
pub struct Prepared<T> {
    /// Brings the folders to a revision.
    pub tree: T,
    /// The build of each revision.
    pub builds: Vec<Build>,
    /// The stored build of a baseline that was measured earlier, the last revision of the plan that runs. Its tests
    /// run only with call stacks.
    pub baseline: Option<Build>,
    /// The cells to run.
    pub cells: Vec<PlannedCell>,
    /// Which part of all tests these are, if they are a part.
    pub shard: Option<OwnShard>,
    /// The cells that do not run, because they cannot differ.
    pub left_out: LeftOut,
}

impl<T: TestTree> Prepared<T> {
    /// Whether every revision was built.
    pub fn is_built(&self) -> bool {
        self.builds.iter().all(|build| build.entry().is_some())
    }

    /// Runs every cell that has no outcome yet, and then the changed ones with call stacks. With a pool
    /// of devices, each test gets one of them. Returns the worst code of the guards.
    ///
    /// # Errors
    ///
    /// The user interrupted the runs, or one cannot be started or recorded.
    pub fn run(
        &mut self,
        plan: &Plan,
        folder: &RunFolder,
        conditions: &mut Conditions<'_>,
        attribution: &Attribution,
        mut guards: Vec<Box<dyn Guard + '_>>,
    ) -> anyhow::Result<ExitCode> {
        conditions.count_memory(&plan.request, &mut self.tree);
        let runner = Runner::new(plan, folder, &self.builds, &self.cells, conditions);
        guards.extend([
            Box::new(self.shard.take()) as Box<dyn Guard>,
            Box::new(FilesOfRun),
            Box::new(Unfinished),
        ]);
        for guard in &mut guards {
            guard.enter(&runner)?;
        }
        let mut spread = Spread::open(&runner)?;
        let completion = loop {
            let cells = spread.as_ref().map(Spread::assigned).transpose()?;
            let runner = Runner { cells: cells.as_deref().unwrap_or(&self.cells), ..runner.clone() };
            match (runner.rounds(&mut self.tree), &mut spread) {
                (Ok(Completion::Finished), _) => {
                    let (builds, cells) = with_baseline(&runner, self.baseline.as_ref());
                    let runner = Runner { builds: &builds, cells: &cells, ..runner };
                    break attribution::attribute(&runner, &mut self.tree, attribution);
                }
                (Err(error), Some(spread)) => spread.lose(error.downcast::<DeviceGone>()?)?,
                (ended, _) => break ended?,
            }
        };
        let mut code = ExitCode::Success;
        for guard in guards.iter_mut().rev() {
            code = code.worst(guard.leave(&runner, &completion)?);
        }
        match completion {
            Completion::Finished => Ok(code),
            Completion::Interrupted(interrupted) => Err(interrupted.into()),
        }
    }
}

/// Returns the builds and cells of a runner, with those of a baseline that was measured earlier.
fn with_baseline<'r>(
    runner: &Runner<'r>,
    baseline: Option<&Build>,
) -> (Cow<'r, [Build]>, Cow<'r, [PlannedCell]>) {
    let Some(baseline) = baseline else { return (runner.builds.into(), runner.cells.into()) };
    let builds: Vec<Build> = runner.builds.iter().chain([baseline]).cloned().collect();
    let planned = planned::planned(runner.plan, &builds).into_iter();
    // With a pool, both sides of a test have one device.
    let devices: HashMap<_, _> = runner.cells.iter().map(|cell| (&cell.cell, &cell.devices)).collect();
    let own = planned.filter(|cell| cell.revision == runner.plan.baseline).map(|cell| {
        let devices = devices.get(&cell.cell).map_or(&cell.devices, |devices| *devices).clone();
        PlannedCell { devices, ..cell }
    });
    let cells = runner.cells.iter().cloned().chain(own).collect();
    (builds.into(), cells)
}
