//! A comparison as data: what every revision measured in each cell, and how each candidate's
//! checkpoints match the baseline's. Figures stay in their columns; the figures of a row are looked
//! up on demand.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::compare::aggregate::{Aggregate, Availability, Column, Figure};
use crate::compare::joined_intervals::{JoinedColumn, JoinedIntervals};
use crate::compare::matching::{Key, Match, RowChange};
use crate::compare::shared_rounds::SharedRounds;
use crate::compare::side_differences::SideDifference;
use crate::results::added_test::AddedTest;
use crate::results::comparability::IncomparableMetrics;
use crate::results::measurement::{Kind, Names};
use crate::results::same_code::SameCode;
use crate::results::stored::{FailedBuild, Run};
use crate::results::trace_facts::TraceFacts;
use crate::verdict::kinds::Verdict;
use crate::verdict::limits::Expected;
use crate::verdict::significance::{ENOUGH, Significance};
use memprof_plan::axis_labels::AxisLabels;
use memprof_plan::listing::NotMeasured;
use memprof_plan::metric::Unit;
use memprof_plan::random_numbers::RandomNumbers;
use memprof_plan::resolved::{CellId, Revision};
use memprof_plan::rule::{Allowance, Rule};
use memprof_plan::search_options::SearchOptions;

/// Everything that a report shows.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Comparison {
    /// The plan's name, which is also the run folder's name.
    pub id: String,
    /// When the plan was made, RFC 3339.
    pub created: String,
    /// The version of the tool that measured.
    pub tool: String,
    /// The revisions, in the order of the refs.
    pub revisions: Vec<Revision>,
    /// Index of the baseline in `revisions`.
    pub baseline: usize,
    /// The workspace's folder within the repository; empty for its root.
    pub workspace: Utf8PathBuf,
    /// The machine that measured; `null` if unknown.
    pub environment: Value,
    /// Whether overlays, options of the build or variables shape the tests. A further command must
    /// repeat them.
    pub has_own_settings: bool,
    /// Which random numbers the tests got.
    pub random: RandomNumbers,
    /// How `bisect` measures what this comparison did, for the candidates that it can search.
    pub search: Option<SearchOptions>,
    /// All metrics with figures, in the order of the columns.
    pub metrics: Vec<Metric>,
    /// The functions that trace patterns match, by revision.
    pub traces: BTreeMap<usize, TraceFacts>,
    /// All runs, passed and failed.
    pub runs: Vec<Run>,
    /// The executables that cannot be measured, each with its revision.
    pub not_measured: Vec<(usize, NotMeasured)>,
    /// The test files of other revisions that were put into a revision, by revision.
    pub added_tests: BTreeMap<usize, Vec<AddedTest>>,
    /// The revisions that did not build.
    pub failed_builds: BTreeMap<usize, FailedBuild>,
    /// The cells, ordered by test and parameters.
    pub cells: Vec<Cell>,
    /// Notes on the whole comparison: differing environments, problems in logs.
    pub notes: Vec<String>,
    /// The tests that did not run because their code is the same at all revisions.
    pub same_code: Vec<SameCode>,
    /// Whether other tests may have no run: the run has not finished, or two runs are merged and one left tests out.
    pub lacks_tests: bool,
    /// Whether only some tests of the built packages may have run, as with `-k`.
    pub selects_tests: bool,
    /// Whether the tests are one of several shards.
    pub is_shard: bool,
    /// The expected changes. Verdicts refer to them by index.
    pub allow: Vec<Allowance>,
    /// The number of things that were asked for and not checked: limits and thresholds that no figure was
    /// checked against, and failed tests that belong to no pair.
    pub unchecked: usize,
    /// What `notes` say of these.
    pub unchecked_notes: Vec<String>,
    /// Figures above a limit in tests that are no candidate of a pair.
    pub unpaired_breaches: Vec<UnpairedBreach>,
    /// By revision: how it differs from the baseline, apart from the commit.
    pub differs: Vec<SideDifference>,
    /// The axes whose combinations are the revisions.
    pub axes: Vec<AxisLabels>,
    /// By revision: the metrics that cannot be compared with the baseline's.
    pub apart: Vec<Vec<IncomparableMetrics>>,
}

/// A metric and its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name in logs and reports.
    pub name: String,
    /// The unit of its raw numbers.
    pub unit: Unit,
}

/// One test with one set of parameters, at every revision.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The test and its parameters.
    pub id: CellId,
    /// Whether a test of another package or target has the same name. Titles then show package and
    /// target too.
    pub has_namesake: bool,
    /// The labels that keys refer to.
    pub labels: Names,
    /// What each revision measured.
    pub sides: Vec<Aggregate>,
    /// One pair per candidate.
    pub pairs: Vec<Pair>,
    /// The two tests that the sides are, if this is a pair of tests within one revision.
    pub origins: Option<[CellId; 2]>,
    /// The only revision against itself, to check limits and leaks; `None` with several revisions.
    pub alone: Option<Pair>,
}

/// A candidate's checkpoints against the baseline's.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Index of the candidate in the comparison's revisions.
    pub candidate: usize,
    /// The rows, in the order of the baseline.
    pub rows: Vec<Match>,
    /// The points of one side whose peaks and totals belong to the next point of both.
    pub(crate) joined: JoinedIntervals,
    /// The verdicts, by metric.
    pub judged: Vec<JudgedMetric>,
    /// Figures above an absolute limit.
    pub breaches: Vec<Breach>,
}

/// A metric's verdicts in a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedMetric {
    pub metric: String,
    /// Whether a rule of the user covers it. A missing verdict is then an error.
    pub is_asked: bool,
    /// By the baseline's checkpoint; `None` if the metric is not judged there, or neither side has
    /// it.
    of_baseline: Vec<Option<Ruling>>,
    /// By the candidate's checkpoint, for added ones.
    of_added: BTreeMap<usize, Ruling>,
}

impl JudgedMetric {
    /// Takes the rulings in the order of the rows.
    pub fn new(
        metric: &str,
        is_asked: bool,
        rows: &[Match],
        rulings: impl Iterator<Item = Option<Ruling>>,
    ) -> Self {
        let mut judged = Self {
            metric: metric.to_owned(),
            is_asked,
            of_baseline: Vec::with_capacity(rows.len()),
            of_added: BTreeMap::new(),
        };
        for (row, ruling) in rows.iter().zip(rulings) {
            match (row.baseline, row.candidate) {
                // Rows hold each of the baseline's checkpoints once, in order.
                (Some(_), _) => judged.of_baseline.push(ruling),
                (None, Some(candidate)) => judged.of_added.extend(ruling.map(|ruling| (candidate, ruling))),
                (None, None) => {}
            }
        }
        judged
    }

    /// Returns the ruling at a row.
    pub fn at(&self, row: &Match) -> Option<Ruling> {
        match row.baseline {
            Some(index) => self.of_baseline.get(index).copied().flatten(),
            None => self.of_added.get(&row.candidate?).copied(),
        }
    }

    /// Returns all rulings.
    pub fn rulings(&self) -> impl Iterator<Item = &Ruling> {
        self.of_baseline.iter().flatten().chain(self.of_added.values())
    }
}

/// The verdict on a metric at a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ruling {
    pub verdict: Verdict,
    /// The statistics behind the verdict, if both sides had figures.
    pub significance: Option<Significance>,
    /// The entry of `allow` that expects it.
    pub expected: Option<Expected>,
    /// Whether resident memory changed by more than its limit, and the C library's freed and kept memory
    /// explains it.
    pub is_kept: bool,
}

impl Ruling {
    /// Whether there may be no change at all: its interval contains zero, or is of too few runs to tell.
    pub fn may_be_zero(&self) -> bool {
        self.significance.is_some_and(|of| !of.exact && (!of.tells_changes || (of.low <= 0 && of.high >= 0)))
    }

    /// Whether a shown difference is unchanged, and may be none. What the verdict leaves out may turn its sign.
    pub fn is_within_noise(&self, difference: i128) -> bool {
        let change = self.significance.map_or(0, |significance| significance.change);
        let is_other_sign = change.signum() * difference.signum() < 0;
        self.verdict == Verdict::Unchanged && difference != 0 && (self.may_be_zero() || is_other_sign)
    }

    /// Whether it is inconclusive because growth beyond the limit cannot be ruled out, and is not expected. "Improved or
    /// unchanged" is no reason to look closer.
    pub fn may_have_grown(&self) -> bool {
        self.verdict == Verdict::Inconclusive
            && !self.is_expected()
            && self.significance.is_none_or(|significance| significance.may_have_grown())
    }

    /// Whether an entry of `allow` that has not expired covers it.
    fn is_expected(&self) -> bool {
        self.expected.is_some_and(|expected| !expected.has_expired)
    }

    /// Whether an entry of `allow` covers its growth, be that certain or not.
    pub fn is_expected_growth(&self) -> bool {
        self.is_expected() && matches!(self.verdict, Verdict::Regressed | Verdict::Inconclusive)
    }

    /// Whether further runs could lead to a verdict, or refute it. With [`ENOUGH`] runs, no more are needed to tell that
    /// growth is expected.
    pub(crate) fn wants_more(&self) -> bool {
        self.significance.is_some_and(|significance| {
            let is_settled =
                self.verdict == Verdict::Inconclusive && self.is_expected() && significance.samples >= ENOUGH;
            significance.wants_more() && !is_settled
        })
    }

    /// Whether it is an unexpected regression.
    pub fn counts(&self) -> bool {
        self.verdict == Verdict::Regressed && !self.is_expected()
    }
}

/// A figure of the candidate above an absolute limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    pub metric: String,
    /// Index of the row.
    pub row: usize,
    /// The kind of limit.
    pub kind: BreachKind,
    /// The highest figure of the runs.
    pub value: i64,
    pub limit: u64,
    /// Where the limit is, if it is of a budget: `memprof-budget.json:12`.
    pub place: Option<String>,
    /// The entry of `allow` that expects it.
    pub expected: Option<Expected>,
}

impl Breach {
    /// Whether it is unexpected.
    pub fn counts(&self) -> bool {
        self.expected.is_none_or(|expected| expected.has_expired)
    }
}

/// A figure above an absolute limit in a test that is no candidate of a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct UnpairedBreach {
    /// The only ref's name.
    pub reference: String,
    pub test: CellId,
    /// The checkpoint's label.
    pub label: String,
    /// 1-based occurrence of this label.
    pub occurrence: u32,
    /// The checkpoint's name in reports.
    pub checkpoint: String,
    /// The figure. Its row is one of the test alone.
    pub breach: Breach,
}

/// A kind of absolute limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreachKind {
    /// An upper limit.
    Limit,
    /// A limit on the growth from `start` to `done`.
    Leak,
}

/// A pair with everything that it refers to.
#[derive(Clone, Copy, Debug)]
pub struct PairView<'a> {
    pub cell: &'a Cell,
    pub rows: &'a [Match],
    /// The verdicts.
    pub pair: &'a Pair,
    /// The metrics that cannot be compared.
    pub apart: &'a [IncomparableMetrics],
    /// The baseline.
    pub old: &'a Revision,
    /// The candidate.
    pub new: &'a Revision,
    /// What the baseline measured.
    pub baseline: &'a Aggregate,
    /// What the candidate measured.
    pub candidate: &'a Aggregate,
}

/// One metric's figures on both sides of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairColumn<'a> {
    /// The baseline's figures, if it has any.
    pub baseline: Option<Column<'a>>,
    /// The candidate's figures, if it has any.
    pub candidate: Option<Column<'a>>,
    /// Whether the two may be compared.
    pub comparability: Comparability,
    /// The same figures, of equal intervals.
    joined: [Option<JoinedColumn<'a>>; 2],
    /// The rounds of both sides, if only these are compared and a side has others.
    shared: Option<SharedRounds<'a>>,
}

/// Whether the two sides' figures of a metric may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparability {
    /// The figures may be compared.
    Comparable,
    /// The figures come from different sources.
    SourcesDiffer,
    /// The figures come from machines or builds that differ too much.
    Apart,
    /// A side has no run that passed.
    NotMeasured,
}

/// One metric at one row, on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowFigures {
    pub baseline: Option<Figure>,
    pub candidate: Option<Figure>,
    /// The difference, if both figures exist and may be compared.
    pub delta: Option<Delta>,
}

/// A difference between the baseline and the candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delta {
    /// Candidate minus baseline, in the metric's unit.
    pub difference: i128,
    /// The difference in percent of the baseline; `None` if the baseline is zero or negative.
    pub percent: Option<f64>,
}

impl Delta {
    /// Returns the difference from a baseline to a candidate.
    pub fn between(baseline: i64, candidate: i64) -> Self {
        let difference = i128::from(candidate) - i128::from(baseline);
        #[expect(clippy::cast_precision_loss, reason = "a percentage is for reading")]
        let percent = (baseline > 0).then(|| difference as f64 * 100.0 / baseline as f64);
        Self { difference, percent }
    }
}

impl Comparison {
    /// Returns every pair, cell by cell.
    pub fn pairs(&self) -> impl Iterator<Item = PairView<'_>> {
        self.cells.iter().flat_map(|cell| cell.pairs.iter().map(|pair| self.view(cell, pair)))
    }

    /// Returns the tests of a single revision, each against itself; nothing with several revisions.
    pub fn alone(&self) -> impl Iterator<Item = PairView<'_>> {
        self.cells.iter().flat_map(|cell| cell.alone.iter().map(|pair| self.view(cell, pair)))
    }

    /// Returns everything that has verdicts: the pairs, or the tests of a single revision.
    pub fn checked(&self) -> impl Iterator<Item = PairView<'_>> {
        self.pairs().chain(self.alone())
    }

    /// Returns a pair of a cell with everything that it refers to.
    pub fn view<'a>(&'a self, cell: &'a Cell, pair: &'a Pair) -> PairView<'a> {
        PairView {
            cell,
            rows: &pair.rows,
            pair,
            apart: self.apart.get(pair.candidate).map_or(&[], Vec::as_slice),
            old: &self.revisions[self.baseline],
            new: &self.revisions[pair.candidate],
            baseline: &cell.sides[self.baseline],
            candidate: &cell.sides[pair.candidate],
        }
    }

    /// Whether each selected test has a run. A rule that fits none is about no test then.
    pub(crate) fn has_all_tests(&self) -> bool {
        !self.is_shard && !self.lacks_tests && self.same_code.is_empty() && self.not_measured.is_empty()
    }

    /// Whether a limit or a leak needs a figure. A rule of the file may be about tests that were not selected or, with
    /// several revisions, about another machine.
    pub(crate) fn must_match(&self, rule: &Rule) -> bool {
        rule.must_check || (self.revisions.len() == 1 && !self.selects_tests)
    }

    /// Returns the candidates' indices, in the order of the refs.
    pub fn candidates(&self) -> impl Iterator<Item = usize> {
        let baseline = self.baseline;
        (0..self.revisions.len()).filter(move |&revision| revision != baseline)
    }
}

impl<'a> PairView<'a> {
    /// Whether this is a single revision against itself.
    pub fn is_alone(&self) -> bool {
        std::ptr::eq(self.old, self.new)
    }

    /// Whether a memory assertion of the candidate's own test does not hold.
    pub fn breaks_own_limit(&self) -> bool {
        self.candidate.is_over_limit && !self.candidate.is_added
    }

    /// Whether both sides have runs that passed.
    pub fn is_compared(&self) -> bool {
        self.baseline.availability == Availability::Measured
            && self.candidate.availability == Availability::Measured
    }

    /// Returns how a row's checkpoint changed; `None` if a side was not measured to its end.
    pub fn change(&self, row: &Match) -> Option<RowChange> {
        self.is_compared().then(|| row.change(&self.baseline.keys, &self.candidate.keys))
    }

    /// Returns why a metric's figures cannot be compared, if so.
    pub(crate) fn why_apart(&self, metric: &str) -> Option<&'a IncomparableMetrics> {
        self.apart.iter().find(|apart| apart.is_about(metric))
    }

    /// Returns one metric's figures.
    pub fn column(&self, metric: &str) -> PairColumn<'a> {
        let comparability = if !self.is_compared() {
            Comparability::NotMeasured
        } else if self.why_apart(metric).is_some() {
            Comparability::Apart
        } else if self.baseline.source(metric) == self.candidate.source(metric) {
            Comparability::Comparable
        } else {
            Comparability::SourcesDiffer
        };
        let (baseline, candidate) = (self.baseline.column(metric), self.candidate.column(metric));
        let joined = |side: usize, column: Option<Column<'a>>| {
            column.map(|column| JoinedColumn::new(column, &self.pair.joined, side, metric))
        };
        let is_comparable = comparability == Comparability::Comparable;
        let shared = Some(self.rounds()).filter(|rounds| is_comparable && rounds.replace_all(metric));
        let joined = [joined(0, baseline), joined(1, candidate)];
        PairColumn { baseline, candidate, comparability, joined, shared }
    }

    /// Returns the runs of both sides that got the same random numbers.
    pub(crate) fn rounds(&self) -> SharedRounds<'a> {
        SharedRounds::new(self.baseline, self.candidate)
    }

    /// Returns a metric's verdicts; `None` if it is not judged.
    pub fn judged(&self, metric: &str) -> Option<&'a JudgedMetric> {
        self.pair.judged.iter().find(|judged| judged.metric == metric)
    }

    /// Returns a metric's figures above an absolute limit.
    pub fn breaches(&self, metric: &str) -> impl Iterator<Item = &'a Breach> {
        self.pair.breaches.iter().filter(move |breach| breach.metric == metric)
    }

    /// Whether any metric is judged at a row.
    pub fn is_judged(&self, row: &Match) -> bool {
        let mut breaches = self.pair.breaches.iter();
        self.pair.judged.iter().any(|judged| judged.at(row).is_some())
            || breaches.any(|breach| self.rows[breach.row] == *row)
    }

    /// Returns the key that a row is shown under: the baseline's, if it has one.
    pub fn key(&self, row: &Match) -> Key {
        match (row.baseline, row.candidate) {
            (Some(old), _) => self.baseline.keys[old],
            (None, Some(new)) => self.candidate.keys[new],
            (None, None) => unreachable!("a row has at least one checkpoint"),
        }
    }

    /// Returns the candidate's key if the row was renamed.
    pub fn new_key(&self, row: &Match) -> Option<Key> {
        let renamed = self.change(row) == Some(RowChange::Renamed);
        row.candidate.filter(|_| renamed).map(|new| self.candidate.keys[new])
    }
}

impl PairColumn<'_> {
    /// Returns the metric's figures at a row. Peaks and totals count since the last checkpoint that both sides have.
    /// Runs without a partner are left out.
    pub fn at(&self, row: &Match) -> RowFigures {
        let figure = |side: usize, index: Option<usize>| self.joined[side]?.figure(index?);
        let all = [figure(0, row.baseline), figure(1, row.candidate)];
        let varies = all.iter().flatten().any(|figure| figure.min < figure.max);
        let of_shared = self.shared.filter(|_| varies).and_then(|shared| shared.figures(&self.readings(row)));
        let [baseline, candidate] = of_shared.unwrap_or(all);
        let delta = match (baseline, candidate, self.comparability) {
            (Some(old), Some(new), Comparability::Comparable) => Some(Delta::between(old.value, new.value)),
            _ => None,
        };
        RowFigures { baseline, candidate, delta }
    }

    /// Returns a side's figure of a checkpoint alone, without the runs that have no partner.
    pub fn own(&self, side: usize, at: usize) -> Option<Figure> {
        let column = [self.baseline, self.candidate][side]?;
        let of_shared = self.shared.and_then(|shared| shared.of_side(side, column.readings(at)));
        of_shared.or_else(|| column.figure(at))
    }

    /// Returns the baseline's figure of the row's own checkpoint.
    pub fn own_of_baseline(&self, row: &Match) -> Option<Figure> {
        self.baseline?.figure(row.baseline?)
    }

    /// Whether these figures are not the row's own alone.
    pub fn is_joined(&self, row: &Match) -> bool {
        let sides = self.joined.iter().zip([row.baseline, row.candidate]);
        sides.into_iter().any(|(column, at)| column.zip(at).is_some_and(|(column, at)| column.is_joined(at)))
    }

    /// Returns what each run of both sides read for these figures; `None` for a run without a reading.
    pub fn readings(&self, row: &Match) -> [Vec<Option<i64>>; 2] {
        let of_side = |side: usize, index: Option<usize>| Some(self.joined[side]?.readings(index?));
        [of_side(0, row.baseline), of_side(1, row.candidate)].map(Option::unwrap_or_default)
    }

    /// Returns the checkpoints at which each side's peak of the row was read.
    pub(crate) fn highest(&self, row: &Match) -> [Option<usize>; 2] {
        let of_side = |side: usize, index: Option<usize>| {
            index.map(|index| self.joined[side].map_or(index, |column| column.highest(index)))
        };
        [of_side(0, row.baseline), of_side(1, row.candidate)]
    }
}

/// Returns for each point the previous point. Scopes and calls have none: their figures are
/// differences already.
pub fn previous_points(keys: &[Key]) -> Vec<Option<usize>> {
    let mut last = None;
    let previous = keys.iter().enumerate().map(|(index, key)| match key.kind {
        Kind::Point => last.replace(index),
        Kind::Scope | Kind::Call => None,
    });
    previous.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_percentage_needs_a_positive_baseline() {
        assert_eq!(Delta::between(200, 250), Delta { difference: 50, percent: Some(25.0) });
        assert_eq!(Delta::between(0, 250), Delta { difference: 250, percent: None });
        assert_eq!(Delta::between(-4, 4), Delta { difference: 8, percent: None });
    }

    #[test]
    fn the_previous_point_skips_scopes() {
        let point = Key { label: 0, occurrence: 1, kind: Kind::Point };
        let scope = Key { kind: Kind::Scope, ..point };
        assert_eq!(previous_points(&[point, scope, point, point]), [None, None, Some(0), Some(2)]);
    }

    proptest! {
        #[test]
        fn the_other_way_round_a_delta_is_its_opposite(old: i64, new: i64) {
            prop_assert_eq!(Delta::between(old, new).difference, -Delta::between(new, old).difference);
        }
    }
}
