//! GitHub Actions: annotations of a run, and the step's summary.
//!
//! <https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands>

use std::io::{self, Write};

use camino::Utf8PathBuf;

use crate::compare::comparison::Comparison;
use crate::report;
use crate::report::options::{Format, Options};
use crate::report::summary::{AnswerLine, StatementKind, Tally};
use crate::support::redaction;

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
        report::render::render(Format::Markdown, comparison, options, &mut text)?;
        text.push(b'\n');
        fs_err::OpenOptions::new()
            .append(true)
            .create(true)
            .open(file)?
            .write_all(&redaction::of_process().bytes(&text))
    }
}

/// Returns the workflow commands that annotate the run: errors for regressions, warnings for
/// inconclusive rows, notices for expected changes.
pub fn annotations(comparison: &Comparison) -> Vec<String> {
    let mut tally = Tally::of_whole(comparison);
    for view in comparison.pairs() {
        tally.add(comparison, &view, &[]);
    }
    let command = |line: AnswerLine| {
        let (level, title) = match line.kind? {
            StatementKind::Regressed => ("error", "Memory regressed"),
            StatementKind::OverLimit => ("error", "Memory over its limit"),
            StatementKind::NotMeasured => ("error", "Memory not measured"),
            StatementKind::Inconclusive => ("warning", "Memory inconclusive"),
            StatementKind::Expected => ("notice", "Memory grew as expected"),
        };
        Some(format!("::{level} title={title}::{}", escape(&line.text)))
    };
    tally.lines(MOST_ANNOTATIONS).into_iter().filter_map(command).collect()
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
