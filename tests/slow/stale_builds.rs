//! A revision gets its own code also where cargo does not see that a file changed.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::csv::{kept, memprof, values};
use crate::support::{Printed, TestRepository, home};

const MANIFEST: &str =
    "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n";

/// A library's test that keeps this many KiB.
fn test(name: &str, size: &str) -> String {
    format!(
        "#[test]\nfn of_{name}() {{ let kept = vec![1_u8; 1024 * ({size})]; assert!(!kept.is_empty()); }}\n"
    )
}

/// A workspace in which cargo does not see that these change: `size.txt` of a build script that names only a variable;
/// a file that a silent script lists, and one outside of its package; a folder that a macro lists; a vendored crate.
fn write_workspace(repository: &TestRepository) {
    repository.write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"sized\", \"listed\", \"outer\", \"counting\", \"embeds\", \"holds\"]\nresolver = \"2\"\n",
    );
    let package = |name: &str, more: &str, code: &str| {
        repository.write(&format!("{name}/Cargo.toml"), MANIFEST.replace("NAME", name) + more);
        repository.write(&format!("{name}/src/lib.rs"), code);
    };
    let of_variable = |name: &str| test(name, "env!(\"SIZE\").parse::<usize>().unwrap()");
    package("sized", "", &of_variable("sized"));
    repository.write(
        "sized/build.rs",
        "fn main() { println!(\"cargo:rerun-if-env-changed=CC\\ncargo:rustc-env=SIZE={}\", std::fs::read(\"size.txt\").unwrap().len()); }\n",
    );
    repository.write("sized/size.txt", "12");
    package("listed", "", &of_variable("listed"));
    repository.write(
        "listed/build.rs",
        "fn main() { println!(\"cargo:rustc-env=SIZE={}\", std::fs::read_dir(\"data\").unwrap().count()); }\n",
    );
    for file in ["a", "b", "c"] {
        repository.write(&format!("listed/data/{file}"), "");
    }
    package("outer", "", &of_variable("outer"));
    repository.write(
        "outer/build.rs",
        "fn main() { println!(\"cargo:rustc-env=SIZE={}\", std::fs::read(\"../proto/x.bin\").unwrap().len()); }\n",
    );
    repository.write("proto/x.bin", "123");
    package(
        "counting",
        "[lib]\nproc-macro = true\n",
        "#[proc_macro]\npub fn files(folder: proc_macro::TokenStream) -> proc_macro::TokenStream {\n    \
         let folder = std::env::var(\"CARGO_MANIFEST_DIR\").unwrap() + \"/\" + &folder.to_string();\n    \
         std::fs::read_dir(folder).unwrap().count().to_string().parse().unwrap()\n}\n",
    );
    package("embeds", "counting = { path = \"../counting\" }\n", &test("embeds", "counting::files!(db)"));
    repository.write("embeds/db/1.sql", "");
    package("holds", "pebble = \"1\"\n", &test("holds", "pebble::size()"));
    write_pebble(repository, 2);
    repository
        .write("vendor/pebble/Cargo.toml", MANIFEST.replace("NAME", "pebble").replace("0.1.0", "1.0.0"));
    let checksum = format!("{{\"files\":{{}},\"package\":\"{}\"}}\n", "a".repeat(64));
    repository.write("vendor/pebble/.cargo-checksum.json", checksum);
    repository.write(
        ".cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = \"vendor\"\n",
    );
    repository.command("cargo").args(["generate-lockfile", "--offline"]).status().expect("cargo runs");
}

fn write_pebble(repository: &TestRepository, size: usize) {
    repository.write("vendor/pebble/src/lib.rs", format!("pub fn size() -> usize {{ {size} }}\n"));
}

/// The tests whose peak of the heap differs, with the difference in KiB.
fn differences(root: &Path, home: &Path) -> String {
    let printed = memprof(root, home, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&printed.stdout).expect("a JSON report");
    let rows = report["rows"].as_array().cloned().unwrap_or_default();
    let of_heap = rows.iter().filter(|row| row["metric"] == "heap.peak" && row["checkpoint"] == "done");
    let mut found: Vec<String> = of_heap
        .filter_map(|row| {
            let bytes = row["delta"].as_object()?.values().next()?.as_i64()?;
            let test = row["title"].as_str()?.trim_start_matches("tests::").trim_start_matches("of_");
            Some(format!("{test} {}", bytes / 1024))
        })
        .collect();
    found.sort();
    found.join(", ")
}

#[test]
fn what_cargo_does_not_see_is_compiled_again() {
    let mut repository = TestRepository::new();
    write_workspace(&repository);
    repository.commit("old");
    let home = home();
    let compare = |refs: &str| {
        let printed = memprof(
            repository.root(),
            home.path(),
            &["--refs", refs, "--offline", "--workspace", "--repeat", "1"],
        );
        assert!(printed.code == 0 || printed.code == 1, "{}", printed.everything());
        printed
    };
    repository.write("sized/size.txt", "123456");
    std::fs::remove_file(repository.path("listed/data/a")).expect("removed");
    repository.write("proto/x.bin", "1234567");
    repository.write("embeds/db/2.sql", "");
    write_pebble(&repository, 12);
    let printed = compare("HEAD,.");
    let found = differences(repository.root(), home.path());
    let expected = "embeds 1, holds 10, listed -1, outer 4, sized 4";
    assert_eq!(found, expected, "{}", printed.everything());
    // Only what changed is compiled: nothing else is taken for changed.
    repository.write("holds/src/lib.rs", test("holds", "pebble::size() + 1"));
    let printed = compare("HEAD,.");
    let text = repository.read("target/memprof/latest/builds/1-..log");
    let compiled: Vec<&str> = text.lines().filter(|line| line.contains("Compiling")).collect();
    assert!(compiled.len() == 1 && compiled[0].contains("holds"), "{text}\n{}", printed.everything());
    // A session that was killed leaves a crate of other sources without a record. Here that is `pebble` with 12.
    let files = walkdir::WalkDir::new(home.path()).into_iter().flatten();
    let records: Vec<_> = files.filter(|file| file.file_name() == "sources.json").collect();
    assert_eq!(records.len(), 1);
    std::fs::remove_file(records[0].path()).expect("removed");
    repository.write("vendor/pebble/src/lib.rs", "pub fn more() -> usize { 7 }\n");
    repository.write("holds/src/lib.rs", test("holds", "pebble::more()"));
    let printed = compare("HEAD,.");
    let found = differences(repository.root(), home.path());
    assert!(found.contains("holds 5"), "{found}\n{}", printed.everything());
}

/// A package whose only test keeps as many KiB as its build script says.
fn sized_by_script(script: &str) -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST.replace("NAME", "sized"));
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"sized\"\nversion = \"0.1.0\"\n");
    repository.write("build.rs", script);
    repository.write("src/lib.rs", test("sized", "env!(\"SIZE\").parse::<usize>().unwrap()"));
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    repository
}

/// The peak of the heap of the only test, in KiB.
fn peak(printed: &Printed) -> Option<u64> {
    let values = values(printed);
    let peak = values.iter().find(|value| value.metric == "heap.peak" && value.checkpoint == "done");
    peak.and_then(|peak| peak.value).map(|bytes| bytes / 1024)
}

#[test]
fn a_script_runs_again_if_the_checkout_had_fewer_files() {
    let mut library = TestRepository::new();
    library.write("size.txt", "123456");
    library.commit("a size");
    let mut repository = sized_by_script(
        "fn main() { println!(\"cargo:rerun-if-env-changed=CC\\ncargo:rustc-env=SIZE={}\", std::fs::read(\"lib/size.txt\").map_or(1, |text| text.len())); }\n",
    );
    let url = library.url();
    repository.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    repository.commit("a submodule");
    let home = home();
    let size = |more: &[&str]| {
        let usual = ["--refs", "HEAD", "--offline", "--repeat", "1", "--format", "csv"];
        let printed = memprof(repository.root(), home.path(), &[&usual, more].concat());
        (peak(&printed), printed.everything())
    };
    // Without the user's clone, git does not fetch from a path.
    let (clone, away) = (repository.path(".git/modules"), repository.beside("away"));
    repository.git(["submodule", "--quiet", "deinit", "--force", "lib"]);
    std::fs::rename(&clone, &away).expect("moved");
    let (missing, text) = size(&[]);
    assert!(missing == Some(1) && text.contains("lacks the submodule lib"), "{missing:?} {text}");
    std::fs::rename(&away, &clone).expect("moved");
    for (more, expected) in [(&[][..], 6), (&["--sparse-exclude", "lib"], 1), (&[], 6)] {
        let (found, text) = size(more);
        assert_eq!(found, Some(expected), "{more:?}: {text}");
    }
}

#[test]
fn a_build_is_made_again_if_a_file_changed_that_its_script_names() {
    let outside = tempfile::tempdir().expect("a folder");
    let model = outside.path().join("model.bin");
    std::fs::write(&model, "1").expect("written");
    let repository = sized_by_script(&format!(
        "fn main() {{ println!(\"cargo:rerun-if-changed={{}}\\ncargo:rustc-env=SIZE={{}}\", {model:?}, std::fs::read({model:?}).unwrap().len()); }}\n",
    ));
    let home = home();
    let list = || {
        let printed = memprof(repository.root(), home.path(), &["list", "--refs", "HEAD", "--offline"]);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        printed.stderr.contains("Built ")
    };
    assert!(list());
    assert!(!list(), "nothing changed");
    std::fs::write(&model, "123").expect("written");
    assert!(list(), "the script read another file");
    assert!(!list(), "nothing changed");
    // `mv` keeps the time, and cargo looks at nothing else.
    let older = outside.path().join("older.bin");
    std::fs::write(&older, "123456").expect("written");
    let opened = std::fs::File::options().write(true).open(&older).expect("opened");
    let of_2001 = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    opened.set_modified(of_2001).expect("the time is set");
    std::fs::rename(&older, &model).expect("moved");
    let usual = ["--refs", "HEAD", "--offline", "--repeat", "1", "--format", "csv"];
    let printed = memprof(repository.root(), home.path(), &usual);
    assert_eq!(peak(&printed), Some(6), "{}", printed.everything());
}

/// Writes a package whose only test keeps as many KiB as the committed `src/size.rs` says, if its script does not write
/// it: then 64.
fn write_table(repository: &TestRepository, script: &str) {
    repository.write("Cargo.toml", MANIFEST.replace("NAME", "table"));
    repository.write(
        "build.rs",
        format!("fn main() {{ println!(\"cargo:rerun-if-changed=size.txt\"); let wanted = std::fs::read(\"size.txt\").unwrap(); {script} }}\n"),
    );
    repository.write("size.txt", "pub const SIZE: usize = 64;\n");
    repository.write("src/size.rs", "pub const SIZE: usize = 1;\n");
    repository.write("src/lib.rs", format!("pub mod size;\n{}", test("table", "crate::size::SIZE")));
}

const WRITES: &str = "std::fs::write(\"src/size.rs\", wanted).unwrap();";

/// A lock file with packages of this repository.
fn lockfile(packages: &[&str]) -> String {
    let package = |name: &&str| format!("\n[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
    packages.iter().map(package).fold("version = 3\n".to_owned(), |text, package| text + &package)
}

/// Checks that the only test keeps 64 KiB at each of these revisions.
fn assert_all_keep_64(repository: &TestRepository, refs: &str) {
    let usual = ["--offline", "--workspace", "--run-all", "--repeat", "1", "--format", "csv"];
    let printed = memprof(repository.root(), home().path(), &[&["--refs", refs], &usual[..]].concat());
    let values = values(&printed);
    let of_heap = values.iter().filter(|value| value.metric == "heap.peak" && value.checkpoint == "done");
    let peaks: Vec<_> = of_heap.filter_map(|value| value.value).map(|bytes| bytes / 1024).collect();
    assert_eq!(peaks, vec![64; refs.split(',').count()], "{}", printed.everything());
}

#[test]
fn a_script_writes_its_committed_file_again_after_a_checkout() {
    let mut repository = TestRepository::new();
    write_table(&repository, WRITES);
    repository.write("Cargo.lock", lockfile(&["table"]));
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    repository.write("src/lib.rs", repository.read("src/lib.rs") + "pub fn unused() {}\n");
    repository.commit("new");
    assert_all_keep_64(&repository, "HEAD~1,HEAD");
}

#[test]
fn a_script_that_writes_only_what_differs_runs_again_for_each_revision() {
    let mut repository = TestRepository::new();
    write_table(&repository, &format!("if std::fs::read(\"src/size.rs\").unwrap() != wanted {{ {WRITES} }}"));
    repository.write("Cargo.lock", lockfile(&["table"]));
    repository.write(".gitignore", "target\n");
    repository.commit("stale");
    let stale = repository.read("src/size.rs");
    repository.write("src/size.rs", repository.read("size.txt"));
    repository.commit("written");
    repository.write("src/size.rs", stale);
    repository.write("src/lib.rs", repository.read("src/lib.rs") + "pub fn unused() {}\n");
    repository.commit("stale again");
    assert_all_keep_64(&repository, "HEAD~2,HEAD~1,HEAD");
}

#[test]
fn a_script_in_a_submodule_writes_its_committed_file_again_after_a_checkout() {
    let mut member = TestRepository::new();
    write_table(&member, WRITES);
    member.commit("a member");
    let mut repository = TestRepository::new();
    let manifest = MANIFEST.replace("NAME", "app") + "[workspace]\nmembers = [\"member\"]\n";
    repository.write("Cargo.toml", manifest);
    repository.write("Cargo.lock", lockfile(&["app", "table"]));
    repository.write("src/lib.rs", "");
    repository.write(".gitignore", "target\n");
    repository.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &member.url(),
        "member",
    ]);
    repository.commit("old");
    repository.write("src/lib.rs", "pub fn unused() {}\n");
    repository.commit("new");
    assert_all_keep_64(&repository, "HEAD~1,HEAD");
}

#[test]
fn a_script_is_fresh_although_git_calls_the_checkout_changed() {
    let mut repository = sized_by_script(
        "fn main() { println!(\"cargo:rerun-if-changed=build.rs\\ncargo:rustc-env=SIZE=6\"); }\n",
    );
    repository.write("lines.txt", "one\r\ntwo\r\n");
    repository.commit("CRLF");
    // Not normalised by `git add`, as after a commit of another tool.
    repository.write(".gitattributes", "*.txt text eol=lf\n");
    repository.git(["add", ".gitattributes"]);
    repository.git(["commit", "--quiet", "-m", "old"]);
    for name in ["one", "two"] {
        repository.write("src/lib.rs", repository.read("src/lib.rs") + &format!("pub fn {name}() {{}}\n"));
        repository.git(["add", "src/lib.rs"]);
        repository.git(["commit", "--quiet", "-m", name]);
    }
    let home = home();
    let arguments = ["--refs", "HEAD~1,HEAD", "--offline", "--repeat", "1"];
    let printed = memprof(repository.root(), home.path(), &arguments);
    let records = walkdir::WalkDir::new(home.path()).into_iter().flatten();
    let records: Vec<_> = records.filter(|file| file.file_name() == "sources.json").collect();
    assert_eq!(records.len(), 1, "{}", printed.everything());
    let records = std::fs::read_to_string(records[0].path()).expect("records");
    assert!(records.contains("\"do_scripts_write\":false"), "{records}\n{}", printed.everything());
}

/// Declares an allocator that does not compile when it is wrapped.
const PARTICULAR: &str = "use std::alloc::{GlobalAlloc, Layout, System};
struct Own;
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 { System.alloc(layout) }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) { System.dealloc(block, layout) }
}
trait Probe {}
impl Probe for Own {}
fn probe(_: &impl Probe) {}
#[global_allocator]
static ALLOCATOR: Own = Own;
#[test]
fn probes() { probe(&ALLOCATOR); assert_eq!(app::size(), b::size()); }
";

#[test]
fn a_changed_crate_is_compiled_once_although_an_allocator_cannot_be_wrapped() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[workspace]\nmembers = [\"app\", \"b\"]\nresolver = \"2\"\n");
    repository.write("app/Cargo.toml", MANIFEST.replace("NAME", "app") + "b = { path = \"../b\" }\n");
    repository.write("app/src/lib.rs", "pub fn size() -> usize { b::size() }\n");
    repository.write("app/tests/own.rs", PARTICULAR);
    repository.write("b/Cargo.toml", MANIFEST.replace("NAME", "b"));
    repository.write("b/src/lib.rs", "pub fn size() -> usize { 1 }\n");
    repository.write(".gitignore", "target\n");
    repository.command("cargo").args(["generate-lockfile", "--offline"]).status().expect("cargo runs");
    repository.commit("old");
    repository.write("b/src/lib.rs", "pub fn size() -> usize { 2 }\n");
    repository.commit("new");
    let home = home();
    let refs = ["--refs", "HEAD~1,HEAD", "--offline", "--workspace", "--repeat", "1"];
    let printed = memprof(repository.root(), home.path(), &refs);
    for log in ["0-HEAD-1.log", "1-HEAD.log"] {
        let text = repository.read(&format!("target/memprof/latest/builds/{log}"));
        assert!(text.contains("# trying again without wrapping"), "{text}\n{}", printed.everything());
        let compiled = text.lines().filter(|line| line.contains("Compiling b ")).count();
        assert_eq!(compiled, 1, "{text}");
    }
}

#[test]
fn a_build_folder_of_the_configuration_is_not_used() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST.replace("NAME", "app"));
    repository.write(".cargo/config.toml", "[build]\nbuild-dir = \"{workspace-root}/elsewhere\"\n");
    repository.write("src/main.rs", "fn main() {}\n");
    repository.write("tests/memory.rs", "#[test]\nfn keeps() { std::mem::forget(vec![1_u8; app::SIZE]); }\n");
    for size in [1000, 3000] {
        repository.write("src/lib.rs", format!("pub const SIZE: usize = {size};\n"));
        repository.commit("another size");
    }
    let arguments = ["--refs", "HEAD~1,HEAD", "--offline", "--repeat", "1", "--format", "csv"];
    let printed = memprof(repository.root(), home().path(), &arguments);
    let kept: Vec<u64> = kept(&values(&printed)).into_values().collect();
    assert_eq!(kept, [3000, 1000], "{}", printed.everything());
}

#[test]
fn a_test_that_reads_what_its_build_script_left_reads_that_of_its_own_revision() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST.replace("NAME", "app"));
    repository.write(
        "build.rs",
        "fn main() {\n    println!(\"cargo:rerun-if-changed=size\");\n    let size = std::fs::read_to_string(\"size\").unwrap().parse().unwrap();\n    \
         std::fs::write(std::env::var(\"OUT_DIR\").unwrap() + \"/model.bin\", vec![1; size]).unwrap();\n}\n",
    );
    let code = "#[test]\nfn reads() { std::mem::forget(std::fs::read(concat!(env!(\"OUT_DIR\"), \"/model.bin\")).unwrap()); }\n\
                #[test]\nfn includes() { std::mem::forget(include_bytes!(concat!(env!(\"OUT_DIR\"), \"/model.bin\")).to_vec()); }\n";
    for (size, more) in [("1000", ""), ("4000", ""), ("4000", "pub const NEW: () = ();\n")] {
        repository.write("size", size);
        repository.write("src/lib.rs", format!("{code}{more}"));
        repository.commit("another size, or more code");
    }
    let home = home();
    // After the second round, the files of the first revision are there, and cargo built the second one last. The
    // third one has the same script and the same size as the second.
    for refs in ["HEAD~2,HEAD~1", "HEAD~2,HEAD"] {
        let arguments = ["--refs", refs, "--run-all", "--offline", "--repeat", "2", "--format", "csv"];
        let printed = memprof(repository.root(), home.path(), &arguments);
        let values = values(&printed);
        for test in ["reads", "includes"] {
            let of_test = values.iter().filter(|value| {
                (value.metric == "heap.live" && value.checkpoint == "done") && value.test.contains(test)
            });
            let kept: Vec<_> = of_test.filter_map(|value| value.value).collect();
            assert_eq!(kept, [1000, 1000, 4000, 4000], "{test} {refs}\n{}", printed.everything());
        }
    }
}

#[test]
fn tests_read_the_files_of_their_revision_although_a_build_script_changed_them() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST.replace("NAME", "app"));
    let script = "fn main() {\n    println!(\"cargo:rerun-if-changed=build.rs\");\n    \
         for file in [\"changed\", \"left\"] { std::fs::write(file, \"9000\").unwrap(); }\n}\n";
    let code = "fn keep(file: &str) {\n    \
         let size = std::fs::read_to_string(file).map_or(1, |size| size.parse().unwrap());\n    \
         std::mem::forget(vec![1_u8; size]);\n}\n\
         #[test]\nfn reads_changed() { keep(\"changed\") }\n#[test]\nfn reads_left() { keep(\"left\") }\n";
    repository.write("src/lib.rs", code);
    for size in ["1000", "4000"] {
        repository.write("changed", size);
        // Another script is started anew.
        repository.write("build.rs", format!("{script}// {size}\n"));
        repository.commit("another size");
    }
    let arguments = ["--refs", "HEAD~1,HEAD", "--run-all", "--offline", "--repeat", "1", "--format", "csv"];
    let printed = memprof(repository.root(), home().path(), &arguments);
    let values = values(&printed);
    for (test, expected) in [("reads_changed", [1000, 4000]), ("reads_left", [1, 1])] {
        let of_test = values.iter().filter(|value| {
            (value.metric == "heap.live" && value.checkpoint == "done") && value.test.contains(test)
        });
        let kept: Vec<_> = of_test.filter_map(|value| value.value).collect();
        assert_eq!(kept, expected, "{test}\n{}", printed.everything());
    }
}
