//! The runs that are finished, and what their files looked like then. A test may change the files
//! of another run.

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};

use memprof_judge::results::run_folder::file;
use memprof_support::stamp::Stamp;

/// The finished runs by folder.
#[derive(Default)]
pub(crate) struct FinishedRuns(HashMap<Utf8PathBuf, [Option<Stamp>; 4]>);

impl FinishedRuns {
    /// Adds a run whose outcome was written.
    pub fn add(&mut self, folder: &Utf8Path) {
        self.0.insert(folder.to_owned(), stamps(folder));
    }

    /// Forgets a run. Returns whether it was finished.
    pub fn remove(&mut self, folder: &Utf8Path) -> bool {
        self.0.remove(folder).is_some()
    }

    /// Whether a run is finished.
    pub fn has(&self, folder: &Utf8Path) -> bool {
        self.0.contains_key(folder)
    }

    /// Whether the run's files are as they were.
    pub fn is_unchanged(&self, folder: &Utf8Path) -> bool {
        self.0.get(folder).is_some_and(|then| *then == stamps(folder))
    }
}

fn stamps(folder: &Utf8Path) -> [Option<Stamp>; 4] {
    [file::OUTCOME, file::LOG, file::STDOUT, file::STDERR].map(|name| Stamp::read(folder.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_finished_runs_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let log = folder.join(file::LOG);
        fs_err::write(&log, "text").unwrap();
        let mut finished = FinishedRuns::default();
        assert!(!finished.has(folder) && !finished.is_unchanged(folder));
        finished.add(folder);
        assert!(finished.has(folder) && finished.is_unchanged(folder));
        // The clock of file times ticks every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs_err::write(&log, "next").unwrap();
        assert!(!finished.is_unchanged(folder));
    }
}
