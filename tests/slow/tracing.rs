//! Traced functions on whole repositories: edited in the checkout, built, run and shown, with figures to the byte.

use std::path::PathBuf;

use crate::support::traced::{calls, memprof, report, untraced};
use crate::support::{Printed, TestRepository, home_at, tool};
use serde_json::Value;

const MANIFEST: &str = "[package]\nname = \"bart\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
const LOCK: &str = "version = 3\n\n[[package]]\nname = \"bart\"\nversion = \"0.1.0\"\n";

/// A layer keeps `kept` bytes and needs three times that meanwhile; panics and `line!()` say where they stand.
fn library(kept: usize) -> String {
    format!(
        "#![no_std]
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused_crate_dependencies, clippy::all)]
//! Survives what is put into it.
extern crate alloc;
use alloc::vec::Vec;

/// Layers.
pub trait Module {{
    /// Runs it.
    fn forward(&self) -> Vec<u8>;
    /// Twice.
    fn twice(&self) -> Vec<u8> {{ drop(self.forward()); self.forward() }}
}}

/// One.
pub struct Layer<T>(pub T);

impl<T: Copy> Module for Layer<T> {{
    fn forward(&self) -> Vec<u8> {{
        drop(core::hint::black_box(Vec::<u8>::with_capacity({kept} * 3)));
        Vec::with_capacity({kept})
    }}
}}

/// Its own line: {{}}.
pub fn here() -> u32 {{ line!() }}

/// Where it panics.
#[track_caller] pub fn fail(fails: bool) {{ if fails {{ panic!(\"here\") }} }}

/// Cannot be traced.
pub const fn size() -> usize {{ 1 }}

/// Cannot be traced.
pub async fn later() {{}}
"
    )
}

const TEST: &str = r"
use bart::Module;

#[test]
fn forwards() {
    let layer = bart::Layer(1_u8);
    let kept: Vec<Vec<u8>> = (0..5).map(|_| layer.forward()).collect();
    assert_eq!(layer.twice().len() + kept.len() - 5, 0);
    assert_eq!(bart::here(), 27);
    assert_eq!(bart::size(), 1);
    let place = std::sync::Arc::new(std::sync::Mutex::new(0));
    let seen = place.clone();
    std::panic::set_hook(Box::new(move |panic| *seen.lock().unwrap() = panic.location().unwrap().line()));
    assert!(std::panic::catch_unwind(|| { let fails = true; bart::fail(fails) }).is_err());
    assert_eq!(*place.lock().unwrap(), line!() - 1);
}
";

fn repository() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("Cargo.lock", LOCK);
    repository.write(".gitignore", "target\n");
    repository.write("src/lib.rs", library(1000));
    repository.write("tests/forward.rs", TEST);
    repository.commit("old");
    repository.git(["branch", "old"]);
    repository.write("src/lib.rs", library(1500));
    repository.commit("new");
    repository.git(["branch", "new"]);
    repository
}

#[test]
fn calls_have_exact_figures_in_every_revision_and_lines_stay() {
    let repository = repository();
    let report = report(&repository, &["--refs", "old,new", "--locked", "--trace", "bart::**"]);
    for (of, kept) in [("old", 1000), ("new", 1500)] {
        assert_eq!(calls(&report, of, "bart::<Layer<T> as Module>::forward"), (5, 5 * kept, 2 * kept));
        assert_eq!(calls(&report, of, "bart::Module::twice"), (1, kept, 2 * kept));
        assert_eq!(calls(&report, of, "bart::here"), (1, 0, 0));
        assert_eq!(calls(&report, of, "bart::fail").0, 1);
        let untraced = untraced(&report, of);
        let names: Vec<&str> = untraced.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names, ["bart::size", "bart::later"]);
    }
    assert_eq!(repository.git(["status", "--porcelain"]), "");
}

#[test]
fn lines_stand_side_by_side() {
    let repository = repository();
    let printed = memprof(&repository, &["--refs", "old,new", "--trace-lines", "<Layer as Module>::forward"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let line = |start: &str| {
        let found =
            printed.stdout.lines().filter(|line| line.trim_start().starts_with(start)).collect::<Vec<_>>();
        found.join(" / ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(
        printed.stdout.contains("bart::<Layer<T> as Module>::forward  src/lib.rs:20"),
        "{}",
        printed.stdout
    );
    // Seven calls: five, and two of `twice`.
    let old = line("-22");
    assert!(old.contains("Vec::with_capacity(1000) │ 7"), "{old}\n{}", printed.stdout);
    assert!(line("+22").contains("Vec::with_capacity(1500) │ 7"), "{}", printed.stdout);
    assert!(old.contains("6.84 KiB"), "7 times 1000 bytes: {old}");

    let flags = ["--refs", "new", "--trace-lines", "<Layer as Module>::forward", "--lines-per-call"];
    let every = ["--trace-every", "<Layer as Module>::*@3,9", "--format", "csv=lines"];
    let table = memprof(&repository, &[&flags[..], &every[..2]].concat());
    for said in ["lib.rs:20  (call 1)", "lib.rs:20  (call 4)", "lib.rs:20  (call 7)"] {
        assert!(table.stdout.contains(said), "{said}: {}", table.everything());
    }
    assert_eq!(table.stdout.matches("(call ").count(), 3, "{}", table.stdout);
    let csv = memprof(&repository, &[&flags[..], &every].concat());
    assert!(
        csv.stdout.lines().next().is_some_and(|line| line.contains(",text,call,")),
        "{}",
        csv.everything()
    );
    let unmet = memprof(&repository, &[&flags[..], &["--trace-every", "bart::heer@3"]].concat());
    assert!(
        unmet.stderr.contains("--trace-every bart::heer@3: no traced function"),
        "{}",
        unmet.everything()
    );
}

#[test]
fn an_edit_that_does_not_compile_is_dropped_and_named() {
    let mut repository = repository();
    let text = repository.read("src/lib.rs")
        + "\n/// Hides the shim's name.\npub fn hides() -> usize { mod memprof_shim {} 1 }\n";
    repository.write("src/lib.rs", text);
    repository.write("tests/forward.rs", TEST.replace("bart::size()", "bart::hides()"));
    repository.commit("hides");
    let printed = memprof(&repository, &["--refs", "old,HEAD", "--trace", "bart::**"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    assert!(printed.stderr.contains("bart::hides of HEAD is not traced"), "{}", printed.stderr);
    let report: Value = {
        let printed = memprof(&repository, &["report", "--format", "json"]);
        serde_json::from_str(&printed.stdout).unwrap()
    };
    assert_eq!(calls(&report, "HEAD", "bart::<Layer<T> as Module>::forward"), (5, 7500, 3000));
    let untraced = untraced(&report, "HEAD");
    let (_, reason) = untraced.iter().find(|(path, _)| path == "bart::hides").unwrap();
    assert!(reason.starts_with("it does not compile when it is traced ("), "{reason}");
}

#[test]
fn a_revision_that_does_not_compile_anyway_says_its_own_error() {
    let mut repository = repository();
    repository
        .write("src/lib.rs", repository.read("src/lib.rs").replace("Vec::with_capacity(1500)", "missing()"));
    repository.commit("broken");
    let printed = memprof(&repository, &["--refs", "old,HEAD", "--trace", "bart::**"]);
    assert_eq!(printed.code, 3, "{}", printed.stderr);
    assert!(printed.stderr.contains("cannot find function `missing`"), "{}", printed.stderr);
}

#[test]
fn a_path_dependency_outside_of_the_workspace_is_traced() {
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        format!("{MANIFEST}[dependencies]\nkernels = {{ path = \"kernels\" }}\n\n[workspace]\nexclude = [\"kernels\"]\n"),
    );
    repository.write(
        "kernels/Cargo.toml",
        "[package]\nname = \"kernels\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    repository.write(
        "kernels/src/lib.rs",
        "#![deny(warnings)]\npub fn scale() -> Vec<u8> { Vec::with_capacity(700) }\n",
    );
    repository.write("src/lib.rs", "");
    repository.write("tests/t.rs", "#[test]\nfn scales() { assert!(kernels::scale().is_empty()); }\n");
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    let report = report(&repository, &["--refs", "HEAD,again=HEAD", "--offline", "--trace", "kernels::*"]);
    assert_eq!(calls(&report, "HEAD", "kernels::scale"), (1, 700, 0));
}

#[test]
fn a_crate_of_the_registry_is_traced_in_a_copy_and_the_lock_file_stays() {
    // One that this very crate depends on, so that its archive is there already.
    let own = fs_err::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap();
    let start = own.find("[[package]]\nname = \"itoa\"\n").unwrap();
    let entry = own[start..].split("\n\n").next().unwrap();
    let version = entry.lines().nth(2).unwrap();
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", format!("{MANIFEST}[dependencies]\nitoa = \"1\"\n"));
    let lock = format!(
        "version = 3\n\n[[package]]\nname = \"bart\"\nversion = \"0.1.0\"\ndependencies = [\n \"itoa\",\n]\n\n{}\n",
        entry.trim_end()
    );
    repository.write("Cargo.lock", &lock);
    repository.write("src/lib.rs", "");
    repository
        .write("tests/t.rs", "#[test]\nfn prints() { assert_eq!(itoa::Buffer::new().format(7), \"7\"); }\n");
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    let report =
        report(&repository, &["--refs", "HEAD,again=HEAD", "--locked", "--trace", "itoa::Buffer::format"]);
    assert_eq!(calls(&report, "HEAD", "itoa::Buffer::format").0, 1);
    let function = &report["traced"]["HEAD"]["functions"][0];
    let number = version.split('"').nth(1).unwrap();
    assert_eq!(function["file"], format!("itoa-{number}/src/lib.rs"));
    assert_eq!(repository.read("Cargo.lock"), lock);

    // A checkpoint before the function's first statement, in the copy too.
    let line = function["line"].as_u64().unwrap() + 1;
    let refs = ["--refs", "HEAD,again=HEAD", "--locked", "--format", "csv", "--checkpoint-at"];
    let at = |place: &str| memprof(&repository, &[&refs[..], &[place]].concat());
    let printed = at(&format!("itoa/src/lib.rs:{line}=formatted"));
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    for name in ["HEAD,", "again,"] {
        let is_measured =
            |row: &str| row.starts_with(name) && row.contains(",formatted,") && row.contains("heap.live");
        assert!(printed.stdout.lines().any(is_measured), "{}", printed.stdout);
    }
    let printed = at("itoa/src/lib.rs:1=x");
    let refused = format!("--checkpoint-at itoa/src/lib.rs:1 has no place in itoa-{number}: no statement");
    assert!(printed.code == 2 && printed.stderr.contains(&refused), "{}", printed.stderr);
    let printed = at("HEAD:itoa/src/lib.rs:1=x");
    assert!(
        printed.stderr.contains("a crate outside of the repository cannot differ by ref"),
        "{}",
        printed.stderr
    );

    // Another version of cargo has left its own folder of the registry, which comes first.
    let home_of_cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home_of_cargo = home_of_cargo.unwrap_or_else(|| std::env::home_dir().unwrap().join(".cargo"));
    let other_home = repository.beside("cargo-home");
    let archive = format!("itoa-{number}.crate");
    for index in fs_err::read_dir(home_of_cargo.join("registry/cache")).unwrap() {
        let index = index.unwrap();
        let Ok(content) = fs_err::read(index.path().join(&archive)) else { continue };
        for name in ["aaa".into(), index.file_name()] {
            let folder = other_home.join("registry/cache").join(name);
            fs_err::create_dir_all(&folder).unwrap();
            fs_err::write(folder.join(&archive), &content).unwrap();
        }
    }
    let index = home_of_cargo.join("registry/index");
    std::os::unix::fs::symlink(index, other_home.join("registry/index")).unwrap();
    let mut command = tool();
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home_at(repository.beside("home")));
    command.env("CARGO_HOME", &other_home).args([
        "memprof",
        "--refs",
        "HEAD,again=HEAD",
        "--locked",
        "--offline",
    ]);
    command.args(["--trace", "itoa::Buffer::*", "--format", "json"]);
    let printed = Printed::of(command);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let report: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(calls(&report, "HEAD", "itoa::Buffer::format").0, 1);

    // An archive that is not what the lock file says is refused.
    let checksum = entry.lines().find(|line| line.starts_with("checksum")).unwrap();
    let wrong = checksum.replace(['1', '2', '3', '4', '5'], "0");
    repository.write("Cargo.lock", lock.replace(checksum, &wrong));
    repository.commit("wrong");
    let printed = memprof(&repository, &["--refs", "HEAD,again=HEAD", "--trace", "itoa::Buffer::new"]);
    assert_eq!(printed.code, 2, "{}", printed.stderr);
    assert!(printed.stderr.contains("does not match Cargo.lock"), "{}", printed.stderr);
}

#[test]
fn a_crate_of_a_git_repository_is_traced_in_a_copy() {
    let mut repository = TestRepository::new();
    let elsewhere = repository.beside("kernels");
    let write = |path: &str, text: &str| {
        let path = elsewhere.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    };
    let git = |arguments: &[&str]| {
        let mut git = repository.command("git");
        git.arg("-C").arg(&elsewhere).args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(arguments);
        let printed = Printed::of(git);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        printed.stdout.trim().to_owned()
    };
    // Its version is that of the workspace, and it reads a file beside its own folder.
    write("Cargo.toml", "[workspace]\nmembers = ['scale']\n[workspace.package]\nversion = '0.3.0'\n");
    write("sizes.rs", "1 << 20");
    write("scale/Cargo.toml", "[package]\nname = 'scale'\nversion.workspace = true\n");
    write(
        "scale/src/lib.rs",
        "pub fn grown() -> Vec<u8> {\n    let size = include!(\"../../sizes.rs\");\n    vec![1; size]\n}\n",
    );
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "first"]);
    let first = git(&["rev-parse", "HEAD"]);
    write("sizes.rs", "3 << 20");
    git(&["commit", "--quiet", "-am", "second"]);
    let second = git(&["rev-parse", "HEAD"]);

    let mut commits = Vec::new();
    for commit in [&first, &second] {
        let dependency = format!("scale = {{ git = 'file://{}', rev = '{commit}' }}", elsewhere.display());
        commits.push(format!("{MANIFEST}[dependencies]\n{dependency}\n"));
    }
    let cargo_home = repository.beside("cargo-home");
    repository.write("src/lib.rs", "");
    repository.write(
        "tests/t.rs",
        "#[test]\nfn grows() { std::mem::forget(std::hint::black_box(scale::grown())); }\n",
    );
    repository.write(".gitignore", "target\n");
    for (manifest, name) in commits.iter().zip(["old", "new"]) {
        repository.write("Cargo.toml", manifest);
        let mut cargo = repository.command("cargo");
        cargo.args(["generate-lockfile"]).env("CARGO_HOME", &cargo_home);
        let printed = Printed::of(cargo);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        repository.commit(name);
    }
    let run = |arguments: &[&str]| {
        let mut command = tool();
        command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home_at(repository.beside("home")));
        command.env("CARGO_HOME", &cargo_home).arg("memprof");
        command.args(["--refs", "old=HEAD~1,new=HEAD", "--threshold", "*=off"]).args(arguments);
        Printed::of(command)
    };
    let traced = ["--trace-lines", "scale::**", "--checkpoint-at", "scale/src/lib.rs:3=sized"];
    let printed = run(&[&traced[..], &["--locked", "--format", "json"]].concat());
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let json: Value = serde_json::from_str(&printed.stdout).unwrap();
    for (name, mebibytes) in [("old", 1), ("new", 3)] {
        assert_eq!(calls(&json, name, "scale::grown"), (1, mebibytes << 20, 0), "{json:#}");
        assert_eq!(json["traced"][name]["functions"][0]["file"], "scale-0.3.0/src/lib.rs");
    }
    assert!(printed.stdout.contains("\"sized\""), "{}", printed.stdout);
    let printed = run(&["--checkpoint-at", "scale/src/lib.rs:9=sized"]);
    let refused = "--checkpoint-at scale/src/lib.rs:9 has no place in scale-0.3.0: the file has only 4 lines";
    assert!(printed.code == 2 && printed.stderr.contains(refused), "{}", printed.everything());
    // Cargo's own checkouts are as they were, and what is not traced comes from them.
    let checkouts = walkdir::WalkDir::new(cargo_home.join("git/checkouts")).into_iter().flatten();
    let texts = checkouts.filter(|one| one.file_name() == "lib.rs");
    let texts: Vec<String> = texts.map(|one| fs_err::read_to_string(one.path()).unwrap()).collect();
    assert!(texts.len() == 2 && texts.iter().all(|text| !text.contains("memprof")), "{texts:?}");
    let printed = run(&["--locked", "--format", "csv"]);
    assert!(printed.code == 0 && !printed.stdout.contains("sized"), "{}", printed.everything());
}

#[test]
fn functions_are_listed_per_ref_without_a_build() {
    let repository = repository();
    let printed =
        memprof(&repository, &["trace", "--list", "--refs", "old,new", "bart::*", "<Layer as Module>::*"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    for said in [
        "src/lib.rs:20  bart::<Layer<T> as Module>::forward\n",
        "bart::size  (not traceable: it is a `const fn`, which the compiler may run)",
        "bart::later  (not traceable: it is an `async fn`",
    ] {
        assert_eq!(printed.stdout.matches(said).count(), 2, "{said}: {}", printed.stdout);
    }
    assert!(!printed.stderr.contains("Built"), "{}", printed.stderr);
}

#[test]
fn mistakes_are_answered_with_the_nearest_names() {
    let repository = repository();
    for (arguments, said) in [
        (&["trace", "bart::<Layer as Module>::forwrd"][..], "nearest: bart::<Layer<T> as Module>::forward"),
        (&["--refs", "old,new", "--trace", "bart::heer"], "nearest: bart::here"),
        (&["--refs", "old,new", "--trace", "bart"], "write bart::** for all functions of that crate"),
        (&["--refs", "old,new", "--max-events", "5"], "--max-events needs functions to trace"),
        (&["--refs", "old,new", "--trace", "bart::*", "--columns", "heep"], "found 'heep'"),
        (&["--refs", "old,new", "--trace-every", "5"], "--trace-every needs functions to trace"),
        (&["--refs", "old,new", "--trace", "bart::*", "--trace-every", "0"], "'0' is not a number of calls"),
        (&["trace"], "no function pattern"),
    ] {
        let printed = memprof(&repository, arguments);
        assert_eq!(printed.code, 2, "{arguments:?}: {}", printed.stderr);
        assert!(printed.stderr.contains(said), "{arguments:?}: {}", printed.stderr);
    }
    repository.write("memprof.yaml", "refs: [old, new]\ntrace:\n  functons: [bart::here]\n");
    let printed = memprof(&repository, &[]);
    assert!(printed.stderr.contains("functions"), "{}", printed.stderr);
    assert_eq!(printed.code, 2);
}

#[test]
fn an_untraced_run_knows_nothing_of_tracing() {
    let repository = repository();
    let latest = || repository.path("target/memprof/latest");
    // The log's text, with every number and hash made `0`: its events, their fields and the order of these.
    let number = regex::Regex::new("[0-9a-f]{16,64}|-?[0-9]+").unwrap();
    let events = |arguments: &[&str]| -> String {
        let report = report(&repository, &[&["--refs", "old,new"], arguments].concat());
        let folder = latest().join(report["cells"][0]["folder"].as_str().unwrap());
        let log = fs_err::read_to_string(folder.join("log.jsonl")).unwrap();
        number.replace_all(&log, "0").into_owned()
    };
    let build_log = || {
        let logs = fs_err::read_dir(latest().join("builds")).unwrap();
        logs.map(|log| fs_err::read_to_string(log.unwrap().path()).unwrap()).collect::<String>()
    };
    let untraced = events(&[]);
    let names = |log: &str| -> Vec<String> {
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let names = lines.map(|line| format!("{} {}", line["event"], line["label"]).replace(['"'], ""));
        names.filter(|name| !name.starts_with("absent")).collect()
    };
    let expected =
        ["begin null", "body null", "checkpoint start", "checkpoint done", "causes null", "end null"];
    assert_eq!(names(&untraced), expected);
    assert!(!build_log().contains("RUSTC_WRAPPER="), "{}", build_log());
    let traced = events(&["--trace", "bart::here", "--max-events", "0"]);
    let without = |event: &str| -> String {
        traced.split_inclusive('\n').filter(|line| !line.contains(event)).collect()
    };
    let sums: Vec<String> = names(&traced).into_iter().filter(|name| name.starts_with("calls ")).collect();
    assert_eq!(names(&traced).len(), expected.len() + sums.len(), "{traced}");
    assert!(!sums.is_empty() && sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    assert_eq!(without("\"event\":\"calls\""), untraced, "nothing else in the log changes");
    assert_eq!(events(&[]), untraced, "the traced build is another one");
    let builds = fs_err::read_to_string(latest().join("builds.json")).unwrap();
    assert!(!builds.contains("trace"), "{builds}");
    assert!(!latest().join("trace.json").exists());
    let edited = fs_err::read_to_string(
        walkdir::WalkDir::new(repository.beside("home"))
            .into_iter()
            .filter_map(Result::ok)
            .find(|entry| entry.path().ends_with("worktree/src/lib.rs"))
            .unwrap()
            .path(),
    )
    .unwrap();
    assert!(!edited.contains("MEMPROF_SITE"), "{edited}");
}

#[test]
fn functions_of_tests_of_main_and_of_programs_are_traced() {
    let mut repository = TestRepository::new();
    let target = "[[test]]\nname = \"own\"\nharness = false\n";
    repository.write("Cargo.toml", format!("{MANIFEST}{target}"));
    repository.write("Cargo.lock", LOCK);
    repository.write(".gitignore", "target\n");
    repository.write("src/lib.rs", "pub fn keep(bytes: usize) -> Vec<u8> { Vec::with_capacity(bytes) }\n");
    let unit = |name: &str, kept: usize| {
        format!(
            "fn helper() -> Vec<u8> {{ bart::keep({kept}) }}\nfn main() {{ drop(helper()) }}\n\
             #[test]\nfn {name}() {{\n    let kept = helper();\n    assert!(kept.is_empty());\n}}\n"
        )
    };
    repository.write("src/main.rs", unit("of_main", 100));
    repository.write("src/bin/tool.rs", unit("of_tool", 200));
    repository
        .write("tests/harness.rs", unit("of_harness", 300).replace("fn main() { drop(helper()) }\n", ""));
    repository.write(
        "tests/own.rs",
        "fn helper() -> Vec<u8> { bart::keep(400) }\nfn main() {\n    let kept = helper();\n    drop(kept);\n}\n",
    );
    repository.commit("old");
    let arguments = ["--refs", "HEAD,again=HEAD", "--offline", "--trace", "crate::**", "--trace-lines"];
    let named = "**::of_*";
    let report = report(&repository, &[&arguments[..], &[named, "--trace-lines", "own::main"]].concat());
    let cells: Vec<&Value> =
        report["cells"].as_array().unwrap().iter().filter(|cell| cell["ref"] == "HEAD").collect();
    let of = |test: &str| {
        let is_it = |cell: &&&Value| cell["test"].as_str().is_some_and(|name| name.contains(test));
        *cells.iter().find(is_it).unwrap_or_else(|| panic!("{test} in {cells:#?}"))
    };
    let called = |test: &str| -> Vec<String> {
        let nodes = of(test)["trace"]["nodes"].as_object().unwrap().values();
        nodes.map(|node| format!("{} {}", node["label"].as_str().unwrap(), node["calls"])).collect()
    };
    let kept = |test: &str| {
        let lines = of(test)["trace"]["lines"].as_array().unwrap();
        lines.iter().map(|line| line["metrics"]["heap.allocated"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(called("of_main"), ["bart::of_main 1", "bart::helper 1", "bart::keep 1"]);
    assert_eq!(called("of_tool"), ["tool::of_tool 1", "tool::helper 1", "bart::keep 1"]);
    assert_eq!(called("of_harness"), ["harness::of_harness 1", "harness::helper 1", "bart::keep 1"]);
    assert_eq!(called("own"), ["own::main 1", "own::helper 1", "bart::keep 1"]);
    assert_eq!((kept("of_main"), kept("of_tool")), (vec![100, 0], vec![200, 0]));
    assert_eq!((kept("of_harness"), kept("own")), (vec![300, 0], vec![400, 0]));
}

#[test]
fn what_a_stopped_test_traced_until_then_is_reported() {
    let mut repository = repository();
    repository.write(
        "tests/forward.rs",
        "use bart::Module;\n#[test]\nfn forwards() {\n    let kept = bart::Layer(1_u8).forward();\n    \
         std::thread::sleep(std::time::Duration::from_millis(1500));\n    drop(kept);\n    \
         std::thread::sleep(std::time::Duration::from_secs(600));\n}\n",
    );
    repository.commit("slow");
    let arguments = ["--refs", ".", "--view", "scopes", "--timeout", "4s", "--trace-lines"];
    let printed =
        memprof(&repository, &[&arguments[..], &["forward::forwards", "--trace", "bart::**"]].concat());
    assert_eq!(printed.code, 3, "{}", printed.stderr);
    for said in [
        "incomplete (timed out after 4 s)",
        "forward::forwards",
        "let kept = bart::Layer(1_u8).forward();",
        "drop(kept);",
    ] {
        assert!(printed.stdout.contains(said), "{said}: {}", printed.stdout);
    }
    // The call of the layer has ended, with its figures.
    assert!(printed.stdout.contains("1.46 KiB"), "{}", printed.stdout);
}
