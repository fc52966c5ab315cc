//! The answer in a line, and what must be said beside the figures: failures, absences, differing sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{
    Breach, BreachKind, Cell, Comparability, Comparison, Delta, PairView, Ruling,
};
use crate::compare::evaluation::Conclusion;
use crate::compare::matching::{Match, RowChange};
use crate::plan::metric::{ON_REQUEST, Unit};
use crate::plan::resolved::{CellId, Revision};
use crate::report::selection::{MetricFilter, Shown, TableSection};
use crate::report::text;
use crate::results::measurement::Kind;
use crate::results::outcome::Status;
use crate::results::stored::Run;
use crate::support::counted::counted;
use crate::support::labels;
use crate::verdict::kinds::Verdict;
use crate::verdict::limits::Expected;
use crate::verdict::significance::{ENOUGH, Significance};

/// How many lines of a failure's message are shown.
const MESSAGE_LINES: usize = 6;

/// The answer in numbers: verdicts, checkpoints that came, went or changed names, and what of the rest grew or shrank.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    conclusion: Conclusion,
    added: usize,
    removed: usize,
    renamed: usize,
    /// Of metrics that are shown and not judged.
    grew: usize,
    shrank: usize,
    same: usize,
    /// Tests of which no figure could be compared.
    not_compared: usize,
    said: Vec<Statement>,
    largest: Option<UnjudgedGrowth>,
}

/// A line about one verdict.
#[derive(Clone, Debug)]
struct Statement {
    /// Regressions first, and among them bytes before counts and the largest first.
    order: (u8, bool, std::cmp::Reverse<i128>),
    verdict: Option<Verdict>,
    line: String,
}

/// The growth of a figure that is not judged.
#[derive(Clone, Debug)]
struct UnjudgedGrowth {
    metric: String,
    unit: Unit,
    delta: Delta,
    checkpoint: String,
    test: String,
}

impl Tally {
    /// Adds a pair: all its verdicts, and of the rest what is shown.
    pub fn add(&mut self, comparison: &Comparison, view: &PairView, parts: &[TableSection]) {
        let said_before = self.count();
        self.conclusion.add(view);
        self.say(comparison, view);
        if view.is_compared() {
            // How often functions were called is said where they are shown.
            for row in view.rows.iter().filter(|row| view.key(row).kind != Kind::Call) {
                match view.change(row) {
                    Some(RowChange::Added) => self.added += 1,
                    Some(RowChange::Removed) => self.removed += 1,
                    Some(RowChange::Renamed) => self.renamed += 1,
                    Some(RowChange::Matched) | None => {}
                }
            }
            for part in parts {
                self.add_not_judged(view, &part.rows, &part.shown);
            }
        }
        if self.count() == said_before {
            self.not_compared += 1;
        }
    }

    fn say(&mut self, comparison: &Comparison, view: &PairView) {
        for judged in &view.pair.judged {
            let column = view.column(&judged.metric);
            for row in view.rows {
                let Some(ruling) = judged.at(row) else { continue };
                if !matches!(ruling.verdict, Verdict::Regressed | Verdict::Inconclusive) {
                    continue;
                }
                let Some(significance) = ruling.significance else { continue };
                let Some(delta) = column.at(row).delta else { continue };
                let said =
                    Claim { comparison, view, row, metric: &judged.metric, ruling, significance, delta };
                self.said.push(said.said());
            }
        }
        self.said.extend(view.pair.breaches.iter().map(|breach| breached(comparison, view, breach)));
    }

    fn add_not_judged(&mut self, view: &PairView, rows: &[&Match], shown: &[Shown]) {
        for shown in shown {
            let mut largest: Option<(i128, &Match)> = None;
            for row in rows {
                let Some(delta) = shown.column.at(row).delta.filter(|_| shown.ruling(row).is_none()) else {
                    continue;
                };
                match delta.difference {
                    0 => self.same += 1,
                    1.. => self.grew += 1,
                    _ => self.shrank += 1,
                }
                if delta.difference > largest.map_or(0, |(difference, _)| difference) {
                    largest = Some((delta.difference, row));
                }
            }
            let Some((difference, row)) = largest else { continue };
            // Bytes are what the tool is about: another unit's growth is named only where no bytes grew.
            let rank = |unit, difference| (unit == Unit::Bytes, unit == Unit::Count, difference);
            let best = self.largest.as_ref().map(|best| rank(best.unit, best.delta.difference));
            if best.is_none_or(|best| rank(shown.metric.unit, difference) > best)
                && let Some(delta) = shown.column.at(row).delta
            {
                self.largest = Some(UnjudgedGrowth {
                    metric: shown.metric.name.clone(),
                    unit: shown.metric.unit,
                    delta,
                    checkpoint: text::row_label(view, row),
                    test: title(view),
                });
            }
        }
    }

    /// How many things could be said of what was compared.
    fn count(&self) -> usize {
        let Conclusion { regressed, expected, improved, unchanged, inconclusive, breaches, .. } =
            self.conclusion;
        let judged = regressed + expected + improved + unchanged + inconclusive + breaches;
        judged + self.grew + self.shrank + self.same + self.added + self.removed + self.renamed
    }

    /// `1 regressed, 1 improved, 4 unchanged, 1 added`; what there is none of is left out.
    pub fn counts(&self) -> String {
        let Conclusion { regressed, expected, improved, unchanged, inconclusive, breaches, .. } =
            self.conclusion;
        let number =
            |number: usize| crate::support::counted::grouped(i128::try_from(number).unwrap_or(i128::MAX));
        let joined = |parts: &[(usize, &str)]| {
            let parts = parts.iter().filter(|(count, _)| *count > 0);
            parts.map(|(count, word)| format!("{} {word}", number(*count))).collect::<Vec<_>>()
        };
        let mut parts = joined(&[
            (regressed, "regressed"),
            (breaches, "over a limit"),
            (inconclusive, "inconclusive"),
            (expected, "grown as expected"),
            (improved, "improved"),
            (unchanged, "unchanged"),
            (self.added, "added"),
            (self.removed, "removed"),
            (self.renamed, "renamed"),
        ]);
        if self.not_compared > 0 {
            parts.push(format!("{} not compared", counted(self.not_compared, "test")));
        }
        let rest = joined(&[(self.grew, "grew"), (self.shrank, "shrank"), (self.same, "stayed")]);
        match (parts.is_empty(), rest.is_empty()) {
            (true, true) => "nothing to compare".to_owned(),
            (false, true) => parts.join(", "),
            (true, false) => format!("not judged: {}", rest.join(", ")),
            (false, false) => format!("{}; not judged: {}", parts.join(", "), rest.join(", ")),
        }
    }

    /// The lines that say what regressed and of what the runs do not tell, with their verdicts; the most important first, and
    /// how many more there are.
    pub fn lines(&self, most: usize) -> Vec<(Option<Verdict>, String)> {
        let mut said: Vec<&Statement> = self.said.iter().collect();
        said.sort_by_key(|said| said.order);
        let mut lines = Vec::new();
        for of_one_kind in said.chunk_by(|a, b| a.order.0 == b.order.0) {
            let shown = of_one_kind.iter().take(most).map(|said| (said.verdict, said.line.clone()));
            lines.extend(shown);
            if of_one_kind.len() > most {
                let word = of_one_kind[0].line.split_once(':').map_or("", |(word, _)| word);
                lines.push((None, format!("… {} more {word}", of_one_kind.len() - most)));
            }
        }
        lines
    }

    /// The largest growth of what is not judged: `heap.live +112 KiB (+0.26 %) at 'done encoder' of hf_fwd`.
    pub fn largest_growth(&self) -> Option<String> {
        self.largest.as_ref().map(|growth| {
            let change = changed_by(&growth.metric, growth.unit, &growth.delta);
            format!("{change} at '{}' of {}", growth.checkpoint, growth.test)
        })
    }
}

/// `heap.peak +112 KiB (+0.26 %)`.
fn changed_by(metric: &str, unit: Unit, delta: &Delta) -> String {
    let percent = text::percent(delta);
    let percent = if percent.is_empty() { String::new() } else { format!(" ({percent})") };
    format!("{metric} {}{percent}", text::difference(delta.difference, unit))
}

/// A verdict with all that is to be said of it.
struct Claim<'a> {
    comparison: &'a Comparison,
    view: &'a PairView<'a>,
    row: &'a Match,
    metric: &'a str,
    ruling: Ruling,
    significance: Significance,
    delta: Delta,
}

impl Claim<'_> {
    fn said(&self) -> Statement {
        let unit = Unit::of(self.metric);
        let change = changed_by(self.metric, unit, &self.delta);
        let limit = text::figure(i64::try_from(self.significance.limit).unwrap_or(i64::MAX), unit);
        let raised = if self.significance.is_raised { ", the figure's own error" } else { "" };
        let limit = format!("limit {limit}{raised}");
        let place = place(self.comparison, self.view, self.row);
        let (order, line) = match (self.ruling.verdict, reason(self.comparison, self.ruling.expected)) {
            (Verdict::Regressed, Some(reason)) => (3, format!("expected: {change} {place}: {reason}")),
            (Verdict::Regressed, None) => (0, format!("regressed: {change} {place} ({limit})")),
            _ => (2, format!("inconclusive: {change} {place}: {} ({limit})", self.doubt(unit))),
        };
        let order = (order, unit != Unit::Bytes, std::cmp::Reverse(self.delta.difference));
        Statement { order, verdict: Some(self.ruling.verdict), line }
    }

    /// Why the runs do not tell.
    fn doubt(&self, unit: Unit) -> String {
        let Significance { samples, low, high, .. } = self.significance;
        match samples {
            1 => "one run a side says nothing of the next".to_owned(),
            few if few < ENOUGH => {
                format!("it varies, and {few} runs a side cannot tell a change from chance, as {ENOUGH} can")
            }
            _ => {
                let [low, high] = [low, high].map(|bound| match bound {
                    0 => "0".to_owned(),
                    bound => text::difference(bound, unit),
                });
                format!("between {low} and {high} by {samples} runs a side")
            }
        }
    }
}

/// `at 'done encoder' of hf_fwd`, with the candidate where there are several.
fn place(comparison: &Comparison, view: &PairView, row: &Match) -> String {
    let several = comparison.revisions.len() > 2;
    let candidate = if several { format!(" in {}", view.new.name) } else { String::new() };
    format!("at '{}' of {}{candidate}", text::row_label(view, row), title(view))
}

/// Why a change was expected, if it was.
fn reason(comparison: &Comparison, expected: Option<Expected>) -> Option<String> {
    let expected = expected.filter(|expected| !expected.has_expired)?;
    Some(labels::one_line(&comparison.allow.get(expected.index)?.reason).into_owned())
}

/// The line about a figure that is larger than it may be.
fn breached(comparison: &Comparison, view: &PairView, breach: &Breach) -> Statement {
    let unit = Unit::of(&breach.metric);
    let value = text::figure(breach.value, unit);
    let limit = text::figure(i64::try_from(breach.limit).unwrap_or(i64::MAX), unit);
    let place = place(comparison, view, &view.rows[breach.row]);
    let what = match breach.kind {
        BreachKind::Limit => format!("{} {value} {place}, limit {limit}", breach.metric),
        BreachKind::Leak => format!("{} {value} more than at 'start' {place}, limit {limit}", breach.metric),
    };
    let (order, line) = match reason(comparison, breach.expected) {
        Some(reason) => (3, format!("expected: {what}: {reason}")),
        None => (1, format!("over its limit: {what}")),
    };
    let order = (order, unit != Unit::Bytes, std::cmp::Reverse(breach.value.into()));
    Statement { order, verdict: Some(Verdict::Regressed), line }
}

/// The test's own name in the report, with parameters that it does not show already.
pub fn title(view: &PairView) -> String {
    distinct_title(view.cell)
}

/// The same of a cell.
pub fn distinct_title(cell: &Cell) -> String {
    if cell.has_namesake { full_title_of(&cell.id) } else { title_of(&cell.id) }
}

/// The test's own name with its parameters, whatever others are called.
pub fn title_of(id: &CellId) -> String {
    if id.title.is_empty() {
        return id.test.to_string();
    }
    let mut title = labels::one_line(&id.title).into_owned();
    if id.title == id.test.name && !id.params.is_empty() {
        let params: Vec<String> = id.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        _ = write!(title, " ({})", labels::one_line(&params.join(", ")));
    }
    title
}

/// `bart::tests hf_fwd`: where the test lives, and its name.
pub fn full_title(view: &PairView) -> String {
    full_title_of(&view.cell.id)
}

/// The same of a cell.
pub fn full_title_of(id: &CellId) -> String {
    let (test, title) = (&id.test, title_of(id));
    if id.title.is_empty() { title } else { format!("{}::{} {title}", test.package, test.binary) }
}

/// `3 runs each`, or each side's number where they differ; nothing where there was no run.
pub fn runs(view: &PairView) -> Option<String> {
    match (view.baseline.runs.len(), view.candidate.runs.len()) {
        (0, 0) => None,
        (0, runs) | (runs, 0) => Some(counted(runs, "run")),
        (a, b) if a == b => Some(format!("{} each", counted(a, "run"))),
        (a, b) => Some(format!("{a} and {}", counted(b, "run"))),
    }
}

/// What is said of a side that was not measured whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// What happened: `pr/3370 failed (exit code 101)`.
    pub headline: String,
    /// The first lines of the message.
    pub details: Vec<String>,
    /// What the figures shown are, where they are not all runs'.
    pub figures: Option<String>,
    /// Whether a comparison is missing for it.
    pub is_failure: bool,
}

/// What went wrong on either side of a pair.
pub fn troubles(comparison: &Comparison, view: &PairView) -> Vec<Trouble> {
    let sides = [(view.old, view.baseline), (view.new, view.candidate)];
    sides.into_iter().flat_map(|(revision, side)| side_troubles(&comparison.runs, revision, side)).collect()
}

fn side_troubles(runs: &[Run], revision: &Revision, side: &Aggregate) -> Vec<Trouble> {
    let name = &revision.name;
    let total = side.runs.len() + side.failed.iter().filter(|run| !side.runs.contains(run)).count();
    if total == 0 {
        let headline = format!("{name} was not run");
        return vec![Trouble { headline, details: Vec::new(), figures: None, is_failure: true }];
    }
    let mut troubles: Vec<(Trouble, usize)> = Vec::new();
    for run in side.failed.iter().map(|&index| &runs[index]) {
        let trouble = run_trouble(run, revision);
        match troubles.iter_mut().find(|(known, _)| *known == trouble) {
            Some((_, times)) => *times += 1,
            None => troubles.push((trouble, 1)),
        }
    }
    let several = total > 1;
    let mut troubles: Vec<Trouble> = troubles
        .into_iter()
        .map(|(mut trouble, times)| {
            if several {
                _ = write!(trouble.headline, " in {times} of {total} runs");
            }
            trouble
        })
        .collect();
    if let Some(last) = troubles.last_mut() {
        last.figures = match side.availability {
            Availability::CutOff => Some(format!(
                "✗ {} logged before that: shown, not compared",
                counted(side.keys.iter().filter(|key| key.kind != Kind::Call).count(), "checkpoint")
            )),
            Availability::Measured => {
                Some(format!("{name}'s figures are of the {} that passed", counted(side.runs.len(), "run")))
            }
            Availability::Missing => None,
        };
    }
    troubles
}

fn run_trouble(run: &Run, revision: &Revision) -> Trouble {
    let outcome = &run.record.outcome;
    let name = &revision.name;
    let headline = match &outcome.status {
        Status::NotInThisRef => format!("{name} has no such test"),
        Status::Ignored => format!("{name} ignores this test"),
        Status::BuildFailed => format!("{name} did not build"),
        Status::Killed { .. } | Status::Refused => format!("{name} was {}", outcome.status),
        Status::OutOfMemory => format!("{name} ran out of memory"),
        Status::Ok => format!("{name}: {}", run.trouble().unwrap_or_default()),
        status => format!("{name} {status}"),
    };
    let message = outcome.message.as_deref().unwrap_or_default();
    let lines: Vec<&str> = message.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut details: Vec<String> =
        lines.iter().take(MESSAGE_LINES).map(|line| labels::one_line(line.trim_end()).into_owned()).collect();
    if lines.len() > MESSAGE_LINES {
        details.push(format!("… {} more in {}", counted(lines.len() - MESSAGE_LINES, "line"), run.folder));
    }
    let is_failure = outcome.status.is_failure() || outcome.status.is_ok();
    Trouble { headline, details, figures: None, is_failure }
}

/// Everything that concerns more than one row, each thing once: absences with their reasons, sources that differ, marks
/// on runs, and the comparison's own notes.
pub fn notes(comparison: &Comparison, wanted: &MetricFilter) -> Vec<String> {
    let measured: Vec<&str> = comparison.metrics.iter().map(|metric| metric.name.as_str()).collect();
    // Where nothing was measured, no name can be said to be wrong.
    let mut notes: Vec<String> = wanted
        .unknown(comparison)
        .filter(|_| !measured.is_empty())
        .map(|name| {
            if ON_REQUEST.contains(&name) {
                format!("{name} was not measured: it is read only where a run is made with --metrics {name}")
            } else if name.starts_with("gpu.") {
                format!("{name} was not measured: no test used a GPU that has it")
            } else {
                format!("no metric is named '{name}'; measured were {}", measured.join(", "))
            }
        })
        .collect();
    notes.extend(absences(comparison, wanted));
    notes.extend(differing_sources(comparison, wanted));
    notes.extend(apart(comparison));
    notes.extend(unsteady(comparison));
    notes.extend(crate::report::contexts::notes(comparison, wanted));
    notes.extend(marks(comparison));
    notes.extend(comparison.notes.iter().cloned());
    notes
}

/// `heap.live, heap.peak absent in pr/3370: own #[global_allocator]`.
fn absences(comparison: &Comparison, wanted: &MetricFilter) -> Vec<String> {
    /// Revision, cell, and whether other checkpoints have the metric.
    type Place = (usize, usize, bool);
    let mut places: BTreeMap<(&str, &str), BTreeSet<Place>> = BTreeMap::new();
    for (cell_index, cell) in comparison.cells.iter().enumerate() {
        for (revision, side) in cell.sides.iter().enumerate() {
            for (metric, reason) in side.absent.iter().filter(|(metric, _)| wanted.contains(metric)) {
                let is_partial = side.column(metric).is_some();
                places.entry((reason, metric)).or_default().insert((revision, cell_index, is_partial));
            }
        }
    }
    let mut metrics_by_place: BTreeMap<(&str, BTreeSet<Place>), Vec<&str>> = BTreeMap::new();
    for ((reason, metric), places) in places {
        metrics_by_place.entry((reason, places)).or_default().push(metric);
    }
    let note = |((reason, places), metrics): ((&str, BTreeSet<Place>), Vec<&str>)| {
        let revisions: BTreeSet<usize> = places.iter().map(|(revision, ..)| *revision).collect();
        let names: Vec<&str> =
            revisions.iter().map(|&index| comparison.revisions[index].name.as_str()).collect();
        let cells: BTreeSet<usize> = places.iter().map(|(_, cell, _)| *cell).collect();
        let tests = in_tests(cells.len(), comparison.cells.len());
        let partly = if places.iter().all(|(_, _, is_partial)| *is_partial) { "partly " } else { "" };
        format!(
            "{} {partly}absent in {}{tests}: {}",
            metrics.join(", "),
            names.join(" and "),
            labels::one_line(reason)
        )
    };
    metrics_by_place.into_iter().map(note).collect()
}

fn in_tests(cells: usize, all: usize) -> String {
    if cells == all { String::new() } else { format!(" ({cells} of {})", counted(all, "test")) }
}

/// `cpu.peak not compared: VmHWM (main) / getrusage (pr/3370)`.
fn differing_sources(comparison: &Comparison, wanted: &MetricFilter) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for view in comparison.pairs() {
        for metric in comparison.metrics.iter().filter(|metric| wanted.contains(&metric.name)) {
            let column = view.column(&metric.name);
            let both = column.baseline.is_some() && column.candidate.is_some();
            if !both || column.comparability != Comparability::SourcesDiffer {
                continue;
            }
            let source = |side: &Aggregate| side.source(&metric.name).unwrap_or("not known").to_owned();
            let note = format!(
                "{} not compared, its sources differ: {} ({}) / {} ({})",
                metric.name,
                source(view.baseline),
                view.old.name,
                source(view.candidate),
                view.new.name
            );
            *times.entry(note).or_default() += 1;
        }
    }
    times.into_keys().collect()
}

/// `cpu.* not compared: the kernels differ: 5.10.0 / 6.1.0 (main / pr/7)`.
fn apart(comparison: &Comparison) -> Vec<String> {
    let baseline = &comparison.revisions[comparison.baseline].name;
    let note = |candidate: usize| {
        let name = &comparison.revisions[candidate].name;
        let each = comparison.apart.get(candidate).into_iter().flatten();
        each.map(move |one| format!("{} not compared: {} ({baseline} / {name})", one.metrics, one.reason))
    };
    comparison.candidates().flat_map(note).collect()
}

/// Checkpoints that only some repeats reached.
fn unsteady(comparison: &Comparison) -> Vec<String> {
    let sides = comparison.cells.iter().flat_map(|cell| {
        cell.sides.iter().enumerate().map(move |(revision, side)| (cell, revision, side.unsteady))
    });
    sides
        .filter(|(_, _, unsteady)| *unsteady > 0)
        .map(|(cell, revision, unsteady)| {
            let name = &comparison.revisions[revision].name;
            format!("{} of {} in {name} not in every repeat", counted(unsteady, "checkpoint"), cell.id.test)
        })
        .collect()
}

/// Marks that the runner put on runs, with how many bear them.
fn marks(comparison: &Comparison) -> Vec<String> {
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for mark in comparison.runs.iter().flat_map(|run| &run.record.marks) {
        *runs.entry(mark).or_default() += 1;
    }
    runs.into_iter()
        .map(|(mark, times)| format!("{}: {}", counted(times, "run"), labels::one_line(mark)))
        .collect()
}
