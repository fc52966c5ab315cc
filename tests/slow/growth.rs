//! What became live between two checkpoints of one run, `--why-from`, in a comparison of two revisions.

use serde_json::Value;

use crate::chromium::{self, Page};
use crate::why::{Subject, rows};

const SOURCE: &str = "\
pub fn parse() -> Vec<u8> {
    vec![1; PARSES]
}
pub fn index() -> Vec<u8> {
    vec![1; INDEXES]
}
";

const TEST: &str = "\
#[test]
fn indexes() {
    let parsed = parse();
    memprof::checkpoint!(\"parsed\");
    let indexed = index();
    memprof::checkpoint!(\"indexed\");
    std::hint::black_box((parsed, indexed));
}
";

#[test]
fn growth_is_that_of_the_candidate_in_all_reports() {
    let sources = [("1_000_000", "500_000"), ("2_000_000", "3_000_000")]
        .map(|(parses, indexes)| SOURCE.replace("PARSES", parses).replace("INDEXES", indexes));
    let subject = Subject::of_sources("", TEST, &sources);
    let asked = ["--why-at", "indexed", "--why-from", "parsed"];
    let printed = subject.compare(&[&["--why=changed"], &asked[..]].concat());
    assert!(
        printed.stdout.contains("heap.live from 'parsed' to 'indexed' in new:"),
        "{}",
        printed.everything()
    );
    let report = subject.report();
    let row = rows(&report, "indexes")[0];
    assert_eq!(row["difference"], 3_000_000, "{row:#}");
    let side = |side: &str| (row[side]["ref"].clone(), row[side]["figures"]["live"].as_i64().is_some());
    assert_eq!([side("baseline"), side("candidate")], [0, 1].map(|_| (Value::from("new"), true)), "{row:#}");

    let html = subject.memprof(&[&["report", "--format", "html"], &asked[..]].concat()).stdout;
    let Some(page) = Page::open(&html, &chromium::Options::default()) else { return };
    page.value("document.querySelector('.flame').scrollIntoView()");
    page.until("document.querySelector('.flame canvas')?.width");
    let tabs = page
        .text("[...document.querySelectorAll('.flame .bar button')].map((one) => one.textContent).join()");
    assert!(tabs.starts_with("parsed,indexed,what grew,what shrank"), "{tabs}");
    let told = page.text("document.querySelector('.flame .detail').textContent");
    assert!(told.contains("at parsed, ") && told.contains("at indexed, ▲ +2.86 MiB"), "{told}");
    page.assert_quiet();
}
