//! Writes the report of a bisect or a history in every format.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::bisect::answer;
use crate::bisect::headline::{Searched, effort, title};
use crate::bisect::history;
use crate::bisect::measured;
use crate::bisect::several::Several;
use crate::html;
use crate::json::render as json_report;
use crate::markdown;
use crate::markdown_text::{code, escape_but_hashes};
use crate::options::{Format, Options};
use crate::page::Page;
use crate::proof;
use crate::table;
use memprof_run::bisect::report_data;
use memprof_run::bisect::step_comparison::ComparedStep;
use memprof_support::labels::one_line;

/// Writes the report in a format. A history can have several tests.
pub fn render(
    format: Format,
    searched: &[Searched<'_>],
    options: &Options,
    unicode: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    match (format, searched) {
        (Format::Csv, _) => measured::csv(searched.iter().map(|one| one.report), out),
        (Format::Html, _) => html::history::render(searched, options, out),
        (Format::Json, _) => as_json(searched, options, out),
        (_, [one]) => render_one(format, *one, options, unicode, out),
        (Format::Table, _) => several(searched)?.text(options, unicode, out),
        (Format::Markdown, _) => several(searched)?.markdown(out),
        _ => Err(no_such_report()),
    }
}

fn several<'a>(searched: &[Searched<'a>]) -> io::Result<Several<'a>> {
    Several::from_reports(searched).ok_or_else(|| io::Error::other("the search has no test"))
}

/// The command line refuses the other formats.
fn no_such_report() -> io::Error {
    io::Error::other("bisect and history have no report in this format")
}

fn render_one(
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
        Format::Table => {
            writeln!(out, "{}\n", one_line(&title(report)))?;
            if report.result.is_none() {
                history::chart(report, history::HEIGHT, options, unicode, out)?;
            }
            answer::write(report, shown_steps, out, "", |step, out| rows(step, options, out))?;
            writeln!(out)?;
            if let Some(proof) = &options.proof {
                proof::section(proof, Page::new(options), out)?;
            }
            measured::table(report, options, out)?;
            writeln!(out, "\n{}", effort(report))?;
            for replay in &report.replay {
                writeln!(out, "{}: {}", replay.shows, one_line(&replay.line))?;
            }
            Ok(())
        }
        Format::Markdown => {
            writeln!(out, "**{}**\n", escape_but_hashes(&title(report)))?;
            answer::write(report, shown_steps, out, "- ", |step, out| rows_as_markdown(step, options, out))?;
            if let Some(proof) = &options.proof {
                write!(out, "{}", proof::section_of_comment(proof))?;
            }
            writeln!(out, "\n<details><summary>{}</summary>\n", effort(report))?;
            measured::markdown(report, out)?;
            writeln!(out, "\n</details>\n")?;
            for replay in &report.replay {
                writeln!(out, "- {}: {}", replay.shows, code(&replay.line))?;
            }
            Ok(())
        }
        _ => Err(no_such_report()),
    }
}

/// Writes two commits with their call sites below a report for people. Other formats have no room for them.
pub fn step_below(
    format: Format,
    step: &ComparedStep,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Table => writeln!(out).and_then(|()| rows(step, options, out)),
        Format::Markdown => writeln!(out).and_then(|()| rows_as_markdown(step, options, out)),
        _ => Ok(()),
    }
}

/// Writes all changes between the two commits of a step.
fn rows(step: &ComparedStep, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let options = Options {
        all: options.metrics.is_none(),
        only_changed: true,
        compact: false,
        hides_next: true,
        proof: None,
        report_path: None,
        why: step.why.clone(),
        ..options.clone()
    };
    table::render(&step.comparison, &options, out)
}

fn rows_as_markdown(step: &ComparedStep, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    let options = Options {
        all: true,
        only_changed: true,
        shows_sites: options.shows_sites,
        why: step.why.clone(),
        ..Options::default()
    };
    markdown::render(&step.comparison, &options, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    // The marker for bots must not occur twice in a comment.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("<!--")).collect();
    writeln!(out, "{}", lines.join("\n"))
}

/// Writes one object for one test, else an object with one for each.
fn as_json(searched: &[Searched<'_>], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut tests = searched.iter().map(|one| test_as_json(*one)).collect::<io::Result<Vec<_>>>()?;
    let mut value = match (tests.len(), tests.pop()) {
        (1, Some(test)) => test,
        (_, last) => {
            tests.extend(last);
            json!({ "schema": "cargo-memprof-searches", "version": report_data::VERSION, "tests": tests })
        }
    };
    if let (Some(proof), Value::Object(fields)) = (&options.proof, &mut value) {
        fields.insert("proof".to_owned(), serde_json::to_value(proof.as_ref()).map_err(io::Error::other)?);
    }
    serde_json::to_writer_pretty(&mut *out, &value).map_err(io::Error::other)?;
    writeln!(out)
}

fn test_as_json(searched: Searched<'_>) -> io::Result<Value> {
    let mut value = serde_json::to_value(searched.report).map_err(io::Error::other)?;
    for (index, step) in searched.steps.iter().enumerate() {
        let mut text = Vec::new();
        json_report::render(&step.comparison, step.why.as_deref(), None, &mut text)?;
        let comparison: Value = serde_json::from_slice(&text).map_err(io::Error::other)?;
        value["steps"][index]["comparison"] = comparison;
    }
    if let Value::Object(fields) = &mut value {
        fields.insert("schema".to_owned(), json!("cargo-memprof-search"));
    }
    Ok(value)
}
