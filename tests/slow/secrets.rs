//! No secret stays anywhere, and with `--clean-env` none reaches a build or a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Printed, TestRepository, home_at, tool};

/// Where each secret comes from. None of them stands in the repository.
const OF_ENVIRONMENT: &str = "tok-of-environment-0123";
const OF_FLAG: &str = "tok-of-flag-4567";
const OF_RUSTFLAGS: &str = "tok-of-rustflags-89ab";
const OF_CONFIG: &str = "tok-of-config-cdef";
const OF_SCRIPT: &str = "ghp_Ab0Ab1Ab2Ab3Ab4Ab5Ab6Ab7Ab8Ab9Ab0Ab1";
const ALL: [&str; 5] = [OF_ENVIRONMENT, OF_FLAG, OF_RUSTFLAGS, OF_CONFIG, OF_SCRIPT];

/// The exit codes of a comparison that was made. One run a side is not enough for a verdict.
const MEASURED: [i32; 3] = [0, 3, 4];

const BUILD_SCRIPT: &str = r#"
fn main() {
    let made: String = "ghp_".chars().chain((0..12).flat_map(|i| format!("Ab{}", i % 10).chars().collect::<Vec<_>>())).collect();
    println!("cargo:rustc-env=MADE={made}");
    println!("cargo:warning=made {made}");
    for name in ["GITHUB_TOKEN", "MY_TOKEN", "CARGO_ENCODED_RUSTFLAGS"] {
        println!("cargo:warning={name} is {:?}", std::env::var(name));
    }
    FAIL
}
"#;

const TESTS: &str = r#"
#[test]
fn tells() {
    for name in ["GITHUB_TOKEN", "MY_TOKEN", "CONFIG_TOKEN", "MADE", "OLDPWD"] {
        let value = std::env::var(name).unwrap_or_default();
        println!("{name} has {} characters: {value}", value.len());
        eprintln!("on stderr: {value}");
    }
}
#[test]
#[ignore]
fn names() {
    for (name, _) in std::env::vars() {
        println!("variable {name}");
    }
}
"#;

struct Laboratory {
    repository: TestRepository,
    home: PathBuf,
}

impl Laboratory {
    /// Revisions `old` and `new`, and `broken`, whose build script says everything and panics.
    fn new() -> Self {
        let mut repository = TestRepository::new();
        repository.write("Cargo.toml", "[package]\nname = 'subject'\nversion = '0.1.0'\nedition = '2024'\n");
        repository.write(".gitignore", "/target\n");
        repository.write("src/lib.rs", "");
        repository.write("tests/told.rs", TESTS);
        let panic = r#"panic!("{:?}", std::env::vars().collect::<Vec<_>>());"#;
        for (name, end) in [("old", ""), ("new", "let _ = 1;"), ("broken", panic)] {
            repository.write("build.rs", BUILD_SCRIPT.replace("FAIL", end));
            repository.commit(name);
            repository.git(["tag", name]);
        }
        let home = home_at(repository.beside("cache"));
        Self { repository, home }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tool();
        command.current_dir(self.repository.root()).env("CARGO_MEMPROF_HOME", &self.home);
        command.env("GITHUB_TOKEN", OF_ENVIRONMENT).env("OLDPWD", "/where/the/shell/was").args(arguments);
        command.env("RUSTFLAGS", format!("--cfg my_token=\"{OF_RUSTFLAGS}\""));
        command
    }

    fn run(&self, arguments: &[&str]) -> Printed {
        let printed = Printed::of(self.command(arguments));
        for secret in ALL {
            assert!(!printed.everything().contains(secret), "{secret}:\n{}", printed.everything());
        }
        printed
    }

    /// Fails if a secret is in a file of the runs, or of the cache outside cargo's target folder.
    fn assert_nowhere(&self) {
        let runs = self.repository.path("target/memprof");
        let mut count = 0;
        for folder in [runs.as_path(), &self.home] {
            for entry in walkdir::WalkDir::new(folder).into_iter().map(|entry| entry.expect("it stays")) {
                let of_cargo = entry.path().strip_prefix(&self.home).is_ok_and(|path| {
                    path.components().nth(1).is_some_and(|part| part.as_os_str() == "target")
                });
                if entry.file_type().is_file() && !of_cargo {
                    assert_without_secrets(entry.path(), &std::fs::read(entry.path()).expect("a file"));
                    count += 1;
                }
            }
        }
        assert!(count > 20, "{count} files were read");
    }
}

fn assert_without_secrets(path: &Path, content: &[u8]) {
    for secret in ALL {
        let found = memchr::memmem::find(content, secret.as_bytes());
        let around = found.map(|at| &content[at.saturating_sub(100)..(at + 60).min(content.len())]);
        let around = around.map(String::from_utf8_lossy);
        assert!(found.is_none(), "{secret} is in {}: {}", path.display(), around.unwrap_or_default());
    }
}

#[test]
fn no_secret_is_stored_and_a_resumed_run_and_an_archive_ask_for_it_again() {
    let laboratory = Laboratory::new();
    let flag = format!("MY_TOKEN={OF_FLAG}");
    let config = format!("env.CONFIG_TOKEN='{OF_CONFIG}'");
    let secrets = ["--env", &flag, "--config", &config];
    let usual = ["--refs", "old,new,broken", "--offline", "--repeat", "1"];
    let run = |more: &[&str]| laboratory.run(&[&usual[..], &secrets[..], more].concat());

    let printed = run(&[]);
    assert!(MEASURED.contains(&printed.code), "{}", printed.everything());
    let latest = laboratory.repository.path("target/memprof/latest");
    let mut tested = 0;
    for entry in walkdir::WalkDir::new(latest.join("cells/")).into_iter().flatten() {
        if entry.file_name() == "stdout" {
            let stdout = std::fs::read_to_string(entry.path()).expect("text");
            // The test had the real values.
            for (name, secret) in [
                ("GITHUB_TOKEN", OF_ENVIRONMENT),
                ("MY_TOKEN", OF_FLAG),
                ("CONFIG_TOKEN", OF_CONFIG),
                ("MADE", OF_SCRIPT),
            ] {
                let told = format!("{name} has {} characters: [redacted, blake3:", secret.len());
                assert!(stdout.contains(&told), "{stdout}");
            }
            assert!(
                stdout.contains("OLDPWD has 0 characters"),
                "a shell's own variable does not reach it: {stdout}"
            );
            // A run that is left to do.
            if tested == 0 {
                std::fs::remove_file(entry.path().with_file_name("outcome.json")).expect("it is done");
            }
            tested += 1;
        }
    }
    assert_eq!(tested, 2);
    laboratory.assert_nowhere();

    let refused = laboratory.run(&["--resume"]);
    assert_eq!(refused.code, 2, "{}", refused.everything());
    assert!(refused.stderr.contains("--env MY_TOKEN=…"), "{}", refused.everything());
    let other = laboratory.run(&["--resume", "--env", "MY_TOKEN=another", "--config", &config]);
    assert!(other.stderr.contains("started with another value"), "{}", other.everything());
    let resumed = laboratory.run(&[&secrets[..], &["--resume"]].concat());
    assert!(MEASURED.contains(&resumed.code), "{}", resumed.everything());
    laboratory.assert_nowhere();

    let archive = laboratory.repository.beside("archive.tar.zst");
    let archive = archive.to_str().expect("text");
    let built = laboratory.run(&[&["build", "--archive", archive][..], &usual, &secrets].concat());
    assert_eq!(built.code, 3, "{}", built.everything());
    let packed = zstd::decode_all(std::fs::File::open(archive).expect("a file")).expect("zstd");
    assert_without_secrets(Path::new(archive), &packed);
    laboratory.assert_nowhere();
    let refused = laboratory.run(&["run", "--archive", archive]);
    assert!(
        refused.stderr.contains("--env CONFIG_TOKEN=… --env MADE=… --env MY_TOKEN=…"),
        "{}",
        refused.everything()
    );
    let given = ["--env", &flag, "--env", "CONFIG_TOKEN=here-and-now", "--env", "MADE=by-hand-now"];
    let archived = laboratory.run(&[&["run", "--archive", archive][..], &given].concat());
    assert!(MEASURED.contains(&archived.code), "{}", archived.everything());
    for entry in walkdir::WalkDir::new(laboratory.repository.path("memprof-runs")).into_iter().flatten() {
        if entry.file_type().is_file() {
            let content = String::from_utf8_lossy(&std::fs::read(entry.path()).expect("a file")).into_owned();
            let is_kept = content.contains("here-and-now") || content.contains("by-hand-now");
            assert!(!is_kept, "{}: {content}", entry.path().display());
        }
    }
    laboratory.assert_nowhere();
}

#[test]
fn a_clean_environment_reaches_the_build_and_the_test() {
    let laboratory = Laboratory::new();
    let run = |more: &[&str]| {
        let usual =
            ["--refs", "old,new", "--offline", "--repeat", "1", "--clean-env", "--keep-env", "KEPT_*"];
        let mut command =
            laboratory.command(&[&usual[..], &["--env", "GIVEN=1", "--ignored"], more].concat());
        command.env("KEPT_ONE", "1").env("LEFT_BEHIND", "1").env("RUSTFLAGS", "--cfg plain");
        Printed::of(command)
    };
    let planned = run(&["--dry-run"]);
    let plan: serde_json::Value = serde_json::from_str(&planned.stdout).expect("JSON");
    let removed = plan["removed_variables"].as_array().expect("names");
    assert!(
        removed.contains(&"GITHUB_TOKEN".into()) && removed.contains(&"LEFT_BEHIND".into()),
        "{removed:?}"
    );
    assert!(!removed.contains(&"KEPT_ONE".into()) && !removed.contains(&"PATH".into()), "{removed:?}");
    assert_eq!(plan["request"]["clean_env"]["keep"][0], "KEPT_*");

    let printed = run(&[]);
    assert!(MEASURED.contains(&printed.code), "{}", printed.everything());
    let run = laboratory.repository.path("target/memprof/latest/");
    let mut tested = 0;
    for entry in walkdir::WalkDir::new(&run).into_iter().flatten() {
        let text = || std::fs::read_to_string(entry.path()).expect("text");
        if entry.file_name() == "stdout" {
            let names = text();
            let has = |name: &str| names.lines().any(|line| line == format!("variable {name}"));
            assert!(
                has("PATH") && has("HOME") && has("KEPT_ONE") && has("GIVEN") && has("RUSTFLAGS"),
                "{names}"
            );
            assert!(!has("GITHUB_TOKEN") && !has("LEFT_BEHIND"), "{names}");
            tested += 1;
        }
        if entry.file_name().to_string_lossy().ends_with(".log") {
            assert!(text().contains("GITHUB_TOKEN is Err(NotPresent)"), "{}", text());
        }
    }
    assert_eq!(tested, 2);
}
