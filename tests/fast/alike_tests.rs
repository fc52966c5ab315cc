//! Tests that changed alike: which of them run with call stacks, and what the others have in common with those.

use std::sync::Arc;

use memprof_judge::compare::from_results::compare;
use memprof_judge::why::causes::causes;
use memprof_judge::why::chosen::{Why, choose};
use memprof_judge::why::class::Class;
use memprof_judge::why::explanations::Explained;
use memprof_judge::why::frame::{Frame, Place};
use memprof_plan::resolved::CellId;

use crate::causes::{changed, comparison, dependency, difference, explained, explanations, shown};
use crate::support::synthetic::{Log, Synthetic};

const KIB: i64 = 1024;

#[test]
fn a_test_that_was_not_recorded_has_the_cause_of_one_with_the_same_change() {
    let tests = [
        ("a", vec![100 * KIB, 200 * KIB]),
        ("b", vec![300 * KIB, 400 * KIB]),
        ("c", vec![300 * KIB, 401 * KIB]),
    ];
    let comparison = comparison(&["main", "pr/7"], tests);
    let why = explanations(vec![explained("a", 1, difference(&[(9, 100 * KIB, changed(9))]))]);
    assert_eq!(shown(&comparison, &causes(&comparison, &why)), ["src/lib.rs:9 a::grow_9: a 100, b? 100"]);
}

#[test]
fn tests_that_allocate_as_much_more_are_alike_whatever_their_peaks() {
    // The heap's peak, all bytes, and all allocations, of both refs.
    let tests = [
        ("a", [[100 * KIB, 200 * KIB], [900 * KIB, 1000 * KIB], [7, 8]]),
        ("b", [[300 * KIB, 390 * KIB], [500 * KIB, 600 * KIB], [3, 4]]),
        ("c", [[300 * KIB, 380 * KIB], [500 * KIB, 600 * KIB], [3, 5]]),
        ("d", [[400 * KIB, 300 * KIB], [500 * KIB, 600 * KIB], [3, 4]]),
    ];
    let mut synthetic = Synthetic::new(&["main", "pr/7"]);
    for (name, [peak, allocated, count]) in tests {
        for side in [0, 1] {
            let done =
                [("heap.peak", peak[side]), ("heap.allocated", allocated[side]), ("heap.count", count[side])];
            let log = Log::new().checkpoint("start", &[("heap.peak", KIB)]).checkpoint("done", &done);
            synthetic = synthetic.passed(name, side, 0, &log).passed(name, side, 1, &log);
        }
    }
    let comparison = compare(&synthetic.results());
    let chosen: Vec<String> =
        choose(&comparison, Why::Changed, 1).into_iter().map(|chosen| chosen.cell.title).collect();
    assert_eq!(chosen, ["a", "c", "d"]);
    let sites = [(9, 70 * KIB, changed(9)), (20, 30 * KIB, changed(20))];
    let found = causes(&comparison, &explanations(vec![explained("a", 1, difference(&sites))]));
    let expected = ["src/lib.rs:9 a::grow_9: a 70, b? 60", "src/lib.rs:20 a::grow_20: a 30"];
    assert_eq!(shown(&comparison, &found), expected, "the main cause also has what differs");
}

#[test]
fn a_test_that_was_not_recorded_has_only_causes_that_all_alike_ones_have() {
    let grows = ["a", "b", "c"].map(|test| (test, vec![100 * KIB, 200 * KIB]));
    let comparison = comparison(&["main", "pr/7"], grows);
    let of = |test: &str, sites: &[(u32, i64, Class)]| explained(test, 1, difference(sites));
    let shared = [(9, 70 * KIB, changed(9)), (20, 30 * KIB, changed(20))];
    let other = [(9, 70 * KIB, changed(9)), (30, 30 * KIB, dependency())];
    let why = explanations(vec![of("a", &shared), of("b", &other)]);
    let found = shown(&comparison, &causes(&comparison, &why));
    assert_eq!(
        found,
        ["src/lib.rs:9 a::grow_9: a 70, b 70, c? 70", "src/lib.rs:20 a::grow_20: a 30", "serde: b 30"]
    );
}

#[test]
fn one_of_each_group_of_alike_tests_is_recorded_first() {
    let tests = [
        ("a", vec![100 * KIB, 200 * KIB]),
        ("b", vec![300 * KIB, 400 * KIB]),
        ("c", vec![300 * KIB, 350 * KIB]),
        ("d", vec![300 * KIB, 200 * KIB]),
        ("e", vec![300 * KIB, 500 * KIB]),
        ("same", vec![300 * KIB, 300 * KIB]),
    ];
    let comparison = comparison(&["main", "pr/7"], tests);
    let chosen: Vec<String> =
        choose(&comparison, Why::Changed, usize::MAX).into_iter().map(|chosen| chosen.cell.title).collect();
    assert_eq!(chosen, ["e", "a", "c", "d", "b"]);
    let two: Vec<String> =
        choose(&comparison, Why::Changed, 1).into_iter().map(|chosen| chosen.cell.title).collect();
    assert_eq!(two, ["e", "a", "c", "d"]);
    assert_eq!(choose(&comparison, Why::Always, 1).len(), 6);
    assert_eq!(choose(&comparison, Why::Never, usize::MAX), []);
}

#[test]
fn a_test_has_the_cause_of_its_own_executable_or_else_of_its_package() {
    let grows = ["a", "b", "c", "d"].map(|test| (test, vec![100 * KIB, 200 * KIB]));
    let mut comparison = comparison(&["main", "pr/7"], grows);
    for cell in &mut comparison.cells[2..] {
        "others".clone_into(&mut cell.id.test.binary);
    }
    let [first, other] = [0, 2].map(|at| comparison.cells[at].id.clone());
    let of = |cell: &CellId, line| {
        let difference = difference(&[(line, 100 * KIB, changed(line))]);
        Explained { cell: cell.clone(), ..explained("", 1, difference) }
    };
    let both = causes(&comparison, &explanations(vec![of(&first, 9), of(&other, 20)]));
    let expected = ["src/lib.rs:9 a::grow_9: a 100, b? 100", "src/lib.rs:20 a::grow_20: c 100, d? 100"];
    assert_eq!(shown(&comparison, &both), expected);
    let one = causes(&comparison, &explanations(vec![of(&first, 9)]));
    assert_eq!(shown(&comparison, &one), ["src/lib.rs:9 a::grow_9: a 100, b? 100, c? 100, d? 100"]);
    assert_eq!(choose(&comparison, Why::Changed, 1).len(), 1);
}

/// Two places of a test call a function of a dependency that takes as much more from both.
#[test]
fn a_test_is_in_a_cause_once_with_all_that_its_sites_move() {
    let comparison = comparison(&["main", "pr/7"], [("a", vec![100 * KIB, 300 * KIB])]);
    let frame = |function: &str, place: Place| {
        let function = Some(function.to_owned());
        Arc::new(Frame { function, place: Some(place), line: Some(7), ..Frame::unknown(None, 0) })
    };
    let mut sites = difference(&[(9, 100 * KIB, changed(9)), (20, 100 * KIB, Class::Unchanged)]);
    for group in &mut sites.groups {
        let [name, version, path] = ["insta", "1.49.0", "src/env.rs"].map(str::to_owned);
        let user = frame("a::f", Place::Checkout("src/lib.rs".to_owned()));
        group.stack = vec![frame("insta::env::f", Place::Registry { name, version, path }), user];
        group.first = 1;
    }
    let causes = causes(&comparison, &explanations(vec![explained("a", 1, sites)]));
    assert_eq!(shown(&comparison, &causes), ["insta 1.49.0 src/env.rs:7: a 200"]);
    assert!(causes[0].worst().is_main);
}
