//! Call sites in a comment on a pull request: the worst ones as a table.

use std::fmt::Write as _;

use crate::markdown_text::{code_in_cell, escape};
use crate::text::{difference as signed, figure};
use crate::why::text::{Sites, estimate};
use crate::why::words;
use memprof_judge::why::class::Class;
use memprof_judge::why::difference::{Difference, Group};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::grouping::GroupBy;
use memprof_judge::why::stacks::displayed_from;
use memprof_plan::metric::Unit;

/// Returns the sites of a difference as a table.
pub fn table(difference: &Difference, sites: &Sites<'_>) -> String {
    let unit = Unit::of_metric(&difference.metric);
    let amount = |value: i64| {
        if difference.is_alone() { figure(value, unit) } else { signed(value.into(), unit) }
    };
    let sign = if difference.is_alone() { "" } else { "Δ " };
    let what = match difference.by {
        GroupBy::Site | GroupBy::Line | GroupBy::Function => "function",
        by => by.as_str(),
    };
    let metric = escape(&difference.metric);
    let mut text = format!("| {sign}{metric} | {what} | where | |\n|---:|---|---|---|\n");
    let groups = difference.groups.iter().filter(|group| difference.of_group(group) != 0);
    let shown: Vec<&Group> = groups.take(sites.most).collect();
    for group in &shown {
        let location = group.location().unwrap_or_default();
        let stack: Vec<&Frame> = group.stack.iter().collect();
        let callers =
            displayed_from(&stack, group.first).into_iter().skip(1).take(sites.frames.saturating_sub(1));
        let mut shown_callers = String::new();
        for frame in callers {
            let place = frame.location().unwrap_or_default();
            _ = write!(shown_callers, "<br>↑ {} {}", escape(&frame.name()), escape(&place));
        }
        let amount = escape(&amount(difference.of_group(group)));
        let (name, class) = (escape(group.name()), class(group, sites.candidate));
        _ = writeln!(text, "| {amount} | {name}{shown_callers} | {} | {class} |", escape(location));
    }
    let elsewhere = difference.elsewhere(shown.len());
    if elsewhere != 0 || shown.is_empty() {
        _ = writeln!(text, "| {} | elsewhere | | |", escape(&amount(elsewhere)));
    }
    if let Some(estimate) = estimate(difference) {
        _ = writeln!(text, "\nThese are {}.", escape(&estimate));
    }
    for agreement in sites.agreements.iter().filter(|agreement| !agreement.is_fine()) {
        _ = writeln!(text, "\nThe run with call stacks {}.", escape(&agreement.to_string()));
    }
    for reason in &difference.incomplete {
        _ = writeln!(text, "\nCall stacks are incomplete: {}.", escape(reason));
    }
    text
}

/// Returns what the diff has to do with a site. A comment has room for the place in the diff.
fn class(group: &Group, candidate: &str) -> String {
    let words = escape(&words::class(group, candidate));
    let Some(at) = group.class.as_ref().and_then(Class::hunk) else { return words };
    let is_beside = group.location().is_some_and(|location| location.starts_with(&format!("{}:", at.path)));
    let file = if is_beside { String::new() } else { format!(" {}", escape(&at.path)) };
    format!("{words},{file} {}", code_in_cell(&at.hunk.to_string()))
}
