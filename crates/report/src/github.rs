//! GitHub Actions: annotations of a run, and the step's summary.
//!
//! <https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands>

use std::cmp::Reverse;
use std::io::{self, Write};

use camino::{Utf8Path, Utf8PathBuf};
use indexmap::IndexMap;

use crate::answer::Answer;
use crate::causes::entry::{Entry, Notice};
use crate::causes::sheet::CauseSheet;
use crate::finding::Finding;
use crate::options::{Format, Options};
use crate::single::Single;
use crate::source_path::{from_root, inside};
use crate::titles;
use crate::troubles::{self, MOST_NAMES, Trouble};
use crate::unpaired_limits::UnpairedLimit;
use crate::why::limits;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::standing::Standing;
use memprof_support::counted::some;
use memprof_support::labels;
use memprof_support::redaction;

/// GitHub shows ten annotations of a kind in a step.
const MOST_ANNOTATIONS: usize = 10;

/// Whether this process runs in GitHub Actions, and the file for the step's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Whether to write annotations.
    pub annotates: bool,
    /// The file to append the summary to.
    pub summary: Option<Utf8PathBuf>,
}

impl Actions {
    /// Reads the environment.
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let annotates = variable("GITHUB_ACTIONS").as_deref() == Some("true");
        let summary = variable("GITHUB_STEP_SUMMARY").filter(|_| annotates);
        Self { annotates, summary: summary.map(Utf8PathBuf::from) }
    }

    /// Appends the comparison to the step's summary, which may have other contents already.
    pub fn summarize(&self, comparison: &Comparison, options: &Options) -> io::Result<()> {
        let Some(file) = &self.summary else { return Ok(()) };
        let mut text = Vec::new();
        crate::render::render(Format::Markdown, comparison, options, &mut text)?;
        text.push(b'\n');
        fs_err::OpenOptions::new()
            .append(true)
            .create(true)
            .open(file)?
            .write_all(&redaction::of_process().bytes(&text))
    }
}

/// Returns the workflow commands that annotate the run: one per cause, at its line in the diff, and one per
/// test without a cause. Regressions, failures and unchecked rules are errors, inconclusive tests warnings, and expected
/// changes notices.
pub fn annotations(comparison: &Comparison, options: &Options) -> Vec<String> {
    let causes = CauseSheet::new(comparison, options);
    let whole = troubles::not_measured(comparison).into_iter().map(|trouble| {
        let lines: Vec<String> = std::iter::once(trouble.headline).chain(trouble.details).collect();
        format!("::error title=Memory not measured::{}", escape(&lines.join("\n")))
    });
    let mut commands: Vec<String> = whole.take(MOST_ANNOTATIONS).collect();
    let unchecked = comparison.unchecked_notes.iter().take(MOST_ANNOTATIONS);
    commands.extend(unchecked.map(|note| format!("::error title=Memory not checked::{}", escape(note))));
    let unpaired = UnpairedLimit::all(comparison).into_iter().take(MOST_ANNOTATIONS);
    commands.extend(
        unpaired.map(|limit| format!("::error title=Memory over its limit::{}", escape(&limit.words()))),
    );
    let alone = comparison.cells.iter().filter_map(|cell| Finding::alone(comparison, cell));
    let mut alone: Vec<Finding<'_>> = alone.collect();
    alone.sort_by_key(Finding::order);
    for of_one in alone.chunk_by(|one, next| one.standing == next.standing) {
        let of_one = of_one.iter().take(MOST_ANNOTATIONS);
        commands.extend(of_one.filter_map(|finding| annotation(comparison, &causes, finding, options, "")));
    }
    commands.extend(of_tests_alone(comparison).take(MOST_ANNOTATIONS));
    for answer in Answer::of_all(comparison) {
        let of = if comparison.revisions.len() > 2 {
            format!(" in {}", labels::one_line(&comparison.revisions[answer.candidate].name))
        } else {
            String::new()
        };
        let troubles = answer.troubles();
        let troubles = troubles.iter().take(MOST_ANNOTATIONS);
        commands.extend(troubles.map(|(trouble, tests)| of_trouble("Memory not compared", trouble, tests)));
        let entries = causes
            .causes_of(answer.candidate)
            .filter_map(|entry| of_cause(&entry, &of))
            .take(MOST_ANNOTATIONS);
        commands.extend(entries);
        let others: Vec<&Finding> = answer.findings.iter().filter(|finding| !causes.says(finding)).collect();
        for of_one in others.chunk_by(|a, b| a.standing == b.standing) {
            let annotate = |finding: &&Finding| annotation(comparison, &causes, finding, options, &of);
            commands.extend(of_one.iter().take(MOST_ANNOTATIONS).filter_map(annotate));
        }
    }
    commands
}

/// Returns the annotations of what went wrong with the tests of a single revision.
fn of_tests_alone(comparison: &Comparison) -> impl Iterator<Item = String> {
    let mut tests: IndexMap<(&str, Trouble), Vec<String>> = IndexMap::new();
    if let [revision] = &comparison.revisions[..] {
        for (cell, side) in (Single { comparison, revision }).sides() {
            let title = if side.is_over_limit { "Memory over its limit" } else { "Memory not measured" };
            let troubles = troubles::side_troubles(comparison, revision, side);
            for trouble in troubles.into_iter().filter(|trouble| trouble.is_failure) {
                // They say what is compared, which is nothing here.
                let trouble = Trouble { figures: None, ..trouble };
                tests.entry((title, trouble)).or_default().push(titles::distinct_title(cell));
            }
        }
    }
    tests.sort_by_key(|_, tests| Reverse(tests.len()));
    tests.into_iter().map(|((title, trouble), tests)| of_trouble(title, &trouble, &tests))
}

/// Returns the annotation of what went wrong, with the tests that have it.
fn of_trouble(title: &str, trouble: &Trouble, tests: &[String]) -> String {
    let text = format!("{}: {}", trouble.headline, some(tests, MOST_NAMES));
    let text = std::iter::once(text).chain(trouble.details.iter().cloned()).collect::<Vec<_>>();
    format!("::error title={title}::{}", escape(&text.join("\n")))
}

/// Returns the annotation of a cause, at its line; `None` for what a reviewer need not look at.
fn of_cause(entry: &Entry<'_>, of: &str) -> Option<String> {
    let (level, title) = match entry.notice {
        Notice::Regressed => ("error", "Memory regressed"),
        Notice::OverLimit => ("error", "Memory over its limit"),
        Notice::Expected => ("notice", "Memory grew as expected"),
        Notice::Improved => return None,
    };
    let place = entry.cause.location().and_then(|(path, line)| Some(property(inside(path)?, line)));
    let [what, most] = entry.sentences().map(|sentence| sentence.replace("  ", " "));
    let about = [&entry.place, entry.function_beside_place(), &entry.words];
    let about: Vec<&str> = about.into_iter().filter(|part| !part.is_empty()).collect();
    let text = format!("{what}{of} · {}: {most}", about.join(" "));
    Some(format!("::{level} {}title={title}::{}", place.unwrap_or_default(), escape(&text)))
}

fn annotation(
    comparison: &Comparison,
    causes: &CauseSheet<'_>,
    finding: &Finding,
    options: &Options,
    of: &str,
) -> Option<String> {
    let (level, title) = match finding.standing {
        Standing::Regressed => ("error", "Memory regressed"),
        Standing::OverLimit => ("error", "Memory over its limit"),
        Standing::Inconclusive => ("warning", "Memory inconclusive"),
        Standing::Expected => ("notice", "Memory grew as expected"),
        // A comma would end the title.
        Standing::ExpectedOverLimit => ("notice", "Memory over its limit as expected"),
        Standing::MaybeExpected => ("notice", "Memory may have grown as expected"),
        _ => return None,
    };
    let place = finding.source.as_deref().and_then(|source| place(comparison, source));
    let of_limit = || limits::place(&finding.view, options).map(|(path, line)| property(&path, line));
    let place = place.or_else(of_limit).unwrap_or_default();
    let text = format!("{}{of}: {}", finding.test(), finding.sentence());
    let text = std::iter::once(text).chain(causes.limits_of(&finding.view, options)).collect::<Vec<_>>();
    let text = text.join("\n");
    Some(format!("::{level} {place}title={title}::{}", escape(&text)))
}

/// Returns `file=src/lib.rs,line=10,`, with the path from the repository's root. GitHub shows the
/// annotation there. `None` for a file of another crate.
fn place(comparison: &Comparison, source: &str) -> Option<String> {
    let (file, line) = source.rsplit_once(':')?;
    Some(property(&from_root(comparison, file)?, line.parse().ok()?))
}

fn property(file: &Utf8Path, line: u32) -> String {
    format!("file={},line={line},", escape_property(file.as_str()))
}

/// Escapes what would end a property.
fn escape_property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}

/// Escapes line ends, which would end the command.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_is_escaped() {
        assert_eq!(escape("+5 % at 'a\nb'"), "+5 %25 at 'a%0Ab'");
    }
}
