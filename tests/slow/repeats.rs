//! How often cells run with `repeat: auto`, in which order, and what is left to do after a run that was cut off.

use std::path::{Path, PathBuf};

use crate::support::TestRepository;
use serde_json::Value;

const MANIFEST: &str =
    "[package]\nname = \"cells\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"cells\"\nversion = \"0.1.0\"\n";

/// Two revisions of one test that stays, one that grows, and one that fails in the second.
fn repository() -> TestRepository {
    let mut repository = TestRepository::new();
    let source = |grown: usize, fails: bool| {
        format!(
            "#[test]\nfn stays() {{ assert_eq!(vec![1_u8; 1 << 20].len(), 1 << 20) }}\n\
             #[test]\nfn grows() {{ assert_eq!(vec![1_u8; {grown}].len(), {grown}) }}\n\
             #[test]\nfn fails() {{ assert!(!{fails}) }}\n"
        )
    };
    repository.write("Cargo.toml", MANIFEST);
    repository.write("Cargo.lock", LOCK);
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", source(1 << 20, false));
    repository.commit("old");
    repository.git(["tag", "old"]);
    repository.write("src/lib.rs", source(4 << 20, true));
    repository.commit("new");
    repository.git(["tag", "new"]);
    repository
}

fn report(repository: &TestRepository, arguments: &[&str]) -> (i32, Value) {
    let mut command = repository.memprof();
    command.args(["memprof", "--format", "json"]).args(arguments);
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}\n{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().expect("it exits"), value)
}

/// How often each test ran, by ref: `grows old 4`.
fn runs(report: &Value) -> Vec<String> {
    let mut runs: Vec<String> = Vec::new();
    for cell in report["cells"].as_array().unwrap() {
        let name = format!("{} {}", cell["title"].as_str().unwrap(), cell["ref"].as_str().unwrap());
        let count = report["cells"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|other| other["title"] == cell["title"] && other["ref"] == cell["ref"]);
        runs.push(format!("{name} {}", count.count()));
    }
    runs.dedup();
    runs
}

/// The outcomes of a test in the order in which they were written: revision and repeat.
fn order(folder: &Path, test: &str) -> Vec<(usize, u32)> {
    let mut outcomes: Vec<(std::time::SystemTime, PathBuf)> = walkdir::WalkDir::new(folder.join("cells"))
        .into_iter()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name() == "outcome.json")
        .map(|entry| (entry.metadata().unwrap().modified().unwrap(), entry.into_path()))
        .collect();
    outcomes.sort();
    let read = |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let records = outcomes.into_iter().map(|(_, path)| read(path));
    let number = |value: &Value| value.as_u64().unwrap();
    records
        .filter(|record| record["cell"]["title"] == test)
        .map(|record| {
            (
                usize::try_from(number(&record["revision"])).unwrap(),
                u32::try_from(number(&record["repeat"])).unwrap(),
            )
        })
        .collect()
}

#[test]
fn cells_run_as_often_as_their_verdicts_need_interleaved_and_go_on_after_a_cut() {
    let repository = repository();
    // Resident memory would be noise here, of which other tests speak.
    let flags = ["--refs", "old,new", "--threshold", "cpu.*=off", "--offline"];
    let (code, first) = report(&repository, &flags);
    let mut counted = runs(&first);
    counted.sort();
    // Now and then the harness's own 144 bytes fall on the other side of a checkpoint; then what stays is looked at twice.
    let looks = if counted.iter().any(|count| count == "stays new 2") { 2 } else { 1 };
    let stays = ["new", "old"].map(|revision| format!("stays {revision} {looks}"));
    let rest = ["fails new 1", "fails old 1", "grows new 4", "grows old 4"].map(str::to_owned);
    let expected = [&rest[..], &stays].concat();
    assert_eq!(counted, expected);
    assert_eq!(code, 1, "a regression wins over a test that failed");
    assert_eq!((&first["verdict"]["regressed"], &first["verdict"]["inconclusive"]), (&1.into(), &0.into()));
    let folder = repository.path("target/memprof/latest").canonicalize().unwrap();
    let interleaved = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3), (0, 3)];
    assert_eq!(order(&folder, "grows"), interleaved);

    // As if it had been killed in the third round: the candidate has two runs, the baseline three.
    let cells = folder.join("cells");
    for entry in walkdir::WalkDir::new(&cells) {
        let entry = entry.unwrap();
        let path = entry.path().to_string_lossy().into_owned();
        let is_late = path.ends_with("/3") || (path.ends_with("/2") && path.contains("1-new"));
        if is_late && path.contains("grows") {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    let kept = order(&folder, "grows").len();
    assert_eq!(kept, 5);
    let (code, resumed) = report(&repository, &["--resume"]);
    let mut counted = runs(&resumed);
    counted.sort();
    assert_eq!((counted, code), (expected, 1));
    let new = order(&folder, "grows").split_off(kept);
    assert_eq!(new, [(1, 2), (1, 3), (0, 3)], "only what was missing ran");
    assert_eq!(resumed["verdict"], first["verdict"]);
}

#[test]
fn a_failed_test_of_the_baseline_against_itself_shows_beside_a_broken_limit() {
    let repository = repository();
    let code = |expression: &str| {
        let mut command = repository.memprof();
        command.args([
            "memprof",
            "--aa",
            "--refs",
            "new,old",
            "--offline",
            "--repeat",
            "2",
            "-k",
            expression,
        ]);
        let output = command.args(["--limit", "heap.peak=1KiB"]).output().expect("the program starts");
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), texts.concat())
    };
    let (broken, text) = code("grows");
    assert_eq!(broken, Some(0), "{text}");
    let (failed, text) = code("grows or fails");
    assert_eq!(failed, Some(3), "{text}");
}

#[test]
fn the_baseline_against_itself_shows_the_noise_and_keeps_it() {
    let repository = repository();
    let mut command = repository.memprof();
    command.args([
        "memprof",
        "--aa",
        "--refs",
        "old,new",
        "--offline",
        "-k",
        "stays",
        "--repeat",
        "2",
        "--noise",
        "noise.json",
    ]);
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("stays · old → old (2) · 2 runs each"), "{text}");
    assert!(text.contains("against itself\n heap.peak "), "{text}");
    let record: Value = serde_json::from_str(&repository.read("noise.json")).unwrap();
    let done = |figure: &&Value| figure["checkpoint"] == "done" && figure["metric"] == "heap.peak";
    let figure = record["figures"].as_array().unwrap().iter().find(done).expect("a figure");
    assert_eq!(figure["runs"], 4);

    // As if it had been interrupted before its last run.
    let folder = repository.path("target/memprof/latest").canonicalize().unwrap();
    let last =
        walkdir::WalkDir::new(folder.join("cells")).into_iter().map(|entry| entry.unwrap().into_path());
    let last = last.filter(|path| path.ends_with("outcome.json")).max().expect("a run");
    std::fs::remove_dir_all(last.parent().unwrap()).unwrap();
    std::fs::remove_file(repository.path("noise.json")).unwrap();
    let mut command = repository.memprof();
    command.args(["memprof", "--resume"]);
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("against itself\n heap.peak "), "{text}");
    let again: Value = serde_json::from_str(&repository.read("noise.json")).unwrap();
    assert_eq!(again["figures"].as_array().unwrap().iter().find(done), Some(figure));
    let flags = [
        "--refs",
        "old,new",
        "-k",
        "grows",
        "--threshold",
        "cpu.*=off",
        "--offline",
        "--noise",
        "noise.json",
    ];
    assert_eq!(report(&repository, &flags).0, 1);
}

#[test]
fn each_run_finds_the_checkout_as_the_first_one_did() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("Cargo.lock", LOCK);
    repository.write(".gitignore", "/target\n");
    repository.write("committed.txt", "committed");
    repository.write(
        "src/lib.rs",
        r#"
#[test]
fn leaves_a_mess() {
    for file in ["committed.txt", "laid.txt"] {
        assert!(["committed", "laid over"].contains(&&*std::fs::read_to_string(file).unwrap()));
        std::fs::write(file, "different").unwrap();
    }
    assert!(!std::path::Path::new("left.txt").exists());
    std::fs::write("left.txt", "").unwrap();
    std::fs::remove_file("Cargo.lock").unwrap();
}
"#,
    );
    repository.commit("main");
    let laid = repository.beside("laid.txt");
    std::fs::write(&laid, "laid over").unwrap();
    let overlay = format!("{}=laid.txt", laid.display());
    let flags =
        ["--refs", "one=main,two=main", "--overlay", &overlay, "--repeat", "3", "--threshold", "*=off"];
    for round in ["built", "from the store"] {
        let (code, report) = report(&repository, &flags);
        let outcomes: Vec<&Value> =
            report["cells"].as_array().unwrap().iter().map(|cell| &cell["outcome"]).collect();
        assert_eq!((code, outcomes.len()), (0, 6), "{round}: {outcomes:?}");
        assert!(outcomes.iter().all(|outcome| **outcome == "ok"), "{round}: {outcomes:?}");
    }
}

#[test]
fn each_run_of_an_external_overlay_finds_the_files_that_it_was_built_with() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("Cargo.lock", LOCK);
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", "");
    repository.commit("main");
    let (test, data) = (repository.beside("reads.rs"), repository.beside("data.txt"));
    std::fs::write(
        &test,
        r##"
#[test]
fn reads_and_leaves_a_mess() {
    assert_eq!(std::fs::read_to_string("data.txt").unwrap(), include_str!("../data.txt"));
    assert!(!std::path::Path::new("tests/left.rs").exists());
    std::fs::write("data.txt", "9").unwrap();
    std::fs::write("tests/left.rs", "#[test] fn left() {}").unwrap();
}
"##,
    )
    .unwrap();
    let overlay = [format!("{}=tests/reads.rs", test.display()), format!("{}=data.txt", data.display())];
    let overlay = ["--overlay-mode", "external", "--overlay", &overlay[0], "--overlay", &overlay[1]];
    let flags = ["--refs", "one=main,two=main", "--repeat", "2", "--threshold", "*=off", "--offline"];
    // The last one's build is the first one's, from the store.
    for text in ["1", "2", "1"] {
        std::fs::write(&data, text).unwrap();
        let (code, report) = report(&repository, &[&flags[..], &overlay].concat());
        let cells = report["cells"].as_array().unwrap();
        let outcomes: Vec<&Value> = cells.iter().map(|cell| &cell["outcome"]).collect();
        assert_eq!((code, outcomes.len()), (0, 4), "{text}: {outcomes:?}");
        assert!(outcomes.iter().all(|outcome| **outcome == "ok"), "{text}: {outcomes:?}");
    }
}
