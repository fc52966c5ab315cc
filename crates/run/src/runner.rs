//! What runs need: the plan, the builds, the cells. How an interrupted session ended.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use camino::Utf8PathBuf;

use crate::conditions::Conditions;
use crate::estimate::TimeLeft;
use crate::finished::FinishedRuns;
use crate::home;
use crate::recording::Recording;
use memprof_build::attempts::Build;
use memprof_build::provenance::Executable;
use memprof_build::store::Entry;
use memprof_gpu::devices::CudaDevice;
use memprof_gpu::visible_devices;
use memprof_judge::results::outcome::RunRecord;
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::cells::PlannedCell;
use memprof_plan::resolved::{CellId, Plan};
use memprof_support::counted::counted;

/// How the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Every cell has its outcomes.
    Finished,
    /// The user stopped it; the outcomes so far are kept.
    Interrupted(Interrupted),
}

/// The user interrupted the command. All finished measurements are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("interrupted{}", after(*finished, *planned, *is_explaining))]
pub struct Interrupted {
    /// How many runs have an outcome, of this session or an earlier one.
    pub finished: usize,
    /// How many runs were planned so far; 0 before the tests are known.
    pub planned: usize,
    /// Whether a test was interrupted that had not run before; what it logged is in the report.
    pub is_cut_off: bool,
    /// Whether the comparison is complete, and tests ran once more with call stacks.
    pub is_explaining: bool,
}

impl Interrupted {
    /// An interrupt while tests ran with call stacks, after all others.
    pub fn of_call_stacks(runs: usize) -> Self {
        Self { finished: runs, planned: runs, is_cut_off: false, is_explaining: true }
    }
}

fn after(finished: usize, planned: usize, is_explaining: bool) -> String {
    match planned {
        _ if is_explaining => " after all runs, while tests ran once more with call stacks".to_owned(),
        0 => String::new(),
        planned => format!(" after {finished} of {}", counted(planned, "run")),
    }
}

/// Runs the cells of a plan.
#[derive(Clone)]
pub struct Runner<'a> {
    pub plan: &'a Plan,
    /// Where outcomes go.
    pub folder: &'a RunFolder,
    /// The build of each revision.
    pub builds: &'a [Build],
    /// The cells to run.
    pub cells: &'a [PlannedCell],
    /// What all runs have in common.
    pub conditions: &'a Conditions<'a>,
    /// How the processes record call stacks; `None` if they do not.
    pub(crate) recording: Option<Recording>,
}

impl<'a> Runner<'a> {
    /// A runner whose processes record no call stacks.
    pub(crate) fn new(
        plan: &'a Plan,
        folder: &'a RunFolder,
        builds: &'a [Build],
        cells: &'a [PlannedCell],
        conditions: &'a Conditions<'a>,
    ) -> Self {
        Self { plan, folder, builds, cells, conditions, recording: None }
    }
}

/// What is known of the runs so far.
pub(super) struct Progress<'a> {
    /// How many tests may run at once.
    pub(super) jobs: usize,
    /// How many runs have ended in this session, and how many there are as far as is known.
    pub(super) done: usize,
    pub(super) total: usize,
    pub(super) finished: FinishedRuns,
    pub(super) time_left: TimeLeft<'a>,
    /// The titles that tests of several targets have.
    pub(super) namesakes: HashSet<&'a str>,
    /// The first runs of cells that the user interrupted.
    pub(super) cut_off: Vec<RunRecord>,
    /// The cells that did not go well beside others. Their further runs are alone.
    pub(super) apart: HashSet<CellId>,
    /// How many runs of each executable there were beside others, and how many of them had several threads.
    pub(super) threaded: HashMap<Utf8PathBuf, [u32; 2]>,
    /// The cells whose figures would depend on others. All their runs are alone.
    pub(super) alone: HashSet<CellId>,
    /// Whether a warning said that a test changed files beside others.
    pub(super) has_warned_of_changes: bool,
}

/// A run that has no outcome yet.
#[derive(Clone, Copy)]
pub(super) struct Pending<'a> {
    pub(super) planned: &'a PlannedCell,
    pub(super) repeat: u32,
}

impl Runner<'_> {
    pub(super) fn run_folder(&self, planned: &PlannedCell, repeat: u32) -> Utf8PathBuf {
        self.folder.cell(self.plan, planned.revision, &planned.cell, repeat)
    }

    /// Returns the build and the executable of a cell.
    pub(crate) fn executable(&self, planned: &PlannedCell) -> anyhow::Result<(&Entry, &Executable)> {
        let entry = self.builds[planned.revision].entry().context("a cell without a build is not run")?;
        let executable = executable_of(entry, &planned.cell)
            .with_context(|| format!("the build has no test {}", planned.cell.test))?;
        Ok((entry, executable))
    }

    pub(super) fn devices_of(
        &self,
        planned: &PlannedCell,
        executable: &Executable,
    ) -> anyhow::Result<CellDevices> {
        if let Some(names) = &planned.devices {
            let places = self.conditions.devices.given(names)?;
            return Ok(CellDevices { given: Some(visible_devices::value(&places)), places });
        }
        let variable = |name: &str| {
            let set = planned.env.get(name).or_else(|| executable.environment.get(name));
            set.cloned().or_else(|| std::env::var(name).ok())
        };
        Ok(CellDevices { given: None, places: self.conditions.devices.visible(variable) })
    }

    /// Writes an outcome, in the place of whatever is there.
    pub(super) fn record(&self, record: &RunRecord) -> anyhow::Result<()> {
        let folder = self.folder.cell(self.plan, record.revision, &record.cell, record.repeat);
        home::record(&self.folder.0, &folder, record)
    }
}

/// The devices of a cell's runs.
pub(super) struct CellDevices {
    /// The value for `CUDA_VISIBLE_DEVICES`, if the user gave the cell devices.
    pub(super) given: Option<String>,
    /// The devices that its runs can see, either way.
    pub(super) places: Vec<CudaDevice>,
}

fn executable_of<'a>(entry: &'a Entry, cell: &CellId) -> Option<&'a Executable> {
    let test = &cell.test;
    entry.provenance.executables.iter().find(|executable| {
        executable.package == test.package
            && executable.binary == test.binary
            && executable.kind == test.kind
            && executable.is_program == cell.program.is_some()
    })
}
