//! Results without a run: a plan of two revisions, and everything that a report makes of what was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use memprof_judge::compare::from_results::compare;
use memprof_judge::results::measurement::Measurement;
use memprof_judge::results::outcome::{self, Outcome, RunRecord, Status};
use memprof_judge::results::stored::{Results, Run};
use memprof_plan::request::{Request, TargetKind};
use memprof_plan::resolved::{self, CellId, Plan, Revision, TestId};
use memprof_report::options::{Format, Options, View};

/// A plan of `main` and `pr/1`.
pub fn plan() -> Plan {
    let revision = |name: &str, digit: &str| Revision {
        name: name.to_owned(),
        spec: name.to_owned(),
        commit: digit.repeat(40),
        tree: digit.repeat(40),
        subject: format!("Change {digit}"),
        time: 1_740_910_500,
        found: None,
        working_tree: false,
    };
    Plan {
        version: resolved::VERSION,
        tool: "0.1.0".to_owned(),
        id: "20250302T101500Z".to_owned(),
        created: "2025-03-02T10:15:00Z".to_owned(),
        repository: "/repository".into(),
        workspace: "".into(),
        revisions: vec![revision("main", "a"), revision("pr/1", "b")],
        baseline: 0,
        overlay_commits: Vec::new(),
        search: None,
        notes: Vec::new(),
        request: Request::default(),
    }
}

/// The outcome of a run that passed.
pub fn passed(revision: usize) -> RunRecord {
    let test = TestId {
        package: "bart".to_owned(),
        binary: "tests".to_owned(),
        kind: TargetKind::Test,
        name: "forward".to_owned(),
    };
    RunRecord {
        version: outcome::WITHOUT_SEALS,
        revision,
        cell: CellId {
            test,
            params: vec![("batch".to_owned(), "8".to_owned())],
            program: None,
            title: "forward/8".to_owned(),
        },
        repeat: 0,
        outcome: Outcome { status: Status::Ok, message: None, wall_nanoseconds: Some(1_000_000) },
        build: None,
        marks: Vec::new(),
        withdrawn: BTreeMap::new(),
        devices: None,
        files: BTreeMap::new(),
    }
}

/// A run of each revision.
pub fn results(baseline: &Measurement, candidate: &Measurement) -> Results {
    let run = |revision: usize, measurement: &Measurement| Run {
        record: passed(revision),
        measurement: Arc::new(measurement.clone()),
        unreadable: None,
        folder: format!("cells/{revision}/0").into(),
    };
    Results {
        failed_builds: std::collections::BTreeMap::new(),
        plan: plan(),
        environment: serde_json::Value::Null,
        builds: BTreeMap::new(),
        not_measured: BTreeMap::new(),
        added_tests: BTreeMap::new(),
        traces: BTreeMap::new(),
        runs: vec![run(0, baseline), run(1, candidate)],
        notes: Vec::new(),
        same_code: Vec::new(),
        lacks_tests: false,
        apart: BTreeMap::new(),
        saved_baseline: None,
    }
}

/// Compares and renders in every format and view. What other programs read is whole.
pub fn render_everything(results: &Results) {
    let comparison = compare(results);
    let render = |format: Format, view: View| {
        let options = Options { view, all: true, width: Some(80), ..Options::default() };
        let mut text = Vec::new();
        memprof_report::render::render(format, &comparison, &options, &mut text)
            .expect("a vector takes everything");
        String::from_utf8(text).expect("a report is text")
    };
    for view in [View::Checkpoints, View::Scopes, View::Top, View::Tensors] {
        render(Format::Table, view);
    }
    render(Format::Markdown, View::Checkpoints);
    render(Format::Junit, View::Checkpoints);
    let json = render(Format::Json, View::Checkpoints);
    serde_json::from_str::<serde_json::Value>(&json).expect("the JSON report is JSON");
    let csv = render(Format::Csv, View::Checkpoints);
    let rows = csv::Reader::from_reader(csv.as_bytes()).into_records();
    rows.for_each(|row| drop(row.expect("the CSV report is CSV")));
}
