//! What a report answers first: differences, their directions, what is left out, and the next command.

use std::sync::Arc;

use cargo_memprof::arguments::values;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::completeness;
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::compare;
use memprof_plan::rule::Judging;
use memprof_plan::search_options::SearchOptions;
use memprof_report::github;
use memprof_report::options::{Format, Options};
use memprof_support::exit_code::ExitCode;
use serde_json::Value;

use crate::causes::{changed, comparison, difference, explained, explanations};
use crate::reports::{KIB, MIB, at_width, rendered, table};
use crate::support::synthetic::{Log, Synthetic};

#[test]
fn a_difference_is_always_printed_and_a_wave_means_that_it_may_be_none() {
    let log = |heap: i64, resident: i64| {
        Log::new().checkpoint("done", &[("heap.peak", heap), ("cpu.peak", resident)])
    };
    let mut synthetic = Synthetic::new(&["main", "pr/1"]);
    for (repeat, noise) in [(0, 0), (1, 8), (2, 16)] {
        synthetic = synthetic.passed("t", 0, repeat, &log(MIB, 100 * MIB + noise * KIB));
        synthetic = synthetic.passed("t", 1, repeat, &log(MIB + 4 * KIB, 100 * MIB + (noise + 4) * KIB));
    }
    let comparison = compare(&synthetic.results());
    let text = table(&comparison, &at_width(120));
    let row = text.lines().find(|line| line.starts_with(" done")).unwrap();
    let [_, heap, resident] = row.split('│').collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(heap.contains("+4.00 KiB  +0.39 %") && !heap.contains('~'), "below its limit, and real: {text}");
    assert!(resident.contains("+4.00 KiB  <0.01 % ~"), "{text}");
    assert!(text.starts_with("memory: 1 test without a change above a limit · "), "{text}");
    let json: Value =
        serde_json::from_str(&rendered(Format::Json, &comparison, &Options::default())).unwrap();
    assert_eq!(json["verdict"]["tests"][0]["unchanged"], 1);
    assert_eq!(json["verdict"]["tests"][0]["tests"], 1);
}

#[test]
fn the_answer_names_both_directions() {
    let sides = [[512, 640, 512], [256, 384, 640]];
    let synthetic = (0..4).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat| {
        (0..2).fold(synthetic, |synthetic, side| {
            let labels = ["read", "parsed", "done"].into_iter().zip(sides[side]);
            let log = labels
                .fold(Log::new(), |log, (label, kib)| log.checkpoint(label, &[("heap.peak", kib * KIB)]));
            synthetic.passed("t", side, repeat, &log)
        })
    });
    let text = table(&compare(&synthetic.results()), &Options::default());
    let line = text.lines().find(|line| line.contains('▲')).unwrap();
    assert!(
        line.contains("+128 KiB  +25.0 %  at 'done'; -256 KiB at 'read' (src/lib.rs:10), and 1 later one"),
        "{text}"
    );
}

#[test]
fn a_doubt_follows_the_change_that_it_is_about() {
    // heap.peak varies, and cpu.peak fell.
    let synthetic = (0..6).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat: u32| {
        let log = |peak: i64, resident: i64| {
            Log::new().checkpoint("done", &[("heap.peak", peak * KIB), ("cpu.peak", resident * KIB)])
        };
        let varies = 400 * i64::from(repeat % 3);
        let [old, new] = [log(1000 + varies, 9000), log(1200 + varies, 3000)];
        synthetic.passed("t", 0, repeat, &old).passed("t", 1, repeat, &new)
    });
    let text = table(&compare(&synthetic.results()), &Options::default());
    let line = text.lines().find(|line| line.contains(" ? t")).unwrap();
    let (change, doubt) = line.split_once(": between ").expect(line);
    assert!(change.contains("heap.peak") && !change.contains("cpu.peak"), "{text}");
    assert!(
        doubt.contains("after 6 runs a side, limit ") && doubt.contains("; -5.86 MiB cpu.peak"),
        "{text}"
    );
}

#[test]
fn a_test_that_may_have_shrunk_is_not_called_unchanged() {
    let log = |kib: i64| Log::new().checkpoint("done", &[("heap.peak", kib * KIB)]);
    let shrunk = |synthetic: Synthetic| {
        (0..15).fold(synthetic, |synthetic, repeat: u32| {
            let new = if repeat % 5 < 3 { 1024 } else { 2048 };
            synthetic.passed("t", 0, repeat, &log(2048)).passed("t", 1, repeat, &log(new))
        })
    };
    let alone = compare(&shrunk(Synthetic::new(&["main", "pr/1"])).results());
    assert_eq!(Conclusion::from_comparison(&alone).exit_code(), ExitCode::Success);
    let text = table(&alone, &at_width(120));
    assert!(text.starts_with("memory: 1 test may have shrunk · "), "{text}");
    let json: Value = serde_json::from_str(&rendered(Format::Json, &alone, &Options::default())).unwrap();
    let counts = &json["verdict"]["tests"][0];
    assert_eq!((&counts["inconclusive"], &counts["unchanged"]), (&1.into(), &0.into()));

    let grown = (0..4).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat| {
        synthetic.passed("grew", 0, repeat, &log(1024)).passed("grew", 1, repeat, &log(2048))
    });
    let beside = compare(&shrunk(grown).results());
    for format in [Format::Table, Format::Markdown] {
        let text = rendered(format, &beside, &Options::default());
        assert!(text.contains("1 of 2 tests regressed and 1 may have shrunk"), "{text}");
    }
    let text = table(&beside, &at_width(120));
    let line = text.lines().find(|line| line.starts_with(" ? t ")).expect(&text);
    assert!(line.contains("-1.00 MiB") && text.contains("after 15 runs a side"), "{text}");
}

#[test]
fn a_test_with_a_change_that_no_rule_judges_is_not_called_unchanged() {
    let headline = |off: &str, [peak, resident]: [i64; 2]| {
        let log = |peak: i64, resident: i64| {
            let metrics = [("heap.peak", peak), ("heap.live", 0), ("cpu.peak", resident)];
            Log::new().checkpoint("done", &metrics)
        };
        let rules = off.split(' ').map(|metric| values::threshold(&format!("{metric}=off")).unwrap());
        let judging = Judging { rules: rules.collect(), ..Judging::default() };
        let synthetic = Synthetic::new(&["main", "pr/1"]).judging(judging);
        let old = log(MIB, 9 * MIB);
        let synthetic = synthetic.passed("t", 0, 0, &old).passed("t", 1, 0, &log(peak, resident));
        let text = table(&compare(&synthetic.results()), &at_width(120));
        text.split_once(" · ").unwrap().0.to_owned()
    };
    let partly = "memory: 1 test only partly judged";
    assert_eq!(headline("heap.peak cpu.peak", [2 * MIB, 9 * MIB]), partly);
    assert_eq!(headline("cpu.peak", [MIB, 12 * MIB]), partly);
    assert_eq!(headline("heap.peak cpu.peak", [MIB + KIB, 9 * MIB + 80 * KIB]), "memory: 1 test unchanged");
    assert_eq!(headline("*", [2 * MIB, 9 * MIB]), "memory: 1 test not judged");
}

#[test]
fn a_test_without_heap_figures_is_not_called_unchanged() {
    let reason = "the #[global_allocator] is created by a macro";
    let log = || Log::new().checkpoint("done", &[("cpu.peak", 9 * MIB)]);
    let without = || log().absent("heap.peak", reason);
    let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat| {
        synthetic.passed("t", 0, repeat, &without()).passed("t", 1, repeat, &without())
    });
    let comparison = compare(&synthetic.results());
    assert_eq!(completeness::exit_code(&comparison), ExitCode::Success, "it cannot be helped");
    let text = table(&comparison, &at_width(120));
    assert!(text.starts_with("memory: 1 test only partly judged · "), "{text}");
    assert!(text.contains(reason), "{text}");
    let json: Value =
        serde_json::from_str(&rendered(Format::Json, &comparison, &Options::default())).unwrap();
    let counts = &json["verdict"]["tests"][0];
    assert_eq!((&counts["partly_judged"], &counts["unchanged"]), (&1.into(), &0.into()));
}

#[test]
fn the_table_has_the_metric_that_the_answer_names() {
    let log =
        |live: i64| Log::new().checkpoint("done", &[("heap.peak", live + 2 * MIB), ("heap.live", live)]);
    let synthetic = (0..4).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat| {
        let kept = Log::new().checkpoint("done", &[("heap.peak", 4 * MIB), ("heap.live", 3 * MIB)]);
        synthetic.passed("t", 0, repeat, &log(MIB)).passed("t", 1, repeat, &kept)
    });
    let text = table(&compare(&synthetic.results()), &Options::default());
    assert!(text.contains(" ▲ t  heap.live  1.00 → 3.00 MiB"), "{text}");
    let headings = text.lines().find(|line| line.contains('│')).unwrap();
    assert!(headings.contains("heap.peak") && headings.contains("heap.live"), "{text}");
}

#[test]
fn the_largest_change_below_a_limit_is_named() {
    let log = |heap: i64| Log::new().checkpoint("done", &[("heap.peak", heap), ("cpu.peak", MIB)]);
    let mut synthetic = Synthetic::new(&["main", "pr/1"]);
    for repeat in 0..2 {
        for (test, change) in [("some", 96), ("most", -4 * KIB), ("none", 0)] {
            synthetic = synthetic.passed(test, 0, repeat, &log(MIB));
            synthetic = synthetic.passed(test, 1, repeat, &log(MIB + change));
        }
    }
    let text = table(&compare(&synthetic.results()), &Options::default());
    assert!(text.starts_with("memory: 3 tests without a change above a limit · "), "{text}");
    let rest =
        "1 test unchanged · 2 changed below a limit, most heap.peak -4.00 KiB (-0.39 %) at 'done' of most";
    assert!(text.lines().any(|line| line == rest), "{text}");
}

#[test]
fn what_is_piped_is_never_cut() {
    let label = "long ".repeat(20).trim_end().to_owned();
    let log = |heap| Log::new().checkpoint(&label, &[("heap.peak", heap)]);
    let refs = ["main", "feature/a-rather-long-branch-name-indeed"];
    let synthetic = (0..2).fold(Synthetic::new(&refs), |synthetic, repeat| {
        synthetic.passed("labels", 0, repeat, &log(MIB)).passed("labels", 1, repeat, &log(2 * MIB))
    });
    let comparison = compare(&synthetic.results());
    let piped = table(&comparison, &Options::default());
    assert!(!piped.contains('…') && piped.matches(&label).count() == 3, "{piped}");
    assert!(table(&comparison, &at_width(80)).contains('…'));
}

#[test]
fn the_next_command_can_be_pasted_or_is_left_out() {
    let log = |heap| Log::new().checkpoint("done", &[("heap.peak", heap)]);
    let next = |specs: [&str; 2], change: &dyn Fn(&mut memprof_judge::results::stored::Results)| {
        let synthetic = (0..2).fold(Synthetic::new(&["old", "new"]), |synthetic, repeat| {
            synthetic.passed("t", 0, repeat, &log(MIB)).passed("t", 1, repeat, &log(2 * MIB))
        });
        let mut results = synthetic.results();
        for (revision, spec) in results.plan.revisions.iter_mut().zip(specs) {
            revision.spec = spec.to_owned();
        }
        results.plan.search = Some(SearchOptions { candidates: vec![1], ..SearchOptions::default() });
        change(&mut results);
        let text = table(&compare(&results), &at_width(120));
        text.lines().find(|line| line.starts_with("next")).unwrap_or_default().to_owned()
    };
    let same = |_: &mut memprof_judge::results::stored::Results| ();
    let command = "cargo memprof bisect";
    assert_eq!(next(["main", "pr/7"], &same), format!("next: {command} main..pr/7 --exact bart::tests::t"));
    // What the plan calls its ends is no end of a range: the commits stand in for them.
    for specs in [["main...HEAD", "HEAD"], ["merge-base", "HEAD"]] {
        assert_eq!(next(specs, &same), format!("next: {command} 0aa2c1f..HEAD --exact bart::tests::t"));
    }
    assert_eq!(next(["main", "."], &same), format!("next: {command} main..1aa2c1f --exact bart::tests::t"));
    assert_eq!(next(["HEAD~1", "HEAD"], &same), "", "there is only one commit");
    let dirty = |results: &mut memprof_judge::results::stored::Results| {
        results.plan.revisions[1].working_tree = true;
    };
    assert_eq!(next(["main", "."], &dirty), "");
    let diverged = |results: &mut memprof_judge::results::stored::Results| {
        results.plan.search.as_mut().unwrap().candidates.clear();
    };
    assert_eq!(next(["main", "pr/7"], &diverged), "", "no range leads from one to the other");
    let release = |results: &mut memprof_judge::results::stored::Results| {
        let search = results.plan.search.as_mut().unwrap();
        search.words = ["--overlay", "my test.rs=tests/m.rs", "-r"].map(str::to_owned).to_vec();
        search.thresholds = ["heap.peak=1%", "heap.live=2%"].map(str::to_owned).to_vec();
    };
    assert_eq!(
        next(["main", "pr/7"], &release),
        format!(
            "next: {command} main..pr/7 --exact bart::tests::t --threshold heap.peak=1% --overlay 'my \
             test.rs=tests/m.rs' -r"
        )
    );
}

#[test]
fn a_terminal_breaks_the_next_command_between_its_arguments() {
    let log = |heap| Log::new().checkpoint("done", &[("heap.peak", heap)]);
    let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/7"]), |synthetic, repeat| {
        synthetic.passed("t", 0, repeat, &log(MIB)).passed("t", 1, repeat, &log(2 * MIB))
    });
    let mut results = synthetic.results();
    results.plan.search = Some(SearchOptions { candidates: vec![1], ..SearchOptions::default() });
    let comparison = compare(&results);
    let line = "next: cargo memprof bisect main..pr/7 --exact bart::tests::t\n";
    let text = table(&comparison, &at_width(50));
    assert!(text.contains(line), "{text}");
    let on_terminal = Options { is_on_terminal: true, ..at_width(50) };
    let text = table(&comparison, &on_terminal);
    let broken = "next:\n      cargo memprof bisect main..pr/7 \\\n          --exact bart::tests::t\n";
    assert!(text.contains(broken), "{text}");
}

#[test]
fn the_next_command_names_metric_and_checkpoint() {
    for (label, word) in [("two words", "--checkpoint 'two words'"), ("-- read", "'--checkpoint=-- read'")] {
        let log = |parsed: i64| {
            let log = Log::new().checkpoint(label, &[("heap.live", 2 * parsed)]);
            log.checkpoint("done", &[("heap.live", MIB)])
        };
        let synthetic = (0..2).fold(Synthetic::new(&["old", "new"]), |synthetic, repeat| {
            synthetic.passed("t", 0, repeat, &log(MIB)).passed("t", 1, repeat, &log(2 * MIB))
        });
        let mut results = synthetic.results();
        results.plan.search = Some(SearchOptions { candidates: vec![1], ..SearchOptions::default() });
        let text = table(&compare(&results), &Options::default());
        let line = format!("--exact bart::tests::t --metric heap.live {word}");
        assert!(text.lines().any(|next| next.starts_with("next: ") && next.ends_with(&line)), "{text}");
    }
}

#[test]
fn the_next_command_names_a_level_after_a_new_checkpoint_and_no_joined_peak() {
    let next = |metric: &str| {
        let point = |log: Log, label: &str, figure: i64| log.checkpoint(label, &[(metric, figure)]);
        let old = point(point(Log::new(), "read", MIB), "done", MIB);
        let new = point(point(point(Log::new(), "mid", MIB), "read", 2 * MIB), "done", MIB);
        let synthetic = (0..2).fold(Synthetic::new(&["old", "new"]), |synthetic, repeat| {
            synthetic.passed("t", 0, repeat, &old).passed("t", 1, repeat, &new)
        });
        let mut results = synthetic.results();
        results.plan.search = Some(SearchOptions { candidates: vec![1], ..SearchOptions::default() });
        let text = table(&compare(&results), &Options::default());
        text.lines().find(|line| line.starts_with("next")).unwrap_or_default().to_owned()
    };
    assert!(next("heap.live").ends_with("--metric heap.live --checkpoint read"), "{}", next("heap.live"));
    assert!(!next("heap.peak").contains("--checkpoint"), "{}", next("heap.peak"));
}

#[test]
fn the_next_command_looks_for_the_peak_of_a_test_whose_scope_grew() {
    let shown = |peaks: [i64; 2], of_scope: [i64; 2]| {
        let log = |side: usize| {
            let scope = [("heap.consumed", 0), ("heap.peaked", of_scope[side]), ("heap.used", 0)];
            let log = Log::new().checkpoint("start", &[("heap.peak", 0)]).scope("work", &scope);
            log.checkpoint("done", &[("heap.peak", peaks[side])])
        };
        let synthetic = (0..2).fold(Synthetic::new(&["old", "new"]), |synthetic, repeat| {
            synthetic.passed("t", 0, repeat, &log(0)).passed("t", 1, repeat, &log(1))
        });
        let mut results = synthetic.results();
        results.plan.search = Some(SearchOptions { candidates: vec![1], ..SearchOptions::default() });
        let text = table(&compare(&results), &at_width(120));
        let line =
            |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
        [line(" ▲ "), line("next: ")]
    };
    let of_whole_test = "next: cargo memprof bisect old..new --exact bart::tests::t";
    let [answer, next] = shown([2 * MIB, 4 * MIB], [2 * MIB, 4 * MIB]);
    assert!(answer.contains("heap.peak ") && answer.contains("at 'done'"), "{answer}");
    assert_eq!(next, of_whole_test);
    let [answer, next] = shown([4 * MIB, 5 * MIB], [MIB, 5 * MIB]);
    assert!(answer.contains("heap.peaked ") && answer.contains("at 'work (scope)'"), "{answer}");
    assert_eq!(next, of_whole_test);
    let [answer, next] = shown([4 * MIB, 4 * MIB], [MIB, 4 * MIB]);
    assert!(answer.contains("heap.peaked "), "{answer}");
    assert_eq!(next, "");
}

#[test]
fn the_largest_change_without_a_verdict_says_its_unit_beside_other_units() {
    let log = |factor: i64| {
        let metrics = [("heap.peak", MIB), ("cpu.rss", 100 * MIB + factor * KIB), ("time", factor * MIB)];
        Log::new().checkpoint("done", &metrics)
    };
    let synthetic = Synthetic::new(&["main", "pr/1"]).passed("t", 0, 0, &log(1)).passed("t", 1, 0, &log(3));
    let largest = |metrics: &[&str]| {
        let metrics = Some(metrics.iter().map(|metric| (*metric).to_owned()).collect());
        let text = table(&compare(&synthetic.results()), &Options { metrics, ..at_width(200) });
        let line = text.lines().find(|line| line.starts_with("figures without a verdict")).unwrap();
        line.split_once("; ").unwrap().1.to_owned()
    };
    assert!(largest(&["cpu.rss", "time"]).starts_with("largest change in bytes: cpu.rss +2.00 KiB"));
    assert!(largest(&["time", "cpu.rss"]).starts_with("largest change in bytes: cpu.rss +2.00 KiB"));
    assert!(largest(&["cpu.rss"]).starts_with("largest change: cpu.rss +2.00 KiB"));
}

#[test]
fn a_test_with_a_metric_that_was_not_compared_is_counted() {
    let log = |source: &str| {
        Log::new().source("cpu.peak", source).checkpoint("done", &[("heap.peak", MIB), ("cpu.peak", MIB)])
    };
    let synthetic = (0..2).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, repeat| {
        synthetic.passed("t", 0, repeat, &log("one")).passed("t", 1, repeat, &log("two"))
    });
    let comparison = compare(&synthetic.results());
    let text = table(&comparison, &at_width(100));
    assert!(text.starts_with("memory: 1 test unchanged") && text.contains("cpu.peak not compared"), "{text}");
    assert!(text.contains("\n1 test not compared in every metric\n"), "{text}");
    let markdown = rendered(Format::Markdown, &comparison, &Options::default());
    assert!(markdown.contains("1 test not compared in every metric"), "{markdown}");
}

#[test]
fn metrics_that_were_asked_for_stand_beside_the_causes() {
    let shown = |count: usize, options: Options| {
        let names = ["a", "b", "c", "d"].into_iter().zip([200, 260, 300, 100]).take(count);
        let comparison =
            comparison(&["main", "pr/7"], names.map(|(name, peak)| (name, vec![100 * KIB, peak * KIB])));
        let of = |(name, kib)| explained(name, 1, difference(&[(9, kib * KIB, changed(9))]));
        let why = explanations([("a", 100), ("b", 160)].map(of).to_vec());
        let options = Options { why: Some(Arc::new(why)), ..options };
        let text = rendered(Format::Table, &comparison, &options);
        let tables = text.lines().filter_map(|line| line.strip_prefix("bart::tests ")?.split(' ').next());
        let tables: Vec<String> = tables.map(str::to_owned).collect();
        let comment = rendered(Format::Markdown, &comparison, &options);
        let rows =
            comment.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | done | heap.peak"));
        let rows: Vec<String> = rows.map(|(test, _)| test.to_owned()).collect();
        [tables.join(" "), rows.join(" ")]
    };
    let asked = Options { metrics: Some(vec!["heap.peak".to_owned()]), ..Options::default() };
    let all = Options { all: true, ..Options::default() };
    // Without the flags, the causes and the answer say all. `c` has no cause.
    assert_eq!(shown(4, Options::default()), ["", "c"]);
    for options in [asked, all] {
        assert_eq!(shown(4, options.clone()), ["c b", "c b"], "of a cause, its worst test");
        assert_eq!(shown(2, options), ["b a", "b a"], "few tests");
    }
}

#[test]
fn the_next_command_is_for_the_worst_candidate() {
    let names = ["main", "one", "eight", "two"];
    let synthetic = (0..2).fold(Synthetic::new(&names), |synthetic, repeat| {
        [1, 2, 9, 3].into_iter().enumerate().fold(synthetic, |synthetic, (revision, peak)| {
            let log = Log::new().checkpoint("done", &[("heap.peak", peak * MIB)]);
            synthetic.passed("t", revision, repeat, &log)
        })
    });
    let mut results = synthetic.results();
    results.plan.search = Some(SearchOptions { candidates: vec![1, 2, 3], ..SearchOptions::default() });
    let text = table(&compare(&results), &Options::default());
    assert!(text.contains("next: cargo memprof bisect main..eight "), "{text}");
}

/// What a test with these figures of `heap.peak` and `cpu.peak` has in the reports, in MiB at `done` of both sides. The
/// heap's difference has a cause.
fn with_heap_cause(heap: [i64; 2], resident: [i64; 2], allow: Option<&str>) -> (Comparison, Options) {
    let allow = allow.into_iter().map(|text| values::allow(text).unwrap()).collect();
    let judging = Judging { allow, ..Judging::default() };
    let synthetic = (0..6).fold(Synthetic::new(&["main", "pr/1"]).judging(judging), |synthetic, repeat| {
        (0..2).fold(synthetic, |synthetic, side| {
            let figures = [("heap.peak", heap[side] * MIB), ("cpu.peak", resident[side] * MIB)];
            synthetic.passed("t", side, repeat, &Log::new().checkpoint("done", &figures))
        })
    });
    let cause = difference(&[(9, (heap[1] - heap[0]) * MIB, changed(9))]);
    let options =
        Options { why: Some(Arc::new(explanations(vec![explained("t", 1, cause)]))), ..Options::default() };
    (compare(&synthetic.results()), options)
}

/// The kinds of the annotations: `error` or `notice`.
fn levels(comparison: &Comparison, options: &Options) -> Vec<String> {
    let commands = github::annotations(comparison, options);
    commands.iter().map(|command| command[2..].split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn a_regression_is_shown_beside_causes_of_another_change() {
    let (comparison, options) = with_heap_cause([9, 1], [20, 44], None);
    let text = table(&comparison, &options);
    assert!(text.starts_with("memory: 1 test regressed · main"), "{text}");
    assert!(text.contains("▼ src/lib.rs:9") && text.contains("-8.00 MiB heap.peak in 1 test"), "{text}");
    assert!(text.contains(" ▲ t  cpu.peak  20.0 → 44.0 MiB  +24.0 MiB"), "{text}");
    assert!(rendered(Format::Markdown, &comparison, &options).contains("| cpu.peak | 20.0 → 44.0 MiB |"));
    assert_eq!(levels(&comparison, &options), ["error"]);
    let sarif: Value = serde_json::from_str(&rendered(Format::Sarif, &comparison, &options)).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert!(results.iter().any(|result| result["level"] == "error"), "{sarif}");
}

#[test]
fn expected_growth_is_no_error_beside_a_regression() {
    let allow = Some("metric=heap.*,reason=a larger cache");
    let (comparison, options) = with_heap_cause([1, 9], [20, 28], allow);
    assert_eq!(levels(&comparison, &options), ["notice", "error"]);
    let text = table(&comparison, &options);
    assert!(text.contains(" ▲ t  cpu.peak  20.0 → 28.0 MiB  +8.00 MiB"), "{text}");
    for format in [Format::Table, Format::Markdown, Format::Junit] {
        let text = rendered(format, &comparison, &options);
        let line = text.lines().find(|line| line.contains("+8.00 MiB heap.peak at"));
        assert!(line.is_some_and(|line| line.contains(", expected: a larger cache")), "{text}");
    }
}

#[test]
fn resident_memory_is_named_if_it_grew_by_more_than_the_heap() {
    let (comparison, options) = with_heap_cause([1, 2], [5, 70], None);
    let text = table(&comparison, &options);
    assert!(
        text.contains("+1.00 MiB heap.peak in 1 test") && text.contains("; +65.0 MiB cpu.peak at"),
        "{text}"
    );
    assert_eq!(levels(&comparison, &options), ["error", "error"]);
    let (comparison, options) = with_heap_cause([1, 41], [5, 45], None);
    let text = table(&comparison, &options);
    assert!(text.contains("+40.0 MiB heap.peak in 1 test") && !text.contains("cpu.peak"), "{text}");
    assert_eq!(levels(&comparison, &options), ["error"]);
}

#[test]
fn two_of_two_tests_are_both() {
    let log = |kib: i64| Log::new().checkpoint("done", &[("heap.peak", kib * KIB)]);
    let grown = ["a", "b"].iter().fold(Synthetic::new(&["main", "pr/1"]), |synthetic, test| {
        synthetic.passed(test, 0, 0, &log(1024)).passed(test, 1, 0, &log(2048))
    });
    let text = table(&compare(&grown.results()), &at_width(120));
    assert!(text.starts_with("memory: both tests inconclusive"), "{text}");
}
