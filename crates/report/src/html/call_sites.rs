//! Call sites of a test's rows, each with its place in the diff.

use std::ops::Range;

use maud::{Markup, html};

use crate::html::checkpoint_table::{amount, direction};
use crate::html::page_test::{PageTest, PageView};
use crate::why::explained::named;
use crate::why::text::estimate;
use crate::why::words;
use memprof_judge::why::class::Class;
use memprof_judge::why::difference::{Difference, Group};
use memprof_judge::why::explanations::{ExplainedRow, Explanations};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::grouping::GroupBy;
use memprof_judge::why::hunks::HunkAt;
use memprof_judge::why::stacks::displayed_from;
use memprof_judge::why::stored::StoredFile;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::labels::one_line;

/// Sites of a row. The flame graph has all.
const MOST_SITES: usize = 12;

/// Lines of a file around a hunk.
const CONTEXT: u32 = 3;

/// Lines of a hunk.
const MOST_LINES: usize = 60;

/// Returns the call sites of a test at one candidate. `first` is the number of the test's flame
/// graphs before these.
pub(super) fn sections(
    test: &PageTest<'_>,
    side: &PageView<'_>,
    why: &Explanations,
    with_source: bool,
    first: usize,
) -> Markup {
    let Some(explained) = side.why else { return html! {} };
    let candidate = side.view.pair.candidate;
    let sources = if with_source { why.sources(candidate) } else { &[] };
    html! {
        @for (index, row) in explained.rows.iter().enumerate() {
            section.why data-why=(first + index) id=(anchor(test, &row.difference)) {
                h3 { (heading(&row.difference)) }
                (sites(row, &side.view.new.name, sources))
                div.flame hidden {}
            }
        }
        @for remark in &explained.remarks {
            p.quiet { "call sites: " (one_line(remark)) }
        }
    }
}

/// The part of a link behind `#`: `test/metric/checkpoint`.
fn anchor(test: &PageTest<'_>, difference: &Difference) -> String {
    let checkpoint = difference.checkpoints[1].as_ref().or(difference.checkpoints[0].as_ref());
    let label = checkpoint.map_or_else(String::new, |one| match one.occurrence {
        1 => one.label.clone(),
        occurrence => format!("{} #{occurrence}", one.label),
    });
    let label: String =
        one_line(&label).chars().map(|one| if one.is_whitespace() { '_' } else { one }).collect();
    format!("{}/{}/{label}", test.id, difference.metric)
}

fn heading(difference: &Difference) -> String {
    let whole = amount(difference.whole(), Unit::of(&difference.metric), difference.is_alone());
    format!("{}: where {whole} come from", named(difference))
}

fn sites(row: &ExplainedRow, candidate: &str, sources: &[StoredFile]) -> Markup {
    let difference = &row.difference;
    let unit = Unit::of(&difference.metric);
    let is_alone = difference.is_alone();
    let by = match difference.by {
        GroupBy::Site | GroupBy::Line | GroupBy::Function => "function",
        by => by.as_str(),
    };
    let groups: Vec<&Group> =
        difference.groups.iter().filter(|group| difference.of(group) != 0).take(MOST_SITES).collect();
    let elsewhere = difference.elsewhere(groups.len());
    html! {
        div.scroll {
            table.sites {
                thead {
                    tr {
                        th.n scope="col" { @if is_alone { "bytes or blocks" } @else { "difference" } }
                        th scope="col" { (by) }
                        th scope="col" { "where" }
                        th scope="col" { @if !is_alone { "in the diff" } }
                    }
                }
                tbody {
                    @for group in &groups {
                        @let value = difference.of(group);
                        tr {
                            td class=(format!("n {}", if is_alone { "" } else { direction(value.into()) }).trim_end()) {
                                (amount(value, unit, is_alone))
                            }
                            td { code { (one_line(group.name())) } (callers(group)) }
                            td { (one_line(group.location().unwrap_or_default())) }
                            td { (class(group, candidate, sources)) }
                        }
                    }
                    @if elsewhere != 0 || groups.is_empty() {
                        tr {
                            td.n { (amount(elsewhere, unit, is_alone)) }
                            td colspan="3" { "elsewhere" }
                        }
                    }
                }
            }
        }
        @if let Some(estimate) = estimate(difference) { p.quiet { "These are " (estimate) "." } }
        @for agreement in row.agreements.iter().flatten().filter(|one| !one.is_fine()) {
            p.quiet { "The run with call stacks " (agreement.to_string()) "." }
        }
        @for reason in &difference.incomplete {
            p.quiet { "Call stacks are incomplete: " (one_line(reason)) "." }
        }
    }
}

/// The whole stack of the site that differs most, folded.
fn callers(group: &Group) -> Markup {
    let stack: Vec<&Frame> = group.stack.iter().collect();
    let frames = displayed_from(&stack, group.first);
    html! {
        @if frames.len() > 1 {
            details.stack {
                summary { (counted(frames.len() - 1, "caller")) }
                ol {
                    @for frame in &frames[1..] {
                        li { code { (one_line(&frame.name())) } " " small { (one_line(&frame.location().unwrap_or_default())) } }
                    }
                }
            }
        }
    }
}

fn class(group: &Group, candidate: &str, sources: &[StoredFile]) -> Markup {
    let words = words::class(group, &one_line(candidate));
    let Some(at) = group.class.as_ref().and_then(Class::hunk) else {
        return html! { (words) };
    };
    html! {
        (words)
        details.hunk {
            summary { (one_line(&at.path)) " " code { (at.hunk.to_string()) } }
            @match lines(at, sources) {
                Some(lines) => {
                    pre {
                        @for (kind, line) in &lines {
                            @match kind {
                                '+' => { ins { "+" (one_line(line)) } "\n" }
                                '-' => { del { "-" (one_line(line)) } "\n" }
                                _ => { " " (one_line(line)) "\n" }
                            }
                        }
                    }
                }
                None => { p.quiet { "The text is not in this page: " code { "--with-source" } " adds it." } }
            }
        }
    }
}

/// The lines of a hunk, with some around it.
fn lines<'a>(at: &HunkAt, sources: &'a [StoredFile]) -> Option<Vec<(char, &'a str)>> {
    let is_of = |file: &&StoredFile| {
        file.paths[1].as_ref().or(file.paths[0].as_ref()).is_some_and(|path| *path == at.path)
    };
    let file = sources.iter().find(is_of)?;
    let text = |side: usize| match (&file.paths[side], &file.texts[side]) {
        (None, _) => Some(Vec::new()),
        (Some(_), Some(text)) => Some(text.lines().collect::<Vec<&str>>()),
        (Some(_), None) => None,
    };
    let (old, new) = (text(0)?, text(1)?);
    let of = |lines: &[&'a str], range: Range<u32>| -> Vec<&'a str> {
        let place = |line: u32| (line.saturating_sub(1) as usize).min(lines.len());
        lines[place(range.start)..place(range.end).max(place(range.start))].to_vec()
    };
    let hunk = &at.hunk;
    let around = |kind: char, lines: Vec<&'a str>| lines.into_iter().map(move |line| (kind, line));
    let before = hunk.new.start.saturating_sub(CONTEXT).max(1)..hunk.new.start;
    let after = hunk.new.end..hunk.new.end.saturating_add(CONTEXT);
    let all = around(' ', of(&new, before))
        .chain(around('-', of(&old, hunk.old.clone())))
        .chain(around('+', of(&new, hunk.new.clone())))
        .chain(around(' ', of(&new, after)));
    Some(all.take(MOST_LINES).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_judge::why::hunks::Hunk;

    #[test]
    fn a_hunk_has_its_lines_and_some_around_it() {
        let file = StoredFile {
            paths: [Some("src/a.rs".into()), Some("src/a.rs".into())],
            texts: [Some("1\n2\nold\n4\n".into()), Some("1\n2\nnew\nmore\n4\n".into())],
        };
        let at = HunkAt { path: "src/a.rs".into(), hunk: Hunk { old: 3..4, new: 3..5 } };
        let shown: Vec<String> =
            lines(&at, &[file]).unwrap().iter().map(|(kind, line)| format!("{kind}{line}")).collect();
        assert_eq!(shown, [" 1", " 2", "-old", "+new", "+more", " 4"]);
        assert_eq!(lines(&at, &[]), None);
    }
}
