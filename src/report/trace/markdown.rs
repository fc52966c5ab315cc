//! Traced functions in a comment on a pull request: the tree of their calls and the lines of each function, each folded.

use std::io;

use crate::compare::comparison::{Comparison, PairView};
use crate::compare::trace_comparison::LineProfile;
use crate::report::options::Options;
use crate::report::page::Page;
use crate::report::summary;
use crate::report::trace::calls::TraceReport;
use crate::support::counted::counted;

/// Columns that a comment has room for before it is to be scrolled.
const WIDTH: usize = 120;

/// What was traced in a pair, in blocks of which each can stand alone or be left out.
pub(in crate::report) fn blocks(comparison: &Comparison, view: &PairView, options: &Options) -> Vec<String> {
    let part = TraceReport::of(comparison, view);
    let has_several_candidates = comparison.revisions.len() > 2;
    let candidate = if has_several_candidates { format!(" → {}", view.new.name) } else { String::new() };
    let test = format!("{}{candidate}", summary::title(view));
    let options = Options { width: Some(WIDTH), color: false, ..options.clone() };
    let page = Page::new(&options);
    let mut blocks = Vec::new();
    let calls = part.calls();
    let changed = calls.iter().filter(|row| part.differs(row)).count();
    if !calls.is_empty() && (changed > 0 || !options.only_changed) {
        let block = written(|out| {
            part.tree(page, &calls, &options, out)?;
            part.remarks(page, out)
        });
        let all = counted(calls.len(), "row");
        let rows = if view.is_compared() { format!("{changed} of {all} changed") } else { all };
        let title = html(&format!("{test}: traced functions, {rows}"));
        blocks.push(folded(&title, "text", &block));
    }
    for profile in part.lines().iter().filter(|profile| !options.only_changed || is_changed(profile)) {
        let block = written(|out| part.source(page, profile, &options, out));
        let title = html(&format!("{test}: lines of {}", TraceReport::title(profile)));
        // A line that only one revision has begins with its sign, and is coloured by it.
        blocks.push(folded(&title, "diff", &block));
    }
    blocks
}

fn is_changed(profile: &LineProfile) -> bool {
    profile.rows.iter().any(|row| match &row.sides {
        [Some((_, old)), Some((_, new))] => old != new,
        _ => true,
    })
}

fn written(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("memory takes what is written");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A folded block of code. Each line loses the blank that a terminal has at its edge.
fn folded(title: &str, language: &str, text: &str) -> String {
    let lines = text.trim_matches('\n').lines().map(|line| {
        let mut rest = line.chars();
        rest.next();
        rest.as_str()
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    format!("\n<details><summary>{title}</summary>\n\n{fence}{language}\n{text}\n{fence}\n\n</details>\n")
}

/// The longest run of backticks: a fence must be longer.
fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('@', "&#64;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        let text = folded("t", "diff", " let a = \"```\";\n+b");
        assert_eq!(
            text,
            "\n<details><summary>t</summary>\n\n````diff\nlet a = \"```\";\nb\n````\n\n</details>\n"
        );
    }

    #[test]
    fn a_function_is_no_markup_and_calls_nobody() {
        assert_eq!(html("<A as B>::f @c"), "&lt;A as B&gt;::f &#64;c");
    }
}
