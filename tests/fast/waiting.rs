//! A comparison that waits while another run uses the repository's cache, and a saved baseline that changes meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use memprof_build::checkout::cache::Cache;
use memprof_judge::results::kept_baseline::{KeptBaseline, SavedBaseline, VERSION};
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_plan::resolved::{Plan, Revision};
use memprof_run::saved_baselines;
use memprof_support::file_lock::{Lock, LockFile, WhenHeld};
use memprof_support::sealed;

use crate::git::package;
use crate::support::{Printed, TestRepository, home_at, succeed, tool};

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

#[test]
fn the_advice_after_an_interrupt_names_its_own_run_and_not_the_newest() {
    let busy = Busy::new();
    let waits = || {
        let mut child = busy.waiting(tool());
        let run = busy.repository.root().join("target/memprof/latest").read_link().unwrap();
        (child.stderr.take().unwrap(), child, run)
    };
    let (stderr, mut older, run) = waits();
    let (_stderr, mut newer, newest) = waits();
    assert_ne!(run, newest);
    succeed(Command::new("kill").args(["-TERM", &older.id().to_string()]));
    let said = std::io::read_to_string(stderr).unwrap();
    assert_eq!(older.wait().unwrap().code(), Some(130));
    let expected = format!("to continue: cargo memprof --resume {}\n", run.display());
    assert!(said.contains(&expected), "{said}");
    newer.kill().unwrap();
    newer.wait().unwrap();
}

#[test]
fn under_nohup_a_run_goes_on_when_its_terminal_is_closed() {
    let busy = Busy::new();
    let mut nohup = tool();
    let program = nohup.get_program().to_owned();
    let variables: Vec<_> =
        nohup.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(program);
    for (name, value) in variables {
        match value {
            Some(value) => nohup.env(name, value),
            None => nohup.env_remove(name),
        };
    }
    let mut child = busy.waiting(nohup);
    let process = child.id().to_string();
    let signal = |name: &str| drop(succeed(Command::new("kill").args([name, &process])));
    signal("-HUP");
    // A run that listens ends within a tenth of a second.
    std::thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "it still waits");
    signal("-TERM");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
}

#[test]
fn a_run_does_not_continue_with_a_baseline_that_was_saved_again() {
    let busy = Busy::new();
    let mut killed = busy.waiting(tool());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let runs = busy.repository.root_utf8().join("target/memprof");
    let run = RunFolder(runs.join("latest").canonicalize_utf8().unwrap());
    std::fs::create_dir(run.cells()).unwrap();
    let plan = stored::read_plan(&run).unwrap();
    let save = |revisions: &[Revision]| {
        let saved = RunFolder(Utf8PathBuf::try_from(busy.repository.beside("saved")).unwrap());
        std::fs::create_dir_all(saved.cells()).unwrap();
        std::fs::copy(run.environment(), saved.environment()).unwrap();
        std::fs::write(saved.builds(), "{}").unwrap();
        let revisions = revisions.to_vec();
        sealed::write(&saved.plan(), &Plan { revisions, ..plan.clone() }).unwrap();
        saved_baselines::save(&saved, &runs, "main", &[].into()).unwrap()
    };
    let resumed = |saved: Option<&str>, folder: &Utf8Path| {
        let (name, saved) = ("main".to_owned(), saved.map(str::to_owned));
        let record = KeptBaseline { version: VERSION, name, folder: folder.to_owned(), revision: 0, saved };
        sealed::write(&run.kept(), &record).unwrap();
        busy.run(&["run", "--resume", "--no-wait"])
    };
    let refused = "error: the baseline main was saved again since this run was planned";
    let place = save(&plan.revisions);
    let record: SavedBaseline = sealed::read(&RunFolder(place.clone()).saved_baseline()).unwrap();
    let planned = Some(record.saved.as_str());
    for same in [resumed(planned, &place), resumed(None, &place)] {
        assert!(same.stderr.contains("another run is using"), "{}", same.everything());
    }
    save(&plan.revisions);
    let again = resumed(planned, &place);
    assert!(again.code == 2 && again.stderr.contains(refused), "{}", again.everything());
    // Runs of earlier versions do not have the time.
    for other in [&plan.revisions[1..], &[]] {
        save(other);
        let again = resumed(None, &place);
        assert!(again.code == 2 && again.stderr.contains(refused), "{}", again.everything());
    }
}
