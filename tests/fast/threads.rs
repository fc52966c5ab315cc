//! Call sites by thread: which names are one, who frees, and that all figures add up.

use std::collections::BTreeMap;

use memprof_judge::results::stack_log::{RecordedThread, ThreadKind};
use memprof_judge::results::stack_log_reader::read;
use memprof_judge::why::attribution::{Attribution, Question};
use memprof_judge::why::class::Diff;
use memprof_judge::why::difference::{Difference, GroupKind};
use memprof_judge::why::freed_by::FreedBy;
use memprof_judge::why::grouping::{GroupBy, Grouping};
use memprof_judge::why::threads::of_runs;
use memprof_report::options::Options;
use memprof_report::why::markdown;
use memprof_report::why::site_rows::Sites;
use memprof_report::why::text::difference;
use regex::Regex;

use crate::support::stacks::{Recorded, lines};
use crate::why::{diff, done, runs};

const MAKE: &[&str] = &["i::t@tests/t.rs:5", "i::make@src/lib.rs:7"];
const DROP: &[&str] = &["i::t@tests/t.rs:5", "i::drop@src/lib.rs:9"];

fn thread(name: &str, is_shared: bool) -> RecordedThread {
    let of_kind = ThreadKind::ALL.into_iter().find(|kind| kind.as_str() == name);
    let kind = of_kind.unwrap_or(ThreadKind::Named);
    let name = if of_kind.is_some() { String::new() } else { name.trim_matches('\'').to_owned() };
    RecordedThread { kind, name, is_shared }
}

/// A run in which site `n` is of thread `n`, and has these bytes at the peak; `freed` has the sites that allocate
/// and free, and the bytes.
fn side(names: &[&str], bytes: &[i64], freed: &[(i64, i64, i64)]) -> Recorded {
    let sites: Vec<&[&str]> = names.iter().map(|_| MAKE).chain([DROP]).collect();
    let figures: Vec<_> =
        (1..).zip(bytes).map(|(site, bytes)| (site, [*bytes, bytes / 4, 2 * bytes, 3])).collect();
    let figures = [&[(0, [11, 11, 0, 0])], &figures[..]].concat();
    let releases: Vec<[i64; 5]> = freed.iter().map(|(site, by, bytes)| [*site, *by, 0, 0, *bytes]).collect();
    let mut run = Recorded::with_releases(&sites, &[("done", &figures)], &releases);
    run.log.threads = names.iter().map(|name| thread(name, name.starts_with('\''))).collect();
    // The site that frees is of the first thread.
    run.log.site_threads = (1..).take(names.len()).chain([1]).collect();
    run
}

fn both() -> [Recorded; 2] {
    [
        side(&["test", "worker-1"], &[1000, 4000], &[(1, 1, 1500), (2, 2, 7000)]),
        side(
            &["test", "worker-1", "worker-22", "lone-7", "'pool", "unnamed"],
            &[1000, 9000, 3000, 400, 60, 8],
            &[(1, 1, 1500), (2, 1, 9000), (3, 2, 5000), (3, 3, 1000), (4, 4, 600), (5, 5, 100)],
        ),
    ]
}

fn question(metric: &str) -> Question {
    Question { metric: metric.to_owned(), checkpoints: [Some(done()), Some(done())] }
}

fn answer(metric: &str, focus: Option<Regex>) -> Difference {
    let question = question(metric);
    let (diff, runs) = (diff(&runs()), both());
    let grouping = Grouping { by: GroupBy::Thread, focus };
    Attribution::new(runs[0].run(), runs[1].run(), &diff).answer(&question, &grouping).unwrap()
}

fn shown(difference: &Difference) -> Vec<(&str, i64)> {
    difference.groups.iter().map(|group| (group.name(), difference.of_group(group))).collect()
}

fn text(difference_of: &Difference, columns: usize) -> String {
    let mut out = Vec::new();
    let options = Options { width: Some(columns), ..Options::default() };
    let sites = Sites { candidate: "pr/7", most: 6, frames: 1, agreements: Vec::new() };
    difference(difference_of, &sites, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn names_that_differ_in_a_number_are_one_and_all_add_up() {
    let peak = answer("heap.peak", None);
    let expected = [
        ("worker-*", 8000),
        ("lone-7", 400),
        ("pool", 60),
        ("unnamed", 8),
        ("test", 0),
        ("without a call stack", 0),
    ];
    assert_eq!(shown(&peak), expected);
    assert_eq!(peak.whole(), 8468);
    assert_eq!(shown(&answer("heap.count", None))[0], ("lone-7", 3));
    let focused = answer("heap.peak", Some(Regex::new("nowhere").unwrap()));
    assert_eq!(shown(&focused)[0], ("outside of the focus", 8468));
}

#[test]
fn the_line_of_a_thread_is_the_one_that_differs_most() {
    let side = |bytes: [i64; 3]| {
        let more: &[&str] = &["i::t@tests/t.rs:6", "i::make@src/lib.rs:7"];
        let figures: Vec<_> =
            (1..).zip(bytes).map(|(site, bytes)| (site, [bytes, bytes, bytes, 1])).collect();
        let mut run = Recorded::new(&[DROP, MAKE, more], &[("done", &figures)]);
        run.log.threads = vec![thread("lone-7", false)];
        run.log.site_threads = vec![1; 3];
        run
    };
    let runs = [side([1000, 100, 100]), side([1010, 110, 120])];
    let (question, diff) = (question("heap.peak"), Diff::default());
    let grouping = Grouping { by: GroupBy::Thread, focus: None };
    let found = Attribution::new(runs[0].run(), runs[1].run(), &diff).answer(&question, &grouping).unwrap();
    assert_eq!(shown(&found), [("lone-7", 40)]);
    assert_eq!(found.groups[0].location(), Some("src/lib.rs:7"));
    assert_eq!(found.groups[0].stack.len(), 2);
    let alone = runs[1].run().answer("heap.peak", &done(), &grouping).unwrap();
    assert_eq!(alone.groups[0].location(), Some("src/lib.rs:9"), "of one run, the largest line");
}

#[test]
fn who_frees_is_told_of_each_side() {
    let runs = both();
    let [Some(old), Some(new)] = of_runs([Some(&runs[0].log), Some(&runs[1].log)]) else { panic!("threads") };
    let freed = |of: &[_], name: &str| -> FreedBy {
        let of: &[memprof_judge::why::threads::ThreadOfRun] = of;
        of.iter().find(|thread| thread.name == name).unwrap().freed.clone().unwrap()
    };
    let by = |itself: i64, others: &[(&str, i64)], perhaps_itself: i64| FreedBy {
        itself,
        others: others.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect::<BTreeMap<_, _>>(),
        perhaps_itself,
    };
    // In a run alone, `worker-1` is one thread, and across both sides one of several.
    assert_eq!(freed(&old.threads, "worker-*"), by(7000, &[], 0));
    assert_eq!(freed(&new.threads, "worker-*"), by(1000, &[("test", 9000), ("worker-*", 5000)], 0));
    assert_eq!(freed(&new.threads, "pool"), by(0, &[], 100));
    let sum = |of: fn(&memprof_judge::results::stack_log::Figures) -> i64| -> i64 {
        new.threads.iter().map(|thread| of(&thread.figures)).sum::<i64>() + of(&new.without_stack)
    };
    let total = runs[1].log.family("heap").unwrap().intervals[0].total;
    assert_eq!([sum(|one| one.at_peak), sum(|one| one.live)], [total.at_peak, total.live]);
    assert_eq!([sum(|one| one.allocated), sum(|one| one.count)], [total.allocated, total.count]);
    let many = of_runs([Some(&side(&["test", "'conn-*"], &[8, 80], &[]).log), None])[0].clone().unwrap();
    assert_eq!(many.threads[0].name, "conn-*");
    let alone = of_runs([None, Some(&runs[0].log)])[1].clone().unwrap();
    assert_eq!(alone.threads[0].name, "worker-1");

    let mut lost = both();
    lost[1].log.incomplete.push("pairs are missing".to_owned());
    let [_, Some(new)] = of_runs([None, Some(&lost[1].log)]) else { panic!("threads") };
    assert_eq!((new.problem.as_deref(), &new.threads[0].freed), (Some("pairs are missing"), &None));
}

#[test]
fn a_row_says_who_frees_if_it_is_another_thread() {
    let peak = answer("heap.peak", None);
    let wide = text(&peak, 120);
    // Fourteen of fifteen bytes are as good as all.
    let worker =
        "thread worker-*  src/lib.rs:7  freed by test and another worker-*, at the baseline by itself";
    assert!(wide.contains(worker), "{wide}");
    assert!(wide.contains("thread lone-7    src/lib.rs:7\n"), "{wide}");
    assert!(wide.contains("81 % of the freed bytes were freed by another thread (baseline 0 %)"), "{wide}");
    assert!(wide.contains("of 100 B, it is not known which thread of the same name freed them"), "{wide}");
    assert!(text(&peak, 60).lines().all(|line| line.chars().count() <= 60), "{}", text(&peak, 60));
    let sites = Sites { candidate: "pr/7", most: 6, frames: 1, agreements: Vec::new() };
    let table = markdown::table(&peak, &sites);
    assert!(table.starts_with("| Δ heap.peak | thread | where | |\n"), "{table}");
    let GroupKind::Thread { freed, .. } = &peak.groups[1].kind else { panic!("{:?}", peak.groups[1]) };
    assert_eq!(freed[0], Some(FreedBy::default()), "the baseline has no such thread");
}

#[test]
fn a_log_names_the_threads_of_all_sites_or_of_none() {
    let (text, _) = lines(&[MAKE, DROP], &[("done", &[(1, [5, 5, 5, 1])])]);
    let line = |text: &str| format!("{{\"v\":1,\"seq\":9,\"ns\":9,\"pid\":7,\"event\":\"thread\",{text}}}\n");
    let [main, named] = ["main", "named"].map(|kind| {
        let number = usize::from(kind == "named") + 1;
        line(&format!("\"number\":{number},\"kind\":\"{kind}\",\"name\":\"io\",\"shared\":0"))
    });
    let with = |threads: &str, lines: &str| {
        let sites = text.replace("\"nodes\":[2,4]", &format!("\"nodes\":[2,4],\"threads\":{threads}"));
        let begin = sites.find("{\"event\":\"module\"").or(sites.find('\n').map(|end| end + 1)).unwrap();
        let text = format!("{}{lines}{}", &sites[..begin], &sites[begin..]);
        read(text.as_bytes(), "log.jsonl").map_err(|error| error.to_string())
    };
    let log = with("[1,2]", &format!("{main}{named}")).unwrap();
    assert_eq!([log.thread_of(0), log.thread_of(1), log.thread_of(2)], [None, Some(1), Some(2)]);
    assert_eq!(log.threads[1].kind, ThreadKind::Named);
    let refused = |threads: &str, lines: &str, problem: &str| {
        let error = with(threads, lines).unwrap_err();
        assert!(error.contains(problem), "{error} instead of {problem}");
    };
    refused("[1]", &main, "each site has a thread, or none has");
    refused("[1,2]", &main, "there is no thread 2 before it");
    refused("[1,1]", &named, "it begins with thread 2 instead of 1");
    refused("[1,1]", &main.replace("\"main\"", "\"odd\""), "a thread is of no known kind");
}
