//! A step's two commits as a comparison of its own, with a folder for their runs with call stacks.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bisect::metric_query::MetricQuery;
use crate::bisect::report_data::{FoundStep, SearchReport};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored::{self, Results};
use memprof_judge::why::chosen::{HeapRow, Why, choose};
use memprof_judge::why::difference::Difference;
use memprof_judge::why::explanations::{Explanations, Inquiry};
use memprof_judge::why::stored::StoredTests;
use memprof_plan::quantity::Threshold;
use memprof_plan::resolved::{CellId, Plan};
use memprof_plan::rule::{Growth, Rule};
use memprof_support::sealed;

/// The two commits of a step.
pub struct StepPair {
    /// Which test of the search it is.
    pub test: usize,
    /// The indices in the search's plan: the commit before, and the step's own.
    pub commits: [usize; 2],
    /// A plan of these two alone. The first is the baseline.
    pub plan: Plan,
    /// The folder of their runs with call stacks. It has no other runs.
    pub folder: RunFolder,
}

/// A step's two commits side by side.
#[derive(Debug)]
pub struct ComparedStep {
    /// All checkpoints and metrics.
    pub comparison: Comparison,
    /// The call sites, if they were recorded.
    pub why: Option<Arc<Explanations>>,
}

impl ComparedStep {
    /// Returns the row of the heap whose owners are asked for.
    pub(crate) fn heap_row(&self) -> Option<HeapRow> {
        choose(&self.comparison, Why::Always, usize::MAX).into_iter().find_map(|chosen| chosen.row)
    }
}

impl StepPair {
    /// Returns the pair of a test's step; `None` if the plan lacks one of the commits.
    pub fn find(
        report: &SearchReport,
        test: usize,
        step: &FoundStep,
        plan: &Plan,
        folder: &RunFolder,
    ) -> Option<Self> {
        let index = |commit: &str| plan.revisions.iter().position(|one| one.commit == commit);
        let commits = [index(&step.before.commit)?, index(&step.commit.commit)?];
        Some(Self::of_commits(commits, test, &report.query, Some(&report.threshold), plan, folder))
    }

    /// Returns the pair of two commits of the plan.
    pub fn of_commits(
        commits: [usize; 2],
        test: usize,
        query: &MetricQuery,
        threshold: Option<&Threshold>,
        plan: &Plan,
        folder: &RunFolder,
    ) -> Self {
        let [before, after] =
            commits.map(|commit| plan.revisions[commit].commit.get(..7).unwrap_or_default());
        let folder = folder.step(before, after, test);
        let mut plan = Plan {
            revisions: commits.iter().map(|&commit| plan.revisions[commit].clone()).collect(),
            baseline: 0,
            ..plan.clone()
        };
        // A change that the search found is one in its comparison, too.
        plan.request.judging.rules.extend(threshold.map(|threshold| Rule {
            metric: query.metric.clone(),
            growth: Some(Growth::Within(threshold.clone())),
            ..Rule::default()
        }));
        Self { test, commits, plan, folder }
    }

    /// Whether an earlier session recorded the call stacks.
    pub fn is_explained(&self) -> bool {
        let stored = sealed::read::<StoredTests>(&self.folder.why().tests());
        stored.is_ok_and(|stored| stored.left_out.is_none())
    }

    /// Notes why the two commits have no call sites.
    pub fn leave_out(&self, reason: String) -> anyhow::Result<()> {
        let why = self.folder.why();
        fs_err::create_dir_all(&why.0)?;
        sealed::write(&why.tests(), &StoredTests { left_out: Some(reason), ..StoredTests::default() })
    }

    /// Compares the two commits.
    ///
    /// # Errors
    /// A file of the search's folder was changed or cannot be read.
    pub fn compare(
        &self,
        search: &Plan,
        folder: &RunFolder,
        cell: &CellId,
        show: Option<(&MetricQuery, &Inquiry)>,
    ) -> anyhow::Result<ComparedStep> {
        let results = self.results(search, folder, cell)?;
        let comparison = compare(&results);
        let why = match show {
            Some((query, inquiry)) => self.explanations(&results, &comparison, query, inquiry),
            None => None,
        };
        Ok(ComparedStep { comparison, why: why.map(Arc::new) })
    }

    fn results(&self, search: &Plan, folder: &RunFolder, cell: &CellId) -> anyhow::Result<Results> {
        let of_search = stored::builds_of(folder)?;
        let mut runs = Vec::new();
        let mut builds = stored::Builds::new();
        for (revision, original) in self.commits.into_iter().enumerate() {
            for mut run in stored::runs_of(folder, search, original, cell)? {
                run.record.revision = revision;
                runs.push(run);
            }
            builds.extend(of_search.get(&original).map(|facts| (revision, facts.clone())));
        }
        Ok(Results {
            failed_builds: BTreeMap::new(),
            plan: self.plan.clone(),
            environment: stored::environment_of(folder)?,
            builds,
            not_measured: BTreeMap::new(),
            added_tests: BTreeMap::new(),
            traces: BTreeMap::new(),
            runs,
            notes: Vec::new(),
            same_code: Vec::new(),
            lacks_tests: false,
            apart: BTreeMap::new(),
            saved_baseline: None,
        })
    }

    /// The call sites, those of the searched figure first.
    fn explanations(
        &self,
        results: &Results,
        comparison: &Comparison,
        query: &MetricQuery,
        inquiry: &Inquiry,
    ) -> Option<Explanations> {
        let read = Explanations::read(&self.folder, results, comparison, inquiry);
        // The answer is complete without them.
        let mut read = read.unwrap_or_else(|error| {
            let reason = format!("the call sites cannot be read: {error:#}");
            Some(Explanations { left_out: Some(reason), ..Explanations::default() })
        })?;
        for test in &mut read.tests {
            test.rows.sort_by_key(|row| {
                let of_query = is_asked(&row.difference, query);
                (!of_query, of_query.then(|| Reverse(row.difference.whole().unsigned_abs())))
            });
        }
        Some(read)
    }
}

/// Whether a row has the searched metric, at the searched checkpoint if there is one.
fn is_asked(difference: &Difference, query: &MetricQuery) -> bool {
    let is_at = |wanted: &str| {
        difference.checkpoints.iter().flatten().any(|at| {
            let numbered = format!("{} #{}", at.label, at.occurrence);
            wanted == numbered || (at.occurrence == 1 && wanted == at.label)
        })
    };
    difference.metric == query.metric && query.checkpoint.as_deref().is_none_or(is_at)
}
