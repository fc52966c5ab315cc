//! Verdicts on resident memory: what the heap and the program's own pages explain.

use crate::judging::{MIB, code, rules, verdict};
use crate::support::synthetic::{Log, Synthetic};
use cargo_memprof::arguments::values;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_judge::compare::noise;
use memprof_judge::compare::repeats;
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::rule::Judging;
use memprof_report::options::{Format, Options};

const KIB: i64 = 1024;

/// What a side has after `parsed`, in MiB: kept memory at both checkpoints, resident memory, and how far
/// the heap rose.
#[derive(Clone, Copy)]
struct After {
    kept: i64,
    resident: i64,
    rise: i64,
}

fn parsed_and_freed(peak: i64, after: After, repeat: u32) -> Log {
    let mib = |figure: i64| figure * MIB;
    let noise = i64::from(repeat) * 4 * KIB;
    let resident = [3 * MIB, mib(peak + 3), mib(after.resident)].map(|figure| figure + noise);
    let rows = [("start", 0, 0, 0), ("parsed", peak, 1, after.kept), ("done", 1 + after.rise, 1, after.kept)];
    rows.into_iter().zip(resident).fold(Log::new(), |log, ((label, peak, live, kept), resident)| {
        let level = if label == "parsed" { mib(3 + live + kept) } else { resident };
        let figures = [("cpu.peak", resident), ("cpu.rss", level), ("cpu.kept", mib(kept))];
        log.checkpoint(label, &[&[("heap.peak", mib(peak)), ("heap.live", mib(live))], &figures[..]].concat())
    })
}

#[test]
fn freed_memory_that_the_c_library_kept_is_shown_and_no_regression() {
    let old = After { kept: 1, resident: 5, rise: 0 };
    let compared = |peaks: [i64; 2], old: After, new: After, judging: Judging| {
        let synthetic =
            (0..6).fold(Synthetic::new(&["main", "pr/1"]).judging(judging), |synthetic, repeat| {
                let [old, new] = [(peaks[0], old), (peaks[1], new)]
                    .map(|(peak, after)| parsed_and_freed(peak, after, repeat));
                synthetic.passed("t", 0, repeat, &old).passed("t", 1, repeat, &new)
            });
        let comparison = compare(&synthetic.results());
        let mut text = Vec::new();
        memprof_report::render::render(Format::Table, &comparison, &Options::default(), &mut text).unwrap();
        let row = verdict(&comparison, "cpu.peak", 2).unwrap();
        (row, code(&comparison), String::from_utf8(text).unwrap())
    };
    let usual = Judging::default;
    let kept = After { kept: 12, resident: 16, rise: 0 };
    let (row, exit, text) = compared([369, 19], old, kept, usual());
    assert_eq!((row, exit), (Verdict::Unchanged, 0), "{text}");
    assert!(text.starts_with("memory: 1 test improved"), "{text}");
    assert!(
        text.contains("; +11.0 MiB resident at 'done' (freed memory that the C library kept)\n"),
        "{text}"
    );
    let (row, exit, text) = compared([19, 19], old, kept, usual());
    assert_eq!((row, exit), (Verdict::Unchanged, 0), "{text}");
    let rest =
        "1 test where the C library kept freed memory, most cpu.peak +11.0 MiB (+220 %) at 'done' of t";
    assert!(text.lines().any(|line| line == rest), "{text}");
    // The other way round, it is no improvement.
    assert_eq!(compared([19, 19], kept, old, usual()).0, Verdict::Unchanged);

    // Memory that the heap does not show, and the C library does not keep.
    let mapped = After { kept: 1, ..kept };
    assert_eq!(compared([369, 19], old, mapped, usual()).0, Verdict::Regressed);
    let (row, exit, _) = compared([19, 19], old, After { resident: 26, ..kept }, usual());
    assert_eq!((row, exit), (Verdict::Regressed, 1), "10 MiB more than it kept");
    // The heap may have used again what was kept.
    let [used, rising] = [kept, old].map(|after| After { rise: 11, ..after });
    assert_eq!(compared([19, 19], rising, used, usual()).0, Verdict::Regressed);
    // The user asked for resident memory.
    let asked = Judging { asked: vec!["cpu.peak".to_owned()], ..Judging::default() };
    assert_eq!(compared([369, 19], old, kept, asked).0, Verdict::Regressed);
    let limited = rules(vec![values::threshold("cpu.peak=5%").unwrap()]);
    assert_eq!(compared([369, 19], old, kept, limited).0, Verdict::Regressed);
}

#[test]
fn pages_of_the_program_itself_are_no_change() {
    // Each run: the program's own pages at `done`, and what else is resident then, in KiB.
    let compared = |old: &[[i64; 2]], new: &[[i64; 2]], has_pages: bool| {
        let mut synthetic = Synthetic::new(&["main", "pr/1"]);
        for (revision, runs) in [old, new].into_iter().enumerate() {
            for (repeat, [pages, other]) in (0..).zip(runs) {
                let figures = |pages: i64, other: i64| {
                    let resident = pages + other;
                    let all = [("cpu.peak", resident), ("cpu.rss", resident), ("cpu.program", pages)];
                    all[..if has_pages { 3 } else { 2 }].to_vec()
                };
                let [start, done] = [figures(MIB, MIB), figures(pages * KIB, MIB + other * KIB)];
                let log = Log::new().checkpoint("start", &start).checkpoint("done", &done);
                synthetic = synthetic.passed("t", revision, repeat, &log);
            }
        }
        let comparison = compare(&synthetic.results());
        (verdict(&comparison, "cpu.peak", 1), code(&comparison))
    };
    let old = [[3000, 500], [3200, 508], [2900, 504], [3100, 500], [3000, 512]];
    // The executable was written again, so the kernel maps more of it at once.
    let more = [[5400, 504]];
    assert_eq!(compared(&old, &more, true), (Some(Verdict::Unchanged), 0));
    assert_eq!(compared(&old, &more, false), (Some(Verdict::Inconclusive), 4));
    // Memory of the test's own is a regression, also where fewer pages of the program hide it.
    let grown = [[1900, 2500]; 5];
    assert_eq!(compared(&old, &grown, true), (Some(Verdict::Regressed), 1));
    assert_eq!(compared(&old, &grown, false), (Some(Verdict::Unchanged), 0));
}

#[test]
fn resident_memory_that_changes_with_the_heap_needs_no_more_runs_than_the_heap() {
    // Each side: the number of runs, the heap's peak, and what else is resident, in KiB.
    let compared = |sides: [(u32, i64, i64); 2], judging: Judging| {
        let mut synthetic = Synthetic::new(&["main", "pr/1"]).judging(judging);
        for (revision, (runs, peak, other)) in sides.into_iter().enumerate() {
            for repeat in 0..runs {
                let resident = (peak + other + i64::from(repeat) * 40) * KIB;
                let done = [("heap.peak", peak * KIB), ("cpu.peak", resident)];
                let log = Log::new().checkpoint("start", &[("heap.peak", 0), ("cpu.peak", MIB)]);
                synthetic = synthetic.passed("t", revision, repeat, &log.checkpoint("done", &done));
            }
        }
        compare(&synthetic.results())
    };
    let ruled = |comparison: &Comparison| {
        let wanted = repeats::wanted(comparison, false);
        (verdict(comparison, "cpu.peak", 1).unwrap(), wanted.into_values().max())
    };
    let usual = |old, new| ruled(&compared([old, new], Judging::default()));
    assert_eq!(usual((4, 1000, 9000), (4, 6000, 9000)), (Verdict::Regressed, None));
    assert_eq!(usual((4, 6000, 9000), (4, 1000, 9000)), (Verdict::Improved, None));
    assert_eq!(usual((5, 1000, 9000), (3, 6000, 9000)), (Verdict::Regressed, None), "a saved baseline");
    assert_eq!(usual((2, 1000, 9000), (2, 6000, 9000)), (Verdict::Inconclusive, Some(4)), "not confirmed");
    assert_eq!(
        usual((4, 1000, 9000), (4, 6000, 14000)),
        (Verdict::Inconclusive, Some(6)),
        "not the heap alone"
    );
    assert_eq!(usual((4, 1000, 9000), (4, 1000, 14000)), (Verdict::Inconclusive, Some(6)), "not the heap");
    let itself = noise::measured(&compared([(2, 1000, 9000), (2, 1000, 15000)], Judging::default()));
    let noisy =
        compared([(4, 1000, 9000), (4, 6000, 9000)], Judging { noise: itself.figures, ..Judging::default() });
    assert_eq!(ruled(&noisy).0, Verdict::Inconclusive, "noise of 6 MB is known");
    let asked = Judging { asked: vec!["cpu.peak".to_owned()], ..Judging::default() };
    let asked = compared([(4, 1000, 9000), (4, 6000, 9000)], asked);
    assert_eq!(ruled(&asked), (Verdict::Inconclusive, Some(6)), "resident memory was asked for");
}

/// A test whose resident memory has these figures, by side and run: all, and the program's own pages.
fn with_pages(sides: [&[(i64, i64)]; 2], allow: &str) -> Comparison {
    let allow = vec![values::allow(allow).unwrap()];
    let mut synthetic = Synthetic::new(&["main", "pr/1"]).judging(Judging { allow, ..Judging::default() });
    for (revision, runs) in sides.into_iter().enumerate() {
        for (repeat, (resident, pages)) in (0..).zip(runs) {
            let figures = [("cpu.peak", *resident), ("cpu.program", *pages)];
            let log = Log::new().checkpoint("start", &figures).checkpoint("done", &figures);
            synthetic = synthetic.passed("t", revision, repeat, &log);
        }
    }
    compare(&synthetic.results())
}

#[test]
fn expected_growth_is_without_the_pages_of_the_program() {
    let grown = |limit: &str| {
        let sides = [(50 * MIB, MIB), (57 * MIB, 3 * MIB)].map(|run| [run; 5]);
        let allow = format!("metric=cpu.peak,limit={limit},reason=a cache");
        code(&with_pages([&sides[0], &sides[1]], &allow))
    };
    assert_eq!((grown("6MiB"), grown("4MiB")), (0, 1), "5 MiB without the pages");
}

#[test]
fn a_difference_is_real_only_if_the_runs_can_tell_so() {
    let is_noise = |sides: [&[(i64, i64)]; 2]| {
        let comparison = with_pages(sides, "metric=heap.peak,reason=none");
        let view = comparison.pairs().next().unwrap();
        let ruling = view.judged("cpu.peak").unwrap().at(&view.rows[1]).unwrap();
        assert_eq!(ruling.verdict, Verdict::Unchanged);
        let delta = view.column("cpu.peak").at(&view.rows[1]).delta.unwrap();
        ruling.is_within_noise(delta.difference)
    };
    let run = |kib: i64, pages: i64| (100 * MIB + kib * KIB, MIB + pages * KIB);
    let (old, new) = ([run(0, 0); 5], [run(60, 0); 5]);
    assert!(is_noise([&old[..2], &new[..2]]), "two runs a side");
    assert!(!is_noise([&old, &new]), "five");
    let with_pages = [run(400, 400); 5];
    assert!(is_noise([&with_pages, &new]), "the pages alone shrank");
}
