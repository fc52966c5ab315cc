//! `prove`: what each part of a diff costs. The costs of the hunks are known.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::lockfiles::{EARLY, Registry};
use crate::support::{Printed, TestRepository, home_at, succeed, tool};
use serde_json::Value;

const LIB: &str = "\
//! A shop.

pub mod config;

/// Fills shelves.
pub fn shelves() -> Vec<Vec<u8>> {
    let mut all = Vec::with_capacity(100);
    for _ in 0..100 {
        all.push(vec![0; config::SHELF]);
    }
    all
}

/// Opens tills.
pub fn tills() -> Vec<u8> {
    vec![1; config::TILLS]
}

/// Writes a list.
pub fn list() -> Vec<u8> {
    vec![2; 1000]
}

/// The name.
pub fn name() -> &'static str {
    \"shop\"
}
";

const CONFIG: &str = "\
//! Settings.

/// Bytes of a shelf.
pub const SHELF: usize = 100;

/// Bytes of a till.
pub const TILLS: usize = 100;
";

const TEST: &str = "\
#[test]
fn a_day() {
    let all = (shop::shelves(), shop::tills(), shop::list());
    assert!(all.1.len() >= 100);
}

#[test]
fn a_night() {}
";

/// Six hunks: a constant that costs 190,000 bytes, one that the test needs and that costs 50,000, a function
/// with a caller that cost 80,000, a name, and a text.
fn shop() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[lib]\ndoctest = false\n",
    );
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"shop\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", LIB);
    repository.write("src/config.rs", CONFIG);
    repository.write("tests/memory.rs", TEST);
    repository.commit("a shop");
    let lib = LIB.replace("    vec![2; 1000]\n", "    longer(81_000)\n").replace("\"shop\"", "\"store\"");
    let lib = lib.replace(
        "/// Opens tills.",
        "/// Makes room.\nfn longer(size: usize) -> Vec<u8> {\n    vec![2; size]\n}\n\n/// Opens tills.",
    );
    repository.write("src/lib.rs", lib);
    let config = CONFIG.replace("SHELF: usize = 100", "SHELF: usize = 2000");
    repository.write("src/config.rs", config.replace("TILLS: usize = 100", "TILLS: usize = 50_100"));
    repository.write("tests/memory.rs", TEST.replace(">= 100", ">= 50_000"));
    repository.write("README.md", "A shop.\n");
    repository.commit("More of everything");
    repository
}

fn memprof(repository: &TestRepository, arguments: &[&str]) -> Command {
    let mut command = tool();
    let home = home_at(repository.beside("cache"));
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home).args(arguments);
    command
}

fn command(repository: &TestRepository, arguments: &[&str]) -> Command {
    memprof(repository, &[&["prove"], arguments].concat())
}

fn json(printed: &Printed) -> Value {
    serde_json::from_str(&printed.stdout).unwrap_or_else(|_| panic!("JSON: {}", printed.everything()))
}

fn figure(of: &Value) -> i64 {
    of["difference"].as_i64().expect("a figure")
}

/// What the parts of a proof are, each with its figure and whether it was proven.
fn parts(report: &Value) -> Vec<(String, i64, bool)> {
    let parts = report["parts"].as_array().expect("parts").iter();
    let what = |part: &Value| part["hunks"][0]["what"].as_str().unwrap_or_default().to_owned();
    parts.map(|part| (what(part), figure(part), part["proven"] == true)).collect()
}

#[test]
fn each_part_of_a_diff_has_its_cost_and_the_costs_add_up_to_the_byte() {
    let repository = shop();
    let printed = Printed::of(command(&repository, &["HEAD~1..HEAD", "-k", "a_day", "--format", "json"]));
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let report = json(&printed);
    assert_eq!((&report["schema"], &report["version"]), (&"cargo-memprof-proof".into(), &1.into()));
    let expected = [
        ("SHELF: 100 → 2000", 190_000, true),
        ("list", 80_000, true),
        // The test asks for it.
        ("TILLS: 100 → 50_100", 50_000, false),
    ];
    let expected = expected.map(|(what, figure, proven)| (what.to_owned(), figure, proven));
    assert_eq!(parts(&report), expected, "{report:#}");
    let reason = report["parts"][2]["reason"].as_str().expect("a reason");
    assert!(reason.contains("failed (exit code 101)"), "{reason}");
    assert_eq!(report["parts"][0]["shows_in"], "shop::shelves");
    assert_eq!((figure(&report), figure(&report["rest"])), (320_000, 0));
    assert_eq!((&report["together"], &report["open"]), (&0.into(), &Value::Array(Vec::new())));
    assert!(report["checks"].as_u64().is_some_and(|checks| checks > 6), "{report:#}");
    // Both commits of a proven part ran often enough.
    assert_eq!((&report["varies"], &report["without_all"]["proven"]), (&false.into(), &true.into()));

    // What the compiler said of the hunks is known now, and so are the builds.
    let again = Printed::of(command(&repository, &["HEAD~1...HEAD", "-k", "a_day", "--format", "json"]));
    let same = json(&again);
    assert_eq!(
        (parts(&same), &same["checks"], &same["effort"]["built"]),
        (parts(&report), &0.into(), &0.into())
    );
    assert_eq!(same["baseline"]["name"], "HEAD~1...HEAD");
    // The same answer without a run, as text and in other formats.
    let again = Printed::of(command(&repository, &["--resume"]));
    assert!(!again.stderr.contains("Measured [3]"), "{}", again.everything());
    let said = "+186 KiB  src/config.rs:4";
    assert!(
        again.stdout.contains(said) && again.stdout.contains("proven: without it -186 KiB"),
        "{}",
        again.everything()
    );
    for (format, text) in [
        ("markdown", "| `src/config.rs:4` | `SHELF: 100 → 2000` | proven: without it -186 KiB"),
        ("csv", "part,190000,bytes,true,src/config.rs,4,4,SHELF: 100 → 2000,proven:"),
        ("junit", "proven: without it -186 KiB"),
        ("sarif", "\"proven\": true"),
        ("html", "<b>proven: without it -186 KiB"),
    ] {
        let shown = Printed::of(memprof(&repository, &["report", "latest", "--format", format]));
        assert_eq!(shown.code, 0, "{format}: {}", shown.everything());
        assert!(shown.stdout.contains(text), "{format}: {}", shown.everything());
    }
    let refused = Printed::of(memprof(&repository, &["report", "latest", "--format", "perfetto"]));
    assert!(
        refused.code == 2 && refused.stderr.contains("prove has no perfetto report"),
        "{}",
        refused.everything()
    );
    // No branch of the user points to the variants.
    assert_eq!(repository.git(["for-each-ref", "--format=%(refname:short)", "refs/heads"]).trim(), "main");

    in_an_archive(&repository, &report);
    proven_after_a_comparison(&repository);
}

/// A variant is a commit like any other: it can be packed, run in shards, and beside others.
fn in_an_archive(repository: &TestRepository, report: &Value) {
    let [without, with] =
        ["without", "with"].map(|side| report["parts"][0][side].as_str().expect("a commit"));
    let archive = repository.beside("pair.memprof");
    let archive = archive.to_str().expect("UTF-8");
    let refs = format!("{without},{with}");
    let packed =
        Printed::of(memprof(repository, &["build", "--refs", &refs, "-k", "a_day", "--archive", archive]));
    assert_eq!(packed.code, 0, "{}", packed.everything());
    let run = ["run", "--archive", archive, "--shard", "1/1", "--jobs", "2", "--format", "json"];
    let ran = Printed::of(memprof(repository, &run));
    let rows = json(&ran)["rows"].as_array().expect("rows").clone();
    let peak = rows.iter().filter(|row| row["metric"] == "heap.peak" && row["checkpoint"] == "done");
    let change = peak.flat_map(|row| row["delta"].as_object().expect("differences").values().cloned()).next();
    assert_eq!(change, Some(190_000.into()), "{}", ran.everything());
}

fn proven_after_a_comparison(repository: &TestRepository) {
    let run = ["HEAD~1", "HEAD", "--why", "proven", "--format", "json"];
    let ran = Printed::of(memprof(repository, &run));
    assert_eq!(ran.code, 1, "{}", ran.everything());
    assert!(!ran.stderr.contains("left out"), "both have the other test, too: {}", ran.everything());
    let report = json(&ran);
    let expected = [("SHELF: 100 → 2000", true), ("list", true), ("TILLS: 100 → 50_100", false)];
    let found: Vec<_> = parts(&report["proof"]).into_iter().map(|(what, _, proven)| (what, proven)).collect();
    assert_eq!(found, expected.map(|(what, proven)| (what.to_owned(), proven)), "{:#}", report["proof"]);
    assert_eq!(report["proof"]["checkpoint"], "done");
    let causes = report["causes"]["entries"].as_array().expect("causes");
    assert!(causes.iter().any(|cause| cause["proven"] == true), "{causes:#?}");
    for (format, text) in [
        ("table", " proven: heap.peak: +312 KiB at 'done' of shop::memory::a_day"),
        ("markdown", "**proven: heap.peak: +312 KiB at 'done'"),
        ("sarif", "proven: without it -186 KiB"),
        ("junit", "proven"),
        ("html", "<h2>Proven</h2>"),
        ("gitlab", "proven: without it -186 KiB"),
        ("csv=causes", "proven"),
    ] {
        let shown = Printed::of(memprof(repository, &["report", "latest", "--format", format]));
        assert!(shown.stdout.contains(text), "{format}: {}", shown.everything());
        assert!(!shown.stdout.contains("memprof prove"), "{format}: {}", shown.everything());
    }
}

#[test]
fn a_bisect_goes_on_with_the_parts_of_the_commit_that_it_found() {
    let mut repository = shop();
    repository.write("README.md", "The shop.\n");
    repository.commit("A text");
    let searched =
        memprof(&repository, &["bisect", "HEAD~2..HEAD", "-k", "a_day", "--prove", "--format", "json"]);
    let printed = Printed::of(searched);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let report = json(&printed);
    let found = repository.git(["rev-parse", "HEAD~1"]);
    assert_eq!(report["steps"][0]["commit"], found.trim());
    assert_eq!(report["proof"]["candidate"]["commit"], found.trim());
    let parts = parts(&report["proof"]);
    assert!(parts.contains(&("SHELF: 100 → 2000".to_owned(), 190_000, true)), "{parts:?}");
    let shown = Printed::of(memprof(&repository, &["report", "latest"]));
    assert!(shown.stdout.contains("proven: without it -186 KiB"), "{}", shown.everything());
    // As after an interrupt before the proof.
    let id = report["id"].as_str().unwrap();
    std::fs::remove_dir_all(repository.path("target/memprof").join(id).join("proof")).unwrap();
    let resumed = Printed::of(memprof(&repository, &["bisect", "--resume"]));
    assert!(resumed.stdout.contains("proven: without it -186 KiB"), "{}", resumed.everything());
}

#[test]
fn a_diff_without_a_difference_is_an_answer_and_a_wrong_test_an_early_error() {
    let mut repository = shop();
    repository.write("README.md", "The shop.\n");
    repository.commit("A text");
    let same = Printed::of(command(&repository, &["HEAD~1..HEAD", "-k", "a_day"]));
    assert_eq!(same.code, 5, "{}", same.everything());
    assert!(same.stdout.contains("HEAD~1 and HEAD do not differ by more than"), "{}", same.everything());
    assert!(same.stdout.contains("2 builds, 0 checks"), "{}", same.everything());
    let missing = Printed::of(command(&repository, &["HEAD~2..HEAD", "-k", "no_such_test"]));
    assert_eq!(missing.code, 2, "{}", missing.everything());
    assert!(!missing.stderr.contains("Checking"), "{}", missing.everything());
}

/// A test that needs twice the memory in every other run of the candidate.
fn clock() -> TestRepository {
    let mut repository = TestRepository::new();
    let count = repository.root().join("target/count");
    std::fs::create_dir_all(count.parent().unwrap()).expect("it can be made");
    let count = count.to_str().expect("a path in UTF-8");
    let test = |size: &str, bytes: usize| {
        format!(
            "#[test]\nfn varies() {{\n    let size = {size};\n    std::mem::forget(vec![1_u8; size]);\n}}\n\n\
             pub fn odd() -> usize {{\n    let runs = std::fs::read({count:?}).unwrap_or_default().len() + 1;\n\
             \x20   std::fs::write({count:?}, vec![0; runs]).unwrap();\n    runs % 2\n}}\n\n\
             #[test]\nfn touched() {{\n    let all = vec![1_u8; {bytes}];\n    assert!(all.iter().all(|one| *one == 1));\n}}\n"
        )
    };
    repository.write("Cargo.toml", "[package]\nname = 'clock'\nversion = '0.1.0'\nedition = '2021'\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"clock\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", "//! One.\n\npub fn one() {}\n\npub fn two() {}\n");
    repository.write("tests/memory.rs", test("100_000", 1 << 20));
    repository.commit("A clock");
    repository.write("src/lib.rs", "//! Two.\n\npub fn one() {}\n\n/// Two.\npub fn two() {}\n");
    repository.write("tests/memory.rs", test("100_000 + odd() * 100_000", 32 << 20));
    repository.commit("Look at the clock");
    repository
}

#[test]
fn a_figure_that_varies_proves_nothing_and_resident_memory_is_proven_with_its_noise() {
    let repository = clock();
    let prove = |more: &[&str]| {
        Printed::of(command(&repository, &[&["HEAD~1..HEAD", "--format", "json"], more].concat()))
    };
    let varies = prove(&["-k", "varies"]);
    let report = json(&varies);
    assert!([4, 5].contains(&varies.code) && report["varies"] == true, "{}", varies.everything());
    assert!(parts(&report).is_empty(), "{report:#}");
    let resident = prove(&["-k", "touched", "--metric", "cpu.peak", "--threshold", "8MiB"]);
    assert_eq!(resident.code, 0, "{}", resident.everything());
    let report = json(&resident);
    let [(_, bytes, true)] = parts(&report)[..] else { panic!("one part: {report:#}") };
    assert!((30 << 20..33 << 20).contains(&bytes), "{report:#}");
    let interval = &report["parts"][0]["interval"];
    let within = |index: usize| interval[index].as_i64().expect("a bound");
    assert!((within(0)..=within(1)).contains(&bytes), "{report:#}");
    assert_eq!(report["parts"][0]["hunks"][0]["path"], "tests/memory.rs");
}

/// Locks both dependencies at a version.
fn lock(repository: &TestRepository, version: &str) {
    let cargo = |arguments: &[&str]| succeed(repository.command("cargo").args(arguments).arg("--offline"));
    let _ = std::fs::remove_file(repository.path("Cargo.lock"));
    cargo(&["generate-lockfile"]);
    for name in ["hoard", "plain"] {
        cargo(&["update", "--package", name, "--precise", version]);
    }
}

#[test]
fn each_update_of_the_lock_file_is_a_part_and_no_other_version_is_chosen() {
    let mut repository = TestRepository::new();
    let registry = Registry::of(&repository);
    let kept = |bytes: usize| format!("pub fn kept() -> Vec<u8> {{ vec![1; {bytes}] }}\n");
    for (version, bytes) in [("1.0.0", 1000), ("1.1.0", 200_000), ("1.2.0", 900_000)] {
        registry.publish("hoard", version, EARLY, &kept(bytes), false);
        registry.publish("plain", version, EARLY, &kept(1000), false);
    }
    let manifest = |version: &str| {
        format!(
            "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\nhoard = \"{version}\"\n\
             plain = \"{version}\"\n"
        )
    };
    repository.write("Cargo.toml", manifest("1.0.0"));
    repository.write("src/lib.rs", "");
    repository.write(
        "tests/keeps.rs",
        "#[test]\nfn keeps() { std::mem::forget((hoard::kept(), plain::kept())) }\n",
    );
    repository.write(".gitignore", "/target\n");
    lock(&repository, "1.0.0");
    repository.commit("a shop");
    repository.write("Cargo.toml", manifest("1.1.0"));
    lock(&repository, "1.1.0");
    repository.commit("Update both");
    let printed = Printed::of(command(&repository, &["HEAD~1..HEAD", "-k", "keeps", "--format", "json"]));
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let report = json(&printed);
    let [(_, 199_000, true)] = parts(&report)[..] else { panic!("one part: {report:#}") };
    let whats: Vec<&Value> =
        report["parts"][0]["hunks"].as_array().expect("hunks").iter().map(|hunk| &hunk["what"]).collect();
    assert!(whats.contains(&&"hoard 1.0.0 → 1.1.0".into()), "{whats:?}");
    assert_eq!((whats.len(), figure(&report["rest"])), (2, 0), "the update and the line of the manifest");
    let without = report["parts"][0]["without"].as_str().expect("a commit");
    let lock = repository.git(["show", &format!("{without}:Cargo.lock")]);
    let versions: Vec<&str> = lock.lines().filter(|line| line.starts_with("version = \"1.")).collect();
    assert_eq!(versions, ["version = \"1.0.0\"", "version = \"1.1.0\""], "hoard and plain");
}

#[test]
fn an_interrupt_between_the_builds_keeps_them_and_resume_goes_on_with_the_same_proof() {
    let repository = shop();
    let mut begun = command(&repository, &["HEAD~1..HEAD", "-k", "a_day", "--format", "json"]);
    let mut child = begun.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("Measured [2]") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("text") > 0, "it ended early");
    }
    // Now the compiler checks, or the first variant is built.
    let interrupted = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
    let runs = || std::fs::read_dir(repository.path("target/memprof")).expect("runs").count();
    let before = runs();
    let resumed = Printed::of(command(&repository, &["--resume", "--format", "json"]));
    assert_eq!(resumed.code, 0, "{}", resumed.everything());
    assert_eq!(runs(), before, "the same folder");
    assert_eq!(parts(&json(&resumed)).len(), 3, "{}", resumed.everything());
}

#[test]
fn files_that_no_checkout_has_and_submodules_may_be_new() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"shop\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    let lib = "pub const SHELF: usize = 100;\n\npub fn name() -> &'static str {\n    \"shop\"\n}\n";
    repository.write("src/lib.rs", lib);
    let test = "#[test]\nfn keeps() {\n    std::mem::forget(vec![1_u8; shop::SHELF]);\n}\n";
    repository.write("tests/memory.rs", test);
    repository.commit("a shop");
    repository.write("src/lib.rs", lib.replace("100", "90_100").replace("\"shop\"", "\"store\""));
    repository.write("data/a.txt", "large\n");
    repository.write(".gitmodules", "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = /nowhere/lib\n");
    repository.git(["add", "--all"]);
    let entry = format!("160000,{},vendor/lib", "1".repeat(40));
    repository.git(["update-index", "--add", "--cacheinfo", &entry]);
    repository.git(["commit", "--quiet", "--message", "More"]);
    let arguments = ["HEAD~1..HEAD", "-k", "keeps", "--sparse-exclude", "data/"];
    let printed = Printed::of(command(&repository, &[&arguments[..], &["--format", "json"]].concat()));
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let report = json(&printed);
    assert_eq!(parts(&report), [("SHELF: 100 → 90_100".to_owned(), 90_000, true)], "{report:#}");
}
