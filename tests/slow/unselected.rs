//! A filter leaves out test executables that contain no selected test, if an earlier build has listed them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::csv::memprof;
use crate::support::{Printed, TestRepository, home};

/// Three packages with the same tests under other names. `app` and `tool` use `base`.
fn workspace() -> TestRepository {
    let mut repository = TestRepository::new();
    let members = "[workspace]\nmembers = [\"app\", \"base\", \"tool\"]\nresolver = \"2\"\n";
    repository.write("Cargo.toml", members);
    for (name, uses) in [
        ("base", ""),
        ("app", "base = { path = \"../base\" }\n"),
        ("tool", "base = { path = \"../base\" }\n"),
    ] {
        let package = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        repository.write(&format!("{name}/Cargo.toml"), format!("{package}[dependencies]\n{uses}"));
    }
    repository.write("base/src/lib.rs", base(10));
    for name in ["app", "tool"] {
        let test = |inner: &str| {
            format!("#[test]\nfn {name}_{inner}() {{\n    assert!(!base::list().is_empty());\n}}\n")
        };
        repository.write(
            &format!("{name}/src/lib.rs"),
            format!("#[cfg(test)]\nmod tests {{\n    use super::*;\n{}}}\n", test("unit"))
                .replace("use super::*;\n", ""),
        );
        repository.write(&format!("{name}/tests/whole.rs"), test("whole"));
    }
    repository.write(".gitignore", "target\nCargo.lock\n");
    repository.commit("old");
    repository
}

fn base(length: usize) -> String {
    format!(
        "pub fn list() -> Vec<u8> {{\n    vec![1; {length}]\n}}\n#[cfg(test)]\nmod tests {{\n    #[test]\n    fn base_unit() {{\n        assert!(!super::list().is_empty());\n    }}\n}}\n"
    )
}

/// What one comparison ran, and what its candidate's build contains.
struct Compared {
    printed: Printed,
    ran: BTreeSet<String>,
    built: BTreeSet<String>,
}

fn compare(repository: &TestRepository, home: &Path, arguments: &[&str]) -> Compared {
    let usual = ["--refs", "HEAD,.", "--offline", "--workspace", "--repeat", "1", "--threshold", "*=off"];
    let printed = memprof(repository.root(), home, &[&usual, arguments].concat());
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let report = memprof(repository.root(), home, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).expect("a JSON report");
    let cells = report["cells"].as_array().into_iter().flatten();
    let ran = cells.filter_map(|cell| cell["title"].as_str()).map(str::to_owned).collect();
    // The store has only builds of this workspace.
    let mut builds: Vec<_> = walkdir::WalkDir::new(home)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|found| found.file_name() == "provenance.json")
        .collect();
    builds.sort_by_key(|found| {
        let folder = found.path().parent().expect("the build's folder");
        folder.metadata().and_then(|metadata| metadata.modified()).expect("a time")
    });
    let newest = builds.last().expect("a build");
    let provenance = fs_err::read_to_string(newest.path()).expect("what it is");
    let provenance: Value = serde_json::from_str(&provenance).expect("JSON");
    Compared { built: executables(&provenance), ran, printed }
}

/// The executables of a build.
fn executables(value: &Value) -> BTreeSet<String> {
    let name = |one: &Value| {
        format!("{}::{}", one["package"].as_str().expect("a name"), one["binary"].as_str().expect("a name"))
    };
    match (&value["executables"], value) {
        (Value::Array(executables), _) => executables.iter().map(name).collect(),
        (_, Value::Object(fields)) => fields.values().flat_map(executables).collect(),
        _ => BTreeSet::new(),
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn executables_without_a_selected_test_are_not_built() {
    let (repository, home) = (workspace(), home());
    let compare = |arguments: &[&str]| compare(&repository, home.path(), arguments);
    let all = set(&["app::app", "app::whole", "base::base", "tool::tool", "tool::whole"]);
    let whole = set(&["app::whole", "base::base"]);
    repository.write("base/src/lib.rs", base(20));
    let first = compare(&["-k", "app_whole"]);
    assert_eq!(
        first.built,
        whole,
        "the last commit's build tells what `.` needs: {}",
        first.printed.everything()
    );
    assert_eq!(first.ran.len(), 1);
    assert!(first.printed.stdout.contains("+10 B"), "{}", first.printed.everything());

    assert_eq!(compare(&["-k", "app_whole"]).built.len(), 2, "the build is in the store");

    let third = compare(&[]);
    assert_eq!(third.built, all, "without a filter, all are built");
    assert_eq!(third.ran.len(), 5);

    repository.write("base/src/lib.rs", base(40).replace("base_unit", "new_unit"));
    let fourth = compare(&["-k", "new_unit or tool_unit"]);
    assert_eq!(fourth.built, set(&["base::base", "tool::tool"]), "a new test is found where sources changed");
    assert_eq!(fourth.ran.len(), 2);

    let makes_tests = base(50) + "#[macro_export]\nmacro_rules! any {\n    () => {};\n}\n";
    repository.write("base/src/lib.rs", makes_tests);
    assert_eq!(compare(&["-k", "app_whole"]).built, all, "a macro may make tests elsewhere");

    repository.write("base/src/lib.rs", base(10));
    repository
        .write("tool/tests/whole.rs", repository.read("tool/tests/whole.rs") + "const _MORE: u8 = 1;\n");
    let fifth = compare(&["-k", "whole"]);
    assert_eq!(fifth.built, set(&["app::whole", "tool::whole"]));
    assert_eq!(fifth.ran, set(&["tool_whole"]), "the same code: {}", fifth.printed.everything());
}

#[test]
fn a_run_goes_on_with_the_build_that_it_began_with() {
    let (repository, home) = (workspace(), home());
    repository.write("base/src/lib.rs", base(20));
    let narrow = ["--refs", "HEAD,.", "--offline", "--workspace", "--repeat", "2", "-k", "app_whole"];
    let memprof = |arguments: &[&str]| memprof(repository.root(), home.path(), arguments);
    let first = memprof(&[&narrow[..], &["--threshold", "*=off"]].concat());
    assert!(first.stderr.contains("without 3 executables"), "{}", first.everything());
    let latest = repository.root().join("target/memprof/latest");
    let id = latest.read_link().expect("the newest run");
    let folder = repository.root().join("target/memprof").join(&id);
    let outcomes: Vec<_> = walkdir::WalkDir::new(folder.join("cells"))
        .into_iter()
        .filter_map(Result::ok)
        .filter(|found| found.path().ends_with("1/outcome.json"))
        .collect();
    assert_eq!(outcomes.len(), 2, "the second run of each revision");
    for outcome in &outcomes {
        fs_err::remove_file(outcome.path()).expect("the outcome");
    }

    let all = memprof(&[
        "--refs",
        "HEAD,.",
        "--offline",
        "--workspace",
        "--repeat",
        "1",
        "--run-all",
        "--threshold",
        "*=off",
    ]);
    assert_eq!(all.code, 0, "{}", all.everything());
    let resumed = memprof(&["--resume", id.to_str().expect("UTF-8")]);
    assert_eq!(resumed.code, 0, "{}", resumed.everything());
    assert!(resumed.stdout.contains("+10 B"), "{}", resumed.everything());
}

/// Files in which a change makes a new test somewhere, each with the text before and after.
const NEW_TESTS: [(&str, &str, &str); 10] = [
    ("app/src/lib.rs", "mod more {}", "#[test] fn wanted_in_app() {}"),
    ("tool/src/lib.rs", "mod more {}", "#[test] fn wanted_in_tool() {}"),
    ("tool/tests/whole.rs", "mod more {}", "#[test] fn wanted_whole() {}"),
    ("base/src/lib.rs", "() => {};", "() => { #[test] fn wanted_by_a_macro() {} };"),
    ("base/src/part.rs", "mod more {}", "#[test] fn wanted_by_a_path() {}"),
    ("shared/part.rs", "mod more {}", "#[test] fn wanted_included() {}"),
    ("base/src/linked.rs", "mod more {}", "#[test] fn wanted_through_a_link() {}"),
    ("tool/src/root.rs", "mod more {}", "#[test] fn wanted_in_a_root() {}"),
    ("tool/README.md", "mod more {}", "#[test] fn wanted_in_a_readme() {}"),
    ("tool/Cargo.toml", "default = []", "default = [\"large\"]"),
];

#[test]
fn a_new_test_is_found_wherever_a_change_makes_it() {
    let (mut repository, home) = (workspace(), home());
    let old = "#[test]\nfn wanted_old() {}\nmod more {}\n";
    repository.write("app/src/lib.rs", old);
    repository.write("base/src/lib.rs", base(10) + "#[macro_export]\nmacro_rules! any {\n    () => {};\n}\n");
    repository.write("base/src/part.rs", "mod more {}\n");
    let script = "fn main() { println!(\"cargo:rerun-if-changed=README.md\"); std::fs::copy(\"README.md\", std::env::var(\"OUT_DIR\").unwrap() + \"/made.rs\").unwrap(); }\n";
    repository.write("tool/build.rs", script);
    repository.write("tool/tests/made.rs", "include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));\n");
    for file in ["base/src/linked.rs", "tool/src/root.rs", "shared/part.rs", "tool/README.md"] {
        repository.write(file, "mod more {}\n");
    }
    let link = repository.root().join("tool/tests/linked.rs");
    std::os::unix::fs::symlink("../../base/src/linked.rs", link).expect("a link");
    let manifest = repository.read("tool/Cargo.toml");
    repository.write(
        "tool/Cargo.toml",
        manifest
            + "[features]\ndefault = []\nlarge = []\n[[test]]\nname = \"root\"\npath = \"src/root.rs\"\n",
    );
    repository.write("tool/src/lib.rs", "mod more {}\n");
    let whole = "base::any!();\n#[path = \"../../base/src/part.rs\"]\nmod part;\nmod shared {\n    include!(\"../../shared/part.rs\");\n}\n#[cfg(feature = \"large\")]\n#[test]\nfn wanted_by_a_feature() {}\n#[test]\nfn other() {}\nmod more {}\n";
    repository.write("tool/tests/whole.rs", whole);
    repository.commit("with ways to new tests");
    let filter = ["-k", "wanted"];
    for (file, before, after) in NEW_TESTS {
        let text = repository.read(file);
        let changed = text.replace(before, after);
        assert_ne!(text, changed, "{file}");
        repository.write(file, changed);
        let found = compare(&repository, home.path(), &filter);
        let wanted: Vec<&String> = found.ran.iter().filter(|title| !title.contains("wanted_old")).collect();
        assert_eq!(wanted.len(), 1, "{file}: {}", found.printed.everything());
        repository.write(file, text);
    }
}
