//! A row of a test says the same in every format: its figures, its verdict, and what limits them.

use cargo_memprof::arguments::values;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::why::chosen::{Why, choose};
use memprof_plan::rule::Judging;
use memprof_report::options::{Format, Options};
use regex::Regex;

use crate::judging::folder;
use crate::reports::{MIB, rendered};
use crate::support::synthetic::{Log, Synthetic};

fn figures(heap: i64) -> [(&'static str, i64); 1] {
    [("heap.peak", heap)]
}

/// A pair with rows of every kind, under a limit of 7 MiB.
fn every_kind() -> Comparison {
    let rules = vec![values::limit("heap.peak=7MiB").unwrap()];
    let allow = vec![
        values::allow("test=t,checkpoint=planned,reason=a larger cache").unwrap(),
        values::allow("test=t,checkpoint=bound,reason=a larger index").unwrap(),
    ];
    let old = Log::new()
        .checkpoint("start", &figures(MIB))
        .checkpoint("grown", &figures(4 * MIB))
        .checkpoint("planned", &figures(4 * MIB))
        .checkpoint("high", &figures(8 * MIB))
        .checkpoint("bound", &figures(2 * MIB))
        .checkpoint("gone", &figures(2 * MIB))
        .checkpoint("late", &[("cpu.rss", MIB)])
        .checkpoint("done", &figures(4 * MIB));
    let new = Log::new()
        .checkpoint("start", &figures(MIB))
        .checkpoint("came", &figures(3 * MIB))
        .checkpoint("grown", &figures(6 * MIB))
        .checkpoint("planned", &figures(5 * MIB))
        .checkpoint("high", &figures(8 * MIB))
        .checkpoint("bound", &figures(9 * MIB))
        .checkpoint("late", &figures(MIB))
        .checkpoint("done", &figures(2 * MIB));
    let judging = Judging { rules, allow, ..Judging::default() };
    let mut synthetic = Synthetic::new(&["main", "pr/7", "pr/8"]).judging(judging);
    for repeat in 0..2 {
        synthetic = synthetic.passed("t", 0, repeat, &old).passed("t", 1, repeat, &new);
        synthetic = synthetic.passed("t", 2, repeat, &new);
    }
    compare(&synthetic.results())
}

/// The same with a single candidate.
fn pair() -> Comparison {
    let mut comparison = every_kind();
    comparison.revisions.truncate(2);
    for cell in &mut comparison.cells {
        cell.pairs.truncate(1);
        cell.sides.truncate(2);
    }
    comparison
}

/// What a row has to say in each format: figures, difference, percentage, sign and remarks.
const ROWS: [(&str, &[&str]); 9] = [
    ("start", &["1.00 MiB", "="]),
    ("grown", &["4.00 MiB", "6.00 MiB", "+2.00 MiB", "+50.0 %", "▲"]),
    ("planned", &["4.00 MiB", "5.00 MiB", "+1.00 MiB", "+25.0 %", "▲", "as expected"]),
    ("high", &["8.00 MiB", "=", "over its limit"]),
    ("bound", &["2.00 MiB", "9.00 MiB", "+7.00 MiB", "▲", "over its limit, as expected"]),
    ("- gone", &["2.00 MiB", "—", "removed"]),
    ("+ came", &["—", "3.00 MiB", "added"]),
    ("late", &["—", "1.00 MiB", "not compared"]),
    ("done", &["4.00 MiB", "2.00 MiB", "-2.00 MiB", "-50.0 %", "▼"]),
];

fn of_heap(options: Options) -> Options {
    Options { metrics: Some(vec!["heap.peak".to_owned()]), ..options }
}

/// Checks that the line of each row has all that the row has to say, but for `left_out`.
fn check(lines: &[String], left_out: &[&str]) {
    for (label, parts) in ROWS {
        let line = lines
            .iter()
            .find(|line| line.starts_with(label))
            .unwrap_or_else(|| panic!("{label}: {lines:#?}"));
        for part in parts.iter().filter(|part| !left_out.iter().any(|one| part.contains(one))) {
            assert!(line.contains(part), "`{part}` of {line}");
        }
        if !parts.iter().any(|part| part.contains("over its limit")) {
            assert!(!line.contains("limit"), "{line}");
        }
    }
}

/// The rows of the table of checkpoints on a terminal, without colours.
fn of_terminal(comparison: &Comparison, options: Options) -> Vec<String> {
    let text = rendered(Format::Table, comparison, &of_heap(options));
    text.lines().filter_map(|line| line.strip_prefix(' ')).map(str::to_owned).collect()
}

#[test]
fn a_terminal_has_all_of_a_row() {
    check(&of_terminal(&pair(), Options::default()), &[]);
    let narrow = of_terminal(&pair(), Options { width: Some(80), ..Options::default() });
    check(&narrow, &[]);
}

#[test]
fn a_column_for_each_side_has_all_of_a_row_but_percentages() {
    check(&of_terminal(&every_kind(), Options::default()), &["%"]);
}

#[test]
fn a_comment_has_all_of_a_row() {
    let text = rendered(Format::Markdown, &pair(), &of_heap(Options::default()));
    let rows = text.lines().filter_map(|line| line.strip_prefix("| t | "));
    let plain = |line: &str| line.replace(['*', '\\'], "");
    check(&rows.map(plain).collect::<Vec<_>>(), &[]);
}

#[test]
fn the_page_has_all_of_a_row() {
    let page = rendered(Format::Html, &pair(), &of_heap(Options::default()));
    let table = page.split_once("<table class=\"checkpoints\">").unwrap().1.split_once("</table>").unwrap().0;
    let tags = Regex::new("<[^>]*>").unwrap();
    let rows = table.split("<tr").map(|row| tags.replace_all(row.split_once('>').map_or("", |of| of.1), " "));
    check(&rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>(), &[]);
}

#[test]
fn what_is_over_a_limit_comes_first_where_a_test_has_one_line() {
    let options = of_heap(Options { compact: true, ..Options::default() });
    let text = rendered(Format::Table, &pair(), &options);
    let line = text.lines().find(|line| line.starts_with(" t  heap.peak  8.00 MiB"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.ends_with("  over its limit: high"), "{line}");
}

#[test]
fn a_metric_that_is_never_compared_says_so_in_its_heading() {
    let figures = [("heap.peak", MIB), ("cpu.rss", MIB)];
    let old = Log::new().source("cpu.rss", "one kernel").checkpoint("done", &figures);
    let new = Log::new().source("cpu.rss", "another kernel").checkpoint("done", &figures);
    let synthetic = Synthetic::new(&["main", "pr/7"]).passed("t", 0, 0, &old).passed("t", 1, 0, &new);
    let options = Options { metrics: Some(vec!["cpu.rss".to_owned()]), ..Options::default() };
    let text = rendered(Format::Table, &compare(&synthetic.results()), &options);
    assert!(text.contains("│ cpu.rss · not compared\n") && !text.contains('Δ'), "{text}");
}

#[test]
fn one_revision_marks_the_checkpoint_over_its_limit_in_the_table_and_on_the_page() {
    let rules = vec![values::limit("heap.peak=4MiB").unwrap()];
    let log = Log::new()
        .checkpoint("start", &figures(0))
        .checkpoint("parsed", &figures(9 * MIB))
        .checkpoint("done", &figures(3 * MIB));
    let synthetic =
        Synthetic::new(&["main"]).judging(Judging { rules, ..Judging::default() }).passed("t", 0, 0, &log);
    let comparison = compare(&synthetic.results());
    let table = rendered(Format::Table, &comparison, &Options::default());
    let row =
        |label: &str| table.lines().find(|line| line.trim_start().starts_with(label)).unwrap().to_owned();
    assert!(row("parsed").contains("9.00 MiB ▲  over its limit"), "{table}");
    assert!(!row("done").contains("limit"), "{table}");
    let page = rendered(Format::Html, &comparison, &Options::default());
    assert!(page.contains("<td class=\"n up\">9.00 MiB ▲ over its limit</td>"), "{page}");
}

#[test]
fn growth_that_is_expected_and_not_certain_is_the_same_in_every_format() {
    let steps = |most: i64| (0..6).map(|run| most - (run % 3) * 10 * MIB).collect::<Vec<i64>>();
    let allow = vec![values::allow("metric=cpu.peak,reason=noisy").unwrap()];
    let judging = Judging { allow, ..Judging::default() };
    for (candidate, difference) in [(230 * MIB, "+10.0 MiB"), (220 * MIB, "=")] {
        let compared =
            compare(&folder("cpu.peak", &steps(220 * MIB), &steps(candidate), judging.clone()).results());
        assert!(choose(&compared, Why::Changed, 3).is_empty(), "{difference}: no cause");
        let shown = |format| rendered(format, &compared, &Options::default());
        let table = shown(Format::Table);
        let row = table.lines().find(|line| line.starts_with(" done")).expect("a row");
        assert!(table.contains("1 test may have grown, as expected"), "{difference}: {table}");
        assert!(row.contains('?') && row.contains("as expected"), "{difference}: {table}");
        let markdown = shown(Format::Markdown);
        assert!(markdown.contains("? inconclusive, as expected"), "{difference}: {markdown}");
        let json: serde_json::Value = serde_json::from_str(&shown(Format::Json)).unwrap();
        let verdict = &json["verdict"];
        assert_eq!((&verdict["expected"], &verdict["inconclusive"]), (&1.into(), &0.into()), "{verdict}");
        assert_eq!(verdict["tests"][0]["expected"], 1, "{verdict}");
    }
}

#[test]
fn an_improvement_is_told_before_growth_that_is_expected_and_not_certain() {
    let log = |resident: i64, heap: i64| {
        let at = |resident, heap| [("cpu.peak", resident), ("heap.peak", heap)];
        Log::new().checkpoint("start", &at(0, 0)).checkpoint("done", &at(resident, heap))
    };
    let allow = vec![values::allow("metric=cpu.peak,reason=noisy").unwrap()];
    let shown = |resident: [i64; 2], heap: [i64; 2]| {
        let mut synthetic =
            Synthetic::new(&["main", "pr/1"]).judging(Judging { allow: allow.clone(), ..Judging::default() });
        for repeat in 0..6 {
            let noise = i64::from(repeat % 3) * 10 * MIB;
            synthetic = synthetic.passed("t", 0, repeat, &log(resident[0] - noise, heap[0])).passed(
                "t",
                1,
                repeat,
                &log(resident[1] - noise, heap[1]),
            );
        }
        let comparison = compare(&synthetic.results());
        let texts = [Format::Table, Format::Markdown, Format::Junit, Format::Html];
        texts.map(|format| rendered(format, &comparison, &Options::default()))
    };
    let halved = [80 * MIB, 40 * MIB];
    let [table, markdown, junit, page] = shown([220 * MIB, 230 * MIB], halved);
    assert!(table.contains("memory: 1 test improved"), "{table}");
    assert!(table.contains("▼ t  heap.peak  80.0 → 40.0 MiB"), "{table}");
    assert!(markdown.contains("1 test improved"), "{markdown}");
    assert!(junit.contains("improved: heap.peak"), "{junit}");
    assert!(page.contains("1 test improved"), "{page}");
    let [table, ..] = shown([220 * MIB, 620 * MIB], halved);
    assert!(table.contains("memory: 1 test grown as expected"), "{table}");
    let [table, markdown, junit, page] = shown([220 * MIB, 230 * MIB], [MIB, MIB]);
    for text in [&table, &markdown, &page] {
        assert!(text.contains("1 test may have grown, as expected"), "{text}");
    }
    assert!(table.contains("? t  cpu.peak"), "{table}");
    assert!(junit.contains("may have grown, as expected: cpu.peak"), "{junit}");
}

#[test]
fn a_figure_above_a_limit_that_is_expected_has_not_grown() {
    let judging = Judging {
        rules: vec![values::limit("heap.peak=1MiB").unwrap()],
        allow: vec![values::allow("metric=heap.peak,limit=1KiB,reason=ok").unwrap()],
        ..Judging::default()
    };
    let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/1"]).judging(judging), |synthetic, repeat| {
        let log = Log::new().checkpoint("done", &figures(2 * MIB));
        synthetic.passed("t", 0, repeat, &log).passed("t", 1, repeat, &log)
    });
    let comparison = compare(&synthetic.results());
    for format in [Format::Table, Format::Markdown, Format::Junit, Format::Html] {
        let text = rendered(format, &comparison, &Options::default());
        assert!(!text.contains("grown as expected") && !text.contains("grew as expected"), "{text}");
        assert!(text.contains("as expected"), "{text}");
    }
    let table = rendered(Format::Table, &comparison, &Options::default());
    assert!(table.contains("memory: 1 test over a limit, as expected"), "{table}");
}
