//! Writes the report of a bisect or a history in every format.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::bisect::report_data::{MeasuredCommit, NamedCommit, SearchReport};
use crate::bisect::step_comparison::ComparedStep;
use crate::compare::comparison::Delta;
use crate::plan::metric::Unit;
use crate::report::bisect::answer;
use crate::report::bisect::history;
use crate::report::bisect::measured;
use crate::report::html;
use crate::report::json::render as json_report;
use crate::report::markdown;
use crate::report::markdown_text::{code, escape_but_hashes};
use crate::report::options::{Format, Options};
use crate::report::table;
use crate::report::text::{figure, percent};
use crate::support::counted::counted;
use crate::support::elapsed::shown;
use crate::support::labels::one_line;

/// A report on a search, with a comparison of each step's two commits.
#[derive(Clone, Copy, Debug)]
pub struct Searched<'a> {
    /// The report.
    pub report: &'a SearchReport,
    /// In the order of the steps: all checkpoints and metrics of the two commits, with call sites.
    pub steps: &'a [ComparedStep],
}

/// Writes the report in a format.
pub fn render(
    format: Format,
    searched: Searched<'_>,
    options: &Options,
    unicode: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let report = searched.report;
    // In text, a history is one metric of many commits.
    let shown_steps = if report.result.is_some() { searched.steps } else { &[] };
    match format {
        Format::Csv => measured::csv(report, out),
        // The command line refuses the other formats.
        Format::Junit
        | Format::CsvWide
        | Format::Perfetto
        | Format::CsvScopes
        | Format::CsvCalls
        | Format::CsvLines
        | Format::CsvTensors
        | Format::CsvLayers
        | Format::Pprof
        | Format::Dhat
        | Format::Folded => Err(io::Error::other("bisect and history have no report in this format")),
        Format::Json => as_json(searched, out),
        Format::Html => html::history::render(searched, options, out),
        Format::Table => {
            writeln!(out, "{}\n", one_line(&title(report)))?;
            if report.result.is_none() {
                history::chart(report, options, unicode, out)?;
            }
            answer::write(report, shown_steps, out, "", |step, out| rows(step, options, out))?;
            writeln!(out)?;
            measured::table(report, options, out)?;
            writeln!(out, "\n{}", effort(report))?;
            for replay in &report.replay {
                writeln!(out, "{}: {}", replay.shows, one_line(&replay.line))?;
            }
            Ok(())
        }
        Format::Markdown => {
            writeln!(out, "**{}**\n", escape_but_hashes(&title(report)))?;
            answer::write(report, shown_steps, out, "- ", rows_as_markdown)?;
            writeln!(out, "\n<details><summary>{}</summary>\n", effort(report))?;
            measured::markdown(report, out)?;
            writeln!(out, "\n</details>\n")?;
            for replay in &report.replay {
                writeln!(out, "- {}: {}", replay.shows, code(&replay.line))?;
            }
            Ok(())
        }
    }
}

/// Writes all changes between the two commits of a step.
fn rows(step: &ComparedStep, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let options = Options {
        all: options.metrics.is_none(),
        only_changed: true,
        compact: false,
        report_path: None,
        why: step.why.clone(),
        ..options.clone()
    };
    table::render(&step.comparison, &options, out)
}

fn rows_as_markdown(step: &ComparedStep, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    let options = Options { all: true, only_changed: true, why: step.why.clone(), ..Options::default() };
    markdown::render(&step.comparison, &options, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    // The marker for bots must not occur twice in a comment.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("<!--")).collect();
    writeln!(out, "{}", lines.join("\n"))
}

fn as_json(searched: Searched<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut value = serde_json::to_value(searched.report).map_err(io::Error::other)?;
    for (index, step) in searched.steps.iter().enumerate() {
        let mut text = Vec::new();
        json_report::render(&step.comparison, step.why.as_deref(), &mut text)?;
        let comparison: Value = serde_json::from_slice(&text).map_err(io::Error::other)?;
        value["steps"][index]["comparison"] = comparison;
    }
    if let Value::Object(fields) = &mut value {
        fields.insert("schema".to_owned(), json!("cargo-memprof-search"));
    }
    serde_json::to_writer_pretty(&mut *out, &value).map_err(io::Error::other)?;
    writeln!(out)
}

/// Returns `heap.peak at 'parsed' of bart::tests::decode · v0.4.0 → HEAD · 64 commits`.
pub fn title(report: &SearchReport) -> String {
    let (good, bad) = (name(&report.good), name(&report.bad));
    let commits = counted(report.commits, "commit");
    let params = report.params.iter().map(|(name, value)| format!(" {name}={value}"));
    let params = params.collect::<Vec<_>>().concat();
    let paths =
        if report.paths.is_empty() { String::new() } else { format!(" · only {}", report.paths.join(" ")) };
    format!("{} of {}{params} · {good} → {bad} · {commits}{paths}", report.query.described(), report.test)
}

fn name(commit: &NamedCommit) -> String {
    let short = commit.facts.short();
    if commit.name.starts_with(short) || short.starts_with(&commit.name) {
        short.to_owned()
    } else {
        format!("{} ({short})", commit.name)
    }
}

/// Returns `8 of 9 commits measured, 1 skipped · 7 builds, 12 runs · 2 min 5 s`.
pub(in crate::report) fn effort(report: &SearchReport) -> String {
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
