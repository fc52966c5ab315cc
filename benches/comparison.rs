//! The cost of comparing two revisions, against the same work by hand: checkouts in one worktree,
//! the same builds, and the same test executables, run one test at a time.
//!
//! `cargo bench --bench comparison`. The crate is `regex-automata` from this very build, copied
//! from cargo's registry into a git repository with two commits. The second commit changes one
//! file. Its unit tests are built. Each way starts from nothing, in turn: by hand, the tool with the
//! shim of this toolchain already compiled for another repository, and the tool's very first use.
//! Then the tool runs again, against the bare executions of the tests.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
const FILTER: &str = "look and matches";

fn main() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let repository = scratch.path().join("regex-automata");
    make_repository(&repository);
    let (mut hand, mut first, mut tool) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bare, mut again) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let by_hand = scratch.path().join(format!("hand-{round}"));
        let (cold, runs) = time_by_hand(&repository, &by_hand);
        hand.push(cold);
        let home = scratch.path().join(format!("home-{round}"));
        first.push(time_tool(&repository, &home));
        let other = scratch.path().join(format!("other-{round}"));
        take_shim(&home, &other);
        tool.push(time_tool(&repository, &other));
        // The tool's second run and the bare executions in turn. They are short, so several times.
        for _ in 0..5 {
            bare.push(time(|| runs.iter().for_each(run_test)));
            again.push(time_tool(&repository, &other));
        }
        println!(
            "round {}: by hand {:.2?}, tool {:.2?}, its first use {:.2?}",
            round + 1,
            hand[round],
            tool[round],
            first[round]
        );
        for folder in [by_hand, home, other] {
            std::fs::remove_dir_all(folder).expect("a folder of this benchmark");
        }
    }
    let (hand, tool, first) = (median(&mut hand), median(&mut tool), median(&mut first));
    let (bare, again) = (median(&mut bare), median(&mut again));
    for (what, time) in [("cold", tool), ("first use", first)] {
        println!(
            "{what}: by hand {hand:.2?}  tool {time:.2?}  ratio {:.3}",
            time.as_secs_f64() / hand.as_secs_f64()
        );
    }
    let allowed = bare.mul_f64(1.1) + Duration::from_millis(300);
    println!("second: bare tests {bare:.2?}  tool {again:.2?}  (1.10 x bare + 0.3 s is {allowed:.2?})");
}

/// Gives a new cache folder the compiled shim of another one.
fn take_shim(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    std::fs::rename(from.join("shim"), to.join("shim")).expect("the shim was compiled");
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// A command without the variables that cargo sets for this benchmark.
fn clean(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO") && name != "CARGO_HOME") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn succeed(command: &mut Command) {
    let status = command.status().expect("the program starts");
    assert!(status.success(), "{command:?} failed");
}

fn git(folder: &Path, arguments: &[&str]) {
    let identity =
        ["-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "commit.gpgsign=false"];
    succeed(clean("git", folder).args(identity).args(arguments));
}

fn make_repository(repository: &Path) {
    let metadata = cargo_metadata::MetadataCommand::new().exec().expect("cargo metadata");
    let package = metadata.packages.iter().find(|package| package.name.as_str() == "regex-automata");
    let source =
        package.and_then(|package| package.manifest_path.parent()).expect("regex-automata is in the tree");
    for entry in walkdir::WalkDir::new(source) {
        let entry = entry.expect("the registry can be read");
        let target = repository.join(entry.path().strip_prefix(source).expect("below"));
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(target).expect("a folder");
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
    succeed(clean("cargo", repository).arg("generate-lockfile"));
    std::fs::write(repository.join(".gitignore"), "/target\n").expect("written");
    git(repository, &["init", "--quiet", "--initial-branch=main"]);
    git(repository, &["add", "--all", "--force", "."]);
    git(repository, &["commit", "--quiet", "--message=old"]);
    git(repository, &["tag", "old"]);
    let changed = repository.join("src/util/look.rs");
    let text = std::fs::read_to_string(&changed).expect("the file");
    std::fs::write(&changed, format!("{text}\n// one more line\n")).expect("written");
    git(repository, &["commit", "--quiet", "--all", "--message=new"]);
    git(repository, &["tag", "new"]);
}

/// A test of a copied executable.
struct Run {
    executable: PathBuf,
    folder: PathBuf,
    name: String,
}

fn run_test(run: &Run) {
    let arguments = ["--exact", &run.name, "--nocapture", "--test-threads=1"];
    succeed(clean(&run.executable, &run.folder).args(arguments));
}

fn time_by_hand(repository: &Path, folder: &Path) -> (Duration, Vec<Run>) {
    let worktree = folder.join("worktree");
    std::fs::create_dir_all(folder).expect("a folder");
    let mut runs = Vec::new();
    let start = Instant::now();
    git(repository, &["worktree", "add", "--quiet", "--detach", worktree.to_str().expect("text"), "old"]);
    for name in ["old", "new"] {
        git(&worktree, &["checkout", "--quiet", "--detach", name]);
        let built = clean("cargo", &worktree)
            .args(["test", "--no-run", "--lib", "--message-format=json", "--target-dir"])
            .arg(folder.join("target"))
            .stdout(Stdio::piped())
            .output()
            .expect("cargo starts");
        assert!(built.status.success(), "the build by hand failed");
        let executables =
            String::from_utf8_lossy(&built.stdout).lines().filter_map(executable).collect::<Vec<_>>();
        for (index, executable) in executables.iter().enumerate() {
            let copy = folder.join(format!("{name}-{index}"));
            std::fs::copy(executable, &copy).expect("a copy");
            let list = clean(&copy, &worktree)
                .args(["--list", "--format", "terse"])
                .stdout(Stdio::piped())
                .output()
                .expect("the tests are listed");
            let tests = String::from_utf8_lossy(&list.stdout).into_owned();
            let wanted = |name: &&str| name.contains("look") && name.contains("matches");
            let names = tests.lines().filter_map(|line| line.strip_suffix(": test")).filter(wanted);
            runs.extend(names.map(|name| Run {
                executable: copy.clone(),
                folder: worktree.clone(),
                name: name.to_owned(),
            }));
        }
    }
    runs.iter().for_each(run_test);
    (start.elapsed(), runs)
}

fn executable(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool() == Some(true);
    message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
}

fn time_tool(repository: &Path, home: &Path) -> Duration {
    time(|| {
        succeed(
            clean(env!("CARGO_BIN_EXE_cargo-memprof"), repository)
                .env("CARGO_MEMPROF_HOME", home)
                .args(["memprof", "--refs", "old,new", "-k", FILTER, "--lib", "--quiet"])
                // The same number of runs as by hand, without verdicts.
                .args(["--repeat", "1", "--threshold", "*=off"]),
        );
    })
}
