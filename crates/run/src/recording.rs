//! How a test process records call stacks, and the variables that tell it.

use std::collections::BTreeMap;

use camino::Utf8Path;

use memprof_judge::results::run_folder::file;
use memprof_judge::symbols::kept_table;
use memprof_judge::why::difference::CheckpointName;

/// How a process records call stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Where it keeps the site of a block.
    pub blocks: Blocks,
    /// One allocation of so many bytes is recorded on average.
    pub sample: Option<u64>,
    /// Whether the call stacks of each thread are apart.
    pub threads: bool,
    /// The moment at which it writes who points to which block.
    pub(crate) moment: Option<Moment>,
}

/// A moment of a run: the peak, or a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The number of allocations and deallocations until the peak, and its bytes.
    pub(crate) peak: Option<(u64, i64)>,
    /// The checkpoint; behind the peak, if there is one.
    pub(crate) checkpoint: CheckpointName,
}

/// Where a process keeps the site of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// In 16 bytes before it.
    Headers,
    /// In a table: slower, but a program may free the block by any means.
    Table,
}

impl Recording {
    /// Returns the variables that make a process record, for this executable. `folder` is the run's own.
    pub fn variables(&self, executable: &Utf8Path, folder: &Utf8Path) -> BTreeMap<&'static str, String> {
        let blocks = match self.blocks {
            Blocks::Headers => "headers",
            Blocks::Table => "table",
        };
        let mut variables = BTreeMap::from([("MEMPROF_STACKS", blocks.to_owned())]);
        let table = kept_table::beside(executable);
        // Without a table, as on a full or read-only disk, the log says that there is none, and the
        // unwinder walks: slower, with the same result.
        if matches!(kept_table::keep(executable, &table), Ok(Ok(()))) {
            variables.insert("MEMPROF_UNWIND_TABLE", table.into_string());
        }
        if let Some(sample) = self.sample {
            variables.insert("MEMPROF_STACKS_SAMPLE", sample.to_string());
        }
        if self.threads {
            variables.insert("MEMPROF_STACKS_THREADS", "1".to_owned());
        }
        if let Some(Moment { peak, checkpoint: CheckpointName { label, occurrence } }) = &self.moment {
            let peak = peak.map_or_else(|| "- -".to_owned(), |(event, bytes)| format!("{event} {bytes}"));
            variables.insert("MEMPROF_OWNERS", folder.join(file::HEAP).into_string());
            variables.insert("MEMPROF_OWNERS_AT", format!("{peak} {occurrence} {label}"));
        }
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_unwind_table_a_process_records_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let gone = Utf8Path::from_path(folder.path()).unwrap().join("gone");
        let recording = Recording { blocks: Blocks::Table, sample: Some(4096), threads: false, moment: None };
        let expected = [("MEMPROF_STACKS", "table".to_owned()), ("MEMPROF_STACKS_SAMPLE", "4096".to_owned())];
        assert_eq!(recording.variables(&gone, &gone), expected.into());
    }
}
