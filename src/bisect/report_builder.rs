//! From a survey and what was found in it to the report.

use std::collections::{BTreeMap, BTreeSet};

use crate::bisect::commit_runner::Survey;
use crate::bisect::history;
use crate::bisect::linear_search::{Find, Found, Step, StepKind};
use crate::bisect::merge_search::Merges;
use crate::bisect::observations::{Known, Rule};
use crate::bisect::record::{SearchRecord, Task};
use crate::bisect::replay;
use crate::bisect::report_data::{
    self, Candidate, FoundStep, MeasuredCommit, NamedCommit, Replay, SearchReport, SearchResult, TotalEffort,
};
use crate::compare::comparison::{Comparison, Delta};
use crate::compare::from_results::compare;
use crate::git::commits::{self, CommitFacts};
use crate::git::repository::Repository;
use crate::plan::metric::Unit;
use crate::plan::resolved::{CellId, Plan};
use crate::results::run_folder::RunFolder;
use crate::results::stored::{self, Results};

/// Puts together what a search found: a report of an [`Outcome`].
pub struct Findings<'a> {
    /// The commits and what is known of them.
    pub survey: &'a Survey<'a>,
    /// The plan.
    pub plan: &'a Plan,
    /// The repository, for names and dates.
    pub repository: &'a Repository,
}

/// What was found, in the survey's indices.
pub struct Outcome {
    /// What came of a bisection.
    pub result: Option<SearchResult>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The commits to list, ancestors first.
    pub listed: Vec<usize>,
    /// For each of them, the commit it is compared with.
    pub compared_with: BTreeMap<usize, usize>,
}

impl Outcome {
    /// Of a bisection.
    pub fn of_bisection(found: Found, survey: &Survey<'_>) -> Self {
        let (result, mut steps) = match found {
            Found::Steps(steps) => (SearchResult::Found, steps),
            Found::Same => (SearchResult::Same, Vec::new()),
            Found::Unclear | Found::Unmeasured => (SearchResult::Unclear, Vec::new()),
        };
        steps.sort_by_key(|step| step.after);
        let commits = survey.record.lineage.parents.len();
        let listed: Vec<usize> = (0..commits).filter(|&commit| survey.known.of(commit).is_some()).collect();
        let good = survey.record.lineage.good;
        let compared_with = listed.iter().map(|&commit| (commit, good)).filter(|(commit, _)| *commit != good);
        Self { result: Some(result), steps, compared_with: compared_with.collect(), listed }
    }

    /// Of a history whose commits are all measured; `changes` are theirs.
    pub fn of_history(
        commits: &[usize],
        changes: &[Option<crate::bisect::observations::Change>],
        survey: &Survey<'_>,
    ) -> Self {
        let predecessors = history::predecessors(&survey.record.lineage, commits, &survey.known);
        let mut steps = Vec::new();
        let mut compared_with = BTreeMap::new();
        for ((&after, change), before) in commits.iter().zip(changes).zip(predecessors) {
            let Some(before) = before else { continue };
            compared_with.insert(after, before);
            if let Some(change) = change.filter(|change| *change == crate::bisect::observations::Change::Yes)
            {
                let kind = StepKind::Commit;
                steps.push(Step { before, after, between: Vec::new(), kind, change });
            }
        }
        Self { result: None, steps, listed: commits.to_vec(), compared_with }
    }
}

impl Findings<'_> {
    /// The report.
    pub fn report(&self, outcome: &Outcome, rule: &Rule) -> anyhow::Result<SearchReport> {
        let record = &self.survey.record;
        let facts = self.facts(outcome)?;
        let cell = record.cell.as_ref().map(|planned| &planned.cell);
        let find = match &record.task {
            Task::Bisect { find, .. } => Some(*find),
            Task::History { .. } => None,
        };
        let mut steps = Vec::new();
        for step in &outcome.steps {
            steps.push(self.step(step, &facts)?);
        }
        let (good, bad) = (record.lineage.good, record.lineage.bad);
        let end = |commit: usize, name: &str| NamedCommit {
            name: name.to_owned(),
            facts: facts[&commit].clone(),
            value: self.survey.known.median(commit),
        };
        let measured = outcome.listed.iter().map(|&commit| {
            let is_step = outcome.steps.iter().any(|step| step.after == commit);
            self.measured(
                commit,
                facts[&commit].clone(),
                outcome.compared_with.get(&commit).copied(),
                is_step,
            )
        });
        let mut report = SearchReport {
            version: report_data::VERSION,
            tool: self.plan.tool.clone(),
            id: self.plan.id.clone(),
            created: self.plan.created.clone(),
            command: record.task.command().to_owned(),
            find,
            result: outcome.result,
            test: cell.map(|cell| cell.test.to_string()).unwrap_or_default(),
            title: cell.map(|cell| cell.title.clone()).unwrap_or_default(),
            params: cell.map(|cell| cell.params.clone()).unwrap_or_default(),
            wanted: record.wanted.clone(),
            unit: Unit::of(&record.wanted.metric),
            threshold: rule.threshold(&self.survey.known).clone(),
            good: end(good, &record.good),
            bad: end(bad, &record.bad),
            commits: record.lineage.commits(),
            first_parent: matches!(record.task, Task::Bisect { merges: Merges::Name, .. }),
            paths: record.paths.clone(),
            steps,
            measured: measured.collect(),
            effort: self.effort(),
            replay: Vec::new(),
        };
        report.replay = replays(&report, record);
        Ok(report)
    }

    /// What is shown of every commit that is named anywhere.
    fn facts(&self, outcome: &Outcome) -> anyhow::Result<BTreeMap<usize, CommitFacts>> {
        let lineage = &self.survey.record.lineage;
        let mut named: BTreeSet<usize> = outcome.listed.iter().copied().collect();
        named.extend([lineage.good, lineage.bad]);
        for step in &outcome.steps {
            named.extend([step.before, step.after]);
            named.extend(step.between.iter().copied());
        }
        let hashes: Vec<&str> =
            named.iter().map(|&commit| self.plan.revisions[commit].commit.as_str()).collect();
        Ok(named.iter().copied().zip(commits::facts(self.repository, &hashes)?).collect())
    }

    fn step(&self, step: &Step, facts: &BTreeMap<usize, CommitFacts>) -> anyhow::Result<FoundStep> {
        let value = |commit| self.survey.known.median(commit).unwrap_or_default();
        let delta = Delta::between(value(step.before), value(step.after));
        let hash = |commit: usize| self.plan.revisions[commit].commit.as_str();
        let candidate = |&commit: &usize| Candidate {
            facts: facts[&commit].clone(),
            skipped: self.survey.reasons.get(&commit).cloned(),
        };
        let among = step.between.iter().chain([&step.after]);
        let candidates =
            if step.kind == StepKind::Commit { Vec::new() } else { among.map(candidate).collect() };
        Ok(FoundStep {
            kind: step.kind,
            change: step.change,
            commit: facts[&step.after].clone(),
            before: facts[&step.before].clone(),
            value_before: value(step.before),
            value: value(step.after),
            difference: delta.difference,
            percent: delta.percent,
            files: self.repository.changed_paths(hash(step.before), hash(step.after))?,
            candidates,
        })
    }

    fn measured(
        &self,
        commit: usize,
        facts: CommitFacts,
        compared_with: Option<usize>,
        is_step: bool,
    ) -> MeasuredCommit {
        let survey = self.survey;
        let effort = survey.record.efforts.iter().find(|effort| effort.commit == commit);
        let value = survey.known.median(commit);
        let before = compared_with.and_then(|before| survey.known.median(before));
        let tag = match &survey.record.task {
            Task::History { tags, .. } => {
                tags.iter().find(|(tagged, _)| *tagged == commit).map(|(_, name)| name.clone())
            }
            Task::Bisect { .. } => None,
        };
        MeasuredCommit {
            facts,
            tag,
            value,
            samples: survey.known.samples(commit).unwrap_or_default().to_vec(),
            skipped: survey.reasons.get(&commit).cloned(),
            compared_with: compared_with.map(|before| self.plan.revisions[before].commit.clone()),
            difference: before.zip(value).map(|(before, value)| Delta::between(before, value).difference),
            is_step,
            seconds: effort.map(|effort| effort.seconds),
            built: effort.map(|effort| effort.built),
        }
    }

    /// One commit as it is told while the search goes on.
    pub fn told(&self, commit: usize) -> MeasuredCommit {
        let facts =
            CommitFacts { commit: self.plan.revisions[commit].commit.clone(), ..CommitFacts::default() };
        let good = self.survey.record.lineage.good;
        self.measured(commit, facts, Some(good).filter(|good| *good != commit), false)
    }

    fn effort(&self) -> TotalEffort {
        let survey = self.survey;
        let commits = 0..survey.record.lineage.parents.len();
        let mut total = TotalEffort::default();
        for known in commits.filter_map(|commit| survey.known.of(commit)) {
            match known {
                Known::Samples(samples) => {
                    total.measured += 1;
                    total.runs += samples.len();
                }
                Known::Skipped => total.skipped += 1,
            }
        }
        for effort in &survey.record.efforts {
            total.built += usize::from(effort.built);
            total.seconds += effort.seconds;
        }
        total
    }
}

fn replays(report: &SearchReport, record: &SearchRecord) -> Vec<Replay> {
    let replay = |shows: &str, line: String| Replay { shows: shows.to_owned(), line };
    let mut lines = vec![replay("this again", format!("cargo memprof report {}", report.id))];
    // A few are enough: the other steps are compared in the same way.
    for step in report.steps.iter().take(3) {
        let line =
            replay::comparison(&report.command, &record.arguments, step.before.short(), step.commit.short());
        lines.push(replay("the two commits", line));
        if step.kind == StepKind::Commit && report.find != Some(Find::All) && report.find.is_some() {
            lines.push(replay("what it changed", format!("git show {}", step.commit.short())));
        }
    }
    lines
}

/// All that was measured of the two commits of each step, as a comparison of these two. Of a history there are none: its table
/// has one metric of many commits.
pub fn comparisons(
    report: &SearchReport,
    plan: &Plan,
    folder: &RunFolder,
    cell: &CellId,
) -> anyhow::Result<Vec<Comparison>> {
    if report.result.is_none() {
        return Ok(Vec::new());
    }
    let builds = stored::builds_of(folder)?;
    let index = |facts: &CommitFacts| plan.revisions.iter().position(|one| one.commit == facts.commit);
    let mut comparisons = Vec::new();
    for step in &report.steps {
        let (Some(before), Some(after)) = (index(&step.before), index(&step.commit)) else { continue };
        let mut runs = Vec::new();
        let mut of_two = stored::Builds::new();
        for (revision, original) in [before, after].into_iter().enumerate() {
            for mut run in stored::runs_of(folder, plan, original, cell)? {
                run.record.revision = revision;
                runs.push(run);
            }
            of_two.extend(builds.get(&original).map(|facts| (revision, facts.clone())));
        }
        let two = Plan {
            revisions: vec![plan.revisions[before].clone(), plan.revisions[after].clone()],
            baseline: 0,
            ..plan.clone()
        };
        let environment = stored::environment_of(folder)?;
        comparisons.push(compare(&Results {
            plan: two,
            environment,
            builds: of_two,
            traces: BTreeMap::new(),
            runs,
            notes: Vec::new(),
            apart: BTreeMap::new(),
        }));
    }
    Ok(comparisons)
}
