//! `JUnit` XML, which every CI shows as test results. Each test and candidate is a case, which
//! fails if a row regressed.

use std::io::{self, Write};

use crate::causes::sheet::CauseSheet;
use crate::finding::Finding;
use crate::options::Options;
use crate::text;
use crate::titles;
use crate::troubles::{self, Trouble};
use crate::unpaired_limits::UnpairedLimit;
use crate::why::limits;
use memprof_judge::compare::aggregate::Aggregate;
use memprof_judge::compare::comparison::{Cell, Comparison, PairView, Ruling};
use memprof_judge::compare::standing::Standing;
use memprof_judge::results::outcome::Status;
use memprof_judge::results::same_code::SameCode;
use memprof_plan::listing::NotMeasured;
use memprof_plan::resolved::Revision;
use memprof_support::labels;

/// A failure lists at most this many rows.
const MOST_LINES: usize = 40;

/// Writes the report. A test that failed, or that could not be compared, is a failure. Inconclusive rows go into a case's output. They fail no case, because the
/// exit code reports them.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write_suites(&suites(comparison, &CauseSheet::new(comparison, options), options), out)
}

/// Writes suites of cases, each with its name.
pub(crate) fn write_suites(suites: &[(String, Vec<Case>)], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites name=\"cargo memprof\" {}>",
        counts(suites.iter().flat_map(|(_, cases)| cases))
    )?;
    for (name, cases) in suites {
        writeln!(out, "  <testsuite name=\"{}\" {}>", escape(name), counts(cases))?;
        cases.iter().try_for_each(|case| case.write(out))?;
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

/// Returns the cases of the tests, and those of rules that nothing was checked against.
fn suites(comparison: &Comparison, sheet: &CauseSheet<'_>, options: &Options) -> Vec<(String, Vec<Case>)> {
    let unchecked: Vec<Case> = comparison.unchecked_notes.iter().map(|note| Case::unchecked(note)).collect();
    let of_rules = (!unchecked.is_empty()).then(|| ("rules".to_owned(), unchecked));
    suites_of_tests(comparison, sheet, options).into_iter().chain(of_rules).collect()
}

/// Returns the cases by candidate, or those of the only revision.
fn suites_of_tests(
    comparison: &Comparison,
    sheet: &CauseSheet<'_>,
    options: &Options,
) -> Vec<(String, Vec<Case>)> {
    if let [only] = comparison.revisions.as_slice() {
        let cases = comparison.cells.iter().map(|cell| Case::alone(comparison, options, only, cell));
        let cases = cases.chain(not_measured(comparison, &[0])).chain(failed_builds(comparison));
        return vec![(only.name.clone(), cases.collect())];
    }
    let baseline = &comparison.revisions[comparison.baseline].name;
    let suite = |candidate: usize| {
        let name = format!("{baseline} → {}", comparison.revisions[candidate].name);
        let views = comparison.pairs().filter(|view| view.pair.candidate == candidate);
        let not_measured = not_measured(comparison, &[comparison.baseline, candidate]);
        let cases = views.map(|view| Case::of_pair(comparison, sheet, options, view)).chain(not_measured);
        let cases = cases.chain(same_code(comparison)).chain(over_unpaired_limits(comparison));
        (name, cases.chain(failed_builds(comparison)).collect())
    };
    comparison.candidates().map(suite).collect()
}

/// Returns one case for all tests that did not run because their code is the same.
fn same_code(comparison: &Comparison) -> Option<Case> {
    let words = SameCode::words(&comparison.same_code)?;
    let skipped = Some("not run: the code is the same at all refs (--run-all runs them)".to_owned());
    Some(Case {
        class: "same code".to_owned(),
        name: words,
        seconds: 0.0,
        failures: Vec::new(),
        skipped,
        output: Vec::new(),
    })
}

/// Returns the cases of executables that cannot be measured at one of these revisions.
fn not_measured(comparison: &Comparison, revisions: &[usize]) -> Vec<Case> {
    let of_these = comparison.not_measured.iter().filter(|(revision, _)| revisions.contains(revision));
    of_these.map(|(revision, one)| Case::not_measured(&comparison.revisions[*revision].name, one)).collect()
}

/// Returns a case for each failed build, if no test shows it.
fn failed_builds(comparison: &Comparison) -> impl Iterator<Item = Case> + '_ {
    let builds = troubles::not_measured(comparison).into_iter().filter(|trouble| !trouble.details.is_empty());
    builds.map(|trouble| Case {
        class: "build".to_owned(),
        name: trouble.headline.clone(),
        seconds: 0.0,
        failures: vec![std::iter::once(trouble.headline).chain(trouble.details).collect()],
        skipped: None,
        output: Vec::new(),
    })
}

/// Returns a case for each test over a limit that is no candidate of a pair.
fn over_unpaired_limits(comparison: &Comparison) -> Vec<Case> {
    let limits = UnpairedLimit::all(comparison);
    let of_test = |limits: &[UnpairedLimit<'_>]| Case {
        class: titles::target_of(limits[0].test()),
        name: titles::title_of(limits[0].test()),
        seconds: 0.0,
        failures: limits.iter().map(|limit| vec![limit.words()]).collect(),
        skipped: None,
        output: Vec::new(),
    };
    limits.chunk_by(|a, b| a.test() == b.test()).map(of_test).collect()
}

/// A test, and what became of it.
pub(crate) struct Case {
    /// `package::binary`
    pub class: String,
    pub name: String,
    pub seconds: f64,
    /// By cause: a headline and further lines.
    pub failures: Vec<Vec<String>>,
    pub skipped: Option<String>,
    pub output: Vec<String>,
}

impl Case {
    /// A test at a candidate and at the baseline.
    fn of_pair(comparison: &Comparison, causes: &CauseSheet<'_>, options: &Options, view: PairView) -> Self {
        let troubles = troubles::troubles(comparison, &view);
        let standing = Standing::for_pair(comparison, &view);
        let finding = Finding::for_pair(comparison, view, standing);
        let mut case = Self::new(comparison, view.cell, &[view.baseline, view.candidate], &troubles);
        match standing {
            Standing::Regressed => {
                let all = rows_of(comparison, &view, &|ruling| ruling.counts());
                let said = causes.words_of(&view).into_iter().map(|words| format!("cause: {words}"));
                let lines = std::iter::once(format!("regressed: {}", finding.sentence())).chain(said);
                case.failures.push(lines.chain(all).collect());
            }
            Standing::OverLimit => {
                case.failures.push(vec![format!("over its limit: {}", finding.sentence())]);
            }
            Standing::NotCompared if case.failures.is_empty() => {
                case.failures.push(vec!["not compared: no figure may be compared".to_owned()]);
            }
            Standing::Inconclusive => case.output.push(format!("inconclusive: {}", finding.sentence())),
            Standing::Expected => case.output.push(format!("grew as expected: {}", finding.sentence())),
            Standing::ExpectedOverLimit => {
                case.output.push(format!("over its limit, as expected: {}", finding.sentence()));
            }
            Standing::MaybeExpected => {
                case.output.push(format!("may have grown, as expected: {}", finding.sentence()));
            }
            Standing::MaybeImproved => case.output.push(format!("may have shrunk: {}", finding.sentence())),
            Standing::Improved => {
                case.output.push(format!("improved: {}", finding.sentence()));
                case.output.extend(causes.words_of(&view).into_iter().map(|words| format!("cause: {words}")));
            }
            Standing::Restructured => case.output.push(finding.sentence()),
            Standing::Fixed => {
                case.output.extend(troubles.first().map(|trouble| format!("fixed: {}", trouble.headline)));
            }
            Standing::OnlyInBaseline | Standing::OnlyInCandidate => {
                case.skipped = troubles.first().map(|trouble| trouble.headline.clone());
            }
            _ => {}
        }
        case.with_limits(&view, options)
    }

    /// A test of a single revision.
    fn alone(comparison: &Comparison, options: &Options, revision: &Revision, cell: &Cell) -> Self {
        let sides: Vec<&Aggregate> = cell.sides.iter().collect();
        let troubles = sides.iter().flat_map(|side| troubles::side_troubles(comparison, revision, side));
        let mut case = Self::new(comparison, cell, &sides, &troubles.collect::<Vec<_>>());
        if let Some(finding) = Finding::alone(comparison, cell) {
            match finding.standing {
                Standing::OverLimit => {
                    case.failures.push(vec![format!("over its limit: {}", finding.sentence())]);
                }
                _ => case.output.push(format!("over its limit: {}", finding.sentence())),
            }
        }
        match &cell.alone {
            Some(pair) => case.with_limits(&comparison.view(cell, pair), options),
            None => case,
        }
    }

    /// Adds what was live where a limit was broken to the last failure.
    fn with_limits(mut self, view: &PairView<'_>, options: &Options) -> Self {
        if let Some(last) = self.failures.last_mut() {
            last.extend(limits::sentences(view, options));
        }
        self
    }

    fn new(comparison: &Comparison, cell: &Cell, sides: &[&Aggregate], troubles: &[Trouble]) -> Self {
        let runs = || sides.iter().flat_map(|side| side.runs.iter().chain(&side.failed));
        let nanoseconds: u64 =
            runs().filter_map(|&run| comparison.runs[run].record.outcome.wall_nanoseconds).sum();
        // A test that a side lacks or ignores is no failure.
        let is_absent = |run: &usize| {
            matches!(comparison.runs[*run].record.outcome.status, Status::NotInThisRef | Status::Ignored)
        };
        let skipped = runs().any(is_absent).then(|| troubles.first().map(|trouble| trouble.headline.clone()));
        let failures = troubles.iter().filter(|trouble| trouble.is_failure);
        let failures = failures
            .map(|trouble| std::iter::once(&trouble.headline).chain(&trouble.details).cloned().collect());
        #[expect(clippy::cast_precision_loss, reason = "seconds are for reading")]
        let seconds = nanoseconds as f64 / 1e9;
        Self {
            class: titles::target_of(&cell.id),
            name: titles::title_of(&cell.id),
            seconds,
            failures: failures.collect(),
            skipped: skipped.flatten(),
            output: Vec::new(),
        }
    }

    /// Returns the case of an executable without figures.
    fn not_measured(revision: &str, executable: &NotMeasured) -> Self {
        Self {
            class: executable.to_string(),
            name: format!("not measured in {revision}"),
            seconds: 0.0,
            failures: vec![vec![format!("not measured: {executable} in {revision}: {}", executable.reason)]],
            skipped: None,
            output: Vec::new(),
        }
    }

    /// Returns the case of a rule that no figure was checked against.
    fn unchecked(note: &str) -> Self {
        Self {
            class: "rules".to_owned(),
            name: note.to_owned(),
            seconds: 0.0,
            failures: vec![vec![note.to_owned()]],
            skipped: None,
            output: Vec::new(),
        }
    }

    /// Returns why the case is skipped. One that failed is not: a new test may fail, too.
    fn skipped(&self) -> Option<&String> {
        self.skipped.as_ref().filter(|_| self.failures.is_empty())
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (class, name) = (escape(&self.class), escape(&self.name));
        writeln!(out, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{:.3}\">", self.seconds)?;
        if let Some(reason) = self.skipped() {
            writeln!(out, "      <skipped message=\"{}\"/>", escape(reason))?;
        }
        if let Some(first) = self.failures.first().and_then(|lines| lines.first()) {
            let all = escape(&self.failures.concat().join("\n"));
            writeln!(out, "      <failure message=\"{}\">{all}</failure>", escape(first))?;
        }
        if !self.output.is_empty() {
            writeln!(out, "      <system-out>{}</system-out>", escape(&self.output.join("\n")))?;
        }
        writeln!(out, "    </testcase>")
    }
}

/// Returns each row and metric with such a verdict, up to [`MOST_LINES`].
fn rows_of(comparison: &Comparison, view: &PairView, is_meant: &dyn Fn(&Ruling) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in &comparison.metrics {
        let Some(judged) = view.judged(&metric.name) else { continue };
        let column = view.column(&metric.name);
        for row in view.rows.iter().filter(|row| judged.at(row).is_some_and(|ruling| is_meant(&ruling))) {
            if let Some(delta) = column.at(row).delta {
                let change = text::difference(delta.difference, metric.unit);
                let percent = text::percent(&delta);
                lines.push(format!("{} {change} {percent} at '{}'", metric.name, text::row_label(view, row)));
            }
        }
    }
    if lines.len() > MOST_LINES {
        let rest = format!("… and {} more: --format csv", lines.len() - MOST_LINES);
        lines.truncate(MOST_LINES);
        lines.push(rest);
    }
    lines
}

fn counts<'a>(cases: impl IntoIterator<Item = &'a Case>) -> String {
    let (mut tests, mut failures, mut skipped) = (0, 0, 0);
    for case in cases {
        tests += 1;
        failures += usize::from(!case.failures.is_empty());
        skipped += usize::from(case.skipped().is_some());
    }
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"")
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
