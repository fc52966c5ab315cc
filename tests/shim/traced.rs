//! Traced functions: the tree of their calls, and their lines.

use serde_json::Value;

use crate::laboratory::{Experiment, Record, figure, program};
use crate::lines::telling::Telling;

fn traced(what: &str, events: &str) -> Record {
    experiment(what, events).succeed()
}

fn experiment(what: &str, events: &str) -> Experiment {
    Experiment::of(program("traced", &[]))
        .arg(what)
        .env("MEMPROF_TRACE_EVENTS", events)
        .env("MEMPROF_TRACE_COLUMNS", "heap")
}

/// The last message about each line, or about each line of each call. A line that still runs is
/// logged without figures, and again when it has ended.
fn lines(record: &Record) -> Vec<&Value> {
    let mut lines: Vec<&Value> = Vec::new();
    for line in record.events("line") {
        match lines.iter_mut().find(|one| one["line"] == line["line"] && one["call"] == line["call"]) {
            Some(earlier) => *earlier = line,
            None => lines.push(line),
        }
    }
    lines
}

/// The last that was said of each node, in their order.
fn nodes(record: &Record) -> Vec<&Value> {
    let mut nodes: Vec<&Value> = Vec::new();
    for line in record.events("calls") {
        let number = usize::try_from(line["node"].as_u64().unwrap()).unwrap();
        if number < nodes.len() {
            nodes[number] = line;
        } else {
            assert_eq!(number, nodes.len());
            nodes.push(line);
        }
    }
    nodes
}

/// `label`, calls, consumed, peaked: sums.
fn sums(node: &Value) -> (&str, u64, i64, i64) {
    (
        node["label"].as_str().unwrap(),
        node["calls"].as_u64().unwrap(),
        figure(node, "heap.consumed"),
        figure(node, "heap.peaked"),
    )
}

/// Of the 4 places for a `Vec` each, on 64-bit platforms.
const KEPT: i64 = 4 * 24;

#[test]
fn calls_make_a_tree_with_exact_sums_and_maxima() {
    let record = traced("tree", "0");
    let nodes = nodes(&record);
    assert_eq!(nodes.len(), 3);
    // The last `leaf` goes from 3000 to 4500 and back to 3500, all above where `branch` began.
    assert_eq!(sums(nodes[0]), ("traced::branch", 1, KEPT + 3500, 3500));
    assert_eq!(sums(nodes[1]), ("traced::leaf", 3, 3500, 2 * 3500));
    assert_eq!(sums(nodes[2]), ("traced::leaf", 1, 1, 2));
    assert_eq!((&nodes[0]["parent"], &nodes[1]["parent"]), (&Value::Null, &nodes[0]["node"]));
    assert_eq!(nodes[1]["most"]["heap.consumed"], 2000);
    assert_eq!(nodes[1]["most"]["heap.peaked"], 4000);
    assert_eq!(nodes[1]["metrics"]["heap.allocated"], 4 * 3500);
    assert_eq!(nodes[1]["metrics"]["heap.count"], 6);
    assert_eq!(nodes[1]["most"]["heap.allocated"], 8000);
    assert!(record.events("scope").is_empty());
}

#[test]
fn the_first_calls_of_each_function_are_scopes_and_all_are_in_the_sums() {
    let record = traced("tree", "2");
    let labels: Vec<&str> =
        record.events("scope").iter().map(|scope| scope["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["traced::leaf", "traced::leaf", "traced::branch"]);
    let scope = record.events("scope")[1];
    assert_eq!(scope["traced"], true);
    assert_eq!((scope["occurrence"].as_u64(), scope["depth"].as_u64()), (Some(2), Some(1)));
    assert_eq!((figure(scope, "heap.consumed"), figure(scope, "heap.peaked")), (2000, 4000));
    assert_eq!(figure(scope, "heap.allocated"), 8000);
    assert_eq!(sums(nodes(&record)[1]), ("traced::leaf", 3, 3500, 7000));
}

#[test]
fn very_many_calls_are_a_few_lines() {
    let record = traced("many", "5");
    assert_eq!(record.events("scope").len(), 5);
    let nodes = nodes(&record);
    assert_eq!(sums(nodes[0]), ("traced::leaf", 1_000_000, 10_000_000, 20_000_000));
    assert_eq!(nodes[0]["metrics"]["heap.count"], 2_000_000);
    assert!(record.events("calls").len() < 60, "told at most once a second");
}

#[test]
fn a_process_that_aborts_in_its_first_second_leaves_sums_and_lines() {
    let record = experiment("early abort", "0").run();
    let nodes = nodes(&record);
    let (label, calls, consumed, _) = sums(nodes[0]);
    let ended = calls - nodes[0]["open"].as_u64().unwrap();
    assert_eq!((label, consumed), ("traced::leaf", 10 * i64::try_from(ended).unwrap()));
    assert!(calls > 50_000, "at most a third of its time is lost, and the calls are alike: {calls}");
    // The second function is not called before the last of the 100,000 calls.
    assert!(record.events("calls").len() < 60);
}

#[test]
fn slow_calls_after_quick_ones_are_told_when_they_end() {
    let record = experiment("slow abort", "0").run();
    let nodes = nodes(&record);
    let slow = nodes[1];
    let [calls, open] = ["calls", "open"].map(|field| slow[field].as_u64().unwrap());
    assert_eq!((&slow["label"], calls, open), (&"traced::slow".into(), 3, 0));
}

/// With few functions, with a thousand, and with all that the tree has room for.
#[test]
fn the_sums_of_an_hour_fit_into_the_log() {
    const MILLISECOND: u64 = 1_000_000;
    let mut told = [0_u64; 3];
    for (sums, told) in [4 << 10, 2 << 20, 32 << 20].into_iter().zip(&mut told) {
        let mut telling = Telling::new();
        let mut longest = 0;
        let mut last = 0;
        for now in (1..3600 * 1000).map(|milliseconds| milliseconds * MILLISECOND) {
            if telling.is_due(now) {
                telling.told(now, sums);
                *told += sums;
                longest = longest.max(now - last);
                last = now;
            }
        }
        assert!(sums > 4 << 10 || longest <= 2000 * MILLISECOND, "{longest}");
    }
    assert!(told.iter().all(|told| *told < 256 << 20), "{told:?}");
}

#[test]
fn the_outermost_call_of_a_recursion_is_the_first_of_its_label() {
    let record = traced("recursion", "3");
    let calls = record.events("scope").into_iter().filter(|line| line["label"] == "traced::recursive");
    let mut calls: Vec<[u64; 2]> =
        calls.map(|line| ["occurrence", "depth"].map(|field| line[field].as_u64().unwrap())).collect();
    calls.sort_unstable();
    // Between each and the next is a call of the function through which it calls itself.
    assert_eq!(calls, [[1, 0], [2, 2], [3, 4]]);
}

#[test]
fn what_recursive_calls_do_is_counted_once() {
    let record = traced("recursion", "0");
    let nodes = nodes(&record);
    assert_eq!(sums(nodes[0]), ("traced::recursive", 1000, 100_000, 0));
    assert_eq!(nodes[0]["recursive"], 999);
    assert_eq!(sums(nodes[1]), ("traced::through", 999, 99_900, 0));
    assert_eq!(nodes[1]["recursive"], 998);
    assert_eq!(nodes[1]["parent"], nodes[0]["node"]);
    assert_eq!(nodes.len(), 2);
}

#[test]
fn calls_on_several_threads_at_once_are_marked() {
    let record = traced("threads", "0");
    let of = |label: &str| -> Vec<(u64, u64)> {
        let nodes = nodes(&record).into_iter().filter(|node| node["label"] == label);
        nodes.map(|node| (node["calls"].as_u64().unwrap(), node["overlapped"].as_u64().unwrap())).collect()
    };
    assert_eq!(of("traced::leaf"), [(2, 1)], "the one before the threads is alone");
    assert_eq!(of("traced::outer"), [(1, 1)]);
}

#[test]
fn calls_of_coroutines_that_end_in_any_order_are_counted() {
    let record = traced("coroutines", "0");
    let calls = nodes(&record).iter().map(|node| node["calls"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(calls, 7);
    assert!(nodes(&record).iter().all(|node| node["open"] == 0));
}

#[test]
fn a_call_that_never_ends_is_open() {
    let record = traced("exit", "0");
    let nodes = nodes(&record);
    assert_eq!((nodes[0]["calls"].as_u64(), nodes[0]["open"].as_u64()), (Some(1), Some(1)));
    assert_eq!(nodes[0]["metrics"], serde_json::json!({}));
}

#[test]
fn an_abort_leaves_what_was_told_until_then() {
    let record = experiment("abort", "0").run();
    assert!(!record.output.status.success());
    assert!(record.events("end").is_empty());
    assert!(nodes(&record)[0]["calls"].as_u64().unwrap() > 512);
}

#[test]
fn lines_have_their_own_figures() {
    let record = traced("lines", "0");
    let lines = lines(&record);
    let start = record.events("checkpoint")[0]["metrics"]["heap.live"].as_i64().unwrap();
    let of = |line: u64| {
        let line = lines.iter().find(|one| one["line"] == line).unwrap();
        let allocated = figure(line, "heap.allocated");
        let freed = allocated - figure(line, "heap.grown");
        (line["times"].as_u64().unwrap(), figure(line, "heap.peak") - start, allocated, freed)
    };
    let table = 5 * 24;
    let before = of(42).1 - table;
    assert_eq!(of(42), (1, before + table, table, 0));
    // What runs at the end of the block belongs to the loop's head.
    assert_eq!(of(43), (1, before + table + 50, 0, 0));
    assert_eq!(of(44), (5, before + table + 40 + 7000, 35_000, 0));
    assert_eq!(of(45), (5, before + table + 50 + 7000, 50, 0));
    assert_eq!(of(46), (5, before + table + 50 + 7000, 0, 35_000));
    // A traced function that it calls is in its line, peak and all.
    assert_eq!(of(48), (1, before + table + 50 + 3000, 4000, 3000));
    // So is a recursive call: its lines are not told apart, or they would be counted twice.
    assert_eq!(of(49), (1, before + table + 50 + 1000 + 3000, 4000, 4000));
    assert_eq!(of(50).0, 1);
}

#[test]
fn lines_have_levels_and_time_too() {
    let record = experiment("lines", "0").env("MEMPROF_TRACE_COLUMNS", "heap,time").succeed();
    let start = record.events("checkpoint")[0]["metrics"]["heap.live"].as_i64().unwrap();
    let lines = lines(&record);
    let of = |line: u64, metric: &str| figure(lines.iter().find(|one| one["line"] == line).unwrap(), metric);
    let live = |line: u64| of(line, "heap.live") - start;
    // The most at the end of the line: with the scratch of the last round, and without it.
    assert_eq!(live(45) - live(46), 7000);
    assert_eq!(live(44) - live(42), 40 + 7000);
    // A line may take less than the clock can tell.
    let time_of_lines: i64 = lines.iter().map(|line| figure(line, "time")).sum();
    let node = nodes(&record)[0];
    let time = node["metrics"]["time"].as_i64().unwrap();
    assert!(time > 0 && time >= time_of_lines && node["most"]["time"] == time, "{lines:#?}");
    assert!(traced("lines", "0").events("line").iter().all(|line| line["metrics"]["time"].is_null()));
}

#[test]
fn only_every_so_many_th_call_is_logged_and_measured_by_line() {
    let record = experiment("every", "10").env("MEMPROF_TRACE_EVERY", "2").succeed();
    let times = |line: u64| {
        let lines = lines(&record);
        let line = *lines.iter().find(|one| one["line"] == line).unwrap();
        (line["times"].as_u64().unwrap(), line["every"].as_u64().unwrap())
    };
    // The first, the third and the fifth.
    assert_eq!((times(42), times(50)), ((3, 2), (3, 2)));
    let scopes = record.events("scope");
    assert_eq!(scopes.iter().filter(|scope| scope["label"] == "traced::lines").count(), 3);
    let node = nodes(&record)[0];
    assert_eq!((&node["label"], node["calls"].as_u64()), (&"traced::lines".into(), Some(5)), "sums have all");
    let all = traced("every", "0").events("line").iter().all(|line| line["every"].is_null());
    assert!(all, "each call is measured");
}

#[test]
fn each_measured_call_has_lines_of_its_own_on_request() {
    let experiment = |events: &str| experiment("every", events).env("MEMPROF_TRACE_EVERY", "2");
    let calls = |events: &str| -> Vec<(u64, u64, i64)> {
        let record = experiment(events).env("MEMPROF_TRACE_PER_CALL", "1").succeed();
        let lines = lines(&record).into_iter().filter(|line| line["line"] == 48).cloned();
        let number = |line: &Value, name: &str| line[name].as_u64().unwrap();
        lines
            .map(|line| (number(&line, "call"), number(&line, "times"), figure(&line, "heap.allocated")))
            .collect()
    };
    assert_eq!(calls("10"), [(1, 1, 4000), (3, 1, 4000), (5, 1, 4000)]);
    assert_eq!(calls("2"), [(1, 1, 4000), (3, 1, 4000)], "no more calls than are logged");
    assert!(experiment("10").succeed().events("line").iter().all(|line| line["call"].is_null()));
}

#[test]
fn a_function_may_have_a_period_of_its_own() {
    let record = experiment("own-period", "10").env("MEMPROF_TRACE_EVERY", "7").succeed();
    let lines: Vec<_> = lines(&record).iter().map(|line| (&line["every"], &line["times"])).collect();
    assert_eq!(lines, [(&Value::from(2), &Value::from(3))], "the first, the third and the fifth call");
}

#[test]
fn lines_until_an_abort_are_in_the_log() {
    let record = experiment("killed", "0").run();
    assert!(!record.output.status.success());
    let lines = lines(&record);
    let ran: Vec<_> = lines.iter().map(|line| (line["line"].as_u64(), line["times"].as_u64())).collect();
    assert_eq!(ran, [72, 73, 74].map(|line| (Some(line), Some(1))));
    assert_eq!(figure(lines[0], "heap.allocated"), 9000);
    assert_eq!(lines[2]["metrics"], serde_json::json!({}), "it did not end");
    assert_eq!((nodes(&record)[0]["calls"].as_u64(), nodes(&record)[0]["open"].as_u64()), (Some(1), Some(1)));
}

#[test]
fn a_run_without_traced_functions_logs_nothing_of_them() {
    let record = Experiment::of(program("scopes", &[])).succeed();
    let mut events: Vec<&str> = record.lines().iter().map(|line| line["event"].as_str().unwrap()).collect();
    events.sort_unstable();
    events.dedup();
    events.retain(|event| *event != "absent");
    assert_eq!(events, ["begin", "causes", "checkpoint", "end", "scope"]);
}

#[test]
fn traced_functions_and_lines_have_what_a_pool_handed_out() {
    let record = experiment("pool", "0").env("MEMPROF_TRACE_COLUMNS", "pool").succeed();
    let node = *nodes(&record).iter().find(|node| node["label"] == "traced::of_pool").unwrap();
    assert_eq!(node["calls"], 2);
    assert_eq!(figure(node, "pool.arena.consumed"), 2 * 3000);
    let lines = lines(&record);
    let of = |line: u64| figure(lines.iter().find(|one| one["line"] == line).unwrap(), "pool.arena.in_use");
    // The most at the end of the line, in the second call.
    assert_eq!((of(61), of(62)), (1000 + 3000 + 5000, 1000 + 6000));
}

#[test]
fn a_call_in_which_a_pool_is_first_watched_has_no_figures_of_it() {
    let record = experiment("late pool", "1").env("MEMPROF_TRACE_COLUMNS", "heap,pool").succeed();
    let [node, scope] = [nodes(&record)[0], record.events("scope")[0]];
    for call in [node, scope] {
        assert_eq!(call["label"], "traced::setup");
        assert!(call["metrics"]["heap.consumed"].is_i64(), "{call}");
        assert!(call["metrics"]["pool.arena.consumed"].is_null(), "{call}");
    }
    let lines = lines(&record);
    let of =
        |line: u64, metric: &str| &lines.iter().find(|one| one["line"] == line).unwrap()["metrics"][metric];
    assert!(of(81, "pool.arena.grown").is_null(), "the line that watches it");
    assert_eq!(
        (of(82, "pool.arena.in_use"), of(82, "pool.arena.grown")),
        (&Value::from(1 << 30), &Value::from(0))
    );
}
