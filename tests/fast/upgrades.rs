//! What earlier versions wrote, one folder per version in `fixtures/upgrades`, is read by this one. What a later version
//! wrote is refused, with the version that reads it.

use std::path::{Path, PathBuf};
use std::process::Output;

use fs_err as fs;
use memprof_plan::config::matrix;
use memprof_report::json::schema::Report;
use memprof_support::sealed;

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

/// Makes a file of a run one of a later version, which has nothing else in common with today's.
fn of_a_later_version(file: &Path, tool: Option<&str>) {
    let mut content = serde_json::json!({"version": 1000, "runs": "of another kind", "cell": 7});
    if let Some(tool) = tool {
        content["tool"] = tool.into();
    }
    sealed::write(file.try_into().unwrap(), &content).unwrap();
}

#[track_caller]
fn assert_refused(output: &Output, message: &str, help: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    let here = env!("CARGO_PKG_VERSION");
    assert!(told.contains(&message.replace("HERE", here)) && told.contains(help), "{told}");
}

#[test]
fn files_of_a_later_version_are_refused_and_say_which_version_reads_them() {
    let (_copies, folders) = versions();
    let folder = &folders[0];
    let outcome = folder.join("run/cells/0-main/rows-rows-103644ca/0/outcome.json");
    of_a_later_version(&outcome, None);
    assert_refused(
        &memprof(folder, &["report", "run"]),
        "outcome.json has format 1000, but this cargo-memprof HERE reads no format above ",
        "update cargo-memprof: cargo install cargo-memprof",
    );
    of_a_later_version(&folder.join("run/plan.json"), Some("9.1.0"));
    assert_refused(
        &memprof(folder, &["report", "run"]),
        "plan.json has format 1000 of cargo-memprof 9.1.0, but this cargo-memprof HERE reads no format above ",
        "that version reads it: cargo install cargo-memprof@9.1.0",
    );
    let archive = folder.join("rows.tar.zst");
    let mut bytes = fs::read(&archive).unwrap();
    let title = b"cargo-memprof archive ";
    let at = bytes.windows(title.len()).rposition(|window| window == title).unwrap() + title.len();
    bytes[at..at + 8].copy_from_slice(b"00001000");
    fs::write(&archive, bytes).unwrap();
    assert_refused(
        &memprof(folder, &["run", "--archive", "rows.tar.zst"]),
        "rows.tar.zst has archive format 1000 of cargo-memprof 0.1.0, but this cargo-memprof HERE reads format ",
        "that version reads it: cargo install cargo-memprof@0.1.0",
    );
    fs::write(folder.join("memprof.yaml"), "refs: [main, .]\nzebra: 1\n").unwrap();
    let mistake =
        matrix::parse(&fs::read_to_string(folder.join("memprof.yaml")).unwrap(), "memprof.yaml".into());
    let help = mistake.unwrap_err().help.unwrap();
    assert!(help.contains("a newer cargo-memprof may have more keys"), "{help}");
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
