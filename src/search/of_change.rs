//! A proof of what a comparison or a bisect found: `--why proven` and `bisect --prove`. Its folder is in theirs.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::commands::context::CommandContext;
use crate::request::search_options;
use crate::search::plan::{SearchPlan, command_line, overlay_hashes};
use crate::search::session::{Means, SearchSession};
use memprof_build::git::lineage::Lineage;
use memprof_build::git::repository::Repository;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_judge::why::causes::causes;
use memprof_judge::why::chosen::Why;
use memprof_judge::why::explanations::{Explanations, Inquiry};
use memprof_plan::jobs::of_neighbours;
use memprof_plan::quantity::Threshold;
use memprof_plan::request::RefRequest;
use memprof_plan::resolved::{CellId, Plan, Revision};
use memprof_plan::side;
use memprof_run::attribution::Attribution;
use memprof_run::bisect::metric_query::MetricQuery;
use memprof_run::bisect::parts::record::{BASELINE, CANDIDATE, PartsSearch};
use memprof_run::bisect::record::{self, SearchRecord, Task};
use memprof_run::bisect::replay;
use memprof_run::bisect::report_data::SearchReport;
use memprof_run::runner::Interrupted;
use memprof_run::session::fill_folder;
use memprof_support::advice;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// At most so many commits are built, both ends included: the default of `prove --builds`.
const MOST_BUILDS: usize = 12;

/// A change to prove.
pub struct Change {
    /// The plan's revisions before and after it.
    ends: [usize; 2],
    cell: CellId,
    query: MetricQuery,
    threshold: Option<Threshold>,
    /// The flags with which `prove` measures alike.
    flags: Vec<String>,
}

impl Change {
    /// Returns the change that the worst cause of a comparison makes. `None` if no test changed by something in
    /// the diff.
    pub fn of_comparison(folder: &RunFolder) -> anyhow::Result<Option<Self>> {
        let results = stored::read(folder)?;
        let comparison = compare(&results);
        let read = Explanations::read(folder, &results, &comparison, &Inquiry::default())?;
        let all = read.map_or_else(Vec::new, |why| causes(&comparison, &why));
        let Some(worst) = all.first() else { return Ok(None) };
        let (test, moved) = (worst.worst(), &worst.worst().moved[0]);
        let cell = &comparison.cells[test.cell];
        let Some(pair) = cell.pairs.iter().find(|pair| pair.candidate == worst.candidate) else {
            return Ok(None);
        };
        let view = comparison.view(cell, pair);
        let row = &view.rows[moved.row];
        // A search reads one checkpoint. Where sides have others before it, the whole test is comparable.
        let is_joined = view.column(&moved.metric).is_joined(row);
        let checkpoint = (!is_joined).then(|| view.key(row).shown(&cell.labels));
        let words = search_options::for_search(&command_line(std::env::args()));
        Ok(Some(Self {
            ends: [comparison.baseline, worst.candidate],
            cell: cell.id.clone(),
            query: MetricQuery { metric: moved.metric.clone(), checkpoint },
            threshold: None,
            flags: words.unwrap_or_default(),
        }))
    }

    /// Returns the change of the commit that a bisect found; `None` if it found no single commit.
    pub fn of_bisect(
        report: &SearchReport,
        cell: &CellId,
        plan: &Plan,
        arguments: &[String],
    ) -> Option<Self> {
        let step = report.steps.iter().find(|step| step.candidates.is_empty())?;
        let index = |commit: &str| plan.revisions.iter().position(|one| one.commit == commit);
        Some(Self {
            ends: [index(&step.before.commit)?, index(&step.commit.commit)?],
            cell: cell.clone(),
            query: report.query.clone(),
            threshold: Some(report.threshold.clone()),
            flags: replay::common_flags("bisect", arguments),
        })
    }

    /// Proves the change, or goes on where an earlier session was interrupted. `folder` is that of the comparison
    /// or the search. Returns the code for processes that were set aside meanwhile.
    ///
    /// # Errors
    ///
    /// The change cannot be proven, the tool failed, or it was interrupted.
    pub fn prove(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        repository: &Repository,
        context: CommandContext<'_>,
        means: &Means<'_>,
    ) -> anyhow::Result<ExitCode> {
        let folder = folder.proof();
        if folder.found().exists() {
            return Ok(ExitCode::Success);
        }
        let plan = self.plan(plan)?;
        let search = if folder.search().exists() {
            continued(plan, &folder)?
        } else {
            let search = self.search(&plan, repository)?;
            fill_folder(&folder, &plan)?;
            sealed::write(&folder.search(), &search.sealed())?;
            SearchPlan { search, plan }
        };
        // The report above has owners and threads.
        let attribution =
            Attribution { why: Why::Changed, owners: None, threads: false, ..means.attribution.clone() };
        let session = SearchSession { repository, folder: &folder, context, attribution };
        let mut restored = ExitCode::Success;
        session.run(search, means, &mut restored)?;
        Ok(restored)
    }

    /// Returns the plan of the two revisions alone.
    fn plan(&self, plan: &Plan) -> anyhow::Result<Plan> {
        let request = &plan.request;
        let has_settings = |index: &usize| request.refs.get(*index).is_some_and(side::has_settings);
        if self.ends.iter().any(has_settings) {
            return Err(UserError::new("the refs have settings of their own, and a part of a diff has none")
                .help("compare two refs with the same settings")
                .into());
        }
        if self.cell.test.name.is_empty() && self.cell.program.is_none() {
            return Err(UserError::new("a test target without a harness cannot be chosen alone").into());
        }
        let revisions = self.ends.map(|index| plan.revisions[index].clone()).to_vec();
        let mut narrow = Plan { revisions, baseline: BASELINE, search: None, ..plan.clone() };
        let reference = |revision: &Revision| RefRequest {
            spec: revision.spec.clone(),
            name: Some(revision.name.clone()),
            ..RefRequest::default()
        };
        narrow.request.refs = narrow.revisions.iter().map(reference).collect();
        narrow.request.alone_for = of_neighbours([self.query.metric.as_str()]).map(str::to_owned);
        narrow.request.exclude.retain(|pattern| pattern.r#ref.is_none());
        narrow.request.include.retain(|pattern| pattern.r#ref.is_none());
        narrow.request.shard = None;
        // One test needs no more than one of them.
        if let Some(pool) = narrow.request.settings.device_pool.take() {
            narrow.request.give_devices(&pool[..pool.len().min(1)]);
        }
        Ok(narrow)
    }

    fn search(&self, plan: &Plan, repository: &Repository) -> anyhow::Result<SearchRecord> {
        let [good, bad] = [BASELINE, CANDIDATE].map(|index| plan.revisions[index].name.clone());
        let parents = vec![Vec::new(), vec![BASELINE]];
        let lineage = Lineage { parents, edge: 1, good: BASELINE, bad: CANDIDATE, touching: None };
        let test = ["prove".to_owned(), "--exact".to_owned(), self.cell.test.to_string()];
        Ok(SearchRecord {
            version: record::VERSION,
            task: Task::Prove(PartsSearch::new(MOST_BUILDS)),
            good,
            bad,
            query: self.query.clone(),
            threshold: self.threshold.clone(),
            least_runs: 1,
            paths: Vec::new(),
            lineage,
            lockfile: None,
            arguments: test.into_iter().chain(self.flags.clone()).collect(),
            overlay: overlay_hashes(plan, repository)?,
            proves: false,
            only: Some(self.cell.clone()),
            cells: Vec::new(),
            efforts: Vec::new(),
        })
    }
}

/// Passes an interrupt on, whatever it ended: a run, a build, or waiting for another run. Whatever else prevents a proof
/// is a warning: the answer before it is complete.
pub fn or_warning(
    proven: anyhow::Result<ExitCode>,
    flag: &str,
    sink: &dyn Sink,
    interrupt: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let error = match proven {
        Err(error) if !error.is::<Interrupted>() && !interrupt.load(Ordering::Relaxed) => error,
        passed_on => return passed_on,
    };
    let help = advice::help(&error);
    sink.emit(Event::Warning { message: format!("{flag}: nothing was proven: {error:#}"), help });
    Ok(ExitCode::Success)
}

/// Returns an interrupted proof. Its plan has the variants in addition.
fn continued(mut plan: Plan, folder: &RunFolder) -> anyhow::Result<SearchPlan> {
    let search: SearchRecord = sealed::read_format(&folder.search(), record::VERSION)?;
    let stored = stored::read_plan(folder)?;
    plan.revisions.extend(stored.revisions.into_iter().skip(2));
    plan.request.refs.extend(stored.request.refs.into_iter().skip(2));
    Ok(SearchPlan { search, plan })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_interrupted_build_of_a_proof_is_an_interrupt_and_no_warning() {
        let warnings = Cell::new(0);
        let sink = |_: Event| warnings.set(warnings.get() + 1);
        let proven = |is_interrupted: bool| {
            let failed = Err(anyhow::anyhow!("interrupted while running `cargo test`"));
            or_warning(failed, "--prove", &sink, &AtomicBool::new(is_interrupted))
        };
        assert!(proven(true).is_err());
        assert_eq!(warnings.get(), 0);
        assert_eq!(proven(false).unwrap(), ExitCode::Success);
        assert_eq!(warnings.get(), 1);
    }
}
