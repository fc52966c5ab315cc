//! The HTML page: what it says without its script, that no text can act in it, and what its script draws.

use std::collections::BTreeSet;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac_sha256::Hash as Sha256;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::from_results::compare;
use memprof_plan::program::ProgramCall;
use memprof_plan::resolved::CellId;
use memprof_plan::target_kind::TargetKind;
use memprof_report::options::{Format, Options};
use regex::Regex;
use serde_json::Value;

use crate::reports::{MIB, rendered, troubled, usual};
use crate::support::synthetic::{Log, Synthetic, readings};

fn page(comparison: &Comparison) -> String {
    rendered(Format::Html, comparison, &Options::default())
}

/// The text before the data: all that is there without JavaScript.
fn text(page: &str) -> &str {
    page.split_once("<script").unwrap().0
}

/// What the script draws.
pub fn data(page: &str) -> Value {
    let after = page.split_once("id=\"data\">").unwrap().1;
    let base64: String = after.split_once("</script>").unwrap().0.split_whitespace().collect();
    let mut json = String::new();
    let bytes = STANDARD.decode(base64).unwrap();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut json).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// The labels of a test's points.
fn labels(test: &Value) -> Vec<String> {
    let names = test["names"].as_array().unwrap();
    let (numbers, occurrences) = (figures(&test["labels"]), figures(&test["occurrences"]));
    let label = |(number, occurrence): (Option<i64>, Option<i64>)| {
        let name = names[usize::try_from(number.unwrap()).unwrap()].as_str().unwrap();
        if occurrence == Some(1) { name.to_owned() } else { format!("{name} #{}", occurrence.unwrap()) }
    };
    numbers.into_iter().zip(occurrences).map(label).collect()
}

/// A candidate's figures, from its steps beside the baseline's.
fn figures_beside(steps: &Value, baseline: &Value) -> Vec<Option<i64>> {
    let pairs = steps.as_array().unwrap().iter().zip(baseline.as_array().unwrap());
    let whole = pairs.map(|(own, base)| own.as_i64().map(|own| own + base.as_i64().unwrap_or(0)));
    figures(&serde_json::json!(whole.collect::<Vec<_>>()))
}

/// The numbers of differences to the one before.
fn figures(steps: &Value) -> Vec<Option<i64>> {
    let mut sum = 0;
    let steps = steps.as_array().unwrap().iter();
    let figure = |step: &Value| {
        sum += step.as_i64()?;
        Some(sum)
    };
    steps.map(figure).collect()
}

#[test]
fn the_page_says_the_verdict_the_figures_and_what_failed_without_its_script() {
    let page = page(&usual());
    for needle in [
        "<h1>memory: 1 test regressed</h1>",
        "<a href=\"#hf_fwd\">hf_fwd</a>",
        "<section class=\"test\" id=\"hf_fwd\" data-test=\"0\"><details open>",
        "<td class=\"n\">7.66 GiB</td><td class=\"n\">9.97 GiB</td><td class=\"n up\">+2.31 GiB</td>",
        "beam search → greedy search",
        "<section class=\"tree\"><h3>Scopes</h3>",
        "<span>cargo</span> <span>memprof</span> <span>main</span> <span>pr/3370</span>",
    ] {
        assert!(text(&page).contains(needle), "{needle}: {}", text(&page));
    }
    let page = self::page(&troubled());
    for needle in [
        "crashes",
        "✗ pr/3370 failed (exit code 101)",
        "assertion `left == right` failed",
        "timed out after 60 s",
        "is_new",
    ] {
        assert!(text(&page).contains(needle), "{needle}: {}", text(&page));
    }
}

#[test]
fn the_script_gets_each_figure() {
    let data = data(&page(&usual()));
    assert_eq!((&data["version"], &data["refs"]), (&1.into(), &serde_json::json!(["main", "pr/3370"])));
    let test = &data["tests"][0];
    let labels = labels(test);
    let place = labels.iter().position(|label| *label == "kv cache warmed").unwrap();
    let steps = &test["series"]["heap.peak"];
    let peaks = [figures(&steps[0]), figures_beside(&steps[1], &steps[0])];
    assert_eq!((peaks[0][place], peaks[1][place]), (None, Some(10_240 * MIB)));
    assert_eq!((peaks[0][0], peaks[1][labels.len() - 1]), (Some(43_110 * 1024), Some(8_388 * MIB)));
    let is_changed = |one: &Value| one[1] == "heap.peak" && one[2] == "regressed";
    assert!(test["changed"].as_array().unwrap().iter().any(is_changed), "{test}");
}

#[test]
fn figures_that_may_not_be_compared_have_no_difference_in_a_chart() {
    let data = data(&page(&troubled()));
    let tests = data["tests"].as_array().unwrap();
    let apart = |title: &str| {
        let test = tests.iter().find(|test| test["title"] == title).unwrap();
        test["apart"].as_array().cloned().unwrap_or_default()
    };
    assert!(apart("own_allocator").contains(&serde_json::json!(["cpu.peak", 1])), "another source");
    assert!(apart("crashes").contains(&serde_json::json!(["heap.peak", 1])), "a run that failed");
    assert!(self::data(&page(&usual()))["tests"][0]["apart"].is_null());
}

#[test]
fn a_chart_has_the_difference_of_compared_figures() {
    let log = |points: &[(&str, i64)]| {
        points.iter().fold(Log::new().checkpoint("start", &readings(MIB, MIB, 1, 0)), |log, (label, peak)| {
            log.checkpoint(label, &readings(peak * MIB, MIB, 1, 0))
        })
    };
    let synthetic = Synthetic::new(&["main", "pr/7"])
        .passed("reads", 0, 0, &log(&[("done", 10), ("end", 2)]))
        .passed("reads", 1, 0, &log(&[("mid", 10), ("done", 4), ("end", 3)]));
    let data = data(&page(&compare(&synthetic.results())));
    let test = &data["tests"][0];
    assert_eq!(labels(test), ["start", "mid", "done", "end"]);
    assert_eq!(test["compared"]["heap.peak"], serde_json::json!([null, [null, null, 0, null]]));
    assert!(self::data(&page(&usual()))["tests"][0]["compared"]["heap.live"].is_null());
}

#[test]
fn no_text_of_a_test_acts_in_the_page() {
    let endless = "x".repeat(10_000);
    let labels = [
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(1)>",
        "]]> --> \" ' & é",
        "a\u{202e}b\u{2066}c",
        "back\u{8}space\nline",
        &endless,
    ];
    let log = |more: i64| {
        labels.iter().fold(Log::new().checkpoint("start", &readings(MIB, MIB, 1, 0)), |log, label| {
            log.checkpoint(label, &readings(3 * MIB + more, 7 * MIB, 90, 4))
        })
    };
    let refs = ["<b>main</b>", "</script>pr"];
    let synthetic =
        Synthetic::new(&refs).passed("a<i>b\"c", 0, 0, &log(0)).passed("a<i>b\"c", 1, 0, &log(MIB));
    let page = page(&compare(&synthetic.results()));
    assert_eq!(page.matches("<script").count(), 2, "the data, and the page's own");
    assert_eq!(page.matches("</script").count(), 2);
    for needle in ["<img", "<b>main", "<i>b", "\u{202e}", "\u{2066}", "\u{8}"] {
        assert!(!text(&page).contains(needle), "{needle:?}");
    }
    assert!(text(&page).contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{}", text(&page));
    let data = data(&page);
    assert_eq!(data["tests"][0]["names"][1], labels[0], "the script makes text of it");
    assert_eq!(data["refs"][1], refs[1]);
}

#[test]
fn the_policy_allows_the_pages_own_script_and_style_alone() {
    let page = page(&usual());
    let inside = |name: &str| {
        let between = Regex::new(&format!("(?s)<{name}>(.*?)</{name}>")).unwrap();
        between.captures_iter(&page).map(|one| one[1].to_owned()).collect::<Vec<String>>()
    };
    for name in ["script", "style"] {
        let hashes: Vec<String> = inside(name)
            .iter()
            .map(|text| format!("'sha256-{}'", STANDARD.encode(Sha256::hash(text.as_bytes()))))
            .collect();
        assert_eq!(hashes.len(), 1);
        let part = format!("{name}-src {};", hashes.join(" "));
        assert!(page.replace("&#39;", "'").contains(&part), "{part}: {}", &page[..600]);
    }
    assert!(page.contains("default-src 'none'"));
    let acts = Regex::new(r"<[^>]+\s(style|on[a-z]+|src|srcset)=").unwrap();
    assert_eq!(acts.find(text(&page)).map(|one| one.as_str()), None);
}

#[test]
fn links_lead_to_one_place_each() {
    let log = Log::new().checkpoint("done", &readings(MIB, MIB, 1, 0));
    let names = ["a b", "a_b", "a/b", "top", "tests"];
    let synthetic = names.iter().fold(Synthetic::new(&["main", "pr/1", "pr/2"]), |synthetic, name| {
        (0..3).fold(synthetic, |synthetic, revision| synthetic.passed(name, revision, 0, &log))
    });
    let page = page(&compare(&synthetic.results()));
    let ids: Vec<&str> = Regex::new(" id=\"([^\"]*)\"")
        .unwrap()
        .captures_iter(text(&page))
        .map(|one| one.get(1).unwrap().as_str())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    assert!(text(&page).contains("pr/1 against main") && text(&page).contains("pr/2 against main"));
}

#[test]
fn one_revision_has_a_page() {
    let log = Log::new()
        .checkpoint("start", &readings(MIB, MIB, 1, 0))
        .checkpoint("done", &readings(3 * MIB, MIB, 1, 9));
    let page = page(&compare(&Synthetic::new(&["main"]).passed("reads", 0, 0, &log).results()));
    assert!(text(&page).contains("<h1>memory of 1 test in main"), "{}", text(&page));
    assert!(text(&page).contains("<td class=\"n\">3.00 MiB</td>"), "{}", text(&page));
    assert_eq!(figures(&data(&page)["tests"][0]["series"]["heap.peak"][0]), [Some(MIB), Some(3 * MIB)]);
}

/// The refs below the title and the command of the section on the environment, with this baseline.
fn refs_and_command(synthetic: &Synthetic, baseline: usize, change: fn(&mut CellId)) -> (String, String) {
    let mut results = synthetic.results();
    results.plan.baseline = baseline;
    results.runs.iter_mut().for_each(|run| change(&mut run.record.cell));
    let page = page(&compare(&results));
    let tags = Regex::new("<[^>]+>").unwrap();
    let between = |start: &str, end: &str| {
        let after = text(&page).split_once(start).unwrap().1;
        tags.replace_all(after.split_once(end).unwrap().0, "").into_owned()
    };
    (between("<p class=\"refs\">", "</p>"), between("To repeat it</h3>", "<h3>"))
}

#[test]
fn the_page_and_its_command_go_from_the_baseline_to_the_candidates() {
    let log = Log::new().checkpoint("done", &readings(MIB, MIB, 1, 0));
    let synthetic =
        [0, 1, 2].into_iter().fold(Synthetic::new(&["pr/1", "pr/2", "main"]), |synthetic, side| {
            synthetic.passed("reads", side, 0, &log)
        });
    let (refs, command) = refs_and_command(&synthetic, 2, |_| {});
    assert!(refs.starts_with("main ") && refs.contains(" → pr/1 ") && refs.contains(", pr/2 "), "{refs}");
    assert!(command.contains("cargo memprof main pr/1 pr/2 --exact "), "{command}");
}

#[test]
fn the_command_repeats_a_program_and_has_no_wrong_tests() {
    let log = Log::new().checkpoint("done", &readings(MIB, MIB, 1, 0));
    let one = Synthetic::new(&["main", "pr/1"]).passed("reads", 0, 0, &log).passed("reads", 1, 0, &log);
    let as_program: fn(&mut CellId) = |cell| {
        cell.test.kind = TargetKind::Bin;
        cell.program = Some(ProgramCall { args: vec!["--fast".to_owned()], stdin: None });
    };
    let command = refs_and_command(&one, 0, as_program).1;
    assert!(command.contains("cargo memprof main pr/1 --bin "), "{command}");
    assert!(command.contains(" --arg=--fast") && !command.contains("--exact"), "{command}");
    let two = one.passed("writes", 0, 0, &log).passed("writes", 1, 0, &log);
    let none = "What was asked is in plan.json";
    assert!(refs_and_command(&two, 0, as_program).1.starts_with(none));
    let with_value = |cell: &mut CellId| cell.params = vec![("batch".to_owned(), "8".to_owned())];
    assert!(refs_and_command(&two, 0, with_value).1.starts_with(none));
    assert!(refs_and_command(&two, 0, |_| {}).1.contains("reads --exact"));
}

#[test]
fn a_secret_is_in_no_part_of_the_page() {
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4).split_at(36).0);
    let log = Log::new().checkpoint(&format!("token {secret}"), &readings(MIB, MIB, 1, 0));
    let page = page(&compare(&Synthetic::new(&["main"]).passed("reads", 0, 0, &log).results()));
    // The text is filtered on its way out; the compressed data must be before.
    let label = data(&page)["tests"][0]["names"][0].as_str().unwrap().to_owned();
    assert!(!label.contains(&secret) && label.contains("redacted"), "{label}");
}

#[test]
fn many_tests_make_a_page_that_can_be_sent() {
    let log = |more: i64| {
        (0..10).fold(Log::new(), |log, step| {
            log.checkpoint(&format!("step {step}"), &readings((step + 1) * MIB + more, 7 * MIB, 90, step))
        })
    };
    let (old, new) = (log(0), log(MIB));
    let synthetic = (0..900).fold(Synthetic::new(&["main", "pr/1"]), |synthetic, number| {
        let name = format!("module_{}::reads_the_file_number_{number}", number % 30);
        synthetic.passed(&name, 0, 0, &old).passed(&name, 1, 0, if number % 9 == 0 { &new } else { &old })
    });
    let page = page(&compare(&synthetic.results()));
    assert!(page.len() < 5 << 20, "{} bytes", page.len());
}
