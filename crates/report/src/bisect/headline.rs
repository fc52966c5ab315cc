//! What a search measured, in one line: its title, its effort, and a commit's progress.

use crate::text::{difference, figure, percent};
use memprof_judge::compare::comparison::Delta;
use memprof_plan::metric::Unit;
use memprof_run::bisect::linear_search::StepKind;
use memprof_run::bisect::report_data::{FoundStep, MeasuredCommit, NamedCommit, SearchReport, SearchResult};
use memprof_run::bisect::step_comparison::ComparedStep;
use memprof_support::counted::counted;
use memprof_support::elapsed::shown;

/// A report on a search, with a comparison of each step's two commits.
#[derive(Clone, Copy, Debug)]
pub struct Searched<'a> {
    pub report: &'a SearchReport,
    /// In the order of the steps: all checkpoints and metrics of the two commits, with call sites.
    pub steps: &'a [ComparedStep],
}

/// Returns `heap.peak at 'parsed' of bart::tests::decode · v0.4.0 → HEAD · 64 commits`.
pub(crate) fn title(report: &SearchReport) -> String {
    let params = report.params.iter().map(|(name, value)| format!(" {name}={value}"));
    let params = params.collect::<Vec<_>>().concat();
    format!("{} of {}{params} · {}", report.query.described(), report.test, ends(report))
}

/// Returns the answer: `3 of 33 commits changed decode: +2.10 MiB by 1f12721, +96.0 KiB by 0c4d2e1, and 1
/// more`.
pub(crate) fn answer(report: &SearchReport) -> String {
    let (test, noun) = (&report.title, report.noun());
    match report.result {
        Some(SearchResult::Same) => {
            return format!("{} and {} do not differ in {test}", report.good.name, report.bad.name);
        }
        Some(SearchResult::Unclear) => {
            return format!(
                "noise hides whether {} and {} differ in {test}",
                report.good.name, report.bad.name
            );
        }
        None | Some(SearchResult::Found) => {}
    }
    let of_all = format!("of {} changed {test}", counted(report.commits, noun));
    match report.steps.len() {
        0 if report.unclear > 0 => {
            format!("noise hides whether {} changed {test}", counted(report.unclear, noun))
        }
        0 => format!("none {of_all}"),
        count => format!("{count} {of_all}: {}", largest(report.steps.iter().map(|step| (report, step)))),
    }
}

/// Returns the largest steps: `+2.10 MiB by 1f12721, +96.0 KiB by 0c4d2e1, and 1 more`.
pub(crate) fn largest<'a>(steps: impl Iterator<Item = (&'a SearchReport, &'a FoundStep)>) -> String {
    let mut steps: Vec<_> = steps.collect();
    steps.sort_by_key(|(_, step)| std::cmp::Reverse(step.difference.unsigned_abs()));
    let shown = steps.iter().take(MOST_STEPS).map(|(report, step)| {
        let (candidates, short) = (counted(step.candidates.len(), report.noun()), step.commit.short());
        let by = match step.kind {
            _ if report.lockfile.is_some() => step.commit.subject.clone(),
            StepKind::Commit => short.to_owned(),
            StepKind::Skipped => format!("one of {candidates} up to {short}"),
            StepKind::Spread => format!("{candidates} up to {short} together"),
            StepKind::OutsidePaths => format!("commits outside the paths up to {short}"),
        };
        format!("{} by {by}", difference(step.difference, report.unit))
    });
    let mut shown: Vec<String> = shown.collect();
    if let Some(more) = steps.len().checked_sub(MOST_STEPS).filter(|more| *more > 0) {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

/// The most changes that the answer names.
const MOST_STEPS: usize = 3;

/// Returns `v0.4.0 → HEAD · 64 commits`.
pub fn ends(report: &SearchReport) -> String {
    let (good, bad) = match report.lockfile {
        Some(_) => (report.good.name.clone(), report.bad.name.clone()),
        None => (name(&report.good), name(&report.bad)),
    };
    let commits = counted(report.commits, report.noun());
    let paths =
        if report.paths.is_empty() { String::new() } else { format!(" · only {}", report.paths.join(" ")) };
    format!("{good} → {bad} · {commits}{paths}")
}

pub(crate) fn name(commit: &NamedCommit) -> String {
    let short = commit.facts.short();
    if commit.name.starts_with(short) || short.starts_with(&commit.name) {
        short.to_owned()
    } else {
        format!("{} ({short})", commit.name)
    }
}

/// Returns `8 of 9 commits measured, 1 skipped · 7 builds, 12 runs · 2 min 5 s`.
pub(crate) fn effort(report: &SearchReport) -> String {
    let effort = &report.effort;
    let skipped = if effort.skipped > 0 { format!(", {} skipped", effort.skipped) } else { String::new() };
    let forks = match effort.forks {
        0 => String::new(),
        count => format!(", and {count} before {}", report.good.name),
    };
    format!(
        "{} of {} measured{skipped}{forks} · {}, {} · {}",
        effort.measured.saturating_sub(effort.forks),
        match report.lockfile {
            Some(_) => counted(report.commits + 1, "lock file"),
            None => counted(report.commits + 1, "commit"),
        },
        counted(effort.built, "build"),
        counted(effort.runs, "run"),
        shown(std::time::Duration::from_secs_f64(effort.seconds.max(0.0)))
    )
}

/// Returns the progress line of a commit: `1d0c7aa 3.10 MiB (+0.12 %)`.
pub fn step_line(commit: &MeasuredCommit, unit: Unit) -> String {
    match (commit.value, &commit.skipped) {
        (Some(value), _) => {
            let delta = commit.difference.and_then(|difference| {
                let before = i64::try_from(i128::from(value) - difference).ok()?;
                Some(percent(&Delta::between(before, value)))
            });
            let delta =
                delta.filter(|delta| !delta.is_empty()).map_or(String::new(), |delta| format!(" ({delta})"));
            format!("{} {}{delta}", commit.facts.short(), figure(value, unit))
        }
        (None, reason) => format!("{}: {}", commit.facts.short(), reason.as_deref().unwrap_or("no figure")),
    }
}

/// Returns the progress line of an update: `serde 1.0.180 → 1.0.200: 3.10 MiB (+0.12 %)`.
pub fn update_line(commit: &MeasuredCommit, name: &str, unit: Unit) -> String {
    let line = step_line(commit, unit);
    let figure = line.strip_prefix(commit.facts.short()).unwrap_or(&line).trim_start_matches([':', ' ']);
    format!("{name}: {figure}")
}

/// Returns the progress line of a commit with several tests: `1d0c7aa 11 of 12 tests`.
pub fn tests_line(tests: &[MeasuredCommit]) -> String {
    let figures = tests.iter().filter(|test| test.value.is_some()).count();
    let short = tests.first().map_or("", |test| test.facts.short());
    let skipped = tests.iter().find_map(|test| test.skipped.as_deref());
    match (figures, skipped) {
        (0, Some(reason)) => format!("{short}: {reason}"),
        _ if figures == tests.len() => format!("{short} {}", counted(figures, "test")),
        _ => format!("{short} {figures} of {}", counted(tests.len(), "test")),
    }
}

/// Reports for tests.
#[cfg(test)]
pub(crate) mod samples {
    use serde_json::{Value, json};

    use super::*;

    fn named(name: &str) -> Value {
        json!({"name": name, "commit": name, "subject": "", "author": "", "date": "", "parents": [], "value": 0})
    }

    /// Returns a step from `b000000` to a commit.
    pub(crate) fn step(commit: &str, difference: i64, kind: &str) -> Value {
        let facts =
            |commit: &str| json!({"commit": commit, "subject": "", "author": "", "date": "", "parents": []});
        let mut step = facts(commit);
        for (key, value) in [
            ("kind", json!(kind)),
            ("change", json!("yes")),
            ("before", facts("b000000")),
            ("value_before", json!(0)),
            ("value", json!(difference)),
            ("difference", json!(difference)),
            ("percent", Value::Null),
            ("files", json!([])),
            ("candidates", json!([facts("c000000"), facts(commit)])),
        ] {
            step[key] = value;
        }
        step
    }

    /// Returns the report of a history with these steps, or of a bisection with this result.
    pub(crate) fn report(result: &Value, steps: &[Value]) -> SearchReport {
        let report = json!({
            "version": 1, "tool": "", "id": "", "created": "", "command": "history", "find": null,
            "result": result, "test": "p::b::decode", "title": "decode", "params": [], "metric": "heap.peak",
            "checkpoint": null, "unit": "bytes", "threshold": {}, "good": named("v1"), "bad": named("v2"),
            "commits": 33, "first_parent": false, "paths": [], "steps": steps, "measured": [], "replay": [],
            "effort": {"measured": 0, "skipped": 0, "built": 0, "runs": 0, "seconds": 0.0},
        });
        serde_json::from_value(report).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::samples::{report, step};
    use super::*;

    fn answered(result: &Value, steps: &[Value]) -> String {
        answer(&report(result, steps))
    }

    #[test]
    fn no_more_commits_are_measured_than_there_are() {
        let mut report = report(&json!("found"), &[]);
        (report.effort.measured, report.effort.forks) = (35, 1);
        assert_eq!(effort(&report), "34 of 34 commits measured, and 1 before v1 · 0 builds, 0 runs · 0 ms");
    }

    #[test]
    fn the_answer_has_the_largest_changes_and_counts_the_others() {
        let steps = [
            step("1111111", 2048, "commit"),
            step("2222222", -(3 << 20), "commit"),
            step("3333333", 4096, "skipped"),
            step("4444444", 1024, "commit"),
        ];
        assert_eq!(
            answered(&Value::Null, &steps),
            "4 of 33 commits changed decode: -3.00 MiB by 2222222, +4.00 KiB by one of 2 commits up to 3333333, \
             +2.00 KiB by 1111111, and 1 more"
        );
        assert_eq!(
            answered(&json!("found"), &steps[..1]),
            "1 of 33 commits changed decode: +2.00 KiB by 1111111"
        );
        assert_eq!(answered(&Value::Null, &[]), "none of 33 commits changed decode");
        let mut unclear = report(&Value::Null, &[]);
        unclear.unclear = 2;
        assert_eq!(answer(&unclear), "noise hides whether 2 commits changed decode");
        assert_eq!(answered(&json!("same"), &[]), "v1 and v2 do not differ in decode");
        assert_eq!(answered(&json!("unclear"), &[]), "noise hides whether v1 and v2 differ in decode");
    }
}
