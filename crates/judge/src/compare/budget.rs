//! The file of a budget, and the figures that exceed it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::compare::aggregate::{Aggregate, Availability, Figure};
use crate::compare::comparison::{Cell, Comparison};
use crate::compare::test_kinds::TestKinds;
use crate::results::measurement::Kind;
use crate::verdict::limits;
use crate::verdict::significance::is_quiet;
use memprof_plan::budget::{Budget, BudgetLimit};
use memprof_plan::metric::{self, Property, Unit};
use memprof_plan::quantity::Threshold;
use memprof_plan::request::TargetKind;
use memprof_plan::resolved::CellId;
use memprof_plan::title;
use memprof_support::counted::{counted, some};
use memprof_support::format_version;
use memprof_support::glob;
use memprof_support::labels;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The version of the file's format.
pub(crate) const VERSION: u32 = 1;

/// The file's usual name.
pub const FILE_NAME: &str = "memprof-budget.json";

const HOW_TO_WRITE: &str = "write one of a run: cargo memprof budget write memprof-budget.json";

/// How many unchecked entries are named.
const MOST_NOTES: usize = 3;

/// The file, with entries whose place in the text is known.
#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    limits: Vec<&'a RawValue>,
}

/// An entry as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    test: String,
    /// The target's kind, if targets of several kinds have the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<TargetKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    params: BTreeMap<String, String>,
    metric: String,
    checkpoint: String,
    unit: String,
    /// What was measured. Only for people.
    #[serde(default)]
    figure: i64,
    limit: u64,
}

/// How much more than its figure each metric may have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Margin {
    /// As much as a comparison ignores.
    #[default]
    Usual,
    /// This many percent.
    Percent(f64),
}

impl Margin {
    /// Returns the limit for a figure of a revision's test.
    fn limit(self, metric: &str, figure: Figure, side: &Aggregate) -> u64 {
        let most = u64::try_from(figure.max).unwrap_or(0);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a figure, rounded up"
        )]
        let share = |percent: f64| (most as f64 * percent / 100.0).ceil() as u64;
        let within = |limit: &Threshold| share(limit.percent.unwrap_or(0.0)).max(limit.bytes.unwrap_or(0));
        let more = match self {
            Self::Percent(percent) => share(percent),
            Self::Usual => limits::defaults(metric).map_or(0, |thresholds| {
                let tight = within(&thresholds.tight);
                let may_vary = figure.runs == 1 && !side.is_single_threaded;
                let varies = may_vary || !is_quiet(figure.max.abs_diff(figure.min), tight);
                if varies { within(&thresholds.wide) } else { tight }
            }),
        };
        most.saturating_add(more)
    }
}

/// Returns the budget's text for the figures of a revision: one entry a line, sorted. `metrics` are
/// patterns; those that are judged by default if there are none.
///
/// # Errors
/// No test of the revision has such a figure.
pub fn text(
    comparison: &Comparison,
    revision: usize,
    metrics: &[String],
    margin: Margin,
) -> anyhow::Result<String> {
    let kinds = TestKinds::from_tests(measured(comparison, &[revision]));
    let mut most: BTreeMap<Key, (i64, u64)> = BTreeMap::new();
    for cell in &comparison.cells {
        let side = &cell.sides[revision];
        for metric in comparison.metrics.iter().filter(|metric| is_chosen(&metric.name, metrics)) {
            for (checkpoint, figure) in figures(cell, side, &metric.name) {
                let params = cell.id.params.iter().cloned().collect();
                let (test, name) = (cell.id.full_name(), given_name(&cell.id));
                let kind = kinds.stated(&test, cell.id.test.kind);
                let key = (test, kind, name, params, metric.name.clone(), checkpoint.to_owned());
                let limit = margin.limit(&metric.name, figure, side);
                let (most, highest_limit) = most.entry(key).or_insert((figure.max, limit));
                (*most, *highest_limit) = (figure.max.max(*most), limit.max(*highest_limit));
            }
        }
    }
    let revision = &comparison.revisions[revision];
    if most.is_empty() {
        return Err(UserError::new(format!("the run has no such figures of {}", revision.name))
            .help("choose metrics that it has: --metrics heap.peak")
            .into());
    }
    let commit = serde_json::to_string(&revision.commit)?;
    let mut text = format!("{{\n  \"version\": {VERSION},\n  \"commit\": {commit},\n  \"limits\": [\n");
    let count = most.len();
    for (index, ((test, kind, name, params, metric, checkpoint), (figure, limit))) in
        most.into_iter().enumerate()
    {
        let unit = Unit::of_metric(&metric).as_str().to_owned();
        let entry = Entry { test, kind, name, params, metric, checkpoint, unit, figure, limit };
        let comma = if index + 1 < count { "," } else { "" };
        writeln!(text, "    {}{comma}", serde_json::to_string(&entry)?)?;
    }
    text.push_str("  ]\n}\n");
    Ok(text)
}

/// Returns a message about the tests that ran at a revision and did not pass: a budget has no limit for them.
pub fn without_limits(comparison: &Comparison, revision: usize) -> Option<String> {
    let did_not_pass = |cell: &&Cell| {
        let side = &cell.sides[revision];
        side.availability != Availability::Measured && !side.failed.is_empty()
    };
    let cells = comparison.cells.iter().filter(did_not_pass);
    let names: Vec<&str> = cells.map(|cell| cell.id.title.as_str()).collect();
    let (tests, get) = (counted(names.len(), "test"), if names.len() == 1 { "gets" } else { "get" });
    (!names.is_empty()).then(|| format!("{tests} did not pass and {get} no limit: {}", some(&names, 5)))
}

/// Returns the tests with a run that passed at one of these revisions.
fn measured(comparison: &Comparison, revisions: &[usize]) -> impl Iterator<Item = (String, TargetKind)> {
    let is_measured =
        |revision: &usize, cell: &Cell| cell.sides[*revision].availability == Availability::Measured;
    let cells = comparison.cells.iter();
    let measured = cells.filter(move |cell| revisions.iter().any(|revision| is_measured(revision, cell)));
    measured.map(|cell| (cell.id.full_name(), cell.id.test.kind))
}

/// A cell's test, its kind, name and parameters, a metric and a checkpoint.
type Key = (String, Option<TargetKind>, Option<String>, BTreeMap<String, String>, String, String);

/// Returns the name that an entry of `tests` gives a cell, or a program's command line.
fn given_name(cell: &CellId) -> Option<String> {
    let is_plain = cell.title == title::plain(&cell.test, &cell.params);
    (!is_plain).then(|| cell.title.clone())
}

/// The metrics of a budget are levels and peaks, unless others are named.
fn is_chosen(metric: &str, named: &[String]) -> bool {
    let known = metric::known(metric);
    match named {
        [] => known.is(Property::Judged) && !known.is(Property::OfScopes),
        named => named.iter().any(|pattern| glob::matches(pattern, metric)),
    }
}

/// Returns the figures at each checkpoint of a test that passed.
fn figures<'a>(
    cell: &'a Cell,
    side: &'a Aggregate,
    metric: &str,
) -> impl Iterator<Item = (&'a str, Figure)> + use<'a> {
    let column = side.column(metric).filter(|_| side.availability == Availability::Measured);
    let points = side.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Point);
    points
        .filter_map(move |(index, key)| Some((&cell.labels[key.label as usize][..], column?.figure(index)?)))
}

/// Reads a budget. `name` is the file as the user wrote it.
///
/// # Errors
/// It cannot be read, or is no budget. The error names the line.
pub fn read(path: &Utf8Path, name: &str) -> anyhow::Result<Budget> {
    let text = followed::text(path)
        .map_err(|error| UserError::new(format!("the budget {error}")).help(HOW_TO_WRITE))?;
    let refused = |place: &str, error: &serde_json::Error| {
        UserError::new(format!("{place}: {}", labels::message(&error.to_string()))).help(HOW_TO_WRITE)
    };
    format_version::refuse_newer(text.as_bytes(), name, VERSION)?;
    let file: File<'_> =
        serde_json::from_str(&text).map_err(|error| refused(&format!("{name} is not a budget"), &error))?;
    let mut limits = Vec::new();
    let mut lines = HashMap::new();
    let (mut line, mut seen) = (1, 0);
    for raw in file.limits {
        let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[seen..start]).count();
        seen = start;
        let entry: Entry =
            serde_json::from_str(raw.get()).map_err(|error| refused(&format!("{name}:{line}"), &error))?;
        let unit = Unit::of_metric(&entry.metric).as_str();
        if entry.unit != unit {
            return Err(UserError::new(format!("{name}:{line}: {} is in {unit}", entry.metric))
                .help(format!("write \"unit\": \"{unit}\""))
                .into());
        }
        let Entry { test, kind, name: of_test, params, metric, checkpoint, limit, .. } = entry;
        let what = (test.clone(), kind, of_test.clone(), params.clone(), metric.clone(), checkpoint.clone());
        if let Some(first) = lines.insert(what, line) {
            let twice =
                format!("{name}:{line}: {metric} of {test} at '{checkpoint}' is in line {first}, too");
            return Err(UserError::new(labels::message(&twice)).help("remove one of the lines").into());
        }
        limits.push(BudgetLimit { test, kind, name: of_test, params, checkpoint, metric, limit, line });
    }
    Ok(Budget { file: name.to_owned(), limits })
}

/// A budget by test and metric.
#[derive(Default)]
pub(crate) struct KnownBudget<'a> {
    budget: Option<&'a Budget>,
    of_tests: HashMap<&'a str, Vec<&'a BudgetLimit>>,
    kinds: TestKinds,
}

impl<'a> KnownBudget<'a> {
    /// Indexes a budget for the tests of a comparison.
    pub fn new(budget: Option<&'a Budget>, comparison: &Comparison) -> Self {
        let Some(budget) = budget else { return Self::default() };
        let mut of_tests: HashMap<&str, Vec<&BudgetLimit>> = HashMap::new();
        for entry in &budget.limits {
            of_tests.entry(&entry.test).or_default().push(entry);
        }
        let candidates: Vec<usize> = match comparison.revisions.len() {
            1 => vec![0],
            _ => comparison.candidates().collect(),
        };
        let kinds = TestKinds::from_tests(measured(comparison, &candidates));
        Self { budget: Some(budget), of_tests, kinds }
    }

    /// Returns the entries of a cell. `test` is `package::binary::test`.
    pub(crate) fn entries_for(&self, test: &str, cell: &CellId) -> Vec<&'a BudgetLimit> {
        let is_of_cell = |entry: &&&BudgetLimit| {
            self.kinds.fits(entry.kind, test, cell.test.kind)
                && entry.params.len() == cell.params.len()
                && cell.params.iter().all(|(name, value)| entry.params.get(name) == Some(value))
        };
        let of_test = self.of_tests.get(test).into_iter().flatten().filter(is_of_cell).copied();
        let (named, unnamed): (Vec<_>, Vec<_>) = of_test.partition(|entry| entry.name.is_some());
        let own: Vec<_> =
            named.into_iter().filter(|entry| entry.name.as_ref() == Some(&cell.title)).collect();
        if own.is_empty() { unnamed } else { own }
    }

    /// Returns where an entry is: `memprof-budget.json:12`.
    pub fn place(&self, entry: &BudgetLimit) -> String {
        self.budget.map_or_else(String::new, |budget| budget.place(entry))
    }

    /// Returns how many entries about tests that passed were not checked, because the test has no such figure or the
    /// entry needs a kind, and notes on them.
    pub fn unchecked(&self, comparison: &Comparison) -> (usize, Vec<String>) {
        let mut unchecked = self.without_kind();
        let revisions = |cell: &Cell| match &cell.alone {
            Some(_) => vec![0],
            None => cell.pairs.iter().map(|pair| pair.candidate).collect(),
        };
        for cell in comparison.cells.iter().filter(|_| self.budget.is_some()) {
            let test = cell.id.full_name();
            for entry in self.entries_for(&test, &cell.id) {
                let lacks = |revision: usize| {
                    let side = &cell.sides[revision];
                    side.availability == Availability::Measured
                        && !figures(cell, side, &entry.metric).any(|(label, _)| label == entry.checkpoint)
                };
                if revisions(cell).into_iter().any(lacks) {
                    unchecked.push(format!(
                        "the budget of {} at '{}' of {test} was not checked: the test has no figure for it ({})",
                        entry.metric,
                        entry.checkpoint,
                        self.place(entry)
                    ));
                }
            }
        }
        let count = unchecked.len();
        if count > MOST_NOTES {
            unchecked.truncate(MOST_NOTES);
            let others = counted(count - MOST_NOTES, "more line");
            unchecked.push(format!("{others} of the budget not checked"));
        }
        (count, unchecked)
    }

    /// Returns a note on each entry that may be about tests of several kinds, and is taken for none of them.
    fn without_kind(&self) -> Vec<String> {
        let limits = self.budget.iter().flat_map(|budget| &budget.limits);
        let note = |entry: &BudgetLimit| {
            let kinds = self.kinds.listed(&entry.test)?;
            let BudgetLimit { test, metric, checkpoint, .. } = entry;
            let place = self.place(entry);
            Some(format!(
                "the budget of {metric} at '{checkpoint}' of {test} was not checked: tests in {kinds} have that \
                 name, so the line needs a \"kind\" ({place})"
            ))
        };
        limits.filter(|entry| entry.kind.is_none()).filter_map(note).collect()
    }
}
