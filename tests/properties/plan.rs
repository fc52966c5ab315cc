//! `plan.json`, which `--resume` and `report` read from a folder that anybody can name.

use camino::Utf8PathBuf;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_plan::resolved::Plan;

use super::Target;
use super::comparing::{passed, plan, render_everything};

pub const TARGET: Target = Target {
    name: "plan",
    check,
    seeds,
    words: &[
        "null",
        "\"baseline\": 1",
        "\"version\": 2",
        "[]",
        "{}",
        "\"refs\": []",
        "\"Ref\"",
        "merge-base",
        "1.5",
        "true",
        "\"off\"",
    ],
};

/// A plan survives being written. An error names the file and the place in it.
pub fn check(bytes: &[u8]) {
    if let Ok(plan) = serde_json::from_slice::<Plan>(bytes) {
        let written = serde_json::to_vec_pretty(&plan).expect("a plan has a JSON form");
        assert_eq!(serde_json::from_slice::<Plan>(&written).expect("it was written"), plan);
    }
    let (_guard, folder) = folder();
    let record = serde_json::to_vec(&passed(1)).expect("an outcome has a JSON form");
    write(&folder, "cells/1-pr/forward/0/outcome.json", &record);
    write(&folder, "plan.json", bytes);
    // A plan with fewer revisions makes the outcome wrong.
    read(&folder, &["plan.json", "outcome.json"]);
}

/// Reads a run's folder. An error names one of these files.
pub fn read(folder: &RunFolder, files: &[&str]) {
    match stored::read(folder) {
        Ok(results) => render_everything(&results),
        Err(error) => {
            let error = format!("{error:#}");
            assert!(files.iter().any(|file| error.contains(file)), "{error}");
        }
    }
}

/// A new folder, and its guard.
pub fn folder() -> (tempfile::TempDir, RunFolder) {
    let guard = tempfile::tempdir().expect("a temporary folder");
    let path = Utf8PathBuf::from_path_buf(guard.path().to_owned()).expect("its path is text");
    (guard, RunFolder(path))
}

/// Writes a file below a run's folder.
pub fn write(folder: &RunFolder, path: &str, bytes: &[u8]) {
    let path = folder.0.join(path);
    std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("the folder can be made");
    std::fs::write(path, bytes).expect("the file can be written");
}

fn seeds() -> Vec<Vec<u8>> {
    let mut full = plan();
    full.request = serde_json::from_value(serde_json::json!({})).unwrap_or_default();
    full.overlay_commits = vec![None, Some("c".repeat(40))];
    [plan(), full].map(|plan| serde_json::to_vec_pretty(&plan).expect("a plan has a JSON form")).into()
}
