//! Revisions that old versions of Rust build, down to the oldest that the documentation names.

use std::path::Path;

use crate::support::{TestRepository, home, skip};
use memprof_report::json::schema::Report;

const MIB: i64 = 1 << 20;

/// A folder with `bin/cargo` and `bin/rustc` for each version, separated by `:`.
const VARIABLE: &str = "MEMPROF_TEST_OLD_RUST";

const TEST: &str = r#"
#[test]
fn keeps_rows() {
    let rows = rows::rows(1 << 20);
    memprof::checkpoint!("kept {}", rows.len());
}
"#;

#[test]
fn old_rust_measures_and_traces() {
    let Some(toolchains) = std::env::var_os(VARIABLE).filter(|folders| !folders.is_empty()) else {
        return skip(&format!(
            "{VARIABLE} names no old toolchain, such as that of `rustc +1.63 --print sysroot`"
        ));
    };
    for toolchain in std::env::split_paths(&toolchains) {
        assert_measures(&toolchain);
    }
}

fn assert_measures(toolchain: &Path) {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'rows'\nversion = '0.1.0'\nedition = '2018'\n");
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", "pub fn rows(count: usize) -> Vec<u8> {\n    vec![1; count]\n}\n");
    repository.write("tests/rows.rs", TEST);
    repository.commit("once");
    repository.git(["switch", "--quiet", "--create", "twice"]);
    let twice = "pub fn rows(count: usize) -> Vec<u8> {\n    let twice = vec![1; 2 * count];\n    twice[..count].to_vec()\n}\n";
    repository.write("src/lib.rs", twice);
    repository.commit("twice");

    let bin = toolchain.join("bin");
    let path = std::env::join_paths(
        std::iter::once(bin.clone())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    // A cache of its own: that of all tests has a shim of another version.
    let home = home();
    let mut command = repository.memprof();
    command.env("PATH", path.unwrap()).env("RUSTC", bin.join("rustc")).env("CARGO_MEMPROF_HOME", home.path());
    let arguments = ["main", "twice", "--trace", "rows::rows", "--trace-lines", "rows::rows"];
    let output = command.args(arguments).args(["--format", "json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{}: {told}", toolchain.display());
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    let mut rows = report.rows.iter();
    let row = rows.find(|row| row.metric == "heap.peak" && row.checkpoint == "kept 1048576").unwrap();
    let peaks: Vec<i64> = row.values.values().flatten().map(|reading| reading.value).collect();
    assert_eq!(peaks, [MIB, 3 * MIB], "{}", toolchain.display());
    let traced =
        report.cells.iter().filter(|cell| cell.trace.as_ref().is_some_and(|trace| !trace.is_empty()));
    assert_eq!(traced.count(), report.cells.len(), "{}: {told}", toolchain.display());
    let sites = report.why.expect("call sites").rows;
    assert!(sites.iter().any(|row| row.groups.iter().any(|group| group.name.contains("rows::rows"))));
}
