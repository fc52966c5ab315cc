//! Builds the report of a search from its observations and its answer.

use std::collections::{BTreeMap, BTreeSet};

use crate::bisect::commit_runner::CommitRunner;
use crate::bisect::history::{self, Predecessor};
use crate::bisect::linear_search::{Answer, HistoryStep, SearchGoal, StepKind};
use crate::bisect::merge_search::Merges;
use crate::bisect::observations::{ChangeRule, HasChanged, Observation, Observations};
use crate::bisect::record::Task;
use crate::bisect::replay;
use crate::bisect::report_data::{
    self, Candidate, FoundStep, MeasuredCommit, NamedCommit, Replay, SearchReport, SearchResult, TotalEffort,
};
use crate::bisect::step_comparison::{ComparedStep, StepPair};
use crate::bisect::track::Track;
use memprof_build::git::commits::{self, CommitFacts};
use memprof_build::git::lineage::Lineage;
use memprof_build::git::repository::Repository;
use memprof_judge::compare::comparison::Delta;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::why::explanations::Inquiry;
use memprof_plan::metric::Unit;
use memprof_plan::resolved::{CellId, Plan};
use memprof_support::counted::counted;

/// Builds the report of a [`SearchOutcome`].
pub struct ReportBuilder<'a> {
    /// The commits and their observations.
    pub runner: &'a CommitRunner<'a>,
    /// Which of the record's tests it is.
    pub test: usize,
    pub plan: &'a Plan,
    /// The repository, for names and dates of commits.
    pub repository: &'a Repository,
}

/// What a search found. Commits are indices into the plan's revisions.
pub struct SearchOutcome {
    /// The result of a bisection; `None` in a history.
    pub result: Option<SearchResult>,
    pub steps: Vec<HistoryStep>,
    /// How many commits of a history noise leaves undecided.
    pub unclear: usize,
    /// The commits to list, ancestors first.
    pub listed: Vec<usize>,
    /// For each listed commit, the commit to compare it with.
    pub compared_with: BTreeMap<usize, usize>,
}

impl SearchOutcome {
    /// Returns the outcome of a bisection.
    pub fn of_bisection(answer: Answer, lineage: &Lineage, observations: &Observations) -> Self {
        let (result, mut steps) = match answer {
            Answer::Steps(steps) => (SearchResult::Found, steps),
            Answer::Same => (SearchResult::Same, Vec::new()),
            Answer::Unclear | Answer::Unmeasured => (SearchResult::Unclear, Vec::new()),
        };
        steps.sort_by_key(|step| step.after);
        let commits = 0..lineage.parents.len();
        let listed: Vec<usize> = commits.filter(|&commit| observations.get(commit).is_some()).collect();
        let compared_with =
            listed.iter().filter(|&&commit| commit != lineage.good).map(|&commit| (commit, lineage.good));
        Self { result: Some(result), steps, unclear: 0, compared_with: compared_with.collect(), listed }
    }

    /// Returns the outcome of a history in which every commit was measured. `changes` are theirs. A step after
    /// commits that have no figure is one of these, too.
    pub fn of_history(
        commits: &[usize],
        changes: &[Option<HasChanged>],
        lineage: &Lineage,
        merges: Merges,
        observations: &Observations,
    ) -> Self {
        let predecessors = history::predecessors(lineage, commits, merges, observations);
        let mut steps = Vec::new();
        let mut compared_with = BTreeMap::new();
        for ((&after, change), before) in commits.iter().zip(changes).zip(predecessors) {
            let Some(Predecessor { commit: before, between }) = before else { continue };
            compared_with.insert(after, before);
            if let Some(change) = change.filter(|change| *change == HasChanged::Yes) {
                let kind = StepKind::of_gap(&between);
                steps.push(HistoryStep { before, after, between, kind, change, other_side: 0 });
            }
        }
        let unclear = changes.iter().filter(|change| **change == Some(HasChanged::Unclear)).count();
        Self { result: None, steps, unclear, listed: commits.to_vec(), compared_with }
    }
}

impl ReportBuilder<'_> {
    fn track(&self) -> &Track {
        &self.runner.tracks[self.test]
    }

    /// Builds the report.
    ///
    /// # Errors
    ///
    /// Git cannot read a commit.
    pub fn report(&self, outcome: &SearchOutcome, rule: &ChangeRule) -> anyhow::Result<SearchReport> {
        let record = &self.runner.record;
        let facts = self.facts(outcome)?;
        let cell = &record.cells[self.test].cell;
        let observations = &self.track().observations;
        let (find, first_parent) = match &record.task {
            Task::Bisect { find, merges } => (Some(*find), *merges == Merges::Name),
            Task::History { .. } | Task::Prove(_) => (None, false),
        };
        let (good, bad) = (record.lineage.good, record.lineage.bad);
        let end = |commit: usize, name: &str| NamedCommit {
            name: name.to_owned(),
            facts: facts[&commit].clone(),
            value: observations.figure(commit),
        };
        let mut report = SearchReport {
            version: report_data::VERSION,
            tool: self.plan.tool.clone(),
            id: self.plan.id.clone(),
            created: self.plan.created.clone(),
            command: record.task.command().to_owned(),
            find,
            result: outcome.result,
            test: cell.full_name(),
            title: cell.title.clone(),
            params: cell.params.clone(),
            query: record.query.clone(),
            unit: Unit::of_metric(&record.query.metric),
            threshold: rule.threshold(observations).clone(),
            good: end(good, &record.good),
            bad: end(bad, &record.bad),
            commits: record.lineage.commits(),
            first_parent,
            paths: record.paths.clone(),
            lockfile: record.lockfile.clone(),
            steps: self.steps(outcome, &facts)?,
            unclear: outcome.unclear,
            measured: self.all_measured(outcome, &facts),
            effort: self.effort(),
            replay: Vec::new(),
        };
        report.replay = replays(&report, &record.arguments);
        Ok(report)
    }

    /// Reads the name and date of every commit that the report mentions.
    fn facts(&self, outcome: &SearchOutcome) -> anyhow::Result<BTreeMap<usize, CommitFacts>> {
        let lineage = &self.runner.record.lineage;
        let mut mentioned: BTreeSet<usize> = outcome.listed.iter().copied().collect();
        mentioned.extend([lineage.good, lineage.bad]);
        for step in &outcome.steps {
            mentioned.extend([step.before, step.after]);
            mentioned.extend(step.between.iter().copied());
        }
        let hashes: Vec<&str> =
            mentioned.iter().map(|&commit| self.plan.revisions[commit].commit.as_str()).collect();
        Ok(mentioned.iter().copied().zip(commits::facts(self.repository, &hashes)?).collect())
    }

    fn steps(
        &self,
        outcome: &SearchOutcome,
        facts: &BTreeMap<usize, CommitFacts>,
    ) -> anyhow::Result<Vec<FoundStep>> {
        outcome.steps.iter().map(|step| self.step(step, facts)).collect()
    }

    fn step(&self, step: &HistoryStep, facts: &BTreeMap<usize, CommitFacts>) -> anyhow::Result<FoundStep> {
        let value = |commit| self.track().observations.figure(commit).unwrap_or_default();
        let with_other_side = i128::from(value(step.before)) + step.other_side;
        let value_before = i64::try_from(with_other_side).unwrap_or(i64::MAX);
        let delta = Delta::between(value_before, value(step.after));
        let hash = |commit: usize| self.plan.revisions[commit].commit.as_str();
        let candidate = |&commit: &usize| Candidate {
            facts: facts[&commit].clone(),
            skipped: self.track().reasons.get(&commit).cloned(),
        };
        let among = step.between.iter().chain([&step.after]);
        let candidates =
            if step.kind == StepKind::Commit { Vec::new() } else { among.map(candidate).collect() };
        Ok(FoundStep {
            kind: step.kind,
            change: step.change,
            commit: facts[&step.after].clone(),
            before: facts[&step.before].clone(),
            value_before,
            other_side: Some(step.other_side).filter(|side| *side != 0),
            value: value(step.after),
            difference: delta.difference,
            percent: delta.percent,
            files: self.repository.changed_paths(hash(step.before), hash(step.after))?,
            candidates,
        })
    }

    fn all_measured(
        &self,
        outcome: &SearchOutcome,
        facts: &BTreeMap<usize, CommitFacts>,
    ) -> Vec<MeasuredCommit> {
        let measured = |&commit: &usize| {
            let is_step = outcome.steps.iter().any(|step| step.after == commit);
            let compared_with = outcome.compared_with.get(&commit).copied();
            self.measured(commit, facts[&commit].clone(), compared_with, is_step)
        };
        outcome.listed.iter().map(measured).collect()
    }

    fn measured(
        &self,
        commit: usize,
        facts: CommitFacts,
        compared_with: Option<usize>,
        is_step: bool,
    ) -> MeasuredCommit {
        let (runner, track) = (self.runner, self.track());
        let effort = runner.record.efforts.iter().find(|effort| effort.commit == commit);
        let value = track.observations.figure(commit);
        let before = compared_with.and_then(|before| track.observations.figure(before));
        let tag = match &runner.record.task {
            Task::History { tags, .. } => {
                tags.iter().find(|(tagged, _)| *tagged == commit).map(|(_, name)| name.clone())
            }
            Task::Bisect { .. } | Task::Prove(_) => None,
        };
        MeasuredCommit {
            facts,
            tag,
            value,
            samples: track.observations.samples(commit).unwrap_or_default().to_vec(),
            skipped: track.reasons.get(&commit).cloned(),
            compared_with: compared_with.map(|before| self.plan.revisions[before].commit.clone()),
            difference: before.zip(value).map(|(before, value)| Delta::between(before, value).difference),
            is_step,
            seconds: effort.map(|effort| effort.seconds),
            built: effort.map(|effort| effort.built),
        }
    }

    /// Returns a commit's measurement for a progress line, compared with the good commit.
    pub fn progress(&self, commit: usize) -> MeasuredCommit {
        let facts =
            CommitFacts { commit: self.plan.revisions[commit].commit.clone(), ..CommitFacts::default() };
        let good = self.runner.record.lineage.good;
        self.measured(commit, facts, Some(good).filter(|good| *good != commit), false)
    }

    fn effort(&self) -> TotalEffort {
        let (runner, track) = (self.runner, self.track());
        let mut total = measured(&runner.record.lineage, &track.observations);
        for effort in &runner.record.efforts {
            total.built += usize::from(effort.built);
            total.seconds += effort.seconds;
        }
        total
    }
}

/// Counts the commits with figures, those without, and the runs.
fn measured(lineage: &Lineage, observations: &Observations) -> TotalEffort {
    let mut total = TotalEffort::default();
    for commit in 0..lineage.parents.len() {
        match observations.get(commit) {
            Some(Observation::Samples(samples)) => {
                total.measured += 1;
                total.forks += usize::from(commit < lineage.edge && commit != lineage.good);
                total.runs += samples.len();
            }
            Some(Observation::Skipped) => total.skipped += 1,
            None => {}
        }
    }
    total
}

/// The most steps whose comparisons are named. The commands of the others differ only in the commits.
const MOST_COMPARED: usize = 3;

fn replays(report: &SearchReport, arguments: &[String]) -> Vec<Replay> {
    let replay = |shows: &str, line: String| Replay { shows: shows.to_owned(), line };
    let mut lines = vec![replay("show this report again", format!("cargo memprof report {}", report.id))];
    let compared = |before: &str, after: &str| replay::comparison(&report.command, arguments, before, after);
    for step in report.steps.iter().take(MOST_COMPARED) {
        let line = compared(step.before.short(), step.commit.short());
        lines.push(replay("compare the two commits", line));
        if step.kind == StepKind::Commit && report.find != Some(SearchGoal::All) && report.find.is_some() {
            lines.push(replay("show the change", format!("git show {}", step.commit.short())));
        }
    }
    if let Some(more) = report.steps.len().checked_sub(MOST_COMPARED).filter(|more| *more > 0) {
        let shows = format!("compare the two commits of {}", counted(more, "further step"));
        lines.push(replay(&shows, compared("BEFORE", "AFTER")));
    }
    lines
}

/// Returns a full comparison of the two commits of each step of one of the search's tests, with the
/// call sites that are asked for.
pub fn compared_steps(
    report: &SearchReport,
    plan: &Plan,
    folder: &RunFolder,
    (test, cell): (usize, &CellId),
    inquiry: Option<&Inquiry>,
) -> anyhow::Result<Vec<ComparedStep>> {
    let show = inquiry.map(|inquiry| (&report.query, inquiry));
    let pairs = report.steps.iter().filter_map(|step| StepPair::find(report, test, step, plan, folder));
    pairs.map(|pair| pair.compare(plan, folder, cell, show)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_build::git::lineage::samples::lineage;

    #[test]
    fn a_fork_before_the_range_counts_apart() {
        // 0 is where a branch forked before 1, the good commit.
        let lineage = Lineage { edge: 2, good: 1, ..lineage(&[&[], &[], &[1], &[0], &[2, 3]]) };
        let mut observations = Observations::new(5);
        for commit in 0..4 {
            observations.record(commit, Observation::Samples(vec![10, 10]));
        }
        observations.record(4, Observation::Skipped);
        let total = measured(&lineage, &observations);
        assert_eq!((total.measured, total.forks, total.skipped, total.runs), (4, 1, 1, 8));
    }

    #[test]
    fn the_comparisons_of_further_steps_are_told_in_one_line() {
        let facts = |commit: &str| {
            serde_json::json!({
                "commit": commit, "subject": "", "author": "", "date": "", "parents": [],
            })
        };
        let step = |number: usize| {
            let mut step = facts(&format!("b{number}"));
            let more = serde_json::json!({
                "kind": "commit", "change": "yes", "before": facts(&format!("a{number}")), "value_before": 0,
                "value": 1, "difference": 1, "percent": null, "files": [], "candidates": [],
            });
            step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            step
        };
        let end = || {
            let mut end = facts("v");
            end["name"] = "v".into();
            end["value"] = 0.into();
            end
        };
        let lines = |steps: usize| {
            let report = serde_json::json!({
                "version": 1, "tool": "", "id": "ID", "created": "", "command": "bisect", "find": "all",
                "result": "found", "test": "p::b::t", "title": "t", "params": [], "metric": "heap.peak",
                "checkpoint": null, "unit": "bytes", "threshold": {}, "good": end(), "bad": end(),
                "commits": 9, "first_parent": false, "paths": [], "measured": [], "replay": [],
                "steps": (0..steps).map(step).collect::<Vec<_>>(),
                "effort": {"measured": 0, "skipped": 0, "built": 0, "runs": 0, "seconds": 0.0},
            });
            let report = serde_json::from_value(report).unwrap();
            let arguments = ["bisect", "a..b", "--exact", "t"].map(str::to_owned);
            let lines = replays(&report, &arguments).into_iter().skip(1);
            lines.map(|replay| format!("{}: {}", replay.shows, replay.line)).collect::<Vec<_>>()
        };
        assert_eq!(lines(3).len(), 3);
        assert_eq!(
            lines(5).last().unwrap(),
            "compare the two commits of 2 further steps: cargo memprof --refs BEFORE,AFTER --exact t"
        );
        assert_eq!(lines(5).len(), 4);
    }

    #[test]
    fn a_step_of_a_history_after_commits_without_a_figure_names_all_of_them() {
        let lineage = lineage(&[&[], &[0], &[1], &[2], &[3]]);
        let mut observations = Observations::new(5);
        observations.record(0, Observation::Samples(vec![10]));
        observations.record(1, Observation::Skipped);
        observations.record(3, Observation::Samples(vec![30]));
        observations.record(4, Observation::Samples(vec![50]));
        // Not even tried: 2, as with `--every`.
        let changes = [None, None, Some(HasChanged::Yes), Some(HasChanged::Yes)];
        let outcome =
            SearchOutcome::of_history(&[0, 1, 3, 4], &changes, &lineage, Merges::Enter, &observations);
        let steps: Vec<_> = outcome
            .steps
            .into_iter()
            .map(|step| (step.before, step.between, step.after, step.kind))
            .collect();
        assert_eq!(steps, [(0, vec![1, 2], 3, StepKind::Skipped), (3, vec![], 4, StepKind::Commit)]);
    }

    #[test]
    fn commits_outside_the_paths_may_have_made_a_step_of_a_history_too() {
        // With paths, 2 and 4 are not measured, for only 1, 3 and 5 touch them.
        let lineage = Lineage {
            touching: Some([(0, 1), (2, 3), (4, 5)].into_iter().collect()),
            ..lineage(&[&[], &[0], &[1], &[2], &[3], &[4]])
        };
        let steps = |figures: &[(usize, Option<i64>)]| {
            let mut observations = Observations::new(6);
            for (commit, figure) in figures {
                let samples = figure.map(|figure| Observation::Samples(vec![figure]));
                observations.record(*commit, samples.unwrap_or(Observation::Skipped));
            }
            let commits: Vec<usize> = figures.iter().map(|(commit, _)| *commit).collect();
            let changes = vec![Some(HasChanged::Yes); commits.len()];
            let outcome =
                SearchOutcome::of_history(&commits, &changes, &lineage, Merges::Enter, &observations);
            let steps = outcome.steps.into_iter();
            steps.map(|step| (step.before, step.between, step.after, step.kind)).collect::<Vec<_>>()
        };
        let first = (0, vec![], 1, StepKind::Commit);
        let all = [(0, Some(10)), (1, Some(30)), (3, Some(50)), (5, Some(70))];
        let gaps = [first.clone(), (1, vec![2], 3, StepKind::Skipped), (3, vec![4], 5, StepKind::Skipped)];
        assert_eq!(steps(&all), gaps);
        let broken = [(0, Some(10)), (1, Some(30)), (3, None), (5, Some(50))];
        assert_eq!(steps(&broken), [first, (1, vec![2, 3, 4], 5, StepKind::Skipped)]);
    }
}
