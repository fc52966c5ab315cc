//! Chooses the format of a proof. Markdown, JSON, SARIF and `JUnit` are here.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::code_results::{CodeResult, IMPROVED, PartProof, REGRESSED};
use crate::html;
use crate::junit;
use crate::markdown_text::{code, code_in_cell, escape, escape_but_hashes};
use crate::options::{Format, Options};
use crate::proof::csv;
use crate::proof::lines::{ProofLine, foot, headline, lines, no_difference};
use crate::proof::text;
use crate::sarif;
use memprof_run::bisect::parts::proof::ProofReport;
use memprof_run::bisect::parts::record::HunkPlace;
use memprof_run::bisect::report_data::SearchResult;

/// Writes the report in a format.
pub fn render(
    format: Format,
    report: &ProofReport,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Table => text::render(report, options, out),
        Format::Markdown => as_markdown(report, out),
        Format::Json => as_json(report, out),
        Format::Html => html::proof::render(report, out),
        Format::Csv => csv::render(report, out),
        Format::Sarif => as_sarif(report, out),
        Format::Junit => as_junit(report, out),
        // The command line refuses the other formats.
        _ => Err(io::Error::other("a proof has no report in this format")),
    }
}

fn as_markdown(report: &ProofReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "**{}**\n", escape_but_hashes(&headline(report)))?;
    match no_difference(report) {
        Some(answer) => writeln!(out, "{}\n", escape(&answer))?,
        None => writeln!(out, "{}", markdown_table(report))?,
    }
    foot(report).iter().try_for_each(|line| writeln!(out, "{}\n", escape(line)))?;
    report.replay.iter().try_for_each(|replay| writeln!(out, "- {}: {}", replay.shows, code(&replay.line)))
}

/// Returns the section of a comment on a comparison.
pub(crate) fn section_of_comment(report: &ProofReport) -> String {
    let title = escape_but_hashes(&headline(report));
    let body = no_difference(report).map_or_else(|| markdown_table(report), |answer| escape(&answer) + "\n");
    format!("\n**proven: {title}**\n\n{body}")
}

/// Returns the lines as a table.
fn markdown_table(report: &ProofReport) -> String {
    let mut table = format!("| {} | part | | |\n| ---: | --- | --- | --- |\n", escape(&report.query.metric));
    for line in lines(report) {
        let as_code = |text: &str| if text.is_empty() { String::new() } else { code_in_cell(text) };
        let place = if line.kind == "part" { as_code(&line.place) } else { escape(&line.place) };
        let below =
            line.below.iter().flat_map(|place| ["<br>".to_owned(), as_code(place)]).collect::<String>();
        let (figure, what, note) = (escape(&line.figure), as_code(&line.what), escape(&line.note));
        table.extend(["| ", &figure, " | ", &place, &below, " | ", &what, " | ", &note, " |\n"]);
    }
    table
}

fn as_json(report: &ProofReport, out: &mut dyn Write) -> io::Result<()> {
    let mut value = serde_json::to_value(report).map_err(io::Error::other)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("schema".to_owned(), json!("cargo-memprof-proof"));
    }
    serde_json::to_writer_pretty(&mut *out, &value).map_err(io::Error::other)?;
    writeln!(out)
}

/// A line in one sentence: `+3.82 MiB heap.peak of index: SNIPPET: 40 → 160; proven: without it -3.82 MiB`.
fn sentence(line: &ProofLine, report: &ProofReport) -> String {
    let what = if line.what.is_empty() { String::new() } else { format!("{}; ", line.what) };
    format!("{} {} of {}: {what}{}", line.figure, report.query.metric, report.title, line.note)
}

fn as_sarif(report: &ProofReport, out: &mut dyn Write) -> io::Result<()> {
    sarif::write_log(&report.tool, &code_results(report), out)
}

/// Returns a result for each part that makes a difference, at its hunk.
pub(crate) fn code_results(report: &ProofReport) -> Vec<CodeResult> {
    let of_parts = lines(report).into_iter().filter(|line| line.kind == "part");
    let results = of_parts.map(|line| {
        let rule = if line.difference < 0 { IMPROVED } else { REGRESSED };
        let first = line.hunks.first().map(|hunk| (hunk.path.as_str(), first_line(hunk)));
        let (path, first) = first.unwrap_or(("Cargo.toml", 1));
        let proof = Some(PartProof { is_proven: line.is_proven, difference: line.difference });
        let subject = format!("{} {} {}", report.title, report.query.metric, line.place);
        let text = sentence(&line, report);
        CodeResult { rule, text, subject, path: path.into(), line: first.max(1), proof }
    });
    results.collect()
}

fn first_line(hunk: &HunkPlace) -> u32 {
    hunk.lines.and_then(|[first, _]| u32::try_from(first).ok()).unwrap_or(1)
}

/// Writes one case. It fails if memory grew by more than the limit.
fn as_junit(report: &ProofReport, out: &mut dyn Write) -> io::Result<()> {
    let (class, name) = report.test.rsplit_once("::").unwrap_or(("", &report.test));
    let mut said = vec![headline(report)];
    said.extend(no_difference(report));
    if report.result == SearchResult::Found {
        let line = |line: &ProofLine| {
            [&line.figure, &line.place, &line.what, &line.note].map(String::as_str).join("  ")
        };
        said.extend(lines(report).iter().map(line));
    }
    said.extend(foot(report));
    let has_grown = report.result == SearchResult::Found && report.difference > 0;
    let case = junit::Case {
        class: class.to_owned(),
        name: name.to_owned(),
        seconds: report.effort.seconds,
        failures: if has_grown { vec![said.clone()] } else { Vec::new() },
        skipped: None,
        output: if has_grown { Vec::new() } else { said },
    };
    let suite = format!("{} → {}", report.baseline.name, report.candidate.name);
    junit::write_suites(&[(suite, vec![case])], out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::metric::Unit;
    use memprof_plan::quantity::Threshold;
    use memprof_run::bisect::metric_query::MetricQuery;
    use memprof_run::bisect::parts::proof::{PartGroup, ProvenPart, VERSION, WithoutAll};
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
            proven: true,
            without: "ab".repeat(20),
            with: "99".repeat(20),
            ..ProvenPart::default()
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
            limit: 10_486,
            baseline: end("main", "29", 1 << 20),
            candidate: end("pr/7", "99", 10 << 20),
            result: SearchResult::Found,
            difference: 9 << 20,
            varies: false,
            interval: None,
            parts: vec![
                ProvenPart {
                    alone: Some(5 << 20),
                    ..part(vec![text, place("src/b.rs", None, None)], 4 << 20)
                },
                ProvenPart { shows_in: Some("Postings::push".into()), ..part(vec![constant], 3 << 20) },
                ProvenPart {
                    reason: Some("the test fails".into()),
                    proven: false,
                    ..part(vec![needed], 1 << 20)
                },
            ],
            rest: group(3, 0, None),
            open: vec![group(2, 2 << 20, Some("not told apart within --builds 12"))],
            together: -(1 << 20),
            without_all: None,
            out_of_builds: true,
            checks: 31,
            unseparated: 0,
            effort: TotalEffort { measured: 8, forks: 0, skipped: 1, built: 9, runs: 22, seconds: 48.0 },
            replay: Vec::new(),
        }
    }

    fn rendered(format: Format, report: &ProofReport, width: Option<usize>) -> String {
        let mut text = Vec::new();
        let options = Options { width, is_on_terminal: width.is_some(), ..Options::default() };
        render(format, report, &options, &mut text).unwrap();
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
             \u{20}             src/a.rs +1\n\
             \u{20}             src/a.rs +1\n\
             \u{20}        0 B  3 parts, 6 hunks                                make no difference\n\
             \u{20}  -1.00 MiB  together                                        what they share\n\n\
             9 builds, 31 checks, 22 runs, 48.0 s\nfor more, raise --builds; what was built is kept\n"
        );
        let limited = rendered(Format::Table, &ProofReport { unseparated: 40, ..report() }, None);
        assert!(limited.contains("\n40 hunks stayed together"), "{limited}");
        let narrow = rendered(Format::Table, &report(), Some(70));
        assert!(narrow.contains("Builder::cut_snippets\n              proven: without it"), "{narrow}");
        let narrower = rendered(Format::Table, &report(), Some(50));
        assert!(
            narrower.lines().all(|line| line.chars().count() <= 50 || line.starts_with("heap")),
            "{narrower}"
        );
        let markdown = rendered(Format::Markdown, &report(), None);
        assert!(
            markdown.contains("| +3.00 MiB | `src/config.rs:12` | `SNIPPET: 40 → 160` | proven:"),
            "{markdown}"
        );
    }

    #[test]
    fn two_peaks_are_proven_by_leaving_out_both() {
        let alone = |name: &str| ProvenPart {
            hunks: vec![place(name, Some([4, 4]), None)],
            alone: Some(2 << 20),
            proven: false,
            ..ProvenPart::default()
        };
        let report = ProofReport {
            difference: 2 << 20,
            parts: vec![alone("a.rs"), alone("b.rs")],
            open: Vec::new(),
            together: 2 << 20,
            without_all: Some(WithoutAll {
                parts: 2,
                difference: 2 << 20,
                proven: true,
                ..WithoutAll::default()
            }),
            ..report()
        };
        let text = rendered(Format::Table, &report, None);
        assert!(text.contains("0 B  a.rs:4            without it no difference; alone +2.00 MiB"), "{text}");
        assert!(text.contains("+2.00 MiB  together          proven: without both -2.00 MiB"), "{text}");
    }

    #[test]
    fn a_figure_that_varies_has_bounds() {
        let mut report = ProofReport { varies: true, ..report() };
        report.parts[1].interval = Some([2 << 20, 4 << 20]);
        report.parts[0].proven = false;
        let text = rendered(Format::Table, &report, None);
        assert!(text.contains("proven: without it -3.00 MiB (-4.00 MiB to -2.00 MiB); shows"), "{text}");
        assert!(text.contains("without it -4.00 MiB, which is not certain"), "{text}");
        assert!(text.contains("heap.peak varies between runs; each figure is the median"), "{text}");
        let unclear = ProofReport { result: SearchResult::Unclear, interval: Some([-5, 9 << 20]), ..report };
        let text = rendered(Format::Table, &unclear, None);
        assert!(text.contains("Noise hides whether main and pr/7 differ by more than"), "{text}");
        assert!(text.contains("(-5 B to +9.00 MiB)"), "{text}");
    }

    #[test]
    fn every_format_says_what_is_proven() {
        let csv = rendered(Format::Csv, &report(), None);
        assert!(
            csv.contains("part,3145728,bytes,true,src/config.rs,12,12,SNIPPET: 40 → 160,proven: "),
            "{csv}"
        );
        assert!(csv.contains("part,1048576,bytes,false,src/lib.rs,3,4,,cannot be left out"), "{csv}");
        let sum: i64 =
            csv.lines().skip(1).map(|row| row.split(',').nth(1).unwrap().parse::<i64>().unwrap()).sum();
        assert_eq!(sum, 9 << 20);
        let page = rendered(Format::Html, &report(), None);
        assert!(page.contains("<b>proven: without it -3.00 MiB"), "{page}");
        let junit = rendered(Format::Junit, &report(), None);
        assert!(junit.contains("<testcase classname=\"index::memory\" name=\"stages\""), "{junit}");
        assert!(junit.contains("<failure message=\"heap.peak: +9.00 MiB at"), "{junit}");
        assert!(junit.contains("proven: without it -3.00 MiB"), "{junit}");
        let log: Value = serde_json::from_str(&rendered(Format::Sarif, &report(), None)).unwrap();
        let result = &log["runs"][0]["results"][1];
        assert_eq!(
            (&result["ruleId"], &result["properties"]["proven"]),
            (&json!("memory-regressed"), &json!(true))
        );
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "src/config.rs");
        assert_eq!(place["region"]["startLine"], 12);
        let json: Value = serde_json::from_str(&rendered(Format::Json, &report(), None)).unwrap();
        assert_eq!((&json["parts"][0]["proven"], &json["parts"][2]["proven"]), (&json!(true), &json!(false)));
    }

    #[test]
    fn nothing_in_a_cell_ends_the_table() {
        let mut report = report();
        report.parts[1].hunks[0].what = Some("A: a | b → `c` @me #1".to_owned());
        report.open[0].reason = Some("with only some of them: error | `x` <b> @me".to_owned());
        let markdown = rendered(Format::Markdown, &report, None);
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(
            markdown.lines().filter(|line| line.starts_with('|')).all(|line| cells(line) == 5),
            "{markdown}"
        );
        assert!(!markdown.contains("<b>") && !markdown.contains("some of them: error | "), "{markdown}");
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
