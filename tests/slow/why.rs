//! Call sites of changed tests, from the build to the report: what they say, what they cost the comparison if they fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Printed, TestRepository, home, tool};

/// A package with two revisions, `old` and `new`, and a home for builds.
pub(crate) struct Subject {
    repository: TestRepository,
    home: TempDir,
}

/// What a revision does with memory, and the line of each function.
const SOURCE: &str = "\
pub fn grow() -> Vec<u8> {
    vec![1; GROWS]
}
pub fn shrink() -> Vec<u8> {
    vec![1; SHRINKS]
}
pub fn grow_less() -> Vec<u8> {
    vec![1; GROWS / 2]
}
";

/// Whether this process records call stacks. The shim removes the variable; the kernel keeps it.
const RECORDS: &str = r#"
fn records() -> bool {
    let environment = std::fs::read("/proc/self/environ").unwrap();
    environment.windows(15).any(|name| name == b"MEMPROF_STACKS=")
}
"#;

impl Subject {
    fn new(manifest: &str, tests: &str) -> Self {
        let sources = [(1_000_000, 3_000_000), (5_000_000, 2_000_000)].map(|(grows, shrinks)| {
            SOURCE.replace("GROWS", &grows.to_string()).replace("SHRINKS", &shrinks.to_string())
        });
        Self::of_sources(manifest, tests, &sources)
    }

    pub(crate) fn of_sources(manifest: &str, tests: &str, sources: &[String; 2]) -> Self {
        let mut repository = TestRepository::new();
        let package = "[package]\nname = 'subject'\nversion = '0.1.0'\nedition = '2021'\n";
        repository.write("Cargo.toml", format!("{package}{manifest}"));
        repository
            .write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"subject\"\nversion = \"0.1.0\"\n");
        repository.write(".gitignore", "/target\n");
        repository.write("tests/memory.rs", format!("use subject::*;\n{tests}"));
        for (tag, source) in ["old", "new"].into_iter().zip(sources) {
            repository.write("src/lib.rs", source);
            repository.commit(tag);
            repository.git(["tag", tag]);
        }
        Self { repository, home: home() }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = tool();
        command.current_dir(self.repository.root()).env("CARGO_MEMPROF_HOME", self.home.path());
        // Other tests do without line tables, to build faster.
        command.env_remove("CARGO_PROFILE_DEV_DEBUG");
        command.arg("memprof").args(arguments);
        command
    }

    pub(crate) fn memprof(&self, arguments: &[&str]) -> Printed {
        Printed::of(self.command(arguments))
    }

    /// Compares `old` and `new`.
    pub(crate) fn compare(&self, arguments: &[&str]) -> Printed {
        self.memprof(&[&["--refs", "old,new", "--offline"], arguments].concat())
    }

    pub(crate) fn root(&self) -> &Path {
        self.repository.root()
    }

    pub(crate) fn latest(&self) -> PathBuf {
        self.root().join("target/memprof/latest")
    }

    /// The latest run's report.
    pub(crate) fn report(&self) -> Value {
        let text = std::fs::read_to_string(self.latest().join("comparison.json")).expect("a report");
        serde_json::from_str(&text).expect("a JSON report")
    }
}

const BOTH: &str = "\
#[test]
fn grows() {
    std::hint::black_box(grow());
}
#[test]
fn grows_less() {
    std::hint::black_box(grow_less());
}
#[test]
fn shrinks() {
    std::hint::black_box(shrink());
}
#[test]
fn stays() {
    std::hint::black_box(vec![1_u8; 1_000_000]);
}
";

/// The rows with call sites; `test` is the end of the test's title.
pub(crate) fn rows<'a>(report: &'a Value, test: &str) -> Vec<&'a Value> {
    let rows = report["why"]["rows"].as_array().expect("rows with call sites").iter();
    rows.filter(|row| row["test"].as_str().is_some_and(|title| title.ends_with(test))).collect()
}

/// Each row's groups add up to its sides, and these are the plain runs'.
pub(crate) fn assert_exact(report: &Value) {
    for row in report["why"]["rows"].as_array().expect("rows with call sites") {
        for side in ["baseline", "candidate"].into_iter().filter(|side| !row[side].is_null()) {
            assert_eq!(row[side]["agreement"], "equal", "{side} of {row:#}");
            for (figure, whole) in row[side]["figures"].as_object().expect("figures") {
                let groups = row["groups"].as_array().expect("groups").iter();
                let sum: i64 = groups.map(|group| group[side][figure].as_i64().expect("a figure")).sum();
                assert_eq!(Some(sum), whole.as_i64(), "{figure}, {side} of {row:#}");
            }
        }
    }
}

/// Code that ends blocks, derives a function, and passes sizes. Each `// OLD` line stands for the `// NEW`
/// one behind it.
const CAUSES: &str = "\
pub fn make(size: usize) -> Vec<u8> {
    vec![1; size]
}
pub struct Store {
    pub bytes: Vec<u8>,
}
impl Store {
    pub fn reset(&mut self) {
        self.bytes = Vec::new(); // OLD
        self.bytes.clear(); // NEW
    }
    pub fn tidy(&mut self) {
        self.bytes.truncate(1);
        self.bytes.shrink_to_fit(); // OLD
    }
}
#[derive(Clone)] // OLD
pub struct Text {
    pub bytes: Vec<u8>,
}
impl Clone for Text { // NEW
    fn clone(&self) -> Self { // NEW
        let mut bytes = Vec::with_capacity(self.bytes.len() * 3); // NEW
        bytes.extend_from_slice(&self.bytes); // NEW
        Self { bytes } // NEW
    } // NEW
} // NEW
pub fn caller() -> Vec<u8> {
    make(1_000_000) // OLD
    make(3_000_000) // NEW
}
";

const CAUSED: &str = r#"
#[test]
fn keeps() {
    let mut store = Store { bytes: make(2_000_000) };
    store.reset();
    memprof::checkpoint!("ended");
    std::hint::black_box(store.bytes);
}
#[test]
fn stays_large() {
    let mut store = Store { bytes: make(2_000_000) };
    store.tidy();
    memprof::checkpoint!("ended");
    std::hint::black_box(store.bytes);
}
#[test]
fn copies() {
    let text = Text { bytes: make(1_000_000) };
    std::hint::black_box(text.clone());
}
#[test]
fn asks_for_more() {
    std::hint::black_box(caller());
}
"#;

#[test]
fn words_for_causes_are_true() {
    let without = |which: &str| {
        let lines = CAUSES.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(which));
        lines.collect::<String>().replace(" // OLD", "").replace(" // NEW", "")
    };
    let subject = Subject::of_sources("", CAUSED, &[without("// NEW"), without("// OLD")]);
    let printed = subject.compare(&["--why=changed"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let report = subject.report();
    assert_exact(&report);
    let largest = |test: &str| {
        let row = rows(&report, test)
            .into_iter()
            .find(|row| test == "copies" || test == "asks_for_more" || row["metric"] == "heap.live");
        row.unwrap_or_else(|| panic!("{test} in {:#}", report["why"]["rows"]))["groups"][0].clone()
    };
    for (test, way, function) in
        [("keeps", "freed", "subject::Store::reset"), ("stays_large", "shrunk", "subject::Store::tidy")]
    {
        let group = largest(test);
        assert_eq!(
            (&group["name"], &group["class"]["kind"]),
            (&"subject::make".into(), &"ended_elsewhere".into())
        );
        let end = &group["class"]["ended"];
        assert_eq!(
            (&end["side"], &end["way"], &end["change"]),
            (&"baseline".into(), &way.into(), &"changed".into())
        );
        assert_eq!((&end["function"], &end["changed"]), (&function.into(), &function.into()), "{end}");
    }
    let copies = largest("copies");
    assert_eq!(copies["class"]["kind"], "changed", "{copies:#}");
    let more = largest("asks_for_more");
    assert_eq!(
        (&more["class"]["kind"], &more["has_other_sizes"]),
        (&"called_from_changed".into(), &true.into())
    );
    let text = printed.everything();
    for words in [
        "freed in subject::Store::reset at the baseline; reset is changed in new",
        "shrunk in subject::Store::tidy at the baseline; tidy is changed in new",
        "called from changed subject::caller, blocks of another size",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn changed_tests_are_explained_to_the_line() {
    let subject = Subject::new("", BOTH);
    let printed = subject.compare(&["--why=changed"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let report = subject.report();
    assert_exact(&report);
    for (test, function, place, bytes) in [
        ("grows", "grow", "src/lib.rs:2", 4_000_000),
        ("grows_less", "grow_less", "src/lib.rs:8", 2_000_000),
        ("shrinks", "shrink", "src/lib.rs:5", -1_000_000),
    ] {
        let row = rows(&report, test)[0];
        let group = &row["groups"][0];
        assert_eq!(row["metric"], "heap.peak", "{row:#}");
        assert_eq!(group["difference"], bytes, "{row:#}");
        assert_eq!(group["location"], place, "{row:#}");
        assert_eq!(group["name"], format!("subject::{function}"), "{row:#}");
        assert_eq!(group["class"]["kind"], "changed", "{row:#}");
        let is_shown = |line: &&str| line.contains("why:") && line.contains(place);
        assert_eq!(printed.stdout.lines().filter(is_shown).count(), 1, "{place}: {}", printed.everything());
    }
    assert!(rows(&report, "stays").is_empty(), "{report:#}");
    let folders = std::fs::read_dir(subject.latest().join("why/cells/0-old")).expect("runs with stacks");
    assert_eq!(folders.count(), 3, "the test that stays does not run again");

    renders_again(&subject);
    damaged_files_are_a_remark(&subject);
}

/// The report is written again from what the folder keeps, grouped in another way.
fn renders_again(subject: &Subject) {
    let report = |arguments: &[&str]| {
        let printed = subject.memprof(&[&["report"], arguments].concat());
        assert_eq!(printed.code, 1, "{}", printed.everything());
        printed
    };
    let by_line = subject.report();
    report(&["--why-by", "crate"]);
    let by_crate = subject.report();
    assert_exact(&by_crate);
    assert_eq!(by_crate["causes"], by_line["causes"], "a cause is a line, whatever is shown");
    assert_eq!(rows(&by_crate, "grows")[0]["groups"][0]["name"], "subject", "{by_crate:#}");
    assert!(report(&["--focus", "grow_less", "--format", "json"]).stdout.contains("out_of_focus"));
    assert!(!report(&["--why", "never"]).stdout.contains("why:"));
    let markdown = report(&["--format", "markdown"]).stdout;
    assert!(markdown.contains("src/lib.rs:2") && markdown.contains("changed in new"), "{markdown}");

    for (format, extension) in [("pprof", "pb.gz"), ("dhat", "json"), ("folded", "txt")] {
        let folder = subject.repository.beside(format);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(format!("mem.{extension}"));
        report(&["--format", format, "--output", path.to_str().expect("text")]);
        let entries = std::fs::read_dir(&folder).expect("the exports").map(|entry| entry.expect("a file"));
        let names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
        for side in ["old", "new"] {
            let name = format!("mem.grows.{side}.{extension}");
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        assert_eq!(names.len(), if format == "folded" { 12 } else { 6 }, "{names:?}");
    }
}

type Damage = fn(&Path);

/// What a damaged file takes away is the call sites, not the comparison.
fn damaged_files_are_a_remark(subject: &Subject) {
    std::fs::remove_file(subject.latest().join("changes.json")).expect("removed");
    let printed = subject.memprof(&["report"]);
    let told = "why: it is not known which sites the diff touches";
    assert!(printed.stdout.contains(told), "{}", printed.everything());
    let says_unchanged = |line: &str| line.contains("src/lib.rs:") && line.contains("unchanged");
    assert!(!printed.stdout.lines().any(says_unchanged), "{}", printed.everything());
    let cells = walkdir::WalkDir::new(subject.latest().join("why")).into_iter().filter_map(Result::ok);
    let files: Vec<_> = cells.map(walkdir::DirEntry::into_path).collect();
    // Emptied, cut off, missing; and another file.
    let damages: [(&str, Damage); 6] = [
        ("log.jsonl", |path| std::fs::write(path, "").expect("written")),
        ("log.jsonl", |path| std::fs::write(path, &std::fs::read(path).expect("read")[..99]).expect("cut")),
        ("log.jsonl", |path| std::fs::remove_file(path).expect("removed")),
        ("symbols.json", |path| std::fs::write(path, "{}").expect("written")),
        ("executables/", |path| std::fs::write(path, "{}").expect("written")),
        ("executables/", |path| std::fs::remove_file(path).expect("removed")),
    ];
    for (name, damage) in damages {
        let path =
            files.iter().find(|path| path.to_string_lossy().contains(name)).expect("a test was recorded");
        let whole = std::fs::read(path).expect("read");
        damage(path);
        let printed = subject.memprof(&["report"]);
        assert_eq!(printed.code, 1, "{}", printed.everything());
        assert!(printed.stdout.contains("why: the call stacks cannot be read"), "{}", printed.everything());
        assert!(printed.stdout.contains(name), "{}", printed.everything());
        std::fs::write(path, whole).expect("written");
    }
    std::fs::write(subject.latest().join("why/tests.json"), "{}").expect("written");
    let printed = subject.memprof(&["report"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    assert!(printed.stdout.contains("why: the call sites cannot be read"), "{}", printed.everything());
}

#[test]
fn tests_are_left_out_as_asked_and_the_report_says_so() {
    let subject = Subject::new("", BOTH);
    let printed = subject.compare(&["--why", "never"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    assert!(!printed.stdout.contains("why:") && !subject.latest().join("why").exists());
    let export = subject.repository.beside("mem.pb.gz");
    let path = export.to_str().expect("text");
    let told = subject.memprof(&["report", "--format", "pprof", "--output", path]);
    assert_eq!(told.code, 1, "the verdict stays: {}", told.everything());
    assert!(told.stderr.contains("no test ran with call stacks, so "), "{}", told.everything());
    let printed = subject.compare(&["--format", "csv"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    assert!(!subject.latest().join("why").exists(), "nobody reads call sites in CSV");

    let printed = subject.compare(&["--why=changed", "--why-tests", "1"]);
    let told = "why: 2 more tests without call sites: --why-tests 3";
    assert!(printed.stdout.contains(told), "{}", printed.everything());
    let report = subject.report();
    assert_eq!(report["why"]["left_out"], told.trim_start_matches("why: "));
    assert!(!rows(&report, "grows").is_empty() && rows(&report, "shrinks").is_empty(), "{report:#}");
    let markdown = subject.memprof(&["report", "--format", "markdown"]).stdout;
    assert!(markdown.contains("2 more tests without call sites"), "{markdown}");

    let printed = subject.compare(&["--why=changed", "--why-time", "0s"]);
    let told = "why: 3 more tests without call sites after 0 ms: --why-time 1m";
    assert!(printed.stdout.contains(told), "{}", printed.everything());
    // What was left out runs now, and nothing else does.
    let before = times(&subject.latest().join("cells"));
    let printed = subject.memprof(&["--resume", "--why=changed"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    assert_eq!(times(&subject.latest().join("cells")), before);
    let explained = times(&subject.latest().join("why/cells"));
    assert_eq!(explained.len(), 6, "{explained:?}");
    assert_exact(&subject.report());
    let again = subject.memprof(&["--resume", "--why=changed"]);
    assert_eq!(times(&subject.latest().join("why/cells")), explained, "{}", again.everything());

    whole_failure_is_a_warning(&subject);
}

/// The folder of call stacks cannot be made, so there are none; the comparison is complete.
fn whole_failure_is_a_warning(subject: &Subject) {
    std::fs::remove_dir_all(subject.latest().join("why")).expect("the folder is there");
    std::fs::write(subject.latest().join("why"), "").expect("written");
    let printed = subject.memprof(&["--resume", "--why=changed"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    assert!(printed.stderr.contains("no call sites: "), "{}", printed.everything());
    assert!(printed.stdout.contains("2 of 4 tests regressed and 1 improved"), "{}", printed.everything());
}

/// When each finished run ended.
fn times(cells: &Path) -> BTreeMap<PathBuf, std::time::SystemTime> {
    let files = walkdir::WalkDir::new(cells).into_iter().filter_map(Result::ok);
    let outcomes = files.filter(|entry| entry.file_name() == "outcome.json");
    let time = |entry: &walkdir::DirEntry| entry.metadata().expect("it is there").modified().expect("a time");
    outcomes.map(|entry| (entry.path().to_owned(), time(&entry))).collect()
}

#[test]
fn a_test_that_fails_with_headers_runs_with_a_table_or_the_report_says_why_not() {
    let tests = format!(
        "{RECORDS}{}",
        r#"
extern "C" { fn free(block: *mut u8); }
#[test]
fn frees_in_c() {
    let kept = std::hint::black_box(grow());
    let block = Box::into_raw(Box::new([7_u64; 4]));
    unsafe { free(block.cast()) };
    drop(kept);
}
#[test]
fn refuses() {
    let kept = std::hint::black_box(grow());
    assert!(!records(), "call stacks are in the way");
    drop(kept);
}
"#
    );
    let subject = Subject::new("", &tests);
    let printed = subject.compare(&["--why=changed"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let report = subject.report();
    assert_exact(&report);
    let row = rows(&report, "frees_in_c")[0];
    assert_eq!(row["groups"][0]["location"], "src/lib.rs:2", "{row:#}");
    let logs = walkdir::WalkDir::new(subject.latest().join("why")).into_iter().filter_map(Result::ok);
    for log in logs.filter(|entry| entry.file_name() == "log.jsonl") {
        let text = std::fs::read_to_string(log.path()).expect("a log");
        assert!(text.contains("\"blocks\":\"table\""), "{}", log.path().display());
    }
    let told = "why: with call stacks, the test at old did not pass: failed (exit code 101)";
    assert!(printed.stdout.contains(told), "{}", printed.everything());
    let remark = &report["why"]["remarks"][0];
    assert!(remark["test"].as_str().is_some_and(|test| test.ends_with("refuses")), "{report:#}");
    assert_eq!(remark["text"], told.trim_start_matches("why: "));
}

#[test]
fn an_interrupt_among_call_stacks_keeps_the_comparison_and_resume_goes_on() {
    let tests = format!(
        "{RECORDS}{}",
        r#"
#[test]
fn grows() { std::hint::black_box(grow()); }
#[test]
fn shrinks() {
    std::hint::black_box(shrink());
    while records() && std::path::Path::new(&std::env::var("SLOW").unwrap()).exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
"#
    );
    let subject = Subject::new("", &tests);
    let slow = subject.repository.beside("slow");
    std::fs::write(&slow, "").expect("written");
    let mut child = subject
        .command(&["--refs", "old,new", "--offline", "--why=changed"])
        .env("SLOW", &slow)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let cells = subject.latest().join("why/cells");
    let sleeping = || {
        let files = walkdir::WalkDir::new(&cells).into_iter().filter_map(Result::ok);
        let mut logs = files.filter(|entry| entry.file_name() == "log.jsonl");
        logs.any(|entry| {
            entry.path().to_string_lossy().contains("shrinks")
                && std::fs::read_to_string(entry.path()).unwrap_or_default().contains("\"start\"")
        })
    };
    while !sleeping() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended too early");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let interrupted = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted after all runs, while tests ran once more"), "{stderr}");
    assert!(stdout.contains("shrinks") && stdout.contains("src/lib.rs:2"), "{stdout}");
    let told = "why: 1 more test without call sites, because of an interrupt: --resume";
    assert!(stdout.contains(told), "{stdout}");

    std::fs::remove_file(&slow).expect("it is there");
    let before = times(&cells);
    assert_eq!(before.len(), 2, "{before:?}");
    let resumed = Printed::of({
        let mut command = subject.command(&["--resume", "--why=changed"]);
        command.env("SLOW", &slow);
        command
    });
    assert_eq!(resumed.code, 1, "{}", resumed.everything());
    let after = times(&cells);
    assert!(after.len() == 4 && before.iter().all(|(path, time)| after[path] == *time), "{after:?}");
    let report = subject.report();
    assert_exact(&report);
    assert_eq!(rows(&report, "shrinks")[0]["groups"][0]["location"], "src/lib.rs:5");
}

#[test]
fn release_builds_have_lines_and_stripped_ones_have_functions() {
    let subject = Subject::new("[profile.small]\ninherits = 'release'\nstrip = true\n", BOTH);
    let printed = subject.compare(&["--why=changed", "--release"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let report = subject.report();
    assert_exact(&report);
    assert_eq!(rows(&report, "grows")[0]["groups"][0]["location"], "src/lib.rs:2", "{report:#}");

    let printed = subject.compare(&["--why=changed", "--profile", "small"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let report = subject.report();
    assert_exact(&report);
    let told = "why: no lines, because the executable has no debug information: build it without `strip`";
    assert!(printed.stdout.contains(told), "{}", printed.everything());
    let group = &rows(&report, "grows")[0]["groups"][0];
    assert!(group["location"].is_null() && group["name"] == "subject::grow", "{report:#}");
}

#[test]
fn one_revision_has_its_peak_and_what_it_keeps_by_call_site() {
    let tests = "\
#[test]
fn keeps() {
    std::mem::forget(std::hint::black_box(grow()));
    std::hint::black_box(shrink());
}
";
    let subject = Subject::new("", tests);
    let run = |arguments: &[&str]| subject.memprof(&[&["new", "--offline"], arguments].concat());
    let plain = run(&[]);
    assert!(plain.code == 0 && !subject.latest().join("why").exists(), "{}", plain.everything());
    let printed = run(&["--why"]);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let report = subject.report();
    assert_exact(&report);
    let places = |metric: &str| -> Vec<&str> {
        let row = rows(&report, "keeps").into_iter().find(|row| row["metric"] == metric).expect("a row");
        let groups = row["groups"].as_array().expect("groups").iter();
        let has_some = groups.filter(|group| group["difference"] != 0);
        has_some
            .filter_map(|group| group["location"].as_str())
            .filter(|place| place.contains("lib"))
            .collect()
    };
    assert_eq!(places("heap.peak"), ["src/lib.rs:2", "src/lib.rs:5"]);
    assert_eq!(places("heap.live"), ["src/lib.rs:2"]);
    let named = "subject::memory keeps\nheap  new";
    assert!(
        printed.stdout.contains(named) && printed.stdout.contains("src/lib.rs:2"),
        "{}",
        printed.everything()
    );

    let tested = subject.memprof(&["test", "--offline", "--live", "--why"]);
    assert_eq!(tested.code, 0, "{}", tested.everything());
    assert!(
        tested.stdout.contains("1 passed") && tested.stdout.contains("src/lib.rs:2"),
        "{}",
        tested.everything()
    );
    let live = tested.stderr.matches("'start'").count().max(tested.stderr.matches(" start").count());
    assert!(live <= 1, "the second run is not followed: {}", tested.everything());
}

/// Resident memory has no call sites. C's memory has, if it was counted.
#[test]
fn resident_memory_that_grew_is_explained_by_what_it_is_made_of() {
    let tests = "
extern \"C\" {
    fn malloc(size: usize) -> *mut u8;
}
#[test]
fn keeps() {
    let size = grow().len() * 8;
    let block = unsafe { malloc(size) };
    unsafe { block.write_bytes(1, size) };
    assert!(!std::hint::black_box(block).is_null());
}
";
    let subject = Subject::new("", tests);
    // The heap's own growth is within its limit.
    let limits = ["--threshold", "heap.peak=1GiB", "--threshold", "heap.live=1GiB"];
    let printed =
        subject.compare(&[&["--why=changed", "--metrics", "malloc.peak,cpu.peak"], &limits[..]].concat());
    let report = subject.report();
    let metrics: Vec<&Value> = rows(&report, "keeps").iter().map(|row| &row["metric"]).collect();
    assert_eq!(metrics, ["malloc.peak"], "{report:#} {}", printed.everything());
    assert!(!printed.stdout.contains("recorded none for cpu"), "{}", printed.everything());
}
