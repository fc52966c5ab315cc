//! Several candidates beside one baseline: a column per side, of tests and of checkpoints.

use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_plan::axis_labels::AxisLabels;
use memprof_report::options::{Format, Options, Rows};

use crate::reports::{MIB, at_width, rendered, table};
use crate::support::synthetic::{Log, Synthetic};

const SIDES: [&str; 4] = [
    "main · dev · no features",
    "main · dev · simd",
    "main · release · no features",
    "main · release · simd",
];

fn log(labels: &[(&str, i64)]) -> Log {
    labels.iter().fold(Log::new(), |log, (label, mebibytes)| {
        log.checkpoint(label, &[("heap.live", mebibytes * MIB), ("heap.peak", mebibytes * MIB)])
    })
}

fn sides() -> Synthetic {
    let axis = |key: &str, values: [&str; 2]| AxisLabels {
        key: key.to_owned(),
        values: values.map(str::to_owned).to_vec(),
    };
    let both = [axis("profile", ["dev", "release"]), axis("features", ["no features", "simd"])];
    Synthetic::new(&SIDES).axes(&both, &[&[], &["simd"], &[], &["simd"]])
}

/// Each test has two runs, so that equal figures are exact.
fn twice(synthetic: Synthetic, test: &str, side: usize, log: &Log) -> Synthetic {
    synthetic.passed(test, side, 0, log).passed(test, side, 1, log)
}

/// One test that grows with the feature, one that differs in nothing, one that only the feature has, one
/// that fails in release, and one whose figures have another source at one side.
fn usual() -> Comparison {
    let mut synthetic = sides();
    for side in 0..4 {
        let simd = side % 2 == 1;
        let peak = if simd { 5 } else { 2 };
        let mut points = vec![("start", 0), ("parsed", peak)];
        if simd {
            points.push(("vectorised", peak + 1));
        }
        if side == 3 {
            points.push(("aligned", 1));
        }
        points.push(("done", 1));
        synthetic = twice(synthetic, "parses", side, &log(&points));
        synthetic = twice(synthetic, "same", side, &log(&[("start", 0), ("done", 3)]));
        if simd {
            synthetic = twice(synthetic, "vectors", side, &log(&[("start", 0), ("done", 4)]));
        }
        synthetic = if side == 2 {
            synthetic.failed(
                "asserts",
                side,
                Status::Failed { exit_code: 101 },
                "assertion failed",
                Some(&log(&[("start", 1), ("asserted", 1)])),
            )
        } else {
            twice(synthetic, "asserts", side, &log(&[("start", 1), ("done", 2)]))
        };
        let mut counted = log(&[("start", 1), ("done", 2 + i64::try_from(side).unwrap())]);
        if side == 1 {
            counted = counted.source("heap.peak", "another allocator");
        }
        synthetic = twice(synthetic, "counts", side, &counted);
    }
    compare(&synthetic.results())
}

/// The tables, without headlines and notes.
fn tables(comparison: &Comparison, options: &Options) -> String {
    let text = table(comparison, options);
    let from = text.find("all sides").expect("a table of all sides");
    text[from..].to_owned()
}

#[test]
fn each_side_is_a_column_and_blocks_of_columns_fit_the_width() {
    let comparison = usual();
    let at_120 = tables(&comparison, &at_width(120));
    insta::assert_snapshot!("sides_120", at_120);
    // Without room for the candidates' figures, their differences are beside each other.
    insta::assert_snapshot!("sides_100", tables(&comparison, &at_width(100)));
    let at_80 = tables(&comparison, &at_width(80));
    insta::assert_snapshot!("sides_80", at_80);
    for line in at_80.lines().filter(|line| !line.starts_with("next")) {
        assert!(unicode_width(line) <= 80, "{line}");
    }
    insta::assert_snapshot!("sides_markdown", rendered(Format::Markdown, &comparison, &Options::default()));
}

fn unicode_width(line: &str) -> usize {
    memprof_support::labels::width(line)
}

#[test]
fn a_column_of_differences_has_no_figure_that_looks_like_one() {
    let mut synthetic = Synthetic::new(&["main", "a", "b"]);
    for side in 0..3 {
        let mut points = vec![("start", 0), ("done", 1)];
        if side > 0 {
            points.insert(1, ("cut", 6));
        }
        synthetic = twice(synthetic, "t", side, &log(&points));
    }
    let comparison = compare(&synthetic.results());
    for (width, expected) in [(60, "new: 6.00 MiB"), (50, "added")] {
        let text = table(&comparison, &at_width(width));
        let row = text.lines().find(|line| line.starts_with(" + cut")).unwrap_or_else(|| panic!("{text}"));
        let words = |cell: &str| cell.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        assert_eq!(row.split('│').skip(2).map(words).collect::<Vec<_>>(), [expected; 2], "{text}");
    }
}

#[test]
fn the_page_has_the_table_of_all_sides() {
    let page = rendered(Format::Html, &usual(), &Options::default());
    for part in [
        "<p>Axes: profile (dev, release) × features (no features, simd). Differences are to <b>main · dev · no features</b>.</p>",
        "<th class=\"n\" scope=\"col\">dev · simd</th>",
        "<td>parses</td><td class=\"n\">2.00 MiB</td><td class=\"n up\">6.00 MiB (+4.00 MiB ▲)</td>",
        "<td class=\"n\">✗ 1.00 MiB (not compared)</td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_figure_of_another_source_is_shown_and_not_compared() {
    let text = tables(&usual(), &at_width(120));
    let row = text.lines().find(|line| line.starts_with(" counts")).expect("a row");
    let cells: Vec<&str> = row.split('│').map(str::trim).collect();
    assert_eq!(
        cells,
        ["counts", "2.00 MiB", "3.00 MiB  not compared", "4.00 MiB   +2.00 MiB ▲", "5.00 MiB   +3.00 MiB ▲"]
    );
}

#[test]
fn the_baseline_has_its_own_figure_and_a_candidate_says_what_it_is_compared_with() {
    let synthetic = Synthetic::new(&["main", "a", "b"]);
    let synthetic = twice(synthetic, "t", 0, &log(&[("start", 0), ("mid", 150), ("done", 50)]));
    let synthetic = twice(synthetic, "t", 1, &log(&[("start", 0), ("done", 150)]));
    let synthetic = twice(synthetic, "t", 2, &log(&[("start", 0), ("mid", 150), ("done", 60)]));
    let comparison = compare(&synthetic.results());
    for width in [80, 120] {
        let text = table(&comparison, &at_width(width));
        let row = text.lines().find(|line| line.starts_with(" done")).expect("a row of heap.peak");
        let words = |cell: &str| cell.split_whitespace().collect::<Vec<_>>().join(" ");
        let cells: Vec<String> = row.split('│').map(words).collect();
        assert_eq!(cells[1], "50.0 MiB", "{text}");
        assert!(cells[2].ends_with("= against 150 MiB"), "{text}");
        assert!(cells[3].ends_with("+10.0 MiB ▲"), "{text}");
    }
}

#[test]
fn all_rows_have_the_unchanged_tests_too_and_the_answer_alone_has_no_table() {
    let comparison = usual();
    let all = tables(&comparison, &Options { rows: Rows::All, ..at_width(120) });
    let changed = tables(&comparison, &at_width(120));
    let has_same = |text: &str| text.lines().any(|line| line.starts_with(" same"));
    assert!(has_same(&all) && !has_same(&changed), "{changed}");
    let none = table(&comparison, &Options { rows: Rows::None, ..at_width(120) });
    assert!(!none.contains("all sides"), "{none}");
    let two = Synthetic::new(&["main", "pr/7"]);
    let two = twice(twice(two, "t", 0, &log(&[("done", 1)])), "t", 1, &log(&[("done", 2)]));
    assert!(
        !table(&compare(&two.results()), &at_width(120)).contains("all sides"),
        "one candidate has its pair"
    );
}

#[test]
fn a_search_for_a_commit_is_suggested_only_if_no_setting_differs() {
    let text = table(&usual(), &at_width(120));
    let next: Vec<&str> = text.lines().filter(|line| line.starts_with("next")).collect();
    assert!(next.len() == 1 && next[0].contains("main · release · no features"), "{text}");
    assert_eq!(text.matches("\n  differs: feature simd\n").count(), 2, "{text}");
}

#[test]
fn many_tests_have_the_worst_ones_in_the_table() {
    let mut synthetic = sides();
    for test in 0..30 {
        for side in 0..4 {
            let kept = if side > 0 && test % 2 == 0 { 2 } else { 1 };
            let log = log(&[("start", 0), ("done", kept)]);
            synthetic = twice(synthetic, &format!("test_{test:02}"), side, &log);
        }
    }
    for test in 30..46 {
        for side in 0..4 {
            let log = log(&[("start", 0), ("done", if side == 2 { 5 } else { 1 })]);
            synthetic = twice(synthetic, &format!("test_{test:02}"), side, &log);
        }
    }
    let text = tables(&compare(&synthetic.results()), &at_width(120));
    assert!(text.contains(" … 11 more changed tests: --rows all"), "{text}");
    let first_table = &text[..text.find("more changed tests").unwrap()];
    let rows = first_table.lines().filter(|line| line.starts_with(" test_")).count();
    assert_eq!(rows, 20, "{text}");
}
