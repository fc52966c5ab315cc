//! The answer first: how many rows regressed, improved and so on, and one line for each verdict
//! that needs attention.

use std::cmp::Reverse;
use std::fmt;

use crate::compare::comparison::{Breach, BreachKind, Comparison, Delta, PairView, Ruling};
use crate::compare::evaluation::Conclusion;
use crate::compare::matching::{Match, RowChange};
use crate::plan::metric::Unit;
use crate::report::selection::{ShownMetric, TableSection};
use crate::report::text;
use crate::report::titles;
use crate::results::measurement::Kind;
use crate::support::counted::{counted, grouped};
use crate::support::labels;
use crate::verdict::kinds::Verdict;
use crate::verdict::limits::Expected;
use crate::verdict::significance::{ENOUGH, Significance};

/// The answer in numbers: verdicts, added, removed and renamed checkpoints, and how the other
/// figures changed.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    conclusion: Conclusion,
    added: usize,
    removed: usize,
    renamed: usize,
    /// Rows of metrics that are shown and not judged.
    grew: usize,
    shrank: usize,
    equal: usize,
    /// Tests without any compared figure.
    not_compared: usize,
    /// Executables that cannot be measured.
    not_measured: usize,
    statements: Vec<Statement>,
    largest: Option<UnjudgedGrowth>,
}

/// What a line of the answer reports, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementKind {
    /// An unexpected regression.
    Regressed,
    /// A figure above an absolute limit.
    OverLimit,
    /// An executable that cannot be measured.
    NotMeasured,
    /// Too much noise, or too few runs, for a verdict.
    Inconclusive,
    /// A change that `allow` expects.
    Expected,
}

impl StatementKind {
    /// Returns the word that begins the line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::OverLimit => "over its limit",
            Self::NotMeasured => "not measured",
            Self::Inconclusive => "inconclusive",
            Self::Expected => "expected",
        }
    }
}

/// The finding about one row.
#[derive(Clone, Debug)]
struct Statement {
    /// Bytes come before other units, and larger changes before smaller ones.
    order: (StatementKind, bool, Reverse<i128>),
    text: String,
}

/// A line of the answer.
#[derive(Clone, Debug)]
pub struct AnswerLine {
    /// What it reports; `None` for the number of lines left out.
    pub kind: Option<StatementKind>,
    /// The text after the kind.
    pub text: String,
}

/// `regressed: heap.peak +1.00 MiB …`.
impl fmt::Display for AnswerLine {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(formatter, "{}: {}", kind.word(), self.text),
            None => formatter.write_str(&self.text),
        }
    }
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
    /// Returns the tally of a comparison without its pairs: the executables that cannot be measured,
    /// and the exceeded limits of a single revision.
    pub fn of_whole(comparison: &Comparison) -> Self {
        let statements = comparison.not_measured.iter().map(|(revision, executable)| {
            let name = &comparison.revisions[*revision].name;
            let reason = labels::one_line(&executable.reason);
            let text = format!("{executable} in {name}: {reason}");
            Statement { order: (StatementKind::NotMeasured, false, Reverse(0)), text }
        });
        let statements: Vec<Statement> = statements.collect();
        let mut tally = Self { not_measured: statements.len(), statements, ..Self::default() };
        for view in comparison.alone() {
            tally.add_alone(comparison, &view);
        }
        tally
    }

    /// Adds a test of a single revision: its exceeded limits.
    pub fn add_alone(&mut self, comparison: &Comparison, view: &PairView) {
        self.conclusion.add(view);
        self.add_statements(comparison, view);
    }

    /// Adds a pair: all its verdicts, and the shown figures that are not judged.
    pub fn add(&mut self, comparison: &Comparison, view: &PairView, sections: &[TableSection]) {
        let before = self.count();
        self.conclusion.add(view);
        self.add_statements(comparison, view);
        if view.is_compared() {
            // Calls that came or went show in the table of calls.
            for row in view.rows.iter().filter(|row| view.key(row).kind != Kind::Call) {
                match view.change(row) {
                    Some(RowChange::Added) => self.added += 1,
                    Some(RowChange::Removed) => self.removed += 1,
                    Some(RowChange::Renamed) => self.renamed += 1,
                    Some(RowChange::Matched) | None => {}
                }
            }
            for section in sections {
                self.add_not_judged(view, &section.rows, &section.shown);
            }
        }
        if self.count() == before {
            self.not_compared += 1;
        }
    }

    fn add_statements(&mut self, comparison: &Comparison, view: &PairView) {
        for judged in &view.pair.judged {
            let column = view.column(&judged.metric);
            for row in view.rows {
                let Some(ruling) = judged.at(row) else { continue };
                if !matches!(ruling.verdict, Verdict::Regressed | Verdict::Inconclusive) {
                    continue;
                }
                let Some(significance) = ruling.significance else { continue };
                let Some(delta) = column.at(row).delta else { continue };
                let finding =
                    Finding { comparison, view, row, metric: &judged.metric, ruling, significance, delta };
                self.statements.push(finding.statement());
            }
        }
        let breaches = view.pair.breaches.iter();
        self.statements.extend(breaches.map(|breach| breach_statement(comparison, view, breach)));
    }

    fn add_not_judged(&mut self, view: &PairView, rows: &[&Match], shown: &[ShownMetric]) {
        for shown in shown {
            let mut largest: Option<(i128, &Match)> = None;
            for row in rows {
                let Some(delta) = shown.column.at(row).delta.filter(|_| shown.ruling(row).is_none()) else {
                    continue;
                };
                match delta.difference {
                    0 => self.equal += 1,
                    1.. => self.grew += 1,
                    _ => self.shrank += 1,
                }
                if delta.difference > largest.map_or(0, |(difference, _)| difference) {
                    largest = Some((delta.difference, row));
                }
            }
            let Some((difference, row)) = largest else { continue };
            // Bytes matter most: another unit's growth is named only if no bytes grew.
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
                    test: titles::title(view),
                });
            }
        }
    }

    /// Returns the number of compared rows.
    fn count(&self) -> usize {
        let Conclusion { regressed, expected, improved, unchanged, inconclusive, breaches, .. } =
            self.conclusion;
        let judged = regressed + expected + improved + unchanged + inconclusive + breaches;
        judged + self.grew + self.shrank + self.equal + self.added + self.removed + self.renamed
    }

    /// Returns `1 regressed, 1 improved, 4 unchanged, 1 added`, without zeros.
    pub fn counts(&self) -> String {
        let Conclusion { regressed, expected, improved, unchanged, inconclusive, breaches, .. } =
            self.conclusion;
        let number = |number: usize| grouped(i128::try_from(number).unwrap_or(i128::MAX));
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
        if self.not_measured > 0 {
            parts.push(format!("{} not measured", counted(self.not_measured, "executable")));
        }
        if self.not_compared > 0 {
            parts.push(format!("{} not compared", counted(self.not_compared, "test")));
        }
        let rest = joined(&[(self.grew, "grew"), (self.shrank, "shrank"), (self.equal, "equal")]);
        match (parts.is_empty(), rest.is_empty()) {
            (true, true) => "nothing to compare".to_owned(),
            (false, true) => parts.join(", "),
            (true, false) => format!("not judged: {}", rest.join(", ")),
            (false, false) => format!("{}; not judged: {}", parts.join(", "), rest.join(", ")),
        }
    }

    /// Returns the lines on regressions, breached limits, and inconclusive or expected rows: at
    /// most `most` of each kind, then the number of those left out.
    pub fn lines(&self, most: usize) -> Vec<AnswerLine> {
        let mut statements: Vec<&Statement> = self.statements.iter().collect();
        statements.sort_by_key(|statement| statement.order);
        let mut lines = Vec::new();
        for of_one_kind in statements.chunk_by(|a, b| a.order.0 == b.order.0) {
            let kind = of_one_kind[0].order.0;
            let shown = of_one_kind.iter().take(most);
            lines.extend(shown.map(|one| AnswerLine { kind: Some(kind), text: one.text.clone() }));
            if of_one_kind.len() > most {
                let text = format!("… {} more {}", of_one_kind.len() - most, kind.word());
                lines.push(AnswerLine { kind: None, text });
            }
        }
        lines
    }

    /// Returns the largest growth that is not judged: `heap.live +112 KiB (+0.26 %) at 'done
    /// encoder' of hf_fwd`.
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

/// A row that regressed or is inconclusive.
struct Finding<'a> {
    comparison: &'a Comparison,
    view: &'a PairView<'a>,
    row: &'a Match,
    metric: &'a str,
    ruling: Ruling,
    significance: Significance,
    delta: Delta,
}

impl Finding<'_> {
    fn statement(&self) -> Statement {
        let unit = Unit::of(self.metric);
        let change = changed_by(self.metric, unit, &self.delta);
        let limit = limit_of(self.significance.limit, unit);
        let raised = if self.significance.is_raised { ", the measurement error" } else { "" };
        let limit = format!("limit {limit}{raised}");
        let place = place(self.comparison, self.view, self.row);
        let (kind, text) = match (self.ruling.verdict, reason(self.comparison, self.ruling.expected)) {
            (Verdict::Regressed, Some(reason)) => {
                (StatementKind::Expected, format!("{change} {place}: {reason}"))
            }
            (Verdict::Regressed, None) => (StatementKind::Regressed, format!("{change} {place} ({limit})")),
            _ => (StatementKind::Inconclusive, format!("{change} {place}: {} ({limit})", self.doubt(unit))),
        };
        Statement { order: (kind, unit != Unit::Bytes, Reverse(self.delta.difference)), text }
    }

    /// Returns why the runs allow no verdict.
    fn doubt(&self, unit: Unit) -> String {
        let Significance { samples, low, high, .. } = self.significance;
        match samples {
            1 => "one run a side cannot separate a change from noise".to_owned(),
            few if few < ENOUGH => {
                format!("{few} runs a side cannot separate a change from noise, {ENOUGH} can")
            }
            _ => {
                let [low, high] = [low, high].map(|bound| match bound {
                    0 => "0".to_owned(),
                    bound => text::difference(bound, unit),
                });
                format!("between {low} and {high} after {samples} runs a side")
            }
        }
    }
}

fn limit_of(limit: u64, unit: Unit) -> String {
    text::figure(i64::try_from(limit).unwrap_or(i64::MAX), unit)
}

/// `at 'done encoder' of hf_fwd`; with several candidates, also which one.
fn place(comparison: &Comparison, view: &PairView, row: &Match) -> String {
    let several = comparison.revisions.len() > 2;
    let candidate = if several { format!(" in {}", labels::one_line(&view.new.name)) } else { String::new() };
    format!("at '{}' of {}{candidate}", text::row_label(view, row), titles::title(view))
}

/// Returns why a change was expected, if it was.
fn reason(comparison: &Comparison, expected: Option<Expected>) -> Option<String> {
    let expected = expected.filter(|expected| !expected.has_expired)?;
    Some(labels::one_line(&comparison.allow.get(expected.index)?.reason).into_owned())
}

fn breach_statement(comparison: &Comparison, view: &PairView, breach: &Breach) -> Statement {
    let unit = Unit::of(&breach.metric);
    let metric = &breach.metric;
    let place = place(comparison, view, &view.rows[breach.row]);
    let limit = limit_of(breach.limit, unit);
    let excess = match breach.kind {
        BreachKind::Limit => format!("{metric} {} {place}", text::figure(breach.value, unit)),
        BreachKind::Leak => {
            format!("{metric} {} since 'start' {place}", text::difference(breach.value.into(), unit))
        }
    };
    let (kind, text) = match reason(comparison, breach.expected) {
        Some(reason) => (StatementKind::Expected, format!("{excess} (limit {limit}): {reason}")),
        None => (StatementKind::OverLimit, format!("{excess} (limit {limit})")),
    };
    Statement { order: (kind, unit != Unit::Bytes, Reverse(breach.value.into())), text }
}
