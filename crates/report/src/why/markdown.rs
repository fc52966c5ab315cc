//! Call sites in a comment on a pull request: the worst ones as a table.

use std::fmt::Write as _;

use crate::markdown_text::{code_in_cell, escape};
use crate::why::site_rows::{SiteRow, SiteRows, Sites};
use memprof_judge::why::difference::Difference;

/// Returns the sites of a difference as a table.
pub fn table(difference: &Difference, sites: &Sites<'_>) -> String {
    let SiteRows { by, rows, remarks } = SiteRows::new(difference, sites);
    let sign = if difference.is_alone() { "" } else { "Δ " };
    let metric = escape(&difference.metric);
    let mut text = format!("| {sign}{metric} | {by} | where | |\n|---:|---|---|---|\n");
    for row in &rows {
        let mut name = escape(&row.name);
        for [function, place] in &row.callers {
            _ = write!(name, "<br>↑ {} {}", escape(function), escape(place));
        }
        let (amount, location) = (escape(&row.amount_and_share()), escape(&row.location));
        _ = writeln!(text, "| {amount} | {name} | {location} | {} |", class(row));
    }
    for remark in &remarks {
        _ = writeln!(text, "\n{}", escape(remark));
    }
    text
}

/// Returns what the diff has to do with a site. A comment has room for the place in the diff.
fn class(row: &SiteRow<'_>) -> String {
    let words = escape(&row.class);
    let Some((path, hunk)) = row.hunk_in_words() else { return words };
    let file = if path.is_empty() { String::new() } else { format!(" {}", escape(path)) };
    format!("{words},{file} {}", code_in_cell(&hunk))
}
