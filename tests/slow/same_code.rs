//! Tests whose code is the same at both revisions do not run, and all others do.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::csv::memprof;
use crate::support::{Printed, TestRepository, home};

/// A workspace: `app` uses `granite`, which has a build script; `lonely` depends on nothing and reads a file.
struct Workspace {
    repository: TestRepository,
    home: TempDir,
}

const MANIFEST: &str =
    "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n";

impl Workspace {
    fn new() -> Self {
        let mut repository = TestRepository::new();
        repository.write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"app\", \"lonely\", \"granite\", \"outer\"]\nresolver = \"2\"\n",
        );
        let lock =
            |name: &str, uses: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n{uses}\n");
        let packages = [
            lock("app", "dependencies = [\n \"granite\",\n]\n"),
            lock("lonely", ""),
            lock("granite", ""),
            lock("outer", ""),
        ];
        repository.write("Cargo.lock", format!("version = 3\n\n{}", packages.concat()));
        for (name, uses) in
            [("app", "granite = { path = \"../granite\" }\n"), ("lonely", ""), ("granite", ""), ("outer", "")]
        {
            repository.write(&format!("{name}/Cargo.toml"), MANIFEST.replace("NAME", name) + uses);
        }
        repository.write("app/src/lib.rs", test("app", "granite::bytes()"));
        repository.write("lonely/src/lib.rs", test("lonely", "std::fs::read(\"data.txt\").unwrap()"));
        repository.write("lonely/data.txt", "1234567890");
        repository.write("granite/build.rs", "fn main() { println!(\"cargo:rerun-if-changed=size.txt\"); let out = std::env::var(\"OUT_DIR\").unwrap(); std::fs::copy(\"size.txt\", out + \"/size.txt\").unwrap(); }\n");
        repository.write("granite/size.txt", "123");
        let bytes = "pub fn bytes() -> Vec<u8> { std::fs::read(concat!(env!(\"OUT_DIR\"), \"/size.txt\")).unwrap() }\n";
        repository.write("granite/src/lib.rs", format!("{bytes}{}", test("granite", "crate::bytes()")));
        repository.write(
            "outer/src/lib.rs",
            test(
                "outer",
                "std::fs::read(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../common/data.txt\")).unwrap()",
            ),
        );
        repository.write("common/data.txt", "123456");
        repository.write("README.md", "A workspace.\n");
        repository.commit("old");
        Self { repository, home: home() }
    }

    fn root(&self) -> &Path {
        self.repository.root()
    }

    /// Changes a file, and compares the last commit with that.
    fn with(&self, file: &str, content: &str, arguments: &[&str]) -> (Printed, Value) {
        self.repository.write(file, content);
        let usual = ["--refs", "HEAD,.", "--offline", "--workspace", "--repeat", "1"];
        let printed = memprof(self.root(), self.home.path(), &[&usual, arguments].concat());
        let report = memprof(self.root(), self.home.path(), &["report", "--format", "json"]);
        (printed, serde_json::from_str(&report.stdout).expect("a JSON report"))
    }

    /// Takes changes back, the files that are new included.
    fn reset(&self) {
        self.repository.git(["reset", "-q", "--hard"]);
        self.repository.git(["clean", "-q", "-fd", "-e", "target"]);
    }
}

/// A library's test that keeps these bytes.
fn test(name: &str, bytes: &str) -> String {
    format!("#[test]\nfn of_{name}() {{ let kept = {bytes}; assert!(!kept.is_empty()); }}\n")
}

/// Returns the packages whose tests did not run, and the tests that ran.
fn left_out(report: &Value) -> (String, String) {
    let texts = |key: &str, of: &str| {
        let all = report[key].as_array().cloned().unwrap_or_default();
        let mut texts: Vec<String> =
            all.iter().map(|one| one[of].as_str().unwrap_or_default().to_owned()).collect();
        texts.dedup();
        texts.join(" ")
    };
    (texts("same_code", "package"), texts("cells", "title").replace("tests::", ""))
}

#[test]
fn only_tests_that_a_change_can_reach_run() {
    let workspace = Workspace::new();
    let expect = |file: &str, content: &str, same: &str, ran: &str| {
        let (printed, report) = workspace.with(file, content, &[]);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        let found = left_out(&report);
        assert_eq!((found.0.as_str(), found.1.as_str()), (same, ran), "{file}: {}", printed.everything());
        workspace.reset();
        printed
    };
    let all = "of_app of_granite of_lonely of_outer";
    // Documentation.
    let printed = expect("README.md", "Another text.\n", "app granite lonely outer", "");
    assert!(printed.stdout.contains("memory: 4 tests in 4 packages: same code"), "{}", printed.everything());
    assert!(
        printed.stderr.contains("Unchanged 4 tests in 4 packages: same code"),
        "{}",
        printed.everything()
    );
    let fresh = "(same sources as an earlier build)";
    assert!(printed.stderr.contains(fresh), "{}", printed.everything());
    let printed = expect("docs/guide.md", "A guide.\n", "app granite lonely outer", "");
    assert!(printed.stderr.contains(fresh), "{}", printed.everything());
    let (printed, _) = workspace.with("README.md", "One more text.\n", &["--run-all"]);
    assert!(!printed.stderr.contains(fresh), "{}", printed.everything());
    workspace.reset();
    // A data file of a package, of another package, and of none.
    let printed = expect("lonely/data.txt", "12345678901234567890", "app granite", "of_lonely of_outer");
    assert!(!printed.stderr.contains(fresh), "{}", printed.everything());
    assert!(printed.stdout.contains("2 tests in 2 packages: same code"), "{}", printed.everything());
    expect("common/data.txt", "1234567", "", all);
    expect(".cargo/config.toml", "[env]\nSIZE = \"8\"\n", "", all);
    // What a build script wrote, which no executable has.
    expect("granite/size.txt", "12345", "lonely", "of_app of_granite of_outer");
    // Code.
    let test_of_lonely = test("lonely", "std::fs::read(\"./data.txt\").unwrap()");
    expect("lonely/src/lib.rs", &test_of_lonely, "app granite outer", "of_lonely");
    // A file that only one side has.
    expect("lonely/tests/new.rs", "#[test]\nfn is_new() {}\n", "app granite outer", "of_lonely is_new");
}

#[test]
fn a_test_that_lists_folders_or_starts_a_program_outside_its_package_runs_for_each_source() {
    let mut workspace = Workspace::new();
    for way in [
        "std::fs::read_dir(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/..\")).unwrap().collect::<Vec<_>>()",
        "std::process::Command::new(\"ls\").arg(\"../common\").output().unwrap().stdout",
        "std::process::Command::new(\"../common/list.sh\").output().map_or(vec![1], |done| done.stdout)",
    ] {
        workspace.repository.write("outer/src/lib.rs", test("outer", way));
        workspace.repository.commit("another way");
        let (printed, report) = workspace.with(
            "lonely/src/lib.rs",
            &test("lonely", "std::fs::read(\"./data.txt\").unwrap()"),
            &[],
        );
        assert_eq!(printed.code, 0, "{}", printed.everything());
        assert_eq!(left_out(&report), ("app granite".into(), "of_lonely of_outer".into()), "{way}");
        workspace.reset();
    }
}

#[test]
fn a_package_whose_name_is_in_every_executable_is_read_only_by_tests_that_leave_their_folder() {
    let mut workspace = Workspace::new();
    let repository = &mut workspace.repository;
    let manifest = repository.read("Cargo.toml").replace("\"outer\"", "\"outer\", \"path\"");
    repository.write("Cargo.toml", manifest);
    let lock = repository.read("Cargo.lock") + "\n[[package]]\nname = \"path\"\nversion = \"0.1.0\"\n";
    repository.write("Cargo.lock", lock);
    repository.write("path/Cargo.toml", MANIFEST.replace("NAME", "path"));
    let lists = |text: &str| test("path", &format!("(std::fs::read_dir(\"src\").unwrap(), {text:?}).1"));
    repository.write("path/src/lib.rs", lists("a"));
    repository.commit("path");
    let (printed, report) = workspace.with("path/src/lib.rs", &lists("b"), &[]);
    let expected = ("app granite lonely".to_owned(), "of_outer of_path".to_owned());
    assert_eq!(left_out(&report), expected, "{}", printed.everything());
    workspace.reset();
    let (printed, report) = workspace.with("README.md", "Another text.\n", &[]);
    assert_eq!(left_out(&report).1, "", "{}", printed.everything());
}

#[test]
fn what_asks_for_figures_runs_all_tests() {
    let workspace = Workspace::new();
    let ran = |arguments: &[&str]| {
        let (printed, report) = workspace.with("README.md", "Another text.\n", arguments);
        // One run a side does not settle resident memory.
        assert!([0, 4].contains(&printed.code), "{}", printed.everything());
        left_out(&report)
    };
    let all = (String::new(), "of_app of_granite of_lonely of_outer".to_owned());
    assert_eq!(ran(&[]).1, "");
    for arguments in [
        &["--run-all"][..],
        &["--limit", "heap.peak=1GiB"],
        &["--leak", "heap.live=1GiB"],
        &["--save-baseline", "b"],
        &["--why", "always"],
    ] {
        assert_eq!(ran(arguments), all, "{arguments:?}");
    }
    // A saved baseline has all figures, and the hashes of its code.
    assert_eq!(ran(&["--baseline-run", "b"]).1, "");
    assert_eq!(ran(&["--baseline-run", "b", "--run-all"]).1, all.1);
    // A side with settings of its own.
    let matrix = workspace.repository.beside("memprof.yaml");
    std::fs::write(&matrix, "refs:\n  - HEAD\n  - ref: .\n    env: {SIZE: 8}\n").expect("written");
    workspace.repository.write("README.md", "Another text.\n");
    let arguments =
        ["--matrix", matrix.to_str().expect("UTF-8"), "--offline", "--workspace", "--repeat", "1"];
    let printed = memprof(workspace.root(), workspace.home.path(), &arguments);
    assert!(printed.stderr.contains("Ran 4 tests"), "{}", printed.everything());
    assert!(!printed.everything().contains("same code"), "{}", printed.everything());
}

#[test]
fn with_a_saved_baseline_only_tests_that_a_change_can_reach_run() {
    let workspace = Workspace::new();
    let run = |arguments: &[&str]| memprof(workspace.root(), workspace.home.path(), arguments);
    let saved = run(&["HEAD", "--save-baseline", "b", "--offline", "--workspace", "--repeat", "1"]);
    assert_eq!(saved.code, 0, "{}", saved.everything());
    workspace.repository.write("lonely/data.txt", "12345678901234567890");
    let compare = [".", "--baseline-run", "b", "--offline", "--workspace", "--repeat", "1"];
    let report = || {
        let printed = run(&["report", "--format", "json"]);
        serde_json::from_str::<Value>(&printed.stdout).expect("a JSON report")
    };
    let printed = run(&compare);
    assert!([0, 4].contains(&printed.code), "{}", printed.everything());
    let expected = ("app granite".to_owned(), "of_lonely of_outer".to_owned());
    let found = report();
    assert_eq!(left_out(&found), expected, "{}", printed.everything());
    let of_lonely = found["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .find(|cell| cell["title"] == "tests::of_lonely" || cell["title"] == "of_lonely");
    assert!(of_lonely.is_some_and(|cell| cell.to_string().contains("\"ok\"")), "{found}");
    let again = run(&["run", "--resume"]);
    assert!(!again.stderr.contains("Ran"), "{}", again.everything());
    assert_eq!(left_out(&report()), expected, "{}", again.everything());
    // A baseline of an earlier version lacks the hashes, so all tests run.
    let baseline = workspace.root().join("target/memprof/baselines/b");
    std::fs::remove_file(baseline.join("provenances.json")).expect("removed");
    let printed = run(&compare);
    assert!(
        printed.stderr.contains("all tests run, also those with the same code"),
        "{}",
        printed.everything()
    );
    assert_eq!(left_out(&report()).1, "of_app of_granite of_lonely of_outer");
}

#[test]
fn a_file_whose_name_is_in_pieces_in_optimised_code_may_be_read() {
    let mut workspace = Workspace::new();
    let reading = "#[test]\nfn of_lonely() { let path = std::path::PathBuf::from(\"README.md\"); \
        assert!(!std::fs::read(&path).unwrap().is_empty()); }\n";
    workspace.repository.write("lonely/src/lib.rs", reading);
    workspace.repository.write("lonely/README.md", "A package.\n");
    workspace.repository.commit("read");
    let (printed, report) = workspace.with("lonely/README.md", "Another text, longer.\n", &["--release"]);
    assert_eq!(left_out(&report).1, "of_lonely", "{}", printed.everything());
}

#[test]
fn a_file_may_be_read_through_a_symbolic_link() {
    let mut workspace = Workspace::new();
    let files =
        "std::fs::read_dir(\"notes\").unwrap().flat_map(|f| std::fs::read(f.unwrap().path()).unwrap())";
    workspace.repository.write("lonely/src/lib.rs", test("lonely", &format!("{files}.collect::<Vec<u8>>()")));
    workspace.repository.write("granite/notes/a.txt", "12");
    std::os::unix::fs::symlink("../granite/notes", workspace.root().join("lonely/notes")).unwrap();
    workspace.repository.commit("link");
    let (printed, report) = workspace.with("granite/notes/a.txt", "12345", &[]);
    // The names of `app` and `granite` have `granite`, and `outer` leaves its folder.
    assert_eq!(left_out(&report).1, "of_app of_granite of_lonely of_outer", "{}", printed.everything());
}

#[test]
fn a_memory_assertion_is_a_limit_and_is_checked() {
    let mut workspace = Workspace::new();
    let asserting = "#[test]\nfn of_lonely() { let (kept, used) = memprof::measure(\"keep\", || vec![1_u8; 64]); \
        assert!(used.heap.rise < 4096, \"{used}\"); drop(kept); }\n";
    workspace.repository.write("lonely/src/lib.rs", asserting);
    workspace.repository.commit("assert");
    let (printed, report) = workspace.with("README.md", "Another text.\n", &[]);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert_eq!(left_out(&report), ("app granite outer".to_owned(), "of_lonely".to_owned()));
}

#[test]
fn a_continued_run_and_shards_leave_out_the_same_tests() {
    let workspace = Workspace::new();
    let (first, report) = workspace.with("lonely/data.txt", "12345678901234567890", &[]);
    assert_eq!(first.code, 0, "{}", first.everything());
    let again = memprof(workspace.root(), workspace.home.path(), &["run", "--resume"]);
    assert!(again.code == 0 && !again.stderr.contains("Ran"), "{}", again.everything());
    let resumed = memprof(workspace.root(), workspace.home.path(), &["report", "--format", "json"]);
    let resumed: Value = serde_json::from_str(&resumed.stdout).expect("a JSON report");
    assert_eq!(left_out(&resumed), left_out(&report));
    // A baseline needs the others too.
    let saved =
        memprof(workspace.root(), workspace.home.path(), &["run", "--resume", "--save-baseline", "b"]);
    assert!(saved.code == 0 && !saved.stdout.contains("same code"), "{}", saved.everything());
    let mut runs = Vec::new();
    for shard in ["1/2", "2/2"] {
        let (printed, report) =
            workspace.with("lonely/data.txt", "12345678901234567890", &["--shard", shard]);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        runs.push(report["plan"]["id"].as_str().expect("an id").to_owned());
    }
    let merged = memprof(workspace.root(), workspace.home.path(), &["merge", &runs[0], &runs[1]]);
    assert_eq!(merged.code, 0, "{}", merged.everything());
    assert!(merged.stdout.contains("2 tests in 2 packages: same code"), "{}", merged.everything());
}

#[test]
fn a_package_at_the_root_has_no_files_of_the_others_even_if_these_are_not_built() {
    let mut repository = TestRepository::new();
    let root = MANIFEST.replace("NAME", "root") + "[workspace]\nmembers = [\"granite\"]\n";
    repository.write("Cargo.toml", root);
    repository.write("granite/Cargo.toml", MANIFEST.replace("NAME", "granite"));
    repository.write("granite/src/lib.rs", "pub const SIZE: usize = 8;\n");
    repository.write("src/lib.rs", test("root", "vec![1_u8; 8]"));
    repository.write("tests/steady.rs", test("steady", "vec![1_u8; 8]"));
    repository.write("tests/changes.rs", test("changes", "vec![1_u8; 8]"));
    repository.write("tests/reads.rs", test("reads", "std::fs::read(\"tests/changes.rs\").unwrap()"));
    repository.commit("old");
    let home = home();
    let run = || memprof(repository.root(), home.path(), &["--refs", "HEAD,.", "--offline", "--repeat", "1"]);
    repository.write("granite/src/lib.rs", "pub const SIZE: usize = 9;\n");
    let printed = run();
    assert!(printed.stderr.contains("Unchanged 4 tests in root: same code"), "{}", printed.everything());
    repository.write("tests/changes.rs", test("changes", "vec![1_u8; 99]"));
    let printed = run();
    assert!(printed.stderr.contains("Unchanged 2 tests in root: same code"), "{}", printed.everything());
    let reads = "Running 1 test in root: same code, but may read the changed tests/changes.rs";
    assert!(printed.stderr.contains(reads), "{}", printed.everything());
}

/// Numbers that look random, the same for each seed.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

/// Two versions of a crate that is vendored.
const PEBBLES: [(&str, &str); 2] = [("1.0.0", "a"), ("1.1.0", "b")];

/// Writes both versions of `pebble`, and the lock file with the first.
fn write_vendored(repository: &TestRepository) {
    for (bytes, (version, digit)) in [40, 56].into_iter().zip(PEBBLES) {
        let folder = format!("vendor/pebble-{version}");
        let manifest = MANIFEST.replace("NAME", "pebble").replace("0.1.0", version);
        repository.write(&format!("{folder}/Cargo.toml"), manifest);
        let code = format!("pub fn bytes() -> Vec<u8> {{ vec![1; {bytes}] }}\n");
        repository.write(&format!("{folder}/src/lib.rs"), code);
        let checksum = format!("{{\"files\":{{}},\"package\":\"{}\"}}\n", digit.repeat(64));
        repository.write(&format!("{folder}/.cargo-checksum.json"), checksum);
    }
    repository.write(".cargo/config.toml", VENDORED);
    repository.command("cargo").args(["generate-lockfile", "--offline"]).status().expect("cargo runs");
    lock_pebble(repository, 0);
}

const VENDORED: &str = "[source.crates-io]\nreplace-with = \"vendored\"\n\
    [source.vendored]\ndirectory = \"vendor\"\n";

/// Writes this version of `pebble` into the lock file.
fn lock_pebble(repository: &TestRepository, choice: usize) {
    let [(version, digit), other] = [PEBBLES[choice], PEBBLES[1 - choice]];
    let lock = repository.read("Cargo.lock");
    let pebble = |version: &str| format!("name = \"pebble\"\nversion = \"{version}\"");
    let lock =
        lock.replace(&pebble(other.0), &pebble(version)).replace(&other.1.repeat(64), &digit.repeat(64));
    assert!(lock.contains(&pebble(version)), "{lock}");
    repository.write("Cargo.lock", lock);
}

/// A workspace of ten packages. Each way in which a change reaches a test is there: code, a generic, a macro, a
/// feature, a build script's file and variable, `include_str!`, a file that is read, cargo's `[env]`, the lock file,
/// a program of the package or of another one, and documentation that is included, built from, or read.
fn write_packages(repository: &TestRepository) {
    let uses = |name: &str| format!("{name} = {{ path = \"../{name}\" }}\n");
    let packages = [
        ("granite", "[features]\ndefault = []\nlarge = []\n".to_owned()),
        ("basalt", String::new()),
        ("marble", String::new()),
        ("quartzite", uses("granite") + "pebble = \"1\"\n"),
        ("limestone", uses("basalt") + &uses("marble")),
        ("sandstone", uses("granite") + &uses("marble")),
        ("obsidian", String::new()),
        ("flint", uses("granite")),
        ("slate", String::new()),
    ];
    let names: Vec<String> = packages.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let members = format!("[workspace]\nmembers = [{}]\nresolver = \"2\"\n", names.join(", "));
    repository.write("Cargo.toml", MANIFEST.replace("NAME", "mountain") + &members);
    // The package at the root reads a source of another one, and one test of it reads the source of another test.
    repository.write("src/lib.rs", test("mountain", "std::fs::read(\"granite/src/lib.rs\").unwrap()"));
    repository.write("tests/reader.rs", test("reader", "std::fs::read(\"tests/summit.rs\").unwrap()"));
    repository.write("tests/summit.rs", test("summit", "vec![1_u8; 99]"));
    repository.write("tests/valley.rs", test("valley", "vec![1_u8; 4]"));
    for (name, more) in &packages {
        repository.write(&format!("{name}/Cargo.toml"), MANIFEST.replace("NAME", name) + more);
        for text in ["README.md", "LICENSE", "CHANGES.md"] {
            repository.write(&format!("{name}/{text}"), "A package.\n");
        }
        repository.write(&format!("{name}/data.txt"), "123");
    }
    let library = |name: &str, code: &str, bytes: &str| {
        repository.write(&format!("{name}/src/lib.rs"), format!("{code}{}", test(name, bytes)));
    };
    library(
        "granite",
        "pub fn bytes() -> Vec<u8> { vec![1; size() + 16] }\npub fn size() -> usize { if cfg!(feature = \"large\") { 64 } else { 32 } }\n",
        "crate::bytes()",
    );
    // Without `rerun-if-changed`, it runs again after each change of its package.
    repository.write("basalt/build.rs", "fn main() { println!(\"cargo:rustc-env=SIZE={}\", 24 + std::fs::read(\"LICENSE\").unwrap().len()); }\n");
    repository.write("limestone/build.rs", "fn main() { println!(\"cargo:rerun-if-changed=../docs/of\\ncargo:rustc-env=SIZE={}\", \
        std::fs::read_dir(\"../docs/of\").unwrap().map(|one| one.unwrap().metadata().unwrap().len()).sum::<u64>()); }\n");
    repository.write("docs/of/limestone.md", "A package.\n");
    repository.write("docs/guide.md", "A package.\n");
    library(
        "basalt",
        "pub fn bytes() -> Vec<u8> { vec![1; env!(\"SIZE\").parse().unwrap()] }\n",
        "crate::bytes()",
    );
    library(
        "marble",
        "#[macro_export]\nmacro_rules! bytes { () => { vec![1_u8; 48] } }\npub fn own<T: Clone>(one: T) -> Vec<T> { vec![one; 8] }\n",
        "crate::own(1_u8)",
    );
    library("quartzite", "", "(granite::bytes(), pebble::bytes()).1");
    library(
        "limestone",
        "",
        "(basalt::bytes(), vec![1_u8; env!(\"SIZE\").parse().unwrap()], marble::bytes!()).2",
    );
    library(
        "sandstone",
        "",
        "(include_str!(\"../data.txt\").to_owned() + include_str!(\"../CHANGES.md\")).repeat(granite::size() / granite::size()) + &String::from_utf8(marble::own(b'a')).unwrap()",
    );
    library(
        "obsidian",
        "",
        "(std::fs::read(\"data.txt\").unwrap(), std::fs::read(\"CHANGES.md\").unwrap(), option_env!(\"CARGO_PKG_README\").unwrap_or_default().to_owned(), std::env::var(\"GIVEN\").unwrap_or(String::from(\"none\"))).0",
    );
    // A program, started by a test of its package, and by one of another package that looks for it.
    repository.write(
        "flint/src/main.rs",
        "fn main() { print!(\"{}\", \"x\".repeat(granite::bytes().len() * 100)); }\n",
    );
    let output_of = |path: &str| format!("std::process::Command::new({path}).output().unwrap().stdout");
    repository.write("flint/tests/own.rs", test("flint", &output_of("env!(\"CARGO_BIN_EXE_flint\")")));
    let find = "{ let mut path = std::env::current_exe().unwrap(); path.pop(); if path.ends_with(\"deps\") \
        { path.pop(); } path.push(\"flint\"); path }";
    repository.write("slate/tests/other.rs", test("slate", &output_of(find)));
    repository.write("slate/src/lib.rs", "");
    repository.write("shared/input.txt", "12345");
    repository.write("README.md", "A workspace.\n");
}

/// Changes one place. Returns what it was.
fn mutate(repository: &TestRepository, numbers: &mut Numbers) -> String {
    let size = numbers.below(200) + 70;
    let longer = || "text ".repeat(size);
    let edits: [(&str, &str, String); 20] = [
        ("tests/summit.rs", "99", size.to_string()),
        ("granite/src/lib.rs", "size() + 16", format!("size() + {size}")),
        ("granite/src/lib.rs", "{ 32 }", format!("{{ {size} }}")),
        ("granite/Cargo.toml", "default = []", "default = [\"large\"]".to_owned()),
        ("basalt/build.rs", "24", size.to_string()),
        ("marble/src/lib.rs", "48", size.to_string()),
        ("marble/src/lib.rs", "one; 8", format!("one; {size}")),
        ("sandstone/data.txt", "123", "1".repeat(size)),
        ("obsidian/data.txt", "123", "1".repeat(size)),
        ("limestone/data.txt", "123", "1".repeat(size)),
        ("shared/input.txt", "12345", "1".repeat(size)),
        ("quartzite/README.md", "package", longer()),
        ("README.md", "workspace", longer()),
        ("sandstone/CHANGES.md", "package", longer()),
        ("obsidian/CHANGES.md", "package", longer()),
        ("basalt/LICENSE", "package", longer()),
        ("marble/LICENSE", "package", longer()),
        ("docs/of/limestone.md", "package", longer()),
        ("docs/guide.md", "package", longer()),
        ("limestone/README.md", "package", longer()),
    ];
    let choice = numbers.below(edits.len() + 4);
    let Some((file, old, new)) = edits.get(choice) else {
        match choice - edits.len() {
            0 => {
                let given = format!("{VENDORED}[env]\nGIVEN = \"{}\"\n", "g".repeat(size));
                repository.write(".cargo/config.toml", given);
                return "[env]".to_owned();
            }
            1 => lock_pebble(repository, 1),
            2 => std::fs::remove_file(repository.path("obsidian/README.md")).expect("removed"),
            _ => repository.write("docs/of/new.md", longer()),
        }
        return ["", "Cargo.lock", "no obsidian/README.md", "new docs/of/new.md"][choice - edits.len()]
            .to_owned();
    };
    let text = repository.read(file);
    assert!(text.contains(old), "{file} has {old}");
    repository.write(file, text.replacen(old, new, 1));
    format!("{file}: {old} to {new}")
}

/// The peaks of each test's heap, by test, checkpoint and ref.
fn peaks(report: &Value) -> Vec<(String, String, Value)> {
    let rows = report["rows"].as_array().cloned().unwrap_or_default();
    let of_heap = rows.into_iter().filter(|row| row["metric"] == "heap.peak");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_heap.map(|row| (text(&row["title"]), text(&row["test"]), row.clone())).collect()
}

/// Makes this many changes, one or two at a time. Each is built and run twice: as usual, and with all tests.
#[expect(clippy::print_stderr, reason = "a run of many changes says what it found")]
fn no_test_that_differs_is_left_out(changes: usize, seed: u64) {
    let mut repository = TestRepository::new();
    write_packages(&repository);
    write_vendored(&repository);
    repository.commit("old");
    let workspace = Workspace { repository, home: home() };
    let mut numbers = Numbers(seed);
    let (mut left_out_figures, mut differing, mut unbuilt) = (0, 0, 0);
    for _ in 0..changes {
        let count = 1 + numbers.below(2);
        let mut made = vec![mutate(&workspace.repository, &mut numbers)];
        if count == 2 {
            let file = format!("{}/README.md", ["basalt", "marble", "obsidian"][numbers.below(3)]);
            workspace.repository.write(&file, "Another text.\n");
            made.push(file);
        }
        let (usual, report) = workspace.with("notes.md", "A note.\n", &[]);
        let (all, complete) = workspace.with("notes.md", "A note.\n", &["--run-all"]);
        assert!(usual.code == 0 && all.code == 0, "{made:?}: {} {}", usual.everything(), all.everything());
        unbuilt += usize::from(usual.stderr.contains("same sources"));
        // What ran has the figures of its own build, even if that was made for another revision.
        let of_complete = peaks(&complete);
        for (_, test, row) in peaks(&report) {
            let is_that = |other: &&(String, String, Value)| {
                other.1 == test && other.2["checkpoint"] == row["checkpoint"]
            };
            let own_build = of_complete.iter().find(is_that).map(|other| &other.2["delta"]);
            assert_eq!(Some(&row["delta"]), own_build, "{made:?}: {test} {}", row["checkpoint"]);
        }
        let ran = left_out(&report).1;
        for (title, test, row) in of_complete {
            let differences = row["delta"].as_object().expect("a difference for each candidate");
            let is_left_out = !ran.split(' ').any(|one| one == title.trim_start_matches("tests::"));
            let is_different = differences.values().any(|difference| *difference != 0);
            left_out_figures += usize::from(is_left_out);
            differing += usize::from(is_different);
            assert!(!(is_left_out && is_different), "{made:?}: {test} was left out: {row}");
        }
        workspace.reset();
    }
    let found =
        format!("{left_out_figures} figures left out, {differing} differ, {unbuilt} changes without a build");
    eprintln!("{changes} changes of seed {seed}: {found}");
    assert!(left_out_figures > 0 && differing > 0 && unbuilt > 0, "{found}");
}

#[test]
fn a_few_random_changes_leave_out_no_test_that_differs() {
    no_test_that_differs_is_left_out(8, 1);
}

/// `MEMPROF_CHANGES=1000 cargo test --test slow random_changes -- --ignored`
#[test]
#[ignore = "each change takes some seconds"]
fn many_random_changes_leave_out_no_test_that_differs() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let changes = number("MEMPROF_CHANGES").unwrap_or(1000);
    let seed = number("MEMPROF_SEED").unwrap_or(7);
    no_test_that_differs_is_left_out(usize::try_from(changes).expect("a number of changes"), seed);
}
