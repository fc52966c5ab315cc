//! `--courtesy` around a comparison, with a fake driver: the process is set aside while tests run, and runs again
//! however the comparison ends.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::support::courtesy::{Guest, Machine};
use crate::support::{Printed, TestRepository, home_at};

const TESTS: &str = r#"
fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// What the driver says of the guest while this test runs.
fn look() {
    let state = std::path::Path::new(&variable("FAKE_CHECKPOINTS")).join(variable("GUEST"));
    let seen = std::fs::read_to_string(state).unwrap();
    std::fs::write(variable("SEEN"), seen).unwrap();
}

#[test]
fn looks() {
    look();
}

#[test]
fn stays() {
    look();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn breaks_the_run() {
    look();
    std::fs::remove_dir_all(variable("RUNS")).unwrap();
}
"#;

/// The repository, for one test at a time: its builds are made once.
fn repository() -> MutexGuard<'static, TestRepository> {
    static REPOSITORY: OnceLock<Mutex<TestRepository>> = OnceLock::new();
    let repository = REPOSITORY.get_or_init(|| {
        let mut repository = TestRepository::new();
        repository.write("Cargo.toml", "[package]\nname = 'subject'\nversion = '0.1.0'\nedition = '2021'\n");
        repository.write(".gitignore", "/target\nCargo.lock\n");
        repository.write("src/lib.rs", "");
        repository.write("tests/guest.rs", TESTS);
        repository.commit("base");
        repository.git(["tag", "base"]);
        repository.write("notes.txt", "");
        repository.commit("only");
        repository.git(["tag", "only"]);
        Mutex::new(repository.until_exit())
    });
    repository.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A comparison that runs one test.
struct Comparison<'a> {
    repository: &'a TestRepository,
    machine: &'a Machine,
    guest: &'a Guest,
}

impl Comparison<'_> {
    fn seen(&self) -> PathBuf {
        self.machine.path("seen")
    }

    fn command(&self, test: &str, courtesy: &str) -> Command {
        self.tool(&["only", "-k", test, "--repeat", "1", "--courtesy", courtesy])
    }

    fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.tool(arguments);
        command
            .current_dir(self.repository.root())
            .env("CARGO_MEMPROF_HOME", home_at(self.repository.beside("cache")))
            .env("GUEST", self.guest.id().to_string())
            .env("SEEN", self.seen())
            .env("RUNS", self.repository.path("target/memprof"));
        command
    }

    fn run(&self, test: &str) -> Printed {
        Printed::of(self.command(test, &self.guest.id().to_string()))
    }

    /// Starts it, and waits until its test runs.
    fn start(&self, test: &str) -> Child {
        let mut command = self.command(test, &self.guest.id().to_string());
        let log = std::fs::File::create(self.machine.path("stderr")).unwrap();
        let mut child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let began = Instant::now();
        while !self.seen().exists() {
            let ended = child.try_wait().unwrap();
            assert!(
                ended.is_none() && began.elapsed() < Duration::from_mins(5),
                "{ended:?}: {}",
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }

    fn stderr(&self) -> String {
        std::fs::read_to_string(self.machine.path("stderr")).unwrap()
    }

    /// The state that the test saw.
    fn seen_state(&self) -> String {
        std::fs::read_to_string(self.seen()).unwrap()
    }

    fn is_restored(&self) {
        assert_eq!((self.machine.state(self.guest).as_str(), self.machine.notes().len()), ("0", 0));
    }

    /// Whether no other run could use the device while the process was restored.
    fn was_locked(&self) -> bool {
        std::fs::read_to_string(self.machine.path("checkpoints/locked")).unwrap() == "true"
    }
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_process_is_aside_while_the_tests_run_and_runs_again_at_the_end() {
    let (repository, machine) = (repository(), Machine::new());
    let guest = machine.guest(10, &[]);
    let comparison = Comparison { repository: &repository, machine: &machine, guest: &guest };
    let printed = comparison.run("looks");
    assert_eq!((printed.code, comparison.seen_state().as_str()), (0, "2"), "{}", printed.everything());
    comparison.is_restored();
    assert_eq!(machine.calls(), ["lock", "checkpoint", "restore", "unlock"]);
    assert!(comparison.was_locked());
    for said in ["Set aside process ", "Restored process "] {
        assert!(
            printed.stderr.contains(&format!("{said}{} (sleep)", guest.id())),
            "{}",
            printed.everything()
        );
    }
}

#[test]
fn a_process_is_aside_during_a_search() {
    let (repository, machine) = (repository(), Machine::new());
    let guest = machine.guest(10, &[]);
    let comparison = Comparison { repository: &repository, machine: &machine, guest: &guest };
    let id = guest.id().to_string();
    let printed = Printed::of(comparison.tool(&["history", "base..only", "-k", "looks", "--courtesy", &id]));
    assert_eq!((printed.code, comparison.seen_state().as_str()), (0, "2"), "{}", printed.everything());
    comparison.is_restored();
    assert_eq!(machine.calls(), ["lock", "checkpoint", "restore", "unlock"]);
    assert!(comparison.was_locked());
}

#[test]
fn a_refusal_comes_before_anything_is_built() {
    let (repository, machine) = (repository(), Machine::new());
    let plain = Machine::plain(&[]);
    let comparison = Comparison { repository: &repository, machine: &machine, guest: &plain };
    let printed = comparison.run("looks");
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert!(
        printed.stderr.contains("(sleep) cannot be set aside: it does not use CUDA"),
        "{}",
        printed.stderr
    );
    assert!(!printed.stderr.contains("only ("), "{}", printed.stderr);
    assert!(!comparison.seen().exists());
}

#[test]
fn a_test_that_removes_the_run_does_not_keep_the_process_set_aside() {
    let (repository, machine) = (repository(), Machine::new());
    let guest = machine.guest(10, &[]);
    let comparison = Comparison { repository: &repository, machine: &machine, guest: &guest };
    let printed = comparison.run("breaks_the_run");
    assert_eq!((printed.code, comparison.seen_state().as_str()), (3, "2"), "{}", printed.everything());
    comparison.is_restored();
}

#[test]
fn ctrl_c_restores_the_process() {
    let (repository, machine) = (repository(), Machine::new());
    let guest = machine.guest(10, &[]);
    let comparison = Comparison { repository: &repository, machine: &machine, guest: &guest };
    let mut child = comparison.start("stays");
    assert_eq!(machine.state(&guest), "2");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", comparison.stderr());
    comparison.is_restored();
}

#[test]
fn after_a_kill_the_next_comparison_offers_to_restore() {
    let (repository, machine) = (repository(), Machine::new());
    let guest = machine.guest(10, &[]);
    let comparison = Comparison { repository: &repository, machine: &machine, guest: &guest };
    let mut child = comparison.start("stays");
    signal(&child, "KILL");
    child.wait().unwrap();
    assert_eq!((machine.state(&guest).as_str(), machine.notes().len()), ("2", 1));
    let printed = Printed::of(comparison.command("looks", "opted-in"));
    let said = format!("warning: process {} (sleep) is still set aside, since 2", guest.id());
    assert!(printed.stderr.contains(&said), "{}", printed.everything());
    let help = format!("was killed\n  help: cargo memprof restore {}\n", guest.id());
    assert!(printed.stderr.contains(&help), "{}", printed.everything());
    assert_eq!(machine.memprof(&["restore"]).code, 0);
    comparison.is_restored();
}
