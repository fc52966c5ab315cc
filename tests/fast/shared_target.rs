//! One target folder for all repositories, as `CARGO_TARGET_DIR` and cargo's configuration can name it.

use camino::{Utf8Path, Utf8PathBuf};
use memprof_build::checkout::cache;

use crate::git::package;
use crate::support::{Printed, TestRepository, home_at, tool};

/// Cleans a repository's caches and runs.
fn clean(repository: &TestRepository, target: &Utf8Path, arguments: &[&str]) -> Printed {
    let mut command = tool();
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home_at(repository.beside("cache")));
    command.env("CARGO_TARGET_DIR", target).args(["memprof", "clean", "--baselines"]).args(arguments);
    Printed::of(command)
}

/// Writes two files of this folder of runs: one of a run, and one of a saved baseline.
fn with_runs(runs: &Utf8Path) -> [Utf8PathBuf; 2] {
    let files =
        ["20261130T101500.000Z-1a2b3c4/plan.json", "baselines/v1/saved.json"].map(|file| runs.join(file));
    for file in &files {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "{}").unwrap();
    }
    files
}

#[test]
fn each_repository_has_its_runs_and_clean_leaves_those_of_others() {
    let shared = tempfile::tempdir().unwrap();
    let target = Utf8Path::from_path(shared.path()).unwrap();
    let (one, other) = (package(), package());
    let runs =
        |repository: &TestRepository| target.join("memprof").join(cache::folder_name(&repository.open()));
    let (of_one, of_other) = (with_runs(&runs(&one)), with_runs(&runs(&other)));
    let cleaned = clean(&one, target, &["--yes"]);
    assert_eq!(cleaned.code, 0, "{}", cleaned.everything());
    assert!(of_one.iter().all(|file| !file.exists()), "{}", cleaned.everything());
    assert!(of_other.iter().all(|file| file.exists()), "{}", cleaned.everything());
}

#[test]
fn a_target_folder_in_the_repository_is_its_own() {
    let repository = package();
    let target = repository.root_utf8().join("build");
    with_runs(&target.join("memprof"));
    let shown = clean(&repository, &target, &["--dry-run"]);
    assert!(shown.stdout.ends_with(&format!(" {target}/memprof\n")), "{}", shown.everything());
}
