//! Writes what each part of a diff costs: as text, as markdown and as JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bisect::answer::threshold;
use crate::bisect::headline::name;
use crate::markdown_text::{code, escape_but_hashes};
use crate::options::{Format, Options};
use crate::text::{difference, figure};
use memprof_plan::metric::Unit;
use memprof_run::bisect::parts::proof::{PartGroup, ProofReport, ProvenPart};
use memprof_run::bisect::parts::record::HunkPlace;
use memprof_run::bisect::report_data::SearchResult;
use memprof_support::counted::counted;
use memprof_support::elapsed::shown;
use memprof_support::labels::{one_line, width};

/// A line of the report: a figure, a place, what is there, and what is known of it.
struct Line {
    figure: String,
    place: String,
    what: String,
    note: String,
}

/// Writes the report in a format.
pub fn render(
    format: Format,
    report: &ProofReport,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Table => as_text(report, options, out),
        Format::Markdown => as_markdown(report, out),
        Format::Json => as_json(report, out),
        // The command line refuses the other formats.
        _ => Err(io::Error::other("a proof has no report in this format")),
    }
}

/// `heap.peak: +8.85 MiB of index::builds · main (29610a7) → pr/7 (9962b2a)`
fn headline(report: &ProofReport) -> String {
    let params = report.params.iter().map(|(name, value)| format!(" {name}={value}"));
    let (metric, checkpoint) = (&report.query.metric, &report.query.checkpoint);
    let at = checkpoint.as_ref().map_or(String::new(), |label| format!(" at '{label}'"));
    format!(
        "{metric}: {}{at} of {}{} · {} → {}",
        signed(report.difference, report.unit),
        report.test,
        params.collect::<String>(),
        name(&report.baseline),
        name(&report.candidate)
    )
}

/// Returns the answer if no part is searched for.
fn no_difference(report: &ProofReport) -> Option<String> {
    let (baseline, candidate) = (report.baseline.value?, report.candidate.value?);
    (report.result != SearchResult::Found).then(|| {
        format!(
            "{} and {} do not differ by more than {}: {} → {}",
            report.baseline.name,
            report.candidate.name,
            threshold(&report.threshold, report.unit),
            figure(baseline, report.unit),
            figure(candidate, report.unit)
        )
    })
}

fn lines(report: &ProofReport) -> Vec<Line> {
    let mut lines: Vec<Line> = report.parts.iter().map(|part| of_part(part, report)).collect();
    lines.extend(report.open.iter().map(|group| Line {
        figure: signed(group.difference, report.unit),
        place: size(group),
        what: String::new(),
        note: format!("could not be told apart: {}", group.reason.as_deref().unwrap_or_default()),
    }));
    if !report.rest.parts.is_empty() {
        let verb = if report.rest.parts.len() == 1 { "makes" } else { "make" };
        let note = match report.rest.difference {
            0 => format!("{verb} no difference"),
            _ => format!("{verb} none beyond {}", threshold(&report.threshold, report.unit)),
        };
        let figure = signed(report.rest.difference, report.unit);
        lines.push(Line { figure, place: size(&report.rest), what: String::new(), note });
    }
    if report.together != 0 {
        let figure = signed(report.together, report.unit);
        let note = "what they share".to_owned();
        lines.push(Line { figure, place: "together".to_owned(), what: String::new(), note });
    }
    lines
}

fn of_part(part: &ProvenPart, report: &ProofReport) -> Line {
    let unit = report.unit;
    let first = part.hunks.first();
    let more = part.hunks.len().saturating_sub(1);
    let place = first.map(HunkPlace::shown).unwrap_or_default();
    let place = if more > 0 { format!("{place} +{more}") } else { place };
    let mut notes = vec![match &part.reason {
        None => format!("proven: without it {}", signed(-part.difference, unit)),
        Some(reason) => format!("cannot be left out: {reason}"),
    }];
    if let Some(alone) = part.alone.filter(|alone| *alone != part.difference) {
        notes.push(format!("alone {}", signed(alone, unit)));
    }
    if part.needed_by > 0 {
        notes.push(format!("{} that need it left out, too", counted(part.needed_by, "part")));
    }
    notes.extend(part.shows_in.iter().map(|function| format!("shows in {function} (unchanged)")));
    Line {
        figure: signed(part.difference, unit),
        place,
        what: first.and_then(|hunk| hunk.what.clone()).unwrap_or_default(),
        note: notes.join("; "),
    }
}

/// A difference with its sign; zero with its unit.
fn signed(value: i128, unit: Unit) -> String {
    if value == 0 { figure(0, unit) } else { difference(value, unit) }
}

/// `3 parts, 11 hunks`
fn size(group: &PartGroup) -> String {
    let (parts, hunks) = (group.parts.len(), group.count_hunks());
    let parts = counted(parts, "part");
    if hunks == group.parts.len() { parts } else { format!("{parts}, {}", counted(hunks, "hunk")) }
}

/// `9 builds, 22 runs, 48 s`
fn effort(report: &ProofReport) -> String {
    let effort = &report.effort;
    format!(
        "{}, {}, {}",
        counted(effort.measured + effort.skipped, "build"),
        counted(effort.runs, "run"),
        shown(Duration::from_secs_f64(effort.seconds.max(0.0)))
    )
}

fn as_text(report: &ProofReport, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", one_line(&headline(report)))?;
    if let Some(answer) = no_difference(report) {
        writeln!(out, "{}", one_line(&answer))?;
    } else {
        let lines = lines(report);
        let widest =
            |of: fn(&Line) -> &str| lines.iter().map(|line| width(&one_line(of(line)))).max().unwrap_or(0);
        let [figures, places, whats] =
            [widest(|line| &line.figure), widest(|line| &line.place), widest(|line| &line.what)];
        for line in &lines {
            let padded = |text: &str, room: usize| {
                let text = one_line(text);
                format!("{text}{}", " ".repeat(room.saturating_sub(width(&text))))
            };
            let figure =
                format!("{}{}", " ".repeat(figures.saturating_sub(width(&line.figure))), line.figure);
            let what = if whats == 0 { String::new() } else { format!("  {}", padded(&line.what, whats)) };
            let begin = format!("   {figure}  {}{what}", padded(&line.place, places));
            let note = one_line(&line.note);
            // A narrow terminal gets the note on a line of its own.
            let is_narrow = options.width.is_some_and(|room| width(&begin) + 2 + width(&note) > room);
            if is_narrow {
                writeln!(out, "{}\n   {}  {note}", begin.trim_end(), " ".repeat(figures))?;
            } else {
                writeln!(out, "{begin}  {note}")?;
            }
        }
    }
    writeln!(out, "\n{}", effort(report))?;
    if report.out_of_builds {
        writeln!(out, "for more, raise --builds; what was built is kept")?;
    }
    report.replay.iter().try_for_each(|replay| writeln!(out, "{}: {}", replay.shows, one_line(&replay.line)))
}

fn as_markdown(report: &ProofReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "**{}**\n", escape_but_hashes(&headline(report)))?;
    if let Some(answer) = no_difference(report) {
        writeln!(out, "{}\n", escape_but_hashes(&answer))?;
    } else {
        writeln!(
            out,
            "| {} | part | | |\n| ---: | --- | --- | --- |",
            escape_but_hashes(&report.query.metric)
        )?;
        for line in lines(report) {
            let [figure, place, what, note] =
                [&line.figure, &line.place, &line.what, &line.note].map(|text| escape_but_hashes(text));
            writeln!(out, "| {figure} | {place} | {what} | {note} |")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}\n", effort(report))?;
    report.replay.iter().try_for_each(|replay| writeln!(out, "- {}: {}", replay.shows, code(&replay.line)))
}

fn as_json(report: &ProofReport, out: &mut dyn Write) -> io::Result<()> {
    let mut value = serde_json::to_value(report).map_err(io::Error::other)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("schema".to_owned(), json!("cargo-memprof-proof"));
    }
    serde_json::to_writer_pretty(&mut *out, &value).map_err(io::Error::other)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::quantity::Threshold;
    use memprof_run::bisect::metric_query::MetricQuery;
    use memprof_run::bisect::parts::proof::VERSION;
    use memprof_run::bisect::report_data::{NamedCommit, TotalEffort};

    fn place(path: &str, lines: Option<[usize; 2]>, what: Option<&str>) -> HunkPlace {
        HunkPlace { path: path.to_owned(), lines, what: what.map(str::to_owned) }
    }

    fn report() -> ProofReport {
        let end = |name: &str, commit: &str, value| {
            let mut end = NamedCommit { name: name.to_owned(), value: Some(value), ..NamedCommit::default() };
            end.facts.commit = commit.repeat(20);
            end
        };
        let part = |hunks: Vec<HunkPlace>, difference| ProvenPart {
            hunks,
            difference,
            reason: None,
            alone: None,
            needed_by: 0,
            shows_in: None,
            without: "ab".repeat(20),
        };
        let group = |count: usize, difference, reason: Option<&str>| PartGroup {
            parts: vec![vec![place("src/a.rs", None, None); 2]; count],
            difference,
            reason: reason.map(str::to_owned),
        };
        let text = place("src/builder.rs", Some([60, 74]), Some("Builder::cut_snippets"));
        let constant = place("src/config.rs", Some([12, 12]), Some("SNIPPET: 40 → 160"));
        let needed = place("src/lib.rs", Some([3, 4]), None);
        ProofReport {
            version: VERSION,
            tool: "0".into(),
            id: "run".into(),
            created: String::new(),
            test: "index::memory::stages".into(),
            title: "stages".into(),
            params: Vec::new(),
            query: MetricQuery { metric: "heap.peak".into(), checkpoint: Some("done".into()) },
            unit: Unit::Bytes,
            threshold: Threshold { percent: Some(1.0), bytes: Some(4096) },
            baseline: end("main", "29", 1 << 20),
            candidate: end("pr/7", "99", 10 << 20),
            result: SearchResult::Found,
            difference: 9 << 20,
            parts: vec![
                ProvenPart {
                    alone: Some(5 << 20),
                    ..part(vec![text, place("src/b.rs", None, None)], 4 << 20)
                },
                ProvenPart { shows_in: Some("Postings::push".into()), ..part(vec![constant], 3 << 20) },
                ProvenPart { reason: Some("the test fails".into()), ..part(vec![needed], 1 << 20) },
            ],
            rest: group(3, 0, None),
            open: vec![group(2, 2 << 20, Some("not told apart within --builds 12"))],
            together: -(1 << 20),
            out_of_builds: true,
            effort: TotalEffort { measured: 8, skipped: 1, built: 9, runs: 22, seconds: 48.0 },
            replay: Vec::new(),
        }
    }

    fn rendered(format: Format, report: &ProofReport, width: Option<usize>) -> String {
        let mut text = Vec::new();
        render(format, report, &Options { width, ..Options::default() }, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn each_part_is_a_line_and_the_figures_add_up() {
        assert_eq!(
            rendered(Format::Table, &report(), None),
            "heap.peak: +9.00 MiB at 'done' of index::memory::stages · main (2929292) → pr/7 (9999999)\n\n\
             \u{20}  +4.00 MiB  src/builder.rs:60-74 +1  Builder::cut_snippets  proven: without it -4.00 MiB; alone +5.00 MiB\n\
             \u{20}  +3.00 MiB  src/config.rs:12         SNIPPET: 40 → 160      proven: without it -3.00 MiB; shows in Postings::push (unchanged)\n\
             \u{20}  +1.00 MiB  src/lib.rs:3-4                                  cannot be left out: the test fails\n\
             \u{20}  +2.00 MiB  2 parts, 4 hunks                                could not be told apart: not told apart within --builds 12\n\
             \u{20}        0 B  3 parts, 6 hunks                                make no difference\n\
             \u{20}  -1.00 MiB  together                                        what they share\n\n\
             9 builds, 22 runs, 48.0 s\nfor more, raise --builds; what was built is kept\n"
        );
        let narrow = rendered(Format::Table, &report(), Some(70));
        assert!(narrow.contains("Builder::cut_snippets\n              proven: without it"), "{narrow}");
        let markdown = rendered(Format::Markdown, &report(), None);
        assert!(
            markdown.contains("| +3.00 MiB | src/config.rs:12 | SNIPPET: 40 → 160 | proven:"),
            "{markdown}"
        );
    }

    #[test]
    fn the_json_report_has_what_was_stored() {
        let mut value: Value = serde_json::from_str(&rendered(Format::Json, &report(), None)).unwrap();
        let fields = value.as_object_mut().unwrap();
        assert_eq!(fields.remove("schema"), Some(json!("cargo-memprof-proof")));
        assert_eq!(serde_json::from_value::<ProofReport>(value).unwrap(), report());
    }

    #[test]
    fn without_a_difference_there_are_no_parts() {
        let same = ProofReport { result: SearchResult::Same, parts: Vec::new(), ..report() };
        let text = rendered(Format::Table, &same, None);
        assert!(
            text.contains(
                "\nmain and pr/7 do not differ by more than 1 % and 4.00 KiB: 1.00 MiB → 10.0 MiB\n"
            ),
            "{text}"
        );
        assert!(!text.contains("together"), "{text}");
    }
}
