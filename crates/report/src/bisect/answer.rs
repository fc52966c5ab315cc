//! The answer of a search: the commits that changed the metric, or why there are none.

use std::io::{self, Write};

use crate::markdown_text::escape_but_hashes;
use crate::text::{difference, figure, percent};
use memprof_judge::compare::comparison::Delta;
use memprof_plan::metric::{self, Unit};
use memprof_plan::quantity::Threshold;
use memprof_run::bisect::linear_search::{SearchGoal, StepKind};
use memprof_run::bisect::observations::HasChanged;
use memprof_run::bisect::report_data::{FoundStep, SearchReport, SearchResult};
use memprof_run::bisect::step_comparison::ComparedStep;
use memprof_support::counted::counted;
use memprof_support::labels::one_line;

/// Name at most this many files.
const MOST_FILES: usize = 12;

/// Writes each step as a paragraph, with the other changes of the same commit. `bullet` begins each
/// paragraph.
pub(crate) fn write(
    report: &SearchReport,
    steps: &[ComparedStep],
    out: &mut dyn Write,
    bullet: &str,
    rows: impl Fn(&ComparedStep, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let shown = if bullet.is_empty() { as_text } else { escape_but_hashes };
    if let Some(answer) = no_step(report) {
        return answer.lines().try_for_each(|line| writeln!(out, "{}", shown(line)));
    }
    let indent = if bullet.is_empty() { "  " } else { "  - " };
    for (index, step) in report.steps.iter().enumerate() {
        if index > 0 && report.result.is_some() {
            writeln!(out)?;
        }
        let mut paragraph = Vec::new();
        StepAnswer { report, step, bullet, indent }.write(&mut paragraph)?;
        for line in String::from_utf8_lossy(&paragraph).lines() {
            let content = line.trim_start_matches([' ', '-']);
            writeln!(out, "{}{}", &line[..line.len() - content.len()], shown(content))?;
        }
        if let Some(compared) = steps.get(index) {
            writeln!(out)?;
            rows(compared, out)?;
        }
    }
    match undecided(report) {
        Some(line) => writeln!(out, "{bullet}{}", shown(&line)),
        None => Ok(()),
    }
}

/// Says of how many commits of a history noise hides whether they changed the figure.
fn undecided(report: &SearchReport) -> Option<String> {
    let threshold = threshold(&report.threshold, report.unit);
    let other = if report.steps.is_empty() { "" } else { "other " };
    let commits = counted(report.unclear, &format!("{other}{}", report.noun()));
    let described = report.query.described();
    (report.unclear > 0)
        .then(|| format!("Noise hides whether {commits} changed {described} by more than {threshold}."))
}

fn as_text(line: &str) -> String {
    one_line(line).into_owned()
}

/// Says that a step's own change is below the threshold, or that nobody knows.
fn own_change(
    report: &SearchReport,
    change: HasChanged,
    indent: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let threshold = threshold(&report.threshold, report.unit);
    match change {
        HasChanged::Yes => Ok(()),
        HasChanged::No => writeln!(out, "{indent}its own change does not exceed {threshold}"),
        HasChanged::Unclear => {
            writeln!(out, "{indent}noise hides whether its own change exceeds {threshold}")
        }
    }
}

/// Returns the answer if no step was found.
fn no_step(report: &SearchReport) -> Option<String> {
    let described = report.query.described();
    let threshold = threshold(&report.threshold, report.unit);
    let (good, bad) = (&report.good.name, &report.bad.name);
    match report.result {
        Some(SearchResult::Same) => Some(format!(
            "{good} and {bad} do not differ in {described} by more than {threshold}: {}\n\
             A growth that a later commit undoes does not show here; `cargo memprof history` shows each commit.",
            ends(report)
        )),
        Some(SearchResult::Unclear) => Some(format!(
            "Noise hides whether {good} and {bad} differ in {described} by more than {threshold}: {}\n\
             Raise --threshold, or {}.",
            ends(report),
            if metric::known(&report.query.metric).is_counted() {
                "run each commit more often with --repeat"
            } else {
                "choose an exact metric such as heap.peak"
            }
        )),
        None if report.steps.is_empty() => Some(
            undecided(report)
                .unwrap_or_else(|| format!("No commit changed {described} by more than {threshold}.")),
        ),
        None | Some(SearchResult::Found) => None,
    }
}

/// Returns `3.10 MiB → 9.72 MiB (+6.62 MiB, +214 %)`.
fn change(before: i64, after: i64, unit: Unit) -> String {
    let delta = Delta::between(before, after);
    let percent = percent(&delta);
    let percent = if percent.is_empty() { percent } else { format!(", {percent}") };
    let difference = difference(delta.difference, unit);
    format!("{} → {} ({difference}{percent})", figure(before, unit), figure(after, unit))
}

/// Returns the change from one end of the range to the other.
fn ends(report: &SearchReport) -> String {
    match (report.good.value, report.bad.value) {
        (Some(good), Some(bad)) => change(good, bad, report.unit),
        _ => "one of them has no figure".to_owned(),
    }
}

/// One step of a report, as a paragraph.
struct StepAnswer<'a> {
    report: &'a SearchReport,
    step: &'a FoundStep,
    bullet: &'a str,
    indent: &'a str,
}

impl StepAnswer<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { report, step, bullet, indent } = self;
        let figures = change(step.value_before, step.value, report.unit);
        if report.lockfile.is_some() {
            return self.update(&figures, out);
        }
        let (before, after) = (step.before.short(), step.commit.short());
        let count = counted(step.candidates.len(), "commit");
        if report.result.is_none() {
            let by = match step.kind {
                StepKind::Commit => step.commit.subject.clone(),
                _ => format!("by one of {count} after {before}, up to {after}"),
            };
            return writeln!(out, "{bullet}{after} {} {figures}  {by}", step.commit.day());
        }
        match step.kind {
            StepKind::Commit => return self.commit(&figures, out),
            StepKind::Skipped => {
                writeln!(out, "{bullet}One of {count} after {before}, up to {after}, changed it: {figures}")?;
                // The last one is the commit after the step.
                let mut in_between = step.candidates.iter().rev().skip(1);
                let why = if in_between.all(|candidate| candidate.skipped.is_some()) {
                    "could not be measured"
                } else {
                    "have no figure; those without a reason were not tried"
                };
                writeln!(out, "{indent}the commits in between {why}:")?;
            }
            StepKind::Spread => {
                let threshold = threshold(&report.threshold, report.unit);
                writeln!(
                    out,
                    "{bullet}{count} after {before}, up to {after}, changed it together: {figures}, \
                     none of them by more than {threshold}"
                )?;
            }
            StepKind::OutsidePaths => {
                let paths = report.paths.join(" ");
                writeln!(
                    out,
                    "{bullet}It changed between {before} and {after}, in commits that do not touch {paths}: {figures}"
                )?;
            }
        }
        self.candidates(out)
    }

    /// Writes the update that made the change, or those of which one did, and how to look at it.
    fn update(&self, figures: &str, out: &mut dyn Write) -> io::Result<()> {
        let Self { report, step, bullet, indent } = self;
        let subject = &step.commit.subject;
        match step.kind {
            StepKind::Commit => {
                let which = match report.find.unwrap_or_default() {
                    SearchGoal::Largest if report.steps.len() == 1 => "made the largest change",
                    SearchGoal::First => "is the first beyond the threshold",
                    _ => "changed it",
                };
                writeln!(out, "{bullet}{subject} {which}: {figures}")?;
                if subject.contains(", ") {
                    writeln!(out, "{indent}these packages only move together")?;
                }
                own_change(report, step.change, indent, out)?;
            }
            StepKind::Skipped | StepKind::OutsidePaths => {
                writeln!(
                    out,
                    "{bullet}One of {} changed it: {figures}",
                    counted(step.candidates.len(), "update")
                )?;
                writeln!(out, "{indent}those in between could not be measured:")?;
                self.updates(out)?;
            }
            StepKind::Spread => {
                let threshold = threshold(&report.threshold, report.unit);
                let count = counted(step.candidates.len(), "update");
                writeln!(
                    out,
                    "{bullet}{count} changed it together: {figures}, none of them by more than {threshold}"
                )?;
                self.updates(out)?;
            }
        }
        let pair = format!("{},{}", step.before.short(), step.commit.short());
        match report.replay.iter().find(|replay| replay.line.contains(&pair)) {
            Some(replay) => writeln!(out, "{indent}why: {} --why", replay.line),
            None => Ok(()),
        }
    }

    fn updates(&self, out: &mut dyn Write) -> io::Result<()> {
        for candidate in &self.step.candidates {
            let reason = candidate.skipped.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
            writeln!(out, "{}{}{reason}", self.indent, candidate.facts.subject)?;
        }
        Ok(())
    }

    /// Writes a single commit that made the change.
    fn commit(&self, figures: &str, out: &mut dyn Write) -> io::Result<()> {
        let Self { report, step, bullet, indent } = self;
        let commit = &step.commit;
        let which = match report.find.unwrap_or_default() {
            SearchGoal::Largest if report.steps.len() == 1 => "made the largest change",
            SearchGoal::First => "is the first beyond the threshold",
            _ => "changed it",
        };
        writeln!(out, "{bullet}{} {which}: {figures}", commit.short())?;
        writeln!(out, "{indent}{} · {}", commit.author, commit.date)?;
        writeln!(out, "{indent}{}", commit.subject)?;
        if commit.parents.len() > 1 {
            let parents: Vec<&str> =
                commit.parents.iter().map(|parent| parent.get(..7).unwrap_or(parent)).collect();
            let (parents, before) = (parents.join(" and "), step.before.short());
            let merged = if report.first_parent { "were not searched" } else { "do not explain the change" };
            let other_side = step.other_side.map_or(String::new(), |side| {
                format!(" and the {} of its other side", difference(side, report.unit))
            });
            writeln!(
                out,
                "{indent}a merge of {parents}, compared with {before}{other_side}; the merged commits {merged}"
            )?;
        }
        own_change(report, step.change, indent, out)?;
        writeln!(out, "{indent}{}", files(&step.files))
    }

    fn candidates(&self, out: &mut dyn Write) -> io::Result<()> {
        for candidate in &self.step.candidates {
            let reason = candidate.skipped.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
            writeln!(out, "{}{} {}{reason}", self.indent, candidate.facts.short(), candidate.facts.subject)?;
        }
        Ok(())
    }
}

fn files(files: &[String]) -> String {
    let named: Vec<&str> = files.iter().take(MOST_FILES).map(String::as_str).collect();
    let more = if files.len() > MOST_FILES { ", …" } else { "" };
    match files.len() {
        0 => "no file differs".to_owned(),
        count => format!("{}: {}{more}", counted(count, "file"), named.join(", ")),
    }
}

/// Returns `1 % and 4.00 KiB`.
pub(crate) fn threshold(threshold: &Threshold, unit: Unit) -> String {
    let percent = threshold.percent.map(|percent| format!("{percent} %"));
    let absolute = threshold.bytes.map(|amount| figure(i64::try_from(amount).unwrap_or(i64::MAX), unit));
    let parts: Vec<String> = percent.into_iter().chain(absolute).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(" and ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bisect::headline::samples::{report, step};

    #[test]
    fn a_history_says_what_noise_hides_beside_the_changes_that_it_found() {
        let shown = |steps: &[serde_json::Value], unclear| {
            let mut text = Vec::new();
            let history = SearchReport { unclear, ..report(&serde_json::Value::Null, steps) };
            write(&history, &[], &mut text, "", |_, _| Ok(())).unwrap();
            String::from_utf8(text).unwrap().lines().last().unwrap_or_default().to_owned()
        };
        let step = [step("1f12721", 2 << 20, "commit")];
        let last = shown(&step, 2);
        assert!(last.starts_with("Noise hides whether 2 other commits changed heap.peak"), "{last}");
        assert!(!shown(&step, 0).contains("oise hides"));
        assert!(shown(&[], 1).starts_with("Noise hides whether 1 commit changed"));
        assert!(shown(&[], 0).starts_with("No commit changed"));
    }

    #[test]
    fn a_merge_is_compared_with_one_side_and_what_the_other_one_brings() {
        let mut merge = step("1f12721", 2 << 20, "commit");
        merge["parents"] = json!(["a000000", "b000000"]);
        let shown = |merge: &serde_json::Value| {
            let mut text = Vec::new();
            let report = report(&json!("found"), std::slice::from_ref(merge));
            StepAnswer { report: &report, step: &report.steps[0], bullet: "", indent: "" }
                .write(&mut text)
                .unwrap();
            String::from_utf8(text).unwrap()
        };
        let plain = shown(&merge);
        assert!(
            plain.contains("and b000000, compared with b000000; the merged commits do not explain"),
            "{plain}"
        );
        merge["other_side"] = json!(1 << 20);
        let both = shown(&merge);
        assert!(
            both.contains("compared with b000000 and the +1.00 MiB of its other side; the merged"),
            "{both}"
        );
    }

    #[test]
    fn no_metric_is_advised_instead_of_an_exact_one() {
        let advice = |metric: &str| {
            let mut report = report(&json!("unclear"), &[]);
            report.query.metric = metric.to_owned();
            no_step(&report).unwrap().lines().last().unwrap().to_owned()
        };
        assert_eq!(advice("cpu.peak"), "Raise --threshold, or choose an exact metric such as heap.peak.");
        assert_eq!(advice("heap.peak"), "Raise --threshold, or run each commit more often with --repeat.");
    }
}
