//! What integration tests share: a git repository made for the occasion, in an environment of its own.
//!
//! ```ignore
//! let mut repository = TestRepository::new();
//! repository.write("src/lib.rs", "pub fn one() -> u32 { 1 }\n");
//! let first = repository.commit("first");
//! repository.git(["switch", "-c", "feature"]);
//! ```
//!
//! Identities, dates and the environment are fixed, so that the same calls give the same hashes.

#![allow(dead_code, reason = "each test executable includes this folder and uses a part of it")]

pub mod at_exit;
#[cfg(target_os = "linux")]
pub mod courtesy;
pub mod csv;
pub mod hostile;
pub mod log_schema;
pub mod pages;
pub mod skips;
pub mod stacks;
pub mod synthetic;
pub mod tables;
pub mod traced;
pub mod zoo;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use camino::Utf8Path;
use memprof_build::git::repository::Repository;
use tempfile::TempDir;

#[allow(unused_imports, reason = "one test executable skips nothing")]
pub use skips::skip;

/// The first commit's date, seconds since the epoch; each commit is a minute after the one before.
const FIRST_COMMIT: u64 = 1_740_000_000;

/// What git is told in every test: no configuration but the repository's, no questions, one identity.
pub const ENVIRONMENT: [(&str, &str); 7] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_AUTHOR_NAME", "A U Thor"),
    ("GIT_AUTHOR_EMAIL", "author@example.com"),
    ("GIT_COMMITTER_NAME", "C O Mitter"),
    ("GIT_COMMITTER_EMAIL", "committer@example.com"),
];

/// A git repository in a temporary folder, which is removed with it.
pub struct TestRepository {
    folder: TempDir,
    root: PathBuf,
    commits: u64,
}

impl TestRepository {
    /// An empty repository whose branch is `main`.
    pub fn new() -> Self {
        Self::with("repository", &[])
    }

    /// An empty repository in a folder of this name, with further arguments to `git init`.
    pub fn with(name: &str, init: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("the folder exists").join(name);
        std::fs::create_dir_all(&root).expect("the folder is new");
        let repository = Self { folder, root, commits: 0 };
        repository.git(["init", "--quiet", "--initial-branch=main"].iter().chain(init));
        repository
    }

    /// Keeps it, and what is beside it, until the process ends: for a repository in a static.
    pub fn until_exit(self) -> Self {
        at_exit::remove_at_exit(self.folder.path().to_owned());
        self
    }

    /// A clone of `source` in a folder of its own, with further arguments to `git clone`.
    pub fn clone_of(source: &TestRepository, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("the folder exists").join("clone");
        let url = source.url();
        let all = ["clone", "--quiet"].iter().chain(arguments).map(|text| OsStr::new(*text));
        let all = all.chain([OsStr::new(&url), root.as_os_str()]);
        succeed(isolated("git").current_dir(folder.path()).args(all));
        Self { folder, root, commits: 1000 }
    }

    /// The working tree's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder beside the working tree, for caches and the like; it goes away with the repository.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.root.parent().expect("the root has a parent").join(name)
    }

    /// The working tree's root, as the library takes it.
    pub fn root_utf8(&self) -> &Utf8Path {
        Utf8Path::from_path(&self.root).expect("temporary folders are UTF-8")
    }

    /// The library's view of it, in the isolated environment.
    pub fn open(&self) -> Repository {
        Repository::discover(self.root_utf8()).expect("this is a repository").with_environment(ENVIRONMENT)
    }

    /// A `file://` URL, which git treats like a network one (a plain path takes shortcuts).
    pub fn url(&self) -> String {
        format!("file://{}", self.root.display())
    }

    /// Path of a file.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Writes a file and the folders above it.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("the folder can be made");
        std::fs::write(path, content).expect("the file can be written");
    }

    /// The text of a file.
    pub fn read(&self, relative: &str) -> String {
        std::fs::read_to_string(self.path(relative)).expect("the file exists")
    }

    /// Commits everything in the working tree (an empty commit if nothing changed) and returns the full hash.
    pub fn commit(&mut self, message: &str) -> String {
        self.git(["add", "--all"]);
        let date = format!("{} +0000", FIRST_COMMIT + 60 * self.commits);
        self.commits += 1;
        let mut command = self.command("git");
        command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        // A process less for each commit, and another one in `head`: there are very many.
        command.args(["-c", "maintenance.auto=false"]);
        succeed(command.args(["commit", "--quiet", "--allow-empty", "--message", message]));
        self.head()
    }

    /// The hash of the newest commit.
    fn head(&self) -> String {
        let read = |name: &str| {
            Some(std::fs::read_to_string(self.path(".git").join(name)).ok()?.trim_end().to_owned())
        };
        let branch = |head: String| match head.strip_prefix("ref: ") {
            Some(branch) => read(branch),
            None => Some(head),
        };
        // A linked worktree and other formats keep it elsewhere.
        read("HEAD").and_then(branch).unwrap_or_else(|| self.git(["rev-parse", "HEAD"]))
    }

    /// Runs git, which must succeed, and returns its standard output without the last newline.
    pub fn git<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> String {
        let output = succeed(self.command("git").args(arguments));
        String::from_utf8(output.stdout).expect("git's output is UTF-8").trim_end_matches('\n').to_owned()
    }

    /// A program started at the root, in the isolated environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = isolated(program);
        command.current_dir(&self.root);
        command
    }

    /// The tool itself, started at the root, its cache beside the repository.
    pub fn memprof(&self) -> assert_cmd::Command {
        let mut command = tool();
        command.current_dir(&self.root).env("CARGO_MEMPROF_HOME", home_at(self.beside("cache")));
        assert_cmd::Command::from_std(command)
    }
}

/// What a call of the program printed.
pub struct Printed {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Printed {
    pub fn of(mut command: Command) -> Self {
        let output = command.output().expect("the program starts");
        Self {
            code: output.status.code().expect("the program exits"),
            stdout: String::from_utf8(output.stdout).expect("the report is text"),
            stderr: String::from_utf8(output.stderr).expect("messages are text"),
        }
    }

    pub fn everything(&self) -> String {
        format!("exit code {}\n--- stdout\n{}\n--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// A program in an environment without git's and the tool's variables, without the user's and the system's git
/// configuration, and with a fixed identity.
pub fn isolated(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = ["GIT_", "MEMPROF_", "CARGO_MEMPROF_"].iter().any(|prefix| text.starts_with(prefix));
        // Cargo and rustup set these for the test that is running; they are not a user's.
        let inherited =
            ["CARGO_PKG_", "CARGO_BIN_EXE_", "CARGO_MANIFEST_"].iter().any(|prefix| text.starts_with(prefix));
        let wrapper = matches!(&*text, "RUSTC_WRAPPER" | "RUSTC_WORKSPACE_WRAPPER" | "CARGO_TARGET_DIR");
        if ours || inherited || wrapper {
            command.env_remove(&name);
        }
    }
    command.envs(ENVIRONMENT).env("NO_COLOR", "1");
    command
}

/// The tool itself; what cargo sets for this very test must not reach the cargo that it calls.
pub fn tool() -> Command {
    let mut command = isolated(env!("CARGO_BIN_EXE_cargo-memprof"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_") && name != "CARGO_HOME") {
            command.env_remove(name);
        }
    }
    // Few tests look at debug information, and it is most of an executable.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// The folder, made if need be, as the tool's home. The homes of all tests share the compiled shims and the copy of the
/// program: making these takes longer than most tests.
pub fn home_at(folder: PathBuf) -> PathBuf {
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    for name in ["shim", "program"] {
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&shared).expect("the folder can be made");
        match std::os::unix::fs::symlink(shared, folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                panic!("{}: {error}", folder.display())
            }
            Ok(()) | Err(_) => {}
        }
    }
    folder
}

/// A new home, which is removed at the end of the test.
pub fn home() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    home_at(folder.path().to_owned());
    folder
}

/// What [`every_byte`] found: mode, time, and content.
pub type Bytes = BTreeMap<PathBuf, (u32, SystemTime, String)>;

/// Every file below a folder, with its mode, time and content; what `skip` says is left out.
pub fn every_byte(root: &Path, skip: impl Fn(&Path) -> bool) -> Bytes {
    let walk = walkdir::WalkDir::new(root).into_iter();
    let relative = |path: &Path| path.strip_prefix(root).expect("the walk stays below").to_owned();
    let mut files = BTreeMap::new();
    for entry in walk.filter_entry(|entry| !skip(&relative(entry.path()))) {
        let entry = entry.expect("nothing disappears meanwhile");
        let metadata = entry.metadata().expect("it was just listed");
        let (time, content) = if entry.file_type().is_symlink() {
            (
                SystemTime::UNIX_EPOCH,
                std::fs::read_link(entry.path()).expect("it is a link").display().to_string(),
            )
        } else if metadata.is_dir() {
            // A folder's time says that a temporary file came and went in it.
            (SystemTime::UNIX_EPOCH, "folder".to_owned())
        } else {
            let content = std::fs::read(entry.path()).expect("it can be read");
            // Git touches the shared half of a split index whenever it reads it, `git status` included.
            let is_shared_index = entry.file_name().to_string_lossy().starts_with("sharedindex.");
            let time = metadata.modified().expect("the file system has times");
            let time = if is_shared_index { SystemTime::UNIX_EPOCH } else { time };
            (time, String::from_utf8_lossy(&content).into_owned())
        };
        files.insert(relative(entry.path()), (metadata.permissions().mode(), time, content));
    }
    files
}

/// Both must be the same; the message names the files that are not.
pub fn assert_same_bytes(before: &Bytes, after: &Bytes) {
    let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for path in paths {
        match (before.get(path), after.get(path)) {
            (Some(before), Some(after)) => assert_eq!(before, after, "{} changed", path.display()),
            (before, _) => {
                let fate = if before.is_some() { "is gone" } else { "is new" };
                panic!("{} {fate}", path.display());
            }
        }
    }
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("could not start {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
