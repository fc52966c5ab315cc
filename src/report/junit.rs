//! `JUnit` XML, which every CI shows as test results. Each test and candidate is a case, which
//! fails if a row regressed.

use std::io::{self, Write};

use crate::compare::aggregate::Aggregate;
use crate::compare::comparison::{Cell, Comparison, PairView};
use crate::plan::listing::NotMeasured;
use crate::plan::resolved::Revision;
use crate::report::summary::{AnswerLine, StatementKind, Tally};
use crate::report::titles;
use crate::report::troubles::{self, Trouble};
use crate::results::outcome::Status;
use crate::support::labels;

/// Writes the report. Inconclusive rows go into a case's output. They fail no case, because the
/// exit code reports them.
pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    let suites = suites(comparison);
    writeln!(
        out,
        "<testsuites name=\"cargo memprof\" {}>",
        counts(suites.iter().flat_map(|(_, cases)| cases))
    )?;
    for (name, cases) in &suites {
        writeln!(out, "  <testsuite name=\"{}\" {}>", escape(name), counts(cases))?;
        cases.iter().try_for_each(|case| case.write(out))?;
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

/// Returns the cases by candidate, or those of the only revision.
fn suites(comparison: &Comparison) -> Vec<(String, Vec<Case>)> {
    if let [only] = comparison.revisions.as_slice() {
        let cases = comparison.cells.iter().map(|cell| Case::alone(comparison, only, cell));
        return vec![(only.name.clone(), cases.chain(not_measured(comparison, &[0])).collect())];
    }
    let baseline = &comparison.revisions[comparison.baseline].name;
    let suite = |candidate: usize| {
        let name = format!("{baseline} → {}", comparison.revisions[candidate].name);
        let views = comparison.pairs().filter(|view| view.pair.candidate == candidate);
        let not_measured = not_measured(comparison, &[comparison.baseline, candidate]);
        (name, views.map(|view| Case::of_pair(comparison, &view)).chain(not_measured).collect())
    };
    comparison.candidates().map(suite).collect()
}

/// Returns the cases of executables that cannot be measured at one of these revisions.
fn not_measured(comparison: &Comparison, revisions: &[usize]) -> Vec<Case> {
    let of_these = comparison.not_measured.iter().filter(|(revision, _)| revisions.contains(revision));
    of_these.map(|(revision, one)| Case::not_measured(&comparison.revisions[*revision].name, one)).collect()
}

struct Case {
    class: String,
    name: String,
    seconds: f64,
    failures: Vec<String>,
    errors: Vec<String>,
    skipped: Option<String>,
    output: Vec<String>,
}

impl Case {
    /// A test at a candidate and at the baseline.
    fn of_pair(comparison: &Comparison, view: &PairView) -> Self {
        let mut tally = Tally::default();
        tally.add(comparison, view, &[]);
        let troubles = troubles::troubles(comparison, view);
        Self::new(comparison, view.cell, &[view.baseline, view.candidate], tally.lines(usize::MAX), &troubles)
    }

    /// A test of a single revision.
    fn alone(comparison: &Comparison, revision: &Revision, cell: &Cell) -> Self {
        let sides: Vec<&Aggregate> = cell.sides.iter().collect();
        let troubles =
            sides.iter().flat_map(|side| troubles::side_troubles(&comparison.runs, revision, side));
        let mut tally = Tally::default();
        if let Some(pair) = &cell.alone {
            tally.add_alone(comparison, &comparison.view(cell, pair));
        }
        Self::new(comparison, cell, &sides, tally.lines(usize::MAX), &troubles.collect::<Vec<_>>())
    }

    fn new(
        comparison: &Comparison,
        cell: &Cell,
        sides: &[&Aggregate],
        lines: Vec<AnswerLine>,
        troubles: &[Trouble],
    ) -> Self {
        let test = &cell.id.test;
        let (failures, output): (Vec<_>, Vec<_>) = lines
            .into_iter()
            .partition(|line| matches!(line.kind, Some(StatementKind::Regressed | StatementKind::OverLimit)));
        let runs = || sides.iter().flat_map(|side| side.runs.iter().chain(&side.failed));
        let nanoseconds: u64 =
            runs().filter_map(|&run| comparison.runs[run].record.outcome.wall_nanoseconds).sum();
        // A test that a side lacks or ignores is no failure.
        let is_absent = |run: &usize| {
            matches!(comparison.runs[*run].record.outcome.status, Status::NotInThisRef | Status::Ignored)
        };
        let skipped = runs().any(is_absent).then(|| troubles.first().map(|trouble| trouble.headline.clone()));
        let errors = troubles.iter().filter(|trouble| trouble.is_failure).map(|trouble| {
            std::iter::once(&trouble.headline).chain(&trouble.details).cloned().collect::<Vec<_>>().join("\n")
        });
        #[expect(clippy::cast_precision_loss, reason = "seconds are for reading")]
        let seconds = nanoseconds as f64 / 1e9;
        Self {
            class: format!("{}::{}", test.package, test.binary),
            name: titles::title_of(&cell.id),
            seconds,
            failures: failures.iter().map(ToString::to_string).collect(),
            errors: errors.collect(),
            skipped: skipped.flatten(),
            output: output.iter().map(ToString::to_string).collect(),
        }
    }

    /// Returns the case of an executable without figures.
    fn not_measured(revision: &str, executable: &NotMeasured) -> Self {
        Self {
            class: executable.to_string(),
            name: format!("not measured in {revision}"),
            seconds: 0.0,
            failures: Vec::new(),
            errors: vec![format!("not measured: {executable} in {revision}: {}", executable.reason)],
            skipped: None,
            output: Vec::new(),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (class, name) = (escape(&self.class), escape(&self.name));
        writeln!(out, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{:.3}\">", self.seconds)?;
        if let Some(reason) = &self.skipped {
            writeln!(out, "      <skipped message=\"{}\"/>", escape(reason))?;
        }
        for (element, texts) in [("failure", &self.failures), ("error", &self.errors)] {
            let Some(first) = texts.first().and_then(|text| text.lines().next()) else { continue };
            let all = escape(&texts.join("\n"));
            writeln!(out, "      <{element} message=\"{}\">{all}</{element}>", escape(first))?;
        }
        if !self.output.is_empty() {
            writeln!(out, "      <system-out>{}</system-out>", escape(&self.output.join("\n")))?;
        }
        writeln!(out, "    </testcase>")
    }
}

fn counts<'a>(cases: impl IntoIterator<Item = &'a Case>) -> String {
    let (mut tests, mut failures, mut errors, mut skipped) = (0, 0, 0, 0);
    for case in cases {
        tests += 1;
        failures += usize::from(!case.failures.is_empty());
        errors += usize::from(!case.errors.is_empty());
        skipped += usize::from(case.skipped.is_some());
    }
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"")
}

/// Escapes text for XML 1.0 elements and attributes. Replaces characters that XML does not allow,
/// and those that do not show.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in labels::lines(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_break_the_document() {
        assert_eq!(escape("a<b> \"c\" & d\u{1b}[31m\ne"), "a&lt;b&gt; &quot;c&quot; &amp; d␛[31m&#10;e");
        // The characters that XML 1.0 forbids, and those that it discourages.
        let forbidden =
            ('\0'..='\u{9f}').filter(|character| character.is_control()).chain(['\u{fffe}', '\u{ffff}']);
        let is_harmless =
            |character: char| !character.is_control() && !('\u{fffe}'..='\u{ffff}').contains(&character);
        assert!(escape(&forbidden.collect::<String>()).chars().all(is_harmless));
        assert_eq!(escape("a\u{200b}"), "a&lt;U+200B&gt;");
    }
}
