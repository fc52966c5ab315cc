//! Nothing of a run's folder whose every text is hostile acts in any format.

use clap::ValueEnum as _;
use memprof_judge::compare::from_results::compare;
use memprof_report::options::{Format, Options, Rows, View};
use regex::Regex;
use serde_json::Value;

use crate::reports::rendered;
use crate::support::hostile::{folder, poisoned};

/// The cells of each row are as many as those of its table's head.
fn assert_rows_are_whole(markdown: &str) {
    let mut of_head = None;
    for line in markdown.lines() {
        let cells = line.replace("\\|", "").matches('|').count();
        match (line.starts_with('|'), of_head) {
            (true, Some(of_head)) => assert_eq!(cells, of_head, "{line}"),
            (true, None) => of_head = Some(cells),
            (false, _) => of_head = None,
        }
    }
}

/// Markdown without its blocks and spans of code, and without preformatted text, in which nothing acts.
fn without_code(markdown: &str) -> String {
    let (mut outside, mut fence) = (String::new(), None);
    let mut is_preformatted = false;
    for line in markdown.lines() {
        let was_preformatted = is_preformatted;
        is_preformatted = (is_preformatted || line.starts_with("<pre>")) && !line.contains("</pre>");
        if was_preformatted || line.starts_with("<pre>") {
            continue;
        }
        // Markdown is not read in a block of HTML, and such a block begins there.
        let line = if line.starts_with("<details>") { line.replace("](", "]") } else { line.to_owned() };
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            Some(open) if line.len() == ticks && ticks >= open => fence = None,
            None if ticks >= 3 => fence = Some(ticks),
            Some(_) => {}
            None => {
                let line = line.replace("\\`", "'");
                let outer = line.split('`').step_by(2).collect::<Vec<_>>();
                outside.push_str(&outer.join("code"));
                outside.push('\n');
            }
        }
    }
    assert_eq!(fence, None, "each block ends");
    outside
}

#[test]
fn no_text_of_a_runs_folder_acts_in_any_format() {
    let synthetic = folder();
    let count = poisoned(&synthetic);
    assert!(count > 250, "{count} texts");
    let comparison = compare(&synthetic.results());
    let tags =
        Regex::new(r"(?i)<(script|img|/?title)[ >]|]]>|[^\\]\]\(javascript|https://|[^;]@bot|<!-- -->")
            .unwrap();
    let is_mark = |character: char| matches!(character, '\u{202e}' | '\u{2066}' | '\u{1b}' | '\r');
    for format in Format::value_variants().iter().copied().filter(|format| !format.is_of_call_sites()) {
        for view in [View::Checkpoints, View::Scopes, View::Top, View::Tensors] {
            let options =
                Options { view, all: true, rows: Rows::All, with_source: true, ..Options::default() };
            let text = rendered(format, &comparison, &options);
            // Without call stacks, there are neither causes nor sites.
            let is_of_stacks = matches!(
                format,
                Format::CsvCauses | Format::CsvSites | Format::CsvOwners | Format::CsvThreads
            );
            let is_empty = view != View::Checkpoints || is_of_stacks;
            assert!(text.contains("alert") || is_empty, "{format:?}");
            match format {
                Format::Html => {
                    assert_eq!(text.matches("<script").count(), 2, "the data, and the page's own");
                    let body = text.split_once("<body>").unwrap().1.split_once("<script").unwrap().0;
                    let body = body.replace("https://", "").replace("@bot", "").replace("](", "");
                    assert_eq!(tags.find(&body).map(|found| found.as_str()), None);
                    let marked: Vec<&str> = body.lines().filter(|line| line.contains(is_mark)).collect();
                    assert!(marked.is_empty(), "{marked:#?}");
                }
                Format::Markdown => {
                    let outside = without_code(&text);
                    let lines = outside.lines().filter(|line| !line.starts_with("<!-- cargo-memprof"));
                    let acting: Vec<&str> = lines.filter(|line| tags.is_match(line)).collect();
                    assert!(acting.is_empty(), "{acting:#?}");
                    assert_eq!(text.find(is_mark), None, "{text}");
                    assert_rows_are_whole(&text);
                }
                Format::Json | Format::Perfetto | Format::Sarif | Format::Gitlab | Format::Bencher => {
                    drop(serde_json::from_str::<Value>(&text).unwrap());
                }
                Format::Junit => {
                    assert!(!text.contains("<img") && !text.contains("]]>"), "{text}");
                    assert_eq!(text.find(is_mark), None);
                }
                _ => {
                    let marked: Vec<&str> = text.lines().filter(|line| line.contains(is_mark)).collect();
                    assert!(marked.is_empty(), "{format:?} {view:?}: {marked:#?}");
                    assert!(!text.lines().any(|line| line.starts_with("::error")), "{format:?}");
                }
            }
        }
    }
}
