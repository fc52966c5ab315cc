//! SARIF 2.1.0, for editors and code scanning: a result for each cause, at its line in the diff, and for
//! each changed test without one, at its checkpoint.
//!
//! <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>

use std::fmt::Write as _;
use std::io::{self, Write};

use camino::Utf8PathBuf;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::causes::entry::{Entry, Notice};
use crate::causes::sheet::CauseSheet;
use crate::finding::Finding;
use crate::options::Options;
use crate::proof;
use crate::source_path::{from_root, inside};
use crate::why::limits;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::standing::Standing;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The rules: their ids, and what a result of each says.
const RULES: [(&str, &str); 5] = [
    ("memory-regressed", "Memory grew by more than its limit"),
    ("memory-improved", "Memory shrank by more than its limit"),
    ("memory-expected", "Memory grew as expected"),
    ("memory-over-limit", "Memory exceeds its limit"),
    ("memory-inconclusive", "Too much noise for a verdict about memory"),
];

/// Writes the log. Tests that failed, or were not compared, have no place in the code; other formats
/// report them.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let causes = CauseSheet::new(comparison, options);
    let mut results: Vec<Value> = Vec::new();
    for answer in Answer::of_all(comparison) {
        results.extend(causes.causes_of(answer.candidate).map(|entry| of_cause(comparison, &entry)));
        let others = answer.findings.iter().filter(|finding| !causes.says(finding));
        results.extend(others.filter_map(|finding| of_finding(comparison, &causes, finding, options)));
    }
    let alone = comparison.cells.iter().filter_map(|cell| Finding::alone(comparison, cell));
    results.extend(alone.filter_map(|finding| of_finding(comparison, &causes, &finding, options)));
    results.extend(options.proof.iter().flat_map(|proof| proof::sarif_results(proof)));
    write_log(&comparison.tool, &results, out)
}

/// Writes a log with these results.
pub(crate) fn write_log(tool: &str, results: &[Value], out: &mut dyn Write) -> io::Result<()> {
    let rule = |(id, text): (&str, &str)| json!({"id": id, "shortDescription": {"text": text}});
    let driver = json!({
        "name": "cargo-memprof",
        "version": tool,
        "rules": RULES.map(rule),
    });
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn of_cause(comparison: &Comparison, entry: &Entry<'_>) -> Value {
    let rule = match entry.notice {
        Notice::Regressed => "memory-regressed",
        Notice::OverLimit => "memory-over-limit",
        Notice::Expected => "memory-expected",
        Notice::Improved => "memory-improved",
    };
    let [what, most] = entry.sentences().map(|sentence| sentence.replace("  ", " "));
    let about = [&entry.function, &entry.words].map(String::as_str).join(", ");
    let text = format!("{what} · {}: {most}", about.trim_end_matches(", "));
    let place = entry.cause.location().and_then(|(path, line)| Some((inside(path)?.to_owned(), line)));
    result(comparison, rule, &text, place)
}

fn of_finding(
    comparison: &Comparison,
    causes: &CauseSheet<'_>,
    finding: &Finding<'_>,
    options: &Options,
) -> Option<Value> {
    let rule = match finding.standing {
        Standing::Regressed => "memory-regressed",
        Standing::Improved => "memory-improved",
        Standing::Expected => "memory-expected",
        Standing::OverLimit => "memory-over-limit",
        Standing::Inconclusive => "memory-inconclusive",
        _ => return None,
    };
    let place = finding.source.as_deref().and_then(|source| source.rsplit_once(':'));
    let place = place.and_then(|(path, line)| Some((from_root(comparison, path)?, line.parse().ok()?)));
    let place = place.or_else(|| limits::place(&finding.view, options));
    let text = format!("{}: {}", finding.test(), finding.sentence());
    let text = std::iter::once(text).chain(causes.limits_of(&finding.view, options)).collect::<Vec<_>>();
    Some(result(comparison, rule, &text.join("; "), place))
}

fn result(comparison: &Comparison, rule: &str, text: &str, place: Option<(Utf8PathBuf, u32)>) -> Value {
    // GitHub refuses a file with a result that has no place. The workspace's manifest is always there.
    let (path, line) = place.unwrap_or_else(|| (comparison.workspace.join("Cargo.toml"), 1));
    result_at(rule, text, path.as_str(), line)
}

/// Returns a result at a line of a file, whose path begins at the repository's root.
pub(crate) fn result_at(rule: &str, text: &str, path: &str, line: u32) -> Value {
    let level = match rule {
        "memory-regressed" | "memory-over-limit" => "error",
        "memory-inconclusive" => "warning",
        _ => "note",
    };
    let index = RULES.iter().position(|(id, _)| *id == rule);
    json!({
        "ruleId": rule,
        "ruleIndex": index,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(path), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": line.max(1)},
        }}],
    })
}

/// Returns a path as a relative URI.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(byte.into());
            }
            byte => _ = write!(uri, "%{byte:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_uri() {
        assert_eq!(uri("src/a b#é.rs"), "src/a%20b%23%C3%A9.rs");
    }
}
