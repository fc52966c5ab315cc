//! Tests of two kinds of target that have the same name, as those of src/lib.rs and src/main.rs, in the files of a budget
//! and of the noise.

use camino::{Utf8Path, Utf8PathBuf};
use memprof_judge::compare::budget::{self, Margin};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::compare::noise;
use memprof_plan::request::TargetKind;
use memprof_plan::rule::Judging;
use memprof_plan::search_options::SearchOptions;

use crate::judging::{KIB, MIB, code, log};
use crate::reports::{at_width, table};
use crate::support::synthetic::{Log, Synthetic};

const UNIT_TESTS: [TargetKind; 2] = [TargetKind::Lib, TargetKind::Bin];

/// One run of the tests `t` of the library and of the program, at the only revision.
fn alone(peaks: [i64; 2]) -> Synthetic {
    let at = |peak: i64| Log::new().checkpoint("done", &[("heap.peak", peak)]);
    let runs = UNIT_TESTS.into_iter().zip(peaks);
    runs.fold(Synthetic::new(&["v1"]), |runs, (kind, peak)| runs.passed_in(kind, "t", 0, 0, &at(peak)))
}

fn recorded(peaks: [i64; 2]) -> String {
    let peak = ["heap.peak".to_owned()];
    budget::text(&compare(&alone(peaks).results()), 0, &peak, Margin::Percent(0.0)).unwrap()
}

fn budgeted(text: &str, synthetic: &Synthetic) -> Comparison {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(folder.path().join("budget.json")).unwrap();
    fs_err::write(&path, text).unwrap();
    let mut results = synthetic.results();
    results.plan.request.judging.budget = Some(budget::read(&path, "budget.json").unwrap());
    compare(&results)
}

/// The kinds of the tests above a line of the budget, each with that line.
fn over(comparison: &Comparison) -> Vec<String> {
    let breaches = comparison.alone().flat_map(|view| {
        let kind = view.cell.id.test.kind.as_str();
        view.pair.breaches.iter().map(move |breach| format!("{kind} {}", breach.place.as_deref().unwrap()))
    });
    breaches.collect()
}

#[test]
fn a_budget_has_a_line_for_each_kind() {
    let text = recorded([MIB, 8 * MIB]);
    for line in [
        r#"{"test":"bart::tests::t","kind":"lib","metric":"heap.peak","checkpoint":"done","unit":"bytes","figure":1048576"#,
        r#"{"test":"bart::tests::t","kind":"bin","metric":"heap.peak","checkpoint":"done","unit":"bytes","figure":8388608"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(over(&budgeted(&text, &alone([MIB, 8 * MIB]))), [""; 0]);
    assert_eq!(over(&budgeted(&text, &alone([7 * MIB, 8 * MIB]))), ["lib budget.json:5"]);
    assert_eq!(over(&budgeted(&text, &alone([MIB, 9 * MIB]))), ["bin budget.json:6"]);
}

#[test]
fn a_line_without_a_kind_fits_a_test_of_the_only_kind() {
    let of_lib = |peak: i64| {
        let log = Log::new().checkpoint("done", &[("heap.peak", peak)]);
        Synthetic::new(&["v1"]).passed_in(TargetKind::Lib, "t", 0, 0, &log)
    };
    let text = recorded([MIB, 8 * MIB]).lines().filter(|line| !line.contains("\"bin\"")).collect::<String>();
    let without = text.replace("\"kind\":\"lib\",", "").replace("},", "}");
    assert!(!without.contains("kind"), "{without}");
    assert_eq!(over(&budgeted(&without, &of_lib(2 * MIB))), ["lib budget.json:1"]);
    let both = budgeted(&without, &alone([2 * MIB, MIB]));
    let note = "the budget of heap.peak at 'done' of bart::tests::t was not checked: tests in lib and bin have that \
                name, so the line needs a \"kind\" (budget.json:1)";
    assert!(both.notes.iter().any(|known| known == note), "{:?}", both.notes);
    assert_eq!((over(&both).len(), both.unchecked, code(&both)), (0, 1, 3));
}

/// The tests `t` of both kinds at two revisions, with as many runs a side as figures.
fn compared(peaks: [&[[i64; 2]]; 2], judging: Judging) -> Comparison {
    let mut synthetic = Synthetic::new(&["main", "pr/7"]).judging(judging);
    for (kind, runs) in UNIT_TESTS.into_iter().zip(peaks) {
        for (repeat, sides) in (0..).zip(runs) {
            for (revision, peak) in sides.iter().enumerate() {
                let log = log("cpu.peak", &[("done", *peak)]);
                synthetic = synthetic.passed_in(kind, "t", revision, repeat, &log);
            }
        }
    }
    compare(&synthetic.results())
}

/// The verdicts on `cpu.peak`, by kind.
fn verdicts(comparison: &Comparison) -> Vec<String> {
    let verdicts = comparison.pairs().map(|view| {
        let judged = view.judged("cpu.peak").unwrap();
        let verdicts: Vec<String> =
            judged.rulings().map(|ruling| format!("{:?}", ruling.verdict).to_lowercase()).collect();
        format!("{} {}", view.cell.id.test.kind.as_str(), verdicts.join(" "))
    });
    verdicts.collect()
}

#[test]
fn the_noise_of_one_kind_is_not_that_of_the_other() {
    let quiet = [[100 * MIB, 100 * MIB + 4 * KIB], [100 * MIB, 100 * MIB]];
    let noisy = [[100 * MIB, 160 * MIB], [101 * MIB, 100 * MIB]];
    let itself = noise::measured(&compared([&quiet, &noisy], Judging::default()));
    let kinds: Vec<_> = itself.figures.iter().map(|figure| (figure.kind, figure.spread)).collect();
    assert_eq!(kinds, [(Some(TargetKind::Lib), 4096), (Some(TargetKind::Bin), 60 << 20)]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("noise.json");
    fs_err::write(&file, serde_json::to_vec(&itself).unwrap()).unwrap();
    let read = noise::read(Utf8Path::from_path(&file).unwrap()).unwrap();
    let grown: [&[[i64; 2]]; 2] = [&[[100 * MIB, 110 * MIB]]; 2];
    let judged = compared(grown, Judging { noise: read.clone(), ..Judging::default() });
    assert_eq!(verdicts(&judged), ["lib regressed", "bin inconclusive"]);

    let mut old = read;
    for figure in &mut old {
        figure.kind = None;
    }
    let judged = compared(grown, Judging { noise: old, ..Judging::default() });
    assert_eq!(verdicts(&judged), ["lib inconclusive", "bin inconclusive"]);
    let note = "the noise of bart::tests::t is not used: there are tests of that name in lib and bin, and the noise file";
    assert!(judged.notes.iter().any(|known| known.contains(note)), "{:?}", judged.notes);
}

/// One run a side of the test `t` of one kind, as with `--lib` or `--bins`.
fn of_kind(kind: TargetKind, peaks: [i64; 2], judging: Judging) -> Comparison {
    let mut synthetic = Synthetic::new(&["main", "pr/7"]).judging(judging);
    for (revision, peak) in peaks.into_iter().enumerate() {
        synthetic = synthetic.passed_in(kind, "t", revision, 0, &log("cpu.peak", &[("done", peak)]));
    }
    compare(&synthetic.results())
}

#[test]
fn noise_that_is_recorded_with_one_kind_alone_is_not_that_of_the_other() {
    let quiet = [100 * MIB, 100 * MIB + 4 * KIB];
    let noise = noise::measured(&of_kind(TargetKind::Lib, quiet, Judging::default())).figures;
    let judging = || Judging { noise: noise.clone(), ..Judging::default() };
    let grown = [100 * MIB, 110 * MIB];
    assert_eq!(verdicts(&of_kind(TargetKind::Lib, grown, judging())), ["lib regressed"]);
    assert_eq!(verdicts(&of_kind(TargetKind::Bin, grown, judging())), ["bin inconclusive"]);
    let of_both = compared([&[grown]; 2], judging());
    assert_eq!(verdicts(&of_both), ["lib regressed", "bin inconclusive"]);
    let is_about_noise = |note: &String| note.contains("the noise of");
    assert!(!of_both.notes.iter().any(is_about_noise), "{:?}", of_both.notes);
}

#[test]
fn noise_without_a_kind_is_not_used_if_the_file_states_kinds_for_the_test() {
    let quiet = [100 * MIB, 100 * MIB + 4 * KIB];
    let noise = |kind| noise::measured(&of_kind(kind, quiet, Judging::default())).figures;
    let mut figures = noise(TargetKind::Lib);
    for figure in &mut figures {
        figure.kind = None;
    }
    let judged = |noise| {
        let grown = [100 * MIB, 110 * MIB];
        verdicts(&of_kind(TargetKind::Lib, grown, Judging { noise, ..Judging::default() }))
    };
    assert_eq!(judged(figures.clone()), ["lib regressed"]);
    figures.extend(noise(TargetKind::Bin));
    assert_eq!(judged(figures), ["lib inconclusive"]);
}

#[test]
fn the_next_command_names_the_target_of_a_test_if_another_has_the_same_name() {
    let next = |kinds: &[(TargetKind, i64)]| {
        let mut synthetic = Synthetic::new(&["main", "pr/7"]);
        for (kind, growth) in kinds {
            for (revision, repeat) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let peak = if revision == 0 { MIB } else { MIB + growth };
                let log = log("heap.peak", &[("done", peak)]);
                synthetic = synthetic.passed_in(*kind, "t", revision, repeat, &log);
            }
        }
        let mut results = synthetic.results();
        results.plan.search = Some(SearchOptions { candidates: vec![1], ..SearchOptions::default() });
        let text = table(&compare(&results), &at_width(120));
        text.lines().find_map(|line| line.split_once("--exact ")).map(|(_, words)| words.to_owned())
    };
    let (lib, bin) = (TargetKind::Lib, TargetKind::Bin);
    assert_eq!(next(&[(lib, MIB), (bin, 0)]).as_deref(), Some("bart::tests::t --lib"));
    assert_eq!(next(&[(lib, 0), (bin, MIB)]).as_deref(), Some("bart::tests::t --bin-tests tests"));
    assert_eq!(next(&[(bin, MIB)]).as_deref(), Some("bart::tests::t"));
}
