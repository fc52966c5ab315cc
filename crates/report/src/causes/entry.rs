//! One cause in words: the place, what it moves, and the test in which it shows most.

use crate::text;
use crate::titles;
use crate::why::words::{self, MOST_OF_FUNCTION};
use memprof_judge::compare::comparison::{Breach, Comparison, PairView, Ruling};
use memprof_judge::compare::standing::Standing;
use memprof_judge::why::causes::{Cause, CauseTest, Effect, Moved};
use memprof_judge::why::class::Class;
use memprof_judge::why::function_path::shortened;
use memprof_judge::why::reasons::Reason;
use memprof_plan::metric::Unit;
use memprof_plan::metric_family::MetricGroup;
use memprof_support::counted::counted;
use memprof_support::labels::one_line;

/// A cause with its texts. All are on one line.
pub struct Entry<'a> {
    pub cause: &'a Cause,
    /// `▲` or `▼`.
    pub sign: char,
    /// `src/inner.rs:123`, or `serde 1.0.180 → 1.0.200`.
    pub place: String,
    /// The function that changed, or the one that allocates.
    pub function: String,
    /// `changed in pr/7`, or why the memory is other.
    pub words: String,
    /// `+96.0 KiB`, or `+96.0 KiB of +1.20 MiB` if the worst test differs by more.
    pub amount: String,
    /// `heap.peak in 6 tests`.
    pub tests: String,
    /// The worst test.
    pub most: Most,
    /// What a reviewer should know.
    pub notice: Notice,
    /// Why the figures are not those of the runs without call stacks.
    pub remark: Option<String>,
    /// Whether leaving it out was measured.
    pub is_proven: bool,
}

/// What a cause is for a reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A test regressed because of it.
    Regressed,
    /// A test exceeds a limit because of it.
    OverLimit,
    /// All that grew because of it was expected to.
    Expected,
    /// Tests improved because of it, or other causes outweigh it.
    Improved,
}

/// What changed in a test.
pub struct Most {
    pub test: String,
    /// `13.3 → 109 KiB`, or the figure above a limit.
    pub figures: String,
    /// `×8.2`, or the limit.
    pub percent: String,
    /// `at 'done'`.
    pub place: String,
}

impl<'a> Entry<'a> {
    pub(super) fn new(comparison: &Comparison, cause: &'a Cause) -> Self {
        let most = cause.most();
        let function = shortened(cause.function(), MOST_OF_FUNCTION);
        let is_one = cause.tests.iter().all(|test| test.moved[0].amount == most.amount);
        let up_to = if is_one { "" } else { "up to " };
        Self {
            cause,
            sign: if cause.effect == Effect::Shrinkage { '▼' } else { '▲' },
            place: one_line(&place(cause)).into_owned(),
            function: one_line(&function).into_owned(),
            words: one_line(&said(comparison, cause)).into_owned(),
            amount: format!("{up_to}{}", amount(cause, most)),
            tests: one_line(&tests(cause)).into_owned(),
            notice: notice(comparison, cause),
            most: Most::new(comparison, cause, cause.worst()),
            remark: remark(comparison, cause),
            is_proven: false,
        }
    }

    /// Returns the function, or nothing if it is the place.
    pub fn function_beside_place(&self) -> &str {
        if self.function == self.place { "" } else { &self.function }
    }

    /// Returns `+96.0 KiB of +1.20 MiB heap.peak in 6 tests`, and `most: grows_by_one  13.3 → 109 KiB  ×8.2  at 'done'`.
    pub fn sentences(&self) -> [String; 2] {
        let Most { test, figures, percent, place } = &self.most;
        let most = if self.cause.tests.len() > 1 { "most: " } else { "" };
        let parts = [figures, percent, place].map(String::as_str);
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        [format!("{} {}", self.amount, self.tests), format!("{most}{test}  {}", parts.join("  "))]
    }
}

impl Most {
    /// Looks up the figures of a cause in a test.
    pub fn new(comparison: &Comparison, cause: &Cause, test: &CauseTest) -> Self {
        let name = titles::distinct_title(&comparison.cells[test.cell]);
        let empty = Self { test: name, figures: String::new(), percent: String::new(), place: String::new() };
        let Some((view, moved)) = view(comparison, cause, test) else { return empty };
        let row = &view.rows[moved.row];
        let place = format!("at '{}'", text::row_label(&view, row));
        if cause.effect == Effect::Limit {
            let unit = Unit::of_metric(&moved.metric);
            let is_own = |breach: &&Breach| breach.metric == moved.metric && breach.row == moved.row;
            let breach = view.pair.breaches.iter().find(is_own);
            let value = breach.map_or(moved.whole, |breach| breach.value);
            let limit = breach.map(|breach| text::limit(breach.limit, value, unit));
            let limit = limit.map_or_else(String::new, |limit| format!("limit {limit}"));
            return Self { figures: text::figure(value, unit), percent: limit, place, ..empty };
        }
        let figures = view.column(&moved.metric).at(row);
        let [old, new] = [figures.baseline, figures.candidate].map(|one| one.map_or(0, |one| one.value));
        Self {
            figures: text::from_to(old, new, Unit::of_metric(&moved.metric)),
            percent: figures.delta.map(|delta| text::percent(&delta)).unwrap_or_default(),
            place,
            ..empty
        }
    }
}

/// Returns `+96.0 KiB`, or `+96.0 KiB of +1.20 MiB` if the whole figure differs by more, or
/// `-96.0 KiB (+32.0 KiB elsewhere)` if other places work against it.
pub(super) fn amount(cause: &Cause, moved: &Moved) -> String {
    let unit = Unit::of_metric(&moved.metric);
    let shown = |amount: i64| match cause.effect {
        Effect::Limit => text::figure(amount, unit),
        Effect::Growth | Effect::Shrinkage => text::difference(amount.into(), unit),
    };
    let is_part = moved.amount.signum() == moved.whole.signum() && moved.amount.abs() < moved.whole.abs();
    match [moved.amount, moved.whole].map(shown) {
        [amount, whole] if amount == whole => amount,
        [amount, whole] if is_part => format!("{amount} of {whole}"),
        [amount, _] => {
            let elsewhere = i128::from(moved.whole) - i128::from(moved.amount);
            format!("{amount} ({} elsewhere)", text::difference(elsewhere, unit))
        }
    }
}

/// Returns `heap.peak in 6 tests`, or `heap.peak in 1 test, heap.live in 2` if tests are reported with
/// several metrics.
fn tests(cause: &Cause) -> String {
    let mut metrics: Vec<(&str, usize)> = Vec::new();
    for test in &cause.tests {
        let metric = &test.moved[0].metric;
        match metrics.iter_mut().find(|(known, _)| known == metric) {
            Some((_, count)) => *count += 1,
            None => metrics.push((metric, 1)),
        }
    }
    let part = |(index, (metric, count)): (usize, &(&str, usize))| match index {
        0 => format!("{metric} in {}", counted(*count, "test")),
        _ => format!("{metric} in {count}"),
    };
    let parts: Vec<String> = metrics.iter().enumerate().map(part).collect();
    let recorded = cause.tests.iter().filter(|test| test.is_recorded).count();
    let over = if cause.effect == Effect::Limit { " over a limit" } else { "" };
    let checked = match cause.tests.len() {
        all if all == recorded => String::new(),
        _ => format!(" ({recorded} with call stacks)"),
    };
    format!("{}{over}{checked}", parts.join(", "))
}

fn notice(comparison: &Comparison, cause: &Cause) -> Notice {
    match cause.effect {
        Effect::Limit => Notice::OverLimit,
        Effect::Shrinkage => Notice::Improved,
        Effect::Growth if cause.is_outweighed() => Notice::Improved,
        Effect::Growth if cause.tests.iter().all(|test| is_expected(comparison, cause, test)) => {
            Notice::Expected
        }
        Effect::Growth => Notice::Regressed,
    }
}

/// Whether all that a cause moves in a test was expected to grow. Another figure of the test may have regressed.
fn is_expected(comparison: &Comparison, cause: &Cause, test: &CauseTest) -> bool {
    let Some((view, _)) = view(comparison, cause, test) else { return true };
    if matches!(Standing::for_pair(comparison, &view), Standing::Expected | Standing::ExpectedOverLimit) {
        return true;
    }
    let is_moved = |metric: &str| {
        test.moved.iter().any(|moved| MetricGroup::of(&moved.metric) == MetricGroup::of(metric))
    };
    let judged = || view.pair.judged.iter().filter(|judged| is_moved(&judged.metric));
    let has = |is_meant: fn(&Ruling) -> bool| judged().any(|judged| judged.rulings().any(is_meant));
    has(Ruling::is_expected_growth) && !has(Ruling::counts)
}

/// Returns the pair of a test at the cause's candidate, and what moved.
fn view<'a>(
    comparison: &'a Comparison,
    cause: &Cause,
    test: &'a CauseTest,
) -> Option<(PairView<'a>, &'a Moved)> {
    let cell = &comparison.cells[test.cell];
    let pair = cell.pairs.iter().find(|pair| pair.candidate == cause.candidate)?;
    Some((comparison.view(cell, pair), &test.moved[0]))
}

fn place(cause: &Cause) -> String {
    match (&cause.reason, cause.place()) {
        (_, Some((path, line))) => format!("{path}:{line}"),
        (Reason::Dependency(changed), None) => words::dependency(changed),
        (Reason::Type(resized), None) => words::resized(resized),
        (Reason::Code(place), None) => place.clone(),
        (Reason::Hunk(at), None) => at.path.clone(),
    }
}

/// Returns what the diff has to do with it. A caller in the diff is the place, so the words name the
/// function that allocates.
fn said(comparison: &Comparison, cause: &Cause) -> String {
    let candidate = &comparison.revisions[cause.candidate].name;
    match &cause.site.class {
        Some(Class::CalledFrom(..)) if matches!(cause.reason, Reason::Hunk(_)) => {
            let allocates = shortened(cause.site.name(), MOST_OF_FUNCTION);
            format!("changed in {}, allocated in {allocates}", words::name_of(candidate))
        }
        Some(Class::Dependency(_)) => String::new(),
        _ if matches!(cause.reason, Reason::Type(_)) => {
            cause.site.location().map_or_else(String::new, |location| format!("allocated at {location}"))
        }
        _ => words::class(&cause.site, candidate),
    }
}

/// Says that the run with call stacks has another difference than the plain runs.
fn remark(comparison: &Comparison, cause: &Cause) -> Option<String> {
    let (view, moved) = view(comparison, cause, cause.worst()).filter(|_| cause.effect != Effect::Limit)?;
    let plain = view.column(&moved.metric).at(&view.rows[moved.row]).delta?.difference;
    let unit = Unit::of_metric(&moved.metric);
    let [recorded, plain] = [moved.whole.into(), plain].map(|one| text::difference(one, unit));
    // What the reader cannot see in the figures says nothing.
    (recorded != plain)
        .then(|| format!("with call stacks, the test differs by {recorded} instead of {plain}: it varies"))
}
