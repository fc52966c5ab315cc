//! A comparison that waits while another run uses the repository's cache.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use camino::Utf8Path;
use memprof_build::checkout::cache::Cache;
use memprof_support::file_lock::{Lock, LockFile, WhenHeld};

use crate::git::package;
use crate::support::{Printed, TestRepository, home_at, tool};

/// A repository whose cache is in use.
struct Busy {
    repository: TestRepository,
    _lock: Lock,
}

impl Busy {
    fn new() -> Self {
        let mut repository = package();
        repository.write("README", "");
        repository.commit("second");
        let home = home_at(repository.beside("cache"));
        let cache = Cache::open(Utf8Path::from_path(&home).unwrap(), &repository.open()).unwrap();
        let lock_file = LockFile::of_folder(cache.lock());
        let lock = Lock::acquire(&lock_file, WhenHeld::Fail, &AtomicBool::new(false), &|_| ()).unwrap();
        Self { repository, _lock: lock }
    }

    fn command(&self, program: Command, arguments: &[&str]) -> Command {
        let mut command = program;
        command
            .current_dir(self.repository.root())
            .env("CARGO_MEMPROF_HOME", self.repository.beside("cache"));
        command.arg("memprof").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Printed {
        Printed::of(self.command(tool(), arguments))
    }

    /// Starts a comparison, and returns when it waits.
    fn waiting(&self, program: Command) -> Child {
        let mut command = self.command(program, &["HEAD~1", "HEAD"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
        let mut told = lines.map_while(Result::ok);
        assert!(told.any(|line| line.contains("another run")), "it says that it waits");
        child
    }
}

#[test]
fn a_run_that_does_not_wait_leaves_nothing_and_a_killed_one_says_that_it_has_not_finished() {
    let busy = Busy::new();
    let refused = busy.run(&["HEAD~1", "HEAD", "--no-wait"]);
    assert!(refused.stderr.contains("another run is using"), "{}", refused.everything());
    let none = busy.run(&["report"]);
    assert!(none.stderr.contains("there are no runs yet"), "{}", none.everything());
    let mut killed = busy.waiting(tool());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let report = busy.run(&["report"]);
    let expected = "the run has not finished: `--resume` continues";
    assert!(report.stdout.contains(expected), "{}", report.everything());
    busy.run(&["HEAD~1", "HEAD", "--no-wait"]);
    assert_eq!(busy.run(&["report"]).stdout, report.stdout, "it is still of the run before");
}
