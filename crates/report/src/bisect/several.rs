//! A history of several tests: what changed in each of them, and which did not change.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::bisect::headline::{self, Searched, effort, ends};
use crate::bisect::{answer, history, measured};
use crate::markdown_text::{code, escape_but_hashes};
use crate::options::Options;
use memprof_run::bisect::report_data::{FoundStep, Replay, SearchReport};
use memprof_support::counted::{counted, some};
use memprof_support::labels::one_line;

/// The chart's height of one test, in lines.
const HEIGHT: usize = 3;
/// Name at most this many tests that did not change.
const MOST_NAMES: usize = 12;

/// The tests of a history, by what there is to tell.
pub(crate) struct Several<'a> {
    /// Tests with a step.
    pub changed: Vec<&'a SearchReport>,
    /// Tests with figures and no step.
    pub unchanged: Vec<&'a SearchReport>,
    /// Tests of which no two commits have a figure.
    pub unmeasured: Vec<&'a SearchReport>,
    first: &'a SearchReport,
}

impl<'a> Several<'a> {
    /// Sorts the reports. There is at least one.
    pub(crate) fn from_reports(searched: &[Searched<'a>]) -> Option<Self> {
        let first = searched.first()?.report;
        let mut several = Self { changed: Vec::new(), unchanged: Vec::new(), unmeasured: Vec::new(), first };
        for report in searched.iter().map(|searched| searched.report) {
            let figures = report.measured.iter().filter(|commit| commit.value.is_some()).count();
            let group = match (report.steps.is_empty(), figures) {
                (false, _) => &mut several.changed,
                (true, 0 | 1) => &mut several.unmeasured,
                (true, _) => &mut several.unchanged,
            };
            group.push(report);
        }
        // The largest change comes first.
        let largest =
            |report: &SearchReport| report.steps.iter().map(|step| step.difference.unsigned_abs()).max();
        several.changed.sort_by_key(|report| std::cmp::Reverse(largest(report)));
        Some(several)
    }

    /// Returns all tests, those that changed first.
    pub fn all(&self) -> impl Iterator<Item = &'a SearchReport> {
        self.changed.iter().chain(&self.unchanged).chain(&self.unmeasured).copied()
    }

    /// Returns `heap.peak of 3 tests · v0.4.0 → HEAD · 64 commits`.
    pub fn title(&self) -> String {
        let count = self.all().count();
        format!("{} of {} · {}", self.first.query.described(), counted(count, "test"), ends(self.first))
    }

    /// Returns the answer: `2 of 33 commits changed 3 of 4 tests; largest: +2.10 MiB by 1f12721, +96.0 KiB by
    /// 0c4d2e1`.
    pub fn verdict(&self) -> String {
        let tests = counted(self.all().count(), "test");
        let commits = counted(self.first.commits, self.first.noun());
        // A commit may change several tests: the one with the largest change stands for it.
        let mut steps: BTreeMap<&str, (&SearchReport, &FoundStep)> = BTreeMap::new();
        for (report, step) in
            self.changed.iter().flat_map(|report| report.steps.iter().map(move |step| (*report, step)))
        {
            let known = steps.entry(step.commit.short()).or_insert((report, step));
            if step.difference.unsigned_abs() > known.1.difference.unsigned_abs() {
                *known = (report, step);
            }
        }
        match steps.len() {
            0 => format!("none of {commits} changed {tests}"),
            count => format!(
                "{count} of {commits} changed {} of {tests}; largest: {}",
                self.changed.len(),
                headline::largest(steps.into_values())
            ),
        }
    }

    /// Returns a line for those that did not change, and one for each reason why others have no figures.
    pub fn others(&self) -> Vec<String> {
        let mut lines = Vec::new();
        // A limit may be for some tests only.
        let mut limits: BTreeMap<String, Vec<&SearchReport>> = BTreeMap::new();
        for report in &self.unchanged {
            limits.entry(answer::threshold(&report.threshold, report.unit)).or_default().push(report);
        }
        for (limit, tests) in limits {
            let (count, names) = (counted(tests.len(), "test"), names(&tests));
            lines.push(format!("{count} did not change by more than {limit}: {names}"));
        }
        let mut reasons: BTreeMap<&str, Vec<&SearchReport>> = BTreeMap::new();
        for report in &self.unmeasured {
            let reason = report.measured.iter().find_map(|commit| commit.skipped.as_deref());
            reasons.entry(reason.unwrap_or("no run")).or_default().push(report);
        }
        for (reason, tests) in reasons {
            lines.push(format!(
                "{} cannot be compared ({reason}): {}",
                counted(tests.len(), "test"),
                names(&tests)
            ));
        }
        lines
    }

    /// The runs of all tests.
    pub fn effort(&self) -> String {
        let mut whole = self.first.clone();
        whole.effort.runs = self.all().map(|report| report.effort.runs).sum();
        // A commit counts as measured if one of its tests has a figure.
        let most = self.all().map(|report| report.effort).max_by_key(|effort| effort.measured);
        if let Some(most) = most {
            (whole.effort.measured, whole.effort.skipped) = (most.measured, most.skipped);
        }
        effort(&whole)
    }

    fn show_again(&self) -> impl Iterator<Item = &'a Replay> {
        self.first.replay.iter().take(1)
    }

    /// Writes a chart and the steps of each test that changed.
    pub fn text(&self, options: &Options, unicode: bool, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}\n", one_line(&self.title()))?;
        for report in &self.changed {
            writeln!(out, "{}", one_line(&report.title))?;
            history::chart(report, HEIGHT, options, unicode, out)?;
            answer::write(report, &[], out, "", |_, _| Ok(()))?;
            writeln!(out)?;
        }
        for line in self.others() {
            writeln!(out, "{}", one_line(&line))?;
        }
        writeln!(out, "\n{}", self.effort())?;
        for replay in self.show_again() {
            writeln!(out, "{}: {}", replay.shows, one_line(&replay.line))?;
            writeln!(out, "as a page, with every commit: {} --output history.html", one_line(&replay.line))?;
        }
        Ok(())
    }

    /// Writes the steps of each test, and its commits in a list to unfold.
    pub fn markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "**{}**\n", escape_but_hashes(&self.title()))?;
        for report in &self.changed {
            writeln!(out, "**{}**\n", escape_but_hashes(&report.title))?;
            answer::write(report, &[], out, "- ", |_, _| Ok(()))?;
            writeln!(out, "\n<details><summary>commits</summary>\n")?;
            measured::markdown(report, out)?;
            writeln!(out, "\n</details>\n")?;
        }
        for line in self.others() {
            writeln!(out, "- {}", escape_but_hashes(&line))?;
        }
        writeln!(out, "\n{}\n", self.effort())?;
        for replay in self.show_again() {
            writeln!(out, "- {}: {}", replay.shows, code(&replay.line))?;
        }
        Ok(())
    }
}

/// The tests' names, with the number of commits that have no figure.
fn names(reports: &[&SearchReport]) -> String {
    let named = reports.iter().map(|report| {
        let skipped = report.measured.iter().filter(|commit| commit.value.is_none()).count();
        match skipped {
            0 => report.title.clone(),
            _ => format!("{} (no figure at {})", report.title, counted(skipped, "commit")),
        }
    });
    some(&named.collect::<Vec<_>>(), MOST_NAMES)
}
