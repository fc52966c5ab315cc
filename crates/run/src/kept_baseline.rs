//! A comparison whose baseline was measured earlier (`--baseline-run`): whether the saved baseline
//! fits, and its figures in the new run's folder.
//!
//! The kept revision is the last one of the plan, so the others keep their numbers while they are
//! built without it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use anyhow::Context;
use camino::Utf8PathBuf;
use serde_json::Value;

use crate::guards::Guard;
use crate::left_out::LeftOut;
use crate::merging::copy_tree_without;
use crate::runner::Runner;
use crate::saved_baselines;
use crate::stored_plan;
use memprof_build::attempts::Build;
use memprof_build::git::repository::Repository;
use memprof_build::provenance::{self, Provenance};
use memprof_build::shim;
use memprof_judge::results::build_facts::{self, Fact, StoredBuild};
use memprof_judge::results::environment;
use memprof_judge::results::kept_baseline::{self, KeptBaseline};
use memprof_judge::results::outcome::{RunRecord, Status};
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_judge::results::stored;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::request::{BaselineRequest, RefRequest, Request, TargetKind};
use memprof_plan::resolved::{CellId, Plan, Revision};
use memprof_plan::side;
use memprof_plan::side_lockfile::SideLockfile;
use memprof_support::counted::counted;
use memprof_support::sealed;
use memprof_support::user_error::UserError;
use memprof_support::{parallel, paths, regular_file};

/// A saved baseline, opened.
pub struct KeptRun {
    record: KeptBaseline,
    folder: RunFolder,
    plan: Plan,
    /// The cells of the new run that are left out, because they cannot differ.
    left_out: LeftOut,
}

impl KeptRun {
    /// Opens a saved baseline of this name. Its baseline is what the run compared with, or its only
    /// revision.
    pub fn open(folder: RunFolder, name: &str) -> anyhow::Result<Self> {
        saved_baselines::check(&folder)?;
        let saved = saved_baselines::saved(&folder)?;
        let plan = stored::read_plan(&folder)?;
        let record = KeptBaseline {
            version: kept_baseline::VERSION,
            name: name.to_owned(),
            folder: folder.0.clone(),
            revision: plan.baseline,
            saved: Some(saved),
        };
        Ok(Self { record, folder, plan, left_out: LeftOut::default() })
    }

    /// Opens the saved baseline of a run with this plan. `None` if the run measures its baseline itself.
    ///
    /// # Errors
    ///
    /// The baseline is missing, or was saved again since the run was planned.
    pub fn of_run(folder: &RunFolder, plan: &Plan) -> anyhow::Result<Option<Self>> {
        let Some(mut record) = KeptBaseline::read(folder)? else { return Ok(None) };
        let kept = RunFolder(record.folder.clone());
        let needed = || format!("the saved baseline {} is needed to continue", record.name);
        let saved = saved_baselines::saved(&kept).with_context(needed)?;
        let own = stored::read_plan(&kept).with_context(needed)?;
        record.saved.get_or_insert(saved);
        let kept = Self { record, folder: kept, plan: own, left_out: LeftOut::default() };
        kept.expect_unchanged(plan)?;
        Ok(Some(kept))
    }

    /// Makes sure that the baseline is still the one of the plan. Saved again, it has the figures of another commit.
    fn expect_unchanged(&self, plan: &Plan) -> anyhow::Result<()> {
        let saved = saved_baselines::saved(&self.folder)?;
        let is_planned = |own: &Revision| own.commit == plan.revisions[plan.baseline].commit;
        let name = &self.record.name;
        if self.record.saved.as_ref() == Some(&saved)
            && self.plan.revisions.get(self.record.revision).is_some_and(is_planned)
        {
            return Ok(());
        }
        Err(UserError::new(format!("the baseline {name} was saved again since this run was planned"))
            .help("begin anew: run the same command without --resume")
            .into())
    }

    /// Returns what is known of the kept build, or why tests with the same code cannot be told.
    pub fn build(&self, repository: &Repository) -> Result<Provenance, String> {
        let (name, file) = (&self.record.name, self.folder.provenances());
        if !file.exists() {
            return Err(format!(
                "an earlier version saved the baseline {name}, without the hashes of its code"
            ));
        }
        let mut builds: BTreeMap<usize, Provenance> =
            sealed::read(&file).map_err(|error| format!("{error:#}"))?;
        let build = builds.remove(&self.record.revision).filter(|build| build.version == provenance::VERSION);
        if repository.commit(&self.revision().commit).is_err() {
            return Err(format!("the commit of the baseline {name} is not in this repository"));
        }
        build.ok_or_else(|| format!("another version saved the baseline {name}"))
    }

    /// Notes the cells that do not run.
    pub fn leave_out(&mut self, left_out: LeftOut) {
        self.left_out = left_out;
    }

    fn revision(&self) -> &Revision {
        &self.plan.revisions[self.record.revision]
    }

    /// Puts the kept revision into a plan, in the place of the baseline that it has.
    ///
    /// # Errors
    ///
    /// The plan's baseline is another commit, or something else does not fit that is known before
    /// anything is built.
    pub fn join(&mut self, plan: &mut Plan, has_baseline: bool) -> anyhow::Result<()> {
        if has_baseline {
            self.take_place_of(plan)?;
        }
        self.check(plan)?;
        // Builds are compared with those of the baseline, so they get the same names.
        plan.request.typed_names = self.plan.request.typed_names;
        let mut revision = self.revision().clone();
        if plan.revisions.iter().any(|one| one.name == revision.name) {
            revision.name = format!("{} ({})", revision.name, self.record.name);
        }
        let own = revision_request(&self.plan, self.record.revision);
        plan.request.refs.push(RefRequest { name: Some(revision.name.clone()), ..own });
        plan.request.baseline = BaselineRequest::Ref(revision.name.clone());
        plan.notes.push(format!(
            "the baseline {} {} was measured earlier, at {} (saved as {}): metrics that vary (cpu.*, time, \
             gpu.N.device) may have drifted since",
            revision.name,
            revision.short(),
            minute(&self.plan.created),
            self.record.name
        ));
        plan.revisions.push(revision);
        plan.baseline = plan.revisions.len() - 1;
        Ok(())
    }

    /// Removes the baseline from a plan, if this is the same commit.
    fn take_place_of(&mut self, plan: &mut Plan) -> anyhow::Result<()> {
        let asked = plan.revisions.remove(plan.baseline);
        let own = sealed_ref(plan.request.refs.remove(plan.baseline));
        let same = |one: &Revision| one.commit == asked.commit || one.tree == asked.tree;
        let commits: Vec<usize> =
            (0..self.plan.revisions.len()).filter(|one| same(&self.plan.revisions[*one])).collect();
        let Some(first) = commits.first() else {
            let kept = self.revision();
            let what =
                format!("it has {} {}, and {} is {}", kept.name, kept.short(), asked.name, asked.short());
            return Err(self.refused(plan, Some(&asked.spec), &[what]));
        };
        // One commit may be there twice, with other settings.
        let is_alike =
            |one: &&usize| side::settings(&revision_request(&self.plan, **one)) == side::settings(&own);
        let Some(revision) = commits.iter().find(is_alike) else {
            let kept = revision_request(&self.plan, *first);
            return Err(self.refused(plan, Some(&asked.spec), &[other_settings(&kept, &own)]));
        };
        self.record.revision = *revision;
        Ok(())
    }

    /// Compares the machine and the request with those of the saved run.
    fn check(&self, plan: &Plan) -> anyhow::Result<()> {
        // As it is read again.
        let now: Value = serde_json::from_slice(&serde_json::to_vec(&environment::facts())?)?;
        let kept = stored::environment_of(&self.folder)?;
        // The two requests may differ in what they keep from tests.
        let mut differing = kept_baseline::of_machines(&kept, &now, &Request::default());
        let asked = stored_plan::sealed(plan).request;
        differing.extend(kept_baseline::of_requests(&self.plan.request, &asked)?);
        if self.plan.workspace != plan.workspace {
            differing.push(format!("the workspace: {} / {}", self.plan.workspace, plan.workspace));
        }
        let builds = build_facts::read(&self.folder)?;
        let measured_by = builds.get(&self.record.revision).and_then(|build| build.facts.get(Fact::Shim));
        if measured_by.is_some_and(|version| version != shim::source_hash()) {
            differing.push("the version of cargo-memprof".to_owned());
        }
        if self.plan.overlay_commits != plan.overlay_commits {
            differing.push("the commits that the overlay is from".to_owned());
        }
        if differing.is_empty() { Ok(()) } else { Err(self.refused(plan, None, &differing)) }
    }

    /// Notes in a new run's folder where its baseline is from.
    pub fn note(&self, folder: &RunFolder) -> anyhow::Result<()> {
        sealed::write(&folder.kept(), &self.record)
    }

    /// Returns the plan of what is built: all but the kept revision.
    pub fn without(plan: &Plan) -> Plan {
        let mut built = plan.clone();
        built.revisions.truncate(plan.baseline);
        built.request.refs.truncate(plan.baseline);
        built.request.baseline = BaselineRequest::First;
        built.request.has_other_revisions = true;
        built.baseline = 0;
        built
    }

    /// Completes the folder of a run whose other revisions are built: the baseline's facts, and its
    /// runs of the planned cells.
    ///
    /// # Errors
    ///
    /// The builds do not fit, or a file of the saved baseline was changed.
    fn complete(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        builds: &[Build],
        cells: &[PlannedCell],
    ) -> anyhow::Result<()> {
        self.add_facts(plan, folder)?;
        let planned: BTreeSet<&CellId> = cells.iter().map(|planned| &planned.cell).collect();
        let selects_the_same = kept_baseline::select_the_same(&self.plan.request, &plan.request);
        let is_kept =
            |cell: &CellId| planned.contains(cell) || selects_the_same && !self.left_out.cells.contains(cell);
        let mut records =
            self.records(|cell| self.left_out.cells.contains(cell) && !planned.contains(cell))?;
        records.retain(|(_, record)| is_kept(&record.cell));
        let copy = |(home, record): &(Utf8PathBuf, RunRecord)| -> anyhow::Result<()> {
            if let Some(problem) = stored::damage(home) {
                return Err(UserError::new(problem).help(self.save_again(&self.revision().spec)).into());
            }
            let place = folder.cell(plan, plan.baseline, &record.cell, record.repeat);
            copy_tree_without(home, &place, file::OUTCOME)?;
            // A sync of each would take seconds. If a power failure damages one, `--resume` copies it again.
            let copied = sealed::sealed(&RunRecord { revision: plan.baseline, ..record.clone() })?;
            Ok(regular_file::write(&place.join(file::OUTCOME), &copied)?)
        };
        parallel::map(&records, usize::MAX, copy).into_iter().collect::<anyhow::Result<()>>()?;
        let kept: BTreeSet<CellId> = records.into_iter().map(|(_, record)| record.cell).collect();
        if selects_the_same && !plan.request.no_auto_overlay {
            self.note_missing_files(plan, folder, cells, &kept)?;
        }
        let gaps = build_facts::read(&self.folder)?.remove(&self.record.revision).unwrap_or_default();
        let gaps = &gaps.not_measured[..];
        for cell in planned.iter().filter(|cell| !kept.contains(**cell)) {
            let status = if selects_the_same {
                kept_baseline::why_absent(gaps, cell)
            } else {
                (Status::NotMeasured, Some(format!("the saved baseline {} did not run it", self.record.name)))
            };
            write_absent(plan, folder, plan.baseline, cell, status)?;
        }
        for cell in kept.iter().filter(|cell| !planned.contains(cell)) {
            for (revision, build) in builds.iter().enumerate() {
                let status = match build {
                    Build::Done(_) => kept_baseline::why_absent(&build.not_measured(), cell),
                    Build::Failed(_) => (Status::BuildFailed, None),
                };
                write_absent(plan, folder, revision, cell, status)?;
            }
        }
        Ok(())
    }

    /// Notes how many tests are in test files that the saved baseline lacks: they cannot be put into it.
    fn note_missing_files(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        cells: &[PlannedCell],
        kept: &BTreeSet<CellId>,
    ) -> anyhow::Result<()> {
        let file = |cell: &CellId| (cell.test.package.clone(), cell.test.binary.clone());
        let known: BTreeSet<_> = kept.iter().chain(&self.left_out.cells).map(file).collect();
        let of_files = cells.iter().filter(|planned| planned.cell.test.kind == TargetKind::Test);
        let new = of_files.filter(|planned| planned.status == CellStatus::Run);
        let new: BTreeSet<&CellId> =
            new.map(|planned| &planned.cell).filter(|cell| !known.contains(&file(cell))).collect();
        if new.is_empty() {
            return Ok(());
        }
        let are = if new.len() == 1 { "is in a test file" } else { "are in test files" };
        let note = format!(
            "{} {are} that the saved baseline {} lacks, and cannot be put into it: without --baseline-run, both sides run",
            counted(new.len(), "test"),
            self.record.name
        );
        let mut builds = build_facts::read(folder)?;
        builds.entry(plan.baseline).or_default().notes.push(note);
        build_facts::write(folder, &builds)
    }

    /// Adds the kept build to `builds.json` and `trace.json`, if it fits the others.
    fn add_facts(&self, plan: &Plan, folder: &RunFolder) -> anyhow::Result<()> {
        let own = build_facts::read(&self.folder)?.remove(&self.record.revision);
        let own = own.filter(|own| own.failure.is_none()).ok_or_else(|| {
            let (name, revision) = (&self.record.name, &self.revision().name);
            UserError::new(format!("the saved baseline {name} has no build of {revision}: files are missing"))
                .help("copy the whole folder again, or save the baseline again with --save-baseline")
        })?;
        let mut builds = build_facts::read(folder)?;
        for (revision, build) in &builds {
            let differing = kept_baseline::of_builds(&own.facts, &build.facts);
            if build.failure.is_none() && !differing.is_empty() && *revision != plan.baseline {
                return Err(self.refused(&Self::without(plan), None, &differing));
            }
        }
        builds.insert(plan.baseline, StoredBuild { same_code: self.left_out.tests.clone(), ..own });
        build_facts::write(folder, &builds)?;
        if folder.trace().exists() && self.folder.trace().exists() {
            let mut traces: BTreeMap<usize, Value> = sealed::read(&folder.trace())?;
            let mut kept: BTreeMap<usize, Value> = sealed::read(&self.folder.trace())?;
            traces.extend(kept.remove(&self.record.revision).map(|facts| (plan.baseline, facts)));
            sealed::write(&folder.trace(), &traces)?;
        }
        Ok(())
    }

    /// The kept revision's runs, with their folders. Those of left-out cells need not be read.
    fn records(
        &self,
        is_left_out: impl Fn(&CellId) -> bool,
    ) -> anyhow::Result<Vec<(Utf8PathBuf, RunRecord)>> {
        let mut homes = Vec::new();
        let left_out = self.left_out.cells.iter().filter(|cell| is_left_out(cell)).filter_map(|cell| {
            let run = self.folder.cell(&self.plan, self.record.revision, cell, 0);
            Some(run.parent()?.as_std_path().to_owned())
        });
        let left_out: HashSet<PathBuf> = left_out.collect();
        let walk = walkdir::WalkDir::new(self.folder.cells()).sort_by_file_name().into_iter();
        for entry in walk.filter_entry(|entry| !left_out.contains(entry.path())) {
            let entry = entry?;
            if entry.file_name() == file::OUTCOME && entry.file_type().is_file() {
                homes.extend(entry.path().parent().map(|home| paths::utf8(home.to_owned())).transpose()?);
            }
        }
        let read = |home: &Utf8PathBuf| Ok((home.clone(), sealed::read(&home.join(file::OUTCOME))?));
        let records = parallel::map(&homes, usize::MAX, read).into_iter();
        let mut records = records.collect::<anyhow::Result<Vec<(_, RunRecord)>>>()?;
        records.retain(|(_, record)| record.revision == self.record.revision);
        Ok(records)
    }

    /// The error for a saved baseline that does not fit a plan without it. `asked` is the ref that the
    /// user wants as the baseline.
    fn refused(&self, plan: &Plan, asked: Option<&str>, differing: &[String]) -> anyhow::Error {
        let baseline = asked.unwrap_or(&self.revision().spec);
        // Several refs may be of one commit, with other settings.
        let mut refs = vec![baseline];
        for one in &plan.request.refs {
            refs.extend(Some(&*one.spec).filter(|spec| !refs.contains(spec)));
        }
        let name = &self.record.name;
        // The name of one ref is not for the figures of another.
        let is_its_own = [self.revision().spec.as_str(), name].contains(&baseline);
        UserError::new(format!("the saved baseline {name} does not fit: {}", differing.join("; ")))
            .help(format!(
                "to measure both, with the same options: cargo memprof {}\n{}",
                refs.join(" "),
                if is_its_own {
                    self.save_again(baseline)
                } else {
                    format!("to save {baseline}: cargo memprof {baseline} --save-baseline NAME")
                }
            ))
            .into()
    }

    fn save_again(&self, baseline: &str) -> String {
        // It may have been named by its folder.
        let name = saved_baselines::check_name(&self.record.name).unwrap_or_else(|_| "NAME".to_owned());
        format!("to save it again, with the same options: cargo memprof {baseline} --save-baseline {name}")
    }
}

impl Guard for KeptRun {
    fn enter(&mut self, runner: &Runner<'_>) -> anyhow::Result<()> {
        self.expect_unchanged(runner.plan)?;
        self.complete(runner.plan, runner.folder, runner.builds, runner.cells)?;
        self.expect_unchanged(runner.plan)
    }
}

fn write_absent(
    plan: &Plan,
    folder: &RunFolder,
    revision: usize,
    cell: &CellId,
    status: (Status, Option<String>),
) -> anyhow::Result<()> {
    let place = folder.cell(plan, revision, cell, 0);
    fs_err::create_dir_all(&place)?;
    sealed::write(&place.join(file::OUTCOME), &RunRecord::absent(revision, cell, status))
}

/// Returns a ref as a plan stores it, with marks in place of secrets.
fn sealed_ref(one: RefRequest) -> RefRequest {
    let mut plan = Request { refs: vec![one], ..Request::default() };
    stored_plan::seal_request(&mut plan);
    plan.refs.remove(0)
}

/// Says which settings the saved baseline has, and which the user gives to it now.
fn other_settings(kept: &RefRequest, now: &RefRequest) -> String {
    let request = Request::default();
    let mut words = side::differences(&request, kept, now);
    for (of, than, not) in [(now, kept, ""), (kept, now, "not ")] {
        let only = of.with.iter().filter(|one| !than.with.contains(one));
        words.extend(only.map(|one| format!("{not}with {one}")));
    }
    if kept.lockfile != now.lockfile {
        let written = now.lockfile.as_ref().map_or("its own", SideLockfile::written);
        words.push(format!("the lock file {written}"));
    }
    format!("it was measured with other settings than the baseline has now: {}", words.join(", "))
}

fn revision_request(plan: &Plan, revision: usize) -> RefRequest {
    plan.request.refs.get(revision).cloned().unwrap_or_default()
}

/// `2026-11-20 14:02 UTC`.
fn minute(created: &str) -> String {
    match created.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => created.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_settings_that_the_saved_baseline_lacks_or_has() {
        let kept = RefRequest { features: vec!["simd".into()], ..RefRequest::default() };
        let now = RefRequest {
            env: [("POOL".to_owned(), "8".to_owned())].into(),
            with: vec!["serde@1.0.200".parse().unwrap()],
            lockfile: Some(SideLockfile::Ref { spec: "main".into(), commit: "c".into() }),
            ..RefRequest::default()
        };
        assert_eq!(
            other_settings(&kept, &now),
            "it was measured with other settings than the baseline has now: without feature simd, POOL=8, \
             with serde@1.0.200, the lock file main"
        );
        assert_ne!(side::settings(&kept), side::settings(&now));
    }
}
