//! The answer of `prove`, as data: what each part of a diff costs. It is stored in `found.json` and shown
//! in reports.

use serde::{Deserialize, Serialize};

use crate::bisect::metric_query::MetricQuery;
use crate::bisect::observations::{ChangeRule, Observations};
use crate::bisect::parts::measurement::{PartMeasurement, Share};
use crate::bisect::parts::record::{DiffPart, HunkPlace, PartsSearch};
use crate::bisect::record::SearchRecord;
use crate::bisect::replay;
use crate::bisect::report_data::{NamedCommit, Replay, SearchResult, TotalEffort};
use crate::bisect::track::Track;
use memprof_build::git::commits::CommitFacts;
use memprof_judge::why::class::Class;
use memprof_judge::why::difference::{Difference, Group, GroupKind};
use memprof_plan::metric::Unit;
use memprof_plan::quantity::Threshold;
use memprof_plan::resolved::Plan;

/// The version of the format of `found.json`, which is the JSON report's.
pub const VERSION: u32 = 1;

/// What each part of a diff costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofReport {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The tool's version.
    pub tool: String,
    /// The run's name, which is also its folder's.
    pub id: String,
    /// When it began, RFC 3339.
    pub created: String,
    /// The test, `package::binary::test`.
    pub test: String,
    /// The name in reports.
    pub title: String,
    /// The parameters.
    pub params: Vec<(String, String)>,
    /// The metric and its checkpoint.
    #[serde(flatten)]
    pub query: MetricQuery,
    /// The unit of the figures.
    pub unit: Unit,
    /// Smaller differences are ignored.
    pub threshold: Threshold,
    /// The commit without the diff.
    pub baseline: NamedCommit,
    /// The commit with the diff.
    pub candidate: NamedCommit,
    /// Whether the ends differ by more than the threshold.
    pub result: SearchResult,
    /// The candidate's figure minus the baseline's. The differences below add up to it.
    pub difference: i128,
    /// The parts that make a difference, the largest first.
    pub parts: Vec<ProvenPart>,
    /// The parts that make no difference.
    pub rest: PartGroup,
    /// Groups of parts that could not be told apart.
    pub open: Vec<PartGroup>,
    /// What the parts share.
    pub together: i128,
    /// Whether the search ended because of `--builds`.
    pub out_of_builds: bool,
    /// The time and the runs that the search took.
    pub effort: TotalEffort,
    /// Command lines that show the result again.
    pub replay: Vec<Replay>,
}

/// A part that makes a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenPart {
    pub hunks: Vec<HunkPlace>,
    /// The candidate's figure minus that of the candidate without the part. If the part cannot be left out,
    /// the difference that it makes when it is added to the parts before it.
    pub difference: i128,
    /// Why the part cannot be left out; absent if it was.
    pub reason: Option<String>,
    /// The baseline's figure with the part minus the baseline's, if this was measured.
    pub alone: Option<i128>,
    /// The number of parts that need this one. They are left out on both sides of its difference.
    pub needed_by: usize,
    /// The unchanged function in which call sites show the difference.
    pub shows_in: Option<String>,
    /// The commit without the part, written by the tool.
    pub without: String,
}

/// Parts with one figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartGroup {
    /// The hunks of each part.
    pub parts: Vec<Vec<HunkPlace>>,
    pub difference: i128,
    /// Why they could not be told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl PartGroup {
    /// The number of hunks of all parts.
    pub fn count_hunks(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }
}

/// What a proof is made of.
pub struct ProofBuilder<'a> {
    /// What the user asked.
    pub record: &'a SearchRecord,
    /// The parts and their commits.
    pub search: &'a PartsSearch,
    /// What was observed.
    pub track: &'a Track,
    /// The commits.
    pub plan: &'a Plan,
    /// What counts as a difference.
    pub rule: &'a ChangeRule,
    /// The call sites of the difference, if they were recorded.
    pub sites: Option<&'a Difference>,
}

/// Returns the largest difference that does not count.
pub fn limit(rule: &ChangeRule, observations: &Observations) -> i128 {
    let threshold = rule.threshold(observations);
    let baseline = observations.median(0).unwrap_or_default();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a limit in percent is no exact figure"
    )]
    let percent = threshold.percent.map_or(0, |percent| (baseline as f64 * percent / 100.0) as i128);
    percent.max(threshold.bytes.map_or(0, i128::from))
}

/// Returns the parts that call sites point to, those with the largest difference first.
pub fn suspects(search: &PartsSearch, sites: &Difference) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for group in &sites.groups {
        let hunk = group.class.as_ref().and_then(|class| class.hunk());
        let Some(at) = hunk.filter(|_| sites.of_group(group) != 0) else { continue };
        let line = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
        for part in search.parts_at(&at.path, &(line(at.hunk.new.start)..line(at.hunk.new.end))) {
            if !found.contains(&part) {
                found.push(part);
            }
        }
    }
    found
}

impl ProofBuilder<'_> {
    /// Returns the report; `None` if an end has no figure.
    pub fn report(&self) -> Option<ProofReport> {
        let Self { record, search, track, plan, rule, .. } = self;
        let observations = &track.observations;
        let limit = limit(rule, observations);
        let measurement = PartMeasurement { search, observations, limit, suspects: &self.suspects() };
        let shares = measurement.shares()?;
        let cell = &record.cells.first()?.cell;
        let has_difference = shares.whole.abs() > limit;
        let out_of_builds =
            has_difference && measurement.builds() >= search.most_builds && !shares.open.is_empty();
        let part = |index: usize| &search.parts[index];
        let group = |share: &Share, reason: Option<String>| PartGroup {
            parts: share.parts.iter().map(|index| part(*index).hunks.clone()).collect(),
            difference: share.difference,
            reason,
        };
        let parts = shares.parts.iter().map(|share| {
            let DiffPart { hunks, needed_by } = part(share.part);
            ProvenPart {
                hunks: hunks.clone(),
                difference: share.difference,
                reason: (!share.is_left_out).then(|| self.reason_of(share.part)),
                alone: share.alone,
                needed_by: needed_by.len(),
                shows_in: self.shows_in(share.part, share.difference),
                without: plan.revisions[search.without[share.part]].commit.clone(),
            }
        });
        let open = shares.open.iter().map(|share| {
            let reason = if out_of_builds {
                format!("not told apart within --builds {}", search.most_builds)
            } else {
                self.reason_between(&share.parts)
            };
            group(share, Some(reason))
        });
        let end = |commit: usize, name: &str| NamedCommit {
            name: name.to_owned(),
            facts: CommitFacts {
                commit: plan.revisions[commit].commit.clone(),
                subject: plan.revisions[commit].subject.clone(),
                ..CommitFacts::default()
            },
            value: observations.median(commit),
        };
        let mut report = ProofReport {
            version: VERSION,
            tool: plan.tool.clone(),
            id: plan.id.clone(),
            created: plan.created.clone(),
            test: cell.full_name(),
            title: cell.title.clone(),
            params: cell.params.clone(),
            query: record.query.clone(),
            unit: Unit::of_metric(&record.query.metric),
            threshold: rule.threshold(observations).clone(),
            baseline: end(0, &record.good),
            candidate: end(search.count(), &record.bad),
            result: if has_difference { SearchResult::Found } else { SearchResult::Same },
            difference: shares.whole,
            parts: if has_difference { parts.collect() } else { Vec::new() },
            rest: group(&shares.rest, None),
            open: open.collect(),
            together: shares.together,
            out_of_builds,
            effort: self.effort(),
            replay: Vec::new(),
        };
        report.replay = self.replays(&report);
        Some(report)
    }

    fn suspects(&self) -> Vec<usize> {
        self.sites.map(|sites| suspects(self.search, sites)).unwrap_or_default()
    }

    /// Why a part cannot be left out.
    fn reason_of(&self, part: usize) -> String {
        let commits = [self.search.without[part], self.search.before[part]];
        let reason = commits.iter().find_map(|commit| self.track.reasons.get(commit));
        reason.cloned().unwrap_or_else(|| "it was not left out".to_owned())
    }

    /// Why neighbours in the chain could not be told apart.
    fn reason_between(&self, parts: &[usize]) -> String {
        let reason = parts.iter().find_map(|part| self.track.reasons.get(&(part + 1)));
        reason.map_or_else(
            || "each of them is within the threshold".to_owned(),
            |reason| format!("with only some of them: {reason}"),
        )
    }

    /// The unchanged function in which call sites show a part's difference: those of one function differ by
    /// as much, and their code is not in the diff.
    fn shows_in(&self, part: usize, difference: i128) -> Option<String> {
        let sites = self.sites?;
        let is_elsewhere = |group: &&Group| {
            let own = group.class.as_ref().and_then(|class| class.hunk());
            let path = own.map(|at| at.path.as_str());
            !self.search.parts[part].hunks.iter().any(|hunk| Some(hunk.path.as_str()) == path)
        };
        // Allocators round, and a part may change some small blocks, too.
        let is_as_much =
            |group: &&Group| (i128::from(sites.of_group(group)) - difference).abs() * 100 <= difference.abs();
        let group = sites.groups.iter().filter(is_elsewhere).find(is_as_much)?;
        match (&group.kind, &group.class) {
            // Its own code is in the diff.
            (_, Some(Class::Changed(..))) => None,
            (GroupKind::Sites { name, .. }, _) => Some(name.clone()),
            _ => None,
        }
    }

    fn effort(&self) -> TotalEffort {
        let mut total = TotalEffort::default();
        for commit in 0..self.plan.revisions.len() {
            match self.track.observations.samples(commit) {
                Some(samples) => {
                    total.measured += 1;
                    total.runs += samples.len();
                }
                None => total.skipped += usize::from(self.track.observations.get(commit).is_some()),
            }
        }
        for effort in &self.record.efforts {
            total.built += usize::from(effort.built);
            total.seconds += effort.seconds;
        }
        total
    }

    fn replays(&self, report: &ProofReport) -> Vec<Replay> {
        let replay = |shows: &str, line: String| Replay { shows: shows.to_owned(), line };
        let mut lines = vec![replay("show this report again", format!("cargo memprof report {}", report.id))];
        if let Some(part) = report.parts.iter().find(|part| part.reason.is_none()) {
            let (before, after) =
                (part.without.get(..12).unwrap_or_default(), report.candidate.facts.short());
            let line = replay::comparison("prove", &self.record.arguments, before, after);
            lines.push(replay("compare with and without the first part", line));
        }
        lines
    }
}
