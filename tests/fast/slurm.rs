//! `submit` with programs in place of Slurm's: what it asks them, and what it makes of their answers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::repeat::Repeat;
use memprof_plan::shard::Shard;
use memprof_plan::sharding::AllTests;
use memprof_run::archive::manifest::{ArchivedLibrary, Manifest};
use memprof_run::archive::writer::ArchiveWriter;
use serde_json::json;
use tempfile::TempDir;

use crate::support::synthetic::{Log, Synthetic, cell};
use crate::support::{Printed, succeed, tool};

const TESTS: [&str; 3] = ["one", "two", "three"];

/// Notes its arguments, and gives the next job id; or refuses with what `refusal` says.
const SBATCH: &str = r#"#!/bin/sh
for argument in "$@"; do printf '%s\n' "$argument"; done >>"$FAKE/sbatch.calls"
if [ -e "$FAKE/refusal" ]; then cat "$FAKE/refusal" >&2; exit 1; fi
if [ -e "$FAKE/in-the-way" ]; then mv "$RUN/slurm" "$RUN/kept"; fi
id=$(cat "$FAKE/next-id")
echo $((id + 9)) >"$FAKE/next-id"
echo "$id"
"#;

/// Each call is the next look at the cluster: what its nodes wrote meanwhile, and the tasks. The last look stays.
const SQUEUE: &str = r#"#!/bin/sh
echo "$*" >>"$FAKE/squeue.calls"
number=$(cat "$FAKE/looks")
if [ -d "$FAKE/look-$((number + 1))" ]; then number=$((number + 1)); echo "$number" >"$FAKE/looks"; fi
if [ -d "$FAKE/look-$number/run" ]; then cp -R "$FAKE/look-$number/run/." "$RUN"; fi
cat "$FAKE/look-$number/error" >&2 2>/dev/null && exit 1
cat "$FAKE/look-$number/tasks"
"#;

const SACCT: &str = r#"#!/bin/sh
echo "$*" >>"$FAKE/sacct.calls"
if [ -e "$FAKE/accounting" ]; then cat "$FAKE/accounting"; else echo 'Slurm accounting storage is disabled' >&2; exit 1; fi
"#;

const SCANCEL: &str = "#!/bin/sh\necho \"$*\" >>\"$FAKE/scancel.calls\"\n";

/// A cluster of scripts, and an archive of three tests in two revisions.
struct Cluster {
    folder: TempDir,
    blake3: String,
    looks: u32,
}

impl Cluster {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut cluster = Self { folder, blake3: String::new(), looks: 0 };
        let programs = [("sbatch", SBATCH), ("squeue", SQUEUE), ("sacct", SACCT), ("scancel", SCANCEL)];
        std::fs::create_dir(cluster.path("bin")).expect("made");
        for (name, text) in programs {
            // Written by a child: a file that this process has open for writing cannot run.
            let mut write = Command::new("sh");
            write.args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""]);
            succeed(write.arg(cluster.path("bin").join(name)).arg(text));
        }
        cluster.write("next-id", "4711\n");
        cluster.write("looks", "0\n");
        cluster.blake3 = cluster.archive("my archive.tar.zst", "");
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// An archive without executables, which says what there is to run.
    fn archive(&self, name: &str, note: &str) -> String {
        let synthetic = Synthetic::new(&["main", "pr/7"]);
        let cells: Vec<PlannedCell> =
            TESTS.iter().flat_map(|test| [0, 1].map(|revision| planned(test, revision))).collect();
        let file = Utf8PathBuf::from_path_buf(self.path(name)).expect("text");
        let mut writer = ArchiveWriter::begin(&file).expect("begun");
        writer.add_file("plan.json", &synthetic.folder().plan()).expect("added");
        writer.add_bytes("cells.json", &serde_json::to_vec(&cells).expect("JSON")).expect("added");
        writer.add_bytes("note", note.as_bytes()).expect("added");
        let manifest = Manifest {
            tool: "0".to_owned(),
            target: "any".to_owned(),
            has_runner: true,
            loaders: Vec::new(),
            root: "/r".into(),
            injection: ArchivedLibrary::Absent("not built".to_owned()),
            malloc: None,
            metrics: Vec::new(),
            revisions: Vec::new(),
            contents: std::collections::BTreeMap::new(),
        };
        writer.finish(manifest).expect("finished").hash
    }

    /// The next look: the shards that are finished by then, by this job, and what squeue prints.
    fn look(&mut self, finished: &[(u32, &str)], tasks: &str) {
        self.looks += 1;
        let look = format!("look-{}", self.looks);
        self.write(&format!("{look}/tasks"), tasks);
        for (number, job) in finished {
            let index = *number as usize - 1;
            let all = AllTests::from_cells(TESTS.map(|test| cell(test, &[])).iter());
            let log = |live: i64| Log::new().checkpoint("done", &[("heap.live", live), ("heap.peak", live)]);
            let (old, new) = (log(1_000_000), log(1_000_000 * i64::from(*number)));
            let shard = Synthetic::new(&["main", "pr/7"])
                .passed(TESTS[index], 0, 0, &old)
                .passed(TESTS[index], 1, 0, &new)
                .passed(TESTS[index], 0, 1, &old)
                .passed(TESTS[index], 1, 1, &new)
                .environment(&json!({ "os": "linux" }))
                .builds(&json!({}))
                .shard(Shard { number: *number, count: 3 }, &all);
            let origin = json!({ "blake3": self.blake3 }).to_string();
            std::fs::write(shard.folder().origin(), origin).expect("written");
            let to = self.path(&format!("{look}/run/shards/{number}/{job}-0"));
            std::fs::create_dir_all(&to).expect("made");
            let mut copy = Command::new("cp");
            succeed(copy.args(["-R", &format!("{}/.", shard.folder().0)]).arg(to));
        }
    }

    /// What a task has written to standard error by the last look.
    fn stderr(&self, task: &str, text: &str) {
        self.write(&format!("look-{}/run/slurm/{task}.err", self.looks), text);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tool();
        let path = std::env::var("PATH").expect("text");
        command
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("FAKE", self.folder.path())
            .env("RUN", self.path("my run"))
            .env("CARGO_MEMPROF_HOME", self.path("home"))
            .args(["memprof", "submit", "--every", "200ms"])
            .args(arguments);
        command
    }

    fn submit(&self, more: &[&str]) -> Printed {
        Printed::of(self.command(&[&Self::first()[..], more].concat()))
    }

    fn first() -> [&'static str; 7] {
        ["--slurm", "--archive", "my archive.tar.zst", "--shards", "3", "--run-folder", "my run"]
    }

    fn resume(&self, more: &[&str]) -> Printed {
        Printed::of(self.command(&[&["--resume", "my run"], more].concat()))
    }

    /// The arguments of the calls of `sbatch`, joined.
    fn sbatch(&self) -> String {
        self.read("sbatch.calls").replace('\n', " ")
    }
}

fn planned(test: &str, revision: usize) -> PlannedCell {
    PlannedCell {
        cell: cell(test, &[]),
        revision,
        status: CellStatus::Run,
        env: std::collections::BTreeMap::new(),
        args: Vec::new(),
        exit_code: 0,
        timeout_seconds: None,
        repeat: Repeat::default(),
        devices: None,
    }
}

#[track_caller]
fn has(text: &str, needles: &[&str]) {
    for needle in needles {
        assert!(text.contains(needle), "{needle} is not in:\n{text}");
    }
}

#[test]
fn a_job_is_submitted_followed_collected_and_reported() {
    let mut cluster = Cluster::new();
    cluster.look(&[], "4711_1|PENDING||Priority\n4711_2|PENDING||Priority\n4711_3|PENDING||Priority\n");
    cluster.look(
        &[(1, "4711")],
        "4711_1|COMPLETED|node1|None\n4711_2|RUNNING|node1|None\n4711_3|RUNNING|node2|None\n",
    );
    cluster.look(&[(2, "4711"), (3, "4711")], "4711_1|COMPLETED|node1|None\n");
    let printed = cluster.submit(&["--threshold", "heap.peak=5%", "--", "--gres=gpu:1", "--comment=a b"]);
    assert_eq!(printed.code, 1, "two tests regressed: {}", printed.everything());
    has(&printed.stdout, &["2 of 3 tests regressed"]);
    has(
        &printed.stderr,
        &[
            "Submitted job 4711: 3 shards of my archive.tar.zst, run ",
            "Following job 4711: 0 of 3 shards finished, 3 pending (Priority)",
            "Following job 4711: 1 of 3 shards finished, 2 running (node1, node2)",
            "Following job 4711: 3 of 3 shards finished",
        ],
    );
    let calls = cluster.read("sbatch.calls");
    let run = cluster.path("my run").canonicalize().expect("it is there");
    let lines: Vec<&str> = calls.lines().collect();
    let script = run.join("slurm/script.sh").display().to_string();
    assert_eq!(lines[lines.len() - 4..], ["--gres=gpu:1", "--comment=a b", "--array=1-3", &script]);
    has(&calls, &["--parsable", &format!("--chdir={}", run.display())]);
    let script = std::fs::read_to_string(script).expect("text");
    has(
        &script,
        &[
            "/my archive.tar.zst'\n",
            "/my run'\n",
            "shards=3\n",
            "flags=(--threshold heap.peak=5% --why changed)\n",
            concat!("tool=", env!("CARGO_BIN_EXE_cargo-memprof")),
        ],
    );
    // Once more, it only reports.
    let again = cluster.resume(&["--format", "csv"]);
    assert_eq!(again.code, 1, "{}", again.everything());
    has(&again.stdout, &["heap.peak"]);
    assert_eq!(cluster.sbatch().matches("--array").count(), 1);
}

#[test]
fn missing_shards_are_named_with_the_reason_and_only_they_run_again() {
    for (task, stderr, reason) in [
        ("NODE_FAIL|node2|NodeDown", "", "NODE_FAIL on node2 (NodeDown); its log is empty"),
        (
            "CANCELLED|node2|None",
            "slurmstepd: error: CANCELLED AT\n",
            "CANCELLED on node2; its log ends with 'slurmstepd: error: CANCELLED AT'",
        ),
        ("TIMEOUT|node2|TimeLimit", "", "TIMEOUT on node2 (TimeLimit)"),
        ("OUT_OF_MEMORY|node2|OutOfMemory", "", "OUT_OF_MEMORY on node2 (OutOfMemory)"),
        (
            "FAILED|node2|NonZeroExitCode",
            "error: No space left on device\n  help: free some space\n",
            "FAILED on node2 (NonZeroExitCode); its log ends with 'error: No space left on device'",
        ),
    ] {
        let mut cluster = Cluster::new();
        let tasks = format!("4711_1|COMPLETED|node1|None\n4711_2|{task}\n4711_3|RUNNING|node1|None\n");
        cluster.look(&[(1, "4711")], &tasks);
        if !stderr.is_empty() {
            cluster.stderr("4711_2", stderr);
        }
        cluster.look(&[(3, "4711")], &tasks.replace("3|RUNNING", "3|COMPLETED"));
        let printed = cluster.submit(&["--", "--partition=x"]);
        assert_eq!(printed.code, 3, "{}", printed.everything());
        has(
            &printed.stderr,
            &[
                &format!("warning: shard 2/3 is missing: {reason}"),
                "error: 1 of 3 shards is missing",
                "to run it again: cargo memprof submit --resume '",
            ],
        );
        if !task.starts_with("NODE_FAIL") {
            continue;
        }
        cluster.look(&[], &tasks.replace("3|RUNNING", "3|COMPLETED"));
        let done = tasks.replace("3|RUNNING", "3|COMPLETED") + "4720_2|COMPLETED|node1|None\n";
        for finished in [&[][..], &[], &[], &[], &[], &[(2, "4720")]] {
            cluster.look(finished, &done);
        }
        let resumed = cluster.resume(&[]);
        assert_eq!(resumed.code, 1, "{}", resumed.everything());
        has(
            &resumed.stderr,
            &[&format!("warning: shard 2/3 runs again: {reason}"), "Submitted job 4720: 1 shard of"],
        );
        has(&resumed.stdout, &["2 of 3 tests regressed"]);
        assert!(cluster.sbatch().contains("--partition=x --array=2 "), "{}", cluster.sbatch());
    }
}

#[test]
fn a_task_that_cannot_be_requeued_is_cancelled_and_submitted_again_with_new_flags() {
    let mut cluster = Cluster::new();
    let held = "4711_1|PENDING||launch failed requeued held\n4711_3|PENDING||launch failed requeued held\n";
    cluster.look(&[(2, "4711")], held);
    let printed = cluster.submit(&["--", "--partition=x"]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    has(&printed.stderr, &["shard 1/3 is missing: not requeued: PENDING (launch failed requeued held)"]);
    let resumed = cluster.resume(&["--detach", "--", "--partition=other", "--time=1:00:00"]);
    assert_eq!(resumed.code, 0, "{}", resumed.everything());
    has(&resumed.stdout, &["cargo memprof submit --resume '", "squeue --jobs 4720", "scancel 4720"]);
    assert_eq!(cluster.read("scancel.calls"), "4711_1\n4711_3\n");
    has(&cluster.sbatch(), &["--partition=other --time=1:00:00 --array=1,3 "]);
    // The next call has the same flags.
    cluster.look(&[], "4711_1|CANCELLED||\n4720_1|TIMEOUT||\n4720_3|RUNNING||\n");
    assert_eq!(cluster.resume(&["--detach"]).code, 0);
    has(&cluster.sbatch(), &["--partition=other --time=1:00:00 --array=1 "]);
}

#[test]
fn an_sbatch_that_dies_without_a_word_may_have_submitted_the_job() {
    let cluster = Cluster::new();
    let too_much = "head -c 70000000 /dev/zero | tr '\\0' x";
    for (does, problem) in [
        ("kill -9 $$", "SIGKILL"),
        ("exit 255", "exit status: 255"),
        (too_much, "printed more than 64.0 MiB"),
    ] {
        let mut write = Command::new("sh");
        write.args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$0\""]);
        succeed(write.arg(cluster.path("bin/sbatch")).arg(does));
        let printed = cluster.submit(&[]);
        assert_eq!(printed.code, 2, "{}", printed.everything());
        has(&printed.stderr, &[problem, "if a job was submitted, `squeue --me` shows it"]);
        assert!(!cluster.path("my run").exists(), "nothing is in the way of the next call");
    }
}

#[test]
fn a_job_that_slurm_forgot_is_known_by_accounting_or_else_by_its_folders() {
    let mut cluster = Cluster::new();
    let submitted = cluster.submit(&["--detach"]);
    assert_eq!(submitted.code, 0, "{}", submitted.everything());
    cluster.look(&[(1, "4711"), (2, "4711")], "");
    cluster.write("look-1/error", "slurm_load_jobs error: Invalid job id specified\n");
    cluster.write("accounting", "4711_1|COMPLETED|node1\n4711_3|CANCELLED by 1000|node2\n");
    let resumed = cluster.resume(&["--detach"]);
    has(&resumed.stderr, &["shard 3/3 runs again: CANCELLED on node2 (by 1000)"]);
    std::fs::remove_file(cluster.path("accounting")).expect("it was there");
    let resumed = cluster.resume(&["--detach"]);
    has(&resumed.stderr, &["shard 3/3 runs again: Slurm no longer knows job 4720_3; its log is empty"]);
    assert_eq!(cluster.sbatch().matches("--array=3 ").count(), 2, "{}", cluster.sbatch());
}

#[test]
fn a_controller_that_does_not_answer_is_asked_again() {
    let mut cluster = Cluster::new();
    cluster.look(&[], "");
    cluster.write("look-1/error", "slurm_load_jobs error: Unable to contact slurm controller\n");
    cluster.look(&[], "4711_1|RUNNING|node1|None\n4711_2|RUNNING|node1|None\n4711_3|RUNNING|node1|None\n");
    cluster.look(&[(1, "4711"), (2, "4711"), (3, "4711")], "");
    let printed = cluster.submit(&[]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    has(
        &printed.stderr,
        &[
            "warning: Slurm gives no answer, and is asked again",
            "Unable to contact slurm controller",
            "3 without an answer",
        ],
    );
}

#[test]
fn ctrl_c_stops_following_and_the_job_keeps_running() {
    let mut cluster = Cluster::new();
    cluster.look(&[], "4711_1|RUNNING|node1|None\n4711_2|RUNNING|node1|None\n4711_3|PENDING||Resources\n");
    let mut command = cluster.command(&Cluster::first());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("it starts");
    let began = Instant::now();
    while cluster.read("squeue.calls").lines().count() < 2 {
        assert!(began.elapsed() < Duration::from_mins(1), "it never asked");
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = cluster.resume(&[]);
    assert_eq!(second.code, 2, "{}", second.everything());
    has(&second.stderr, &["another run is using this job's folder: ", ": cargo memprof submit "]);
    succeed(Command::new("kill").args(["-TERM", &child.id().to_string()]));
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    has(
        &stderr,
        &[
            "error: interrupted; job 4711 keeps running",
            "to follow it again: cargo memprof submit --resume '",
            "to cancel it: scancel 4711",
        ],
    );
    assert_eq!(cluster.read("scancel.calls"), "");
}

#[test]
fn a_job_is_found_by_its_id_among_the_runs_here() {
    let mut cluster = Cluster::new();
    let first = ["--slurm", "--archive", "my archive.tar.zst", "--shards", "3", "--detach"];
    let printed = Printed::of(cluster.command(&first));
    has(&printed.stdout, &["follow and report: cargo memprof submit --resume 4711\n"]);
    let runs = cluster.path("memprof-runs");
    let ids: Vec<String> = std::fs::read_dir(&runs)
        .expect("it is there")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .filter(|name| !name.starts_with('.'))
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    cluster.look(&[(1, "4711"), (2, "4711"), (3, "4711")], "");
    let mut resume = cluster.command(&["--resume", "4711"]);
    resume.env("RUN", runs.join(&ids[0]));
    let printed = Printed::of(resume);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    assert_eq!(std::fs::read_link(runs.join("latest")).expect("a link"), Path::new(&ids[0]));
    let unknown = Printed::of(cluster.command(&["--resume", "9999"]));
    assert_eq!(unknown.code, 2, "{}", unknown.everything());
    has(&unknown.stderr, &["no run here belongs to job '9999'", &ids[0]]);
}

#[test]
fn mistakes_are_refused_before_anything_is_submitted() {
    let cluster = Cluster::new();
    let refused = |arguments: &[&str], needles: &[&str]| {
        let printed = Printed::of(cluster.command(arguments));
        assert_eq!(printed.code, 2, "{}", printed.everything());
        has(&printed.stderr, needles);
        assert!(!cluster.path("my run").exists(), "nothing is left");
    };
    let [slurm, archive, file, shards, three, run_folder, run] = Cluster::first();
    refused(&[slurm, archive, "none.tar.zst", shards, three], &["cannot open the archive none.tar.zst"]);
    refused(
        &[slurm, archive, file, shards, "4", run_folder, run],
        &["4 shards, but my archive.tar.zst has 3 tests", "help: --shards 3"],
    );
    refused(
        &[slurm, archive, file, shards, three, "--", "--array=1-9"],
        &["sbatch gets --array=1-9, but submit sets the array itself"],
    );
    refused(&[archive, file, shards, three], &["--slurm"]);
    cluster.write("refusal", "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid partition name specified\n");
    refused(
        &Cluster::first(),
        &[
            "error: sbatch refused the job: invalid partition specified: x; Batch job submission failed: Invalid partition name specified\n",
            "sinfo",
        ],
    );
    std::fs::remove_file(cluster.path("refusal")).expect("it was there");
    for program in ["sbatch", "squeue", "sacct", "scancel"] {
        std::fs::remove_file(cluster.path("bin").join(program)).expect("it was there");
    }
    let mut command = cluster.command(&Cluster::first());
    // Slurm may really be installed here.
    command.env("PATH", cluster.path("bin"));
    let printed = Printed::of(command);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    has(
        &printed.stderr,
        &[
            "error: sbatch is not installed here",
            "install Slurm's client commands",
            "--shard 1/8",
            "docs/slurm.md",
        ],
    );
}

#[test]
fn a_job_that_cannot_be_noted_is_named_and_its_folder_stays() {
    let cluster = Cluster::new();
    cluster.write("in-the-way", "");
    let printed = Printed::of(cluster.command(&Cluster::first()));
    assert_ne!(printed.code, 0, "{}", printed.everything());
    has(
        &printed.stderr,
        &["job 4711 was submitted, but cannot be noted: ", "help: to cancel it: scancel 4711"],
    );
    assert!(cluster.path("my run/kept/script.sh").exists(), "its tasks need it");
}

#[test]
fn a_secret_for_sbatch_is_not_kept_and_asked_for_again() {
    let mut cluster = Cluster::new();
    let flags = ["--detach", "--", "--export=ALL,API_TOKEN=hunter2-of-mine", "--partition=x"];
    assert_eq!(cluster.submit(&flags).code, 0);
    has(&cluster.sbatch(), &["--export=ALL,API_TOKEN=hunter2-of-mine --partition=x"]);
    for entry in walkdir::WalkDir::new(cluster.path("my run")) {
        let entry = entry.expect("it can be read");
        if entry.file_type().is_file() {
            let text = std::fs::read_to_string(entry.path()).expect("text");
            assert!(!text.contains("hunter2"), "{}: {text}", entry.path().display());
        }
    }
    cluster.look(&[(1, "4711"), (2, "4711")], "");
    let resumed = cluster.resume(&["--detach"]);
    assert_eq!(resumed.code, 2, "{}", resumed.everything());
    has(
        &resumed.stderr,
        &[
            "the flags for sbatch contained a secret, which is not kept",
            "submit --resume '",
            "my run' -- FLAGS",
        ],
    );
    assert_eq!(cluster.resume(&flags).code, 0);
    has(&cluster.sbatch(), &["--partition=x --array=3 "]);
}

#[test]
fn shards_of_another_archive_and_another_archive_on_resume_are_refused() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.submit(&["--detach"]).code, 0);
    cluster.look(&[(1, "4711")], "");
    let other = cluster.archive("other.tar.zst", "another");
    let resumed = cluster.resume(&["--archive", "other.tar.zst"]);
    assert_eq!(resumed.code, 2, "{}", resumed.everything());
    has(&resumed.stderr, &["other.tar.zst is not the archive that job 4711 ran"]);
    let moved = cluster.path("moved").join("it is.tar.zst");
    std::fs::create_dir(cluster.path("moved")).expect("made");
    std::fs::rename(cluster.path("my archive.tar.zst"), &moved).expect("moved");
    let flags = |script: &str| script.lines().find(|line| line.starts_with("flags=(")).map(str::to_owned);
    let before = cluster.read("my run/slurm/script.sh");
    let resumed = cluster.resume(&["--archive", "moved/it is.tar.zst", "--detach"]);
    assert_eq!(resumed.code, 0, "{}", resumed.everything());
    let moved = moved.canonicalize().expect("it is there").display().to_string();
    let script = cluster.read("my run/slurm/script.sh");
    has(&script, &[&format!("\narchive='{moved}'\n")]);
    has(&cluster.read("my run/slurm/job.json"), &[&moved]);
    assert!(flags(&script).is_some() && flags(&script) == flags(&before), "{script}");
    assert_eq!(before.replace("my archive.tar.zst", "moved/it is.tar.zst"), script);
    cluster.write("my run/shards/1/4711-0/archive.json", &json!({ "blake3": other }).to_string());
    cluster.write("look-1/run/shards/1/4711-0/archive.json", &json!({ "blake3": other }).to_string());
    let resumed = cluster.resume(&[]);
    assert_eq!(resumed.code, 2, "{}", resumed.everything());
    has(&resumed.stderr, &["/shards/1/4711-0 is not shard 1/3 of ", "remove it: rm -r '"]);
}

#[test]
fn a_task_that_says_that_it_succeeded_but_left_nothing_is_waited_for_and_then_missing() {
    let mut cluster = Cluster::new();
    cluster.look(&[(1, "4711"), (2, "4711")], "4711_3|COMPLETED|node1|None\n");
    let printed = cluster.submit(&[]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    has(&printed.stderr, &["shard 3/3 is missing: COMPLETED on node1, but its results are not here"]);
}

#[test]
fn if_no_task_wrote_anything_the_nodes_may_not_see_the_folder() {
    let mut cluster = Cluster::new();
    cluster.look(&[], "4711_1|FAILED|n|\n4711_2|FAILED|n|\n4711_3|FAILED|n|\n");
    let printed = cluster.submit(&[]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    has(
        &printed.stderr,
        &[
            "error: 3 of 3 shards are missing",
            "no task wrote to",
            "choose a shared folder with --run-folder DIR",
        ],
    );
}

#[test]
fn the_shards_get_the_files_of_the_flags_by_their_whole_paths() {
    let cluster = Cluster::new();
    let submitted = cluster.submit(&["--budget", "limits/budget.json", "--noise", "noise.json", "--detach"]);
    assert_eq!(submitted.code, 0, "{}", submitted.everything());
    let folder = cluster.folder.path().canonicalize().expect("it is there");
    let folder = folder.display();
    let flags = format!("--noise {folder}/noise.json --budget {folder}/limits/budget.json ");
    has(&cluster.read("my run/slurm/script.sh"), &[&flags]);
}
