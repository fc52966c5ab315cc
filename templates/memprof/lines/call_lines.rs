//! The lines of traced calls: the sums of each node of the call tree, and the figures of each line.

use std::io;

use crate::lines::call_tree::{Aggregate, Node, ROOT};
use crate::lines::calls::{Calls, Slot};
use crate::log::json::Json;
use crate::log::run_log::Log;
use crate::metrics::metric::Catalogue;
use crate::platform::untracked::Text;

/// Logs the sums of these nodes.
pub(crate) fn write_sums_of(log: &mut Log, calls: &Calls, nodes: &[u32], nanoseconds: u64) -> io::Result<()> {
    nodes.iter().try_for_each(|&number| {
        log.write("calls", nanoseconds, |json| {
            write_node(json, calls, number);
            json.object("metrics", |json| write_sums(json, calls, number));
            json.object("most", |json| write_maxima(json, calls, number));
        })
    })
}

/// Logs the lines of a site that changed since the log had them.
pub(crate) fn write_lines_of(
    log: &mut Log,
    calls: &Calls,
    catalogue: &Catalogue,
    number: usize,
    nanoseconds: u64,
) -> io::Result<()> {
    let state = &calls.sites()[number];
    let (site, every) = (state.site, calls.every(state.site));
    for (line, figures, place) in calls.changed_lines(number) {
        log.write("line", nanoseconds, |json| {
            json.number("site", format_args!("{number}"));
            json.text("label", site.label);
            json.text("at", site.at);
            json.number("line", format_args!("{line}"));
            json.number("times", format_args!("{}", figures.times));
            if every > 1 {
                json.number("every", format_args!("{every}"));
            }
            if calls.lines_per_call {
                json.figure("call", state.last_with_lines);
            }
            json.object("metrics", |json| {
                write_line(json, calls, catalogue, place);
                write_time(json, calls, figures.nanoseconds);
            });
        })?;
    }
    Ok(())
}

fn write_node(json: &mut Json<'_>, calls: &Calls, number: u32) {
    let node = calls.tree.node(number);
    let site = calls.site(node.site);
    json.number("node", format_args!("{number}"));
    if node.parent == ROOT || node.is_elsewhere() {
        json.text_or_null("parent", None);
    } else {
        json.number("parent", format_args!("{}", node.parent));
    }
    if node.is_elsewhere() {
        json.number("elsewhere", format_args!("true"));
    }
    json.text("label", site.label);
    json.text("at", site.at);
    json.figure("calls", node.calls);
    json.figure("recursive", node.recursive);
    json.number("open", format_args!("{}", node.open()));
    json.figure("overlapped", node.overlapped);
    if node.by_thread != 0 {
        json.figure("by_thread", node.by_thread);
    }
}

fn write_sums(json: &mut Json<'_>, calls: &Calls, node: u32) {
    for (slot, aggregate) in aggregates(calls, node) {
        write_aggregate(json, slot, aggregate.sum, aggregate.peaked_sum);
    }
    write_time_of_node(json, calls, node, |node| node.nanoseconds);
}

fn write_maxima(json: &mut Json<'_>, calls: &Calls, node: u32) {
    for (slot, aggregate) in aggregates(calls, node) {
        write_aggregate(json, slot, aggregate.most, aggregate.peaked_most);
    }
    write_time_of_node(json, calls, node, |node| node.longest);
}

/// A node none of whose calls has ended has no time.
fn write_time_of_node(json: &mut Json<'_>, calls: &Calls, node: u32, time: fn(&Node) -> u64) {
    let node = calls.tree.node(node);
    if node.open() < node.calls {
        write_time(json, calls, time(node));
    }
}

fn write_time(json: &mut Json<'_>, calls: &Calls, nanoseconds: u64) {
    if calls.columns.time {
        json.figure("time", nanoseconds);
    }
}

/// The metrics for which a node has figures.
fn aggregates(calls: &Calls, node: u32) -> impl Iterator<Item = (&Slot, &Aggregate)> {
    let all = calls.slots().iter().enumerate();
    all.map(move |(place, slot)| (slot, calls.tree.aggregate(node, place)))
        .filter(|(_, aggregate)| aggregate.calls != 0)
}

fn write_aggregate(json: &mut Json<'_>, slot: &Slot, grown: i64, peaked: u64) {
    match slot.family {
        Some(family) => {
            let name = |part: &str| Text::format(format_args!("{family}.{part}"));
            json.number(name("consumed").as_str(), format_args!("{grown}"));
            json.number(name("peaked").as_str(), format_args!("{peaked}"));
        }
        None => json.number(slot.name, format_args!("{grown}")),
    }
}

fn write_line(json: &mut Json<'_>, calls: &Calls, catalogue: &Catalogue, place: usize) {
    for (slot_place, slot) in calls.slots().iter().enumerate() {
        let figure = calls.line_figure(place, slot_place);
        if figure.times == 0 {
            continue;
        }
        if let Some(family) = slot.family {
            let base = catalogue.metric(slot.level).base;
            json.figure(slot.name, figure.peak.wrapping_sub(base));
            if let Some(level) = slot.level_name {
                json.figure(level, figure.level.wrapping_sub(base));
            }
            let grown = Text::format(format_args!("{family}.grown"));
            json.number(grown.as_str(), format_args!("{}", figure.grown));
        } else {
            json.number(slot.name, format_args!("{}", figure.grown));
        }
    }
}
