//! `cargo memprof test`: a line for each test with its result and its figures, then the failures.

use std::io::{self, Write};
use std::time::Duration;

use crate::notes;
use crate::options::Options;
use crate::page::{Page, Tone};
use crate::selection::MetricFilter;
use crate::single::{Single, call_sites, traced};
use crate::test_figures::of_test;
use crate::text;
use crate::titles;
use crate::troubles;
use crate::why::explained::left_out;
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Breach, BreachKind, Cell, Metric, PairView};
use memprof_judge::results::outcome::Status;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::elapsed;
use memprof_support::labels::{one_line, width};

/// The figures of a line, if the user chose none.
const USUAL: [&str; 1] = ["heap.peak"];

/// Names are padded up to this width, so that one long name does not move all results away.
const WIDEST_NAME: usize = 60;

/// The tests of a single revision.
pub(super) struct TestList<'a> {
    pub(super) single: &'a Single<'a>,
    pub(super) options: &'a Options,
}

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestResult {
    Passed,
    Failed,
    Ignored,
}

impl TestResult {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed => "FAILED",
            Self::Ignored => "ignored",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Passed => Tone::Shrinkage,
            Self::Failed => Tone::Growth,
            Self::Ignored => Tone::Quiet,
        }
    }
}

impl TestList<'_> {
    /// Writes the list.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let page = Page::new(self.options);
        let tests: Vec<(&Cell, &Aggregate, TestResult)> =
            self.single.sides().map(|(cell, side)| (cell, side, self.result(cell, side))).collect();
        self.lines(&tests, page, out)?;
        let failed: Vec<_> = tests.iter().filter(|(.., result)| *result == TestResult::Failed).collect();
        if !failed.is_empty() || !troubles::of_whole(self.single.comparison).is_empty() {
            writeln!(out, "\nfailures:")?;
        }
        for (cell, side, _) in &failed {
            writeln!(out, "\n  {}", page.paint.apply(&titles::distinct_title(cell), Tone::Heading))?;
            self.failure(cell, side, page, out)?;
        }
        writeln!(out)?;
        page.whole_troubles(self.single.comparison, out)?;
        if !self.options.is_brief() {
            traced(self.single.comparison, self.options, out)?;
        }
        call_sites(self.single.comparison, page, self.options, out)?;
        self.foot(&tests, page, out)
    }

    fn result(&self, cell: &Cell, side: &Aggregate) -> TestResult {
        let status = |run: &usize| &self.single.comparison.runs[*run].record.outcome.status;
        let is_ignored = |run: &usize| matches!(status(run), Status::Ignored | Status::NotInThisRef);
        if side.availability == Availability::Missing && side.failed.iter().all(is_ignored) {
            TestResult::Ignored
        } else if !side.failed.is_empty() || super::single::is_over_limit(cell) {
            TestResult::Failed
        } else {
            TestResult::Passed
        }
    }

    /// Writes `test index_by_stage ... ok  9.85 MiB`, with the metrics' names above.
    fn lines(
        &self,
        tests: &[(&Cell, &Aggregate, TestResult)],
        page: Page,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let metrics = self.metrics();
        let names: Vec<String> = tests.iter().map(|(cell, ..)| titles::distinct_title(cell)).collect();
        let widest = names.iter().map(|name| width(name)).max().unwrap_or(0).min(WIDEST_NAME);
        let heads: Vec<String> = metrics.iter().map(|metric| format!("{:>10}", metric.name)).collect();
        let word = TestResult::Failed.word().len().max(TestResult::Ignored.word().len());
        if !tests.is_empty() {
            let blank = " ".repeat("test ".len() + widest + " ... ".len() + word);
            writeln!(out, "{}", page.paint.apply(&format!("{blank}  {}", heads.join("  ")), Tone::Quiet))?;
        }
        for ((_, side, result), name) in tests.iter().zip(&names) {
            let padding = " ".repeat(widest.saturating_sub(width(name)));
            let figures = metrics.iter().zip(&heads).map(|(metric, head)| {
                let figure = of_test(side, metric).map(|value| text::figure(value, metric.unit));
                format!("{:>1$}", figure.as_deref().unwrap_or(text::NONE), width(head))
            });
            let figures = figures.collect::<Vec<_>>().join("  ");
            let shown = page.paint.apply(&format!("{:<word$}", result.word()), result.tone());
            writeln!(out, "test {name}{padding} ... {shown}  {figures}")?;
        }
        Ok(())
    }

    /// Returns the chosen metrics, or the usual one and those above a limit.
    fn metrics(&self) -> Vec<&Metric> {
        let comparison = self.single.comparison;
        let filter = MetricFilter::new(self.options);
        if !filter.is_default() {
            return filter.of_points(comparison);
        }
        let is_exceeded = |metric: &Metric| {
            let mut breaches = comparison.alone().flat_map(|view| &view.pair.breaches);
            breaches.any(|breach| breach.metric == metric.name)
        };
        let is_wanted = |metric: &&Metric| USUAL.contains(&metric.name.as_str()) || is_exceeded(metric);
        comparison.metrics.iter().filter(is_wanted).collect()
    }

    /// Writes why a test failed: its own message, and its figures above a limit.
    fn failure(&self, cell: &Cell, side: &Aggregate, page: Page, out: &mut dyn Write) -> io::Result<()> {
        let comparison = self.single.comparison;
        for trouble in troubles::side_troubles(comparison, self.single.revision, side) {
            // There is only one revision, so its name says nothing.
            let name = &self.single.revision.name;
            let headline = trouble.headline.strip_prefix(name).unwrap_or(&trouble.headline);
            page.line(headline.trim_start_matches([' ', ':']), "    ", Tone::Growth, out)?;
            trouble.details.iter().try_for_each(|detail| page.line(detail, "      ", Tone::Plain, out))?;
        }
        if let Some(pair) = &cell.alone {
            let view = comparison.view(cell, pair);
            let breaches: Vec<&Breach> = pair.breaches.iter().filter(|breach| breach.counts()).collect();
            // Breaches are in the order of metrics, limits before the leak.
            for same in breaches.chunk_by(|a, b| (&a.metric, a.kind) == (&b.metric, b.kind)) {
                let most = same.iter().map(|breach| breach.value).max();
                let Some(worst) = same.iter().find(|breach| Some(breach.value) == most) else { continue };
                let others = match same.len() - 1 {
                    0 => String::new(),
                    others => format!(", also at {}", counted(others, "other checkpoint")),
                };
                let line = format!("{}{others}", Self::excess(&view, worst));
                page.line(&line, "    ", Tone::Growth, out)?;
            }
        }
        Ok(())
    }

    /// Returns `heap.peak 9.00 MiB at 'decoded' (tests/a.rs:31), 5.00 MiB over the limit of 4.00 MiB`.
    fn excess(view: &PairView, breach: &Breach) -> String {
        let unit = Unit::of_metric(&breach.metric);
        let row = &view.rows[breach.row];
        let place = row.candidate.and_then(|index| view.candidate.place(index));
        let place = place.map_or_else(String::new, |place| format!(" ({})", one_line(place)));
        let limit = i64::try_from(breach.limit).unwrap_or(i64::MAX);
        let over = text::figure(breach.value.saturating_sub(limit), unit);
        let over = format!("{over} over the limit of {}", text::figure(limit, unit));
        let (metric, label) = (&breach.metric, text::row_label(view, row));
        match breach.kind {
            BreachKind::Limit => {
                format!("{metric} {} at '{label}'{place}, {over}", text::figure(breach.value, unit))
            }
            BreachKind::Leak => {
                let growth = text::difference(breach.value.into(), unit);
                format!("leak: {metric} {growth} from 'start' to '{label}', {over}")
            }
        }
    }

    /// Writes `test result: FAILED. 1 passed; 2 failed; 1 ignored; finished in 1.2 s`, and the notes.
    fn foot(
        &self,
        tests: &[(&Cell, &Aggregate, TestResult)],
        page: Page,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let comparison = self.single.comparison;
        let count = |wanted| tests.iter().filter(|(.., result)| *result == wanted).count();
        let [passed, failed, ignored] =
            [TestResult::Passed, TestResult::Failed, TestResult::Ignored].map(count);
        let not_compiled = comparison.not_measured.len() + comparison.failed_builds.len();
        let is_failed = failed + not_compiled + comparison.unchecked > 0;
        let result = if is_failed { TestResult::Failed } else { TestResult::Passed };
        let runs = comparison.runs.iter().filter_map(|run| run.record.outcome.wall_nanoseconds);
        let took = elapsed::shown(Duration::from_nanos(runs.fold(0, u64::saturating_add)));
        let notes = notes::notes(comparison, &MetricFilter::new(self.options));
        for note in notes.into_iter().chain(left_out(self.options)) {
            page.line(&note, "", Tone::Plain, out)?;
        }
        let word = page.paint.apply(result.word(), result.tone());
        let counts = format!("{passed} passed; {failed} failed; {ignored} ignored; finished in {took}");
        writeln!(out, "test result: {word}. {counts}")?;
        match &self.options.report_path {
            Some(path) => writeln!(out, "{}", page.paint.apply(&format!("report: {path}"), Tone::Quiet)),
            None => Ok(()),
        }
    }
}
