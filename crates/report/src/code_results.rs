//! What a comparison says about lines of code: a result for each cause, at its line in the diff, and for
//! each changed test without one, at its checkpoint. SARIF and GitLab's code quality write the same results.

use camino::Utf8PathBuf;

use crate::answer::Answer;
use crate::causes::entry::{Entry, Notice};
use crate::causes::sheet::CauseSheet;
use crate::finding::Finding;
use crate::options::Options;
use crate::proof;
use crate::source_path::{from_root, inside};
use crate::unpaired_limits::UnpairedLimit;
use crate::why::limits;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::standing::Standing;

/// A kind of result, and how severe each format calls it.
pub(crate) struct Rule {
    pub(crate) id: &'static str,
    /// What a result says.
    pub(crate) text: &'static str,
    /// `level` of SARIF.
    pub(crate) level: &'static str,
    /// `severity` of GitLab: `info`, `minor`, `major`, `critical`, `blocker`.
    pub(crate) severity: &'static str,
}

pub(crate) const REGRESSED: Rule = Rule {
    id: "memory-regressed",
    text: "Memory grew by more than its limit",
    level: "error",
    severity: "major",
};
pub(crate) const IMPROVED: Rule = Rule {
    id: "memory-improved",
    text: "Memory shrank by more than its limit",
    level: "note",
    severity: "info",
};
const EXPECTED: Rule = Rule {
    id: "memory-expected",
    text: "Memory grew, may have grown, or exceeds its limit, as expected",
    level: "note",
    severity: "info",
};
const OVER_LIMIT: Rule =
    Rule { id: "memory-over-limit", text: "Memory exceeds its limit", level: "error", severity: "critical" };
const INCONCLUSIVE: Rule = Rule {
    id: "memory-inconclusive",
    text: "Too much noise for a verdict about memory",
    level: "warning",
    severity: "minor",
};

/// All rules.
pub(crate) const RULES: [Rule; 5] = [REGRESSED, IMPROVED, EXPECTED, OVER_LIMIT, INCONCLUSIVE];

/// What is said about one line.
pub(crate) struct CodeResult {
    pub(crate) rule: Rule,
    pub(crate) text: String,
    /// The function or the test, without figures and lines: the same in later comparisons.
    pub(crate) subject: String,
    pub(crate) path: Utf8PathBuf,
    /// From 1.
    pub(crate) line: u32,
    /// What a proof says about a part of the diff.
    pub(crate) proof: Option<PartProof>,
}

/// What a part of the diff costs, and whether that is proven.
pub(crate) struct PartProof {
    pub(crate) is_proven: bool,
    pub(crate) difference: i128,
}

/// Returns all results. Tests that failed, or were not compared, have no place in the code; other formats
/// report them.
pub(crate) fn of_all(comparison: &Comparison, options: &Options) -> Vec<CodeResult> {
    let causes = CauseSheet::new(comparison, options);
    let mut results: Vec<CodeResult> = Vec::new();
    for answer in Answer::of_all(comparison) {
        results.extend(causes.causes_of(answer.candidate).map(|entry| of_cause(comparison, &entry)));
        let others = answer.findings.iter().filter(|finding| !causes.says(finding));
        results.extend(others.filter_map(|finding| of_finding(comparison, &causes, finding, options)));
    }
    let alone = comparison.cells.iter().filter_map(|cell| Finding::alone(comparison, cell));
    results.extend(alone.filter_map(|finding| of_finding(comparison, &causes, &finding, options)));
    let unpaired = UnpairedLimit::all(comparison);
    results.extend(unpaired.iter().map(|limit| of_unpaired(comparison, limit)));
    results.extend(options.proof.iter().flat_map(|proof| proof::code_results(proof)));
    results
}

fn of_cause(comparison: &Comparison, entry: &Entry<'_>) -> CodeResult {
    let rule = match entry.notice {
        Notice::Regressed => REGRESSED,
        Notice::OverLimit => OVER_LIMIT,
        Notice::Expected => EXPECTED,
        Notice::Improved => IMPROVED,
    };
    let [what, most] = entry.sentences().map(|sentence| sentence.replace("  ", " "));
    let about = [&entry.function, &entry.words].map(String::as_str).join(", ");
    let text = format!("{what} · {}: {most}", about.trim_end_matches(", "));
    let place = entry.cause.location().and_then(|(path, line)| Some((inside(path)?.to_owned(), line)));
    CodeResult::new(comparison, rule, text, entry.function.clone(), place)
}

fn of_finding(
    comparison: &Comparison,
    causes: &CauseSheet<'_>,
    finding: &Finding<'_>,
    options: &Options,
) -> Option<CodeResult> {
    let rule = match finding.standing {
        Standing::Regressed => REGRESSED,
        Standing::Improved => IMPROVED,
        Standing::Expected | Standing::ExpectedOverLimit | Standing::MaybeExpected => EXPECTED,
        Standing::OverLimit => OVER_LIMIT,
        Standing::Inconclusive => INCONCLUSIVE,
        _ => return None,
    };
    let place = finding.source.as_deref().and_then(|source| source.rsplit_once(':'));
    let place = place.and_then(|(path, line)| Some((from_root(comparison, path)?, line.parse().ok()?)));
    let place = place.or_else(|| limits::place(&finding.view, options));
    let text = format!("{}: {}", finding.test(), finding.sentence());
    let text = std::iter::once(text).chain(causes.limits_of(&finding.view, options)).collect::<Vec<_>>();
    let subject = format!("{} {}", finding.test(), finding.metric);
    Some(CodeResult::new(comparison, rule, text.join("; "), subject, place))
}

fn of_unpaired(comparison: &Comparison, limit: &UnpairedLimit<'_>) -> CodeResult {
    let subject = format!("{} {}", limit.test().title, limit.metric());
    CodeResult::new(comparison, OVER_LIMIT, limit.words(), subject, None)
}

impl CodeResult {
    fn new(
        comparison: &Comparison,
        rule: Rule,
        text: String,
        subject: String,
        place: Option<(Utf8PathBuf, u32)>,
    ) -> Self {
        // GitHub refuses a file with a result that has no place. The workspace's manifest is always there.
        let (path, line) = place.unwrap_or_else(|| (comparison.workspace.join("Cargo.toml"), 1));
        Self { rule, text, subject, path, line: line.max(1), proof: None }
    }
}
