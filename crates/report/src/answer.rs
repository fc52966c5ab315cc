//! The answer about each candidate: what became of each test, and how many tests that were.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;

use indexmap::IndexMap;

use crate::finding::{Finding, Searched};
use crate::selection::{ShownMetric, TableSection};
use crate::text;
use crate::titles;
use crate::troubles::{self, Trouble};
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::matching::Match;
use memprof_judge::compare::standing::{
    Standing, WorstChange, change_below_limit, lacks_figures, worst_change,
};
use memprof_judge::results::same_code::SameCode;
use memprof_plan::metric::Unit;
use memprof_plan::request::{MERGE_BASE, TargetKind};
use memprof_plan::resolved::{Revision, TestId};
use memprof_support::counted::{counted, grouped};
use memprof_support::labels;
use memprof_support::process::shell_quoted;

/// Show the message of at most this many failures.
const MOST_MESSAGES: usize = 5;

/// The failures of tests.
pub(crate) struct Failures {
    /// What went wrong, with the tests that have it. The message is shown.
    pub quoted: Vec<(Trouble, Vec<String>)>,
    /// The tests of all others, by what happened. Their messages are left out.
    pub others: IndexMap<String, Vec<String>>,
}

/// What is said about one candidate.
pub(crate) struct Answer<'a> {
    comparison: &'a Comparison,
    /// Index of the candidate.
    pub candidate: usize,
    /// The tests that changed or need attention, the most important first.
    pub findings: Vec<Finding<'a>>,
    counts: BTreeMap<Standing, usize>,
    /// Unchanged tests with a difference below its limit.
    below_limit: usize,
    /// The largest of these differences.
    largest_below_limit: Option<((bool, bool, i128), String)>,
    /// Tests without a line of their own whose resident memory changed by what the C library kept.
    kept: usize,
    /// The largest of these changes.
    largest_kept: Option<(i128, String)>,
    /// Compared tests with a judged metric that could not be compared.
    partly: usize,
    /// The number of runs, if it is the same for all tests.
    runs: Option<String>,
}

impl<'a> Answer<'a> {
    /// Answers for each candidate, in the order of the refs.
    pub fn of_all(comparison: &'a Comparison) -> Vec<Self> {
        comparison.candidates().map(|candidate| Self::for_candidate(comparison, candidate)).collect()
    }

    fn for_candidate(comparison: &'a Comparison, candidate: usize) -> Self {
        let mut answer = Self {
            comparison,
            candidate,
            findings: Vec::new(),
            counts: BTreeMap::new(),
            below_limit: 0,
            largest_below_limit: None,
            kept: 0,
            largest_kept: None,
            partly: 0,
            runs: None,
        };
        let mut runs: Vec<Option<String>> = Vec::new();
        for view in comparison.pairs().filter(|view| view.pair.candidate == candidate) {
            let standing = Standing::for_pair(comparison, &view);
            *answer.counts.entry(standing).or_default() += 1;
            if standing.is_of_both() {
                runs.push(titles::runs(&view));
            }
            if standing == Standing::Unchanged
                && let Some(change) = change_below_limit(&view)
            {
                answer.add_below_limit(&view, &change);
            }
            if standing.is_of_both()
                && !standing.is_notable()
                && let Some(change) = worst_change(&view, |ruling| ruling.is_kept)
            {
                answer.add_kept(&view, &change);
            }
            answer.partly += usize::from(standing.is_compared() && lacks_figures(&view));
            if standing.is_notable() {
                answer.findings.push(Finding::for_pair(comparison, view, standing));
            }
        }
        runs.dedup();
        answer.runs = runs.pop().filter(|_| runs.is_empty()).flatten();
        answer.findings.sort_by_key(Finding::order);
        answer
    }

    fn add_below_limit(&mut self, view: &PairView, change: &WorstChange) {
        self.below_limit += 1;
        if self.largest_below_limit.as_ref().is_none_or(|(rank, _)| change.rank() > *rank) {
            let (metric, row) = change.at_largest;
            let shown = described(view, metric, row);
            self.largest_below_limit = shown.map(|shown| (change.rank(), shown));
        }
    }

    fn add_kept(&mut self, view: &PairView, change: &WorstChange) {
        self.kept += 1;
        let size = change.largest.abs();
        if self.largest_kept.as_ref().is_none_or(|(largest, _)| size > *largest) {
            let (metric, row) = change.at_largest;
            self.largest_kept = described(view, metric, row).map(|shown| (size, shown));
        }
    }

    fn count(&self, standing: Standing) -> usize {
        self.counts.get(&standing).copied().unwrap_or(0)
    }

    /// Returns the number of tests that both revisions should have run.
    fn tests(&self) -> usize {
        self.counts.iter().filter(|(standing, _)| standing.is_of_both()).map(|(_, count)| count).sum()
    }

    /// Returns the number of tests that both revisions have, also those that need not run.
    fn all_tests(&self) -> usize {
        self.tests() + SameCode::tests(&self.comparison.same_code)
    }

    /// Returns `1 of 55 tests regressed and 1 improved`; `55 tests unchanged`.
    pub fn counts(&self) -> String {
        let words = [
            (Standing::Regressed, "regressed"),
            (Standing::OverLimit, "over a limit"),
            (Standing::Failed, "failed"),
            (Standing::NotCompared, "not compared"),
            (Standing::Inconclusive, "inconclusive"),
            (Standing::Expected, "grown as expected"),
            (Standing::ExpectedOverLimit, "over a limit, as expected"),
            (Standing::Improved, "improved"),
            (Standing::MaybeExpected, "may have grown, as expected"),
            (Standing::MaybeImproved, "may have shrunk"),
            (Standing::Restructured, "with other checkpoints"),
            (Standing::NotJudged, "not judged"),
            (Standing::PartlyJudged, "only partly judged"),
        ];
        let parts = words.iter().map(|(standing, word)| (self.count(*standing), *word));
        let mut parts = parts.filter(|(count, _)| *count > 0);
        let Some((count, word)) = parts.next() else {
            let tests = counted(self.all_tests(), "test");
            return match SameCode::words(&self.comparison.same_code) {
                same_code if self.tests() == 0 => {
                    same_code.unwrap_or_else(|| "nothing to compare".to_owned())
                }
                _ if self.below_limit > 0 => format!("{tests} without a change above a limit"),
                _ => format!("{tests} unchanged"),
            };
        };
        let tests = counted(self.all_tests(), "test");
        let mut text = match count {
            1 if self.all_tests() == 1 => format!("1 test {word}"),
            2 if self.all_tests() == 2 => format!("both tests {word}"),
            count if count == self.all_tests() => format!("all {tests} {word}"),
            count => format!("{} of {tests} {word}", number(count)),
        };
        let others: Vec<String> = parts.map(|(count, word)| format!("{} {word}", number(count))).collect();
        if let Some((last, others)) = others.split_last() {
            for other in others {
                _ = write!(text, ", {other}");
            }
            _ = write!(text, " and {last}");
        }
        text
    }

    /// Returns `main 4f1c2aa → pr/7 9be0d13`, with the names as `shown` gives them.
    pub fn revisions(&self, shown: impl Fn(&str) -> String) -> String {
        let side = |index: usize| {
            let revision = &self.comparison.revisions[index];
            let name = shown(&labels::one_line(&revision.name));
            let is_hash = revision.name.len() >= 7 && revision.commit.starts_with(&revision.name);
            if is_hash { name } else { format!("{name} {}", revision.short()) }
        };
        format!("{} → {}", side(self.comparison.baseline), side(self.candidate))
    }

    /// Returns what differs apart from the commit: `serde 1.0.180 → 1.0.200, and 3 crates with it`.
    pub fn differs(&self) -> Option<String> {
        let words = self.comparison.differs.get(self.candidate)?.words()?;
        Some(labels::one_line(&words).into_owned())
    }

    /// Returns `2 runs each`, if it is the same for all tests.
    pub fn runs(&self) -> Option<&str> {
        self.runs.as_deref()
    }

    /// Returns what became of the tests that no line names: `52 tests unchanged · 12 changed below a
    /// limit, most heap.peak +96 B … · 896 only in pr/7 · 1 fixed · 3 ignored`.
    pub fn rest(&self) -> Option<String> {
        let [old, new] = [self.comparison.baseline, self.candidate]
            .map(|index| labels::one_line(&self.comparison.revisions[index].name));
        let mut parts = Vec::new();
        let unchanged = self.count(Standing::Unchanged) - self.below_limit;
        if unchanged > 0 && unchanged < self.tests() {
            parts.push(format!("{} unchanged", number(unchanged)));
        }
        if self.below_limit > 0 {
            let largest = self.largest_below_limit.as_ref();
            let largest = largest.map_or_else(String::new, |(_, shown)| format!(", most {shown}"));
            parts.push(format!("{} changed below a limit{largest}", number(self.below_limit)));
        }
        if self.kept > 0 {
            let largest = self.largest_kept.as_ref();
            let largest = largest.map_or_else(String::new, |(_, shown)| format!(", most {shown}"));
            parts.push(format!("{} where the C library kept freed memory{largest}", number(self.kept)));
        }
        parts.extend(SameCode::short_words(&self.comparison.same_code).filter(|_| self.tests() > 0));
        let others = [
            (Standing::OnlyInBaseline, format!("only in {old}")),
            (Standing::OnlyInCandidate, format!("only in {new}")),
            (Standing::Fixed, "fixed".to_owned()),
            (Standing::Ignored, "ignored".to_owned()),
        ];
        if self.partly > 0 {
            parts.push(format!("{} not compared in every metric", number(self.partly)));
        }
        for (standing, words) in others {
            let count = self.count(standing);
            if count > 0 {
                parts.push(format!("{} {words}", number(count)));
            }
        }
        let first = parts.first_mut()?;
        // The first number says what is counted.
        if let Some((count, words)) = first.split_once(' ') {
            let noun = if count == "1" { "test" } else { "tests" };
            *first = format!("{count} {noun} {words}");
        }
        Some(parts.join(" · "))
    }

    /// Returns the command for the worst regression of all candidates that a search could measure.
    pub(crate) fn next_of_all(answers: &[Self]) -> Option<String> {
        let mut worst_first: Vec<&Self> =
            answers.iter().filter(|answer| !answer.findings.is_empty()).collect();
        worst_first.sort_by_key(|answer| answer.findings[0].order());
        worst_first.into_iter().find_map(Self::next_command)
    }

    /// Returns the command that finds the commit of the worst regression, or the parts of a single commit,
    /// with all that a search needs to measure the same. `None` without a regression, and where a search
    /// could not measure it: for the working tree, a single merge, diverged histories, sides with other
    /// settings, pairs of tests, metrics of scopes, calls, and names that do not show.
    fn next_command(&self) -> Option<String> {
        let [old, new] =
            [self.comparison.baseline, self.candidate].map(|index| &self.comparison.revisions[index]);
        let first = self.findings.first().filter(|finding| finding.standing == Standing::Regressed)?;
        let search = self.comparison.search.as_ref()?;
        let Searched { metric, checkpoint } = first.searched.as_ref()?;
        let cell = first.view.cell;
        let is_whole_test = cell.id.params.is_empty() && !cell.id.test.name.is_empty();
        let id = &cell.id;
        let program = id.program.as_ref();
        let program = program.map(|call| call.flags(id.test.kind, &id.test.binary, &id.title, &id.params));
        let is_plain = (is_whole_test || program.is_some()) && cell.origins.is_none();
        let is_single = search.single.contains(&self.candidate);
        let is_one_commit = old.spec == format!("{}~1", new.spec) || old.spec == format!("{}^", new.spec);
        let has_other_settings =
            self.comparison.differs.get(self.candidate).is_some_and(|differs| !differs.settings.is_empty());
        if !search.candidates.contains(&self.candidate)
            || has_other_settings
            || old.working_tree
            || new.working_tree
            || !is_plain
            || (is_one_commit && !is_single)
        {
            return None;
        }
        let quoted = |word: &str| shell_quoted(OsStr::new(word));
        let mut words = vec![quoted(&format!("{}..{}", end_of_range(old), end_of_range(new)))];
        let target = program.is_none().then(|| self.target_among_twins(&id.test)).flatten();
        words.push(program.unwrap_or_else(|| format!("--exact {}", quoted(&id.test.to_string()))));
        words.extend(target);
        if metric != "heap.peak" {
            words.push(format!("--metric {}", quoted(metric)));
        }
        if !checkpoint.is_empty() {
            words.push(if checkpoint.starts_with('-') {
                // Behind a space, the dash would begin another flag.
                quoted(&format!("--checkpoint={checkpoint}"))
            } else {
                format!("--checkpoint {}", quoted(checkpoint))
            });
        }
        let is_of_metric =
            |threshold: &&String| threshold.split_once('=').is_some_and(|(of, _)| of == metric);
        let thresholds = search.thresholds.iter().filter(is_of_metric);
        words.extend(thresholds.map(|threshold| format!("--threshold {}", quoted(threshold))));
        words.extend(search.words.iter().map(|word| quoted(word)));
        let command = if is_single { "prove" } else { "bisect" };
        let command = format!("next: cargo memprof {command} {}", words.join(" "));
        // What does not show in a line cannot be pasted from it.
        (labels::one_line(&command) == command).then_some(command)
    }

    /// Returns the flag that selects the target of a test, if another target has a test of the same name.
    fn target_among_twins(&self, test: &TestId) -> Option<String> {
        let is_twin = |other: &TestId| other.kind != test.kind && other.to_string() == test.to_string();
        if !self.comparison.cells.iter().any(|cell| is_twin(&cell.id.test)) {
            return None;
        }
        let binary = shell_quoted(OsStr::new(&test.binary));
        match test.kind {
            TargetKind::Lib => Some("--lib".to_owned()),
            TargetKind::Bin => Some(format!("--bin-tests {binary}")),
            TargetKind::Test => Some(format!("--test {binary}")),
            TargetKind::Bench => Some(format!("--bench {binary}")),
            // No flag selects the tests of an example.
            TargetKind::Example => None,
        }
    }

    /// Returns the troubles of all tests that failed or were not compared, each once, with the tests
    /// that have it: that of the most tests first. A failed build is the same for all its tests.
    pub(crate) fn troubles(&self) -> Vec<(Trouble, Vec<String>)> {
        let mut tests: IndexMap<Trouble, Vec<String>> = IndexMap::new();
        for finding in &self.findings {
            for trouble in troubles::troubles(self.comparison, &finding.view) {
                if trouble.is_failure {
                    tests.entry(trouble).or_default().push(titles::title(&finding.view));
                }
            }
        }
        tests.sort_by_key(|_, tests| Reverse(tests.len()));
        tests.into_iter().collect()
    }

    /// Returns the failures of all tests. `is_whole` asks for every message.
    pub(crate) fn failures(&self, is_whole: bool) -> Failures {
        let mut quoted = self.troubles();
        let mut others: IndexMap<String, Vec<String>> = IndexMap::new();
        let most = if is_whole { quoted.len() } else { MOST_MESSAGES.min(quoted.len()) };
        for (trouble, tests) in quoted.split_off(most) {
            others.entry(trouble.headline).or_default().extend(tests);
        }
        Failures { quoted, others }
    }

    /// Returns the tests without a comparable figure that did not fail. Notes give the reasons.
    pub(crate) fn without_reason(&self) -> Vec<String> {
        let not_compared = self.findings.iter().filter(|finding| finding.standing == Standing::NotCompared);
        let without = not_compared.filter(|finding| {
            let troubles = troubles::troubles(self.comparison, &finding.view);
            !troubles.iter().any(|trouble| trouble.is_failure)
        });
        without.map(Finding::test).collect()
    }
}

/// Returns the revision as an end of `A..B`: as the user wrote it, if that fits there.
pub(super) fn end_of_range(revision: &Revision) -> String {
    let is_name = !revision.spec.contains("..") && !["", ".", MERGE_BASE].contains(&revision.spec.as_str());
    if is_name { revision.spec.clone() } else { revision.short() }
}

fn number(count: usize) -> String {
    grouped(i128::try_from(count).unwrap_or(i128::MAX))
}

/// How the shown figures changed that no rule judges.
#[derive(Default)]
pub(crate) struct NotJudged {
    grew: usize,
    shrank: usize,
    largest: Option<(Unit, i128, String)>,
    /// Whether figures of another unit than the largest change's changed as well.
    has_other_units: bool,
}

impl NotJudged {
    /// Adds a test's figures. Returns whether any of them changed.
    pub fn add(&mut self, view: &PairView, sections: &[TableSection]) -> bool {
        let (mut grew, mut shrank) = (false, false);
        for section in sections {
            for shown in &section.shown {
                let differences = section.rows.iter().filter_map(|row| not_judged(shown, row));
                let mut largest: Option<(i128, &Match)> = None;
                for (difference, row) in differences {
                    grew |= difference > 0;
                    shrank |= difference < 0;
                    if difference.abs() > largest.map_or(0, |(largest, _)| largest.abs()) {
                        largest = Some((difference, row));
                    }
                }
                if let Some((difference, row)) = largest {
                    self.add_largest(view, shown, difference, row);
                }
            }
        }
        self.grew += usize::from(grew);
        self.shrank += usize::from(shrank);
        grew || shrank
    }

    fn add_largest(&mut self, view: &PairView, shown: &ShownMetric, difference: i128, row: &Match) {
        // Bytes matter most: a change of another unit is named only if no bytes changed.
        let rank = |unit, difference: i128| (unit == Unit::Bytes, unit == Unit::Count, difference.abs());
        let unit = shown.metric.unit;
        self.has_other_units |= self.largest.as_ref().is_some_and(|(known, ..)| *known != unit);
        let best = self.largest.as_ref().map(|(unit, difference, _)| rank(*unit, *difference));
        if best.is_none_or(|best| rank(unit, difference) > best)
            && let Some(text) = described(view, &shown.metric.name, row)
        {
            self.largest = Some((unit, difference, text));
        }
    }

    /// Returns `figures without a verdict: grew in 3 tests, shrank in 1; largest change: heap.live
    /// +112 KiB …`; `None` if none changed.
    pub fn line(&self) -> Option<String> {
        let parts = [(self.grew, "grew"), (self.shrank, "shrank")];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(tests, _)| *tests > 0)
            .map(|(tests, word)| format!("{word} in {}", counted(*tests, "test")))
            .collect();
        let largest = self.largest.as_ref().map_or_else(String::new, |(unit, _, text)| {
            let of_unit = match unit {
                _ if !self.has_other_units => "",
                Unit::Bytes => " in bytes",
                Unit::Count => " of a count",
                Unit::Nanoseconds => " in time",
            };
            format!("; largest change{of_unit}: {text}")
        });
        (!parts.is_empty()).then(|| format!("figures without a verdict: {}{largest}", parts.join(", ")))
    }
}

/// Returns `heap.live +112 KiB (+3.10 %) at 'done' of parses`; `None` without a difference.
fn described(view: &PairView, metric: &str, row: &Match) -> Option<String> {
    let delta = view.column(metric).at(row).delta?;
    let percent = match text::percent(&delta) {
        percent if percent.is_empty() => percent,
        percent => format!(" ({percent})"),
    };
    Some(format!(
        "{metric} {}{percent} at '{}' of {}",
        text::difference(delta.difference, Unit::of_metric(metric)),
        text::row_label(view, row),
        titles::title(view)
    ))
}

/// Returns the difference of a figure that is compared and not judged, unless it is zero.
fn not_judged<'a>(shown: &ShownMetric, row: &'a Match) -> Option<(i128, &'a Match)> {
    let delta = shown.column.at(row).delta.filter(|_| shown.ruling(row).is_none())?;
    (delta.difference != 0).then_some((delta.difference, row))
}
