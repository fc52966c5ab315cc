//! Renders what a bisection found and what a history shows, in the formats of every report.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::bisect::linear_search::{SearchGoal, StepKind};
use crate::bisect::observations::HasChanged;
use crate::bisect::report_data::{FoundStep, MeasuredCommit, SearchReport, SearchResult};
use crate::compare::comparison::{Comparison, Delta};
use crate::plan::metric::Unit;
use crate::plan::quantity::Threshold;
use crate::report::bisect::history;
use crate::report::bisect::measured;
use crate::report::json::render as json_report;
use crate::report::markdown;
use crate::report::options::{Format, Options};
use crate::report::table;
use crate::report::text::{difference, figure, percent};
use crate::support::counted::counted;
use crate::support::elapsed::shown;

/// A report on a search, with the comparison of each step's two commits, in the steps' order.
#[derive(Clone, Copy, Debug)]
pub struct Searched<'a> {
    /// The report.
    pub report: &'a SearchReport,
    /// For each step, all checkpoints and metrics of the two commits.
    pub comparisons: &'a [Comparison],
}

/// Writes it in a form.
pub fn render(
    format: Format,
    searched: Searched<'_>,
    options: &Options,
    unicode: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let report = searched.report;
    match format {
        Format::Csv => measured::csv(report, out),
        // The command line refuses it.
        Format::Junit => Err(io::Error::other("a search has no JUnit report")),
        Format::Json => as_json(searched, out),
        Format::Table => {
            writeln!(out, "{}\n", title(report))?;
            if report.result.is_none() {
                history::chart(report, options, unicode, out)?;
            }
            answers(searched, out, "", |comparison, out| rows(comparison, options, out))?;
            writeln!(out)?;
            measured::table(report, options, out)?;
            writeln!(out, "\n{}", effort(report))?;
            for replay in &report.replay {
                writeln!(out, "{}: {}", replay.shows, replay.line)?;
            }
            Ok(())
        }
        Format::Markdown => {
            writeln!(out, "**{}**\n", title(report))?;
            answers(searched, out, "- ", rows_as_markdown)?;
            writeln!(out, "\n<details><summary>{}</summary>\n", effort(report))?;
            measured::markdown(report, out)?;
            writeln!(out, "\n</details>\n")?;
            for replay in &report.replay {
                writeln!(out, "- {}: `{}`", replay.shows, replay.line)?;
            }
            Ok(())
        }
    }
}

/// All that changed between the two commits of a step.
fn rows(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let all = options.metrics.is_none();
    let options = Options { all, only_changed: true, compact: false, report_path: None, ..options.clone() };
    table::render(comparison, &options, out)
}

fn rows_as_markdown(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    let options = Options { all: true, only_changed: true, ..Options::default() };
    markdown::render(comparison, &options, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    // The line by which a bot finds its comment stands once in one.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("<!--")).collect();
    writeln!(out, "{}", lines.join("\n"))
}

fn as_json(searched: Searched<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut value = serde_json::to_value(searched.report).map_err(io::Error::other)?;
    for (index, comparison) in searched.comparisons.iter().enumerate() {
        let mut text = Vec::new();
        json_report::render(comparison, &mut text)?;
        let comparison: Value = serde_json::from_slice(&text).map_err(io::Error::other)?;
        value["steps"][index]["comparison"] = comparison;
    }
    if let Value::Object(fields) = &mut value {
        fields.insert("schema".to_owned(), json!("cargo-memprof-search"));
    }
    serde_json::to_writer_pretty(&mut *out, &value).map_err(io::Error::other)?;
    writeln!(out)
}

/// `heap.peak at 'parsed' of bart::tests::decode · v0.4.0 → HEAD · 64 commits`.
pub fn title(report: &SearchReport) -> String {
    let (good, bad) = (name(&report.good), name(&report.bad));
    let commits = counted(report.commits, "commit");
    let params = report.params.iter().map(|(name, value)| format!(" {name}={value}"));
    let params = params.collect::<Vec<_>>().concat();
    let paths =
        if report.paths.is_empty() { String::new() } else { format!(" · only {}", report.paths.join(" ")) };
    format!("{} of {}{params} · {good} → {bad} · {commits}{paths}", report.query.described(), report.test)
}

fn name(commit: &crate::bisect::report_data::NamedCommit) -> String {
    let short = commit.facts.short();
    if commit.name.starts_with(short) || short.starts_with(&commit.name) {
        short.to_owned()
    } else {
        format!("{} ({short})", commit.name)
    }
}

/// What was found, each a paragraph with what else changed at the same commit.
fn answers(
    searched: Searched<'_>,
    out: &mut dyn Write,
    bullet: &str,
    rows: impl Fn(&Comparison, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let report = searched.report;
    let metric = report.query.described();
    match report.result {
        Some(SearchResult::Same | SearchResult::Unclear) => {
            let figures = ends(report);
            let threshold = threshold(&report.threshold, report.unit);
            return if report.result == Some(SearchResult::Same) {
                writeln!(
                    out,
                    "{} and {} do not differ in {metric} by more than {threshold}: {figures}\n\
                     A growth and an equal shrinkage between them would not be seen; `cargo memprof history` shows each commit.",
                    report.good.name, report.bad.name
                )
            } else {
                let (good, bad) = (&report.good.name, &report.bad.name);
                writeln!(
                    out,
                    "Whether {good} and {bad} differ in {metric} by more than {threshold} is lost in the noise: {figures}\n\
                     A higher --threshold can be told from it, and so can a metric that is counted, such as heap.peak."
                )
            };
        }
        None if report.steps.is_empty() => {
            let threshold = threshold(&report.threshold, report.unit);
            return writeln!(out, "No step of {metric} is beyond {threshold}.");
        }
        None | Some(SearchResult::Found) => {}
    }
    for (index, step) in report.steps.iter().enumerate() {
        if index > 0 && report.result.is_some() {
            writeln!(out)?;
        }
        answer(report, step, out, bullet)?;
        if let Some(comparison) = searched.comparisons.get(index) {
            writeln!(out)?;
            rows(comparison, out)?;
        }
    }
    Ok(())
}

/// `3.10 MiB → 9.72 MiB (+6.62 MiB, +214 %)`.
fn change(before: i64, after: i64, unit: Unit) -> String {
    let delta = Delta::between(before, after);
    let percent = percent(&delta);
    let percent = if percent.is_empty() { percent } else { format!(", {percent}") };
    let difference = difference(delta.difference, unit);
    format!("{} → {} ({difference}{percent})", figure(before, unit), figure(after, unit))
}

fn ends(report: &SearchReport) -> String {
    match (report.good.value, report.bad.value) {
        (Some(good), Some(bad)) => change(good, bad, report.unit),
        _ => "one of them has no figure".to_owned(),
    }
}

fn answer(report: &SearchReport, step: &FoundStep, out: &mut dyn Write, bullet: &str) -> io::Result<()> {
    let figures = change(step.value_before, step.value, report.unit);
    let (before, after) = (step.before.short(), step.commit.short());
    let indent = if bullet.is_empty() { "  " } else { "  - " };
    if report.result.is_none() {
        return writeln!(out, "{bullet}{after} {} {figures}  {}", step.commit.day(), step.commit.subject);
    }
    match step.kind {
        StepKind::Commit => {
            let which = match report.find.unwrap_or_default() {
                SearchGoal::Largest if report.steps.len() == 1 => "made the largest change",
                SearchGoal::First => "is the first beyond the threshold",
                _ => "changed it",
            };
            writeln!(out, "{bullet}{after} {which}: {figures}")?;
            writeln!(out, "{indent}{} · {}", step.commit.author, step.commit.date)?;
            writeln!(out, "{indent}{}", step.commit.subject)?;
            if step.commit.parents.len() > 1 {
                let parents: Vec<&str> =
                    step.commit.parents.iter().map(|parent| parent.get(..7).unwrap_or(parent)).collect();
                let branch = if report.first_parent {
                    "what it merged was not searched"
                } else {
                    "what it merged does not explain it"
                };
                writeln!(
                    out,
                    "{indent}a merge of {}, compared with {before}; {branch}",
                    parents.join(" and ")
                )?;
            }
            if step.change != HasChanged::Yes {
                writeln!(
                    out,
                    "{indent}by itself it is not beyond {}",
                    threshold(&report.threshold, report.unit)
                )?;
            }
            writeln!(out, "{indent}{}", files(&step.files))
        }
        StepKind::Skipped => {
            let count = counted(step.candidates.len(), "commit");
            writeln!(out, "{bullet}One of {count} after {before}, up to {after}, changed it: {figures}")?;
            writeln!(out, "{indent}those in between could not be measured:")?;
            candidates(step, out, indent)
        }
        StepKind::Spread => {
            let count = counted(step.candidates.len(), "commit");
            writeln!(
                out,
                "{bullet}{count} after {before}, up to {after}, changed it together: {figures}, none of them by more than {}",
                threshold(&report.threshold, report.unit)
            )?;
            candidates(step, out, indent)
        }
        StepKind::OutsidePaths => {
            let paths = report.paths.join(" ");
            writeln!(
                out,
                "{bullet}It changed between {before} and {after}, by commits that do not touch {paths}: {figures}"
            )?;
            candidates(step, out, indent)
        }
    }
}

fn candidates(step: &FoundStep, out: &mut dyn Write, indent: &str) -> io::Result<()> {
    for candidate in &step.candidates {
        let reason = candidate.skipped.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
        writeln!(out, "{indent}{} {}{reason}", candidate.facts.short(), candidate.facts.subject)?;
    }
    Ok(())
}

/// The most files that are named.
const MOST_FILES: usize = 12;

fn files(files: &[String]) -> String {
    let named: Vec<&str> = files.iter().take(MOST_FILES).map(String::as_str).collect();
    let more = if files.len() > MOST_FILES { ", …" } else { "" };
    match files.len() {
        0 => "no file differs".to_owned(),
        count => format!("{}: {}{more}", counted(count, "file"), named.join(", ")),
    }
}

/// `1 % and 4.00 KiB`.
pub fn threshold(threshold: &Threshold, unit: Unit) -> String {
    let percent = threshold.percent.map(|percent| format!("{percent} %"));
    let absolute = threshold.bytes.map(|amount| figure(i64::try_from(amount).unwrap_or(i64::MAX), unit));
    let parts: Vec<String> = percent.into_iter().chain(absolute).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(" and ") }
}

/// `8 measured, 1 skipped · 7 builds, 12 runs · 2 min 5 s`.
fn effort(report: &SearchReport) -> String {
    let effort = &report.effort;
    let skipped = if effort.skipped > 0 { format!(", {} skipped", effort.skipped) } else { String::new() };
    format!(
        "{} of {} measured{skipped} · {}, {} · {}",
        effort.measured,
        counted(report.commits + 1, "commit"),
        counted(effort.built, "build"),
        counted(effort.runs, "run"),
        shown(std::time::Duration::from_secs_f64(effort.seconds.max(0.0)))
    )
}

/// A line of the search as it goes: `[3/8] 1d0c7aa 3.10 MiB (+0.12 %)`.
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
