//! What earlier versions wrote, one folder per version in `fixtures/upgrades`, is read by this one.

use std::path::{Path, PathBuf};
use std::process::Output;

use fs_err as fs;
use memprof_plan::config::matrix;
use memprof_report::json::schema::Report;

use crate::support::isolated;

const MIB: i64 = 1 << 20;

/// Copies of the versions' folders, in one temporary folder.
fn versions() -> (tempfile::TempDir, Vec<PathBuf>) {
    let copies = tempfile::tempdir().unwrap();
    let upgrades = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/upgrades");
    let mut folders = Vec::new();
    for entry in walkdir::WalkDir::new(&upgrades).min_depth(1) {
        let entry = entry.unwrap();
        let copy = copies.path().join(entry.path().strip_prefix(&upgrades).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir(&copy).unwrap();
            folders.extend((entry.depth() == 1).then_some(copy));
        } else {
            fs::copy(entry.path(), &copy).unwrap();
        }
    }
    assert!(!folders.is_empty(), "there are versions to read");
    (copies, folders)
}

fn memprof(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = isolated(assert_cmd::cargo::cargo_bin("cargo-memprof"));
    let home = folder.join("home");
    command.env("HOME", &home).env("CARGO_MEMPROF_HOME", home.join("cache"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// The figures of `heap.peak` at the end of the test, at both revisions.
#[track_caller]
fn assert_figures(report: &str) {
    let report: Report = serde_json::from_str(report).unwrap();
    let mut rows = report.rows.iter();
    let row = rows.find(|row| row.metric == "heap.peak" && row.checkpoint == "done").expect("a row");
    let values: Vec<i64> = row.values.values().flatten().map(|reading| reading.value).collect();
    assert_eq!((&*row.test, values), ("rows::rows::keeps_rows", vec![MIB, 3 * MIB]));
}

#[test]
fn the_folder_of_a_run_is_read_and_judged_by_its_budget() {
    let (_copies, folders) = versions();
    for folder in folders {
        let output =
            memprof(&folder, &["report", "run", "--format", "json", "--budget", "memprof-budget.json"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "one run a side: {}: {told}", folder.display());
        assert_figures(&String::from_utf8(output.stdout).unwrap());
    }
}

#[test]
fn memprof_yaml_is_read() {
    let (_copies, folders) = versions();
    for folder in folders {
        let text = fs::read_to_string(folder.join("memprof.yaml")).unwrap();
        let read = matrix::parse(&text, "memprof.yaml".into());
        assert!(read.is_ok(), "{}: {:?}", folder.display(), read.err());
    }
}

/// Archives of a format that this version does not read name it.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#[test]
fn an_archive_is_run() {
    let (_copies, folders) = versions();
    for folder in folders {
        let arguments =
            ["run", "--archive", "rows.tar.zst", "--run-folder", "again", "--output", "again.json"];
        let output = memprof(&folder, &arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{}: {told}", folder.display());
        assert_figures(&fs::read_to_string(folder.join("again.json")).unwrap());
    }
}
