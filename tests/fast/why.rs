//! Call sites of differences: matched stacks, classes, groups, focus, leaks and growth.

use std::collections::{BTreeMap, BTreeSet};

use memprof_build::git::changed_files::changed_files;
use memprof_judge::results::stack_log::Way;
use memprof_judge::why::attribution::{Attribution, NoAnswer, Question};
use memprof_judge::why::class::{ChangedEnd, Class, Diff, Existence};
use memprof_judge::why::difference::{CheckpointName, Difference, Group, GroupKind};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::grouping::{GroupBy, Grouping};
use memprof_judge::why::hunks::{ChangedSources, Changes, Side, used_paths};
use memprof_judge::why::stored::StoredFile;
use memprof_judge::why::versions::Versions;
use memprof_plan::changed_file::ChangedFile;
use regex::Regex;

use crate::support::TestRepository;
use crate::support::stacks::{OfSite, Recorded};

/// The sources before and after. `push` changes, `cut` is new, `old` is gone, and all lines move.
pub const OLD: &str = "\
fn index() {
    push();
    parse();
    old();
}
fn push() {
    grow(1);
}
fn parse() {
    serde();
}
fn old() {
    shrink(3);
}
fn keep() {
    grow(4);
}
";
pub const NEW: &str = "\
//! Index.

fn index() {
    push();
    parse();
    cut();
}
fn push() {
    grow(2);
}
fn parse() {
    serde();
}
fn cut() {
    grow(3);
}
fn keep() {
    grow(4);
}
";

/// The stacks of both sides, each from the test inward.
const OLD_SITES: &[&[&str]] = &[
    &[
        "main",
        "i::t@tests/t.rs:5",
        "i::index@src/lib.rs:2",
        "i::push@src/lib.rs:7",
        "alloc::vec::grow",
        "__rust_alloc",
    ],
    &[
        "main",
        "i::t@tests/t.rs:5",
        "i::index@src/lib.rs:3",
        "i::parse@src/lib.rs:10",
        "serde::de@serde-1.0.0/src/de.rs:3",
    ],
    &["main", "i::t@tests/t.rs:5", "i::index@src/lib.rs:4", "i::old@src/lib.rs:13"],
    &["main", "i::t@tests/t.rs:6", "i::keep@src/lib.rs:16"],
    &["main", "i::t@tests/t.rs:5", "i::index@src/lib.rs:3", "i::sub::walk@src/sub.rs:7"],
];
const NEW_SITES: &[&[&str]] = &[
    &[
        "main",
        "i::t@tests/t.rs:5",
        "i::index@src/lib.rs:4",
        "i::push@src/lib.rs:9",
        "alloc::vec::grow",
        "__rust_alloc",
    ],
    &[
        "main",
        "i::t@tests/t.rs:5",
        "i::index@src/lib.rs:5",
        "i::parse@src/lib.rs:12",
        "serde::de@serde-1.0.1/src/de.rs:8",
    ],
    &["main", "i::t@tests/t.rs:5", "i::index@src/lib.rs:6", "i::cut@src/lib.rs:15"],
    &["main", "i::t@tests/t.rs:6", "i::keep@src/lib.rs:18"],
    &["main", "i::t@tests/t.rs:5", "i::index@src/lib.rs:5", "i::sub::walk@src/sub.rs:7"],
];

pub fn done() -> CheckpointName {
    CheckpointName { label: "done".to_owned(), occurrence: 1 }
}

fn question(metric: &str) -> Question {
    Question { metric: metric.to_owned(), checkpoints: [Some(done()), Some(done())] }
}

/// The runs of both sides, with these bytes at the peak of each site.
pub fn runs() -> [Recorded; 2] {
    let of = |bytes: [i64; 5]| -> Vec<OfSite> {
        let sites = (1..).zip(bytes).map(|(site, bytes)| (site, [bytes, bytes / 2, 2 * bytes, 3]));
        std::iter::once((0, [11, 11, 0, 0])).chain(sites).collect()
    };
    [
        Recorded::new(OLD_SITES, &[("done", &of([1000, 500, 40, 64, 200]))]),
        Recorded::new(NEW_SITES, &[("done", &of([9000, 700, 80, 64, 220]))]),
    ]
}

/// The changes from one text of `src/lib.rs` to another, if the runs' stacks are in it.
fn changes(texts: [&str; 2], runs: &[Recorded; 2]) -> Changes {
    let lib = || Some("src/lib.rs".to_owned());
    let texts = texts.map(|text| Some(text.to_owned()));
    let file = StoredFile { paths: [lib(), lib()], texts, ..StoredFile::default() };
    let used = [0, 1].map(|side: usize| used_paths(runs[side].stacks.frames()));
    ChangedSources::new(&[file]).used(&used)
}

pub fn diff(runs: &[Recorded; 2]) -> Diff {
    let changes = changes([OLD, NEW], runs);
    let packages = |version: &str| -> BTreeMap<String, BTreeSet<String>> {
        [("serde".to_owned(), [version.to_owned()].into())].into()
    };
    Diff {
        changes: Some(changes),
        versions: Versions::default().with_lock_files([packages("1.0.0"), packages("1.0.1")]),
    }
}

/// Returns the answer for a metric at `done`.
pub fn answer(metric: &str, grouping: &Grouping) -> Difference {
    let runs = runs();
    let diff = diff(&runs);
    Attribution::new(runs[0].run(), runs[1].run(), &diff).answer(&question(metric), grouping).unwrap()
}

fn by(by: GroupBy) -> Grouping {
    Grouping { by, focus: None }
}

fn shown(difference: &Difference) -> Vec<(String, i64)> {
    difference.groups.iter().map(|group| (group.name().to_owned(), difference.of_group(group))).collect()
}

fn assert_adds_up(difference: &Difference) {
    for side in [0, 1] {
        let sum = difference.groups.iter().map(|group| group.figures[side].at_peak).sum::<i64>();
        assert_eq!(sum, difference.totals[side].map_or(0, |total| total.at_peak), "{difference:?}");
    }
    assert_eq!(difference.elsewhere(0), difference.whole());
}

#[test]
fn sites_are_sorted_by_difference_and_have_a_class() {
    let difference = answer("heap.peak", &Grouping::default());
    assert_adds_up(&difference);
    assert_eq!(difference.whole(), 10064 - 1804);
    let found: Vec<(&str, Option<&str>, i64)> = difference
        .groups
        .iter()
        .map(|group| (group.name(), group.location(), difference.of_group(group)))
        .collect();
    assert_eq!(
        found,
        [
            ("i::push", Some("src/lib.rs:9"), 8000),
            ("i::parse", Some("src/lib.rs:12"), 200),
            ("i::cut", Some("src/lib.rs:15"), 80),
            ("i::old", Some("src/lib.rs:13"), -40),
            ("i::sub::walk", Some("src/sub.rs:7"), 20),
            ("i::keep", Some("src/lib.rs:18"), 0),
            ("without a call stack", None, 0),
        ]
    );
    assert_eq!(difference.elsewhere(3), -20);
    let class = |index: usize| difference.groups[index].class.as_ref();
    let Some(Class::Changed(Existence::Both, hunk)) = class(0) else { panic!("{:?}", class(0)) };
    assert_eq!((&*hunk.path, &*hunk.hunk.to_string()), ("src/lib.rs", "@@ -7 +9 @@"));
    let Some(Class::Dependency(serde)) = class(1) else { panic!("{:?}", class(1)) };
    assert_eq!((serde.old.as_deref(), serde.new.as_deref()), (Some("1.0.0"), Some("1.0.1")));
    assert!(matches!(class(2), Some(Class::Changed(Existence::New, _))), "{:?}", class(2));
    assert!(matches!(class(3), Some(Class::Changed(Existence::Deleted, _))), "{:?}", class(3));
    let Some(Class::CalledFrom(caller, _)) = class(4) else { panic!("{:?}", class(4)) };
    assert_eq!((&*caller.function, &*caller.location), ("i::index", "src/lib.rs:5"));
    assert_eq!((class(5), class(6)), (Some(&Class::Unchanged), None));
}

/// What is said of `keep`, which allocates a block on both sides. `ends` are the stacks that end it,
/// `live` is what is left of it, and `releases` says how much ended.
fn end_of_keep(ends: [&[&str]; 2], live: [i64; 2], releases: [&[[i64; 5]]; 2]) -> Option<Class> {
    end_at(ends, live, releases, "heap.live")
}

fn end_at(ends: [&[&str]; 2], live: [i64; 2], releases: [&[[i64; 5]]; 2], metric: &str) -> Option<Class> {
    let runs = [(OLD_SITES[3], 0), (NEW_SITES[3], 1)].map(|(keep, side): (_, usize)| {
        let figures: &[OfSite] = &[(1, [live[side], live[side], 100, 1])];
        Recorded::with_releases(&[keep, ends[side]], &[("done", figures)], releases[side])
    });
    let diff = diff(&runs);
    let found = Attribution::new(runs[0].run(), runs[1].run(), &diff);
    let found = found.answer(&question(metric), &Grouping::default()).unwrap();
    assert_adds_up(&found);
    found.groups[0].class.clone()
}

#[test]
fn the_same_code_may_have_blocks_that_end_elsewhere() {
    const IN_PUSH: [&[&str]; 2] = [
        &["main", "i::t@tests/t.rs:7", "i::push@src/lib.rs:7", "core::ptr::drop_in_place"],
        &["main", "i::t@tests/t.rs:7", "i::push@src/lib.rs:9", "core::ptr::drop_in_place"],
    ];
    let Some(Class::Ended(end)) = end_of_keep(IN_PUSH, [10, 100], [&[[1, 2, 0, 0, 90]], &[]]) else {
        panic!("the baseline frees it");
    };
    assert_eq!((end.side, end.way, &*end.function), (Side::Baseline, Way::Freed, "i::push"));
    assert!(matches!(end.change, Some(ChangedEnd::Code { existence: Existence::Both, .. })), "{end:?}");
    let Some(Class::Ended(end)) = end_of_keep(IN_PUSH, [100, 40], [&[], &[[1, 2, 1, 0, 60]]]) else {
        panic!("the candidate shrinks it");
    };
    assert_eq!((end.side, end.way), (Side::Candidate, Way::Shrunk));
    let Some(Class::Ended(end)) = end_of_keep(IN_PUSH, [0, 100], [&[[1, 2, 0, 0, 100]], &[]]) else {
        panic!("the baseline has none left");
    };
    assert_eq!(end.side, Side::Baseline);

    let shifted = [&[[1, 2, 0, 90, 90]][..], &[[1, 2, 0, 0, 90]]];
    let Some(Class::Ended(end)) = end_at(IN_PUSH, [10, 100], shifted, "heap.peak") else {
        panic!("the candidate's peak comes first");
    };
    assert_eq!((end.side, end.is_before_peak), (Side::Baseline, true));
    let both = end_of_keep(IN_PUSH, [10, 100], [&[[1, 2, 0, 0, 90]], &[[1, 2, 0, 0, 90]]]);
    assert_eq!(both, Some(Class::Unchanged), "both free as much, so more was allocated");
    let little = end_of_keep(IN_PUSH, [10, 100], [&[[1, 2, 0, 0, 20]], &[]]);
    assert_eq!(little, Some(Class::Unchanged), "this is not most of the difference");

    let elsewhere: &[&str] = &["main", "i::t@tests/t.rs:7", "i::other@src/other.rs:3"];
    let Some(Class::Ended(end)) = end_of_keep([elsewhere; 2], [10, 100], [&[[1, 2, 0, 0, 90]], &[]]) else {
        panic!("the baseline frees it");
    };
    assert_eq!((&*end.function, end.change), ("i::other", None), "the innermost function of the repository");
}

#[test]
fn each_metric_has_its_own_figure() {
    let first = |metric| {
        let difference = answer(metric, &Grouping::default());
        (difference.whole(), shown(&difference)[0].1)
    };
    assert_eq!(first("heap.live"), (4130, 4000));
    assert_eq!(first("heap.allocated"), (2 * 8260, 16_000));
    assert_eq!(first("heap.count"), (0, 3), "`cut` is new, and `old` is gone");
}

#[test]
fn sites_are_grouped_by_what_they_have_in_common() {
    let names = |grouping| {
        let difference = answer("heap.peak", &by(grouping));
        assert_adds_up(&difference);
        let mut shown = shown(&difference);
        shown.retain(|(_, bytes)| *bytes != 0);
        shown
    };
    let owned = |expected: &[(&str, i64)]| -> Vec<(String, i64)> {
        expected.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
    };
    assert_eq!(names(GroupBy::Site).len(), 5);
    assert_eq!(names(GroupBy::Function)[0], ("i::push".to_owned(), 8000));
    assert_eq!(names(GroupBy::Module), owned(&[("i", 8240), ("i::sub", 20)]));
    assert_eq!(names(GroupBy::Crate), owned(&[("i", 8260)]));
    let hunks = names(GroupBy::Hunk);
    assert_eq!(hunks[0], ("src/lib.rs @@ -7 +9 @@".to_owned(), 8000));
    assert_eq!(hunks[1], ("dependency serde".to_owned(), 200));
}

#[test]
fn a_line_that_two_hunks_call_is_a_group_of_each() {
    let side = |callers: [&str; 2], bytes: [i64; 3]| {
        let sites =
            [callers[0], callers[1], "i::t@tests/t.rs:6"].map(|caller| [caller, "i::buffer@src/buffer.rs:2"]);
        let of: Vec<OfSite> =
            (1..).zip(bytes).map(|(site, bytes)| (site, [bytes, bytes, bytes, 1])).collect();
        Recorded::new(&sites.each_ref().map(|site| &site[..]), &[("done", &of)])
    };
    let runs = [
        side(["i::push@src/lib.rs:7", "i::index@src/lib.rs:4"], [10, 10, 4]),
        side(["i::push@src/lib.rs:9", "i::index@src/lib.rs:6"], [40, 7, 5]),
    ];
    let diff = diff(&runs);
    let attribution = Attribution::new(runs[0].run(), runs[1].run(), &diff);
    let difference = attribution.answer(&question("heap.peak"), &Grouping::default()).unwrap();
    assert_adds_up(&difference);
    let caller = |group: &Group| match &group.class {
        Some(Class::CalledFrom(caller, _)) => caller.function.clone(),
        other => format!("{other:?}"),
    };
    let groups = difference.groups.iter().map(|group| (caller(group), difference.of_group(group)));
    let expected = [("i::push", 30), ("i::index", -3), ("Some(Unchanged)", 1)];
    assert_eq!(groups.collect::<Vec<_>>(), expected.map(|(caller, bytes)| (caller.to_owned(), bytes)));
    assert_eq!(difference.groups[1].location(), Some("src/buffer.rs:2"));
}

#[test]
fn a_crate_of_the_repository_is_named_for_its_traits_on_other_types() {
    let sites: [&[&str]; 5] = [
        &[
            "t::one@tests/t.rs:5",
            "app::f@src/lib.rs:1",
            "<alloc::vec::Vec<u8> as app::ext::Ext>::total@src/ext.rs:2",
        ],
        &[
            "<serde_json::Value as app::ext::Ext>::total@src/ext.rs:3",
            "serde_json::value::f@serde_json-1.0.1/src/v.rs:1",
        ],
        &["<alloc::string::String as core::convert::From<app::ext::Name>>::from@src/ext.rs:4"],
        &["<app::ext::Name as serde::Serialize>::serialize@src/ext.rs:5"],
        &["serde_json::value::f@serde_json-1.0.1/src/v.rs:1"],
    ];
    let of: Vec<OfSite> = (1..=5).map(|site| (site, [1 << site; 4])).collect();
    let run = Recorded::new(&sites, &[("done", &of)]);
    let shown = |grouping| shown(&run.run().answer("heap.peak", &done(), &by(grouping)).unwrap());
    let expected =
        |name: &str| [("serde_json", 32), (name, 30)].map(|(name, bytes)| (name.to_owned(), bytes)).to_vec();
    assert_eq!(shown(GroupBy::Crate), expected("app"));
    let mut modules = expected("app::ext");
    modules[0].0.push_str("::value");
    assert_eq!(shown(GroupBy::Module), modules);
}

#[test]
fn a_focus_names_the_sites_and_keeps_the_rest_in_one_group() {
    let focus = |pattern: &str| {
        let focus = Some(Regex::new(pattern).unwrap());
        let difference = answer("heap.peak", &Grouping { by: GroupBy::Line, focus });
        assert_adds_up(&difference);
        shown(&difference)
    };
    let outside = |bytes| ("outside of the focus".to_owned(), bytes);
    assert_eq!(focus("serde::")[..2], [outside(8060), ("serde::de".to_owned(), 200)]);
    assert_eq!(focus(r"src/sub\.rs")[..2], [outside(8240), ("i::sub::walk".to_owned(), 20)]);
}

#[test]
fn another_closure_number_and_inlining_are_no_difference() {
    let old: &[&[&str]] =
        &[&["i::t@tests/t.rs:5", "i::run<u8>::{closure#0}@src/a.rs:4", "core::iter::map", "i::f@src/a.rs:9"]];
    let new: &[&[&str]] = &[&["i::t@tests/t.rs:5", "i::run<u8>::{closure#2}@src/a.rs:4 > i::f@src/a.rs:9"]];
    let of: &[OfSite] = &[(1, [100, 50, 200, 1])];
    let runs = [old, new].map(|sites| Recorded::new(sites, &[("done", of)]));
    let diff = Diff::default();
    let attribution = Attribution::new(runs[0].run(), runs[1].run(), &diff);
    for grouping in [GroupBy::Site, GroupBy::Line, GroupBy::Function, GroupBy::Hunk] {
        let difference = attribution.answer(&question("heap.peak"), &by(grouping)).unwrap();
        assert_eq!(difference.groups.len(), 1, "{difference:?}");
        assert_eq!(difference.of_group(&difference.groups[0]), 0);
    }
}

#[test]
fn debug_information_of_a_backtrace_is_no_cost_of_a_changed_line() {
    let resolves = "std::backtrace_rs::symbolize::gimli::resolve";
    let class = |stacks: [&[&str]; 2]| {
        let of = |stack: &[&str], bytes: i64| {
            Recorded::new(&[stack], &[("done", &[(1, [bytes, bytes, bytes, 1])])])
        };
        let runs = [of(stacks[0], 500), of(stacks[1], 900)];
        let diff = diff(&runs);
        let attribution = Attribution::new(runs[0].run(), runs[1].run(), &diff);
        let difference = attribution.answer(&question("heap.peak"), &by(GroupBy::Line)).unwrap();
        let [group] = &difference.groups[..] else { panic!("{difference:?}") };
        group.class.clone()
    };
    let inside = |inner: [&'static str; 2]| {
        class([&["i::push@src/lib.rs:7", inner[0], "g"], &["i::push@src/lib.rs:9", inner[1], "g"]])
    };
    assert_eq!(inside([resolves, resolves]), Some(Class::DebugInformation));
    for one_side in [["i::read", resolves], [resolves, "i::read"], ["i::read", "i::read"]] {
        let found = inside(one_side);
        assert!(matches!(found, Some(Class::Changed(..))), "{one_side:?}: {found:?}");
    }
    let called_back = class([&[resolves, "i::push@src/lib.rs:7"], &[resolves, "i::push@src/lib.rs:9"]]);
    assert!(matches!(called_back, Some(Class::Changed(..))), "the caller's own code: {called_back:?}");
}

#[test]
fn a_renamed_function_is_the_same_line_and_not_new() {
    let texts = ["fn a() {\n    grow();\n    x();\n}\n", "fn b() {\n    grow();\n    x();\n}\n"];
    let runs = [["i::a@src/lib.rs:2", "x"], ["i::b@src/lib.rs:2", "x"]]
        .map(|stack| Recorded::new(&[&stack], &[("done", &[(1, [5, 5, 5, 1])])]));
    let diff = Diff { changes: Some(changes(texts, &runs)), versions: Versions::default() };
    let attribution = Attribution::new(runs[0].run(), runs[1].run(), &diff);
    let difference = attribution.answer(&question("heap.peak"), &Grouping::default()).unwrap();
    assert_eq!(shown(&difference), [("i::b".to_owned(), 0)]);
    assert!(matches!(difference.groups[0].class, Some(Class::Changed(Existence::Both, _))));
}

#[test]
fn a_row_of_one_side_alone_is_that_sides_figure() {
    let [_, candidate] = runs();
    let difference = candidate.run().answer("heap.peak", &done(), &Grouping::default()).unwrap();
    assert_adds_up(&difference);
    assert!(difference.is_alone());
    assert_eq!((difference.whole(), difference.of_group(&difference.groups[0])), (10075, 9000));
    assert!(difference.groups.iter().all(|group| group.class.is_none()), "there is no diff");
    let runs = runs();
    let diff = diff(&runs);
    let attribution = Attribution::new(runs[0].run(), runs[1].run(), &diff);
    let removed = Question { checkpoints: [Some(done()), None], ..question("heap.peak") };
    let difference = attribution.answer(&removed, &Grouping::default()).unwrap();
    assert_eq!((difference.whole(), difference.totals[1]), (1815, None));
}

#[test]
fn leaks_are_what_lives_at_done_and_growth_is_between_two_checkpoints() {
    let sites: &[&[&str]] = &[&["i::cache@src/lib.rs:3"], &["i::work@src/lib.rs:9"]];
    let intervals: &[(&str, &[OfSite])] = &[
        ("start", &[(1, [100, 100, 100, 1])]),
        ("round", &[(2, [500, 0, 500, 1]), (1, [100, 130, 30, 1])]),
        ("round", &[(1, [170, 170, 40, 1])]),
        ("done", &[(2, [9, 9, 9, 1])]),
    ];
    let recorded = Recorded::new(sites, intervals);
    let at = |label: &str, occurrence| CheckpointName { label: label.to_owned(), occurrence };
    let leaks = recorded.run().answer("heap.live", &done(), &Grouping::default()).unwrap();
    assert_eq!(shown(&leaks), [("i::cache".to_owned(), 170), ("i::work".to_owned(), 9)]);
    let growth = |from, to| {
        let grown = recorded.run().growth("heap.live", &from, &to, &Grouping::default()).unwrap();
        assert_adds_up(&grown);
        (grown.whole(), shown(&grown))
    };
    assert_eq!(growth(at("start", 1), at("round", 2)), (70, vec![("i::cache".to_owned(), 70)]));
    assert_eq!(growth(at("round", 1), done()).0, 49);
}

#[test]
fn a_question_without_an_answer_says_why() {
    let [run, _] = runs();
    let ask = |metric: &str, label: &str| {
        let checkpoint = CheckpointName { label: label.to_owned(), occurrence: 1 };
        run.run().answer(metric, &checkpoint, &Grouping::default()).unwrap_err()
    };
    assert_eq!(ask("cpu.rss", "done"), NoAnswer::Metric("cpu.rss".to_owned()));
    assert_eq!(ask("gpu.0.peak", "done").to_string(), "the run with call stacks recorded none for gpu.0");
    let unknown = |label: &str| ask("heap.peak", label).to_string();
    let other = "the run with call stacks has no checkpoint 'dnoe'; did you mean 'done'?";
    assert_eq!(unknown("dnoe"), other);
    assert_eq!(unknown("x"), "the run with call stacks has no checkpoint 'x'; its checkpoints: done");
    let checkpoint = CheckpointName { label: "done".to_owned(), occurrence: 2 };
    let second = run.run().answer("heap.peak", &checkpoint, &Grouping::default()).unwrap_err().to_string();
    assert_eq!(second, "the run with call stacks has no checkpoint 'done' #2; it was reached 1 time");
}

#[test]
fn memory_without_a_stack_and_a_full_table_are_said() {
    let recorded =
        Recorded::new(&[&["i::f@src/lib.rs:3"]], &[("done", &[(0, [70, 70, 0, 0]), (1, [5, 5, 5, 1])])]);
    let difference = recorded.run().answer("heap.peak", &done(), &Grouping::default()).unwrap();
    assert_eq!(difference.groups[0].kind, GroupKind::WithoutStack);
    assert_eq!(shown(&difference)[0], ("without a call stack".to_owned(), 70));
}

#[test]
fn types_are_compared_by_their_paths_and_what_has_none_has_a_reason() {
    let side = |token: &str, size: u64, bytes: [i64; 3]| {
        let vec =
            [format!("alloc::vec::Vec<{token}>::push"), format!("alloc::raw_vec::RawVec<{token}>::grow_one")];
        let text = ["alloc::string::String::push", "alloc::vec::Vec<u8>::reserve"];
        let sites: [&[&str]; 3] = [
            &["i::f@src/lib.rs:3", &vec[0], &vec[1], "alloc::alloc::realloc", "__rust_realloc"],
            &["i::g@src/lib.rs:7", text[0], text[1], "alloc::alloc::alloc", "__rust_alloc"],
            &["i::raw@src/lib.rs:9", "alloc::alloc::alloc", "__rust_alloc"],
        ];
        let figures: Vec<_> =
            (1..).zip(bytes).map(|(site, bytes)| (site, [bytes, bytes, bytes, 1])).collect();
        let run = Recorded::new(&sites, &[("done", &figures)]);
        Recorded { stacks: run.stacks.with_sizes([(token.to_owned(), size)].into()), ..run }
    };
    let runs = [side("i::Token", 10, [100, 50, 10]), side("j::Token", 20, [160, 75, 10])];
    let diff = diff(&runs);
    let attribution = Attribution::new(runs[0].run(), runs[1].run(), &diff);
    let difference = attribution.answer(&question("heap.peak"), &by(GroupBy::Type)).unwrap();
    let expected = [
        ("alloc::vec::Vec<j::Token>", 160),
        ("alloc::vec::Vec<i::Token>", -100),
        ("String", 25),
        ("allocated by functions of no type", 0),
    ];
    assert_eq!(shown(&difference), expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    assert_adds_up(&difference);
    assert_eq!(difference.typed(), Some([150, 235]));
    let elements =
        |index: usize| difference.elements(&difference.groups[index]).map(|side| side.unwrap().count);
    assert_eq!([elements(0), elements(1)], [[0, 8], [10, 0]]);
    assert_eq!(difference.elements(&difference.groups[2]), [None, None], "a text has no elements");
    assert_eq!(difference.groups[0].location(), Some("src/lib.rs:3"));
    assert_eq!(answer("heap.peak", &Grouping::default()).typed(), None);

    let grown = [side("i::Token", 10, [100, 0, 0]), side("i::Token", 16, [160, 0, 0])];
    let attribution = Attribution::new(grown[0].run(), grown[1].run(), &diff);
    let difference = attribution.answer(&question("heap.peak"), &by(GroupBy::Type)).unwrap();
    assert_eq!(shown(&difference)[0], ("Vec<Token>".to_owned(), 60));
    let sizes =
        difference.elements(&difference.groups[0]).map(|side| side.map(|side| (side.count, side.size)));
    assert_eq!(sizes, [Some((10, 10)), Some((10, 16))], "the type became larger");
}

#[test]
fn renamed_files_of_a_repository_are_pairs() {
    let mut repository = TestRepository::new();
    repository.write("src/lib.rs", OLD);
    repository.write("src/gone.rs", "fn gone() {}\n");
    repository.write("src/same.rs", "fn same() {}\n");
    let before = repository.commit("before");
    repository.git(["mv", "src/lib.rs", "src/moved.rs"]);
    repository.git(["rm", "-q", "src/gone.rs"]);
    repository.write("src/fresh.rs", "pub const A: [u8; 3] = [1, 2, 3];\n");
    let after = repository.commit("after");
    let opened = repository.open();
    let file = |old: &str, new: &str| {
        let path = |path: &str| (!path.is_empty()).then(|| path.to_owned());
        ChangedFile { old: path(old), new: path(new) }
    };
    assert_eq!(
        changed_files(&opened, &before, &after).unwrap(),
        [file("", "src/fresh.rs"), file("src/gone.rs", ""), file("src/lib.rs", "src/moved.rs"),]
    );
}

#[test]
fn the_files_of_stacks_are_the_users() {
    let runs = runs();
    let frames: Vec<&Frame> = runs[0].stacks.frames().collect();
    let used = used_paths(frames.into_iter());
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["src/lib.rs", "src/sub.rs", "tests/t.rs"]);
}
