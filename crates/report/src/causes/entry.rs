//! One cause in words: the place, what it moves, and the test in which it shows most.

use crate::text;
use crate::titles;
use crate::why::words;
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::standing::Standing;
use memprof_judge::why::causes::{Cause, CauseTest, Moved};
use memprof_judge::why::class::Class;
use memprof_judge::why::function_path::shortened;
use memprof_judge::why::reasons::Reason;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::labels::one_line;

/// A function in a sentence is cut to this width.
const MOST_OF_FUNCTION: usize = 60;

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
    /// `+96.0 KiB heap.peak`.
    pub amount: String,
    /// `in 6 tests`.
    pub tests: String,
    /// The worst test.
    pub most: Most,
    /// Whether each test in which it shows grew as expected, or not beyond its limit.
    pub is_expected: bool,
    /// Why the figures are not those of the runs without call stacks.
    pub remark: Option<String>,
}

/// What changed in a test.
pub struct Most {
    pub test: String,
    /// `13.3 → 109 KiB`.
    pub figures: String,
    /// `×8.2`.
    pub percent: String,
    /// `at 'done'`.
    pub place: String,
}

impl<'a> Entry<'a> {
    pub(super) fn new(comparison: &Comparison, cause: &'a Cause) -> Self {
        let most = cause.most();
        let unit = Unit::of_metric(&most.metric);
        let amounts = cause.tests.iter().map(|test| &test.moved[0]);
        let is_one = amounts.filter(|one| one.metric == most.metric).all(|one| one.amount == most.amount);
        let up_to = if is_one { "" } else { "up to " };
        let recorded = cause.tests.iter().filter(|test| test.is_recorded).count();
        let checked = match cause.tests.len() {
            all if all == recorded => String::new(),
            _ => format!(" ({recorded} with call stacks)"),
        };
        let function = shortened(cause.function(), MOST_OF_FUNCTION);
        Self {
            cause,
            sign: if most.amount < 0 { '▼' } else { '▲' },
            place: one_line(&place(cause)).into_owned(),
            function: one_line(&function).into_owned(),
            words: one_line(&said(comparison, cause)).into_owned(),
            amount: format!(
                "{up_to}{} {}",
                text::difference(most.amount.into(), unit),
                one_line(&most.metric)
            ),
            tests: format!("in {}{checked}", counted(cause.tests.len(), "test")),
            is_expected: !cause.tests.iter().any(|test| is_unexpected(comparison, cause, test)),
            most: Most::new(comparison, cause, cause.worst()),
            remark: remark(comparison, cause),
        }
    }

    /// Returns `+96.0 KiB heap.peak in 6 tests`, and `most: grows_by_one  13.3 → 109 KiB  ×8.2  at 'done'`.
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
        let figures = view.column(&moved.metric).at(row);
        let [old, new] = [figures.baseline, figures.candidate].map(|one| one.map_or(0, |one| one.value));
        Self {
            figures: text::from_to(old, new, Unit::of_metric(&moved.metric)),
            percent: figures.delta.map(|delta| text::percent(&delta)).unwrap_or_default(),
            place: format!("at '{}'", text::row_label(&view, row)),
            ..empty
        }
    }
}

/// Whether a test regressed, or exceeds a limit.
fn is_unexpected(comparison: &Comparison, cause: &Cause, test: &CauseTest) -> bool {
    view(comparison, cause, test).is_some_and(|(view, _)| {
        matches!(Standing::for_pair(comparison, &view), Standing::Regressed | Standing::OverLimit)
    })
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
        _ => words::class(&cause.site, candidate),
    }
}

/// Says that the run with call stacks has another difference than the plain runs.
fn remark(comparison: &Comparison, cause: &Cause) -> Option<String> {
    let (view, moved) = view(comparison, cause, cause.worst())?;
    let plain = view.column(&moved.metric).at(&view.rows[moved.row]).delta?.difference;
    if plain == i128::from(moved.whole) {
        return None;
    }
    let unit = Unit::of_metric(&moved.metric);
    let [recorded, plain] = [moved.whole.into(), plain].map(|one| text::difference(one, unit));
    Some(format!("with call stacks, the test differs by {recorded} instead of {plain}: it varies"))
}
