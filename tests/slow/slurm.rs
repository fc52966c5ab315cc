//! `submit` on a real Slurm, which loses a node.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shards::exact;
use crate::slurm_cluster::{Cluster, processes_of};
use crate::support::{Printed, TestRepository, home, tool};

/// Two revisions with four tests, of which one waits until a file exists.
struct Comparison {
    repository: TestRepository,
    home: TempDir,
}

const TESTS: [(&str, u32, u32); 4] =
    [("alpha", 100, 100), ("beta", 200, 900), ("gate", 300, 300), ("delta", 400, 500)];

impl Comparison {
    fn new() -> Self {
        let mut repository = TestRepository::new();
        repository
            .write("Cargo.toml", "[package]\nname = \"parts\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"parts\"\nversion = \"0.1.0\"\n");
        repository.write(".gitignore", "/target\n");
        repository.write("src/lib.rs", "");
        let open = repository.beside("open").display().to_string();
        for (tag, is_new) in [("old", false), ("new", true)] {
            let tests = TESTS.map(|(name, old, new)| {
                let bytes = if is_new { new } else { old } * 1000;
                let wait = format!(
                    "while !std::path::Path::new({open:?}).exists() {{ \
                     std::thread::sleep(std::time::Duration::from_millis(50)) }} "
                );
                let wait = if name == "gate" { &wait } else { "" };
                format!("#[test]\nfn {name}() {{ {wait}std::hint::black_box(vec![1_u8; {bytes}]); }}\n")
            });
            repository.write("tests/memory.rs", tests.concat());
            repository.commit(tag);
            repository.git(["tag", tag]);
        }
        Self { repository, home: home() }
    }

    fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = tool();
        command.current_dir(self.repository.root()).env("CARGO_MEMPROF_HOME", self.home.path());
        command.arg("memprof").args(arguments);
        command
    }

    fn open_the_gate(&self) {
        std::fs::write(self.repository.beside("open"), "").expect("written");
    }

    fn archive(&self) -> String {
        let file = self.path("both of them.tar.zst");
        let arguments =
            ["build", "old", "new", "--test", "memory", "--repeat", "2", "--offline", "--archive", &file];
        let built = Printed::of(self.tool(&arguments));
        assert_eq!(built.code, 0, "{}", built.everything());
        file
    }

    fn path(&self, name: &str) -> String {
        self.repository.beside(name).to_str().expect("text").to_owned()
    }

    /// The figures that must not differ by a byte.
    fn figures(&self, arguments: &[&str]) -> Vec<String> {
        let printed = Printed::of(self.tool(&[arguments, &["--format", "csv"]].concat()));
        assert!([0, 1].contains(&printed.code), "{}", printed.everything());
        exact(&printed.stdout)
    }
}

/// The folder of a job.
struct Run(PathBuf);

impl Run {
    /// The shard that has begun to run a test of this name.
    fn shard_with(&self, test: &str) -> Option<u32> {
        let shards = self.0.join("shards");
        walkdir::WalkDir::new(&shards).into_iter().filter_map(Result::ok).find_map(|entry| {
            let is_cell = entry.file_name().to_str()?.contains(test);
            let number = entry.path().strip_prefix(&shards).ok()?.iter().next()?.to_str()?.parse().ok()?;
            is_cell.then_some(number)
        })
    }

    fn is_finished(&self, shard: u32) -> bool {
        let record = self.0.join(format!("shards/{shard}/1-0/shard.json"));
        std::fs::read_to_string(record).is_ok_and(|text| !text.contains("\"outcomes\": null"))
    }

    fn attempts(&self, shard: u32) -> usize {
        std::fs::read_dir(self.0.join(format!("shards/{shard}"))).expect("it is there").count()
    }

    fn record(&self) -> Value {
        let record = std::fs::read(self.0.join("slurm/job.json")).expect("it is there");
        serde_json::from_slice(&record).expect("JSON")
    }
}

#[test]
fn a_node_is_lost_and_only_its_shard_runs_again() {
    let Some(mut cluster) = Cluster::start() else { return };
    let comparison = Comparison::new();
    let archive = comparison.archive();
    let folder = comparison.path("the run");
    let run = Run(folder.clone().into());
    let configured = |mut command: Command| {
        // What a lost node leaves on its disk goes with the cluster.
        command.env("SLURM_CONF", cluster.path("slurm.conf")).env("TMPDIR", cluster.path(""));
        command
    };
    let arguments = ["submit", "--slurm", "--archive", &archive, "--shards", "4", "--run-folder", &folder];
    let flags = ["--every", "1s", "--", "--partition=x", "--exclusive"];
    let mut command = configured(comparison.tool(&[&arguments[..], &flags].concat()));
    let resume = configured(comparison.tool(&["submit", "--resume", &folder, "--every", "1s"]));
    let submitted = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    cluster.until("the test that waits runs", || run.shard_with("gate").is_some());
    let waiting = run.shard_with("gate").expect("it runs");
    cluster.until("the other shards are finished", || {
        (1..=4).filter(|shard| *shard != waiting).all(|shard| run.is_finished(shard))
    });
    let task = format!("1_{waiting}");
    let node = cluster.ask("squeue", &["--noheader", "--format=%N", "--jobs", &task]).trim().to_owned();
    cluster.lose(&node);
    let output = submitted.wait_with_output().expect("it ends");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let missing = format!("shard {waiting}/4 is missing: NODE_FAIL on {node} (NodeDown)");
    for needle in
        ["Submitted job 1: 4 shards of both of them.tar.zst", &missing, "error: 1 of 4 shards is missing"]
    {
        assert!(stderr.contains(needle), "{needle}: {stderr}");
    }

    comparison.open_the_gate();
    let resumed = Printed::of(resume);
    assert_eq!(resumed.code, 1, "it regressed: {}", resumed.everything());
    assert!(
        resumed.stderr.contains(&format!("shard {waiting}/4 runs again: NODE_FAIL")),
        "{}",
        resumed.stderr
    );
    assert!(resumed.stdout.contains("2 of 4 tests regressed"), "{}", resumed.everything());
    assert_eq!(run.record()["jobs"][1]["shards"], json!([waiting]));
    let attempts: Vec<usize> = (1..=4).map(|shard| run.attempts(shard)).collect();
    assert!((1..=4).all(|shard| (attempts[shard as usize - 1] == 2) == (shard == waiting)), "{attempts:?}");

    let merged = comparison.figures(&["report", &folder]);
    let whole =
        comparison.figures(&["run", "--archive", &archive, "--run-folder", &comparison.path("whole")]);
    assert!(merged.len() >= 8, "{merged:?}");
    assert_eq!(merged, whole);
    let place = cluster.path("");
    assert!(!processes_of(&place).is_empty(), "its daemons run");
    drop(cluster);
    assert_eq!(processes_of(Path::new(&place)), [0_u32; 0], "none of its processes is left");
}
