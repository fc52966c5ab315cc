//! Whole runs of the program: what they keep, refuse, resume and leave alone.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::csv::{command, kept, memprof, values};
use crate::support::zoo::ZooRepository;
use crate::support::{assert_same_bytes, every_byte, home, isolated, succeed};

#[test]
fn scopes_and_what_grew_most_are_shown_of_one_ref_too() {
    let repository = ZooRepository::of("single");
    let home = home();
    let one = |view: &str| {
        let arguments = ["--refs", "new", "--offline", "-k", "keeps_through", "--view", view];
        memprof(&repository.root(), home.path(), &arguments)
    };
    let scopes = one("scopes");
    assert!(scopes.code == 0 && scopes.stdout.starts_with("no scope was logged"), "{}", scopes.everything());
    let top = one("top");
    assert!(top.code == 0 && top.stdout.contains("start → done"), "{}", top.everything());
}

#[test]
fn a_filter_that_meets_no_test_leaves_the_last_run_to_be_reported() {
    let repository = ZooRepository::of("single");
    let home = home();
    let run = |arguments: &[&str]| memprof(&repository.root(), home.path(), arguments);
    let measured = run(&["--refs", "old,new", "--offline", "-k", "program", "--format", "csv"]);
    assert_eq!(measured.code, 0, "{}", measured.everything());
    assert_eq!(run(&["--refs", "old,new", "--offline", "-k", "nosuch"]).code, 2);
    assert_eq!(run(&["report", "--format", "csv"]).stdout, measured.stdout);
    let unknown = run(&["report", "nosuch"]);
    assert!(!unknown.stderr.contains("is latest"), "{}", unknown.everything());
}

#[test]
fn what_no_ref_has_is_a_mistake_and_not_a_run() {
    let repository = ZooRepository::of("single");
    let home = home();
    for (flag, name, nearest) in [
        ("-p", "singel", "`single`"),
        ("--profile", "nosuch", ""),
        ("--features", "nosuch", ""),
        ("--target", "x86_64-unknown-linux-gno", "'x86_64-unknown-linux-gnu'"),
        ("--toolchain", "0.1-nosuch", ""),
    ] {
        let arguments = ["--refs", "old,new", "--offline", flag, name];
        let printed = memprof(&repository.root(), home.path(), &arguments);
        assert_eq!(printed.code, 2, "{}", printed.everything());
        let (_, error) =
            printed.stderr.split_once("error: no ref can be built as requested").expect("an error");
        assert!(error.contains(name) && error.contains(nearest), "{}", printed.everything());
        assert!(!printed.stderr.contains("Stack backtrace"), "{}", printed.everything());
    }
    assert!(!repository.root().join("target/memprof/latest").exists());
}

/// The whole outcome of each run, from the JSON that `outcome.json` is.
fn outcomes(root: &Path) -> BTreeMap<(usize, String), serde_json::Value> {
    let latest = root.join("target/memprof/latest/cells");
    let latest = latest.canonicalize().expect("a run was kept");
    let files = walkdir::WalkDir::new(latest).into_iter().filter_map(Result::ok);
    files
        .filter(|entry| entry.file_name() == "outcome.json")
        .map(|entry| {
            let text = std::fs::read(entry.path()).expect("an outcome can be read");
            let outcome: serde_json::Value = serde_json::from_slice(&text).expect("an outcome is JSON");
            let revision = outcome["revision"].as_u64().expect("a revision");
            let name = outcome["cell"]["test"]["name"].as_str().expect("a test").to_owned();
            ((usize::try_from(revision).expect("an index"), name), outcome)
        })
        .collect()
}

#[test]
fn every_ending_of_a_test_is_an_outcome() {
    let repository = ZooRepository::of("failing");
    let home = home();
    let printed =
        memprof(&repository.root(), home.path(), &["--refs", "old,new", "--offline", "--timeout", "2s"]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    let outcomes = outcomes(&repository.root());
    let of =
        |test: &str| outcomes.get(&(0, test.to_owned())).unwrap_or_else(|| panic!("no outcome of {test}"));
    let expected = [
        ("passes", "ok", ""),
        ("passes_by_panicking", "ok", ""),
        ("panics", "failed", "the cache should hold three entries"),
        ("returns_an_error", "failed", ""),
        ("aborts", "killed", ""),
        ("segfaults", "killed", ""),
        ("exits_with_7", "failed", ""),
        ("runs_out_of_memory", "out_of_memory", "1152921504606846976 bytes"),
        ("sleeps_with_a_child", "timeout", ""),
        ("leaves_a_child_behind", "ok", ""),
        ("is_ignored", "ignored", ""),
    ];
    for (test, outcome, message) in expected {
        let found = of(test);
        assert_eq!(found["outcome"], outcome, "{test}: {found:#}");
        assert!(found["message"].as_str().unwrap_or_default().contains(message), "{test}: {found:#}");
    }
    assert_eq!(of("exits_with_7")["exit_code"], 7);
    assert_eq!(of("aborts")["signal"], 6);
    assert_eq!(of("segfaults")["signal"], 11);
    // The checkpoints before a crash are kept and shown.
    assert!(printed.stdout.contains("killed by signal 6 (SIGABRT)"), "{}", printed.everything());
}

#[test]
fn the_second_run_of_a_comparison_calls_cargo_for_no_build() {
    let repository = ZooRepository::of("single");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "--format", "csv"];
    let first = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(first.code, 0, "{}", first.everything());
    assert!(first.stderr.contains("Built"), "{}", first.everything());
    // Without a target folder, any build would have to compile everything anew.
    let cache = only_folder(home.path());
    std::fs::remove_dir_all(cache.join("target")).expect("there was a build");
    let second = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(second.code, 0, "{}", second.everything());
    assert!(!second.stderr.contains("Built"), "{}", second.everything());
    assert!(!cache.join("target/debug/.fingerprint").exists(), "cargo has built");
    assert_eq!(kept(&values(&first)), kept(&values(&second)));
}

fn only_folder(home: &Path) -> std::path::PathBuf {
    let folders = std::fs::read_dir(home).expect("the cache").filter_map(Result::ok);
    let mut of_repositories =
        folders.map(|entry| entry.path()).filter(|path| path.join("repository").exists());
    of_repositories.next().expect("one repository")
}

#[test]
fn a_build_that_cargo_wrongly_calls_fresh_is_not_measured() {
    let repository = ZooRepository::of("single");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "--format", "csv", "-k", "keep"];
    let first = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(first.code, 0, "{}", first.everything());
    let cache = only_folder(home.path());
    std::fs::remove_dir_all(cache.join("store")).expect("there is a store");
    // Cargo compares times: with these, every crate looks newer than any source that will be checked out.
    let future = std::time::SystemTime::now() + std::time::Duration::from_hours(24);
    for entry in walkdir::WalkDir::new(cache.join("target")).into_iter().filter_map(Result::ok) {
        if entry.file_type().is_file() {
            let file = std::fs::File::options().append(true).open(entry.path()).expect("a file of the build");
            file.set_modified(future).expect("a time can be set");
        }
    }
    let second = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(second.code, 0, "{}", second.everything());
    assert_eq!(kept(&values(&first)), kept(&values(&second)), "{}", second.everything());
}

#[test]
fn executables_that_were_swapped_in_the_store_are_built_again() {
    let repository = ZooRepository::of("single");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "-k", "keeps_through"];
    let first = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(first.code, 0, "{}", first.everything());
    let executables: Vec<_> = walkdir::WalkDir::new(only_folder(home.path()).join("store"))
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().contains("keep-"))
        .map(|entry| entry.path().to_owned())
        .collect();
    let [one, other] = &executables[..] else { panic!("one executable a revision: {executables:?}") };
    let (a, b) = (std::fs::read(one).expect("bytes"), std::fs::read(other).expect("bytes"));
    std::fs::write(one, b).expect("swapped");
    std::fs::write(other, a).expect("swapped");
    let second = memprof(&repository.root(), home.path(), &[&arguments[..], &["--format", "csv"]].concat());
    assert!(second.stderr.contains("is not the executable that was built"), "{}", second.everything());
    let kept = kept(&values(&second));
    let at = |name: &str| kept[&("single::keep::keeps_through_the_library".to_owned(), name.to_owned())];
    assert!(second.code == 0 && at("new") > at("old") + (1 << 19), "{}", second.everything());
}

#[test]
fn a_whole_run_leaves_the_users_repository_as_it_was() {
    let repository = ZooRepository::of("single");
    let root = repository.root();
    let git = |arguments: &[&str]| succeed(isolated("git").current_dir(&root).args(arguments));
    let library = std::fs::read_to_string(root.join("src/lib.rs")).expect("the library");
    std::fs::write(root.join("src/lib.rs"), format!("{library}// stashed\n")).expect("written");
    git(&["stash"]);
    std::fs::write(root.join("src/lib.rs"), format!("{library}// staged\n")).expect("written");
    git(&["add", "src/lib.rs"]);
    std::fs::write(root.join("src/lib.rs"), format!("{library}// neither\n")).expect("written");
    std::fs::write(root.join("notes.txt"), "untracked").expect("written");
    let hook = root.join(".git/hooks/post-checkout");
    std::fs::create_dir_all(root.join(".git/hooks")).expect("hooks");
    std::fs::write(&hook, "#!/bin/sh\ntouch \"$GIT_DIR/hook-ran\" hook-ran\n").expect("a hook");
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");

    let ours = |path: &Path| {
        ["target", ".git/objects", ".git/refs/memprof", ".git/worktrees"]
            .iter()
            .any(|skip| path.starts_with(skip))
    };
    let before = every_byte(&root, ours);
    let home = home();
    let printed = memprof(&root, home.path(), &["--refs", "old,new,.", "--offline", "-k", "keeps_through"]);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert_same_bytes(&before, &every_byte(&root, ours));

    let asked = memprof(&root, home.path(), &["clean"]);
    assert_eq!(asked.code, 2, "{}", asked.everything());
    assert!(asked.stderr.contains("help: cargo memprof clean --yes"), "{}", asked.everything());
    assert!(asked.stderr.contains("target/memprof") && root.join("target/memprof").exists());
    let cleaned = memprof(&root, home.path(), &["clean", "--yes"]);
    assert!(cleaned.stdout.contains("bytes"), "{}", cleaned.everything());
    for left in ["target/memprof", ".git/refs/memprof", ".git/worktrees"] {
        assert!(!root.join(left).exists(), "{left} is still there");
    }
    assert_same_bytes(&before, &every_byte(&root, ours));
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let repository = ZooRepository::of("shared-root");
    let home = home();
    let mut child = command(&repository.root(), home.path(), &["--refs", "old,new", "--offline"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let cells = repository.root().join("target/memprof/latest/cells");
    let finished = || {
        let files = walkdir::WalkDir::new(&cells).into_iter().filter_map(Result::ok);
        let outcomes = files.filter(|entry| entry.file_name() == "outcome.json");
        outcomes.map(|entry| entry.path().to_owned()).collect::<Vec<_>>()
    };
    while finished().len() < 3 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("it was running");
    child.wait().expect("it was killed");
    let before: BTreeMap<_, _> = finished()
        .into_iter()
        .map(|path| {
            let time = path.metadata().and_then(|metadata| metadata.modified()).expect("a time");
            (path, time)
        })
        .collect();
    let resumed = memprof(&repository.root(), home.path(), &["--resume", "--format", "csv"]);
    assert_eq!(resumed.code, 0, "{}", resumed.everything());
    for (path, time) in &before {
        let now = path.metadata().and_then(|metadata| metadata.modified()).expect("it is still there");
        assert_eq!(now, *time, "{} was run again", path.display());
    }
    let whole =
        memprof(&repository.root(), home.path(), &["--refs", "old,new", "--offline", "--format", "csv"]);
    assert_eq!(kept(&values(&resumed)), kept(&values(&whole)), "{}", resumed.everything());
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_leaves_no_process() {
    let repository = ZooRepository::of("failing");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "-k", "sleeps_with_a_child or passes"];
    let child = command(&repository.root(), home.path(), &arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let cells = repository.root().join("target/memprof/latest/cells");
    let sleeping = || {
        let files = walkdir::WalkDir::new(&cells).into_iter().filter_map(Result::ok);
        let mut logs = files.filter(|entry| entry.file_name() == "log.jsonl");
        logs.any(|entry| {
            entry.path().to_string_lossy().contains("sleeps")
                && std::fs::read_to_string(entry.path()).unwrap_or_default().contains("\"start\"")
        })
    };
    while !sleeping() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let interrupted = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("error: interrupted after 2 of 6 runs; finished runs are kept"), "{stderr}");
    assert!(stderr.contains("--resume"), "{stderr}");
    assert!(!outcomes(&repository.root()).is_empty(), "what was measured is kept");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("passes") && stdout.contains("new was not run"), "{stdout}");
    // The test that was interrupted shows what it logged.
    assert!(stdout.contains("was interrupted"), "{stdout}");
    assert!(stdout.contains("interrupted after 2 of 6 runs: `--resume` continues"), "{stdout}");
    let later = command(&repository.root(), home.path(), &["report"]).output().expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&later.stdout), stdout);

    let arguments = ["--resume", "-k", "panics"];
    let other = command(&repository.root(), home.path(), &arguments).output().expect("the program runs");
    let stderr = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--resume continues a run as it was planned, without --filter"), "{stderr}");
}
