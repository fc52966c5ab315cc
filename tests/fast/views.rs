//! The views of scopes and of what grew most.

use crate::support::synthetic::{Log, Synthetic};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_report::options::{Format, Options, Rows, View};

const KIB: i64 = 1024;
const MIB: i64 = 1024 * KIB;

fn shown(comparison: &Comparison, options: &Options) -> String {
    let mut out = Vec::new();
    memprof_report::render::render(Format::Table, comparison, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn scopes(width: usize) -> Options {
    Options { view: View::Scopes, width: Some(width), ..Options::default() }
}

fn top(width: usize) -> Options {
    Options { view: View::Top, ..scopes(width) }
}

fn assert_fits(text: &str, width: usize) {
    // A command is for copying.
    for line in text.lines().filter(|line| !line.starts_with("next: ")) {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= width, "wider than {width}: {line}");
    }
}

/// Consumed, peaked and used of the heap; the resident set has the same and a little more.
fn figures(consumed: i64, peaked: i64, used: i64) -> [(&'static str, i64); 7] {
    [
        ("heap.consumed", consumed),
        ("heap.peaked", peaked),
        ("heap.used", used),
        ("cpu.consumed", consumed + 4 * KIB),
        ("cpu.peaked", peaked + 12 * KIB),
        ("cpu.used", used + 2 * MIB),
        ("time", 3_000_000),
    ]
}

fn points(heap: i64) -> [(&'static str, i64); 3] {
    [("heap.peak", heap), ("heap.live", heap / 2), ("cpu.peak", heap + 2 * MIB)]
}

/// `forward { encoder { attention attention } decoder }`, in the order in which they end.
fn baseline() -> Log {
    Log::new()
        .checkpoint("start", &points(MIB))
        .nested(2, "attention", &figures(0, 640 * KIB, 40 * MIB))
        .nested(2, "attention", &figures(0, 640 * KIB, 40 * MIB))
        .nested(1, "encoder, 24 layers of width 1024", &figures(12 * MIB, 3 * MIB, 52 * MIB))
        .checkpoint("encoded", &points(55 * MIB))
        .nested(1, "decoder", &figures(-4 * MIB, 7 * MIB, 48 * MIB))
        .nested(0, "forward", &figures(8 * MIB, 11 * MIB, 48 * MIB))
        .checkpoint("done", &points(60 * MIB))
}

fn candidate() -> Log {
    Log::new()
        .checkpoint("start", &points(MIB))
        .nested(2, "attention", &figures(0, 640 * KIB, 40 * MIB))
        .nested(2, "attention", &figures(0, 1_900 * KIB, 40 * MIB))
        .nested(1, "encoder, 24 layers of width 1024", &figures(24 * MIB, 3 * MIB, 64 * MIB))
        .checkpoint("encoded", &points(67 * MIB))
        .nested(1, "kv cache", &figures(9 * MIB, 0, 73 * MIB))
        .nested(1, "decoder", &figures(-16 * MIB, 7 * MIB, 57 * MIB))
        .nested(0, "forward", &figures(17 * MIB, 20 * MIB, 57 * MIB))
        .checkpoint("done", &points(60 * MIB))
}

fn usual() -> Comparison {
    let mut synthetic = Synthetic::new(&["main", "pr/3370"]);
    for repeat in 0..3 {
        synthetic =
            synthetic.passed("hf_fwd", 0, repeat, &baseline()).passed("hf_fwd", 1, repeat, &candidate());
    }
    compare(&synthetic.results())
}

#[test]
fn scopes_are_a_tree_with_each_revision_and_the_difference() {
    for width in [80, 100, 120] {
        let text = shown(&usual(), &scopes(width));
        assert_fits(&text, width);
        insta::assert_snapshot!(format!("scopes_{width}"), text);
    }
}

#[test]
fn compact_scopes_are_a_line_each() {
    for width in [80, 100, 120] {
        let text = shown(&usual(), &Options { compact: true, ..scopes(width) });
        assert_fits(&text, width);
        insta::assert_snapshot!(format!("scopes_{width}_compact"), text);
    }
}

#[test]
fn compact_scopes_of_several_families_are_one_line_each() {
    let metrics = Some(vec!["heap.*".to_owned(), "cpu.*".to_owned()]);
    let at = |width: usize| Options { compact: true, metrics: metrics.clone(), ..scopes(width) };
    let lines = |text: &str| text.lines().filter(|line| line.contains('│')).count();
    let wide = shown(&usual(), &at(200));
    assert!(wide.contains("heap: Consumed"), "{wide}");
    assert!(wide.contains("resident: "), "{wide}");
    let once = lines(&shown(&usual(), &Options { compact: true, ..scopes(200) }));
    assert_eq!(lines(&wide), once, "{wide}");
    let narrow = shown(&usual(), &at(80));
    assert_fits(&narrow, 80);
    assert_eq!(lines(&narrow), once, "{narrow}");
    assert!(narrow.contains("no room for other metrics: --metrics 'cpu.*'"), "{narrow}");
}

#[test]
fn a_family_that_is_asked_for_is_shown() {
    let metrics = Some(vec!["cpu.peak".to_owned()]);
    let text = shown(&usual(), &Options { metrics, ..scopes(120) });
    assert_eq!(text.matches("· resident").count(), 2, "{text}");
    assert!(!text.contains("· heap"), "{text}");
    assert!(text.contains("3.01 MiB"), "{text}");
}

#[test]
fn one_revision_has_its_tree_alone() {
    let synthetic = Synthetic::new(&["main"]).passed("hf_fwd", 0, 0, &baseline());
    insta::assert_snapshot!(shown(&compare(&synthetic.results()), &scopes(80)));
}

#[test]
fn scopes_of_a_run_that_was_cut_off_are_shown_and_not_compared() {
    let begun = Log::new().nested(1, "attention", &figures(0, 640 * KIB, 40 * MIB));
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &baseline()).failed(
        "t",
        1,
        Status::Failed { exit_code: 101 },
        "a message",
        Some(&begun),
    );
    let text = shown(&compare(&synthetic.results()), &scopes(120));
    assert!(text.contains("✗ pr/1 · heap") && text.contains("pr/1 failed (exit code 101)"), "{text}");
    assert!(!text.contains('Δ'), "{text}");
}

#[test]
fn without_a_scope_it_is_told_how_to_make_one() {
    let log = Log::new().checkpoint("start", &points(MIB));
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log).passed("t", 1, 0, &log);
    let text = shown(&compare(&synthetic.results()), &scopes(100));
    assert!(text.starts_with("no scope was logged: `let _scope = memprof::scope!(\"name\");`"), "{text}");
}

#[test]
fn very_many_scopes_are_cut_to_those_that_changed_most() {
    let log = |growth: i64| {
        (0..500).fold(Log::new(), |log, step| log.scope("step", &figures(growth * step, 0, MIB)))
    };
    let synthetic =
        Synthetic::new(&["main", "pr/1"]).passed("long", 0, 0, &log(0)).passed("long", 1, 0, &log(KIB));
    let comparison = compare(&synthetic.results());
    let text = shown(&comparison, &scopes(120));
    assert!(text.contains("… 460 scopes not shown") && text.contains("step #500"), "{text}");
    let whole = shown(&comparison, &Options { rows: Rows::All, ..scopes(160) });
    let rows = whole.lines().filter(|line| line.contains("step") && line.contains('│'));
    assert_eq!(rows.count(), 500);
}

#[test]
fn top_lists_what_grew_most_against_the_baseline_and_from_one_checkpoint_to_the_next() {
    for width in [80, 100, 120] {
        let text = shown(&usual(), &top(width));
        assert_fits(&text, width);
        insta::assert_snapshot!(format!("top_{width}"), text);
    }
}

#[test]
fn top_of_one_revision_goes_from_checkpoint_to_checkpoint() {
    let synthetic = Synthetic::new(&["main"]).passed("hf_fwd", 0, 0, &baseline()).passed(
        "hf_bwd",
        0,
        0,
        &Log::new().checkpoint("start", &points(MIB)).checkpoint("done", &points(9 * MIB)),
    );
    let metrics = Some(vec!["heap.live".to_owned()]);
    insta::assert_snapshot!(shown(&compare(&synthetic.results()), &Options { metrics, ..top(100) }));
}

#[test]
fn top_shows_ten_and_says_how_many_more_grew() {
    let log = |growth: i64| {
        (0..100).fold(Log::new(), |log, step| log.checkpoint("step", &[("heap.peak", MIB + growth * step)]))
    };
    let synthetic =
        Synthetic::new(&["main", "pr/1"]).passed("long", 0, 0, &log(0)).passed("long", 1, 0, &log(KIB));
    let comparison = compare(&synthetic.results());
    let text = shown(&comparison, &top(100));
    let first: Vec<&str> =
        text.lines().skip(1).take(10).filter_map(|line| line.split("step #").nth(1)).collect();
    assert_eq!(first, ["100", "99", "98", "97", "96", "95", "94", "93", "92", "91"], "{text}");
    assert!(text.contains("… 89 more grew: --rows all"), "{text}");
    let whole = shown(&comparison, &Options { rows: Rows::All, ..top(100) });
    assert!(whole.contains("step #2") && !whole.contains("more grew"), "{whole}");
}

#[test]
fn a_devices_memory_pool_is_shown_where_it_is_asked_for() {
    let of_device = |grown: i64| {
        [
            ("gpu.0.consumed", grown),
            ("gpu.0.peaked", 0),
            ("gpu.0.used", grown),
            ("gpu.0.pool.consumed", 2 * grown),
            ("gpu.0.pool.peaked", 0),
            ("gpu.0.pool.used", 2 * grown),
        ]
    };
    let log = Log::new()
        .checkpoint("start", &[("gpu.0.peak", 0), ("gpu.0.pool.used", MIB)])
        .nested(0, "forward", &of_device(MIB))
        .checkpoint("done", &[("gpu.0.peak", MIB), ("gpu.0.pool.used", 3 * MIB)]);
    let synthetic =
        Synthetic::new(&["main", "pr/1"]).passed("hf_fwd", 0, 0, &log).passed("hf_fwd", 1, 0, &log);
    let comparison = compare(&synthetic.results());
    let of_pool = |options: Options| shown(&comparison, &options).contains("pool");
    assert!(!of_pool(Options { width: Some(100), ..Options::default() }) && !of_pool(scopes(100)));
    let metrics = || Some(vec!["gpu.0.pool.*".to_owned()]);
    assert!(of_pool(Options { metrics: metrics(), ..scopes(100) }));
    let grown = shown(&comparison, &Options { metrics: metrics(), ..top(100) });
    assert!(grown.contains("gpu.0.pool.used") && grown.contains("start → done"), "{grown}");
}

#[test]
fn a_large_suite_without_changes_fits_a_screen() {
    let log = |heap: i64| {
        Log::new().checkpoint("start", &[("heap.peak", MIB)]).checkpoint("done", &[("heap.peak", heap)])
    };
    let mut synthetic = Synthetic::new(&["main", "pr/1"]);
    for number in 0..900 {
        let name = format!("test_{number}");
        let candidate = if number == 7 { 90 * MIB } else { 2 * MIB };
        synthetic = synthetic.passed(&name, 0, 0, &log(2 * MIB)).passed(&name, 1, 0, &log(candidate));
        synthetic = synthetic.passed(&name, 0, 1, &log(2 * MIB)).passed(&name, 1, 1, &log(candidate));
    }
    for number in 0..40 {
        synthetic = synthetic.passed(&format!("new_{number}"), 1, 0, &log(MIB));
        synthetic = synthetic.failed(&format!("new_{number}"), 0, Status::NotInThisRef, "", None);
    }
    let comparison = compare(&synthetic.results());
    let text = shown(&comparison, &Options { width: Some(100), ..Options::default() });
    assert!(text.lines().count() < 30, "{text}");
    assert!(text.contains("bart::tests test_7 ") && !text.contains("test_8"), "{text}");
    assert!(text.starts_with("memory: 1 of 900 tests regressed · main "), "{text}");
    assert!(text.contains("\n899 tests unchanged · 40 only in pr/1\n"), "{text}");
    let none = shown(&comparison, &Options { rows: Rows::None, width: Some(100), ..Options::default() });
    assert!(!none.contains('│') && none.contains(" ▲ test_7 "), "{none}");
    let whole = shown(&comparison, &Options { rows: Rows::All, width: Some(100), ..Options::default() });
    assert!(whole.lines().count() > 5000);
}
