//! Compiles the shim once and each program once per set of flags, runs them, and reads their logs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

use crate::log_schema;

/// Where everything built here lies.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shim");
        fs_err::create_dir_all(&folder).unwrap();
        folder
    })
}

/// A path of its own for something that one test makes.
pub fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder().join(format!("{name}-{}-{number}", std::process::id()));
    if path.exists() {
        fs_err::remove_file(&path).unwrap();
    }
    path
}

/// The compiler under test: `MEMPROF_TEST_RUSTC`, such as the oldest supported one, else the usual.
pub fn rustc() -> Command {
    Command::new(std::env::var_os("MEMPROF_TEST_RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// The usual compiler: the fake driver needs a newer one than the shim does.
pub fn usual_rustc() -> Command {
    Command::new("rustc")
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output.stderr));
    output
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The folder with the two crates' libraries, built with these further flags.
pub fn shim(flags: &[&str]) -> PathBuf {
    shim_by(rustc, flags)
}

/// The same, built by this compiler.
pub fn shim_by(compiler: fn() -> Command, flags: &[&str]) -> PathBuf {
    once(&format!("shim {} {flags:?}", compiler().get_program().display()), |libraries| {
        fs_err::create_dir_all(libraries).unwrap();
        for name in ["memprof", "memprof_heap"] {
            let mut command = compiler();
            command
                .args(["--crate-name", name, "--crate-type", "rlib", "--edition", "2021"])
                .args(["-C", "opt-level=3", "-D", "warnings"])
                .args(flags)
                .arg("--out-dir")
                .arg(libraries)
                .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("templates").join(name).join("lib.rs"));
            if name == "memprof_heap" {
                // Thread-local storage of an executable is a few instructions nearer than that of a library.
                command.args(["-C", "relocation-model=pie"]).args(shim_flags(libraries));
            }
            succeed(&mut command);
        }
    })
}

/// What gives a crate the shim.
pub fn shim_flags(libraries: &Path) -> Vec<OsString> {
    let library = |name: &str| format!("{name}={}", libraries.join(format!("lib{name}.rlib")).display());
    let mut flags: Vec<OsString> =
        vec!["-L".into(), libraries.into(), "--extern".into(), library("memprof").into()];
    if libraries.join("libmemprof_heap.rlib").exists() {
        flags.extend(["--extern".into(), library("memprof_heap").into()]);
    }
    flags
}

/// The executable of a program under `fixtures/shim`, compiled with these flags.
pub fn program(name: &str, flags: &[&str]) -> PathBuf {
    let libraries = shim(&[]);
    once(&format!("{name} {flags:?}"), |executable| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/shim/{name}.rs"));
        let edition = if name == "edition_2015" { "2015" } else { "2021" };
        let mut command = rustc();
        command.args(["--edition", edition, "-D", "warnings"]).args(flags).args(shim_flags(&libraries));
        succeed(command.arg(source).arg("-o").arg(executable));
    })
}

/// A shared library, from a source in this repository.
pub fn cdylib(source: &Path, name: &str) -> PathBuf {
    let folder = once(&format!("library {name}"), |folder| {
        fs_err::create_dir_all(folder).unwrap();
        let mut command = rustc();
        command.args(["--crate-name", name, "--crate-type", "cdylib", "--edition", "2021", "-D", "warnings"]);
        command.args(["-C", "opt-level=3", "-C", "panic=abort", "--out-dir"]).arg(folder);
        succeed(command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)));
    });
    folder.join(format!("lib{name}.so"))
}

/// Whether an empty program links with these flags.
pub fn links(flags: &[&str]) -> bool {
    let (source, executable) = (scratch("empty.rs"), scratch("empty"));
    fs_err::write(&source, "fn main() {}\n").unwrap();
    let output = rustc().args(flags).arg(&source).arg("-o").arg(&executable).output().unwrap();
    for file in [&source, &executable] {
        let _ = fs_err::remove_file(file);
    }
    output.status.success()
}

/// The same program, with the crate for ordinary builds in place of the shim; `None` if that crate is not here.
pub fn ordinary_program(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("crates/memprof/src/lib.rs");
    if !source.exists() {
        return None;
    }
    let libraries = once("the crate for ordinary builds", |libraries| {
        fs_err::create_dir_all(libraries).unwrap();
        let mut command = rustc();
        command.args(["--crate-name", "memprof", "--crate-type", "rlib", "--edition", "2021"]);
        succeed(command.args(["-D", "warnings", "--out-dir"]).arg(libraries).arg(&source));
    });
    Some(once(&format!("{name} {flags:?} in an ordinary build"), |executable| {
        let mut command = rustc();
        command.args(["--edition", "2021", "-D", "warnings"]).args(flags).args(shim_flags(&libraries));
        succeed(command.arg(root.join(format!("fixtures/shim/{name}.rs"))).arg("-o").arg(executable));
    }))
}

/// Makes something at a path of its own, the first time that it is asked for.
pub fn once(key: &str, make: impl FnOnce(&Path)) -> PathBuf {
    static MADE: OnceLock<Mutex<HashMap<String, &'static OnceLock<PathBuf>>>> = OnceLock::new();
    let cell = {
        let mut cells = MADE.get_or_init(Mutex::default).lock().unwrap();
        *cells.entry(key.to_owned()).or_insert_with(|| Box::leak(Box::default()))
    };
    cell.get_or_init(|| {
        let path = folder().join(format!(
            "{:x}",
            key.bytes().fold(0_u64, |hash, byte| hash * 31 % (1 << 56) + u64::from(byte))
        ));
        make(&path);
        path
    })
    .clone()
}

/// A program that is about to run.
pub struct Experiment {
    command: Command,
    log: PathBuf,
}

/// What came of it.
pub struct Record {
    pub output: Output,
    /// The log's lines; `None` if there is no log.
    lines: Option<Vec<Value>>,
    log: PathBuf,
}

impl Experiment {
    /// Inside a run: with a log.
    pub fn of(executable: impl AsRef<Path>) -> Self {
        let log = scratch("log");
        let mut experiment = Self::outside_a_run(executable);
        experiment.command.env("MEMPROF_LOG", &log);
        Self { log, ..experiment }
    }

    /// Outside a run: with none of the runner's variables.
    pub fn outside_a_run(executable: impl AsRef<Path>) -> Self {
        let mut command = Command::new(executable.as_ref());
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MEMPROF_"))
        {
            command.env_remove(name);
        }
        Self { command, log: scratch("log") }
    }

    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs a program that changes its own log, and is given its path. Returns the log.
    pub fn run_with_log(mut self) -> Vec<u8> {
        succeed(self.command.arg(&self.log));
        let log = fs_err::read(&self.log).unwrap();
        fs_err::remove_file(&self.log).unwrap();
        log
    }

    pub fn run(mut self) -> Record {
        let output = self.command.output().unwrap();
        let lines: Option<Vec<Value>> = fs_err::read_to_string(&self.log).ok().map(|log| {
            // The tool cuts them off, too, if a process did not end by itself.
            let log = log.trim_end_matches('\0');
            assert!(log.ends_with('\n'), "the last line is whole: {log:?}");
            log.lines()
                .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
                .collect()
        });
        log_schema::assert_fit(lines.as_deref().unwrap_or_default());
        Record { output, lines, log: self.log }
    }

    /// Runs a program that must succeed.
    pub fn succeed(self) -> Record {
        let record = self.run();
        let stderr = text(&record.output.stderr);
        assert!(record.output.status.success(), "{}\n{stderr}", record.output.status);
        record
    }
}

impl Record {
    pub fn has_log(&self) -> bool {
        self.lines.is_some()
    }

    pub fn lines(&self) -> &[Value] {
        self.lines.as_deref().expect("the program wrote a log")
    }

    /// Where the log is.
    pub fn path(&self) -> &Path {
        &self.log
    }

    pub fn log_text(&self) -> String {
        fs_err::read_to_string(&self.log).unwrap()
    }

    /// Lines of one event, in order.
    pub fn events(&self, event: &str) -> Vec<&Value> {
        self.lines().iter().filter(|line| line["event"] == event).collect()
    }

    /// All checkpoints' labels, in order.
    pub fn labels(&self) -> Vec<&str> {
        self.events("checkpoint").iter().map(|line| line["label"].as_str().unwrap()).collect()
    }

    /// The first checkpoint of this label.
    pub fn checkpoint(&self, label: &str) -> &Value {
        self.find("checkpoint", label)
    }

    /// The first scope of this label.
    pub fn scope(&self, label: &str) -> &Value {
        self.find("scope", label)
    }

    fn find(&self, event: &str, label: &str) -> &Value {
        let found = self.events(event).into_iter().find(|line| line["label"] == label);
        found.unwrap_or_else(|| panic!("no {event} '{label}' in\n{}", self.log_text()))
    }

    /// A checkpoint's figure.
    pub fn figure(&self, label: &str, metric: &str) -> i64 {
        figure(self.checkpoint(label), metric)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs_err::remove_file(&self.log);
        }
    }
}

/// A line's figure.
pub fn figure(line: &Value, metric: &str) -> i64 {
    line["metrics"][metric].as_i64().unwrap_or_else(|| panic!("no {metric} in {line}"))
}
