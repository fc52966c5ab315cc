//! Traced functions in a comment on a pull request: the tree of calls and the lines of each
//! function, each folded.

use crate::markdown_text::{fence, html};
use crate::options::Options;
use crate::page::{Page, written};
use crate::titles;
use crate::trace::calls::TraceReport;
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::trace_comparison::LineProfile;
use memprof_support::counted::counted;

/// The width of a comment without scrolling.
const WIDTH: usize = 120;

/// Returns a pair's traced functions as blocks. Each block may be left out.
pub(crate) fn blocks(comparison: &Comparison, view: &PairView, options: &Options) -> Vec<String> {
    let traced = TraceReport::for_pair(comparison, view);
    let has_several_candidates = comparison.revisions.len() > 2;
    let candidate = if has_several_candidates { format!(" → {}", view.new.name) } else { String::new() };
    let test = format!("{}{candidate}", titles::title(view));
    let options = Options { width: Some(WIDTH), color: false, ..options.clone() };
    let page = Page::new(&options);
    let mut blocks = Vec::new();
    let calls = traced.calls();
    let changed = calls.iter().filter(|row| traced.differs(row)).count();
    if !calls.is_empty() && (changed > 0 || !options.only_changed) {
        let tree = written(|out| traced.tree(page, &calls, &options, out));
        let remarks = written(|out| traced.remarks(page, out));
        let block = format!("{tree}\n\n{remarks}");
        let all = counted(calls.len(), "row");
        let rows = if view.is_compared() { format!("{changed} of {all} changed") } else { all };
        let title = html(&format!("{test}: traced functions, {rows}"));
        blocks.push(folded(&title, "text", &block));
    }
    for profile in traced.lines().iter().filter(|profile| !options.only_changed || is_changed(profile)) {
        let block = written(|out| traced.source(page, profile, &options, out));
        let title = html(&format!("{test}: lines of {}", TraceReport::title(profile)));
        // As a diff, lines of only one revision are coloured.
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

/// Returns a folded block of code, without the blank at the start of each line.
fn folded(title: &str, language: &str, text: &str) -> String {
    let lines = text.trim_matches('\n').lines().map(|line| {
        let mut rest = line.chars();
        rest.next();
        rest.as_str()
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let fence = fence(&text);
    format!("\n<details><summary>{title}</summary>\n\n{fence}{language}\n{text}\n{fence}\n\n</details>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_the_backticks_inside() {
        let text = folded("t", "diff", " let a = \"```\";\n+b");
        assert_eq!(
            text,
            "\n<details><summary>t</summary>\n\n````diff\nlet a = \"```\";\nb\n````\n\n</details>\n"
        );
    }
}
