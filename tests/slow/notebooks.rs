//! `cargo memprof notebook`: real notebooks, built and run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::traced::memprof;
use crate::support::{Printed, TestRepository, home_at, skip, tool};

const ROWS: &str = include_str!("../../fixtures/notebooks/rows.ipynb");

/// The tool in a folder that is in no repository.
fn alone(folder: &Path, arguments: &[&str]) -> Printed {
    let mut command: Command = tool();
    command.current_dir(folder).env("CARGO_MEMPROF_HOME", home_at(folder.join("home")));
    command.env("GIT_CEILING_DIRECTORIES", folder).arg("memprof").arg("notebook").args(arguments);
    Printed::of(command)
}

/// A notebook as Jupyter writes it. Each cell has an id and a text.
fn notebook(cells: &[(&str, &str)]) -> String {
    let cell = |(id, source): &(&str, &str)| json!({"cell_type": "code", "execution_count": null, "id": id, "metadata": {}, "outputs": [], "source": source});
    let cells: Vec<Value> = cells.iter().map(cell).collect();
    json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).to_string()
}

/// The figures in the outputs of each code cell, by its id.
fn figures(text: &str) -> BTreeMap<String, Value> {
    let notebook: Value = serde_json::from_str(text).unwrap();
    let cells = notebook["cells"].as_array().unwrap().iter();
    let of_memprof = cells.filter_map(|cell| {
        let outputs = cell["outputs"].as_array()?;
        let report = outputs.iter().find(|output| output["metadata"].get("memprof").is_some())?;
        Some((cell["id"].as_str()?.to_owned(), report["metadata"]["memprof"].clone()))
    });
    of_memprof.collect()
}

/// `heap.consumed` and `heap.peaked` of a cell.
fn heap(figures: &BTreeMap<String, Value>, id: &str) -> (i64, i64) {
    let figure = |name: &str| figures[id][name].as_i64().unwrap();
    (figure("heap.consumed"), figure("heap.peaked"))
}

#[test]
fn each_cell_has_the_figures_that_can_be_computed_by_hand_and_write_stores_them() {
    const MIB: i64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.ipynb");
    std::fs::write(&file, ROWS).unwrap();
    let printed = alone(folder.path(), &["rows.ipynb", "--offline", "--write=copy.ipynb"]);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ROWS, "only the copy has the report");
    let copy = std::fs::read_to_string(folder.path().join("copy.ipynb")).unwrap();
    let of_cells = figures(&copy);
    // 16 pointers with length and capacity.
    assert_eq!(heap(&of_cells, "capacity"), (16 * 24, 0));
    assert_eq!(heap(&of_cells, "rows"), (4 * MIB, 0));
    // Two copies of 1 MiB and the 2 MiB that they become.
    assert_eq!(heap(&of_cells, "both"), (2 * MIB, 2 * MIB));
    assert_eq!(heap(&of_cells, "smaller"), (MIB / 2, 0), "the new `row` makes half of it");
    assert_eq!(heap(&of_cells, "parsed"), (0, 0));
    assert_eq!(heap(&of_cells, "truncate"), (-(3 * MIB + MIB / 2), 0), "what is displayed allocates nothing");
    assert!(of_cells["rows"]["time"].as_i64().is_some() && of_cells["rows"]["cpu.used"].as_i64().is_some());
    for part in ["cell 3: let both: Vec<u8>", "2.00 MiB  2.00 MiB", "rows.ipynb · resident"] {
        assert!(printed.stdout.contains(part), "{part}: {}", printed.everything());
    }

    // In place, and in the place of the earlier report. What is not a report stays as it was.
    let flags = ["--offline", "--write", "--compact", "--trace-cell", "3", "--trace", "**::row", "--live"];
    let again = alone(folder.path(), &[&["copy.ipynb"], &flags[..]].concat());
    assert_eq!(again.code, 0, "{}", again.everything());
    for part in
        [" Time", "copy::row #5", "3002 let both: Vec<u8> = [rows[0].clone(), rows[1].clone()].concat(); "]
    {
        assert!(again.stdout.contains(part), "{part}: {}", again.everything());
    }
    for part in ["start: ", "cell 2: fn row(size: usize) -> Vec<u8> { (scope): ", "heap +4.00 MiB", "done: "]
    {
        assert!(again.stderr.contains(part), "{part}: {}", again.everything());
    }
    let absent = alone(folder.path(), &["copy.ipynb", "--trace-cell", "9"]);
    assert_eq!(absent.code, 2, "{}", absent.everything());
    assert!(absent.stderr.contains("there is no cell 9"), "{}", absent.everything());
    let unchecked = alone(folder.path(), &["copy.ipynb", "--threshold", "heap.peak=1KiB"]);
    assert_eq!(unchecked.code, 2, "{}", unchecked.everything());
    assert!(unchecked.stderr.contains("there is only one revision"), "{}", unchecked.everything());
    let written = std::fs::read_to_string(folder.path().join("copy.ipynb")).unwrap();
    assert_eq!(written.matches("\"memprof\"").count(), 6);
    assert_eq!(heap(&figures(&written), "both"), (2 * MIB, 2 * MIB));
    let without_reports = |text: &str| {
        let mut notebook: Value = serde_json::from_str(text).unwrap();
        notebook["cells"].as_array_mut().unwrap().iter_mut().for_each(|cell| {
            if let Some(outputs) = cell.get_mut("outputs") {
                *outputs = json!([]);
            }
        });
        notebook
    };
    assert_eq!(without_reports(&written), serde_json::from_str::<Value>(ROWS).unwrap());
}

#[test]
fn two_refs_are_compared_cell_by_cell_inside_and_outside_of_the_repository() {
    let mut repository = TestRepository::new();
    repository
        .write("Cargo.toml", "[package]\nname = \"buffers\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"buffers\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "target\n");
    repository.write("src/lib.rs", "pub fn make() -> Vec<u8> { vec![1; 1 << 20] }\n");
    let dependency = ":dep buffers = { path = \"..\" }\nlet made = buffers::make();";
    repository.write("notes/use.ipynb", notebook(&[("make", dependency), ("len", "made.len()")]));
    repository.commit("Start");
    repository.write("src/lib.rs", "pub fn make() -> Vec<u8> { vec![1; 3 << 20] }\n");
    let text =
        notebook(&[("new", "let first = vec![0_u8; 64];"), ("make", dependency), ("len", "made.len()")]);
    repository.write("notes/use.ipynb", &text);

    let outside = tempfile::tempdir().unwrap();
    let other = outside.path().join("other.ipynb");
    std::fs::write(&other, notebook(&[("x", ":dep .\nlet made = buffers::make();")])).unwrap();
    let other = other.to_str().unwrap();
    let flags = ["--refs", "HEAD,.", "--offline", "--repeat", "2"];
    let written = outside.path().join("out.ipynb");
    let write = format!("--write={}", written.display());
    let arguments = ["notebook", "notes/use.ipynb", &write, "--trace-cell", "2"];
    let inside = memprof(&repository, &[&arguments[..], &flags].concat());
    assert_eq!(inside.code, 1, "{}", inside.everything());
    // The cell has moved, and is still the same one.
    assert!(inside.stdout.contains("+ cell 1: let first"), "{}", inside.everything());
    let row = inside.stdout.lines().find(|line| line.contains(" cell 2: let made") && line.contains('+'));
    assert!(row.is_some_and(|row| row.contains("+2.00 MiB")), "{}", inside.everything());
    // So are its lines: the second one is that of the cell in both revisions.
    let line = inside.stdout.lines().find(|line| line.contains("2002 let made = buffers::make();"));
    assert!(
        line.is_some_and(|line| line.contains("1.00 MiB") && line.contains("3.00 MiB")),
        "{}",
        inside.everything()
    );
    let written = std::fs::read_to_string(written).unwrap();
    assert_eq!(heap(&figures(&written), "make"), (3 << 20, 0));
    assert!(written.contains("heap: consumed 3.00 MiB (+2.00 MiB)"), "{written}");
    assert_eq!(repository.git(["status", "--porcelain"]), " M notes/use.ipynb\n M src/lib.rs");

    let compared = memprof(&repository, &[&["notebook", other, "--compact"][..], &flags].concat());
    assert_eq!(compared.code, 1, "{}", compared.everything());
    assert!(compared.stdout.contains("3.00 MiB  +2.00 MiB"), "{}", compared.everything());
    let absent = memprof(&repository, &["notebook", "notes/use.ipynb", "--refs", "HEAD~7,."]);
    assert_eq!(absent.code, 2, "{}", absent.everything());
}

#[test]
fn a_cell_that_fails_is_named_and_the_cells_before_it_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("question", "let n = 1;\nlet m: u8 = \"x\".parse()?;", "cell 2, line 2: invalid digit"),
        ("exits", "std::process::exit(0);", "cell 2 ended the program with exit code 0"),
        ("panics", "\nlet none: Option<u8> = None;\nnone.unwrap();", "cell 2, line 3"),
    ];
    for (name, source, expected) in cases {
        let text = notebook(&[("a", "let kept = vec![0_u8; 1 << 20];"), ("b", source)]);
        std::fs::write(folder.path().join(format!("{name}.ipynb")), text).unwrap();
        let printed = alone(folder.path(), &[&format!("{name}.ipynb"), "--offline"]);
        assert_eq!(printed.code, 3, "{}", printed.everything());
        assert!(printed.stdout.contains(expected), "{}", printed.everything());
        let before =
            printed.stdout.lines().any(|line| line.contains("cell 1: let kept") && line.contains("1.00 MiB"));
        assert!(before, "{}", printed.everything());
    }
    let text = notebook(&[("a", "let a = 1;\nlet b: String = a;")]);
    std::fs::write(folder.path().join("types.ipynb"), text).unwrap();
    let printed = alone(folder.path(), &["types.ipynb", "--offline"]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    assert!(printed.stderr.contains("--> cell 1, line 2"), "{}", printed.everything());
    assert!(!printed.stdout.contains("no scope was logged"), "{}", printed.everything());
    std::fs::write(folder.path().join("shell.ipynb"), notebook(&[("a", "let a = 1;\n!ls")])).unwrap();
    let refused = alone(folder.path(), &["shell.ipynb"]);
    assert_eq!(refused.code, 2, "{}", refused.everything());
    assert!(refused.stderr.contains("error: shell.ipynb: cell 1, line 2: `!ls`"), "{}", refused.everything());
    assert!(refused.stderr.contains("help: "), "{}", refused.everything());

    let made = folder.path().join("home-notebooks");
    assert!(made.exists(), "{}", printed.everything());
    let clean = |arguments: &[&str]| {
        let mut command: Command = tool();
        command.current_dir(folder.path()).env("CARGO_MEMPROF_HOME", home_at(folder.path().join("home")));
        command.args(["memprof", "clean", "--notebooks"]).args(arguments);
        Printed::of(command)
    };
    let of_other_kind = clean(&["--baseline", "v1", "--yes"]);
    assert!(of_other_kind.code == 2 && made.exists(), "{}", of_other_kind.everything());
    let would = clean(&["--dry-run"]);
    assert!(would.stdout.contains("home-notebooks\n"), "{}", would.everything());
    let asked = clean(&[]);
    assert!(asked.stderr.contains("help: cargo memprof clean --notebooks --yes"), "{}", asked.everything());
    assert!(made.exists());
    let cleaned = clean(&["--yes"]);
    assert!(cleaned.code == 0 && !made.exists(), "{}", cleaned.everything());
}

/// Runs a command. Returns its output if it succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_live_kernel_shows_what_was_measured_in_its_cells() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = root.join("crates/memprof");
    if !library.is_dir() {
        return skip("crates/memprof is not here; it is a package of its own");
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let kernel =
        std::env::split_paths(&paths).map(|path| path.join("evcxr_jupyter")).find(|path| path.is_file());
    let Some(kernel) = kernel else {
        return skip("evcxr_jupyter is not installed: cargo install --locked evcxr_jupyter");
    };
    if output("python3", &["-c", "import jupyter_client"]).is_none() {
        return skip("python3 has no jupyter_client: pip install jupyter_client");
    }
    let script = root.join("fixtures/notebooks/kernel.py");
    let arguments = [script.as_path(), &kernel, &library].map(|path| path.to_str().unwrap());
    let printed = output("python3", &arguments).expect("the kernel runs the cells");
    let cells: Vec<Value> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("CELL "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let plain = |cell: usize| cells[cell]["text/plain"].as_str().unwrap_or_default().to_owned();
    // malloc rounds sizes, and resident memory is in pages.
    assert!(plain(1).contains("heap: consumed 16.0 MiB"), "{cells:#?}");
    assert!(plain(1).contains("peak unavailable (malloc keeps no peak"), "{cells:#?}");
    let html = cells[2]["text/html"].as_str().unwrap_or_default();
    assert!(
        html.contains("<td>first</td><td>consumed 8.0") && html.contains("second &lt;x&gt;"),
        "{cells:#?}"
    );
    assert!(
        plain(2).contains("first: heap: consumed 8.0") && plain(2).contains("GPUs are NVML's figure"),
        "{cells:#?}"
    );
    assert_eq!(plain(3), "0", "the reports were shown: {cells:#?}");
}
