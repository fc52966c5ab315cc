//! What a search measured, in one line: its title, its effort, and a commit's progress.

use crate::text::{figure, percent};
use memprof_judge::compare::comparison::Delta;
use memprof_plan::metric::Unit;
use memprof_run::bisect::report_data::{MeasuredCommit, NamedCommit, SearchReport};
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
pub fn title(report: &SearchReport) -> String {
    let params = report.params.iter().map(|(name, value)| format!(" {name}={value}"));
    let params = params.collect::<Vec<_>>().concat();
    format!("{} of {}{params} · {}", report.query.described(), report.test, ends(report))
}

/// Returns `v0.4.0 → HEAD · 64 commits`.
pub(crate) fn ends(report: &SearchReport) -> String {
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
    format!(
        "{} of {} measured{skipped} · {}, {} · {}",
        effort.measured,
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
