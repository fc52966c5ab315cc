//! Call sites in a comment on a pull request: the worst ones as a table.

use std::fmt::Write as _;

use crate::plan::metric::Unit;
use crate::report::markdown_text::escape;
use crate::report::text::{difference as signed, figure};
use crate::report::why::text::Sites;
use crate::report::why::words;
use crate::why::class::Class;
use crate::why::difference::{Difference, Group};

/// Returns the sites of a difference as a table.
pub fn table(difference: &Difference, sites: &Sites<'_>) -> String {
    let unit = Unit::of(&difference.metric);
    let amount = |value: i64| {
        if difference.is_alone() { figure(value, unit) } else { signed(value.into(), unit) }
    };
    let sign = if difference.is_alone() { "" } else { "Δ " };
    let mut text =
        format!("| {sign}{} | function | where | |\n|---:|---|---|---|\n", escape(&difference.metric));
    let groups = difference.groups.iter().filter(|group| difference.of(group) != 0);
    let shown: Vec<&Group> = groups.take(sites.most).collect();
    for group in &shown {
        let cells = [
            amount(difference.of(group)),
            group.name().to_owned(),
            group.location().unwrap_or_default().to_owned(),
            class(group.class.as_ref(), sites.candidate),
        ];
        _ = writeln!(text, "| {} |", cells.map(|cell| escape(&cell)).join(" | "));
    }
    let elsewhere = difference.elsewhere(shown.len());
    if elsewhere != 0 || shown.is_empty() {
        _ = writeln!(text, "| {} | elsewhere | | |", escape(&amount(elsewhere)));
    }
    if difference.is_estimate {
        text.push_str("\nThese figures are estimates from a sample of the allocations.\n");
    }
    for agreement in sites.agreements.iter().filter(|agreement| !agreement.is_fine()) {
        _ = writeln!(text, "\nThe run with call stacks {}.", escape(&agreement.to_string()));
    }
    for reason in &difference.incomplete {
        _ = writeln!(text, "\nCall stacks are incomplete: {}.", escape(reason));
    }
    text
}

/// A comment has room for the place in the diff.
fn class(of: Option<&Class>, candidate: &str) -> String {
    let words = words::class(of, candidate);
    match of {
        Some(Class::Changed(_, hunk) | Class::CalledFrom(_, hunk)) => {
            format!("{words}, {} {}", hunk.path, hunk.hunk)
        }
        _ => words,
    }
}
