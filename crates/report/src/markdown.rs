//! Markdown for a comment on a pull request: the answer first, then changes, then the rest, folded.
//! Forges refuse long comments, so the comment counts what does not fit and leaves it out.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::answer::{Answer, Failures, NotJudged};
use crate::answer_table::{self, is_failure};
use crate::causes::sheet::CauseSheet;
use crate::finding::Finding;
use crate::markdown_text::{self, code, escape};
use crate::notes;
use crate::options::{Options, Rows};
use crate::proof;
use crate::row_cells::{MetricCells, RowCells};
use crate::selection::{self, MOST_ROWS, MOST_TESTS, MetricFilter, TableSection};
use crate::sides::SideTables;
use crate::tensors::chosen_devices::ChosenDevices;
use crate::tensors::comment as tensor_comment;
use crate::text;
use crate::titles;
use crate::trace::markdown as traced;
use crate::troubles::{self, MOST_NAMES, Trouble};
use crate::why::explained;
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::matching::{Match, RowChange};
use memprof_judge::compare::standing::Standing;
use memprof_judge::verdict::kinds::Verdict;
use memprof_support::counted::{counted, some};

/// Lets a bot find its comment again.
pub(crate) const MARKER: &str = "<!-- cargo-memprof -->";

/// GitHub accepts 65,536 characters. The rest is for what a bot adds.
pub const MOST_CHARACTERS: usize = 65_000;

/// The room for changed tests, for failures and for notes, so that rows fit too.
const MOST_OF_FINDINGS: usize = 20_000;
const MOST_OF_SIDES: usize = 12_000;
const MOST_OF_FAILURES: usize = 12_000;
const MOST_OF_NOTES: usize = 8_000;

/// A longer table of changed rows is folded.
const FEW_ROWS: usize = 15;

/// Reserved for the lines about what does not fit, and for closing tags.
const RESERVE: usize = 800;

/// Writes the comment.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let filter = MetricFilter::new(options);
    let answers = Answer::of_all(comparison);
    let mut not_judged = NotJudged::default();
    let mut sections = Vec::new();
    let causes = CauseSheet::new(comparison, options);
    for answer in &answers {
        let section = CandidateSection::new(comparison, answer, &causes, &filter, options, &mut not_judged);
        sections.push(section);
    }
    let mut comment = Comment::default();
    comment.head(&answers, &causes, options);
    if let Some(proof) = &options.proof {
        comment.text.push_str(&proof::section_of_comment(proof));
    }
    comment.sides(comparison, &causes, &filter, options);
    comment.rest_of_tests(comparison, &answers, not_judged.line().as_deref());
    let failures = failures(comparison, &answers, options);
    let notes = notes(comparison, &causes, &filter, options);
    let tensors = tensor_comment::write(comparison, &ChosenDevices::from_options(options));
    comment.reserve(&[&failures, &notes, &tensors]);
    let several = sections.len() > 1;
    comment.text.push_str(&failures);
    for section in &sections {
        comment.changed(section, several, !causes.is_empty());
    }
    comment.text.push_str(&tensors);
    for block in sections.iter().flat_map(|section| &section.traced) {
        comment.block(block);
    }
    for section in &sections {
        comment.rest(section, several);
    }
    comment.text.push_str(&notes);
    comment.left_out();
    out.write_all(comment.text.as_bytes())
}

/// One candidate's tables of checkpoints.
struct CandidateSection {
    name: String,
    heading: String,
    table_head: String,
    changed: Vec<TableLine>,
    rest: Vec<TableLine>,
    /// Call sites and traced functions, in blocks that may be left out one by one.
    traced: Vec<String>,
    not_shown: usize,
    /// Whether all rows of `rest` have a difference.
    rest_is_compared: bool,
}

/// A line of a table, with its rank among others.
pub(super) struct TableLine {
    rank: (u8, f64),
    text: String,
}

impl TableLine {
    pub(super) fn unranked(text: String) -> Self {
        Self { rank: (0, 0.0), text }
    }
}

impl CandidateSection {
    fn new(
        comparison: &Comparison,
        answer: &Answer,
        causes: &CauseSheet<'_>,
        filter: &MetricFilter,
        options: &Options,
        not_judged: &mut NotJudged,
    ) -> Self {
        let [old, new] = [comparison.baseline, answer.candidate].map(|index| &comparison.revisions[index]);
        let mut section = Self {
            name: new.name.clone(),
            heading: answer.revisions(code),
            table_head: format!(
                "| test | checkpoint | metric | {} | {} | Δ | Δ % | |\n| --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n",
                escape(&old.name),
                escape(&new.name)
            ),
            changed: Vec::new(),
            rest: Vec::new(),
            traced: Vec::new(),
            not_shown: 0,
            rest_is_compared: true,
        };
        let has_all_rows = options.all_rows() || selection::has_few_tests(comparison);
        for view in comparison.pairs().filter(|view| view.pair.candidate == answer.candidate) {
            let tables = filter.sections(comparison, &view);
            not_judged.add(&view, &tables);
            // Causes say where its memory comes from.
            let is_said = causes.covers(&view) && !options.all_rows();
            if !is_said || options.shows_sites {
                let sites = explained::markdown(&view, options);
                section.traced.extend(Some(sites).filter(|text| !text.is_empty()));
            }
            section.traced.extend(traced::blocks(comparison, &view, options));
            // A failed test is one line, with its reason.
            let is_failed = is_failure(Standing::for_pair(comparison, &view));
            let is_without_rows = is_said && !causes.shows_metrics(&view);
            if options.rows == Rows::None || is_without_rows || (is_failed && !options.all_rows()) {
                continue;
            }
            for table in &tables {
                section.add(&view, table, has_all_rows, options);
            }
        }
        section.changed.sort_by(|a, b| a.rank.0.cmp(&b.rank.0).then(b.rank.1.total_cmp(&a.rank.1)));
        section
    }

    fn add(&mut self, view: &PairView, table: &TableSection, has_all_rows: bool, options: &Options) {
        let rows = selection::rows(view, table, MOST_ROWS, options);
        self.not_shown += if has_all_rows { rows.left_out } else { rows.changed_left_out };
        let names = table.shown.iter().map(|shown| &shown.metric.name);
        let metrics: Vec<_> = names.map(|name| (name, MetricCells::new(view, name))).collect();
        for row in &rows.shown {
            for (name, metric) in &metrics {
                let cells = metric.at(row);
                let text = table_row(view, row, name, &cells);
                match rank(&cells) {
                    Some(rank) => self.changed.push(TableLine { rank, text }),
                    None if has_all_rows && !options.only_changed => {
                        self.rest_is_compared &= cells.delta.is_some();
                        self.rest.push(TableLine::unranked(text));
                    }
                    None => {}
                }
            }
        }
    }
}

/// Returns the rank of a changed row; `None` for an unchanged one. Regressions come first, then
/// inconclusive rows, improvements, changes that are not judged, and rows that came or went. Within
/// these, the largest percentage first.
fn rank(cells: &RowCells) -> Option<(u8, f64)> {
    let part = || cells.delta.and_then(|delta| delta.percent).map_or(f64::INFINITY, f64::abs);
    let change = cells.change?;
    if cells.broken_limit.is_some() {
        return Some((0, part()));
    }
    match (cells.verdict, change, cells.delta) {
        (Some(Verdict::Regressed), ..) => Some((0, part())),
        (Some(Verdict::Inconclusive), ..) => Some((1, part())),
        (Some(Verdict::Improved), ..) => Some((2, part())),
        (_, RowChange::Added, _) => Some((5, 0.0)),
        (_, RowChange::Removed, _) => Some((6, 0.0)),
        (None, _, Some(delta)) if delta.difference != 0 => Some((3 + u8::from(delta.difference < 0), part())),
        (_, RowChange::Renamed, _) => Some((7, 0.0)),
        _ => None,
    }
}

/// Returns the last column: the verdict in words, and what else stands beside the figure.
fn verdict_cell(cells: &RowCells) -> String {
    let verdict = match cells.verdict {
        Some(Verdict::Regressed) if !cells.is_expected => "**regressed**",
        Some(Verdict::Improved) => "improved",
        Some(Verdict::Inconclusive) => "inconclusive",
        _ => "",
    };
    let remark = cells.remark();
    let remark = match cells.broken_limit {
        Some(_) => format!("**{}**", remark.as_str()),
        None => remark.as_str().to_owned(),
    };
    let words = [verdict, &remark].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    format!("{} {words}", cells.sign.map_or_else(String::new, String::from)).trim().to_owned()
}

fn table_row(view: &PairView, row: &Match, metric: &str, cells: &RowCells) -> String {
    let figures = [&cells.baseline, &cells.candidate, &cells.difference, &cells.percent];
    format!(
        "| {} | {} | {} | {} | {} |\n",
        escape(&titles::title(view)),
        escape(&text::row_label(view, row)),
        escape(metric),
        figures.map(|cell| escape(cell.as_str())).join(" | "),
        verdict_cell(cells)
    )
}

/// The comment as it grows.
#[derive(Default)]
pub(super) struct Comment {
    pub(super) text: String,
    /// The number of characters that tables may still add.
    room: usize,
    rows_left_out: usize,
    blocks_left_out: usize,
}

impl Comment {
    /// Adds a block, if it fits completely.
    fn block(&mut self, block: &str) {
        match self.room.checked_sub(block.chars().count()) {
            Some(rest) => {
                self.text.push_str(block);
                self.room = rest;
            }
            None => self.blocks_left_out += 1,
        }
    }

    fn characters(&self) -> usize {
        self.text.chars().count()
    }

    /// Leaves tables the room that the text so far and these texts do not take.
    pub(super) fn reserve(&mut self, others: &[&str]) {
        let taken: usize = others.iter().map(|text| text.chars().count()).sum();
        self.room = MOST_CHARACTERS.saturating_sub(RESERVE + self.characters() + taken);
    }

    fn head(&mut self, answers: &[Answer], causes: &CauseSheet<'_>, options: &Options) {
        _ = writeln!(self.text, "{MARKER}");
        for (index, answer) in answers.iter().enumerate() {
            let blank = if index > 0 { "\n" } else { "" };
            let revisions = answer.revisions(code);
            let by = causes.by_what(&answer.findings).map(|by| format!(", {by}")).unwrap_or_default();
            _ = write!(self.text, "{blank}**Memory: {}{by}** · {revisions}", answer.counts());
            if let Some(runs) = answer.runs() {
                _ = write!(self.text, " · {runs}");
            }
            self.text.push('\n');
            if let Some(differs) = answer.differs() {
                _ = writeln!(self.text, "\nDiffers: {}", escape(&differs));
            }
            self.text.push_str(&causes.markdown(answer.candidate, options));
            self.findings(answer, causes, options);
        }
    }

    /// Adds a row for each test that changed.
    fn findings(&mut self, answer: &Answer, causes: &CauseSheet<'_>, options: &Options) {
        let is_listed = |finding: &&Finding| options.all_rows() || !causes.says(finding);
        let findings = answer.findings.iter().filter(|finding| !is_failure(finding.standing));
        let findings = findings.filter(is_listed);
        let findings: Vec<&Finding> = findings.collect();
        if findings.is_empty() {
            return;
        }
        self.text.push_str("\n| | test | metric | change | Δ | Δ % | where |\n");
        self.text.push_str("| --- | --- | --- | ---: | ---: | ---: | --- |\n");
        let mut left_out = Vec::new();
        for of_one in findings.chunk_by(|a, b| a.standing == b.standing) {
            let most = if options.all_rows() { of_one.len() } else { MOST_TESTS };
            for finding in of_one.iter().take(most) {
                let cells = [
                    finding.test(),
                    finding.metric.clone(),
                    finding.figures.clone(),
                    finding.difference.clone(),
                    finding.percent.clone(),
                    finding.place_and_remark(),
                ];
                let mut cells = cells.map(|cell| escape(&cell)).join(" | ");
                for limit in causes.limits_of(&finding.view, options) {
                    _ = write!(cells, "<br>{}", escape(&limit));
                }
                let row = format!("| {} | {cells} |\n", finding.sign);
                if self.characters() + row.chars().count() > MOST_OF_FINDINGS {
                    self.rows_left_out += 1;
                } else {
                    self.text.push_str(&row);
                }
            }
            if of_one.len() > most {
                left_out.push((of_one.len() - most, of_one[0].standing));
            }
        }
        for (count, standing) in left_out {
            let tests = counted(count, "more test");
            _ = write!(self.text, "\n_… {tests} {}_\n", answer_table::word(standing));
        }
    }

    /// Adds a table with a column per side, if it fits.
    fn sides(
        &mut self,
        comparison: &Comparison,
        causes: &CauseSheet<'_>,
        filter: &MetricFilter,
        options: &Options,
    ) {
        let sides = SideTables::for_comparison(comparison, causes, filter, options);
        let mut text = sides.map(|sides| sides.markdown()).unwrap_or_default();
        if !causes.is_empty() && !text.is_empty() {
            text = format!("\n<details><summary>all sides</summary>\n{text}\n</details>\n");
        }
        if text.chars().count() <= MOST_OF_SIDES {
            self.text.push_str(&text);
        } else {
            self.text.push_str("\n_The table of all sides is left out: the comment is full._\n");
        }
    }

    /// Says what became of the tests that no row names.
    fn rest_of_tests(&mut self, comparison: &Comparison, answers: &[Answer], not_judged: Option<&str>) {
        for answer in answers {
            let Some(rest) = answer.rest() else { continue };
            let name = &comparison.revisions[answer.candidate].name;
            let of = if answers.len() > 1 { format!("{}: ", code(name)) } else { String::new() };
            _ = write!(self.text, "\n{of}{}\n", escape(&rest));
        }
        if let Some(line) = not_judged {
            _ = write!(self.text, "\n{}\n", escape(line));
        }
    }

    fn changed(&mut self, section: &CandidateSection, several: bool, is_folded: bool) {
        self.rows_left_out += section.not_shown;
        if section.changed.is_empty() {
            return;
        }
        let heading = if several { format!("\n### {}\n", section.heading) } else { String::new() };
        // A long table would hide what follows.
        if section.changed.len() <= FEW_ROWS && !is_folded {
            return self.rows(&format!("{heading}\n{}", section.table_head), &section.changed, "");
        }
        let summary = counted(section.changed.len(), "changed row");
        let head = format!("{heading}\n<details><summary>{summary}</summary>\n\n{}", section.table_head);
        self.rows(&head, &section.changed, "\n</details>\n");
    }

    fn rest(&mut self, section: &CandidateSection, several: bool) {
        if section.rest.is_empty() {
            return;
        }
        let of = if several { format!(" of {}", markdown_text::html(&section.name)) } else { String::new() };
        let rows = counted(section.rest.len(), "row");
        let what = if section.rest_is_compared { "unchanged" } else { "unchanged or not compared" };
        let head = format!("\n<details><summary>{rows}{of} {what}</summary>\n\n{}", section.table_head);
        self.rows(&head, &section.rest, "\n</details>\n");
    }

    /// Adds a table with as many rows as fit; no table if not even one row fits.
    pub(super) fn rows(&mut self, head: &str, rows: &[TableLine], foot: &str) {
        let mut needed = head.chars().count() + foot.chars().count();
        let fitting = rows
            .iter()
            .take_while(|row| {
                needed += row.text.chars().count();
                needed <= self.room
            })
            .count();
        self.rows_left_out += rows.len() - fitting;
        if fitting == 0 {
            return;
        }
        let start = self.characters();
        self.text.push_str(head);
        rows[..fitting].iter().for_each(|row| self.text.push_str(&row.text));
        self.text.push_str(foot);
        self.room -= self.characters() - start;
    }

    /// Says how much did not fit.
    pub(super) fn left_out(&mut self) {
        if self.blocks_left_out > 0 {
            let blocks = counted(self.blocks_left_out, "block");
            _ = write!(self.text, "\n_{blocks} of traced functions left out: the comment is full._\n");
        }
        if self.rows_left_out > 0 {
            let rows = counted(self.rows_left_out, "row");
            let all = "`--format csv` and `--format json` show all";
            _ = write!(self.text, "\n_{rows} left out: the comment is full; {all}._\n");
        }
    }
}

/// What went wrong, as far as it fits.
pub(super) struct FailureList {
    text: String,
    left_out: usize,
}

impl FailureList {
    /// Returns what went wrong apart from single tests.
    pub(super) fn of_whole(comparison: &Comparison) -> Self {
        let mut list = Self { text: String::new(), left_out: 0 };
        for trouble in troubles::of_whole(comparison) {
            list.add(format!("\n✗ {}\n", escape(&trouble.headline)), &trouble);
        }
        list
    }

    /// Adds a headline with the first lines of the message.
    pub(super) fn add(&mut self, headline: String, trouble: &Trouble) {
        let mut entry = headline;
        if !trouble.details.is_empty() {
            _ = writeln!(entry, "<pre>{}</pre>", html(&trouble.details.join("\n")));
        }
        if let Some(figures) = &trouble.figures {
            _ = write!(entry, "\n{}\n", escape(figures));
        }
        self.add_line(&entry);
    }

    /// Adds lines, if they fit.
    pub(super) fn add_line(&mut self, entry: &str) {
        if self.text.chars().count() + entry.chars().count() > MOST_OF_FAILURES {
            self.left_out += 1;
        } else {
            self.text.push_str(entry);
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.left_out > 0 {
            let failures = counted(self.left_out, "more failure");
            _ = write!(self.text, "\n_{failures} left out: the comment is full._\n");
        }
        self.text
    }
}

/// Returns what went wrong, each cause once, with the first lines of its message.
fn failures(comparison: &Comparison, answers: &[Answer], options: &Options) -> String {
    let mut failures = FailureList::of_whole(comparison);
    let mut seen = HashSet::new();
    let headline = |event: &str, tests: &[String]| {
        let tests = match tests {
            [only] => escape(only),
            tests => format!("{} ({})", counted(tests.len(), "test"), escape(&some(tests, MOST_NAMES))),
        };
        format!("\n✗ **{}** · {tests}\n", escape(event))
    };
    let mut has_others = false;
    for Failures { quoted, others } in answers.iter().map(|answer| answer.failures(options.all_rows())) {
        // The baseline's failure is the same for all candidates.
        let mut is_new = |event: &String, tests: &Vec<String>| seen.insert((event.clone(), tests.clone()));
        for (trouble, tests) in quoted.iter().filter(|(trouble, tests)| is_new(&trouble.headline, tests)) {
            failures.add(headline(&trouble.headline, tests), trouble);
        }
        has_others |= !others.is_empty();
        others
            .iter()
            .filter(|(event, tests)| is_new(event, tests))
            .for_each(|(event, tests)| failures.add_line(&headline(event, tests)));
    }
    let without_reason = answers.iter().flat_map(Answer::without_reason).collect::<Vec<_>>();
    if !without_reason.is_empty() {
        let tests = escape(&some(&without_reason, MOST_NAMES));
        failures.add_line(&format!("\n✗ {tests}: no figure may be compared\n"));
    }
    let mut text = failures.finish();
    if has_others {
        text.push_str("\n_`--rows all` shows the other messages._\n");
    }
    text
}

/// Returns the notes as a list.
pub(super) fn notes(
    comparison: &Comparison,
    causes: &CauseSheet<'_>,
    filter: &MetricFilter,
    options: &Options,
) -> String {
    let mut text = String::new();
    let mut notes = notes::notes(comparison, filter);
    notes.extend(explained::left_out(options));
    if !causes.is_empty() && !options.shows_sites {
        notes.extend(explained::remarks(options));
    }
    for (index, note) in notes.iter().enumerate() {
        let line = format!("- {}\n", escape(note));
        if text.chars().count() + line.chars().count() > MOST_OF_NOTES {
            let notes = counted(notes.len() - index, "more note");
            _ = writeln!(text, "- _{notes} left out: the comment is full_");
            break;
        }
        text.push_str(&line);
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Escapes text in a `<pre>`, where forges link nothing.
fn html(text: &str) -> Cow<'_, str> {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_the_table_or_mention_anyone() {
        assert_eq!(
            escape("a|b `c`\n<img> @bot #2 *x*"),
            "a\\|b \\`c\\`↵&lt;img&gt; &#64;&#8203;bot &#35;&#8203;2 \\*x\\*"
        );
    }
}
