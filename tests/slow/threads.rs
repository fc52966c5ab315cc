//! Which threads allocate and which ones free, from the test to each report.

use serde_json::Value;

use crate::why::{Subject, assert_exact, rows};

/// A worker allocates, and the test frees; a thread without a name does both.
const SOURCE: &str = r#"
pub fn made() -> Vec<u8> {
    vec![1; SIZE]
}
pub fn handed() -> Vec<u8> {
    std::thread::Builder::new().name("worker".to_owned()).spawn(made).unwrap().join().unwrap()
}
pub fn alone() {
    std::thread::spawn(|| drop(std::hint::black_box(vec![1_u8; 300_000]))).join().unwrap();
}
"#;

const TEST: &str = r#"
#[test]
fn hands_over() {
    alone();
    let all = handed();
    memprof::checkpoint!("handed");
    drop(std::hint::black_box(all));
}
"#;

/// The thread of this name at each side, whose figures add up to the row's.
fn threads<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    let row = rows(report, "hands_over")[0];
    let of_side = |run: &'a Value| {
        let threads = run["threads"].as_array().expect("threads");
        let all = threads.iter().map(|thread| &thread["figures"]).chain([&run["without_stack"]]);
        let sum: i64 = all.map(|figures| figures["at_peak"].as_i64().expect("a figure")).sum();
        let side = if run["ref"] == "old" { "baseline" } else { "candidate" };
        assert_eq!(Some(sum), row[side]["figures"]["at_peak"].as_i64(), "{run:#}");
        threads.iter().find(|thread| thread["name"] == name).unwrap_or_else(|| panic!("{name} in {run:#}"))
    };
    report["why"]["threads"].as_array().expect("threads").iter().map(of_side).collect()
}

#[test]
fn a_worker_allocates_what_the_test_frees() {
    let sources = [1_000_000, 3_000_000].map(|size| SOURCE.replace("SIZE", &size.to_string()));
    let subject = Subject::of_sources("", TEST, &sources);
    let printed = subject.compare(&["--why-by", "thread"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let why = printed.stdout.lines().find(|line| line.starts_with("why: "));
    let why = why.unwrap_or_else(|| panic!("{}", printed.everything()));
    assert_eq!(why, "why: +1.91 MiB  thread worker  src/lib.rs:3  freed by test");
    // The cause is the line.
    assert!(printed.stdout.contains(" ▲ src/lib.rs:3 "), "{}", printed.everything());
    let report = subject.report();
    assert_exact(&report);
    for (worker, bytes) in threads(&report, "worker").into_iter().zip([1_000_000, 3_000_000]) {
        // The standard library keeps the thread's name, too.
        let at_peak = worker["figures"]["at_peak"].as_i64().expect("a figure");
        assert!((bytes..bytes + 100).contains(&at_peak), "{worker:#}");
        assert_eq!(worker["freed"]["others"]["test"], bytes, "{worker:#}");
    }
    for unnamed in threads(&report, "unnamed") {
        let allocated = unnamed["figures"]["allocated"].as_i64();
        assert!(allocated >= Some(300_000) && allocated < Some(310_000), "{unnamed:#}");
        assert!(unnamed["freed"]["itself"].as_i64() >= Some(300_000), "{unnamed:#}");
    }
    let shown = |arguments: &[&str]| subject.memprof(&[&["report"], arguments].concat()).stdout;
    let table = shown(&["--format", "csv=threads"]);
    assert!(table.contains("hands_over,new,freed_by_other,worker,,,,,test,3000000,"), "{table}");
    let markdown = shown(&["--why-by", "thread", "--format", "markdown"]);
    assert!(markdown.contains("| thread worker | src/lib.rs:3 | freed by test |"), "{markdown}");
    let page = shown(&["--why-by", "thread", "--format", "html"]);
    assert!(page.contains("who frees") && page.contains("freed by test"), "{page}");
    assert!(shown(&["--why-by", "line"]).contains("subject::made"));
    // In searches, and of a run that was not asked.
    let bisected = subject.memprof(&["bisect", "old..new", "-k", "hands", "--offline", "--why-by", "thread"]);
    assert!(
        bisected.stdout.contains("thread worker  src/lib.rs:3  freed by test"),
        "{}",
        bisected.everything()
    );
    assert_eq!(subject.compare(&[]).code, 1);
    let without = shown(&["--why-by", "thread"]);
    let reason = "why: no threads: the run was not asked for them (--why-by thread)";
    assert!(without.contains(reason) && without.contains("subject::made"), "{without}");
}
