//! How far a comparison got that has not finished, and how many runs a finished one has, for later reports.

use serde::{Deserialize, Serialize};

use crate::results::run_folder::RunFolder;
use crate::results::shard_record;
use memprof_support::regular_file;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// The content of `unfinished.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Unfinished {
    /// What happened: `interrupted after 2 of 12 runs`.
    what: String,
}

/// What is noted until a comparison ends: whatever kills it cannot note anything.
pub const UNTIL_THE_END: &str = "the run has not finished";

/// Notes that a comparison has not finished, and what happened.
pub fn note(folder: &RunFolder, what: &str) -> anyhow::Result<()> {
    sealed::write(&folder.unfinished(), &Unfinished { what: what.to_owned() })
}

/// The content of `finished.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Finished {
    /// How many outcomes the comparison had.
    outcomes: usize,
}

/// Notes that a comparison has finished, and how many outcomes it has.
pub fn finish(folder: &RunFolder) -> anyhow::Result<()> {
    sealed::write(&folder.finished(), &Finished { outcomes: shard_record::outcomes(folder)? })?;
    Ok(regular_file::remove(&folder.unfinished())?)
}

/// Checks that a comparison that has finished still has its outcomes. Those of earlier versions did not note how many
/// that are.
pub(crate) fn check(folder: &RunFolder, found: usize) -> anyhow::Result<()> {
    if !folder.finished().exists() {
        return Ok(());
    }
    let Finished { outcomes } = sealed::read(&folder.finished())?;
    if found >= outcomes {
        return Ok(());
    }
    Err(UserError::new(format!("{} has {found} of its {outcomes} runs: files are missing", folder.0))
        .help(format!("copy the whole folder again, or {}", measure_again(folder)))
        .into())
}

/// Returns how to measure again what a run's folder lacks.
pub fn measure_again(folder: &RunFolder) -> String {
    if folder.saved_baseline().exists() {
        return "save the baseline again with --save-baseline".to_owned();
    }
    if folder.search().exists() {
        return "continue the search with --resume and its folder".to_owned();
    }
    let command = if folder.origin().exists() {
        "cargo-memprof run --archive FILE --resume"
    } else {
        "cargo memprof --resume"
    };
    format!("measure what is missing: {command} {}", folder.0)
}

/// Returns the remark of a report about a comparison that has not finished.
pub(crate) fn remark(folder: &RunFolder) -> anyhow::Result<Option<String>> {
    if folder.unfinished().symlink_metadata().is_err() {
        return Ok(None);
    }
    let Unfinished { what } = sealed::read(&folder.unfinished())?;
    Ok(Some(format!("{what}: `--resume` continues")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_that_has_not_finished_says_how_far_it_got() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = RunFolder(camino::Utf8PathBuf::from_path_buf(scratch.path().to_owned()).unwrap());
        assert_eq!(remark(&folder).unwrap(), None);
        note(&folder, UNTIL_THE_END).unwrap();
        note(&folder, "interrupted after 2 of 12 runs").unwrap();
        let expected = "interrupted after 2 of 12 runs: `--resume` continues";
        assert_eq!(remark(&folder).unwrap().as_deref(), Some(expected));
        finish(&folder).unwrap();
        finish(&folder).unwrap();
        assert_eq!(remark(&folder).unwrap(), None);
    }

    #[test]
    fn a_copy_that_lacks_runs_is_no_whole_comparison() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = RunFolder(camino::Utf8PathBuf::from_path_buf(scratch.path().to_owned()).unwrap());
        check(&folder, 0).unwrap();
        let run = folder.cells().join("0-main/one/0");
        fs_err::create_dir_all(&run).unwrap();
        fs_err::write(run.join("outcome.json"), "").unwrap();
        finish(&folder).unwrap();
        check(&folder, 1).unwrap();
        let error = check(&folder, 0).unwrap_err().to_string();
        assert!(error.ends_with(" has 0 of its 1 runs: files are missing"), "{error}");
    }
}
