//! Builds the folder of a run that never happened: a plan, outcomes and logs as the runner and the shim write them.

#![allow(dead_code, reason = "the benchmarks include this file, too, and use a part of it")]

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use memprof_judge::results::outcome::{self, Outcome, RunRecord, Status};
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_judge::results::shard_record::ShardRecord;
use memprof_judge::results::stored::{self, Results};
use memprof_plan::axis_labels::AxisLabels;
use memprof_plan::request::{RefRequest, Request, TargetKind};
use memprof_plan::resolved::{self, CellId, Plan, Revision, TestId};
use memprof_plan::rule::Judging;
use memprof_plan::search_options::SearchOptions;
use memprof_plan::shard::Shard;
use memprof_plan::sharding::{self, AllTests};
use memprof_support::sealed;
use serde_json::{Value, json};

/// A run's folder in a temporary place.
pub struct Synthetic {
    _home: tempfile::TempDir,
    folder: RunFolder,
    plan: Plan,
}

impl Synthetic {
    /// A plan of these refs, the first of them the baseline.
    pub fn new(refs: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(home.path().to_owned()).unwrap();
        let revisions = refs.iter().enumerate().map(|(index, name)| Revision {
            name: (*name).to_owned(),
            spec: (*name).to_owned(),
            commit: format!("{:040x}", 0x4f1c_2aa0_u64 + index as u64).chars().rev().collect(),
            tree: format!("{index:040x}"),
            subject: format!("Change {index}"),
            time: 1_740_910_500,
            found: None,
            working_tree: false,
        });
        let plan = Plan {
            version: resolved::VERSION,
            tool: "0.1.0".to_owned(),
            id: "20250302T101500Z".to_owned(),
            created: "2025-03-02T10:15:00Z".to_owned(),
            repository: "/repository".into(),
            workspace: Utf8PathBuf::new(),
            revisions: revisions.collect(),
            baseline: 0,
            overlay_commits: Vec::new(),
            search: Some(SearchOptions { candidates: (1..refs.len()).collect(), ..SearchOptions::default() }),
            notes: Vec::new(),
            request: Request::default(),
        };
        let synthetic = Self { _home: home, folder: RunFolder(root), plan };
        write_json(&synthetic.folder.plan(), &serde_json::to_value(&synthetic.plan).unwrap());
        synthetic
    }

    /// How verdicts are given.
    pub fn judging(mut self, judging: Judging) -> Self {
        self.plan.request.judging = judging;
        write_json(&self.folder.plan(), &serde_json::to_value(&self.plan).unwrap());
        self
    }

    /// Which tests are pairs.
    pub fn pairs(mut self, patterns: &[&str]) -> Self {
        self.plan.request.settings.pairs = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        write_json(&self.folder.plan(), &serde_json::to_value(&self.plan).unwrap());
        self
    }

    /// The axes whose combinations the refs are, and the features of each ref.
    pub fn axes(mut self, axes: &[AxisLabels], features: &[&[&str]]) -> Self {
        self.plan.request.axes = axes.to_vec();
        let one = |(revision, features): (&Revision, &&[&str])| RefRequest {
            spec: revision.spec.clone(),
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
            ..RefRequest::default()
        };
        self.plan.request.refs = self.plan.revisions.iter().zip(features).map(one).collect();
        write_json(&self.folder.plan(), &serde_json::to_value(&self.plan).unwrap());
        self
    }

    /// Makes it one of several shards.
    pub fn shard(mut self, shard: Shard, all: &AllTests) -> Self {
        sharding::take(&mut self.plan, shard);
        write_json(&self.folder.plan(), &serde_json::to_value(&self.plan).unwrap());
        ShardRecord::write(&self.folder, shard, all, true).unwrap();
        self
    }

    /// `environment.json`.
    pub fn environment(self, environment: &Value) -> Self {
        write_json(&self.folder.environment(), environment);
        self
    }

    /// `builds.json`.
    pub fn builds(self, builds: &Value) -> Self {
        fs_err::write(self.folder.builds(), sealed::sealed(builds).unwrap()).unwrap();
        self
    }

    /// `trace.json`.
    pub fn traces(self, traces: &Value) -> Self {
        write_json(&self.folder.trace(), traces);
        self
    }

    /// A run that passed.
    pub fn passed(self, test: &str, revision: usize, repeat: u32, log: &Log) -> Self {
        self.run(&cell(test, &[]), revision, repeat, Status::Ok, None, Some(log))
    }

    /// A run that passed, with parameters.
    pub fn passed_with(self, test: &str, params: &[(&str, &str)], revision: usize, log: &Log) -> Self {
        self.run(&cell(test, params), revision, 0, Status::Ok, None, Some(log))
    }

    /// A run that passed, of a cell with a name of its own.
    pub fn passed_as(self, name: &str, test: &str, revision: usize, log: &Log) -> Self {
        let cell = CellId { title: name.to_owned(), ..cell(test, &[]) };
        self.run(&cell, revision, 0, Status::Ok, None, Some(log))
    }

    /// A run that passed, of a test in a target of this kind.
    pub fn passed_in(self, kind: TargetKind, test: &str, revision: usize, repeat: u32, log: &Log) -> Self {
        let mut cell = cell(test, &[]);
        cell.test.kind = kind;
        self.run(&cell, revision, repeat, Status::Ok, None, Some(log))
    }

    /// A run that did not pass.
    pub fn failed(
        self,
        test: &str,
        revision: usize,
        status: Status,
        message: &str,
        log: Option<&Log>,
    ) -> Self {
        self.run(&cell(test, &[]), revision, 0, status, Some(message), log)
    }

    fn run(
        self,
        cell: &CellId,
        revision: usize,
        repeat: u32,
        status: Status,
        message: Option<&str>,
        log: Option<&Log>,
    ) -> Self {
        let home = self.folder.cell(&self.plan, revision, cell, repeat);
        fs_err::create_dir_all(&home).unwrap();
        if let Some(log) = log {
            fs_err::write(home.join(file::LOG), log.text()).unwrap();
        }
        let record = RunRecord {
            // As earlier versions wrote it. Tests change these files, and version 2 would refuse them.
            version: outcome::WITHOUT_SEALS,
            revision,
            cell: cell.clone(),
            repeat,
            outcome: Outcome {
                status,
                message: message.map(str::to_owned),
                wall_nanoseconds: Some(1_000_000),
            },
            build: None,
            marks: Vec::new(),
            withdrawn: std::collections::BTreeMap::new(),
            devices: None,
            files: std::collections::BTreeMap::new(),
        };
        write_json(&home.join(file::OUTCOME), &serde_json::to_value(record).unwrap());
        self
    }

    /// The folder.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// What `results::read` makes of it.
    pub fn results(&self) -> Results {
        stored::read(&self.folder).unwrap()
    }
}

fn write_json(path: &Utf8Path, value: &Value) {
    fs_err::write(path, serde_json::to_vec_pretty(value).unwrap()).unwrap();
}

/// The cell of a unit test of the crate `bart`.
pub fn cell(test: &str, params: &[(&str, &str)]) -> CellId {
    let params: Vec<_> =
        params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let values: String = params.iter().fold(String::new(), |mut text, (_, value)| {
        write!(text, "/{value}").unwrap();
        text
    });
    let test_id = TestId {
        package: "bart".to_owned(),
        binary: "tests".to_owned(),
        kind: TargetKind::Test,
        name: test.to_owned(),
    };
    CellId { test: test_id, params, title: format!("{test}{values}"), program: None }
}

/// A shim's log, written line by line.
#[derive(Clone, Debug)]
pub struct Log {
    lines: Vec<String>,
    sources: Vec<(String, String)>,
    occurrences: std::collections::HashMap<String, u32>,
    is_cut_off: bool,
}

impl Log {
    /// A log with the usual sources.
    pub fn new() -> Self {
        let sources = [
            ("heap.live", "tracking allocator"),
            ("heap.peak", "tracking allocator"),
            ("heap.allocated", "tracking allocator"),
            ("heap.count", "tracking allocator"),
            ("cpu.rss", "/proc/self/statm"),
            ("cpu.peak", "VmHWM since the last checkpoint"),
            ("time", "monotonic clock"),
        ];
        let owned = sources.map(|(metric, source)| (metric.to_owned(), source.to_owned()));
        Self {
            lines: Vec::new(),
            sources: owned.to_vec(),
            occurrences: std::collections::HashMap::new(),
            is_cut_off: false,
        }
    }

    /// The log of a process that called `_exit`.
    pub fn without_end(mut self) -> Self {
        self.is_cut_off = true;
        self
    }

    /// Where a metric's figures come from.
    pub fn source(mut self, metric: &str, source: &str) -> Self {
        self.sources.retain(|(known, _)| known != metric);
        self.sources.push((metric.to_owned(), source.to_owned()));
        self
    }

    /// A metric that could not be read.
    pub fn absent(mut self, metric: &str, reason: &str) -> Self {
        let head = self.head("absent");
        self.lines.push(format!("{head},\"metric\":{},\"reason\":{}}}", json!(metric), json!(reason)));
        self
    }

    /// A checkpoint.
    pub fn checkpoint(self, label: &str, metrics: &[(&str, i64)]) -> Self {
        self.line("checkpoint", label, metrics)
    }

    /// A line of another kind, with these fields.
    pub fn event(mut self, event: &str, fields: &Value) -> Self {
        let head = self.head(event);
        let fields = fields.to_string();
        self.lines.push(format!("{head},{}", &fields[1..]));
        self
    }

    /// The end of a traced call that is logged by itself, with so many scopes around it.
    pub fn call(mut self, depth: u32, label: &str, metrics: &[(&str, i64)]) -> Self {
        self = self.nested(depth, label, metrics);
        let line = self.lines.last_mut().expect("the line was added");
        line.truncate(line.len() - 1);
        line.push_str(",\"traced\":true}");
        self
    }

    /// A scope's end.
    pub fn scope(self, label: &str, metrics: &[(&str, i64)]) -> Self {
        self.line("scope", label, metrics)
    }

    /// The end of a scope with so many around it.
    pub fn nested(mut self, depth: u32, label: &str, metrics: &[(&str, i64)]) -> Self {
        self = self.line("scope", label, metrics);
        let line = self.lines.last_mut().expect("the line was added");
        line.truncate(line.len() - 1);
        write!(line, ",\"depth\":{depth}}}").unwrap();
        self
    }

    fn line(mut self, event: &str, label: &str, metrics: &[(&str, i64)]) -> Self {
        let occurrence = self.occurrences.entry(format!("{event} {label}")).or_insert(0);
        *occurrence += 1;
        let occurrence = *occurrence;
        // The checkpoints that every run has are at no place of the test's.
        let at = if ["start", "done"].contains(&label) { Value::Null } else { json!("src/lib.rs:10") };
        let mut line = self.head(event);
        write!(line, ",\"label\":{},\"occurrence\":{occurrence},\"at\":{at},\"metrics\":{{", json!(label))
            .unwrap();
        for (index, (metric, value)) in metrics.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(line, "{comma}\"{metric}\":{value}").unwrap();
        }
        line.push_str("}}");
        self.lines.push(line);
        self
    }

    fn head(&self, event: &str) -> String {
        let sequence = self.lines.len() + 1;
        let nanoseconds = sequence * 1_000_000;
        format!(
            "{{\"v\":1,\"event\":\"{event}\",\"seq\":{sequence},\"ns\":{nanoseconds},\"pid\":4242,\"thread\":1"
        )
    }

    /// The whole file.
    pub fn text(&self) -> String {
        let sources: serde_json::Map<String, Value> =
            self.sources.iter().map(|(metric, source)| (metric.clone(), json!(source))).collect();
        let begin = json!({
            "v": 1, "event": "begin", "seq": 0, "ns": 0, "pid": 4242, "thread": 1,
            "build": null, "shim": "0.1.0", "sources": sources,
        });
        let mut text = format!("{begin}\n");
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        if !self.is_cut_off {
            text.push_str(&self.head("end"));
            text.push_str("}\n");
        }
        text
    }
}

/// The readings of a checkpoint: heap peak, resident peak, allocations and time.
pub fn readings(heap: i64, resident: i64, count: i64, milliseconds: i64) -> [(&'static str, i64); 7] {
    [
        ("heap.live", heap / 2),
        ("heap.peak", heap),
        ("heap.allocated", heap * 2),
        ("heap.count", count),
        ("cpu.rss", resident - 400 * 1024),
        ("cpu.peak", resident),
        ("time", milliseconds * 1_000_000),
    ]
}
