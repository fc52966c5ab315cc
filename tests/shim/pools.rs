//! Metrics of memory pools, against figures that are known.

use serde_json::Value;

use crate::laboratory::{Experiment, Record, figure, program};

const METRICS: [&str; 4] = ["in_use", "in_use_peak", "reserved", "reserved_peak"];

fn run(arguments: &[&str]) -> Record {
    let experiment = Experiment::of(program("pools", &[]));
    arguments.iter().fold(experiment, Experiment::arg).succeed()
}

/// The figures of a pool at a checkpoint: in use and its peak, reserved and its peak.
fn of_pool(line: &Value, pool: &str) -> [Option<i64>; 4] {
    METRICS.map(|metric| line["metrics"][format!("pool.{pool}.{metric}")].as_i64())
}

fn source<'a>(record: &'a Record, metric: &str) -> &'a str {
    let mut sources = record.events("sources").into_iter().filter_map(|line| line["sources"].get(metric));
    let source = sources.next().unwrap_or_else(|| panic!("no source of {metric}"));
    assert_eq!(sources.next(), None, "{metric} has one source");
    source.as_str().unwrap()
}

fn reasons<'a>(record: &'a Record, metric: &str) -> Vec<&'a str> {
    let lines = record.events("absent").into_iter().filter(|line| line["metric"] == metric);
    lines.map(|line| line["reason"].as_str().unwrap()).collect()
}

#[test]
fn a_pool_is_asked_at_checkpoints_and_its_peak_is_the_highest_answer() {
    let record = run(&[]);
    let at = |label: &str| of_pool(record.checkpoint(label), "the-sampled-one");
    assert_eq!(at("before"), [None; 4]);
    assert_eq!(at("watched"), [1000, 1000, 4096, 4096].map(Some));
    // It was at 7000 in between, and nobody asked.
    assert_eq!(at("grown"), [3000, 3000, 8192, 8192].map(Some));
    // The scope asked at 9000.
    assert_eq!(at("after the scope"), [3500, 9000, 9000, 9000].map(Some));
    assert_eq!(at("done"), [None; 4], "it may be gone by then");
    assert_eq!(source(&record, "pool.the-sampled-one.in_use"), "the pool itself");
    let sampled = "the highest at checkpoints, scopes and memprof::trim (sampled)";
    assert_eq!(source(&record, "pool.the-sampled-one.in_use_peak"), sampled);
    assert_eq!(reasons(&record, "pool.the-sampled-one.in_use"), [] as [&str; 0]);
}

#[test]
fn a_pool_that_keeps_its_peak_has_it_exactly_for_each_interval() {
    let record = run(&[]);
    let at = |label: &str| of_pool(record.checkpoint(label), "exact");
    // What it had before it was watched does not count.
    assert_eq!(at("watched"), [500, 500, 1000, 1000].map(Some));
    assert_eq!(at("grown"), [600, 7000, 8000, 8000].map(Some));
    assert_eq!(at("after the scope"), [700, 2000, 8000, 8000].map(Some));
    assert_eq!(at("trimmed"), [700, 700, 8000, 8000].map(Some));
    let exact = "the pool itself, which keeps its peak (exact)";
    assert_eq!(source(&record, "pool.exact.in_use_peak"), exact);
    assert_eq!(source(&record, "pool.exact.reserved_peak"), exact);
}

#[test]
fn what_ended_has_its_last_peak_at_the_next_checkpoint_and_no_figures_after_it() {
    let record = run(&[]);
    let at = |label: &str| of_pool(record.checkpoint(label), "exact");
    assert_eq!(at("dropped"), [None, Some(5000), None, Some(8000)]);
    assert_eq!(at("gone"), [None; 4]);
    // The log calls its peak exact, and this one keeps none.
    assert_eq!(at("again"), [Some(1), None, Some(2), None]);
    assert_eq!(at("done"), [None; 4]);
}

#[test]
fn a_scope_has_what_a_pool_did_in_it() {
    let record = run(&[]);
    let of_scope = |label: &str, family: &str| {
        ["consumed", "peaked", "used"].map(|part| {
            let figure = &record.scope(label)["metrics"][format!("pool.{family}.{part}")];
            figure.as_i64()
        })
    };
    assert_eq!(of_scope("scope", "the-sampled-one"), [500, 5500, 3500].map(Some));
    assert_eq!(of_scope("scope", "the-sampled-one.reserved"), [808, 0, 9000].map(Some));
    assert_eq!(of_scope("scope", "exact"), [100, 1300, 700].map(Some));
    // Nobody knows what was in use before the pool was watched.
    assert_eq!(of_scope("outer", "the-sampled-one"), [None; 3]);
    assert_eq!(of_scope("ended", "exact"), [None; 3]);
}

#[test]
fn trimming_asks_the_pools_to_release_and_keeps_the_peaks() {
    let record = run(&[]);
    let trimmed = of_pool(record.checkpoint("trimmed"), "the-sampled-one");
    assert_eq!(trimmed, [100, 3500, 100, 9000].map(Some));
}

#[test]
fn checkpoints_trim_pools_if_asked_to_and_traced_calls_do_not() {
    let experiment = Experiment::of(program("pools", &[])).arg("traced").env("MEMPROF_TRIM", "1");
    let record = experiment.env("MEMPROF_TRACE_COLUMNS", "heap,pool").succeed();
    let trimmed = |label: &str| figure(record.checkpoint(label), "pool.counts.in_use");
    assert_eq!((trimmed("before"), trimmed("after")), (1, 2));
}

#[test]
fn pools_of_one_name_are_numbered_and_a_free_name_is_used_again() {
    let record = run(&["names"]);
    let in_use = |label: &str, pool: &str| of_pool(record.checkpoint(label), pool)[0];
    assert_eq!(["twin", "twin.2", "twin.3"].map(|pool| in_use("both", pool)), [Some(1), Some(2), None]);
    assert_eq!(["twin", "twin.2", "twin.3"].map(|pool| in_use("again", pool)), [Some(3), Some(2), None]);
}

#[test]
fn what_a_program_reports_holds_until_its_next_report() {
    let record = run(&["names"]);
    let at = |label: &str| of_pool(record.checkpoint(label), "told-cuda:0");
    assert_eq!(at("reported"), [20, 30, 100, 100].map(Some));
    assert_eq!(at("reported no more"), [20, 20, 100, 100].map(Some));
    assert_eq!(at("done"), [20, 20, 100, 100].map(Some));
    assert_eq!(source(&record, "pool.told-cuda:0.in_use"), "as last reported through memprof::pool");
    assert_eq!(record.events("pool").len(), 3, "the tensor report has them all");
}

#[test]
fn a_pool_without_figures_says_why_once() {
    let record = run(&["names"]);
    for metric in METRICS {
        assert_eq!(reasons(&record, &format!("pool.none.{metric}")), ["there is none"]);
        let no_answer = ["the pool did not report its figures at a checkpoint"];
        assert_eq!(reasons(&record, &format!("pool.missing.{metric}")), no_answer);
    }
    assert_eq!(of_pool(record.checkpoint("absent"), "missing"), [None; 4]);
}

#[test]
fn what_an_answer_logs_asks_no_pool_again() {
    let record = run(&["inside"]);
    // Once when it was watched, once for the checkpoint, and once at its end.
    assert_eq!(record.labels(), ["start", "inside", "inside", "outside", "inside", "done"]);
    for line in record.events("checkpoint").into_iter().filter(|line| line["label"] == "inside") {
        assert_eq!(of_pool(line, "nested")[0], None, "{line}");
    }
    assert_eq!(figure(record.checkpoint("outside"), "pool.nested.in_use"), 5);
}

#[test]
fn threads_watch_ask_and_end_pools_at_once() {
    let record = run(&["threads"]);
    let steps: Vec<&Value> =
        record.events("checkpoint").into_iter().filter(|line| line["at"].is_string()).collect();
    assert_eq!(steps.len(), 400);
    for line in steps {
        let metrics = line["metrics"].as_object().unwrap().iter();
        let in_use = metrics.filter(|(name, _)| name.starts_with("pool.shared") && name.ends_with(".in_use"));
        let figures: Vec<u64> = in_use.map(|(_, figure)| figure.as_u64().unwrap()).collect();
        let thread: u64 = line["label"].as_str().unwrap()[7..8].parse().unwrap();
        assert!(figures.contains(&(thread + 1)), "its own pool is there: {line}");
        assert!(figures.iter().all(|figure| (1..=4).contains(figure)) && figures.len() <= 4, "{line}");
    }
}

#[test]
fn pools_beyond_the_logs_room_are_absent_with_that_reason() {
    let record = run(&["many"]);
    let all = record.checkpoint("all");
    let known = |pool: i64| of_pool(all, &format!("p{pool}")) == [Some(pool); 4];
    let measured = (0..40).take_while(|pool| known(*pool)).count();
    assert!((25..32).contains(&measured), "{measured}");
    for pool in measured..40 {
        let reason = reasons(&record, &format!("pool.p{pool}.in_use"));
        assert_eq!(reason, ["this process has more pools than the log has room for"]);
    }
}

#[test]
fn watching_a_pool_takes_nothing_from_the_heap_and_frees_what_its_function_owns() {
    let record = run(&["heap"]);
    assert_eq!(record.figure("watched", "heap.count"), 0);
    assert_eq!(record.figure("watched", "heap.live"), record.figure("owned", "heap.live"));
    assert_eq!(record.figure("dropped", "heap.live"), record.figure("owned", "heap.live") - 1000);
    assert_eq!(record.figure("watched", "pool.owner.in_use"), 1000);
}

#[test]
fn outside_a_run_no_pool_is_asked() {
    let record = Experiment::outside_a_run(program("pools", &[])).arg("inside").succeed();
    assert!(!record.has_log());
}
