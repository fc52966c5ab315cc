//! GitHub Actions: annotations at the top of a run, and the step's summary.
//!
//! <https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands>

use std::io::{self, Write};

use camino::Utf8PathBuf;

use crate::compare::comparison::Comparison;
use crate::report;
use crate::report::options::{Format, Options};
use crate::report::summary::Tally;
use crate::verdict::kinds::Verdict;

/// GitHub shows ten of a kind in a step.
const MOST_ANNOTATIONS: usize = 10;

/// Whether this runs in Actions, and where the step's summary goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Whether annotations are understood.
    pub annotates: bool,
    /// The file that the summary is added to.
    pub summary: Option<Utf8PathBuf>,
}

impl Actions {
    /// From the environment.
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let annotates = variable("GITHUB_ACTIONS").as_deref() == Some("true");
        let summary = variable("GITHUB_STEP_SUMMARY").filter(|_| annotates);
        Self { annotates, summary: summary.map(Utf8PathBuf::from) }
    }

    /// Adds the comparison to the step's summary; other steps and calls may have written to it already.
    pub fn summarize(&self, comparison: &Comparison, options: &Options) -> io::Result<()> {
        let Some(file) = &self.summary else { return Ok(()) };
        let mut text = Vec::new();
        report::render::render(Format::Markdown, comparison, options, &mut text)?;
        text.push(b'\n');
        fs_err::OpenOptions::new().append(true).create(true).open(file)?.write_all(&text)
    }
}

/// The workflow commands that annotate the run: an error for what regressed, a warning for what the runs do not tell.
pub fn annotations(comparison: &Comparison) -> Vec<String> {
    let mut tally = Tally::default();
    for view in comparison.pairs() {
        tally.add(comparison, &view, &[]);
    }
    let command = |(verdict, line): (Option<Verdict>, String)| {
        let (word, text) = line.split_once(": ")?;
        let (kind, title) = match (verdict?, word) {
            (_, "expected") => ("notice", "Memory grew as expected"),
            (Verdict::Regressed, "regressed") => ("error", "Memory regressed"),
            (Verdict::Regressed, _) => ("error", "Memory over its limit"),
            (Verdict::Inconclusive, _) => ("warning", "Memory not to be told"),
            _ => return None,
        };
        Some(format!("::{kind} title={title}::{}", escape(text)))
    };
    tally.lines(MOST_ANNOTATIONS).into_iter().filter_map(command).collect()
}

/// A command ends with its line.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_is_not_taken_for_an_escape() {
        assert_eq!(escape("+5 % at 'a\nb'"), "+5 %25 at 'a%0Ab'");
    }
}
