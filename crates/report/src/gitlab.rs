//! GitLab's code quality report, which a merge request shows beside the lines of its diff.
//!
//! <https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format>

use std::io::{self, Write};

use hmac_sha256::Hash as Sha256;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::code_results::{self, CodeResult};
use crate::options::Options;
use memprof_judge::compare::comparison::Comparison;
use memprof_support::hexadecimal::hexadecimal;

/// Writes the report.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut seen: FxHashMap<String, u32> = FxHashMap::default();
    let results = code_results::of_all(comparison, options);
    let entries: Vec<Value> = results.iter().map(|result| entry(result, &mut seen)).collect();
    serde_json::to_writer_pretty(&mut *out, &entries)?;
    writeln!(out)
}

/// Returns an entry. GitLab compares fingerprints between branches: they have neither lines nor figures, and
/// the number of earlier entries that are equal apart from them.
fn entry(result: &CodeResult, seen: &mut FxHashMap<String, u32>) -> Value {
    let CodeResult { rule, text, subject, path, line, .. } = result;
    let identity = format!("{}\n{path}\n{subject}", rule.id);
    let before = seen.entry(identity.clone()).or_default();
    let digest = Sha256::hash(format!("{identity}\n{before}").as_bytes());
    let fingerprint = hexadecimal(&digest[..16]);
    *before += 1;
    json!({
        "description": text,
        "check_name": rule.id,
        "fingerprint": fingerprint,
        "severity": rule.severity,
        "location": {"path": path, "lines": {"begin": line}},
    })
}
