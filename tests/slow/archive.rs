//! Built on one machine, run on another: the archive is made in a repository, and run where there is no cargo, no rustc, no
//! git, no repository and none of the build's folders.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{TestRepository, isolated};

/// A machine that only runs: a folder for its home, its cache and its runs, and nothing on its `PATH`.
struct RunHost {
    folder: PathBuf,
}

impl RunHost {
    fn new(repository: &TestRepository) -> Self {
        let folder = repository.beside("run-host");
        fs::create_dir_all(folder.join("home")).expect("the folder is new");
        Self { folder }
    }

    fn memprof(&self, arguments: &[&str]) -> Command {
        let mut command = isolated(assert_cmd::cargo::cargo_bin("cargo-memprof"));
        command.env_clear().env("PATH", "/nonexistent").env("HOME", self.folder.join("home"));
        command
            .env("CARGO_MEMPROF_HOME", self.folder.join("cache"))
            .current_dir(&self.folder)
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.memprof(arguments).output().expect("the program starts")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}\n{stderr}");
}

/// The rows of a CSV that must not differ by a byte: revision, test, repeat, outcome, checkpoint, figure. Live bytes are the
/// metric that has nothing of the machine in it; the harness allocates by what it finds in the environment.
fn exact_rows(csv: &[u8]) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(csv);
    let rows = reader.records().map(|row| row.expect("the report is CSV"));
    let exact = rows.filter(|row| &row[10] == "heap.live");
    let mut rows: Vec<String> =
        exact.map(|row| [0, 2, 5, 6, 8, 9, 10, 12].map(|column| row[column].to_owned()).join(" ")).collect();
    rows.sort();
    rows
}

/// A test that keeps this many bytes in the old and in the new revision.
type Keeps = (&'static str, i64, i64);

/// Each test keeps what its file or library says, and what the harness needs for itself.
#[track_caller]
fn assert_kept(rows: &[String], tests: &[Keeps]) {
    for (test, old, new) in tests {
        for (revision, bytes) in [("old", old), ("new", new)] {
            let kept = kept(rows, revision, test);
            assert!((*bytes..bytes + 2_000).contains(&kept), "{test} of {revision} keeps {kept} bytes");
        }
    }
}

/// Bytes that a test has more at its end than at its beginning, in a revision.
fn kept(rows: &[String], revision: &str, test: &str) -> i64 {
    let live = |checkpoint: &str| -> i64 {
        let beginning = format!("{revision} ");
        let middle = format!("{test} 0 ok {checkpoint} ");
        let row = rows.iter().find(|row| row.starts_with(&beginning) && row.contains(&middle));
        let row = row.unwrap_or_else(|| panic!("no row of {test} at {checkpoint} in {rows:#?}"));
        row.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("the last column is the figure")
    };
    live("done") - live("start")
}

/// A package whose tests keep as many bytes as a file says that is different in each revision.
fn package_with_data() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'subject'\nversion = '0.1.0'\nedition = '2024'\n");
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", "");
    repository
        .write("src/main.rs", "fn main() { print!(\"{}\", include_str!(\"../program.txt\").trim()); }\n");
    repository.write(
        "tests/sizes.rs",
        r#"
use std::path::Path;
const FILE: &str = "tests/data/size.txt";
fn keep(text: String) {
    let bytes: usize = text.trim().parse().unwrap();
    std::mem::forget(vec![1u8; bytes]);
}
#[test]
fn by_built_in_path() {
    keep(std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)).unwrap());
}
#[test]
fn by_environment() {
    keep(std::fs::read_to_string(Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(FILE)).unwrap());
}
#[test]
fn by_current_folder() {
    // Where the archive runs, its run's files are put back.
    let home = std::env::var("HOME").unwrap();
    let _ = std::fs::remove_file(Path::new(&home).with_file_name("memprof-runs/latest/plan.json"));
    keep(std::fs::read_to_string(FILE).unwrap());
}
#[test]
fn by_program() {
    let said = std::process::Command::new(env!("CARGO_BIN_EXE_subject")).output().unwrap();
    keep(String::from_utf8(said.stdout).unwrap());
}
"#,
    );
    for (revision, size, program) in [("old", 100_000, 20_000), ("new", 300_000, 50_000)] {
        repository.write("tests/data/size.txt", format!("{size}\n"));
        repository.write("program.txt", format!("{program}\n"));
        repository.commit(revision);
        repository.git(["tag", revision]);
    }
    // What is read is each revision's, and not what lies in the user's folder.
    repository.write("tests/data/size.txt", "7\n");
    repository
}

const TESTS: [Keeps; 4] = [
    ("by_built_in_path", 100_000, 300_000),
    ("by_environment", 100_000, 300_000),
    ("by_current_folder", 100_000, 300_000),
    ("by_program", 20_000, 50_000),
];

#[test]
fn an_archive_gives_the_figures_that_a_run_on_the_build_host_gives() {
    let repository = package_with_data();
    let request = ["--refs", "old,new", "--repeat", "2", "--test", "sizes", "--threshold", "*=off"];
    // A rule that names a metric requests it.
    let request = [&request[..], &["--threshold", "malloc.*=off"]].concat();
    let local = repository.memprof().args(&request).args(["--format", "csv"]).output().unwrap();
    assert_code(&local, 0);
    let expected = exact_rows(&local.stdout);
    assert_kept(&expected, &TESTS);

    let host = RunHost::new(&repository);
    let archive = host.folder.join("subject.tar.zst");
    let built = repository
        .memprof()
        .args(["build", "--data", "tests/data/**", "--archive"])
        .arg(&archive)
        .args(&request)
        .output()
        .unwrap();
    assert_code(&built, 0);
    assert!(text(&built.stdout).contains("subject::sizes  /"), "{}", text(&built.stdout));
    // From here on, the build host is another machine.
    let cache = repository.beside("cache");
    fs::rename(&cache, repository.beside("cache-of-the-build-host")).unwrap();

    the_same_figures_come_back(&host, &cache, &expected);
    call_sites_come_from_the_archive_alone(&host);
    a_run_that_was_cut_off_goes_on(&host, &expected);
    an_archive_that_changed_is_refused(&host, &archive);
    without_the_build_hosts_path_tests_are_led_to_their_files(&host, &cache, &expected);
}

fn the_same_figures_come_back(host: &RunHost, built_in: &Path, expected: &[String]) {
    let run = host.run(&["run", "--archive", "subject.tar.zst", "--format", "csv"]);
    assert_code(&run, 0);
    assert_eq!(exact_rows(&run.stdout), expected);
    counted_by_the_library(&host.folder.join("memprof-runs/latest"));
    assert!(!built_in.exists(), "the folder that stood in for the build host's is gone");
    // The run's folder is all that a report needs, wherever it is.
    let elsewhere = host.folder.join("home/copied");
    let latest = host.folder.join("memprof-runs/latest").canonicalize().unwrap();
    fs::rename(latest, &elsewhere).unwrap();
    let report = host.run(&["report", "home/copied", "--format", "csv"]);
    assert_code(&report, 0);
    assert_eq!(exact_rows(&report.stdout), expected);
    let table = host.run(&["report", "home/copied"]);
    assert!(text(&table.stdout).contains("by_current_folder"), "{}", text(&table.stdout));
}

/// The library in front of the C library's allocator was in the archive and in each test.
fn counted_by_the_library(run: &Path) {
    let entries = walkdir::WalkDir::new(run.canonicalize().unwrap()).into_iter().filter_map(Result::ok);
    let logs: Vec<_> = entries.filter(|entry| entry.file_name() == "log.jsonl").collect();
    assert_eq!(logs.len(), 16);
    for log in logs {
        let log = fs::read_to_string(log.path()).unwrap();
        assert!(log.contains(r#""malloc.peak":"library in front of"#), "{log}");
    }
}

fn call_sites_come_from_the_archive_alone(host: &RunHost) {
    let flags = ["run", "--archive", "subject.tar.zst", "--run-folder", "explained", "--format", "json"];
    let run = host.run(&[&flags[..], &["--why=always"]].concat());
    assert_code(&run, 0);
    let report: Value = serde_json::from_slice(&run.stdout).expect("a JSON report");
    let rows = report["why"]["rows"].as_array().expect("rows with call sites");
    assert!(!rows.is_empty(), "{report:#}");
    for row in rows {
        // The C library's figures have the test harness's allocations, which depend on how its threads meet.
        let is_of_heap = row["metric"].as_str().is_some_and(|metric| metric.starts_with("heap."));
        assert!(!is_of_heap || row["candidate"]["agreement"] == "equal", "{row:#}");
        let names =
            row["groups"].as_array().expect("groups").iter().filter_map(|group| group["name"].as_str());
        assert!(names.into_iter().any(|name| name.starts_with("sizes::")), "{row:#}");
    }
    assert!(host.folder.join("explained/changes.json").exists(), "the archive says what differs");
}

fn a_run_that_was_cut_off_goes_on(host: &RunHost, expected: &[String]) {
    let flags = ["run", "--archive", "subject.tar.zst", "--run-folder", "cut-off", "--format", "csv"];
    let mut killed = host.memprof(&flags);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let folder = host.folder.join("cut-off");
    let deadline = Instant::now() + Duration::from_mins(1);
    while outcomes(&folder) == 0 {
        assert!(Instant::now() < deadline, "no run ends");
        std::thread::sleep(Duration::from_millis(2));
    }
    killed.kill().expect("it can be killed");
    let status = killed.wait().expect("it ends");
    let before = outcomes(&folder);
    assert!(status.signal().is_some() && before < 16, "it was killed in the middle: {status}, {before}");

    let again = host.run(&flags);
    assert_code(&again, 2);
    assert!(text(&again.stderr).contains("holds a run already"), "{}", text(&again.stderr));
    let resumed = host.run(&[&flags[..], &["--resume"]].concat());
    assert_code(&resumed, 0);
    assert_eq!(exact_rows(&resumed.stdout), expected);
    assert_eq!(outcomes(&folder), 16);
}

fn outcomes(folder: &Path) -> usize {
    let entries = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
    entries.filter(|entry| entry.file_name() == "outcome.json").count()
}

fn an_archive_that_changed_is_refused(host: &RunHost, archive: &Path) {
    let mut bytes = fs::read(archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(host.folder.join("changed.tar.zst"), &bytes).unwrap();
    let refused = host.run(&["run", "--archive", "changed.tar.zst"]);
    assert_code(&refused, 2);
    let message = text(&refused.stderr);
    assert!(message.contains("changed.tar.zst was changed: its blake3 is "), "{message}");
    fs::write(host.folder.join("short.tar.zst"), &bytes[..middle]).unwrap();
    let message = text(&host.run(&["run", "--archive", "short.tar.zst"]).stderr);
    assert!(message.contains("short.tar.zst is incomplete"), "{message}");
}

fn without_the_build_hosts_path_tests_are_led_to_their_files(
    host: &RunHost,
    built_in: &Path,
    expected: &[String],
) {
    fs::write(built_in, "a file, below which no folder can be made").unwrap();
    let run = host.run(&["run", "--archive", "subject.tar.zst", "--format", "csv"]);
    // Two tests have the path built in, and fail; they are not compared, and the others are.
    assert_code(&run, 3);
    let warning = text(&run.stderr);
    assert!(warning.contains("a test that has this path built in"), "{warning}");
    let led = |row: &&String| row.contains("by_environment ") || row.contains("by_current_folder ");
    let rows = exact_rows(&run.stdout);
    assert!(rows.iter().filter(led).count() > 0);
    assert!(rows.iter().filter(led).eq(expected.iter().filter(led)), "{rows:#?}");
    assert!(!rows.iter().any(|row| row.contains("by_built_in_path ") && row.contains(" ok ")), "{rows:#?}");
    fs::remove_file(built_in).unwrap();

    let cleaned = host.run(&["clean", "--archives", "--yes"]);
    assert_code(&cleaned, 0);
    assert!(text(&cleaned.stdout).starts_with("removed "), "{}", text(&cleaned.stdout));
    assert!(!host.folder.join("cache/archives").exists());
}

/// A workspace whose tests need shared libraries: one that they are linked with, one that they load themselves, and, as the
/// unit tests of a procedural macro, the toolchain's own.
fn workspace_with_libraries() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        "[workspace]\nresolver = '3'\nmembers = ['linked', 'loaded', 'macros', 'user']\n",
    );
    repository.write(".gitignore", "/target\n");
    // Without it, the harness and a library of Rust each bring a standard library, and the compiler refuses.
    repository.write(".cargo/config.toml", "[build]\nrustflags = ['-C', 'prefer-dynamic']\n");
    let manifest = |name: &str, rest: &str| {
        format!("[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2024'\n{rest}")
    };
    repository.write("linked/Cargo.toml", manifest("linked", "[lib]\ncrate-type = ['dylib']\n"));
    repository.write("loaded/Cargo.toml", manifest("loaded", "[lib]\ncrate-type = ['cdylib']\n"));
    repository.write("macros/Cargo.toml", manifest("macros", "[lib]\nproc-macro = true\n"));
    repository.write(
        "macros/src/lib.rs",
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn in_a_macro() { std::mem::forget(vec![1u8; 4096]); }\n}\n",
    );
    repository.write(
        "user/Cargo.toml",
        manifest(
            "user",
            "[dev-dependencies]\nlinked = { path = '../linked' }\nloaded = { path = '../loaded' }\n",
        ),
    );
    repository.write(
        "user/src/lib.rs",
        "pub fn keep(bytes: usize) {\n    std::mem::forget(vec![1u8; bytes]);\n}\n",
    );
    repository.write(
        "user/tests/libraries.rs",
        r#"
use std::ffi::{c_char, c_int, c_void};
unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
#[test]
fn linked() {
    user::keep(linked::bytes());
}
#[test]
fn loaded() {
    let bytes = unsafe {
        let library = dlopen(c"libloaded.so".as_ptr(), 2);
        assert!(!library.is_null(), "the library is not found");
        let function = dlsym(library, c"loaded_bytes".as_ptr());
        assert!(!function.is_null(), "the library has no such function");
        std::mem::transmute::<*mut c_void, extern "C" fn() -> usize>(function)()
    };
    std::mem::forget(vec![1u8; bytes]);
}
"#,
    );
    for (revision, linked, loaded) in [("old", 10_000, 20_000), ("new", 30_000, 40_000)] {
        repository.write("linked/src/lib.rs", format!("pub fn bytes() -> usize {{ {linked} }}\n"));
        let function =
            format!("#[unsafe(no_mangle)]\npub extern \"C\" fn loaded_bytes() -> usize {{ {loaded} }}\n");
        repository.write("loaded/src/lib.rs", function);
        repository.commit(revision);
        repository.git(["tag", revision]);
    }
    repository
}

#[test]
#[cfg(target_os = "linux")]
fn shared_libraries_of_the_build_and_of_the_toolchain_travel_with_it() {
    let repository = workspace_with_libraries();
    let refs = ["--refs", "old,new", "--workspace", "--threshold", "*=off"];
    let request = [&refs[..], &["--trace-lines", "user::keep", "--trace", "linked::bytes"]].concat();
    let local = repository.memprof().args(&request).args(["--format", "csv"]).output().unwrap();
    assert_code(&local, 0);
    let expected = exact_rows(&local.stdout);

    let host = RunHost::new(&repository);
    let archive = host.folder.join("libraries.tar.zst");
    let built =
        repository.memprof().args(["build", "--archive"]).arg(&archive).args(&request).output().unwrap();
    assert_code(&built, 0);
    fs::rename(repository.beside("cache"), repository.beside("cache-of-the-build-host")).unwrap();

    for place_taken in [false, true] {
        if place_taken {
            fs::write(repository.beside("cache"), "a file").unwrap();
        }
        let run = host.run(&["run", "--archive", "libraries.tar.zst", "--format", "csv"]);
        assert_code(&run, 0);
        let rows = exact_rows(&run.stdout);
        assert_eq!(rows, expected);
        assert_kept(
            &rows,
            &[("linked", 10_000, 30_000), ("loaded", 20_000, 40_000), ("in_a_macro", 4096, 4096)],
        );
    }
    // The text that the lines of a traced function are shown beside was on the build host.
    let report = host.run(&["report"]);
    assert_code(&report, 0);
    let shown = text(&report.stdout);
    assert!(shown.contains("2     std::mem::forget(vec![1u8; bytes]);"), "{shown}");
    assert!(shown.contains("it belongs to a library that is only built as a dylib"), "{shown}");

    let unpacked = fs::read_dir(host.folder.join("cache/archives")).unwrap().filter_map(Result::ok);
    let unpacked = unpacked.map(|entry| entry.path()).find(|path| path.is_dir()).expect("it was unpacked");
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(unpacked.join("archive.json")).unwrap()).unwrap();
    let files = manifest["revisions"][0]["files"].as_object().expect("the revision has files");
    assert!(files.keys().any(|path| path.starts_with("libraries/libstd-")), "{files:?}");
}

/// As a program for a GPU is built where there is no driver: its library is there for the linker, and gone afterwards.
#[test]
#[cfg(target_os = "linux")]
fn a_library_that_the_build_host_lacks_is_warned_of_unless_the_tests_go_elsewhere() {
    let mut repository = TestRepository::new();
    let libraries = repository.beside("driver");
    fs::create_dir_all(&libraries).unwrap();
    let source = repository.beside("driver.c");
    fs::write(&source, "unsigned long driver_bytes(void) { return 5000; }\n").unwrap();
    let library = libraries.join("libmemprof_driver.so");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(compiled.success());
    repository.write(
        "Cargo.toml",
        "[package]\nname = 'user'\nversion = '0.1.0'\nedition = '2024'\nbuild = 'build.rs'\n",
    );
    repository.write(".gitignore", "/target\n");
    let search = libraries.display();
    repository
        .write("build.rs", format!("fn main() {{ println!(\"cargo:rustc-link-search={search}\"); }}\n"));
    for (revision, bytes) in [("old", 1), ("new", 2)] {
        repository.write(
            "src/lib.rs",
            format!(
                "#[link(name = \"memprof_driver\")]\nunsafe extern \"C\" {{ fn driver_bytes() -> usize; }}\n\
                 #[test]\nfn driven() {{ std::mem::forget(vec![1u8; {bytes} * unsafe {{ driver_bytes() }}]); }}\n"
            ),
        );
        repository.commit(revision);
        repository.git(["tag", revision]);
    }
    let refs = ["--refs", "old,new,again=old", "--threshold", "*=off"];
    let here = repository.memprof().arg("build").args(refs).output().unwrap();
    assert_code(&here, 0);
    let lacks = "'user' is linked with libmemprof_driver.so, which this machine lacks";
    assert!(text(&here.stderr).contains(lacks), "{}", text(&here.stderr));

    let host = RunHost::new(&repository);
    let archive = host.folder.join("driven.tar.zst");
    // Another profile, so that what was built above is not taken from the store.
    let elsewhere =
        repository.memprof().args(["build", "--release", "--archive"]).arg(&archive).args(refs).output();
    let elsewhere = elsewhere.unwrap();
    assert_code(&elsewhere, 0);
    assert!(!text(&elsewhere.stderr).contains("lacks"), "{}", text(&elsewhere.stderr));

    // Two of the refs are one build.
    let mut packed = tar::Archive::new(zstd::Decoder::new(fs::File::open(&archive).unwrap()).unwrap());
    let entries = packed.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned());
    assert_eq!(entries.filter(|path| path.ends_with("provenance.json")).count(), 2);

    let mut run = host.memprof(&["run", "--archive", "driven.tar.zst", "--format", "csv"]);
    let run = run.env("LD_LIBRARY_PATH", &libraries).output().unwrap();
    assert_code(&run, 0);
    assert_kept(&exact_rows(&run.stdout), &[("driven", 5000, 10_000)]);
}
