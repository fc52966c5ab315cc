//! How far a comparison got that has not finished, for later reports.

use serde::{Deserialize, Serialize};

use crate::results::run_folder::RunFolder;
use memprof_support::regular_file;
use memprof_support::sealed;

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

/// Notes that a comparison has finished.
pub fn forget(folder: &RunFolder) -> std::io::Result<()> {
    regular_file::remove(&folder.unfinished())
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
        forget(&folder).unwrap();
        forget(&folder).unwrap();
        assert_eq!(remark(&folder).unwrap(), None);
    }
}
