//! What a proof says of the causes of a comparison.

use std::sync::Arc;

use memprof_judge::why::class::Class;
use memprof_plan::metric::Unit;
use memprof_plan::quantity::Threshold;
use memprof_report::options::{Format, Options};
use memprof_run::bisect::metric_query::MetricQuery;
use memprof_run::bisect::parts::proof::{PartGroup, ProofReport, ProvenPart, VERSION};
use memprof_run::bisect::parts::record::HunkPlace;
use memprof_run::bisect::report_data::{NamedCommit, SearchResult, TotalEffort};
use serde_json::Value;

use crate::causes::{changed, comparison, difference, explained, explanations};
use crate::reports::rendered;
use crate::support::synthetic::cell;

const KIB: i64 = 1024;

/// A proof of a test's growth, between these commits.
fn proof(test: &str, commits: [&str; 2], parts: Vec<ProvenPart>) -> ProofReport {
    let end = |commit: &str| {
        let mut end = NamedCommit::default();
        commit.clone_into(&mut end.facts.commit);
        end
    };
    ProofReport {
        version: VERSION,
        tool: "0".to_owned(),
        id: "run".to_owned(),
        created: String::new(),
        test: cell(test, &[]).full_name(),
        title: test.to_owned(),
        params: Vec::new(),
        query: MetricQuery { metric: "heap.peak".to_owned(), checkpoint: Some("done".to_owned()) },
        unit: Unit::Bytes,
        threshold: Threshold { percent: None, bytes: Some(0) },
        limit: 0,
        baseline: end(commits[0]),
        candidate: end(commits[1]),
        result: SearchResult::Found,
        difference: parts.iter().map(|part| part.difference).sum(),
        varies: false,
        interval: None,
        parts,
        rest: PartGroup::default(),
        open: Vec::new(),
        together: 0,
        without_all: None,
        out_of_builds: false,
        checks: 0,
        unseparated: 0,
        effort: TotalEffort::default(),
        replay: Vec::new(),
    }
}

#[test]
fn a_proof_is_at_the_causes_that_move_its_test_in_its_direction() {
    let figures = [("up", vec![100 * KIB, 300 * KIB]), ("down", vec![300 * KIB, 270 * KIB])];
    let comparison = comparison(&["main", "pr/7"], figures);
    let of = |sizes: [i64; 2]| {
        difference(&[(9, sizes[0] * KIB, changed(9)), (20, sizes[1] * KIB, Class::Unchanged)])
    };
    let tests = vec![explained("up", 1, of([150, 50])), explained("down", 1, of([-20, -10]))];
    let part = |path: &str, line: usize, kib: i64, shows_in: Option<&str>| ProvenPart {
        hunks: vec![HunkPlace { path: path.to_owned(), lines: Some([line; 2]), what: None }],
        difference: (kib * KIB).into(),
        proven: true,
        shows_in: shows_in.map(str::to_owned),
        ..ProvenPart::default()
    };
    let parts = vec![part("src/lib.rs", 9, 150, None), part("src/config.rs", 3, 50, Some("a::grow_20"))];
    let commits = [0, 1].map(|revision: usize| comparison.revisions[revision].commit.as_str());
    let why = Some(Arc::new(explanations(tests)));
    let proven = |test: &str| {
        let proof = Some(Arc::new(proof(test, commits, parts.clone())));
        let options = Options { why: why.clone(), proof, ..Options::default() };
        let json: Value = serde_json::from_str(&rendered(Format::Json, &comparison, &options)).unwrap();
        let entries = json["causes"]["entries"].as_array().unwrap().clone();
        entries.iter().map(|cause| cause["proven"] == true).collect::<Vec<_>>()
    };
    assert_eq!(proven("up"), [true, true, false, false], "the growth of both places, not what shrank there");
    assert_eq!(proven("down"), [false; 4], "it shrank");
    assert_eq!(proven("other"), [false; 4]);
}
