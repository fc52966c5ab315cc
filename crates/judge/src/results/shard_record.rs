//! `shard.json` in the folder of a run that is one of several shards.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::results::run_folder::{RunFolder, file};
use memprof_plan::shard::Shard;
use memprof_plan::sharding::AllTests;
use memprof_support::durable::sync_tree;
use memprof_support::sealed;

/// The version of `shard.json`'s format.
pub const VERSION: u32 = 1;

/// Which shard a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// Which shard.
    pub shard: Shard,
    /// The tests of all shards.
    pub all: AllTests,
    /// How many outcomes the shard had when all its runs had ended. `None` before.
    pub outcomes: Option<usize>,
}

impl ShardRecord {
    /// Returns the record of a run; `None` if it is no shard.
    ///
    /// # Errors
    ///
    /// The file is damaged, or of a newer version.
    pub fn read(folder: &RunFolder) -> anyhow::Result<Option<Self>> {
        let path = folder.shard();
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(sealed::read_format(&path, VERSION)?))
    }

    /// Notes in the run's folder which shard it is.
    pub fn write(folder: &RunFolder, shard: Shard, all: &AllTests, is_finished: bool) -> anyhow::Result<()> {
        let outcomes = if is_finished { Some(outcomes(folder)?) } else { None };
        if is_finished {
            // Logs and outputs are not synced while tests run.
            sync_tree(folder.0.as_std_path()).with_context(|| format!("cannot sync {}", folder.0))?;
        }
        sealed::write(&folder.shard(), &Self { version: VERSION, shard, all: all.clone(), outcomes })
    }
}

/// Counts the outcomes in a run's folder.
pub fn outcomes(folder: &RunFolder) -> anyhow::Result<usize> {
    if !folder.cells().exists() {
        return Ok(0);
    }
    let mut count = 0;
    for entry in walkdir::WalkDir::new(folder.cells()) {
        let entry = entry?;
        count += usize::from(entry.file_name() == file::OUTCOME && entry.file_type().is_file());
    }
    Ok(count)
}
