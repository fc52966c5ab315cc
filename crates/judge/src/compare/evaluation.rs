//! Gives the verdicts of a comparison: every judged metric at every row, upper limits, leaks, and
//! the conclusion.

use crate::compare::aggregate::Availability;
use crate::compare::budget::KnownBudget;
use crate::compare::comparison::{
    Breach, BreachKind, Comparability, Comparison, JudgedMetric, PairColumn, PairView, Ruling,
};
use crate::compare::kept_memory;
use crate::compare::lost_figures;
use crate::compare::matching::{Match, RowChange};
use crate::compare::moved_with_heap;
use crate::compare::noise::KnownNoise;
use crate::compare::program_pages::{ProgramPages, without};
use crate::compare::unchecked_limits;
use crate::compare::unchecked_thresholds;
use crate::compare::unmatched_rules;
use crate::results::measurement::Kind;
use crate::verdict::kinds::Verdict;
use crate::verdict::limits::{self, Limits, MetricLimits, RowLimits};
use crate::verdict::significance::{Noise, Significance, Thresholds, judge, judge_pairs};
use crate::verdict::statistics::spread;
use memprof_plan::budget::BudgetLimit;
use memprof_plan::metric::{self, Figure, Property, Unit};
use memprof_plan::rule::{Judging, NoiseFigure};
use memprof_support::exit_code::ExitCode;

/// Gives every verdict. Expiry uses the comparison's date, so a later report of the same run says
/// the same.
///
/// # Panics
/// If a rule's expression is invalid. Rules are checked when they are read.
pub(crate) fn judge_all(comparison: &mut Comparison, judging: &Judging) {
    let limits = Limits::new(judging).expect("expressions are checked where they are read");
    let today = comparison.created.get(..10).unwrap_or_default().to_owned();
    let known = KnownNoise::new(&judging.noise, comparison);
    let budget = KnownBudget::new(judging.budget.as_ref(), comparison);
    let mut verdicts = Vec::new();
    for cell in &comparison.cells {
        let test = format!("{} {}", cell.id.test, cell.id.title);
        let of_budget = budget.entries_for(&cell.id.full_name(), &cell.id);
        for pair in cell.pairs.iter().chain(&cell.alone) {
            let view = comparison.view(cell, pair);
            let pair_judge = PairJudge { view, limits: &limits, known: &known, test: &test, today: &today };
            let mut judged = Vec::new();
            let mut breaches = Vec::new();
            for metric in &comparison.metrics {
                let of_metric = limits.for_metric(&test, &metric.name);
                if !view.is_alone() {
                    judged.extend(pair_judge.metric(&metric.name, &of_metric));
                }
                breaches.extend(pair_judge.breaches(&metric.name, &of_metric));
                breaches.extend(pair_judge.leak(&metric.name, &of_metric));
            }
            pair_judge.explain_resident(&mut judged);
            for entry in &of_budget {
                breaches.extend(pair_judge.over_budget(entry, &budget));
            }
            verdicts.push((judged, breaches));
        }
    }
    let unchecked = unchecked_limits::notes(comparison, &limits);
    let lost = lost_figures::notes(comparison, &limits);
    let (thresholds, other_thresholds) = unchecked_thresholds::notes(comparison, &limits);
    let noise_note = known.note();
    let unmatched = unmatched_rules::notes(comparison, &limits);
    let (of_budget, budget_notes) = budget.unchecked(comparison);
    let pairs = comparison.cells.iter_mut().flat_map(|cell| cell.pairs.iter_mut().chain(&mut cell.alone));
    for (pair, (judged, breaches)) in pairs.zip(verdicts) {
        (pair.judged, pair.breaches) = (judged, breaches);
    }
    comparison.notes.extend(expired(comparison));
    comparison.unchecked += unchecked.len() + lost.len() + unmatched.len() + thresholds.len() + of_budget;
    let unchecked = [unchecked, lost, thresholds, unmatched, budget_notes].concat();
    comparison.notes.extend(unchecked.iter().cloned().chain(other_thresholds).chain(noise_note));
    comparison.unchecked_notes.extend(unchecked);
}

/// Judges one pair.
struct PairJudge<'a> {
    view: PairView<'a>,
    limits: &'a Limits,
    known: &'a KnownNoise<'a>,
    test: &'a str,
    today: &'a str,
}

impl PairJudge<'_> {
    fn label(&self, row: &Match) -> &str {
        &self.view.cell.labels[self.view.key(row).label as usize]
    }

    /// The labels of a row, at the baseline and at the candidate.
    fn labels(&self, row: &Match) -> [&str; 2] {
        [self.label(row), self.label_of_candidate(row).unwrap_or_else(|| self.label(row))]
    }

    /// Judges a metric at every row; `None` if it is judged at no row.
    fn metric(&self, metric: &str, limits: &MetricLimits<'_>) -> Option<JudgedMetric> {
        let common = (!limits.depends_on_checkpoint()).then(|| limits.at(""));
        if common.as_ref().is_some_and(|common| common.growth.is_none()) {
            return None;
        }
        let column = self.view.column(metric);
        let floor = self.floor(metric);
        let path = self.view.cell.id.test.to_string();
        let widest = self.widest(metric, &column);
        let rulings = self.view.rows.iter().map(|row| {
            if !self.is_judged(row, limits) {
                return None;
            }
            let own;
            let at: &RowLimits = if let Some(common) = &common {
                common
            } else {
                own = limits.at_any(&self.labels(row));
                &own
            };
            let thresholds = at.growth.as_ref()?;
            let known = |apart| self.known_variation(&path, metric, row, apart);
            let known =
                Known { of_samples: known(|one| one.spread), of_pairs: known(NoiseFigure::of_rounds) };
            self.ruling(metric, row, (&column, widest), thresholds, (floor, known))
        });
        let judged = JudgedMetric::new(metric, limits.is_asked(), self.view.rows, rulings);
        let is_judged = judged.rulings().next().is_some();
        is_judged.then_some(judged)
    }

    /// Returns how much a metric is known to vary at the baseline's checkpoint and those whose figures are joined with
    /// it. The candidate's new checkpoints are of the same interval.
    fn known_variation(
        &self,
        path: &str,
        metric: &str,
        row: &Match,
        apart: fn(&NoiseFigure) -> u64,
    ) -> Option<u64> {
        let of_key = |key| self.known.variation(path, &self.view, metric, key).map(apart);
        let own = of_key(self.view.key(row))?;
        let (figure, side) = (metric::known(metric).figure, 0);
        let before = row.baseline.map_or(&[][..], |at| self.view.pair.joined.before(figure, side, at));
        let mut joined = before.iter().map(|at| of_key(self.view.baseline.keys[*at]));
        match figure {
            Figure::Total => joined.try_fold(own, |sum, one| Some(sum.saturating_add(one?))),
            Figure::Peak | Figure::Level => joined.try_fold(own, |most, one| Some(most.max(one?))),
        }
    }

    /// Explains resident memory by the heap, unless the user asked for it.
    fn explain_resident(&self, judged: &mut [JudgedMetric]) {
        let limits = self.limits.for_metric(self.test, kept_memory::RESIDENT);
        if !limits.is_asked() && !self.limits.shows(kept_memory::RESIDENT) {
            let floor = self.floor(kept_memory::RESIDENT);
            let growth = |row: &Match| limits.at_any(&self.labels(row)).growth;
            kept_memory::explain(&self.view, judged, floor, growth);
            self.settle_resident(judged, &limits, floor);
        }
    }

    /// Gives the verdict on resident memory where it follows from that on the heap.
    fn settle_resident(&self, judged: &mut [JudgedMetric], limits: &MetricLimits<'_>, floor: u64) {
        let of = |metric: &str| judged.iter().position(|one| one.metric == metric);
        let Some((resident, heap)) = of(kept_memory::RESIDENT).zip(of("heap.peak")) else { return };
        let column = self.view.column(kept_memory::RESIDENT);
        let rulings = self.view.rows.iter().map(|row| {
            let ruling = judged[resident].at(row)?;
            let settled = judged[heap].at(row).zip(limits.at_any(&self.labels(row)).growth);
            let settled = settled.and_then(|(heap, thresholds)| {
                moved_with_heap::settled(&self.view, row, [&ruling, &heap], &thresholds, floor)
            });
            Some(settled.map_or(ruling, |settled| self.ruled(kept_memory::RESIDENT, row, &column, settled)))
        });
        let rulings: Vec<Option<Ruling>> = rulings.collect();
        judged[resident] =
            JudgedMetric::new(kept_memory::RESIDENT, limits.is_asked(), self.view.rows, rulings.into_iter());
    }

    /// Calls are judged only if a rule names them. So tracing changes no verdict.
    fn is_judged(&self, row: &Match, limits: &MetricLimits<'_>) -> bool {
        self.view.key(row).kind != Kind::Call || limits.names(self.label(row))
    }

    fn ruling(
        &self,
        metric: &str,
        row: &Match,
        (column, widest): (&PairColumn<'_>, Widest),
        thresholds: &Thresholds,
        (floor, known): (u64, Known),
    ) -> Option<Ruling> {
        let entry = column.at(row);
        let plain = |verdict| Some(Ruling { verdict, significance: None, expected: None, is_kept: false });
        let (old, new) = match (self.view.change(row), entry.baseline, entry.candidate) {
            (_, None, None) => return None,
            (Some(RowChange::Added), ..) => return plain(Verdict::Added),
            (Some(RowChange::Removed), ..) => return plain(Verdict::Removed),
            (Some(_), Some(_), Some(_)) if column.comparability == Comparability::Comparable => {
                let [old, new] = column.readings(row);
                let pages = if metric == kept_memory::RESIDENT {
                    ProgramPages::at(&self.view, row)
                } else {
                    ProgramPages::default()
                };
                (without(old.into_iter(), &pages.baseline), without(new.into_iter(), &pages.candidate))
            }
            _ => return plain(Verdict::Missing),
        };
        let of_pairs = widest.of_pairs.map(|widest| (self.view.rounds().readings(&old, &new), widest));
        let [old, new] = [old, new].map(|side| side.into_iter().flatten().collect::<Vec<i64>>());
        let noise = |widest: u64, known: Option<u64>| {
            let is_steady = widest <= steady_within(metric, thresholds);
            let provable = metric::known(metric).is_counted() && is_steady;
            Noise { floor, known, provable, single_threaded: self.view.candidate.is_single_threaded }
        };
        let of_pairs = of_pairs.and_then(|((old, new), widest)| {
            judge_pairs(&old, &new, thresholds, noise(widest, known.of_pairs))
        });
        let of_samples = || judge(&old, &new, thresholds, noise(widest.of_samples, known.of_samples));
        let significance = match of_pairs {
            // A saved baseline may have runs without a partner, which confirm what all repeat.
            Some(of_pairs) if of_pairs.is_preliminary => {
                Some(of_samples()).filter(|of_samples| of_samples.exact).unwrap_or(of_pairs)
            }
            // The difference of two figures may vary twice as much as each of them, and so have the wide limit.
            Some(of_pairs) if !of_pairs.exact && !of_pairs.is_quiet => Some(of_samples())
                .filter(|of_samples| of_samples.exact || of_samples.is_quiet)
                .unwrap_or(of_pairs),
            Some(of_pairs) => of_pairs,
            None => of_samples(),
        };
        Some(self.ruled(metric, row, column, significance))
    }

    /// The ruling with this verdict. Growth may be expected, also if it is not certain.
    fn ruled(
        &self,
        metric: &str,
        row: &Match,
        column: &PairColumn<'_>,
        significance: Significance,
    ) -> Ruling {
        let baseline = column.at(row).baseline.map(|figure| figure.value);
        let growth = match significance.verdict {
            Verdict::Regressed => Some(significance.change),
            Verdict::Inconclusive if significance.may_have_grown() => Some(significance.high),
            _ => None,
        };
        let expected = growth.and_then(|growth| {
            let candidate = i128::from(baseline.unwrap_or(0)).saturating_add(growth);
            let change = limits::ObservedChange {
                test: self.test,
                metric,
                labels: self.labels(row),
                baseline,
                candidate: i64::try_from(candidate).unwrap_or(i64::MAX),
            };
            self.limits.expected(&change, self.today)
        });
        Ruling { verdict: significance.verdict, significance: Some(significance), expected, is_kept: false }
    }

    /// Returns the measurement error that the sources state.
    fn floor(&self, metric: &str) -> u64 {
        let sides = [self.view.baseline, self.view.candidate];
        sides.iter().filter_map(|side| bound_of(side.source(metric)?)).max().unwrap_or(0)
    }

    /// Returns the largest spreads at any checkpoint.
    fn widest(&self, metric: &str, column: &PairColumn<'_>) -> Widest {
        let is_counted = metric::known(metric).is_counted();
        let are_enough = self.view.rounds().are_enough(metric);
        let of_samples = if is_counted { self.widest_of_samples(column) } else { 0 };
        Widest { of_samples, of_pairs: are_enough.then(|| self.widest_of_pairs(column)) }
    }

    /// Returns the largest spread of the differences between the two sides of a round.
    fn widest_of_pairs(&self, column: &PairColumn<'_>) -> u64 {
        let rows = self.view.rows.iter().filter(|row| self.view.key(row).kind != Kind::Call);
        let spreads = rows.map(|row| {
            let [old, new] = column.readings(row);
            let (old, new) = self.view.rounds().readings(&old, &new);
            let changes: Vec<i64> =
                old.iter().zip(new).filter_map(|(old, new)| new.checked_sub(*old)).collect();
            spread(&changes)
        });
        spreads.max().unwrap_or(0)
    }

    /// Returns the largest spread of a side's repeats at any checkpoint.
    fn widest_of_samples(&self, column: &PairColumn<'_>) -> u64 {
        let sides = [(column.baseline, self.view.baseline), (column.candidate, self.view.candidate)];
        let spreads = sides.into_iter().filter_map(|(column, side)| Some((column?, &side.keys)));
        let spreads = spreads.flat_map(|(column, keys)| {
            let own = keys.iter().enumerate().filter(|(_, key)| key.kind != Kind::Call);
            let figures = own.filter_map(move |(index, _)| column.figure(index));
            figures.map(|figure| figure.max.abs_diff(figure.min))
        });
        spreads.max().unwrap_or(0)
    }

    fn breaches(&self, metric: &str, limits: &MetricLimits<'_>) -> Vec<Breach> {
        if !limits.has_upper_limit() || self.view.candidate.availability != Availability::Measured {
            return Vec::new();
        }
        let column = self.view.column(metric);
        let rows = self.view.rows.iter().enumerate();
        let breaches = rows.filter(|(_, row)| self.is_judged(row, limits)).filter_map(|(index, row)| {
            let limit = limits.at(self.label_of_candidate(row)?).most?;
            let value = column.candidate?.figure(row.candidate?)?.max;
            if i128::from(value) <= i128::from(limit) {
                return None;
            }
            Some(self.breach(
                metric,
                index,
                self.baseline_of(&column, row),
                Excess { kind: BreachKind::Limit, value, limit },
            ))
        });
        breaches.collect()
    }

    /// Returns the figures above an entry of the budget.
    fn over_budget(&self, entry: &BudgetLimit, budget: &KnownBudget<'_>) -> Vec<Breach> {
        let column = self.view.column(&entry.metric);
        if self.view.candidate.availability != Availability::Measured {
            return Vec::new();
        }
        let is_meant = |row: &Match| {
            self.view.key(row).kind == Kind::Point && self.label_of_candidate(row) == Some(&entry.checkpoint)
        };
        let rows = self.view.rows.iter().enumerate().filter(|(_, row)| is_meant(row));
        let breaches = rows.filter_map(|(index, row)| {
            let value = column.candidate?.figure(row.candidate?)?.max;
            if i128::from(value) <= i128::from(entry.limit) {
                return None;
            }
            let excess = Excess { kind: BreachKind::Limit, value, limit: entry.limit };
            let breach = self.breach(&entry.metric, index, self.baseline_of(&column, row), excess);
            Some(Breach { place: Some(budget.place(entry)), ..breach })
        });
        breaches.collect()
    }

    /// The baseline's own figure at a row, which an absolute limit does not need.
    fn baseline_of(&self, column: &PairColumn<'_>, row: &Match) -> Option<i64> {
        let column = column.baseline.filter(|_| !self.view.is_alone())?;
        Some(column.figure(row.baseline?)?.value)
    }

    /// The candidate's own label of a row, which the baseline may call otherwise.
    fn label_of_candidate(&self, row: &Match) -> Option<&str> {
        let key = self.view.candidate.keys.get(row.candidate?)?;
        Some(&self.view.cell.labels[key.label as usize])
    }

    /// Returns the largest growth of a level from the first to the last checkpoint of any run, if it exceeds
    /// the limit. A peak or a total of the last interval is not memory that is kept.
    fn leak(&self, metric: &str, limits: &MetricLimits<'_>) -> Option<Breach> {
        let limit = limits.leak().filter(|_| metric::known(metric).figure == Figure::Level)?;
        let side = self.view.candidate;
        let column = side.column(metric).filter(|_| side.availability == Availability::Measured)?;
        let labels = &self.view.cell.labels;
        let named = |label: &str| {
            let label = u32::try_from(labels.get_index_of(label)?).ok()?;
            side.keys
                .iter()
                .position(|key| key.label == label && key.kind == Kind::Point && key.occurrence == 1)
        };
        let (first, last) = (named(limits::LEAK_FROM)?, named(limits::LEAK_TO)?);
        let both = column.readings(first).zip(column.readings(last));
        let nothing = metric::known(metric).is(Property::ZeroAtFirst).then_some(0);
        let left = both.filter_map(|(first, last)| last?.checked_sub(first.or(nothing)?)).max()?;
        if i128::from(left) <= i128::from(limit) {
            return None;
        }
        let row = self.view.rows.iter().position(|row| row.candidate == Some(last))?;
        Some(self.breach(metric, row, None, Excess { kind: BreachKind::Leak, value: left, limit }))
    }

    fn breach(&self, metric: &str, row: usize, baseline: Option<i64>, excess: Excess) -> Breach {
        let Excess { kind, value, limit } = excess;
        let label = self.label_of_candidate(&self.view.rows[row]).unwrap_or_default();
        let change = limits::ObservedChange {
            test: self.test,
            metric,
            labels: [label; 2],
            baseline,
            candidate: value,
        };
        let expected = self.limits.expected(&change, self.today);
        Breach { metric: metric.to_owned(), row, kind, value, limit, place: None, expected }
    }
}

/// How far a metric's readings are apart, at the checkpoint where they vary most.
#[derive(Clone, Copy, Default)]
struct Widest {
    /// Of one side.
    of_samples: u64,
    /// Of the differences between the two sides of a round, if both got the same random numbers.
    of_pairs: Option<u64>,
}

/// What the noise file says about [`Widest`], at one checkpoint.
#[derive(Clone, Copy)]
struct Known {
    of_samples: Option<u64>,
    of_pairs: Option<u64>,
}

/// A value above an absolute limit.
#[derive(Clone, Copy)]
struct Excess {
    kind: BreachKind,
    value: i64,
    limit: u64,
}

/// A metric that varies by no more than this at all checkpoints counts as steady. The test harness
/// alone may take a few bytes more or less.
fn steady_within(metric: &str, thresholds: &Thresholds) -> u64 {
    thresholds.tight.bytes.unwrap_or(match Unit::of_metric(metric) {
        Unit::Bytes => 16 << 10,
        Unit::Count => 100,
        Unit::Nanoseconds => 0,
    })
}

/// Returns the error bound that a source states: `…, within 768 KiB`.
pub fn bound_of(source: &str) -> Option<u64> {
    let (_, bound) = source.split_once("within ")?;
    let (number, unit) = bound.split_once(' ')?;
    let end = unit.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(unit.len());
    memprof_plan::quantity::size(&format!("{number} {}", &unit[..end])).ok()
}

/// Returns a note for each expired entry of `allow` that still matches a change.
fn expired(comparison: &Comparison) -> Vec<String> {
    let rulings = |view: PairView<'_>| {
        let rulings = view.pair.judged.iter().flat_map(JudgedMetric::rulings);
        let of_rows = rulings.filter_map(|ruling| ruling.expected).collect::<Vec<_>>();
        of_rows
            .into_iter()
            .chain(view.pair.breaches.iter().filter_map(|breach| breach.expected).collect::<Vec<_>>())
    };
    let mut indices: Vec<usize> = (comparison.checked().flat_map(rulings))
        .filter(|expected| expected.has_expired)
        .map(|expected| expected.index)
        .collect();
    indices.sort_unstable();
    indices.dedup();
    let note = |index: usize| {
        let allowance = &comparison.allow[index];
        let until = allowance.until.as_deref().unwrap_or_default();
        format!("allow: '{}' expired on {until}: its changes count as regressions again", allowance.reason)
    };
    indices.into_iter().map(note).collect()
}

/// The verdicts in numbers of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conclusion {
    /// Unexpected regressions.
    pub regressed: usize,
    /// Expected growth, certain or not, and expected breaches.
    pub expected: usize,
    /// Rows that improved.
    pub improved: usize,
    /// Rows without a change.
    pub unchanged: usize,
    /// Rows with too much noise, or too few runs, for a verdict.
    pub inconclusive: usize,
    /// Inconclusive figures that may have grown. The others improved, or did not change.
    pub may_have_grown: usize,
    /// Rows that could not be compared.
    pub missing: usize,
    /// Those of tests that passed at both revisions, limits and thresholds that no figure was checked
    /// against, and failed tests without a partner.
    pub missing_of_both: usize,
    /// Figures above an upper limit, leaks, and tests whose own memory assertion does not hold.
    pub breaches: usize,
}

impl Conclusion {
    /// Counts the verdicts of a comparison.
    pub fn from_comparison(comparison: &Comparison) -> Self {
        let mut conclusion = Self { missing_of_both: comparison.unchecked, ..Self::default() };
        for view in comparison.checked() {
            conclusion.add(&view);
        }
        comparison.unpaired_breaches.iter().for_each(|one| conclusion.add_breach(&one.breach));
        conclusion
    }

    /// Adds a pair's verdicts.
    pub fn add(&mut self, view: &PairView<'_>) {
        for judged in &view.pair.judged {
            for ruling in judged.rulings() {
                match ruling.verdict {
                    _ if ruling.is_expected_growth() => self.expected += 1,
                    Verdict::Regressed => self.regressed += 1,
                    Verdict::Improved => self.improved += 1,
                    Verdict::Unchanged => self.unchanged += 1,
                    Verdict::Inconclusive => {
                        self.inconclusive += 1;
                        self.may_have_grown += usize::from(ruling.may_have_grown());
                    }
                    Verdict::Missing => {
                        self.missing += 1;
                        self.missing_of_both += usize::from(view.is_compared());
                    }
                    Verdict::Added | Verdict::Removed => {}
                }
            }
        }
        self.breaches += usize::from(view.breaks_own_limit());
        view.pair.breaches.iter().for_each(|breach| self.add_breach(breach));
    }

    fn add_breach(&mut self, breach: &Breach) {
        if breach.counts() {
            self.breaches += 1;
        } else {
            self.expected += 1;
        }
    }

    /// Returns the exit code that the verdicts lead to. Failed builds and tests are not included.
    pub fn exit_code(&self) -> ExitCode {
        let applies = [
            (self.regressed + self.breaches > 0, ExitCode::Regression),
            (self.missing_of_both > 0, ExitCode::Incomplete),
            (self.may_have_grown > 0, ExitCode::Inconclusive),
        ];
        let codes = applies.into_iter().filter(|(applies, _)| *applies).map(|(_, code)| code);
        codes.fold(ExitCode::Success, ExitCode::worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_bound_is_read_from_the_source() {
        assert_eq!(bound_of("VmHWM since the last checkpoint, within 768 KiB"), Some(768 << 10));
        assert_eq!(bound_of("/proc/self/statm, within 24 MiB (32 cores)"), Some(24 << 20));
        assert_eq!(bound_of("tracking allocator"), None);
        assert_eq!(bound_of("NVML, within reason"), None);
    }

    #[test]
    fn a_regression_outranks_missing_figures_and_these_outrank_noise() {
        let code = |regressed, may_have_grown, missing_of_both| {
            Conclusion { regressed, may_have_grown, missing_of_both, ..Conclusion::default() }.exit_code()
        };
        assert_eq!(code(1, 1, 1), ExitCode::Regression);
        assert_eq!(code(0, 1, 1), ExitCode::Incomplete);
        assert_eq!(code(0, 1, 0), ExitCode::Inconclusive);
        assert_eq!(code(0, 0, 1), ExitCode::Incomplete);
        assert_eq!(code(0, 0, 0), ExitCode::Success);
        let breached = Conclusion { breaches: 1, ..Conclusion::default() };
        assert_eq!(breached.exit_code(), ExitCode::Regression);
        let expected = Conclusion { expected: 3, ..Conclusion::default() };
        assert_eq!(expected.exit_code(), ExitCode::Success);
    }
}
