//! SARIF 2.1.0, for editors and code scanning.
//!
//! <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::code_results::{self, CodeResult, RULES, Rule};
use crate::options::Options;
use memprof_judge::compare::comparison::Comparison;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Writes the log.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write_log(&comparison.tool, &code_results::of_all(comparison, options), out)
}

/// Writes a log with these results.
pub(crate) fn write_log(tool: &str, results: &[CodeResult], out: &mut dyn Write) -> io::Result<()> {
    let results: Vec<Value> = results.iter().map(result).collect();
    let rule = |rule: Rule| json!({"id": rule.id, "shortDescription": {"text": rule.text}});
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

fn result(result: &CodeResult) -> Value {
    let mut entry = json!({
        "ruleId": result.rule.id,
        "ruleIndex": RULES.iter().position(|rule| rule.id == result.rule.id),
        "level": result.rule.level,
        "message": {"text": result.text},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(result.path.as_str()), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": result.line},
        }}],
    });
    if let Some(proof) = &result.proof {
        entry["properties"] = json!({"proven": proof.is_proven, "difference": proof.difference});
    }
    entry
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
