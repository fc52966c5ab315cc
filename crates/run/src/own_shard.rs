//! The shard that a run is: which cells are in it, and its record in the run's folder.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::guards::Guard;
use crate::runner::{Completion, Runner};
use memprof_judge::results::shard_record::ShardRecord;
use memprof_plan::cells::PlannedCell;
use memprof_plan::resolved::{CellId, Plan};
use memprof_plan::shard::Shard;
use memprof_plan::sharding::{self, AllTests};
use memprof_support::exit_code::ExitCode;

/// A run that is one of several shards.
pub struct OwnShard {
    shard: Shard,
    /// The tests of all shards.
    all: AllTests,
}

impl OwnShard {
    /// Keeps the cells of the plan's shard. `None` if the plan is of a whole run. `times` says how long
    /// the tests took before; all shards must agree on that.
    pub fn keep(
        plan: &Plan,
        cells: &mut Vec<PlannedCell>,
        times: &BTreeMap<CellId, Duration>,
    ) -> Option<Self> {
        let shard = plan.request.shard?;
        Some(Self { shard, all: sharding::keep(cells, shard, times) })
    }
}

impl Guard for OwnShard {
    fn enter(&mut self, runner: &Runner<'_>) -> anyhow::Result<()> {
        ShardRecord::write(runner.folder, self.shard, &self.all, false)
    }

    fn leave(&mut self, runner: &Runner<'_>, completion: &Completion) -> anyhow::Result<ExitCode> {
        if *completion == Completion::Finished {
            ShardRecord::write(runner.folder, self.shard, &self.all, true)?;
        }
        Ok(ExitCode::Success)
    }
}
