//! What every form of the report looks like.

use crate::support::synthetic::{Log, Synthetic, readings};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_plan::rule::Judging;
use memprof_report::github;
use memprof_report::options::{Format, Options, Rows, View};
use serde_json::{Value, json};

pub(crate) const KIB: i64 = 1024;
pub(crate) const MIB: i64 = 1024 * KIB;

pub(crate) fn rendered(format: Format, comparison: &Comparison, options: &Options) -> String {
    let mut out = Vec::new();
    memprof_report::render::render(format, comparison, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

pub(crate) fn table(comparison: &Comparison, options: &Options) -> String {
    rendered(Format::Table, comparison, options)
}

pub(crate) fn at_width(width: usize) -> Options {
    Options {
        width: Some(width),
        report_path: Some("target/memprof/latest".to_owned()),
        ..Options::default()
    }
}

/// What a scope logs: what it left behind, what it took beside that, and what was live at its end.
fn scope_readings(consumed: i64, peaked: i64) -> [(&'static str, i64); 9] {
    [
        ("heap.consumed", consumed),
        ("heap.peaked", peaked),
        ("heap.used", 8_088 * MIB),
        ("heap.allocated", 96 * MIB),
        ("heap.count", 9_120),
        ("cpu.consumed", 0),
        ("cpu.peaked", peaked + 12 * KIB),
        ("cpu.used", 8_160 * MIB),
        ("time", 300_000_000),
    ]
}

fn baseline_log(repeat: i64) -> Log {
    Log::new()
        .checkpoint("start", &readings(43_110 * KIB, 61 * MIB, 1_204, 0))
        .checkpoint(
            "weights loaded",
            &readings(900 * MIB, 921 * MIB + repeat * 12 * KIB, 2_310, 140 + repeat),
        )
        .checkpoint(
            "done encoder, outputs shaped [24, 1024, 1024]",
            &readings(7_844 * MIB, 7_901 * MIB, 40_377, 900),
        )
        .checkpoint("beam search", &readings(8_100 * MIB, 8_150 * MIB, 41_002, 1_300))
        .scope("decoder", &scope_readings(-12 * MIB, 640 * KIB))
        .checkpoint("done", &readings(8_900 * MIB, 8_990 * MIB, 52_881, 1_702))
}

fn candidate_log(repeat: i64) -> Log {
    Log::new()
        .checkpoint("start", &readings(43_110 * KIB, 61 * MIB, 1_204, 0))
        .checkpoint(
            "weights loaded",
            &readings(900 * MIB, 921 * MIB + repeat * 20 * KIB, 2_310, 151 - repeat),
        )
        .checkpoint(
            "done encoder, outputs shaped [24, 1024, 1024]",
            &readings(10_209 * MIB, 10_290 * MIB, 40_390, 870),
        )
        .checkpoint("greedy search", &readings(8_100 * MIB, 8_160 * MIB, 41_002, 1_280))
        .scope("decoder", &scope_readings(-12 * MIB, 1_900 * KIB))
        .checkpoint("kv cache warmed", &readings(10_240 * MIB, 10_300 * MIB, 40_400, 901))
        .checkpoint("done", &readings(8_388 * MIB, 8_480 * MIB, 49_102, 1_650))
}

#[test]
fn a_new_test_that_fails_is_a_failed_case_and_no_skipped_one() {
    let log = Log::new().checkpoint("start", &[("heap.peak", MIB)]);
    let rules = vec![cargo_memprof::arguments::values::limit("heap.peak=1KiB").unwrap()];
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .judging(Judging { rules, ..Judging::default() })
        .failed("fails", 0, Status::NotInThisRef, "", None)
        .failed("fails", 1, Status::Failed { exit_code: 101 }, "boom", None)
        .failed("large", 0, Status::NotInThisRef, "", None)
        .passed("large", 1, 0, &log)
        .passed("gone", 0, 0, &log)
        .failed("gone", 1, Status::NotInThisRef, "", None);
    let junit = rendered(Format::Junit, &compare(&synthetic.results()), &Options::default());
    assert!(junit.contains("tests=\"3\" failures=\"2\" errors=\"0\" skipped=\"1\""), "{junit}");
    assert_eq!(junit.matches("<skipped").count(), 1, "{junit}");
}

#[test]
fn the_context_stands_apart_once_and_with_both_costs_where_they_differ() {
    let log = |context: i64| {
        let gpu = [("gpu.0.peak", 9 * MIB), ("gpu.0.process", 9 * MIB + context), ("gpu.0.context", context)];
        Log::new().checkpoint("start", &[("heap.peak", MIB)]).checkpoint("done", &gpu)
    };
    let with = |candidate: i64| {
        let synthetic = Synthetic::new(&["main", "pr/7"]).passed("hf", 0, 0, &log(526 * MIB));
        compare(&synthetic.passed("hf", 1, 0, &log(candidate)).results())
    };
    let shown = table(&with(526 * MIB), &at_width(100));
    assert!(shown.contains("GPU 0: context 526 MiB (included in gpu.0.process and .device only)"), "{shown}");
    let shown = table(&with(530 * MIB), &at_width(120));
    assert!(shown.contains("GPU 0: context 526 MiB in main, 530 MiB in pr/7 (included"), "{shown}");
    let heap_only = Options { metrics: Some(vec!["heap.peak".to_owned()]), ..at_width(100) };
    assert!(!table(&with(526 * MIB), &heap_only).contains("context"));
}

pub(crate) fn usual() -> Comparison {
    let mut synthetic = Synthetic::new(&["main", "pr/3370"]).builds(&json!({
        "0": {"toolchain": "1.95.0", "profile": "test", "lock": "a".repeat(64)},
        "1": {"toolchain": "1.94.1", "profile": "test", "lock": "b".repeat(64)},
    }));
    for repeat in 0..3 {
        synthetic = synthetic.passed("hf_fwd", 0, repeat, &baseline_log(i64::from(repeat))).passed(
            "hf_fwd",
            1,
            repeat,
            &candidate_log(i64::from(repeat)),
        );
    }
    compare(&synthetic.results())
}

/// A test that crashes in the candidate, one that only the candidate has, one whose figures cannot be compared.
pub(crate) fn troubled() -> Comparison {
    let log = || Log::new().checkpoint("start", &readings(MIB, 5 * MIB, 10, 0));
    let whole = log()
        .checkpoint("parsed", &readings(3 * MIB, 7 * MIB, 90, 4))
        .checkpoint("done", &readings(2 * MIB, 6 * MIB, 91, 5));
    let own_allocator = Log::new()
        .absent("heap.peak", "the target has its own #[global_allocator]")
        .absent("heap.live", "the target has its own #[global_allocator]")
        .source("cpu.peak", "VmHWM since the start")
        .checkpoint("start", &[("cpu.peak", 6 * MIB), ("time", 0)])
        .checkpoint("done", &[("cpu.peak", 9 * MIB), ("time", 7_000_000)]);
    let message = "thread 'tests::crashes' panicked at src/lib.rs:31:9:\nassertion `left == right` failed\n  left: 3\n right: 4\nnote: run with `RUST_BACKTRACE=1`\n\none\ntwo\nthree";
    let synthetic = Synthetic::new(&["main", "pr/3370"])
        .passed("crashes", 0, 0, &whole)
        .failed("crashes", 1, Status::Failed { exit_code: 101 }, message, Some(&log()))
        .failed("is_new", 0, Status::NotInThisRef, "", None)
        .passed("is_new", 1, 0, &whole)
        .passed("own_allocator", 0, 0, &log().checkpoint("done", &readings(2 * MIB, 6 * MIB, 91, 5)))
        .passed("own_allocator", 1, 0, &own_allocator)
        .passed("times_out", 0, 0, &whole)
        .failed("times_out", 1, Status::Timeout { limit_seconds: 60 }, "", None);
    compare(&synthetic.results())
}

/// A test whose executable cannot be measured in the candidate, and an executable that no revision can measure.
fn not_measured() -> Comparison {
    let executable = |binary: &str| json!({ "package": "bart", "binary": binary, "kind": "test", "reason": "its file has no place for the build key" });
    let facts = |executables: &[Value]| json!({ "toolchain": "rustc 1.95.0", "not_measured": executables });
    let builds = json!({
        "0": facts(&[executable("hidden")]),
        "1": facts(&[executable("hidden"), executable("tests")]),
    });
    let log = Log::new().checkpoint("start", &readings(MIB, 5 * MIB, 10, 0));
    let reason = "bart::tests: its file has no place for the build key";
    let synthetic = Synthetic::new(&["main", "pr/3370"])
        .builds(&builds)
        .passed("keeps", 0, 0, &log.checkpoint("done", &readings(2 * MIB, 6 * MIB, 91, 5)))
        .failed("keeps", 1, Status::NotMeasured, reason, None);
    compare(&synthetic.results())
}

#[test]
fn an_executable_that_is_not_measured_is_in_every_format() {
    let comparison = not_measured();
    let rendered = |format: Format, view: View| {
        let mut text = Vec::new();
        let options = Options { view, ..at_width(400) };
        memprof_report::render::render(format, &comparison, &options, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let hidden = "bart::hidden in main: its file has no place for the build key";
    let both = "bart::hidden in main and pr/3370: its file has no place for the build key";
    for view in [View::Checkpoints, View::Scopes, View::Top, View::Tensors] {
        let text = rendered(Format::Table, view);
        assert!(text.contains(&format!("not measured: {both}")), "{text}");
    }
    let table = rendered(Format::Table, View::Checkpoints);
    assert!(table.starts_with("memory: 1 test not compared · main "), "{table}");
    assert!(
        table.contains("✗ keeps: pr/3370 was not measured") && !table.contains("no such test"),
        "{table}"
    );
    assert!(!table.contains("not measured: bart::tests"), "its test says so: {table}");
    let markdown = rendered(Format::Markdown, View::Checkpoints);
    assert!(markdown.contains(&format!("✗ not measured: {both}")), "{markdown}");
    let csv = rendered(Format::Csv, View::Checkpoints);
    assert!(
        csv.lines().any(|line| line.starts_with("main,") && line.contains(",bart::hidden,,,0,not_measured,")),
        "{csv}"
    );
    let junit = rendered(Format::Junit, View::Checkpoints);
    assert!(junit.contains(&format!("<failure message=\"not measured: {hidden}\"")), "{junit}");
    let json: Value = serde_json::from_str(&rendered(Format::Json, View::Checkpoints)).unwrap();
    let entry = json!({ "ref": "main", "executable": "bart::hidden", "reason": "its file has no place for the build key" });
    assert_eq!(json["not_measured"][0], entry);
    assert_eq!(json["not_measured"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["cells"][1]["outcome"], "not_measured");
    let annotations = github::annotations(&comparison, &Options::default());
    let annotation = format!("::error title=Memory not measured::not measured: {both}");
    assert!(annotations.contains(&annotation), "{annotations:?}");
}

#[test]
fn the_table_is_read_at_any_usual_width() {
    for width in [80, 100, 120] {
        let text = table(&usual(), &at_width(width));
        // A command is for copying.
        for line in text.lines().filter(|line| !line.starts_with("next: ")) {
            assert!(unicode_width::UnicodeWidthStr::width(line) <= width, "wider than {width}: {line}");
        }
        insta::assert_snapshot!(format!("table_{width}"), text);
    }
}

#[test]
fn colours_change_nothing_but_the_colour() {
    for width in [80, 100, 120] {
        let plain = table(&usual(), &at_width(width));
        let coloured = table(&usual(), &Options { color: true, ..at_width(width) });
        assert_ne!(coloured, plain);
        assert_eq!(without_colours(&coloured), plain);
        insta::assert_snapshot!(format!("table_{width}_coloured"), coloured.replace('\u{1b}', "^"));
    }
}

/// The text as a terminal without colours would show it, less the blanks at the ends of lines.
fn without_colours(text: &str) -> String {
    let escape = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    let mut plain = String::new();
    for line in escape.replace_all(text, "").lines() {
        plain.push_str(line.trim_end());
        plain.push('\n');
    }
    plain
}

#[test]
fn failures_and_absences_are_told_beside_the_figures() {
    for width in [80, 100] {
        insta::assert_snapshot!(format!("table_{width}_troubled"), table(&troubled(), &at_width(width)));
    }
}

#[test]
fn all_metrics_are_stacked_in_blocks() {
    insta::assert_snapshot!(table(&usual(), &Options { all: true, ..at_width(100) }));
}

#[test]
fn chosen_metrics_come_in_the_order_chosen() {
    let metrics = Some(vec!["time".to_owned(), "heap.c*".to_owned()]);
    insta::assert_snapshot!(table(&usual(), &Options { metrics, ..at_width(100) }));
}

#[test]
fn compact_is_a_line_a_test_and_metric() {
    insta::assert_snapshot!("compact_usual", table(&usual(), &Options { compact: true, ..at_width(100) }));
    insta::assert_snapshot!(
        "compact_troubled",
        table(&troubled(), &Options { compact: true, ..at_width(100) })
    );
}

#[test]
fn only_changed_leaves_out_equal_rows_and_tests() {
    let same = Log::new().checkpoint("start", &readings(MIB, 5 * MIB, 10, 0));
    let more = same.clone().checkpoint("done", &readings(3 * MIB, 8 * MIB, 10, 0));
    let less = same.clone().checkpoint("done", &readings(2 * MIB, 8 * MIB, 10, 0));
    let synthetic = Synthetic::new(&["main", "pr/3370"])
        .passed("changes", 0, 0, &less)
        .passed("changes", 1, 0, &more)
        .passed("stays", 0, 0, &same)
        .passed("stays", 1, 0, &same);
    let options = Options { only_changed: true, ..at_width(100) };
    insta::assert_snapshot!(table(&compare(&synthetic.results()), &options));
}

#[test]
fn tests_of_one_name_are_told_apart_by_where_they_live() {
    let log = |heap| Log::new().checkpoint("done", &[("heap.peak", heap)]);
    let synthetic = Synthetic::new(&["main", "pr/3370"])
        .passed("forward", 0, 0, &log(MIB))
        .passed("forward", 1, 0, &log(9 * MIB))
        .passed("other", 0, 0, &log(MIB))
        .passed("other", 1, 0, &log(5 * MIB));
    let mut results = synthetic.results();
    assert!(table(&compare(&results), &at_width(100)).contains(" ? forward  heap.peak"));
    for run in results.runs.iter_mut().filter(|run| run.record.cell.title == "other") {
        let cell = &mut run.record.cell;
        (cell.title, cell.test.name, cell.test.binary) = ("forward".into(), "forward".into(), "gpu".into());
    }
    let comparison = compare(&results);
    let compact = table(&comparison, &Options { compact: true, ..at_width(100) });
    for test in ["bart::tests forward", "bart::gpu forward"] {
        assert!(compact.contains(&format!("{test}  ")), "{compact}");
        assert!(table(&comparison, &at_width(100)).contains(&format!(" ? {test}  ")));
    }
    // There, the class says where it lives.
    assert!(rendered(Format::Junit, &comparison, &Options::default()).contains("name=\"forward\""));
}

#[test]
fn a_long_test_shows_its_changed_rows_in_order_and_says_what_is_left_out() {
    let log = |growth: i64| {
        (0..500).fold(Log::new(), |log, step| {
            let heap = if step % 5 == 0 { MIB + growth * step } else { MIB };
            log.checkpoint("step", &[("heap.peak", heap)])
        })
    };
    let synthetic =
        Synthetic::new(&["main", "pr/3370"]).passed("long", 0, 0, &log(0)).passed("long", 1, 0, &log(KIB));
    let comparison = compare(&synthetic.results());
    let text = table(&comparison, &at_width(100));
    let numbers: Vec<u32> = text
        .lines()
        .filter_map(|line| line.split_once("step #")?.1.split(' ').next()?.parse().ok())
        .collect();
    let shown = &numbers[..40];
    assert!(shown.is_sorted(), "in the order of the run: {shown:?}");
    assert_eq!((shown[0], shown[39]), (301, 496), "the forty that grew most");
    assert!(
        text.contains(" … 460 rows not shown (59 smaller changes): --rows all or --format csv\n"),
        "{text}"
    );
    let whole = table(&comparison, &Options { rows: Rows::All, ..at_width(100) });
    assert_eq!(whole.matches("│").count(), 502);
    assert!(!whole.contains("not shown"));
}

#[test]
fn labels_of_any_script_and_length_keep_the_columns_aligned() {
    let log = Log::new()
        .checkpoint("層を通過しました、出力の形は [24, 1024, 1024] になっています", &[("heap.peak", MIB)])
        .checkpoint("tab\there\nand a second line \u{1b}[31m", &[("heap.peak", 2 * MIB)])
        .checkpoint("👩‍👩‍👧 family", &[("heap.peak", 3 * MIB)])
        .checkpoint(&"long ".repeat(60), &[("heap.peak", 4 * MIB)]);
    let synthetic = Synthetic::new(&["main", "feature/a-rather-long-branch-name-indeed"])
        .passed("labels", 0, 0, &log)
        .passed("labels", 1, 0, &log);
    let text = table(&compare(&synthetic.results()), &at_width(80));
    assert!(text.lines().all(|line| unicode_width::UnicodeWidthStr::width(line) <= 80), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_table_is_never_empty_for_want_of_the_default_metrics() {
    let log = Log::new().checkpoint("start", &[("cpu.rss", MIB), ("time", 0)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let text = table(&compare(&synthetic.results()), &at_width(100));
    assert!(text.contains("cpu.rss") && text.contains("time"), "{text}");
}

#[test]
fn a_metric_that_nobody_knows_is_told_with_those_there_are() {
    let log = Log::new().checkpoint("start", &[("cpu.rss", MIB), ("time", 0)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let metrics = Some(vec!["cpu.*".to_owned(), "heap.paek".to_owned(), "gpu.0.peak".to_owned()]);
    let text = table(&compare(&synthetic.results()), &Options { metrics, ..at_width(100) });
    assert!(text.contains("\nno metric is named 'heap.paek'; measured: cpu.rss, time\n"), "{text}");
    assert!(text.contains("\ngpu.0.peak was not measured: no test used a GPU with this metric\n"), "{text}");
}

#[test]
fn gpu_peaks_come_first_where_there_are_any() {
    let log =
        Log::new().checkpoint("start", &[("heap.peak", MIB), ("gpu.0.live", MIB), ("gpu.0.peak", 896 * MIB)]);
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let text = table(&compare(&synthetic.results()), &at_width(120));
    let heading = text.lines().find(|line| line.contains('│')).unwrap();
    let names: Vec<&str> = heading.split('│').map(str::trim).filter(|name| !name.is_empty()).collect();
    assert_eq!(names, ["gpu.0.peak", "heap.peak"]);
}

#[test]
fn each_candidate_is_compared_with_the_baseline() {
    let log = |heap| {
        Log::new().checkpoint("start", &[("heap.peak", MIB)]).checkpoint("done", &[("heap.peak", heap)])
    };
    let synthetic = Synthetic::new(&["main", "pr/1", "pr/2"])
        .passed_with("t", &[("batch", "16")], 0, &log(MIB))
        .passed_with("t", &[("batch", "16")], 1, &log(2 * MIB))
        .passed_with("t", &[("batch", "16")], 2, &log(3 * MIB))
        .passed_with("t", &[("batch", "4")], 0, &log(MIB))
        .passed_with("t", &[("batch", "4")], 1, &log(MIB))
        .passed_with("t", &[("batch", "4")], 2, &log(MIB));
    let comparison = compare(&synthetic.results());
    insta::assert_snapshot!("three_refs_table", table(&comparison, &at_width(80)));
    insta::assert_snapshot!(
        "three_refs_markdown",
        rendered(Format::Markdown, &comparison, &Options::default())
    );
}

#[test]
fn markdown_says_the_answer_first_and_folds_the_rest() {
    insta::assert_snapshot!("markdown_usual", rendered(Format::Markdown, &usual(), &Options::default()));
    insta::assert_snapshot!(
        "markdown_troubled",
        rendered(Format::Markdown, &troubled(), &Options::default())
    );
}

#[test]
fn markdown_fits_into_a_comment_and_says_what_was_cut() {
    let log = |growth: i64| {
        (0..40).fold(Log::new(), |log, step| {
            log.checkpoint(
                &format!("step {step} {}", "|".repeat(9_000)),
                &[("heap.peak", MIB + growth * MIB)],
            )
        })
    };
    let mut synthetic = Synthetic::new(&["main", "pr/3370"]);
    for test in 0..12 {
        let name = format!("test_{test}");
        for repeat in 0..2 {
            synthetic = synthetic.passed(&name, 0, repeat, &log(0)).passed(&name, 1, repeat, &log(test));
        }
    }
    let message = "@someone `|`\n".repeat(5) + &"x".repeat(70_000);
    synthetic = synthetic.failed("fails", 1, Status::BuildFailed, &message, None);
    let text = rendered(
        Format::Markdown,
        &compare(&synthetic.results()),
        &Options { rows: Rows::All, ..Options::default() },
    );
    assert!(text.chars().count() <= 65_000, "{} characters", text.chars().count());
    assert!(text.starts_with(
        "<!-- cargo-memprof -->\n**Memory: 11 of 13 tests regressed and 1 not compared** · `main`"
    ));
    assert!(
        text.contains("left out: the comment is full; `--format csv` and `--format json` show all._"),
        "{}",
        &text[text.len() - 300..]
    );
    assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
}

#[test]
fn junit_has_a_case_a_test_and_fails_where_something_regressed() {
    insta::assert_snapshot!("junit_usual", rendered(Format::Junit, &usual(), &Options::default()));
    insta::assert_snapshot!("junit_troubled", rendered(Format::Junit, &troubled(), &Options::default()));
}

#[test]
fn bencher_has_the_candidates_figures_and_none_of_a_test_that_failed() {
    let figures = |comparison: &Comparison| -> serde_json::Value {
        serde_json::from_str(&rendered(Format::Bencher, comparison, &Options::default())).unwrap()
    };
    insta::assert_json_snapshot!("bencher_usual", figures(&usual()));
    let text = rendered(Format::Bencher, &troubled(), &Options::default());
    assert!(!text.contains("crashes"), "{text}");
    let log = |peak| Log::new().checkpoint("done", &[("heap.peak", peak)]);
    let mut synthetic = Synthetic::new(&["main", "pr/1", "pr/2"]);
    for (revision, peak) in [5, 7, 9].into_iter().enumerate() {
        synthetic = synthetic.passed("t", revision, 0, &log(peak));
    }
    assert_eq!(
        figures(&compare(&synthetic.results())),
        serde_json::json!({
            "bart::tests t at pr/1": {"heap.peak": {"value": 7}},
            "bart::tests t at pr/2": {"heap.peak": {"value": 9}},
        })
    );
    let alone = compare(&Synthetic::new(&["main"]).passed("t", 0, 0, &log(5)).results());
    assert_eq!(figures(&alone), serde_json::json!({"bart::tests t": {"heap.peak": {"value": 5}}}));
}

#[test]
fn what_regressed_is_an_annotation_in_actions() {
    insta::assert_snapshot!(memprof_report::github::annotations(&usual(), &Options::default()).join("\n"));
}

#[test]
fn csv_has_one_value_a_row_and_loses_no_outcome() {
    let log = Log::new()
        .checkpoint("a, \"b\"\nc", &[("heap.peak", MIB), ("time", 5)])
        .scope("s", &[("heap.consumed", -7)]);
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .passed_with("t", &[("batch", "4"), ("dtype", "f32")], 0, &log)
        .failed("t", 1, Status::BuildFailed, "error[E0425]", None);
    insta::assert_snapshot!(rendered(Format::Csv, &compare(&synthetic.results()), &Options::default()));
}

#[test]
fn json_is_what_its_types_and_its_schema_say() {
    for comparison in [usual(), troubled()] {
        let text = rendered(Format::Json, &comparison, &Options::default());
        let report: memprof_report::json::schema::Report = serde_json::from_str(&text).unwrap();
        assert_eq!(report.version, memprof_report::json::schema::VERSION);
        assert_eq!(report.cells.len(), comparison.runs.len());
        // Every field that was written is one that the types, and so the schema, know.
        let again = serde_json::to_value(&report).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(&text).unwrap());
    }
}

#[test]
fn json_rows_hold_both_deltas() {
    let text = rendered(Format::Json, &usual(), &Options::default());
    let report: memprof_report::json::schema::Report = serde_json::from_str(&text).unwrap();
    let row = |checkpoint: &str, metric: &str| {
        let mut rows = report.rows.iter();
        rows.find(|row| row.checkpoint == checkpoint && row.metric == metric).unwrap()
    };
    insta::assert_json_snapshot!("json_row_matched", row("weights loaded", "cpu.peak"));
    insta::assert_json_snapshot!("json_row_renamed", row("beam search", "heap.peak"));
    insta::assert_json_snapshot!("json_row_added", row("kv cache warmed", "heap.count"));
    insta::assert_json_snapshot!("json_cell", &report.cells[0]);
}

#[test]
fn json_of_a_failed_run_keeps_what_it_logged_and_compares_nothing() {
    let text = rendered(Format::Json, &troubled(), &Options::default());
    let report: memprof_report::json::schema::Report = serde_json::from_str(&text).unwrap();
    let rows: Vec<_> =
        report.rows.iter().filter(|row| row.test.ends_with("crashes") && row.metric == "heap.peak").collect();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.change.is_none() && row.delta["pr/3370"].is_none()));
    assert!(rows[0].values["pr/3370"].as_ref().unwrap().cut_off);
    assert_eq!(rows[1].absent["pr/3370"], "not reached: failed (exit code 101)");
    let cell =
        report.cells.iter().find(|cell| cell.test.ends_with("crashes") && cell.r#ref == "pr/3370").unwrap();
    assert_eq!((&*cell.outcome, &*cell.detail), ("failed", "failed (exit code 101)"));
}
