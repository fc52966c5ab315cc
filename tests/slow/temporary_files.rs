//! Temporary files of tests: with the same random numbers, both sides choose the same names for them.

use std::path::Path;

use crate::support::{Printed, TestRepository, isolated, tool};

/// A test that leaves a folder with a random name, which nobody may remove from.
const TESTS: &str = r#"
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::PermissionsExt;

#[test]
fn leaves_a_folder() {
    let number = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let folder = std::env::temp_dir().join(format!("left-{number:x}"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("database"), vec![1; GROWN]).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).unwrap();
}
"#;

fn repository() -> TestRepository {
    let mut repository = TestRepository::new();
    let manifest = "[package]\nname = \"cells\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
    repository.write("Cargo.toml", manifest);
    repository.write("Cargo.lock", "version = 4\n\n[[package]]\nname = \"cells\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    for (name, bytes) in [("old", "1000"), ("new", "5000000")] {
        repository.write("src/lib.rs", TESTS.replace("GROWN", bytes));
        repository.commit(name);
        repository.git(["tag", name]);
    }
    repository
}

fn compare(repository: &TestRepository, temporary: &Path) -> Printed {
    let mut command = tool();
    command.current_dir(repository.root()).env("TMPDIR", temporary);
    command.env("CARGO_MEMPROF_HOME", crate::support::home_at(repository.beside("cache")));
    command.args(["memprof", "--refs", "old,new", "--threshold", "cpu.*=off", "--offline"]);
    Printed::of(command)
}

fn names(folder: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    entries.map(|name| name.to_string_lossy().into_owned()).collect()
}

#[test]
fn no_run_finds_what_another_one_left_and_the_users_own_folder_wins() {
    let repository = repository();
    let temporary = repository.beside("temporary");
    std::fs::create_dir(&temporary).expect("the folder can be made");
    let printed = compare(&repository, &temporary);
    // All runs pass, and those with call stacks, which have the numbers of the first round again.
    assert_eq!(printed.code, 1, "{}", printed.everything());
    assert!(printed.stderr.contains("Explained 1 test with call stacks"), "{}", printed.everything());
    let left = names(&temporary);
    assert!(!left.iter().any(|name| name.starts_with("memprof-") || name.starts_with("left-")), "{left:?}");

    let own = repository.beside("own");
    std::fs::create_dir(&own).expect("the folder can be made");
    repository.write("memprof.yaml", format!("env:\n  TMPDIR: {}\n", own.display()));
    let printed = compare(&repository, &temporary);
    assert_ne!(printed.code, 1, "the second side finds the folder: {}", printed.everything());
    assert!(printed.stdout.contains("File exists"), "{}", printed.everything());
    let left = names(&own);
    assert!(left.iter().all(|name| name.starts_with("left-")) && !left.is_empty(), "{left:?}");
    // The folder cannot be removed without the right to write there.
    isolated("chmod").args(["-R", "u+w"]).arg(&own).status().expect("chmod runs");
}
