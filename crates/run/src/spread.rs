//! Runs tests on the devices of a pool (`--devices`), each test on one of them. The assignment is
//! kept in the run's folder. Tests of a device that is lost or taken move to the others, and are
//! measured again there.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};

use crate::runner::Runner;
use crate::stretch::DeviceGone;
use memprof_gpu::devices::CudaDevice;
use memprof_gpu::spreading::assign;
use memprof_judge::results::run_folder::file;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::resolved::CellId;
use memprof_support::counted::counted;
use memprof_support::event::Event;
use memprof_support::regular_file;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// `devices.json` in the run's folder: which device each test runs on.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Assignment {
    /// Each test with the device's UUID.
    tests: Vec<(CellId, String)>,
}

/// The devices of a pool, and which test runs on which.
pub(crate) struct Spread<'s, 'r> {
    runner: &'s Runner<'r>,
    pool: Vec<CudaDevice>,
    /// The devices of the pool that tests may use.
    usable: Vec<CudaDevice>,
    /// Why the others may not, by UUID.
    lost: BTreeMap<String, String>,
    /// The devices that a warning named.
    told: RefCell<BTreeSet<String>>,
}

impl<'s, 'r> Spread<'s, 'r> {
    /// Opens the pool of a request, if it has one. Leaves out the devices that others use, if any is
    /// free. If another run has locked all of them, the runs wait for it as without a pool.
    pub fn open(runner: &'s Runner<'r>) -> anyhow::Result<Option<Self>> {
        let Some(names) = &runner.plan.request.settings.device_pool else { return Ok(None) };
        let pool = runner.conditions.devices.pool(names)?;
        let locked: Vec<Option<String>> =
            pool.iter().map(|one| runner.conditions.devices.holder(one)).collect();
        let all_locked = locked.iter().all(Option::is_some);
        let mut spread = Self {
            runner,
            usable: pool.clone(),
            pool: pool.clone(),
            lost: BTreeMap::new(),
            told: RefCell::default(),
        };
        for (device, holder) in pool.iter().zip(locked) {
            let by_run =
                holder.filter(|_| !all_locked).map(|holder| format!("used by another run: {holder}"));
            if let Some(reason) = by_run.or_else(|| runner.conditions.devices.trouble(device)) {
                spread.leave_out(device, reason);
            }
        }
        Ok(Some(spread))
    }

    fn leave_out(&mut self, device: &CudaDevice, reason: String) {
        self.usable.retain(|one| one != device);
        self.lost.insert(device.uuid.clone(), reason);
    }

    /// Leaves out a device on which a run could not begin.
    pub fn lose(&mut self, gone: DeviceGone) -> Result<(), DeviceGone> {
        // A test with a device of its own cannot move.
        if !self.usable.contains(&gone.device) {
            return Err(gone);
        }
        self.leave_out(&gone.device, gone.reason.clone());
        Ok(())
    }

    /// Returns the cells with their devices, and keeps the assignment. Tests whose device cannot be
    /// used, and that have a run left, move to another device.
    pub fn assigned(&self) -> anyhow::Result<Vec<PlannedCell>> {
        let path = self.runner.folder.devices();
        let kept: Assignment = if path.exists() { sealed::read(&path)? } else { Assignment::default() };
        let kept: BTreeMap<CellId, String> = kept.tests.into_iter().collect();
        let open = self.runner.open_cells()?;
        let of_runs = self.runner.cells.iter().filter(|planned| is_spread(planned));
        let mut tests: Vec<(CellId, Option<Duration>)> = Vec::new();
        let mut seen = HashSet::new();
        for planned in of_runs {
            // A test without a run left stays where its figures come from.
            let is_left = open.contains(&planned.cell) || !kept.contains_key(&planned.cell);
            if is_left && seen.insert(&planned.cell) {
                tests.push((planned.cell.clone(), self.runner.conditions.past.of_cell(&planned.cell)));
            }
        }
        if self.usable.is_empty() && !tests.is_empty() {
            return Err(self.none_left().into());
        }
        let assigned = assign(&tests, &self.usable, &kept);
        self.move_tests(&kept, &assigned)?;
        let mut all = kept;
        all.extend(assigned);
        sealed::write(&path, &Assignment { tests: all.clone().into_iter().collect() })?;
        let with_device = |planned: &PlannedCell| {
            let device = all.get(&planned.cell).filter(|_| is_spread(planned));
            let devices = device.map(|uuid| vec![uuid.clone()]).or_else(|| planned.devices.clone());
            PlannedCell { devices, ..planned.clone() }
        };
        Ok(self.runner.cells.iter().map(with_device).collect())
    }

    fn none_left(&self) -> UserError {
        let reason = |device: &CudaDevice| {
            let reason = self.lost.get(&device.uuid).map_or("not usable", String::as_str);
            format!("{device}: {reason}")
        };
        let reasons: Vec<String> = self.pool.iter().map(reason).collect();
        let id = &self.runner.plan.id;
        UserError::new(format!("no device of --devices is left ({})", reasons.join("; ")))
            .help(format!("finished runs are kept; once a device is free: cargo memprof --resume {id}"))
    }

    /// Says which tests move, and forgets their runs: figures of two devices are not compared.
    fn move_tests(
        &self,
        kept: &BTreeMap<CellId, String>,
        assigned: &BTreeMap<CellId, String>,
    ) -> anyhow::Result<()> {
        let name = |uuid: &str| self.runner.conditions.devices.name(uuid);
        let mut moves: BTreeMap<(&String, &String), (usize, usize)> = BTreeMap::new();
        for (cell, device) in assigned {
            let Some(before) = kept.get(cell).filter(|before| *before != device) else { continue };
            let (tests, runs) = moves.entry((before, device)).or_default();
            *tests += 1;
            *runs += self.forget(cell)?;
        }
        for ((from, to), (tests, runs)) in &moves {
            self.told.borrow_mut().insert((*from).clone());
            let reason = self.lost.get(*from).map_or("it is not in --devices", String::as_str);
            let message =
                format!("{} moved from {} to {}: {reason}", counted(*tests, "test"), name(from), name(to));
            let again = format!(
                "{} {} repeated: figures of two devices are not compared",
                counted(*runs, "finished run"),
                if *runs == 1 { "is" } else { "are" }
            );
            let help = (*runs > 0).then_some(again);
            self.runner.conditions.sink.emit(Event::Warning { message, help });
        }
        for (uuid, reason) in &self.lost {
            if !moves.keys().any(|(from, _)| *from == uuid) && self.told.borrow_mut().insert(uuid.clone()) {
                let message = format!("{} gets no test: {reason}", name(uuid));
                self.runner.conditions.sink.emit(Event::Warning { message, help: None });
            }
        }
        Ok(())
    }

    /// Removes the outcomes of all runs of a test. Returns how many there were.
    fn forget(&self, cell: &CellId) -> anyhow::Result<usize> {
        let mut removed = 0;
        for planned in self.runner.cells.iter().filter(|planned| planned.cell == *cell && is_spread(planned))
        {
            let first = self.runner.run_folder(planned, 0);
            removed += forget_runs(first.parent().unwrap_or(&first))?;
        }
        Ok(removed)
    }
}

/// Removes all outcomes of a cell. A run in the middle may be missing, because its files were changed.
fn forget_runs(of_cell: &Utf8Path) -> anyhow::Result<usize> {
    let mut removed = 0;
    for entry in of_cell.read_dir_utf8().into_iter().flatten() {
        let outcome = entry?.into_path().join(file::OUTCOME);
        if outcome.exists() {
            regular_file::remove(&outcome)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether the pool chooses the device. A test with a device of its own keeps that.
fn is_spread(planned: &PlannedCell) -> bool {
    planned.status == CellStatus::Run && planned.devices.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_runs_of_a_cell_are_forgotten_also_behind_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let of_cell = Utf8Path::from_path(folder.path()).unwrap();
        for repeat in ["0", "1", "2"] {
            fs_err::create_dir(of_cell.join(repeat)).unwrap();
        }
        fs_err::write(of_cell.join("0").join(file::OUTCOME), "{}").unwrap();
        fs_err::write(of_cell.join("2").join(file::OUTCOME), "{}").unwrap();
        assert_eq!(forget_runs(of_cell).unwrap(), 2);
        assert!(!of_cell.join("2").join(file::OUTCOME).exists() && of_cell.join("2").exists());
        assert_eq!(forget_runs(&of_cell.join("none")).unwrap(), 0);
    }
}
