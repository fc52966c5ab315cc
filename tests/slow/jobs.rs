//! `--jobs`: tests beside each other have the figures that they have alone, and everything else goes on as before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::support::csv::{Value, command, memprof, values};
use crate::support::{Printed, TestRepository, home};

const MANIFEST: &str = "[package]\nname = \"jobs\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"jobs\"\nversion = \"0.1.0\"\n";

/// The tests. They meet through files in a folder, and note in a diary when they begin and end.
const SOURCE: &str = r#"
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn place(name: &str) -> PathBuf {
    PathBuf::from(std::env::var("JOBS_PLACE").unwrap()).join(name)
}

struct Noted(&'static str);

impl Noted {
    fn note(&self, what: &str) {
        let mut diary = std::fs::OpenOptions::new().append(true).create(true).open(place("diary")).unwrap();
        diary.write_all(format!("{what} {} REVISION\n", self.0).as_bytes()).unwrap();
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.note("end");
    }
}

fn noted(name: &'static str) -> Noted {
    let noted = Noted(name);
    noted.note("begin");
    noted
}

fn write(name: &str) {
    std::fs::write(place(name), "").unwrap();
}

/// Waits for a file. Takes it away if it comes.
fn came(name: &str, seconds: u64) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        if place(name).exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

macro_rules! heap {
    ($($name:ident $bytes:expr),*) => { $(
        #[test]
        fn $name() {
            let _noted = noted(stringify!($name));
            assert_eq!(vec![1_u8; SCALE * $bytes].len(), SCALE * $bytes);
        }
    )* };
}

heap! { heap_a 10_001, heap_b 20_003, heap_c 30_007, heap_d 40_009 }

#[test]
fn meets_a() {
    let _noted = noted("meets_a");
    write("a-REVISION");
    assert!(came("b-REVISION", 60), "b does not run beside a");
}

#[test]
fn meets_b() {
    let _noted = noted("meets_b");
    write("b-REVISION");
    assert!(came("a-REVISION", 60), "a does not run beside b");
}

#[test]
fn timed() {
    let _noted = noted("timed");
    std::thread::sleep(Duration::from_millis(100));
}

/// Stays until the other one has seen it.
#[test]
fn takes() {
    let _noted = noted("takes");
    write("taken");
    came("seen", 3);
    let _ = std::fs::remove_file(place("taken"));
}

/// Fails beside the other one.
#[test]
fn wants() {
    let _noted = noted("wants");
    if came("taken", 2) {
        write("seen");
        panic!("it is taken");
    }
}

/// Changes a file of the checkout, and stays until the other one has read it.
#[test]
fn rewrites() {
    let _noted = noted("rewrites");
    std::fs::write("data.txt", [7; 50_000]).unwrap();
    write("rewritten");
    came("read", 3);
    let _ = std::fs::remove_file(place("rewritten"));
}

/// Has the file on its heap.
#[test]
fn wrong_beside() {
    let _noted = noted("wrong_beside");
    let is_beside = came("rewritten", 2);
    let read = std::fs::read("data.txt").unwrap();
    if is_beside {
        write("read");
    }
    assert!(!read.is_empty());
}

/// Allocates in a thread, and more beside the other one.
fn in_a_thread(name: &'static str, other: &str) {
    let _noted = noted(name);
    write(&format!("{name}-REVISION"));
    let bytes = if came(&format!("{other}-REVISION"), 1) { 500_000 } else { 50_000 };
    std::thread::spawn(move || assert_eq!(vec![1_u8; bytes].len(), bytes)).join().unwrap();
    let _ = std::fs::remove_file(place(&format!("{name}-REVISION")));
}

#[test]
fn threads_a() {
    in_a_thread("threads_a", "threads_b");
}

#[test]
fn threads_b() {
    in_a_thread("threads_b", "threads_a");
}

#[test]
fn waits_a() {
    let _noted = noted("waits_a");
    assert!(came("go", 120));
}

#[test]
fn waits_b() {
    let _noted = noted("waits_b");
    assert!(came("go", 120));
}
"#;

struct Subject {
    repository: TestRepository,
    home: tempfile::TempDir,
    place: tempfile::TempDir,
}

impl Subject {
    /// Two revisions. The second one allocates twice as much.
    fn new() -> Self {
        let mut repository = TestRepository::new();
        repository.write("Cargo.toml", MANIFEST);
        repository.write("Cargo.lock", LOCK);
        repository.write(".gitignore", "/target\n");
        repository.write("data.txt", "as committed");
        for (revision, scale) in [("old", 1), ("new", 2)] {
            let source = SOURCE.replace("REVISION", revision).replace("SCALE", &scale.to_string());
            repository.write("tests/beside.rs", source);
            repository.write("src/lib.rs", "");
            repository.commit(revision);
            repository.git(["tag", revision]);
        }
        let place = tempfile::tempdir().expect("a folder");
        Self { repository, home: home(), place }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = command(self.repository.root(), self.home.path(), arguments);
        command.env("JOBS_PLACE", self.place.path());
        command
    }

    fn compared(&self, arguments: &[&str]) -> Printed {
        let common = ["--refs", "old,new", "--offline", "--repeat", "1", "--format", "csv"];
        let printed = Printed::of(self.command(&[&common[..], arguments].concat()));
        assert_eq!(printed.code, 0, "{}", printed.everything());
        printed
    }

    fn diary(&self) -> Vec<Entry> {
        let text = std::fs::read_to_string(self.place.path().join("diary")).expect("the tests ran");
        text.lines().map(Entry::of).collect()
    }

    /// Removes everything that the tests wrote.
    fn clear(&self) {
        for entry in std::fs::read_dir(self.place.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    is_begin: bool,
    test: String,
    revision: String,
}

impl Entry {
    fn of(line: &str) -> Self {
        let [what, test, revision] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        Self { is_begin: what == "begin", test: test.to_owned(), revision: revision.to_owned() }
    }
}

/// The sets of tests that were under way at the same time, with their revision.
fn under_way(diary: &[Entry]) -> Vec<BTreeSet<(String, String)>> {
    let mut now = BTreeSet::new();
    let mut all = Vec::new();
    for Entry { is_begin, test, revision } in diary {
        let run = (revision.clone(), test.clone());
        if *is_begin {
            assert!(now.insert(run), "{test} runs beside itself: {diary:?}");
            all.push(now.clone());
        } else {
            assert!(now.remove(&run), "{test} ended before it began: {diary:?}");
        }
    }
    assert!(now.is_empty(), "{now:?}");
    all
}

/// The figures of each test, ref and checkpoint that count every allocation.
fn heap(values: &[Value]) -> BTreeMap<[String; 4], u64> {
    let heap = values.iter().filter(|value| value.metric.starts_with("heap."));
    let key = |value: &Value| {
        [value.test.clone(), value.r#ref.clone(), value.checkpoint.clone(), value.metric.clone()]
    };
    heap.map(|value| (key(value), value.value.expect("a figure"))).collect()
}

fn has(values: &[Value], test: &str, metric: &str) -> bool {
    let mut of_test = values.iter().filter(|value| value.test.ends_with(test) && value.metric == metric);
    of_test.any(|value| value.value.is_some())
}

#[test]
fn figures_are_equal_to_the_byte_beside_others_and_revisions_never_meet() {
    let subject = Subject::new();
    let tests = ["-k", "heap or timed", "--metrics", "heap.*,cpu.peak"];
    let alone = subject.compared(&[&tests[..], &["--jobs", "1"]].concat());
    for set in under_way(&subject.diary()) {
        assert_eq!(set.len(), 1, "one test at a time");
    }
    subject.clear();
    let tests = ["-k", "heap or timed or meets", "--metrics", "heap.*,cpu.peak"];
    let beside =
        subject.compared(&[&tests[..], &["--jobs", "2", "--threshold", "time=90%,test=timed"]].concat());
    assert!(!beside.stderr.contains("warning"), "{}", beside.stderr);
    let (alone, beside) = (values(&alone), values(&beside));
    let mut figures = heap(&beside);
    figures.retain(|[test, ..], _| !test.contains("meets"));
    assert_eq!(figures, heap(&alone));
    assert!(figures.len() > 20);

    let sets = under_way(&subject.diary());
    assert!(sets.iter().any(|set| set.len() == 2), "the two that meet");
    for set in &sets {
        let revisions: BTreeSet<&String> = set.iter().map(|(revision, _)| revision).collect();
        assert_eq!(revisions.len(), 1, "{set:?}");
        assert!(set.len() <= 2, "{set:?}");
        let is_timed = set.iter().any(|(_, test)| test == "timed");
        assert!(!is_timed || set.len() == 1, "its time is judged: {set:?}");
    }
}

#[test]
fn by_default_tests_run_beside_others_and_those_with_threads_alone() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let subject = Subject::new();
    let printed = subject.compared(&["-k", "threads or meets", "--metrics", "heap.peak"]);
    assert!(!printed.stderr.contains("warning"), "{}", printed.stderr);
    let mut peaks = heap(&values(&printed));
    peaks.retain(|[test, _, checkpoint, metric], _| {
        test.contains("threads") && checkpoint == "done" && metric == "heap.peak"
    });
    assert_eq!(peaks.len(), 4);
    assert!(peaks.values().all(|peak| (50_000..100_000).contains(peak)), "{peaks:?}");
    let diary = subject.diary();
    assert!(
        under_way(&diary)
            .iter()
            .any(|set| set.iter().all(|(_, test)| test.contains("meets")) && set.len() == 2)
    );
    let of_new = diary.iter().filter(|entry| entry.is_begin && entry.revision == "new");
    assert_eq!(of_new.filter(|entry| entry.test.contains("threads")).count(), 2, "alone at once");

    let common = ["-k", "threads or meets", "--metrics", "heap.peak", "--offline", "--repeat", "1"];
    for sides in [["old", "--save-baseline", "b"], ["new", "--baseline-run", "b"]] {
        subject.clear();
        let printed = Printed::of(subject.command(&[&sides[..], &common[..]].concat()));
        assert!([0, 4].contains(&printed.code), "one run a side is inconclusive: {}", printed.everything());
    }
    let diary = subject.diary();
    let begun = diary.iter().filter(|entry| entry.is_begin && entry.test.contains("threads"));
    assert_eq!(begun.count(), 2, "the saved logs tell of the threads");

    subject.clear();
    let printed = subject.compared(&["-k", "threads", "--metrics", "heap.peak", "--jobs", "2"]);
    assert!(heap(&values(&printed)).values().any(|peak| *peak > 500_000), "both beside each other");
    subject.clear();
    subject.compared(&["-k", "threads", "--nocapture"]);
    assert!(under_way(&subject.diary()).iter().all(|set| set.len() == 1), "one after the other is shown");
}

#[test]
fn a_metric_that_depends_on_neighbours_is_absent_or_measured_alone() {
    let subject = Subject::new();
    let all = ["-k", "heap", "--jobs", "2", "--metrics", "*"];
    let printed = subject.compared(&all);
    assert!(has(&values(&printed), "heap_a", "cpu.peak"), "{}", printed.stdout);
    assert!(!has(&values(&printed), "heap_a", "time"), "{}", printed.stdout);
    let json = subject.command(&["report", "--format", "json"]).output().unwrap();
    let reason = "tests ran beside each other (--jobs 2)";
    assert!(String::from_utf8_lossy(&json.stdout).contains(reason));
    subject.clear();
    let timed = subject.compared(&["-k", "heap", "--jobs", "2", "--metrics", "heap.peak,time"]);
    assert!(has(&values(&timed), "heap_a", "time"), "{}", timed.stdout);
    for set in under_way(&subject.diary()) {
        assert_eq!(set.len(), 1, "each runs alone");
    }
    let warning = "warning: tests run one at a time: time is shown or judged";
    assert!(timed.stderr.contains(warning), "{}", timed.stderr);
}

#[test]
fn what_goes_wrong_beside_others_is_repeated_alone() {
    let subject = Subject::new();
    let printed = subject.compared(&["-k", "takes or wants", "--jobs", "2"]);
    let warning = "wants at old failed (exit code 101) beside other tests, and passed alone";
    assert!(printed.stderr.contains(warning), "{}", printed.stderr);
    let failed = values(&printed).into_iter().find(|value| value.outcome != "ok");
    assert!(failed.is_none(), "{failed:?}");
    let wants = subject.diary().into_iter().filter(|entry| entry.is_begin && entry.test == "wants");
    let of: Vec<String> = wants.map(|entry| entry.revision).collect();
    assert_eq!(of, ["old", "old", "new"], "the second revision's was alone at once");

    subject.clear();
    let alone = subject.compared(&["-k", "rewrites or wrong_beside", "--jobs", "1"]);
    subject.clear();
    let beside = subject.compared(&["-k", "rewrites or wrong_beside", "--jobs", "2"]);
    let warning = "warning: one of 2 tests changed files of the checkout beside the others";
    assert!(beside.stderr.contains(warning), "{}", beside.stderr);
    let peaks = |printed: &Printed| {
        let mut peaks = heap(&values(printed));
        // They wait in a loop that allocates, and that at every step.
        peaks.retain(|[.., metric], _| metric == "heap.peak");
        peaks
    };
    assert_eq!(peaks(&beside), peaks(&alone));
    assert!(peaks(&alone).values().all(|peak| *peak < 50_000));
}

#[test]
fn an_interrupt_ends_all_that_run_and_resume_does_the_rest() {
    let subject = Subject::new();
    let arguments =
        ["--refs", "old,new", "--offline", "--repeat", "1", "--jobs", "2", "-k", "heap_a or heap_b or waits"];
    let child =
        subject.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let waiting = || {
        let text = std::fs::read_to_string(subject.place.path().join("diary")).unwrap_or_default();
        ["waits_a", "waits_b"].iter().all(|test| text.contains(&format!("begin {test} old")))
    };
    while !waiting() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pids = pids_of(&subject.repository.root().join("target/memprof/latest/cells"));
    let interrupted = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted after 2 of 8 runs; finished runs are kept"), "{stderr}");
    assert!(stderr.contains("and 1 other were running"), "{stderr}");
    assert_eq!(pids.len(), 2);
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}/stat")).exists(), "process {pid} is still there");
    }

    let other = Printed::of(subject.command(&["--resume", "--jobs", "3"]));
    assert!(other.stderr.contains("as it was planned, without --jobs"), "{}", other.everything());
    subject.clear();
    std::fs::write(subject.place.path().join("go"), "").unwrap();
    let resumed = memprof_at(&subject, &["--resume", "--format", "csv"]);
    assert_eq!(heap(&values(&resumed)).keys().map(|[test, ..]| test).collect::<BTreeSet<_>>().len(), 4);
    let again = subject.diary().into_iter().filter(|entry| entry.is_begin && entry.revision == "old");
    let again: BTreeSet<String> = again.map(|entry| entry.test).collect();
    assert_eq!(again, ["waits_a", "waits_b"].map(str::to_owned).into(), "finished runs are not repeated");
}

fn memprof_at(subject: &Subject, arguments: &[&str]) -> Printed {
    let printed = Printed::of(subject.command(arguments));
    assert!(printed.code == 0 || printed.code == 1, "{}", printed.everything());
    printed
}

/// The processes that wrote the logs below a folder and did not end them.
fn pids_of(cells: &Path) -> Vec<u64> {
    let logs = walkdir::WalkDir::new(cells).into_iter().filter_map(Result::ok);
    let logs: Vec<PathBuf> =
        logs.filter(|entry| entry.file_name() == "log.jsonl").map(walkdir::DirEntry::into_path).collect();
    let texts = logs.iter().map(|log| std::fs::read_to_string(log).unwrap());
    let open = texts.filter(|text| !text.contains("\"event\":\"end\""));
    let first = |text: String| serde_json::from_str::<serde_json::Value>(text.lines().next()?).ok();
    open.filter_map(first).filter_map(|line| line["pid"].as_u64()).collect()
}

#[test]
fn an_archive_runs_beside_each_other_too() {
    let subject = Subject::new();
    let archive = subject.place.path().join("tests.tar.zst");
    let archive = archive.to_str().unwrap();
    let built = memprof(
        subject.repository.root(),
        subject.home.path(),
        &["build", "--archive", archive, "--refs", "old,new", "--offline", "--repeat", "1", "-k", "meets"],
    );
    assert_eq!(built.code, 0, "{}", built.everything());
    let printed =
        Printed::of(subject.command(&["run", "--archive", archive, "--jobs", "2", "--format", "csv"]));
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert!(heap(&values(&printed)).len() > 8, "{}", printed.stdout);
}

#[test]
fn no_more_tests_run_at_once_than_a_process_may_have_files_for() {
    let subject = Subject::new();
    let asked =
        subject.command(&["--refs", "old,new", "--offline", "--repeat", "1", "-k", "heap", "--jobs", "3"]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -n 711 && exec \"$@\"", "sh"])
        .arg(asked.get_program())
        .args(asked.get_args());
    limited.current_dir(asked.get_current_dir().expect("a folder"));
    for (name, value) in asked.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let printed = Printed::of(limited);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let warning = "warning: 1 test at once instead of 3: a process may have 711 files open here";
    assert!(printed.stderr.contains(warning), "{}", printed.everything());
    assert!(printed.stderr.contains("for all 3: ulimit -n 718"), "{}", printed.everything());
    assert!(under_way(&subject.diary()).iter().all(|tests| tests.len() == 1), "{:?}", subject.diary());
}
