//! The answer of `prove`, as data: what each part of a diff costs. It is stored in `found.json` and shown
//! in reports.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::bisect::metric_query::MetricQuery;
use crate::bisect::observations::{ChangeRule, HasChanged};
use crate::bisect::parts::measurement::{Judged, PartMeasurement};
use crate::bisect::parts::record::{BASELINE, CANDIDATE, DiffPart, HunkPlace, PartsSearch};
use crate::bisect::parts::shares::{PartShare, Share, Way};
use crate::bisect::parts::suspects;
use crate::bisect::record::SearchRecord;
use crate::bisect::replay;
use crate::bisect::report_data::{NamedCommit, Replay, SearchResult, TotalEffort};
use crate::bisect::track::Track;
use memprof_build::git::commits::CommitFacts;
use memprof_judge::why::difference::Difference;
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
    /// The threshold between these two commits, in the metric's unit, and at least the measurement error.
    pub limit: u64,
    /// The commit without the diff.
    pub baseline: NamedCommit,
    /// The commit with the diff.
    pub candidate: NamedCommit,
    /// Whether the ends differ by more than the threshold.
    pub result: SearchResult,
    /// The candidate's figure minus the baseline's. The differences below add up to it.
    pub difference: i128,
    /// Whether figures vary between runs of one commit. Each figure is then the median of its commit's runs.
    pub varies: bool,
    /// The bounds of the difference, if figures vary.
    pub interval: Option<[i128; 2]>,
    /// The parts that make a difference, the largest first.
    pub parts: Vec<ProvenPart>,
    /// The parts that make no difference.
    pub rest: PartGroup,
    /// Groups of parts that could not be told apart.
    pub open: Vec<PartGroup>,
    /// What the parts share.
    pub together: i128,
    /// The candidate without all parts that make a difference, if there are several.
    pub without_all: Option<WithoutAll>,
    /// Whether the search ended because of `--builds`.
    pub out_of_builds: bool,
    /// How often the compiler checked whether the rest compiles without some hunks.
    pub checks: usize,
    /// The number of hunks that stayed together because of the limit on checks.
    #[serde(default)]
    pub unseparated: usize,
    /// The time and the runs that the search took.
    pub effort: TotalEffort,
    /// Command lines that show the result again.
    pub replay: Vec<Replay>,
}

/// A part that makes a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenPart {
    /// Where its hunks are. The one that call sites point to comes first, or else the one that says most.
    pub hunks: Vec<HunkPlace>,
    /// The candidate's figure minus that of the candidate without the part. If the part cannot be left out,
    /// the difference that it makes when it is added to others.
    pub difference: i128,
    /// Whether the candidate without the part was measured, and differs by more than the threshold.
    pub proven: bool,
    /// The bounds of the difference, if figures vary.
    pub interval: Option<[i128; 2]>,
    /// Why the part cannot be left out; absent if it was.
    pub reason: Option<String>,
    /// The baseline's figure with the part minus the baseline's, if this was measured. Both have what the part
    /// needs.
    pub alone: Option<i128>,
    /// The number of parts that need this one. They are left out on both sides of its difference.
    pub needed_by: usize,
    /// Whether those parts cannot be left out without this one, so that the difference is that of all of them.
    pub with_users: bool,
    /// The function in which call sites show the difference, if it is not in the part.
    pub shows_in: Option<String>,
    /// Where this function is, if a part that this one needs has changed it.
    pub shows_at: Option<HunkPlace>,
    /// The commit without the part, written by the tool.
    pub without: String,
    /// The commit that it is compared with: the candidate, or what is left of it without those that need the
    /// part.
    pub with: String,
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

/// What leaving out all parts that make a difference saves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithoutAll {
    /// The number of parts that are left out, apart from those that need them.
    pub parts: usize,
    /// The candidate's figure minus that of the candidate without them.
    pub difference: i128,
    /// Whether the difference exceeds the threshold.
    pub proven: bool,
    /// The commit without them, written by the tool.
    pub commit: String,
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
    /// Commits whose further runs fail.
    pub exhausted: &'a BTreeSet<usize>,
}

impl ProofBuilder<'_> {
    /// Returns the report; `None` if an end has no figure.
    pub fn report(&self) -> Option<ProofReport> {
        let Self { record, search, track, plan, rule, exhausted, .. } = self;
        let observations = &track.observations;
        let suspects = &self.suspects();
        let judged = Judged::default();
        let measurement = &PartMeasurement { search, observations, rule, suspects, exhausted, judged };
        let shares = measurement.shares()?;
        let cell = &record.cells.first()?.cell;
        let result = match measurement.change(BASELINE, CANDIDATE) {
            HasChanged::Yes => SearchResult::Found,
            HasChanged::No => SearchResult::Same,
            HasChanged::Unclear => SearchResult::Unclear,
        };
        let is_found = result == SearchResult::Found;
        let out_of_builds = is_found && measurement.builds() >= search.most_builds && !shares.open.is_empty();
        let hunks = |index: &usize| self.hunks(*index);
        let group = |share: &Share, reason: Option<String>| PartGroup {
            parts: share.parts.iter().map(hunks).collect(),
            difference: share.difference,
            reason,
        };
        let open = shares.open.iter().map(|share| {
            let reason = if out_of_builds {
                format!("not told apart within --builds {}", search.most_builds)
            } else {
                self.reason_between(measurement, &share.parts)
            };
            group(share, Some(reason))
        });
        let commit = |index: usize| plan.revisions[index].commit.clone();
        let end = |index: usize, name: &str| NamedCommit {
            name: name.to_owned(),
            facts: CommitFacts {
                commit: commit(index),
                subject: plan.revisions[index].subject.clone(),
                ..CommitFacts::default()
            },
            value: observations.figure(index),
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
            limit: u64::try_from(measurement.limit()).unwrap_or_default(),
            baseline: end(BASELINE, &record.good),
            candidate: end(CANDIDATE, &record.bad),
            result,
            difference: shares.whole,
            varies: !observations.is_exact(),
            interval: bounds(measurement, BASELINE, CANDIDATE),
            parts: shares.parts.iter().map(|share| self.part(measurement, share)).collect(),
            rest: group(&shares.rest, None),
            open: open.collect(),
            together: shares.together,
            without_all: shares.without_all.map(|without| WithoutAll {
                parts: measurement.left_out().len(),
                difference: measurement.difference(without, CANDIDATE).unwrap_or_default(),
                proven: measurement.is_proven(without, CANDIDATE),
                commit: commit(without),
            }),
            out_of_builds,
            checks: search.checks,
            unseparated: search.unseparated,
            effort: self.effort(),
            replay: Vec::new(),
        };
        if !is_found {
            // Without a difference, no part has one.
            (report.parts, report.open, report.rest) = Default::default();
            (report.together, report.without_all) = (0, None);
        }
        report.replay = self.replays(&report);
        Some(report)
    }

    fn part(&self, measurement: &PartMeasurement<'_>, share: &PartShare) -> ProvenPart {
        let PartShare { part, cost, alone } = share;
        let DiffPart { needed_by, .. } = &self.search.parts[*part];
        let is_left_out = cost.way != Way::Added;
        let shown = self.shows_in(*part, cost.difference);
        let commit = |index: usize| self.plan.revisions[index].commit.clone();
        ProvenPart {
            hunks: self.hunks(*part),
            difference: cost.difference,
            proven: is_left_out && measurement.is_proven(cost.before, cost.after),
            interval: bounds(measurement, cost.before, cost.after),
            reason: (!is_left_out).then(|| self.reason_of(*part)),
            alone: *alone,
            needed_by: needed_by.len(),
            with_users: cost.way == Way::LeftOutWithUsers,
            shows_in: shown.as_ref().map(|(function, _)| function.clone()),
            shows_at: shown.and_then(|(_, place)| place),
            without: commit(cost.before),
            with: commit(cost.after),
        }
    }

    fn suspects(&self) -> Vec<usize> {
        self.sites.map(|sites| suspects::parts(self.search, sites)).unwrap_or_default()
    }

    /// Returns a part's hunks, first those that call sites point to.
    fn hunks(&self, part: usize) -> Vec<HunkPlace> {
        let mut hunks = self.search.parts[part].hunks.clone();
        if let Some(sites) = self.sites {
            hunks.sort_by_key(|hunk| !suspects::is_pointed_at(hunk, sites));
        }
        hunks
    }

    /// Why a part cannot be left out.
    fn reason_of(&self, part: usize) -> String {
        let variants = [self.search.without(&BTreeSet::from([part])), self.search.before(part)];
        let reason = variants.iter().find_map(|kept| {
            let commit = self.search.variant(kept);
            let failed = commit.and_then(|commit| self.track.reasons.get(&commit)).map(String::as_str);
            failed.or_else(|| self.search.refusal(kept))
        });
        reason.unwrap_or("no build was left for it").to_owned()
    }

    /// Why parts could not be told apart.
    fn reason_between(&self, measurement: &PartMeasurement<'_>, parts: &[usize]) -> String {
        let splits = |kept: &BTreeSet<usize>| {
            let inside = parts.iter().filter(|part| kept.contains(part)).count();
            inside > 0 && inside < parts.len()
        };
        let mut variants = self.search.variants.iter().enumerate();
        let failed = variants
            .find_map(|(commit, kept)| self.track.reasons.get(&commit).filter(|_| splits(kept)).cloned());
        let refused = self.search.refused.iter().find(|one| splits(&one.kept)).map(|one| one.reason.clone());
        match failed.or(refused) {
            Some(reason) => format!("with only some of them: {reason}"),
            None if measurement.repeats() => "each of them is within the threshold".to_owned(),
            None => "the figures vary too much between runs".to_owned(),
        }
    }

    /// Returns the function in which call sites show a part's difference: those of one function differ by as
    /// much, and their code is not in the part. If a part that this one needs has changed the function, also
    /// where.
    fn shows_in(&self, part: usize, difference: i128) -> Option<(String, Option<HunkPlace>)> {
        let sites = self.sites?;
        let (function, place) = suspects::function_with(sites, difference, |place| {
            !self.search.parts[part].hunks.iter().any(|hunk| place.is_in(hunk))
        })?;
        let Some(place) = place else { return Some((function, None)) };
        let needed = self.search.needs(part);
        let mut hunks = needed.iter().flat_map(|other| &self.search.parts[*other].hunks);
        let hunk = hunks.find(|hunk| place.is_in(hunk))?;
        Some((function, Some(hunk.clone())))
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
        total.built = self.record.efforts.iter().filter(|effort| effort.built).count();
        #[expect(clippy::cast_precision_loss, reason = "a duration is no exact figure")]
        let seconds = self.search.milliseconds as f64 / 1000.0;
        total.seconds = seconds;
        total
    }

    fn replays(&self, report: &ProofReport) -> Vec<Replay> {
        let replay = |shows: &str, line: String| Replay { shows: shows.to_owned(), line };
        let mut lines = vec![replay("show this report again", format!("cargo memprof report {}", report.id))];
        if let Some(part) = report.parts.iter().find(|part| part.proven) {
            let short = |commit: &str| commit.get(..12).unwrap_or(commit).to_owned();
            let (before, after) = (short(&part.without), short(&part.with));
            let line = replay::comparison("prove", &self.record.arguments, &before, &after);
            lines.push(replay("compare without and with the first part", line));
        }
        lines
    }
}

/// Returns the bounds of a difference, if figures vary.
fn bounds(measurement: &PartMeasurement<'_>, before: usize, after: usize) -> Option<[i128; 2]> {
    let judged = measurement.significance(before, after).filter(|judged| !judged.exact)?;
    (!measurement.repeats()).then_some([judged.low, judged.high])
}
