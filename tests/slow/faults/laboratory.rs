//! A repository with two known figures, a home in which both are built, and the program under faults.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::support::{TestRepository, home_at, skip, succeed, tool};

/// A comparison of the two figures. It runs one test, once per ref.
pub const COMPARE: [&str; 9] =
    ["--refs", "old,new", "--offline", "--repeat", "1", "--metrics", "heap.live,heap.peak", "-k", "kept"];

/// What ended, and what it said.
pub struct Ended {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn everything(&self) -> String {
        format!("code {:?}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

pub struct Laboratory {
    repository: TestRepository,
    library: PathBuf,
    /// What the comparison prints.
    pub table: String,
}

impl Laboratory {
    /// Builds both revisions. `None` if there is no C compiler.
    pub fn new() -> Option<Self> {
        let library = library()?;
        let laboratory = Self { repository: repository(), library, table: String::new() };
        for folder in [laboratory.temporary(), laboratory.beside("outputs"), laboratory.beside("bin")] {
            fs::create_dir_all(folder).expect("the folder is new");
        }
        let first = laboratory.run(&COMPARE);
        let second = laboratory.run(&COMPARE);
        assert_eq!(second.code, Some(0), "{}", second.everything());
        assert_eq!(first.stdout, second.stdout, "the figures are the same every time");
        Some(Self { table: second.stdout, ..laboratory })
    }

    /// A folder beside the repository.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.repository.beside(name)
    }

    pub fn home(&self) -> PathBuf {
        home_at(self.beside("home"))
    }

    pub fn runs(&self) -> PathBuf {
        self.repository.path("target/memprof")
    }

    /// The folder for temporary files. Its path marks the processes of this laboratory.
    pub fn temporary(&self) -> PathBuf {
        self.beside("temporary")
    }

    /// A file or a folder among those that commands are told to make.
    pub fn output(&self, name: &str) -> PathBuf {
        self.beside("outputs").join(name)
    }

    /// An archive of both revisions.
    pub fn archive(&self) -> PathBuf {
        let file = self.output("both.tar.zst");
        if !file.exists() {
            let path = file.to_str().expect("the path is text");
            let made =
                self.run(&["build", "--refs", "old,new", "--offline", "--repeat", "1", "--archive", path]);
            assert_eq!(made.code, Some(0), "{}", made.everything());
        }
        file
    }

    /// Puts a program before all others of its name.
    pub fn program(&self, name: &str, script: &str) {
        // Written by a child: a file that this process has open for writing cannot run.
        let mut write = Command::new("sh");
        write.args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""]);
        succeed(write.arg(self.beside("bin").join(name)).arg(script));
    }

    pub fn command<S: AsRef<str>>(&self, arguments: &[S]) -> Command {
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        let mut command = tool();
        let path = std::env::var("PATH").unwrap_or_default();
        command.current_dir(self.repository.root()).args(&arguments);
        command.env("PATH", format!("{}:{path}", self.beside("bin").display()));
        command.env("CARGO_MEMPROF_HOME", self.home()).env("TMPDIR", self.temporary());
        let is_judging = |words: &[&str]| arguments.windows(words.len()).any(|some| some == words);
        let judging = [&["--refs"][..], &["run", "--archive"], &["merge"], &["submit"], &["report"]];
        if judging.into_iter().any(is_judging) && !arguments.starts_with(&["notebook"]) {
            command.args(["--threshold", "*=off"]);
        }
        command
    }

    pub fn run<S: AsRef<str>>(&self, arguments: &[S]) -> Ended {
        ended(self.command(arguments))
    }

    /// Runs a command with a fault at a call: `eio:7`. Returns the calls that were made.
    pub fn run_with_fault(&self, arguments: &[String], fault: &str) -> (Ended, Vec<String>) {
        let log = self.beside("calls");
        let mut command = self.command(arguments);
        command.env("LD_PRELOAD", &self.library).env("MEMPROF_FAULT", fault).env("MEMPROF_FAULT_LOG", &log);
        remove_file(&self.notes());
        command.env("MEMPROF_FAULT_NOTES", self.notes());
        let folders = [self.runs(), self.home(), self.beside("home-notebooks"), self.beside("outputs")];
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        command.env("MEMPROF_FAULT_ROOTS", folders.join(":"));
        let ended = ended(command);
        let calls = fs::read(&log).expect("the library is loaded");
        (ended, String::from_utf8_lossy(&calls).lines().map(str::to_owned).collect())
    }

    /// What processes other than the program synced.
    fn notes(&self) -> PathBuf {
        self.beside("synced")
    }

    /// The variables with which a process notes what it syncs, for a shell script.
    pub fn noting(&self) -> String {
        format!("MEMPROF_FAULT_NOTES={} LD_PRELOAD={}", self.notes().display(), self.library.display())
    }

    /// Starts a command and kills it after a time. Returns whether it was still running.
    pub fn kill(&self, arguments: &[String], after: Duration) -> bool {
        let mut child = self.command(arguments);
        let child = child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().expect("the program starts");
        std::thread::sleep(after);
        child.kill().expect("it can be killed");
        child.wait().expect("it ends").signal().is_some()
    }

    /// Removes the runs, so that the next one is the first.
    pub fn forget_runs(&self) {
        remove(&self.runs());
    }

    /// Removes the builds, and keeps cargo's target folder.
    pub fn forget_builds(&self) {
        for entry in fs::read_dir(self.home()).expect("the home is there").flatten() {
            remove(&entry.path().join("store"));
        }
    }

    /// What should not be there when nothing runs any more.
    pub fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        let git = self.repository.path(".git/worktrees");
        let outputs = self.beside("outputs");
        for root in [self.runs(), self.home(), self.temporary(), outputs, git] {
            let walk = walkdir::WalkDir::new(&root).min_depth(1).into_iter();
            // What lies in a temporary folder counts with the folder.
            let is_inside = |entry: &walkdir::DirEntry| root == self.temporary() && entry.depth() > 1;
            let is_kept =
                |entry: &walkdir::DirEntry| entry.file_name() != "target" && !entry.path_is_symlink();
            let kept = walk.filter_entry(|entry| is_kept(entry) && !is_inside(entry));
            for path in kept.flatten().map(walkdir::DirEntry::into_path) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let is_partial = name.contains(".partial") || name.starts_with(".tmp");
                let is_lock = ["index.lock", "HEAD.lock"].contains(&name.as_str());
                if is_partial || is_lock || path.starts_with(self.temporary()) {
                    left.push(format!("left: {}", path.display()));
                }
            }
        }
        left
    }

    /// Empties the folder for temporary files, so that what a fault left is not counted again.
    pub fn forget_temporary(&self) {
        remove(&self.temporary());
        fs::create_dir_all(self.temporary()).expect("the folder can be made");
    }

    /// The processes of this laboratory that do not end within ten seconds.
    pub fn processes(&self) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let left = processes_with(&self.temporary());
            if left.is_empty() || begin.elapsed() > Duration::from_secs(10) {
                return left;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn ended(mut command: Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // These lines have the time in them.
    let has_time = ["report: ", "show this report again: "];
    let is_same =
        |line: &&str| !has_time.iter().any(|begin| line.starts_with(begin)) && !line.contains(" builds, ");
    let stdout =
        text(&output.stdout).lines().filter(is_same).fold(String::new(), |all, line| all + line + "\n");
    Ended { code: output.status.code(), stdout, stderr: text(&output.stderr) }
}

/// Removes a file, if there is one.
pub fn remove_file(file: &Path) {
    if file.exists() {
        fs::remove_file(file).expect("the file can be removed");
    }
}

/// Removes a folder, if there is one.
pub fn remove(folder: &Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).expect("the folder can be removed");
    }
}

/// Processes whose environment names this folder: `123 cargo`.
fn processes_with(folder: &Path) -> Vec<String> {
    let mark = folder.to_str().expect("the path is text");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("Linux has it").flatten() {
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if memchr::memmem::find(&environment, mark.as_bytes()).is_some() {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(format!("process {} {}", entry.file_name().to_string_lossy(), name.trim()));
        }
    }
    found
}

/// The preloaded library. `None` if there is no C compiler.
fn library() -> Option<PathBuf> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compile = || {
        if Command::new("cc").arg("--version").output().is_err() {
            skip("there is no C compiler (cc)");
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/faults/faults.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults.so");
        let partial = library.with_extension(std::process::id().to_string());
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&partial)
            .arg(source)
            .args(["-ldl", "-lpthread"]);
        succeed(&mut compiler);
        fs::rename(partial, &library).expect("both are in one folder");
        Some(library)
    };
    LIBRARY.get_or_init(compile).clone()
}

/// Four commits of a crate with two tests, which have no harness, so that their figures are always the same. The third commit
/// makes the difference.
fn repository() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        "[package]\nname = 'tiny'\nversion = '0.1.0'\nedition = '2024'\n\n\
         [[test]]\nname = 'kept'\nharness = false\n\n[[test]]\nname = 'other'\nharness = false\n",
    );
    repository.write("Cargo.lock", "version = 4\n\n[[package]]\nname = \"tiny\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    for name in ["kept", "other"] {
        let test = "fn main() {\n    std::mem::forget(vec![1u8; tiny::bytes()]);\n}\n";
        repository.write(&format!("tests/{name}.rs"), test);
    }
    for (number, bytes) in [100_000, 100_000, 500_000, 500_000].into_iter().enumerate() {
        repository.write("src/lib.rs", format!("// {number}\npub fn bytes() -> usize {{\n    {bytes}\n}}\n"));
        repository.commit(&format!("change {number}"));
        repository.git(["tag", &format!("c{number}")]);
    }
    repository.git(["tag", "old", "c0"]);
    repository.git(["tag", "new", "c3"]);
    repository
}
