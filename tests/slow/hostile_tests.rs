//! Tests of a pull request that do what no test should: to their files, to other runs, to processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::csv::command;
use crate::support::{Printed, TestRepository, home};

/// The tests. `NOTES` is a folder outside the repository, which survives what they do.
const TESTS: &str = r#"
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn log() -> PathBuf {
    let files = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    files.into_iter().find(|path| path.ends_with("log.jsonl")).unwrap()
}
fn notes() -> PathBuf { PathBuf::from(std::env::var_os("NOTES").unwrap()) }
fn shell(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).env("LOG", log()).current_dir("/").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
/// A process that outlives its parent in the group, in a group of its own, and in a session of its own.
fn daemons() {
    let start = |command: &mut Command| command.current_dir("/").spawn().unwrap().id().to_string();
    let ids = [
        start(Command::new("sleep").arg("310")),
        start(Command::new("sleep").arg("311").process_group(0)),
        shell("setsid sh -c 'echo $$; exec sleep 312 > /dev/null 2>&1' &"),
    ];
    fs::write(notes().join("daemons"), ids.join("\n")).unwrap();
}

#[test] fn a_passes() {}
#[test] fn replaces_log_by_folder() { fs::remove_file(log()).unwrap(); fs::create_dir(log_at()).unwrap(); }
#[test] fn replaces_log_by_fifo() { let log = log(); fs::remove_file(&log).unwrap(); Command::new("mkfifo").arg(log).status().unwrap(); }
fn log_at() -> PathBuf {
    let files = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let deleted = files.into_iter().find_map(|path| path.to_str()?.strip_suffix(" (deleted)").map(PathBuf::from)
        .filter(|path| path.ends_with("log.jsonl")));
    deleted.unwrap()
}
#[test] fn replaces_stderr_by_symlink() {
    let path = log().with_file_name("stderr");
    fs::remove_file(&path).unwrap();
    symlink(notes().join("victim"), path).unwrap();
}
#[test] fn deletes_run_folder() { fs::remove_dir_all(log().parent().unwrap()).unwrap(); }
#[test] fn deletes_executable() { fs::remove_file(std::env::current_exe().unwrap()).unwrap(); }
#[test] fn deletes_current_folder() { fs::remove_dir_all(std::env::current_dir().unwrap()).unwrap(); }
#[test] fn plants_links() {
    for name in ["outcome.json", "outcome.json.partial"] {
        symlink(notes().join("victim"), log().with_file_name(name)).unwrap();
    }
}
#[test] fn forges_a_beginning() {
    let text = fs::read_to_string(log()).unwrap();
    let mut log = fs::OpenOptions::new().append(true).open(log()).unwrap();
    log.write_all(format!("{}\n", text.lines().next().unwrap()).as_bytes()).unwrap();
}
#[test] fn forges_a_checkpoint_in_a_child() {
    shell("head -n 2 $LOG | tail -n 1 | sed 's/start/forged/' >> $LOG");
}
#[test] fn leaves_daemons() { daemons(); }
#[test] fn damages_the_index() { fs::write(entry().join("index"), "damaged").unwrap(); }
fn entry() -> PathBuf {
    let link = fs::read_to_string(".git").unwrap();
    PathBuf::from(link.trim_end().strip_prefix("gitdir: ").unwrap())
}
#[test] fn fills_its_log() { fs::OpenOptions::new().write(true).open(log()).unwrap().set_len(1 << 40).unwrap(); }
#[test] fn leaves_a_path_without_end() {
    for _ in 0..400 {
        fs::create_dir("aaaaaaaaaaaaaaaaaaa").unwrap();
        std::env::set_current_dir("aaaaaaaaaaaaaaaaaaa").unwrap();
    }
}
#[test] fn leaves_fifos() {
    for path in [".gitignore", "src/lib.rs", "tests/other.rs"] {
        let _ = fs::remove_file(path);
        Command::new("mkfifo").arg(path).status().unwrap();
    }
    let record = entry().join("cargo-memprof-conversion");
    fs::remove_file(&record).unwrap();
    Command::new("mkfifo").arg(record).status().unwrap();
}
#[test] fn removes_the_plan() {
    let cells = log().ancestors().find(|path| path.ends_with("cells")).unwrap().to_owned();
    fs::remove_file(cells.with_file_name("plan.json")).unwrap();
}
#[test] fn removes_the_store() {
    let program = std::env::current_exe().unwrap();
    fs::remove_dir_all(program.ancestors().find(|path| path.ends_with("store")).unwrap()).unwrap();
}
#[test] fn sets_sparse_patterns() {
    let set = Command::new("git").args(["sparse-checkout", "set", "nothing"]).status().unwrap();
    assert!(set.success());
}
#[test] fn stops_its_supervisor() { shell("kill -STOP $(cut -d' ' -f4 /proc/$PPID/stat)"); }
#[test] fn kills_its_supervisor() {
    daemons();
    shell("kill -KILL $(cut -d' ' -f4 /proc/$PPID/stat)");
    std::thread::sleep(std::time::Duration::from_secs(60));
}
#[test] fn waits() {
    daemons();
    fs::write(notes().join("waiting"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(300));
}
#[test] fn z_changes_the_log_of_another_test() {
    let cells = log().ancestors().find(|path| path.ends_with("cells")).unwrap().to_owned();
    change(&cells);
}
fn change(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { change(&path); }
        if path.ends_with("log.jsonl") && path.to_str().unwrap().contains("b_is_changed") {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace("\"heap.live\":", "\"heap.live\":9")).unwrap();
        }
    }
}
#[test] fn b_is_changed_by_another_test() {}
"#;

struct Hostile {
    repository: TestRepository,
    home: tempfile::TempDir,
}

impl Hostile {
    fn new() -> Self {
        let mut repository = TestRepository::new();
        let manifest = "[package]\nname = 'hostile'\nversion = '0.1.0'\nedition = '2021'\n";
        repository.write("Cargo.toml", manifest);
        repository
            .write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"hostile\"\nversion = \"0.1.0\"\n");
        repository.write("src/lib.rs", "");
        repository.write("tests/hostile.rs", TESTS);
        for tag in ["old", "new"] {
            repository.commit("hostile");
            repository.git(["tag", tag]);
        }
        let hostile = Self { repository, home: home() };
        std::fs::create_dir(hostile.notes("")).expect("a new folder");
        std::fs::write(hostile.notes("victim"), "untouched").expect("a new file");
        hostile
    }

    /// A file in a folder that no part of the tool knows.
    fn notes(&self, name: &str) -> PathBuf {
        self.repository.beside("notes").join(name)
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = command(self.repository.root(), self.home.path(), arguments);
        command.env("NOTES", self.notes(""));
        command
    }

    fn run(&self, arguments: &[&str]) -> Printed {
        Printed::of(self.command(arguments))
    }

    /// The `outcome.json` of each test in the first revision, with its folder.
    fn outcomes(&self) -> BTreeMap<String, (PathBuf, serde_json::Value)> {
        let cells = self.repository.root().join("target/memprof/latest/cells").canonicalize().expect("a run");
        let files = walkdir::WalkDir::new(cells).into_iter().filter_map(Result::ok);
        let files = files.filter(|entry| entry.file_name() == "outcome.json" && entry.file_type().is_file());
        files
            .filter(|entry| entry.path().to_string_lossy().contains("/0-old/"))
            .map(|entry| {
                let text = std::fs::read(entry.path()).expect("an outcome can be read");
                let outcome: serde_json::Value = serde_json::from_slice(&text).expect("an outcome is JSON");
                let name = outcome["cell"]["test"]["name"].as_str().expect("a test").to_owned();
                (name, (entry.path().parent().expect("a folder").to_owned(), outcome))
            })
            .collect()
    }

    fn assert_no_daemon(&self) {
        let ids = std::fs::read_to_string(self.notes("daemons")).expect("the test noted them");
        assert_eq!(ids.split_whitespace().count(), 3, "{ids}");
        let is_gone = |id: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        within_a_minute("all daemons end", || ids.split_whitespace().all(is_gone));
        std::fs::remove_file(self.notes("daemons")).expect("it was there");
    }
}

fn within_a_minute(what: &str, is_done: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_mins(1), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(process: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &process.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn what_a_hostile_test_does_is_its_own_outcome_and_the_others_are_measured() {
    let hostile = Hostile::new();
    // In their order, because they change each other's files.
    let base = ["--refs", "old,new", "--offline", "--run-all", "--repeat", "1", "--jobs", "1"];
    let printed = hostile.run(&[&base[..], &["-k", "not waits"]].concat());
    assert_eq!(printed.code, 3, "{}", printed.everything());
    let outcomes = hostile.outcomes();
    for (test, outcome, message) in [
        ("a_passes", "ok", ""),
        ("b_is_changed_by_another_test", "refused", "another test changed the files of this run"),
        ("damages_the_index", "ok", ""),
        (
            "fills_its_log",
            "refused",
            "its log cannot be read: this file is larger than 512 MiB, the most that is read",
        ),
        ("leaves_a_path_without_end", "ok", ""),
        ("leaves_fifos", "ok", ""),
        ("removes_the_plan", "ok", ""),
        ("removes_the_store", "refused", "the test deleted its executable"),
        ("sets_sparse_patterns", "ok", ""),
        ("stops_its_supervisor", "ok", ""),
        ("deletes_current_folder", "refused", "the test deleted its current folder"),
        ("deletes_executable", "refused", "the test deleted its executable"),
        ("deletes_run_folder", "refused", "the test deleted or moved its run's folder"),
        ("forges_a_beginning", "refused", "its log goes on after its end"),
        ("forges_a_checkpoint_in_a_child", "refused", "its log goes on after its end"),
        ("kills_its_supervisor", "killed", ""),
        ("leaves_daemons", "ok", ""),
        ("plants_links", "ok", ""),
        ("replaces_log_by_fifo", "refused", "the test replaced its log by a FIFO"),
        ("replaces_log_by_folder", "refused", "the test replaced its log by a folder"),
        ("replaces_stderr_by_symlink", "refused", "the test replaced its stderr by a symlink"),
        ("z_changes_the_log_of_another_test", "ok", ""),
    ] {
        let (_, found) =
            outcomes.get(test).unwrap_or_else(|| panic!("no outcome of {test}\n{}", printed.everything()));
        let found = (&found["outcome"], found["message"].as_str().unwrap_or_default());
        assert_eq!(found, (&outcome.into(), message), "{test}");
    }
    let marks = |test: &str| outcomes[test].1["marks"][0].as_str().unwrap_or_default().to_owned();
    let left = "the test left 3 processes running (sleep, sleep, sleep); they were killed";
    assert_eq!(marks("leaves_daemons"), left);
    assert!(
        printed.stdout.replace('\n', " ").contains("the test left 3 processes"),
        "{}",
        printed.everything()
    );
    assert_eq!(marks("kills_its_supervisor"), "the process that supervised the test was killed");
    hostile.assert_no_daemon();
    assert_eq!(std::fs::read_to_string(hostile.notes("victim")).expect("it is there"), "untouched");
    assert_eq!(hostile.run(&["report"]).stdout, printed.stdout, "a report reads what is left");

    // Files that change later are noticed, and `--resume` measures that run again.
    let log = outcomes["a_passes"].0.join("log.jsonl");
    let before = std::fs::read(&log).expect("a log");
    let mut flipped = before.clone();
    let middle = memchr::memmem::find(&before, b"\"heap.live\":").expect("a figure") + 12;
    flipped[middle] ^= 1;
    std::fs::write(&log, flipped).expect("it can be written");
    let refused = hostile.run(&["report"]);
    assert_eq!(refused.code, 2, "{}", refused.everything());
    let told = refused.stderr.contains("log.jsonl was changed after the run: it has another content");
    assert!(told && refused.stderr.contains("--resume"), "{}", refused.everything());
    let resumed = hostile.run(&["--resume"]);
    assert_eq!(resumed.code, 3, "{}", resumed.everything());
    assert!(resumed.stderr.contains("was changed after the run"), "{}", resumed.everything());
    assert_eq!(hostile.outcomes()["a_passes"].1["outcome"], "ok");
    assert_eq!(hostile.run(&["report"]).code, 3);

    killed_tool_leaves_no_process(&hostile, &[&base[..], &["-k", "waits"]].concat());
}

/// The tool itself is killed, and cannot clean up.
fn killed_tool_leaves_no_process(hostile: &Hostile, arguments: &[&str]) {
    let mut command = hostile.command(arguments);
    // A later run would remove the folder for temporary files.
    command.env("TMPDIR", hostile.notes("")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut tool = command.spawn().expect("it starts");
    within_a_minute("the test waits", || hostile.notes("waiting").exists());
    tool.kill().expect("it runs");
    tool.wait().expect("it was killed");
    hostile.assert_no_daemon();
}

/// Builds a package with these files, and sends signals to the tool once the file `NOTE` has process ids.
/// Returns what the tool printed, after these processes have ended.
fn signalled(files: &[(&str, &str)], is_first_enough: bool) -> String {
    let mut repository = TestRepository::new();
    let manifest = "[package]\nname = 'slow'\nversion = '0.1.0'\nedition = '2021'\n";
    repository.write("Cargo.toml", manifest);
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"slow\"\nversion = \"0.1.0\"\n");
    repository.write("src/lib.rs", "");
    for (path, text) in files {
        repository.write(path, text);
    }
    for tag in ["old", "new"] {
        repository.commit("slow");
        repository.git(["tag", tag]);
    }
    let (home, note) = (home(), repository.beside("note"));
    let mut tool = command(repository.root(), home.path(), &["--refs", "old,new", "--offline"])
        .env("NOTE", &note)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let ids = || std::fs::read_to_string(&note).unwrap_or_default();
    within_a_minute("the processes run", || ids().split(' ').count() == 2);
    signal(tool.id(), "-TERM");
    if !is_first_enough {
        // Signals in quick succession count as one.
        std::thread::sleep(Duration::from_millis(300));
        assert!(tool.try_wait().expect("a child").is_none(), "the first signal waits for the program");
        signal(tool.id(), "-TERM");
    }
    let output = tool.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("--resume"), "{stderr}");
    let is_gone = |id: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    within_a_minute("the processes end", || ids().split(' ').all(is_gone));
    stderr
}

#[test]
fn the_first_signal_ends_a_build_and_the_second_one_ends_everything() {
    let wait = "{\n    let sleep = std::process::Command::new(\"sleep\").arg(\"313\").spawn().unwrap().id();\n    \
                let ids = format!(\"{} {sleep}\", std::process::id());\n    \
                std::fs::write(std::env::var(\"NOTE\").unwrap(), ids).unwrap();\n    \
                std::thread::sleep(std::time::Duration::from_secs(313));\n}\n";
    let stderr = signalled(&[("build.rs", &format!("fn main() {wait}"))], true);
    assert!(!stderr.contains("interrupted twice"), "{stderr}");
    // A test that waits before `main`, when it is asked for its tests.
    let before_main = format!(
        "#[used]\n#[link_section = \".init_array\"]\nstatic BEFORE: extern \"C\" fn() = wait;\n\
         extern \"C\" fn wait() {wait}"
    );
    let stderr = signalled(&[("tests/slow.rs", &before_main)], false);
    assert!(stderr.contains("interrupted twice"), "{stderr}");
}
