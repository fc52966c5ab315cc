//! Traced functions on whole repositories: edited in the checkout, built, run and shown, with figures to the byte.

mod support;

use std::path::PathBuf;

use serde_json::Value;
use support::{TestRepository, isolated};

/// What a call of the program printed.
struct Printed {
    code: i32,
    stdout: String,
    stderr: String,
}

fn memprof(repository: &TestRepository, arguments: &[&str]) -> Printed {
    let mut command = isolated(env!("CARGO_BIN_EXE_cargo-memprof"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_") && name != "CARGO_HOME") {
            command.env_remove(name);
        }
    }
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", repository.beside("home"));
    let output = command.arg("memprof").args(arguments).output().unwrap();
    Printed {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The JSON report of a run that must succeed.
fn report(repository: &TestRepository, arguments: &[&str]) -> Value {
    let printed = memprof(repository, &[arguments, &["--format", "json"]].concat());
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    serde_json::from_str(&printed.stdout).unwrap()
}

/// Calls, sum of what was consumed, most that was peaked, by function in one ref.
fn calls(report: &Value, of: &str, label: &str) -> (i64, i64, i64) {
    let cells = report["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["ref"] == of).unwrap();
    let nodes = cell["trace"]["nodes"].as_object().unwrap();
    let node =
        nodes.values().find(|node| node["label"] == label).unwrap_or_else(|| panic!("{label} in {nodes:#?}"));
    let number = |value: &Value| value.as_i64().unwrap();
    (number(&node["calls"]), number(&node["metrics"]["heap.consumed"]), number(&node["most"]["heap.peaked"]))
}

/// Why each function of one ref is not traced.
fn untraced(report: &Value, of: &str) -> Vec<(String, String)> {
    let functions = report["traced"][of]["functions"].as_array().unwrap();
    let reason = |function: &Value| {
        let reason = function["untraced"].as_object()?.values().next()?.as_str()?;
        Some((function["path"].as_str()?.to_owned(), reason.to_owned()))
    };
    functions.iter().filter_map(reason).collect()
}

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

    // An archive that is not what the lock file says is refused.
    let checksum = entry.lines().find(|line| line.starts_with("checksum")).unwrap();
    let wrong = checksum.replace(['1', '2', '3', '4', '5'], "0");
    repository.write("Cargo.lock", lock.replace(checksum, &wrong));
    repository.commit("wrong");
    let printed = memprof(&repository, &["--refs", "HEAD,again=HEAD", "--trace", "itoa::Buffer::new"]);
    assert_eq!(printed.code, 2, "{}", printed.stderr);
    assert!(printed.stderr.contains("is not what the lock file says"), "{}", printed.stderr);
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
    assert!(!printed.stderr.contains("Building"), "{}", printed.stderr);
}

#[test]
fn mistakes_are_answered_with_the_nearest_names() {
    let repository = repository();
    for (arguments, said) in [
        (
            &["trace", "bart::<Layer as Module>::forwrd"][..],
            "near to it: bart::<Layer<T> as Module>::forward",
        ),
        (&["--refs", "old,new", "--trace", "bart::heer"], "near to it: bart::here"),
        (&["--refs", "old,new", "--trace", "bart"], "write bart::** for all of it"),
        (&["--refs", "old,new", "--max-events", "5"], "--max-events is about traced functions"),
        (&["--refs", "old,new", "--trace", "bart::*", "--columns", "heep"], "found 'heep'"),
        (&["trace"], "no pattern of functions"),
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
    let number = regex::Regex::new("[0-9a-f]{64}|-?[0-9]+").unwrap();
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
    let expected = ["begin null", "checkpoint start", "checkpoint done", "end null"];
    assert_eq!(names(&untraced), expected);
    assert!(!build_log().contains("RUSTC_WRAPPER="), "{}", build_log());
    let traced = events(&["--trace", "bart::here", "--max-events", "0"]);
    let without = |event: &str| -> String {
        traced.split_inclusive('\n').filter(|line| !line.contains(event)).collect()
    };
    assert_eq!(names(&traced).len(), 5);
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

/// A repository in which a build script and a procedural macro use the crate that is traced, and a crate of the registry.
fn built_twice() -> TestRepository {
    let own = fs_err::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap();
    let start = own.find("[[package]]\nname = \"itoa\"\n").unwrap();
    let itoa = own[start..].split("\n\n").next().unwrap().trim_end();
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
    };
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        package(
            "bart",
            "[dependencies]\nkernels = { path = \"kernels\" }\nmacros = { path = \"macros\" }\nitoa = \"1\"\n\
             [build-dependencies]\nkernels = { path = \"kernels\" }\nitoa = \"1\"\n\
             [workspace]\nexclude = [\"kernels\"]\nmembers = [\"macros\"]\n",
        ),
    );
    let locked = |name: &str, dependencies: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n{dependencies}\n")
    };
    let lock = [
        "version = 3\n".to_owned(),
        locked("bart", "dependencies = [\n \"itoa\",\n \"kernels\",\n \"macros\",\n]\n"),
        format!("{itoa}\n"),
        locked("kernels", ""),
        locked("macros", "dependencies = [\n \"kernels\",\n]\n"),
    ];
    repository.write("Cargo.lock", lock.join("\n").trim_end().to_owned() + "\n");
    repository.write("kernels/Cargo.toml", package("kernels", "[workspace]\n"));
    repository.write("kernels/src/lib.rs", "pub fn scale() -> Vec<u8> { Vec::with_capacity(700) }\n");
    repository.write(
        "macros/Cargo.toml",
        package("macros", "[lib]\nproc-macro = true\n[dependencies]\nkernels = { path = \"../kernels\" }\n"),
    );
    repository.write(
        "macros/src/lib.rs",
        "use proc_macro::TokenStream;\n#[proc_macro] pub fn size(_: TokenStream) -> TokenStream {\n    \
         kernels::scale().capacity().to_string().parse().unwrap()\n}\n",
    );
    repository.write(
        "build.rs",
        "fn main() { assert_eq!(itoa::Buffer::new().format(kernels::scale().capacity()), \"700\"); }\n",
    );
    repository
        .write("src/lib.rs", "pub fn size() -> usize { macros::size!() + kernels::scale().capacity() }\n");
    repository.write(
        "tests/t.rs",
        "#[test]\nfn sizes() { assert_eq!(itoa::Buffer::new().format(bart::size()), \"1400\"); }\n",
    );
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    repository
}

#[test]
fn what_runs_in_the_build_may_be_of_another_target_than_what_is_traced() {
    let rustc = |arguments: &[&str]| {
        let output = std::process::Command::new("rustc").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let version = rustc(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    let musl = host.replace("-gnu", "-musl");
    let is_installed = |target: &str| {
        let folder = rustc(&["--print", "target-libdir", "--target", target]);
        PathBuf::from(folder.trim()).join("self-contained").exists()
    };
    let mut targets = vec![None, Some(host.as_str())];
    if musl != host && is_installed(&musl) {
        targets.push(Some(&musl));
    } else {
        #[expect(clippy::print_stderr, reason = "what is skipped is said")]
        {
            eprintln!("skipped for {musl}, which is not installed");
        }
    }
    let mut repository = built_twice();
    let arguments = ["--refs", "HEAD,again=HEAD", "--locked", "--trace", "**", "--trace", "itoa::Buffer::*"];
    for target in targets.iter().copied().rev() {
        let of_target = target.map_or_else(Vec::new, |target| vec!["--target", target]);
        let report = report(&repository, &[&arguments[..], &of_target[..]].concat());
        assert_eq!(calls(&report, "HEAD", "kernels::scale"), (1, 700, 0), "{target:?}");
        assert_eq!(calls(&report, "HEAD", "itoa::Buffer::format").0, 1, "{target:?}");
        let dropped = untraced(&report, "HEAD").into_iter().filter(|(_, why)| why.contains("compile when"));
        assert_eq!(dropped.collect::<Vec<_>>(), [], "{target:?}");
    }
    if targets.len() == 3 {
        // A revision can say itself what it is built for.
        repository.write(".cargo/config.toml", format!("[build]\ntarget = '{musl}'\n"));
        repository.commit("musl");
        let arguments = [&["--refs", "old=HEAD~1,new=HEAD"], &arguments[2..]].concat();
        let report = report(&repository, &arguments);
        for name in ["old", "new"] {
            assert_eq!(calls(&report, name, "kernels::scale"), (1, 700, 0), "{name}");
            assert_eq!(calls(&report, name, "itoa::Buffer::format").0, 1, "{name}");
        }
        let reason = format!("the targets differ: the host's / {musl}");
        assert!(report.to_string().contains(&reason), "{report:#}");
    }
}

#[test]
fn a_package_whose_workspace_does_not_load_is_traced_from_a_crate_outside_of_it() {
    let mut repository = TestRepository::new();
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
    };
    repository.write("Cargo.toml", "[workspace]\nmembers = [\"engine\", \"kernels\", \"gone\"]\n");
    repository.write("Cargo.lock", "version = 3\n");
    repository.write(
        "engine/Cargo.toml",
        package("engine", "[dependencies]\nkernels = { path = \"../kernels\" }\n"),
    );
    repository.write("engine/src/lib.rs", "pub fn run() -> Vec<u8> {\n    kernels::scale()\n}\n");
    repository.write("kernels/Cargo.toml", package("kernels", ""));
    repository.write("kernels/src/lib.rs", "pub fn scale() -> Vec<u8> { Vec::with_capacity(700) }\n");
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    repository.git(["branch", "old"]);
    repository.write(
        "kernels/src/lib.rs",
        "pub fn scale() -> Vec<u8> { Vec::with_capacity(900) }\npub fn hides() { mod memprof_shim {} }\n",
    );
    repository.commit("new");
    let test = repository.beside("memory.rs");
    fs_err::write(&test, "#[test]\nfn runs() { assert!(engine::run().is_empty()); }\n").unwrap();
    let overlay = format!("{}=tests/memory.rs", test.display());
    let arguments = [
        "--refs",
        "old,HEAD",
        "--overlay",
        &overlay,
        "--overlay-mode",
        "external",
        "--overlay-package",
        "engine",
    ];
    let traced = ["--trace", "kernels::*", "--trace-lines", "engine::run"];
    let report = report(&repository, &[&arguments[..], &traced[..]].concat());
    for (of, kept) in [("old", 700), ("HEAD", 900)] {
        assert_eq!(calls(&report, of, "kernels::scale"), (1, kept, 0));
        assert_eq!(calls(&report, of, "engine::run"), (1, kept, 0));
        let cells = report["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["ref"] == of).unwrap();
        assert_eq!(cell["trace"]["lines"][0]["line"], 2);
    }
    let untraced = untraced(&report, "HEAD");
    assert_eq!(untraced.len(), 1, "{untraced:?}");
    assert!(untraced[0].1.contains("does not compile when it is traced"), "{untraced:?}");
    let printed = memprof(&repository, &[&arguments[..], &["--trace", "engin::*"]].concat());
    assert_eq!(printed.code, 2, "{}", printed.stderr);
    assert!(printed.stderr.contains("no revision has such a function"), "{}", printed.stderr);
}

/// `fixtures/traced_kinds` as a repository.
fn kinds() -> TestRepository {
    let fixture = |name: &str| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/traced_kinds");
        fs_err::read_to_string(folder.join(name)).unwrap()
    };
    let package = |name: &str, edition: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"{edition}\"\n")
    };
    let editions = ["2015", "2018", "2024"];
    let each = |text: &dyn Fn(&str) -> String| editions.map(text).concat();
    let manifest = package("kinds", "2021")
        + "[workspace]\n[dependencies]\n"
        + &each(&|edition| format!("e{edition} = {{ path = \"e{edition}\" }}\n"));
    let locked =
        |name: &str, rest: &str| format!("\n[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n{rest}");
    let needed = each(&|edition| format!(" \"e{edition}\",\n"));
    let lock = each(&|edition| locked(&format!("e{edition}"), ""));
    let lock = format!("version = 3\n{lock}{}", locked("kinds", &format!("dependencies = [\n{needed}]\n")));
    let mut repository = TestRepository::new();
    for edition in editions {
        repository.write(&format!("e{edition}/Cargo.toml"), package(&format!("e{edition}"), edition));
        repository.write(&format!("e{edition}/src/lib.rs"), fixture(&format!("edition_{edition}.rs")));
    }
    repository.write("e2015/src/unnamed.rs", fixture("edition_2015_unnamed.rs"));
    repository.write("Cargo.toml", manifest);
    repository.write("Cargo.lock", lock);
    repository.write("src/lib.rs", fixture("lib.rs"));
    repository.write("src/crlf.rs", fixture("crlf.rs"));
    repository.write("tests/t.rs", fixture("tests.rs"));
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    repository
}

#[test]
fn functions_of_every_kind_do_what_they_did_and_are_counted() {
    let repository = kinds();
    for flag in ["--trace", "--trace-lines"] {
        let arguments =
            ["--refs", "HEAD,again=HEAD", "--locked", "--repeat", "1", "--format", "json", flag, "**"];
        let printed = memprof(&repository, &arguments);
        // One run a side may say nothing about resident memory; it is not what is asked here.
        assert!([0, 4].contains(&printed.code), "{}", printed.stderr);
        let report: Value = serde_json::from_str(&printed.stdout).unwrap();
        let mut reasons: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        for (path, reason) in untraced(&report, "HEAD") {
            let kind = ["compile when", "a test", "`const fn`", "`async fn`", "does not know"];
            let kind =
                kind.iter().find(|kind| reason.contains(*kind)).unwrap_or_else(|| panic!("{path}: {reason}"));
            *reasons.entry((*kind).to_owned()).or_default() += 1;
        }
        let expected = [("`async fn`", 1), ("`const fn`", 1), ("a test", 4), ("does not know", 2)];
        let reasons: Vec<(&str, usize)> =
            reasons.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        assert_eq!(reasons, expected, "{flag}: nothing is dropped");

        let cells = report["cells"].as_array().unwrap();
        let of_test = |name: &str| {
            let is_it = |cell: &&Value| cell["ref"] == "HEAD" && cell["test"].to_string().contains(name);
            cells.iter().find(is_it).unwrap_or_else(|| panic!("{name} in {cells:#?}"))
        };
        let node = |test: &str, label: &str| {
            let nodes = of_test(test)["trace"]["nodes"].as_object().unwrap();
            let found: Vec<&Value> = nodes.values().filter(|node| node["label"] == label).collect();
            assert_eq!(found.len(), 1, "{label} in {nodes:#?}");
            let number = |key: &str| found[0][key].as_i64().unwrap();
            let figure = |kind: &str, key: &str| found[0][kind][key].as_i64();
            (
                [number("calls"), number("recursive"), number("open")],
                figure("metrics", "heap.consumed"),
                figure("most", "heap.peaked"),
            )
        };
        // Through trait objects: three deep, of which each holds 100 bytes.
        assert_eq!(node("all", "kinds::<Branch as Node>::visit"), ([7, 6, 0], Some(0), Some(300)));
        assert_eq!(node("all", "kinds::<Leaf as Node>::visit"), ([8, 0, 0], Some(0), Some(0)));
        // A panic leaves its payload, and all six calls have ended.
        let (unwound, left, _) = node("all", "kinds::unwinds");
        assert_eq!(unwound, [6, 5, 0]);
        assert!(left.unwrap() < 1000, "{left:?}");
        assert_eq!(node("all", "kinds::caught").0, [1, 0, 0]);
        assert_eq!(node("exit", "kinds::exits"), ([1, 0, 1], None, None));
        assert_eq!(node("threads", "kinds::long_lived"), ([1, 0, 1], None, None));
        assert_eq!(node("more", "kinds::inlined"), ([1, 0, 0], Some(3), Some(0)));
        assert_eq!(node("more", "kinds::größer::lines").0, [1, 0, 0]);
        assert_eq!(node("more", "e2015::Shape::twice").0, [1, 0, 0]);
        assert_eq!(node("more", "e2018::match").0, [1, 0, 0]);
        assert_eq!(node("more", "e2024::local_tail").0, [1, 0, 0]);
        if flag == "--trace" {
            continue;
        }
        let times = |label: &str| -> Vec<u64> {
            let lines = of_test("all")["trace"]["lines"].as_array().unwrap();
            let of = lines.iter().filter(|line| line["label"] == label);
            of.map(|line| line["times"].as_u64().unwrap()).collect()
        };
        // `?` on the second line ends one of three calls, `return` on the fourth another one.
        assert_eq!(times("kinds::question"), [3, 3, 2, 1, 1]);
        let expected = [1, 1, 5, 19, 4, 15, 15, 1, 1, 1, 1, 6, 6, 1, 1, 20, 20, 1, 1];
        assert_eq!(times("kinds::labelled"), expected);
    }
}
