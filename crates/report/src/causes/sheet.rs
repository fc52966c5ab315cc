//! All causes of a comparison, and which tests they explain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::causes::entry::{Entry, amount};
use crate::causes::proven;
use crate::finding::{Finding, resident_beyond_heap};
use crate::options::Options;
use crate::selection::has_few_tests;
use crate::text;
use crate::why::limits;
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::standing::Standing;
use memprof_judge::results::measurement::Kind;
use memprof_judge::verdict::limits::{LEAK_FROM, LEAK_TO};
use memprof_judge::why::causes::{Cause, CauseTest, Effect, causes};
use memprof_judge::why::explanations::Explanations;
use memprof_judge::why::reasons::Reason;
use memprof_plan::metric::Unit;
use memprof_plan::metric_family::MetricGroup;
use memprof_run::bisect::parts::proof::ProofReport;
use memprof_support::counted::grouped;

/// The causes of a comparison.
pub struct CauseSheet<'a> {
    pub(super) comparison: &'a Comparison,
    causes: Vec<Cause>,
    /// The causes of each test, by the cell's address and the candidate.
    of_test: BTreeMap<(usize, usize), Vec<usize>>,
    /// The same of each cause's worst test.
    worst: BTreeSet<(usize, usize)>,
    /// What was proven of one of them.
    proof: Option<Arc<ProofReport>>,
    /// Whether metrics were asked for. With several candidates, the tables of all sides show them.
    asks_for_metrics: bool,
    /// Whether causes are about the heap, and no test's resident memory regressed by more than follows from it.
    hides_resident: bool,
}

impl<'a> CauseSheet<'a> {
    /// Looks up the causes; there are none if no test ran with call stacks.
    pub fn new(comparison: &'a Comparison, options: &Options) -> Self {
        let causes = options.why.as_deref().map_or_else(Vec::new, |why| causes(comparison, why));
        let is_asked = options.all || options.metrics.is_some();
        let asks_for_metrics = is_asked && comparison.candidates().count() == 1;
        let proof = options.proof.clone();
        Self { proof, asks_for_metrics, ..Self::of_causes(comparison, causes) }
    }

    /// Looks up the causes that explanations give.
    pub fn explained(comparison: &'a Comparison, why: &Explanations) -> Self {
        Self::of_causes(comparison, causes(comparison, why))
    }

    fn of_causes(comparison: &'a Comparison, causes: Vec<Cause>) -> Self {
        let key = |cause: &Cause, cell: usize| (address(&comparison.cells[cell]), cause.candidate);
        let mut of_test: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (index, cause) in causes.iter().enumerate() {
            for test in &cause.tests {
                of_test.entry(key(cause, test.cell)).or_default().push(index);
            }
        }
        let worst = causes.iter().map(|cause| key(cause, cause.worst().cell)).collect();
        let hides_resident = causes.iter().any(|cause| is_of_heap(&cause.most().metric))
            && !comparison.pairs().any(|view| resident_beyond_heap(&view).is_some());
        Self { comparison, causes, of_test, worst, proof: None, asks_for_metrics: false, hides_resident }
    }

    /// Names what was proven.
    #[must_use]
    pub fn with_proof(self, proof: Option<Arc<ProofReport>>) -> Self {
        Self { proof, ..self }
    }

    fn entry<'c>(&'c self, cause: &'c Cause) -> Entry<'c> {
        proven::named(Entry::new(self.comparison, cause), self.comparison, self.proof.as_deref())
    }

    /// Whether no change has a cause.
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// Returns the causes of a candidate's changes, the worst first, without those that others outweigh.
    pub(crate) fn causes_of(&self, candidate: usize) -> impl Iterator<Item = Entry<'_>> {
        self.all_causes_of(candidate).filter(|entry| !entry.cause.is_outweighed())
    }

    /// Returns the causes of a candidate's changes, with those that others outweigh at the end.
    pub(crate) fn all_causes_of(&self, candidate: usize) -> impl Iterator<Item = Entry<'_>> {
        let causes = self.causes.iter().filter(move |cause| cause.candidate == candidate);
        causes.map(|cause| self.entry(cause))
    }

    /// Whether a test has a cause.
    pub fn covers(&self, view: &PairView<'_>) -> bool {
        self.of_test.contains_key(&(address(view.cell), view.pair.candidate))
    }

    /// Returns the causes of a test in words: `src/inner.rs:123 Core::reserve, changed in pr/7: +96.0 KiB
    /// heap.peak at 'done'`.
    pub(crate) fn words_of(&self, view: &PairView<'_>) -> Vec<String> {
        let causes = self.of_test.get(&(address(view.cell), view.pair.candidate));
        let causes = causes.into_iter().flatten().map(|index| &self.causes[*index]);
        let words = causes.filter_map(|cause| {
            let is_own =
                |test: &&CauseTest| std::ptr::eq(&raw const self.comparison.cells[test.cell], view.cell);
            let moved = &cause.tests.iter().find(is_own).filter(|test| test.is_along)?.moved[0];
            let label = text::row_label(view, &view.rows[moved.row]);
            let amount = format!("{} {} at '{label}'", amount(cause, moved), moved.metric);
            let Entry { place, function, words, .. } = self.entry(cause);
            let what = [format!("{place} {function}"), words];
            let what: Vec<String> = what.into_iter().filter(|part| !part.is_empty()).collect();
            Some(format!("{}: {amount}", what.join(", ")))
        });
        words.collect()
    }

    /// Whether a cause says all that a finding does. A broken limit, or why a change is expected, has a
    /// line of its own.
    pub fn says(&self, finding: &Finding<'_>) -> bool {
        let is_plain = matches!(finding.standing, Standing::Regressed | Standing::Improved);
        is_plain
            && finding.remark.is_empty()
            && !finding.has_more
            && self.causes_behind(finding).next().is_some()
    }

    /// Returns the causes that moved what a finding is about, in its direction. Others move another figure of the test.
    fn causes_behind<'s>(&'s self, finding: &'s Finding<'_>) -> impl Iterator<Item = &'s Cause> {
        let key = (address(finding.view.cell), finding.view.pair.candidate);
        let quantity = |metric: &str| (MetricGroup::of(metric), Unit::of_metric(metric));
        // The finding of a test that breaks a limit of its own may name no metric.
        let is_meant =
            move |metric: &str| finding.metric.is_empty() || quantity(metric) == quantity(&finding.metric);
        let causes = self.of_test.get(&key).into_iter().flatten().map(|index| &self.causes[*index]);
        causes.filter(move |cause| {
            let is_shrinkage = cause.effect == Effect::Shrinkage;
            let mut own =
                cause.tests.iter().filter(|test| address(&self.comparison.cells[test.cell]) == key.0);
            is_shrinkage == (finding.standing == Standing::Improved)
                && own.any(|test| test.is_along && test.moved.iter().any(|moved| is_meant(&moved.metric)))
        })
    }

    /// Returns what a test had where it broke its limits, in sentences. Of tests with one cause, only the
    /// worst has them.
    pub(crate) fn limits_of(&self, view: &PairView<'_>, options: &Options) -> Vec<String> {
        let key = (address(view.cell), view.pair.candidate);
        let causes = self.of_test.get(&key).into_iter().flatten().map(|index| &self.causes[*index]);
        let mut limits = causes.filter(|cause| cause.effect == Effect::Limit).peekable();
        let is_said = limits.peek().is_some()
            && limits.all(|cause| address(&self.comparison.cells[cause.worst().cell]) != key.0);
        if is_said { Vec::new() } else { limits::sentences(view, options) }
    }

    fn is_worst(&self, view: &PairView<'_>) -> bool {
        self.worst.contains(&(address(view.cell), view.pair.candidate))
    }

    /// Whether metrics or traced functions were asked for, which no cause shows.
    pub(crate) fn is_asked_for_more(&self) -> bool {
        self.asks_for_metrics || !self.comparison.traces.is_empty()
    }

    /// Whether a test with a cause shows metrics that were asked for.
    pub(crate) fn shows_metrics(&self, view: &PairView<'_>) -> bool {
        self.asks_for_metrics && (self.is_worst(view) || has_few_tests(self.comparison))
    }

    /// Whether a test is the worst of a cause, or has none, and its table says more than its line.
    pub(crate) fn leaves_to_a_table(&self, view: &PairView<'_>, options: &Options) -> bool {
        let is_listed = if self.covers(view) {
            self.is_worst(view)
        } else {
            // The line of a test over a limit says what it had there.
            self.is_asked_for_more() || limits::sentences(view, options).is_empty()
        };
        is_listed && (self.is_asked_for_more() || has_own_checkpoints(view))
    }

    /// Leaves out resident memory if it follows from the heap, which causes are about.
    pub(crate) fn keep_metrics<T>(&self, metrics: &mut Vec<T>, name: impl Fn(&T) -> &String) {
        if self.hides_resident && metrics.iter().any(|metric| is_of_heap(name(metric))) {
            metrics.retain(|metric| MetricGroup::of(name(metric)) != Some(MetricGroup::Cpu));
        }
    }

    /// Returns `by two lines`, or `by one change` if it is more than a line of the diff. `None` if nothing
    /// in the diff is known to be the cause of a finding.
    pub(crate) fn by_what(&self, findings: &[Finding<'_>]) -> Option<String> {
        let behind = findings.iter().flat_map(|finding| self.causes_behind(finding));
        let behind: BTreeSet<usize> = behind.map(address).collect();
        let own = self.causes.iter().filter(|cause| behind.contains(&address(*cause)));
        let reasons: BTreeSet<String> = own.clone().filter_map(|cause| named(&cause.reason)).collect();
        let is_line = |cause: &Cause| match &cause.reason {
            Reason::Hunk(at) => at.hunk.old.len().max(at.hunk.new.len()) <= 1,
            Reason::Dependency(_) | Reason::Type(_) => false,
            Reason::Code(_) => true,
        };
        let what = if own.clone().all(is_line) { "line" } else { "change" };
        let words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
        let count = match reasons.len() {
            0 => return None,
            count => words.get(count - 1).map_or_else(|| grouped(count as i128), |word| (*word).to_owned()),
        };
        Some(format!("by {count} {what}{}", if reasons.len() == 1 { "" } else { "s" }))
    }
}

/// Returns the name of a reason that is in the diff.
fn named(reason: &Reason) -> Option<String> {
    match reason {
        Reason::Hunk(at) => Some(format!("{} {}", at.path, at.hunk)),
        Reason::Dependency(changed) => Some(changed.name.clone()),
        Reason::Type(resized) => Some(resized.path.clone()),
        Reason::Code(_) => None,
    }
}

fn is_of_heap(metric: &str) -> bool {
    MetricGroup::of(metric) == Some(MetricGroup::Heap)
}

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

/// Whether a test has more checkpoints than `start` and `done`.
fn has_own_checkpoints(view: &PairView<'_>) -> bool {
    view.rows.iter().any(|row| {
        let key = view.key(row);
        let label: &str = &view.cell.labels[key.label as usize];
        key.kind != Kind::Point || ![LEAK_FROM, LEAK_TO].contains(&label)
    })
}
