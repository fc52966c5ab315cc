//! One run from its start to its record: the process, what it left in its folder, its outcome.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::classify::{self, Evidence};
use crate::executables::ProvenExecutables;
use crate::follow::{Follow, Follower};
use crate::home::RunHome;
use crate::log_end;
use crate::process_group::{self, Exit};
use crate::temporary_folder::TemporaryFolder;
use memprof_build::provenance::Executable;
use memprof_build::shim;
use memprof_build::store::Entry;
use memprof_judge::results::log_checksum::LogKey;
use memprof_judge::results::outcome::{self, Outcome, RunRecord};
use memprof_judge::results::run_folder::file;
use memprof_plan::cells::PlannedCell;
use memprof_support::event::Sink;
use memprof_support::process::Command;

/// A run whose files are in place.
pub(crate) struct OneRun<'a> {
    pub planned: &'a PlannedCell,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The revision's name.
    pub name: &'a str,
    /// The build.
    pub entry: &'a Entry,
    pub executable: &'a Executable,
    /// The executables of this session.
    pub executables: &'a Mutex<ProvenExecutables>,
    /// The folder, and the files for its output.
    pub home: (RunHome, File, File),
    /// Its folder for temporary files, which goes with it.
    pub temporary: Option<TemporaryFolder>,
    /// The key of its log.
    pub key: LogKey,
    pub command: Command,
    /// What to show of it.
    pub follow: Follow,
}

impl OneRun<'_> {
    /// Runs the process to its end, and returns the record. `stop` ends it early.
    pub(crate) fn perform(self, sink: &dyn Sink, stop: &AtomicBool) -> anyhow::Result<RunRecord> {
        let Self { planned, repeat, name, entry, executable, executables, .. } = self;
        let (home, stdout, stderr) = self.home;
        let limit = planned.timeout_seconds.map(Duration::from_secs);
        let kills_before = classify::kernel_kills();
        let mut follower = Follower::new(self.follow, &home.path, &planned.cell.title, name, sink);
        let process =
            process_group::run(&self.command, stdout, stderr, limit, stop, &mut || follower.look())?;
        drop(self.temporary);
        // The file is long, and few runs are killed.
        let killed_by_kernel =
            matches!(process.exit, Exit::Signalled(libc::SIGKILL)) && classify::kernel_kills() > kills_before;
        let uncut = log_end::cut(&home.path.join(file::LOG)).err();
        let of_log = || uncut.map(|error| format!("the test made its log unusable: {error}"));
        follower.finish();
        // First, because redaction puts other files in the places of the test's outputs.
        let of_executable =
            || executables.lock().unwrap_or_else(PoisonError::into_inner).harm(entry, executable);
        let harm = home.harm().or_else(of_log).or_else(of_executable);
        let shortened = home.shorten_outputs()?;
        home.redact_outputs()?;
        let evidence = Evidence {
            folder: &home.path,
            key: entry.provenance.key_in(executable),
            log_key: &self.key,
            has_checksum: entry.provenance.key_inputs.shim == shim::source_hash(),
            harm,
            harness: executable.harness,
            library: executable.library,
            test: &planned.cell.test.name,
            exit_code: planned.exit_code,
            limit_seconds: planned.timeout_seconds.unwrap_or_default(),
            killed_by_kernel,
        };
        let outcome = classify::outcome(&process, &evidence);
        Ok(RunRecord {
            build: Some(entry.provenance.key.clone()),
            marks: process.left.remark().into_iter().chain(shortened).collect(),
            files: classify::seals(&home.path),
            ..new_record(planned, repeat, outcome)
        })
    }
}

/// Returns the record of a run that has nothing but an outcome.
pub(crate) fn new_record(planned: &PlannedCell, repeat: u32, outcome: Outcome) -> RunRecord {
    RunRecord {
        version: outcome::VERSION,
        revision: planned.revision,
        cell: planned.cell.clone(),
        repeat,
        outcome,
        build: None,
        marks: Vec::new(),
        withdrawn: BTreeMap::new(),
        devices: None,
        files: BTreeMap::new(),
    }
}
