//! Programs in place of tests: a binary or an example with its arguments and its standard input.

use serde_json::Value;

use crate::support::traced::{memprof, report};
use crate::support::{Printed, TestRepository};

const MANIFEST: &str = "[package]\nname = \"tool\"\nversion = \"0.1.0\"\nedition = \"2021\"\ndefault-run = \"tool\"\n\n\
     [features]\nfancy = []\n\n[[example]]\nname = \"fancy\"\nrequired-features = [\"fancy\"]\n\n\
     [workspace]\nmembers = [\"one\", \"two\"]\n";

/// Reads its input and fills so many MiB.
const TOOL: &str = r#"
#![forbid(unsafe_code)]
#![deny(warnings)]
use std::io::Read;

fn main() {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).unwrap();
    let sizes: usize = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok()).sum();
    drop(std::hint::black_box(tool::fill(sizes)));
    memprof::checkpoint!("filled");
    drop(std::hint::black_box(vec![1_u8; input.len() << 20]));
    memprof::checkpoint!("read");
}

#[cfg(test)]
mod tests {
    #[test]
    fn unit() {
        drop(std::hint::black_box(tool::fill(5)));
        memprof::checkpoint!("unit");
    }
}
"#;

/// An own allocator, in edition 2015 and without a line of the crate.
const OWN: &str = "use std::alloc::System;\n#[global_allocator]\nstatic ALLOCATOR: System = System;\n\
     fn main() {\n    drop(std::hint::black_box(tool::fill(4)));\n}\n";

const ENDS: &str = r#"
fn main() {
    drop(std::hint::black_box(tool::fill(1)));
    memprof::checkpoint!("filled");
    match std::env::args().nth(1).unwrap().as_str() {
        "return" => {}
        "exit" => std::process::exit(0),
        "code" => std::process::exit(7),
        "_exit" => unsafe {
            extern "C" { fn _exit(code: i32) -> !; }
            _exit(0)
        },
        "abort" => std::process::abort(),
        "panic" => panic!("on purpose"),
        "hang" => std::thread::sleep(std::time::Duration::from_secs(600)),
        "child" => {
            let own = std::env::current_exe().unwrap();
            assert!(std::process::Command::new(own).arg("return").status().unwrap().success());
        }
        other => panic!("{other}"),
    }
}
"#;

/// Fails if the program that a test starts is the one that is measured, with the shim in it.
const COMPANION: &str = r#"
#[test]
fn the_program_of_a_test_is_plain() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_plain")).unwrap();
    let key = b"cargo-memprof-build-key:";
    assert!(!program.windows(key.len()).any(|place| place == key));
}
"#;

/// A workspace in which a library fills twice as much at `new` as at `old`.
fn repository() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("src/lib.rs", "pub fn fill(mib: usize) -> Vec<u8> { vec![1; mib << 20] }\n");
    repository.write("src/main.rs", TOOL);
    repository.write("src/bin/own.rs", OWN);
    repository.write("src/bin/ends.rs", ENDS);
    repository.write("examples/demo.rs", "fn main() { drop(std::hint::black_box(tool::fill(3))); }\n");
    repository.write("examples/fancy.rs", "fn main() {}\n");
    repository.write("src/bin/plain.rs", "fn main() {}\n");
    repository.write("tests/companion.rs", COMPANION);
    for member in ["one", "two"] {
        let manifest = format!("[package]\nname = \"{member}\"\nversion = \"0.1.0\"\nedition = \"2018\"\n");
        repository.write(&format!("{member}/Cargo.toml"), manifest);
        let size = if member == "one" { 1 } else { 2 };
        let main = format!("fn main() {{ drop(std::hint::black_box(vec![1_u8; {size} << 20])); }}\n");
        repository.write(&format!("{member}/src/bin/twin.rs"), main);
    }
    repository.commit("old");
    repository.git(["tag", "old"]);
    repository.write("src/lib.rs", "pub fn fill(mib: usize) -> Vec<u8> { vec![1; mib << 21] }\n");
    repository.write("src/bin/late.rs", "fn main() {}\n");
    repository.commit("new");
    repository.git(["tag", "new"]);
    repository
}

fn parsed(printed: &Printed) -> Value {
    serde_json::from_str(&printed.stdout).unwrap_or_else(|_| panic!("{}", printed.everything()))
}

/// The largest `heap.peak` of a ref at a checkpoint, in whole MiB. All rows of the report have one cell.
fn peak(report: &Value, title: &str, of: &str, checkpoint: &str) -> Option<i64> {
    let cell = report["cells"].as_array().unwrap().iter().find(|cell| cell["title"] == title);
    let cell = cell.unwrap_or_else(|| panic!("no {title} in {:#}", report["cells"]));
    let is_meant = |row: &&Value| {
        row["test"] == cell["test"]
            && row["params"] == cell["params"]
            && row["checkpoint"] == checkpoint
            && row["metric"] == "heap.peak"
    };
    let row = report["rows"].as_array().unwrap().iter().find(is_meant)?;
    Some(row["values"][of]["value"].as_i64()? >> 20)
}

fn outcome<'a>(report: &'a Value, title: &str, of: &str) -> &'a str {
    let cells = report["cells"].as_array().unwrap();
    let found = cells.iter().find(|cell| cell["title"] == title && cell["ref"] == of);
    found.unwrap_or_else(|| panic!("no {title} at {of} in {cells:#?}"))["outcome"].as_str().unwrap()
}

#[test]
fn programs_run_with_the_arguments_and_the_input_of_the_matrix() {
    let repository = repository();
    repository.write("data/in.txt", "12");
    repository.write(
        "memprof.yaml",
        "refs: [old, new]\nrepeat: 1\ntests:\n  - {bin: tool, args: ['{n}', x], stdin: data/in.txt, params: {n: [1, 3]}}\n\
         \x20 - {bin: tool, args: [2], stdin-text: 'abc'}\n  - {example: demo}\n  - {bin: own}\n  - {bin: late}\n\
         \x20 - {bin: twin, package: two}\n  - {bin: plain}\n  - tests::unit\n  - is_plain\n",
    );
    let ran = memprof(&repository, &["--offline", "--format", "json", "--threshold", "*=off"]);
    let report = parsed(&ran);
    for (title, checkpoint, expected) in [
        ("tool 1 x < data/in.txt", "filled", [1, 2]),
        ("tool 3 x < data/in.txt", "filled", [3, 6]),
        ("tool 3 x < data/in.txt", "read", [2, 2]),
        ("tool 2 < stdin-text", "filled", [2, 4]),
        ("tool 2 < stdin-text", "read", [3, 3]),
        ("demo", "done", [3, 6]),
        ("own", "done", [4, 8]),
        ("twin", "done", [2, 2]),
        ("tests::unit", "unit", [5, 10]),
    ] {
        let found = ["old", "new"].map(|of| peak(&report, title, of, checkpoint));
        assert_eq!(found, expected.map(Some), "{title} at {checkpoint}: {}", ran.everything());
    }
    assert_eq!([outcome(&report, "late", "old"), outcome(&report, "late", "new")], ["not_in_this_ref", "ok"]);
    // Cells of one program with other arguments have other names in the rows, too.
    let of_rows = |name: &str| report["rows"].as_array().unwrap().iter().any(|row| row["test"] == name);
    assert!(of_rows("tool::tool 2 < stdin-text") && of_rows("tool::tool 1 x < data/in.txt"));
    assert!(of_rows("tool::demo") && !of_rows("tool::tool"));
    for title in ["plain", "the_program_of_a_test_is_plain"] {
        assert_eq!(["old", "new"].map(|of| outcome(&report, title, of)), ["ok"; 2], "{}", ran.everything());
    }
    let cell =
        report["cells"].as_array().unwrap().iter().find(|cell| cell["title"] == "tool 1 x < data/in.txt");
    let program = &cell.unwrap()["program"];
    assert_eq!((&program["args"][1], &program["stdin"]["name"]), (&"x".into(), &"data/in.txt".into()));
    assert!(program["stdin"]["hash"].is_string(), "{program}");

    // The run continues with the input as it was, and says that the file is another one.
    repository.write("data/in.txt", "12345678");
    let cells = repository.path("target/memprof/latest/cells");
    std::fs::remove_dir_all(cells).unwrap();
    let resumed = memprof(&repository, &["--resume", "--format", "json"]);
    assert!(resumed.stderr.contains("stdin data/in.txt changed since"), "{}", resumed.everything());
    assert_eq!(peak(&parsed(&resumed), "tool 3 x < data/in.txt", "new", "read"), Some(2));
}

#[test]
fn the_command_line_names_a_program_and_what_it_gets() {
    let repository = repository();
    let ran = memprof(
        &repository,
        &["old", "new", "--offline", "--why", "changed", "--bin", "tool", "--", "2", "--fast"],
    );
    assert_eq!(ran.code, 1, "{}", ran.everything());
    assert!(ran.stdout.contains("tool 2 --fast  2.01 → 4.01 MiB"), "{}", ran.everything());
    assert!(ran.stdout.contains("prove old..new --bin tool --arg=2 --arg=--fast"), "{}", ran.everything());
    assert!(ran.stdout.contains("why: +2.00 MiB  tool::fill"), "{}", ran.everything());

    let found = memprof(&repository, &["bisect", "old..new", "--offline", "--bin", "tool", "--arg=2"]);
    assert_eq!(found.code, 0, "{}", found.everything());
    assert!(found.stdout.contains("new"), "{}", found.everything());

    // The tests of the same binary are another build.
    let unit = report(&repository, &["new", "--offline", "--bin-tests", "tool", "--repeat", "1"]);
    assert_eq!(peak(&unit, "tests::unit", "new", "unit"), Some(10));
    assert_eq!(unit["cells"].as_array().unwrap().len(), 1);

    for (flags, expected) in [
        (&["--bin", "tol"][..], "there is no bin 'tol' in old"),
        (&["--bin", "tol"], "did you mean 'bin tool'?"),
        (&["--bin", "twin"], "2 packages have the bin twin: one, two"),
        (&["--bin", "twin"], "choose one: -p one"),
        (&["--example", "fancy"], "requires the features: `fancy`"),
    ] {
        let refused = memprof(&repository, &[&["old", "--offline"], flags].concat());
        assert_eq!(refused.code, 2, "{}", refused.everything());
        assert!(refused.stderr.contains(expected), "{expected}: {}", refused.everything());
    }
}

#[test]
fn how_a_program_ends_is_its_outcome() {
    let repository = repository();
    repository.write(
        "memprof.yaml",
        "tests:\n  - {bin: ends, args: ['{end}'], params: {end: [return, exit, code, _exit, abort, panic, hang, child]}, \
         timeout: 2s}\n\
         \x20 - {bin: ends, name: as expected, args: [code], exit-code: 7}\n\
         \x20 - {bin: ends, name: not as expected, args: [return], exit-code: 7}\n",
    );
    let ran = memprof(&repository, &["old", "--offline", "--repeat", "1", "--format", "json"]);
    assert_eq!(ran.code, 3, "{}", ran.everything());
    let report = parsed(&ran);
    for (end, expected) in [
        ("return", "ok"),
        ("exit", "ok"),
        ("code", "failed"),
        ("_exit", "ok"),
        ("abort", "killed"),
        ("panic", "failed"),
        ("hang", "timeout"),
        ("child", "ok"),
    ] {
        let title = format!("ends {end}");
        assert_eq!(outcome(&report, &title, "old"), expected, "{end}: {}", ran.everything());
    }
    let of_codes = ["as expected", "not as expected"].map(|title| outcome(&report, title, "old"));
    assert_eq!(of_codes, ["ok", "failed"], "{}", ran.everything());
    let cells = report["cells"].as_array().unwrap();
    let cut_off = cells.iter().find(|cell| cell["title"] == "ends _exit").unwrap()["not_compared"].as_str();
    assert!(cut_off.is_some_and(|reason| reason.contains("its log has no end")), "{cut_off:?}");
    // The child has no log: the figures are the program's own.
    let filled = report["rows"].as_array().unwrap().iter();
    let of_child = filled.filter(|row| row["params"]["end"] == "child" && row["checkpoint"] == "filled");
    assert!(of_child.clone().count() > 0);
    assert!(of_child.into_iter().all(|row| row["occurrence"] == 1));
}

#[test]
fn an_archive_carries_programs_with_their_input() {
    let repository = repository();
    repository.write("in.txt", "1234");
    let archive = repository.beside("both.tar.zst");
    let archive = archive.to_str().unwrap();
    let packed = memprof(
        &repository,
        &[
            "build",
            "old",
            "new",
            "--offline",
            "--archive",
            archive,
            "--bin",
            "tool",
            "--stdin",
            "in.txt",
            "--",
            "2",
        ],
    );
    assert_eq!(packed.code, 0, "{}", packed.everything());
    std::fs::remove_file(repository.path("in.txt")).unwrap();
    let ran = memprof(&repository, &["run", "--archive", archive, "--format", "json"]);
    let report = parsed(&ran);
    let title = "tool 2 < in.txt";
    assert_eq!(["old", "new"].map(|of| peak(&report, title, of, "filled")), [Some(2), Some(4)]);
    assert_eq!(["old", "new"].map(|of| peak(&report, title, of, "read")), [Some(4), Some(4)]);
}

/// Starts the example that cargo builds beside the tests, as rust-csv's tests do, and a binary by the
/// same way.
const STARTS: &str = r#"
#[test]
fn starts() {
    let own = std::env::current_exe().unwrap();
    let profile = own.parent().unwrap().parent().unwrap();
    for program in ["examples/told", "tells"] {
        let output = std::process::Command::new(profile.join(program)).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), starts::TOLD, "{program}");
    }
}
#[test]
fn twice() {}
#[test]
fn returns() -> Result<(), String> { Err("bad result".to_owned()) }
"#;

#[test]
fn tests_start_the_examples_and_binaries_of_their_own_revision() {
    let mut repository = TestRepository::new();
    let manifest = "[package]\nname = \"starts\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    repository.write("Cargo.toml", manifest);
    let tells = "fn main() { print!(\"{}\", starts::TOLD) }\n";
    repository.write("examples/told.rs", tells);
    repository.write("src/bin/tells.rs", tells);
    repository.write("tests/one.rs", STARTS);
    repository.write("tests/two.rs", "#[test]\nfn twice() {}\n");
    for name in ["old", "new"] {
        repository.write("src/lib.rs", format!("pub const TOLD: &str = \"{name}\";\n"));
        repository.commit(name);
        repository.git(["tag", name]);
    }
    let arguments = ["--refs", "old,new", "--offline", "--repeat", "1", "--format", "json"];
    let printed = memprof(&repository, &arguments);
    let report = parsed(&printed);
    let cells = report["cells"].as_array().unwrap();
    let of = |test: &str| cells.iter().filter(|cell| cell["title"] == test).collect::<Vec<_>>();
    let is_ok = |cell: &&Value| cell["outcome"] == "ok";
    assert!(of("starts").len() == 2 && of("starts").iter().all(is_ok), "{}", printed.everything());
    assert!(of("twice").len() == 4 && of("twice").iter().all(is_ok), "{}", printed.everything());
    assert_eq!(of("returns")[0]["message"], "Error: \"bad result\"", "{}", printed.everything());
    assert!(printed.stderr.contains("Ran 4 tests 8/8, 2 failed"), "two of one name: {}", printed.stderr);
    assert_eq!(report["verdict"]["tests"][0]["tests"], 4);

    repository.write("examples/broken.rs", "fn main() { starts::absent() }\n");
    repository.write("src/lib.rs", "pub const TOLD: &str = \"newer\";\n");
    repository.commit("broken");
    let printed =
        memprof(&repository, &["HEAD", "--offline", "--repeat", "1", "-k", "twice", "--format", "json"]);
    assert_eq!(printed.code, 0, "the tests are measured all the same: {}", printed.everything());
    let notes = parsed(&printed)["notes"].to_string();
    assert!(notes.contains("a binary or an example of HEAD (") && notes.contains("absent"), "{notes}");
}
