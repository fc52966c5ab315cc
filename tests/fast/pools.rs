//! Metrics of memory pools, from a run's folder to tables, files, verdicts and limits.

use crate::pages::data;
use crate::support::synthetic::{Log, Synthetic};
use crate::support::tables::table;
use cargo_memprof::arguments::values;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::compare;
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::rule::{Judging, Rule};
use memprof_report::options::{Format, Options, View};
use memprof_run::bisect::metric_query::MetricQuery;

const MIB: i64 = 1 << 20;

/// A run whose pool hands out `more` in a step, and keeps nothing of it. At `done`, nobody asks it.
fn log(more: i64) -> Log {
    let in_use = |now, peak, reserved| {
        [
            ("heap.peak", MIB),
            ("pool.torch.in_use", now),
            ("pool.torch.in_use_peak", peak),
            ("pool.torch.reserved", reserved),
            ("pool.torch.reserved_peak", reserved),
        ]
    };
    let step = [
        ("heap.consumed", 0),
        ("pool.torch.consumed", 2 * MIB),
        ("pool.torch.peaked", 6 * MIB + more),
        ("pool.torch.used", 12 * MIB),
        ("pool.torch.reserved.consumed", 20 * MIB),
        ("pool.torch.reserved.used", 40 * MIB),
    ];
    Log::new()
        .source("pool.torch.in_use_peak", "the pool itself, which keeps its peak (exact)")
        .checkpoint("start", &[("heap.peak", MIB)])
        .checkpoint("loaded", &in_use(10 * MIB, 10 * MIB, 20 * MIB))
        .scope("step", &step)
        .checkpoint("stepped", &in_use(12 * MIB, 18 * MIB + more, 40 * MIB))
        .checkpoint("done", &[("heap.peak", MIB)])
}

fn compared(more: i64, rules: Vec<Rule>) -> Comparison {
    let mut synthetic = Synthetic::new(&["main", "pr/1"]).judging(Judging { rules, ..Judging::default() });
    for repeat in 0..2 {
        synthetic = synthetic.passed("t", 0, repeat, &log(0)).passed("t", 1, repeat, &log(more));
    }
    compare(&synthetic.results())
}

fn shown(comparison: &Comparison, options: Options) -> String {
    let mut out = Vec::new();
    let options = Options { width: Some(120), ..options };
    memprof_report::render::render(Format::Table, comparison, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn code(comparison: &Comparison) -> u8 {
    Conclusion::from_comparison(comparison).exit_code() as u8
}

#[test]
fn what_a_pool_hands_out_is_judged_and_shown_by_default_and_what_it_reserves_is_not() {
    let comparison = compared(5 * MIB, Vec::new());
    assert_eq!(code(&comparison), 1);
    let view = comparison.pairs().next().unwrap();
    let verdicts = |metric: &str| -> Vec<Verdict> {
        view.judged(metric).unwrap().rulings().map(|ruling| ruling.verdict).collect()
    };
    assert_eq!(verdicts("pool.torch.in_use"), [Verdict::Unchanged; 2]);
    assert_eq!(verdicts("pool.torch.in_use_peak"), [Verdict::Unchanged, Verdict::Regressed]);
    assert_eq!(verdicts("pool.torch.peaked"), [Verdict::Regressed]);
    assert!(view.judged("pool.torch.reserved").is_none());
    let text = shown(&comparison, Options::default());
    assert!(text.contains("pool.torch.in_use_peak") && !text.contains("pool.torch.reserved"), "{text}");
    assert!(text.contains("18.0 MiB") && text.contains("23.0 MiB"), "{text}");
    assert_eq!(code(&compared(0, Vec::new())), 0, "a checkpoint at which nobody asks it is no fault");
}

#[test]
fn thresholds_and_limits_hold_for_pools_of_any_name() {
    let rules = |rules: &[Rule]| code(&compared(5 * MIB, rules.to_vec()));
    let off = values::threshold("pool.*=off").unwrap();
    let wide = values::threshold("pool.torch.in_use_peak=50%").unwrap();
    assert_eq!(rules(std::slice::from_ref(&off)), 0);
    assert_eq!(rules(&[off.clone(), values::threshold("pool.torch.in_use_peak=1MiB").unwrap()]), 1);
    assert_eq!(rules(&[off.clone(), wide]), 0);
    assert_eq!(rules(&[off.clone(), values::limit("pool.*.reserved=39MiB").unwrap()]), 1);
    assert_eq!(rules(&[off, values::limit("pool.*.reserved=40MiB").unwrap()]), 0);
    assert!(
        values::limit("pool.torch.inuse=1MiB").unwrap_err().contains("did you mean 'pool.torch.in_use'?")
    );
}

#[test]
fn tables_and_scopes_show_the_pools_that_are_asked_for() {
    let comparison = compared(5 * MIB, Vec::new());
    let metrics = |metric: &str| Some(vec![metric.to_owned()]);
    let text = shown(&comparison, Options { metrics: metrics("pool.torch.reserved"), ..Options::default() });
    assert!(text.contains("pool.torch.reserved") && text.contains("40.0 MiB"), "{text}");
    let scopes = |metric: &str| {
        shown(&comparison, Options { view: View::Scopes, metrics: metrics(metric), ..Options::default() })
    };
    let of_use = scopes("pool.torch.in_use");
    assert!(of_use.contains("· pool torch") && !of_use.contains("pool torch, reserved"), "{of_use}");
    assert!(of_use.contains("6.00 MiB") && of_use.contains("11.0 MiB"), "{of_use}");
    let of_reserve = scopes("pool.torch.reserved_peak");
    assert!(of_reserve.contains("· pool torch, reserved") && of_reserve.contains("20.0 MiB"), "{of_reserve}");
    let unknown =
        shown(&comparison, Options { metrics: metrics("pool.cubecl.in_use"), ..Options::default() });
    let note = "pool.cubecl.in_use was not measured: no test watched a memory pool with this metric";
    assert!(unknown.contains(note), "{unknown}");
}

#[test]
fn files_have_the_figures_of_pools_and_their_sources() {
    let comparison = compared(5 * MIB, Vec::new());
    let rows = table(Format::CsvWide, &comparison);
    let stepped = rows.iter().find(|row| row["checkpoint"] == "stepped").unwrap();
    assert_eq!(stepped["pool.torch.in_use_peak:pr/1"], (23 * MIB).to_string());
    assert_eq!(stepped["pool.torch.reserved:main"], (40 * MIB).to_string());
    let rows = table(Format::Csv, &comparison);
    let sources = |metric: &str| -> Vec<&str> {
        rows.iter().filter(|row| row["metric"] == metric).map(|row| row["source"].as_str()).collect()
    };
    let exact = "the pool itself, which keeps its peak (exact)";
    for metric in ["pool.torch.in_use_peak", "pool.torch.peaked"] {
        assert!(sources(metric).contains(&exact), "{metric}: {:?}", sources(metric));
    }
    let mut page = Vec::new();
    memprof_report::render::render(Format::Html, &comparison, &Options::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let series = &data(&page)["tests"][0]["series"];
    assert!(series["pool.torch.in_use"].is_array() && series["pool.torch.reserved_peak"].is_array());
    let order: Vec<&str> = comparison.metrics.iter().map(|metric| metric.name.as_str()).collect();
    let place = |name: &str| order.iter().position(|metric| *metric == name).unwrap();
    assert!(place("pool.torch.reserved_peak") < place("heap.peak"), "{order:?}");
}

#[test]
fn a_search_goes_by_a_pools_figure() {
    let results = Synthetic::new(&["main"]).passed("t", 0, 0, &log(0)).results();
    let read = |metric: &str, checkpoint: Option<&str>| {
        let query = MetricQuery { metric: metric.into(), checkpoint: checkpoint.map(str::to_owned) };
        query.read(&results.runs[0]).map(|figure| figure.value)
    };
    assert_eq!(read("pool.torch.in_use", None), Ok(12 * MIB), "the last one that is known");
    assert_eq!(read("pool.torch.in_use_peak", None), Ok(18 * MIB));
    assert_eq!(read("pool.torch.in_use", Some("loaded")), Ok(10 * MIB));
    assert_eq!(read("pool.torch.in_use", Some("done")), Err("no pool.torch.in_use".to_owned()));
}
