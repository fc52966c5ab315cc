//! Call sites as people and programs see them: on a terminal of 80 and of 120 columns, in a file, in a comment, in JSON.

use memprof_judge::why::agreement::Agreement;
use memprof_judge::why::class::Class;
use memprof_judge::why::difference::{CheckpointName, Difference, GroupKind};
use memprof_judge::why::grouping::Grouping;
use memprof_report::options::Options;
use memprof_report::why::json::{FrameTable, VERSION, WhyReport, WhyRow};
use memprof_report::why::markdown;
use memprof_report::why::site_rows::Sites;
use memprof_report::why::text::{difference, figure_of_one};
use memprof_support::labels::width;

use crate::support::stacks::Recorded;
use crate::why::{answer, done, runs};

fn sites(most: usize, frames: usize) -> Sites<'static> {
    Sites { candidate: "pr/7", most, frames, agreements: vec![Agreement::Equal] }
}

fn text(of: &Difference, sites: &Sites<'_>, columns: Option<usize>) -> String {
    let mut out = Vec::new();
    let options = Options { width: columns, ..Options::default() };
    difference(of, sites, &options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in text.lines() {
        assert!(width(line) <= columns.unwrap_or(usize::MAX), "{line}");
        assert_eq!(line.trim_end(), line);
    }
    text
}

#[test]
fn the_three_worst_sites_and_the_rest() {
    let difference = answer("heap.peak", &Grouping::default());
    insta::assert_snapshot!("why_three_worst_at_120", text(&difference, &sites(3, 1), Some(120)));
    insta::assert_snapshot!("why_five_at_80", text(&difference, &sites(5, 1), Some(80)));
    insta::assert_snapshot!("why_five_with_three_frames_at_120", text(&difference, &sites(5, 3), Some(120)));
}

#[test]
fn long_functions_are_shortened_on_a_terminal_and_kept_in_a_file() {
    let long = "minisearch::index::builder::Builder<alloc::vec::Vec<u8>, core::hash::BuildHasherDefault<minisearch::Hasher>>::push_all_of_them@src/index/builder/postings.rs:1088";
    let recorded = Recorded::new(&[&[long]], &[("done", &[(1, [8 << 20, 5, 5, 1])])]);
    let difference = recorded.run().answer("heap.peak", &done(), &Grouping::default()).unwrap();
    insta::assert_snapshot!("why_long_at_120", text(&difference, &sites(3, 1), Some(120)));
    insta::assert_snapshot!("why_long_at_80", text(&difference, &sites(3, 1), Some(80)));
    assert!(text(&difference, &sites(3, 1), None).contains("BuildHasherDefault<minisearch::Hasher>"));
}

#[test]
fn what_does_not_fit_beside_a_site_stands_below_it() {
    let mut difference = answer("heap.peak", &Grouping::default());
    for group in &mut difference.groups {
        if let GroupKind::Sites { name, location } = &mut group.kind {
            *name = format!("minisearch::tokens::{name}");
            *location = location.take().map(|at| format!("crates/minisearch/{at}"));
        }
        if let Some(Class::CalledFrom(caller, _)) = &mut group.class {
            caller.function = "minisearch::index::Builder<alloc::vec::Vec<u8>>::finish".to_owned();
        }
    }
    insta::assert_snapshot!("why_below_at_80", text(&difference, &sites(5, 2), Some(80)));
    let mut coloured = Vec::new();
    let options = Options { width: Some(80), color: true, ..Options::default() };
    memprof_report::why::text::difference(&difference, &sites(5, 2), &options, &mut coloured).unwrap();
    let plain = anstream::adapter::strip_bytes(&coloured).into_vec();
    assert_ne!(coloured, plain);
    let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    let plain = String::from_utf8(plain).unwrap();
    assert_eq!(trimmed(&plain), trimmed(&text(&difference, &sites(5, 2), Some(80))), "colours move nothing");
}

#[test]
fn one_revision_shows_shares_of_its_figure() {
    let [_, candidate] = runs();
    let difference = candidate.run().answer("heap.peak", &done(), &Grouping::default()).unwrap();
    let mut out = Vec::new();
    let options = Options { width: Some(80), ..Options::default() };
    figure_of_one(&difference, &sites(3, 1), &options, &mut out).unwrap();
    insta::assert_snapshot!("why_one_revision_at_80", String::from_utf8(out).unwrap());
    let table = markdown::table(&difference, &sites(3, 1));
    assert!(table.contains("| 8.79 KiB, 89 % | i::push | src/lib.rs:9 |"), "{table}");
}

#[test]
fn what_limits_the_answer_is_said() {
    let mut difference = answer("heap.peak", &Grouping::default());
    difference.sample = Some(512 << 10);
    difference.incomplete = vec!["the table of sites is full".to_owned()];
    let differs = Agreement::compare("heap.peak", 10_075, &[9051]);
    let sites = Sites { agreements: vec![Agreement::Equal, differs], ..sites(1, 1) };
    insta::assert_snapshot!("why_limits_at_80", text(&difference, &sites, Some(80)));
    insta::assert_snapshot!("why_limits_in_a_comment", markdown::table(&difference, &sites));
}

#[test]
fn a_comment_has_a_table_with_hunks() {
    let difference = answer("heap.peak", &Grouping::default());
    insta::assert_snapshot!("why_comment", markdown::table(&difference, &sites(5, 1)));
}

#[test]
fn a_comment_escapes_what_is_in_names() {
    let recorded =
        Recorded::new(&[&["i::f::<a|b, @bot, #1>@src/lib.rs:3"]], &[("done", &[(1, [8, 8, 8, 1])])]);
    let difference = recorded.run().answer("heap.peak", &done(), &Grouping::default()).unwrap();
    let table = markdown::table(&difference, &sites(5, 1));
    assert!(table.contains(r"i::f::&lt;a\|b, &#64;&#8203;bot, &#35;&#8203;1&gt;"), "{table}");
}

#[test]
fn growth_between_two_checkpoints_is_of_the_candidates_run_alone() {
    let sites: &[&[&str]] = &[&["i::cache@src/lib.rs:3"]];
    let of = [100, 130].map(|bytes| [(1, [bytes, bytes, bytes, 1])]);
    let new = Recorded::new(sites, &[("parsed", &of[0]), ("done", &of[1])]);
    let at = |label: &str| CheckpointName { label: label.to_owned(), occurrence: 1 };
    let difference = new.run().growth("heap.live", &at("parsed"), &at("done"), &Grouping::default()).unwrap();
    let row = WhyRow::new("index", ["main", "pr/7"], &difference, [None, None], &mut FrameTable::default());
    let refs = [row.baseline, row.candidate].map(|side| side.unwrap().r#ref);
    assert_eq!(refs, ["pr/7", "pr/7"]);
}

#[test]
fn json_has_everything_and_fits_its_schema() {
    let difference = answer("heap.peak", &Grouping::default());
    let agreements = [Some(Agreement::Equal), Some(Agreement::compare("heap.peak", 10_075, &[9051]))];
    let mut frames = FrameTable::default();
    let row = WhyRow::new("index", ["main", "pr/7"], &difference, agreements, &mut frames);
    let report = WhyReport {
        schema: VERSION,
        frames: frames.frames(),
        rows: vec![row],
        held: Vec::new(),
        threads: Vec::new(),
        timelines: Vec::new(),
        remarks: Vec::new(),
        left_out: None,
    };
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<WhyReport>(&text).unwrap(), report);
    let again = serde_json::to_value(&report).unwrap();
    assert_eq!(again, serde_json::from_str::<serde_json::Value>(&text).unwrap());
    let row = &report.rows[0];
    for (group, of) in row.groups.iter().zip(&difference.groups) {
        let listed: Vec<_> = group.stack.iter().map(|position| &*report.frames[*position].function).collect();
        assert_eq!(listed, of.stack.iter().map(|frame| frame.name()).collect::<Vec<_>>());
    }
    let sum = |of: fn(&memprof_report::why::json::WhyGroup) -> i64| row.groups.iter().map(of).sum::<i64>();
    assert_eq!(sum(|group| group.difference), row.difference);
    assert_eq!(sum(|group| group.baseline.at_peak), row.baseline.as_ref().unwrap().figures.at_peak);
    assert_eq!(sum(|group| group.candidate.live), row.candidate.as_ref().unwrap().figures.live);
    let candidate = row.candidate.as_ref().unwrap();
    assert_eq!((&*candidate.agreement, candidate.differs_by), ("differs", 1024));
    let kinds: Vec<_> =
        row.groups.iter().map(|group| group.class.as_ref().map(|class| &*class.kind)).collect();
    assert_eq!(
        kinds,
        [
            Some("changed"),
            Some("dependency_changed"),
            Some("new"),
            Some("deleted"),
            Some("called_from_changed"),
            Some("unchanged"),
            None,
        ]
    );
    insta::assert_json_snapshot!("why_json_group", row.groups[0]);
    insta::assert_json_snapshot!("why_json_class", row.groups[4].class);
}
