//! Classifies how a test's process ended, by its exit, its output and its log.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use anstream::adapter::strip_str;
use camino::Utf8Path;

use crate::panic_message::{is_of_memory_assertion, panic_message};
use crate::process_group::{Exit, FinishedProcess};
use memprof_build::harness_library::HarnessLibrary;
use memprof_build::store::WrongBuild;
use memprof_judge::results::file_seal::{self, FileSeal};
use memprof_judge::results::log_checksum::LogKey;
use memprof_judge::results::log_file::MOST_OF_LOG;
use memprof_judge::results::outcome::{Outcome, Status};
use memprof_judge::results::run_folder::file;
use memprof_support::bounded_lines;
use memprof_support::bytes::Bytes;
use memprof_support::labels;
use memprof_support::regular_file;

/// What a process is classified by, besides its exit.
#[derive(Clone, Debug)]
pub(crate) struct Evidence<'a> {
    /// The run's folder, with log and output.
    pub folder: &'a Utf8Path,
    /// The key of the planned build.
    pub key: &'a str,
    /// The key of the log's checksum.
    pub log_key: &'a LogKey,
    /// Whether the shim in the build writes the checksum.
    pub has_checksum: bool,
    /// What the test did to its files, if that makes the run useless.
    pub harm: Option<String>,
    /// Whether libtest's harness should have run one test.
    pub harness: bool,
    /// The library that should have run one test or benchmark instead.
    pub library: Option<HarnessLibrary>,
    /// The test's name.
    pub test: &'a str,
    /// The exit code that means success.
    pub exit_code: u8,
    /// The time limit in seconds, if there was one.
    pub limit_seconds: u64,
    /// Whether the kernel's out-of-memory killer was active during the run.
    pub killed_by_kernel: bool,
}

/// How many bytes at the end of each output are searched for a panic.
const TAIL: u64 = 256 * 1024;

/// How many bytes of a line are read, of the log and of the output. The lines that are searched for
/// are much shorter.
const MOST_OF_LINE: usize = 1 << 20;

/// The start of the shim's message when it can no longer write its log, for example because the
/// test closed its file descriptor or the disk is full.
const END_OF_RECORDING: &str = "memprof: recording ends here, ";

/// The device of page-locked host memory in the shim's log.
const PINNED: &str = "host_pinned";

/// Returns the outcome of a run.
pub(crate) fn outcome(process: &FinishedProcess, evidence: &Evidence<'_>) -> Outcome {
    let (status, message) = judge(process, evidence);
    let wall_nanoseconds = u64::try_from(process.wall.as_nanos()).ok();
    let outcome = match (&evidence.harm, status) {
        (Some(harm), Status::Ok | Status::Refused) => (Status::Refused, Some(harm.clone())),
        (Some(harm), status) => {
            (status, Some(message.map_or(harm.clone(), |text| format!("{text}\n{harm}"))))
        }
        (None, status) => (status, message),
    };
    Outcome { status: outcome.0, message: outcome.1, wall_nanoseconds }
}

/// Judges a run by its exit, its output and its log.
fn judge(process: &FinishedProcess, evidence: &Evidence<'_>) -> (Status, Option<String>) {
    // The test can do anything to these files. What cannot be read is `harm`, or it is missing
    // below.
    let stderr = tail(&evidence.folder.join(file::STDERR)).unwrap_or_default();
    let refused_by_gpu = last_refusal_of_gpu(&evidence.folder.join(file::LOG)).unwrap_or_default();
    let panic = panic_message(&stderr, evidence.test);
    let out_of_memory = stderr.lines().rev().find(|line| is_allocation_failure(line));
    match process.exit {
        Exit::Interrupted => (Status::Interrupted, None),
        Exit::TimedOut => (Status::Timeout { limit_seconds: evidence.limit_seconds }, None),
        Exit::Signalled(_) if out_of_memory.is_some() => {
            (Status::OutOfMemory, out_of_memory.map(ToOwned::to_owned))
        }
        Exit::Signalled(libc::SIGKILL) if evidence.killed_by_kernel => {
            (Status::OutOfMemory, Some("killed by the kernel's out-of-memory killer".to_owned()))
        }
        // C++ code threw an exception after the refusal and nobody caught it, or a panic could not
        // unwind.
        Exit::Signalled(libc::SIGABRT) if refused_by_gpu.is_some() => {
            (Status::OutOfMemory, joined(refused_by_gpu, panic))
        }
        Exit::Signalled(signal) => (Status::Killed { signal }, stack_overflow(&stderr).or(panic)),
        Exit::Code(code) if code == i32::from(evidence.exit_code) => judge_success(evidence, &stderr),
        // A test may continue after a refusal, or even expect one. If it failed, the refusal is the
        // reason.
        Exit::Code(_) if refused_by_gpu.is_some() => (Status::OutOfMemory, joined(refused_by_gpu, panic)),
        Exit::Code(exit_code) => {
            let other =
                (evidence.exit_code != 0).then(|| format!("expected exit code {}", evidence.exit_code));
            let is_of_limit = panic.as_deref().is_some_and(is_of_memory_assertion);
            let status = if is_of_limit { Status::OverLimit } else { Status::Failed { exit_code } };
            let stdout = || tail(&evidence.folder.join(file::STDOUT)).unwrap_or_default();
            let note = evidence.harness.then(|| should_panic_note(&stdout())).flatten();
            let said = joined(panic, note).or_else(|| loader_message(&stderr));
            (status, said.or_else(|| returned_error(&stderr)).or(other))
        }
    }
}

/// Returns the hashes of the run's files. The outcome says of a file that cannot be read that the
/// test replaced it.
pub(crate) fn seals(folder: &Utf8Path) -> BTreeMap<String, FileSeal> {
    let seal = |name: &str| Some((name.to_owned(), file_seal::read(&folder.join(name)).ok()??));
    [file::LOG, file::STDOUT, file::STDERR].into_iter().filter_map(seal).collect()
}

/// Describes the last allocation that a GPU's driver had no memory for, from the shim's log.
fn last_refusal_of_gpu(log: &Utf8Path) -> io::Result<Option<String>> {
    let log = regular_file::open_within(log, MOST_OF_LOG)?;
    let mut last = None;
    bounded_lines::each_line(BufReader::new(log), MOST_OF_LINE, |line| {
        if memchr::memmem::find(line, b"\"event\":\"gpu_out_of_memory\"").is_some() {
            last = serde_json::from_slice::<serde_json::Value>(line).ok().or_else(|| last.take());
        }
        true
    })?;
    let bytes =
        |value: &serde_json::Value| value.as_u64().map_or("?".to_owned(), |bytes| Bytes(bytes).to_string());
    Ok(last.map(|event| {
        let (requested, live) = (bytes(&event["requested"]), bytes(&event["live"]));
        let device = match &event["device"] {
            serde_json::Value::String(name) if name == PINNED => {
                return format!("page-locked host memory could not be allocated: {requested} ({live} live)");
            }
            serde_json::Value::String(name) => format!("GPU {}", labels::one_line(name)),
            serde_json::Value::Number(index) => format!("GPU {index}"),
            _ => "the CUDA driver".to_owned(),
        };
        format!("{device} could not allocate {requested} ({live} live)")
    }))
}

/// Checks a process with exit code 0: the test must have run, and in the planned build.
fn judge_success(evidence: &Evidence<'_>, stderr: &str) -> (Status, Option<String>) {
    let refused = |reason: String| (Status::Refused, Some(reason));
    match refusal(evidence) {
        Ok(Some(reason)) => return refused(reason),
        Ok(None) => {}
        Err(error) => return refused(format!("its log cannot be read: {error}")),
    }
    if evidence.harness {
        match tests_of_harness(&evidence.folder.join(file::STDOUT)) {
            Ok(1) => {}
            Ok(0) => return refused("the test harness ran no test".to_owned()),
            // A function with two attributes `#[test]` is listed twice, and always runs twice.
            Ok(tests) => {
                return refused(format!("{tests} tests have this name, so their memory is not apart"));
            }
            Err(error) => return refused(format!("its output cannot be read: {error}")),
        }
        match body_did_not_begin(&evidence.folder.join(file::LOG)) {
            Ok(true) => return refused(NOT_HERE.to_owned()),
            Ok(false) => {}
            Err(error) => return refused(format!("its log cannot be read: {error}")),
        }
    }
    if let Some(library) = evidence.library {
        let name = evidence.test;
        match library_ran(&evidence.folder.join(file::STDOUT), library, name) {
            Ok(true) => {}
            Ok(false) => return refused(format!("the executable did not say that it ran '{name}'")),
            Err(error) => return refused(format!("its output cannot be read: {error}")),
        }
    }
    let end = stderr.lines().find(|line| line.starts_with(END_OF_RECORDING));
    (Status::Ok, end.map(str::to_owned))
}

/// Why a test that passed without its body has no figures.
const NOT_HERE: &str = "libtest ran the test in a process of its own (`-Z panic-abort-tests`), which is not measured; \
                        remove this flag from RUSTFLAGS or from cargo's configuration";

/// Whether the shim waited in vain for the test's body, as its log says in the first line about that.
fn body_did_not_begin(log: &Utf8Path) -> io::Result<bool> {
    let log = regular_file::open_within(log, MOST_OF_LOG)?;
    let mut reason = serde_json::Value::Null;
    bounded_lines::each_line(BufReader::new(log), MOST_OF_LINE, |line| {
        let is_of_body = memchr::memmem::find(line, b"\"event\":\"body\"").is_some();
        if is_of_body {
            reason = serde_json::from_slice(line)
                .map_or(serde_json::Value::Null, |line: serde_json::Value| line["reason"].clone());
        }
        !is_of_body
    })?;
    Ok(reason == "the test's body did not begin")
}

/// Returns how many tests libtest ran, as it printed: `running 1 test`. With a filter that matches none, it prints
/// `running 0 tests`.
fn tests_of_harness(stdout: &Utf8Path) -> io::Result<u32> {
    let mut tests = None;
    bounded_lines::each_line(BufReader::new(regular_file::open(stdout)?), MOST_OF_LINE, |line| {
        let line = std::str::from_utf8(line).unwrap_or_default();
        let number = line.strip_prefix("running ").and_then(|rest| rest.split_once(" test"));
        tests =
            number.filter(|(_, rest)| matches!(*rest, "" | "s")).and_then(|(number, _)| number.parse().ok());
        tests.is_none()
    })?;
    Ok(tests.unwrap_or(0))
}

/// Whether a line of the output says that the benchmark or test ran.
fn library_ran(stdout: &Utf8Path, library: HarnessLibrary, name: &str) -> io::Result<bool> {
    let mut ran = false;
    bounded_lines::each_line(BufReader::new(regular_file::open(stdout)?), MOST_OF_LINE, |line| {
        ran = library.says_it_ran(line, name);
        !ran
    })?;
    Ok(ran)
}

/// Returns why the log is not one of the planned build, or not only the shim's.
fn refusal(evidence: &Evidence<'_>) -> io::Result<Option<String>> {
    let path = evidence.folder.join(file::LOG);
    let mut first = Vec::new();
    match regular_file::open_within(&path, MOST_OF_LOG) {
        Ok(log) => bounded_lines::read_line(&mut BufReader::new(log), MOST_OF_LINE, &mut first)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let reason = "the process wrote no log: it does not contain the shim, or the shim did not start";
            return Ok(Some(reason.to_owned()));
        }
        Err(error) => return Err(error),
    };
    let begin: serde_json::Value = serde_json::from_slice(&first).unwrap_or_default();
    let found = begin["build"].as_str().unwrap_or("unknown");
    if found != evidence.key {
        let other = WrongBuild::OtherBuild { found: found.to_owned(), expected: evidence.key.to_owned() };
        return Ok(Some(other.to_string()));
    }
    let log = BufReader::with_capacity(1 << 18, regular_file::open(&path)?);
    let forgery = evidence.log_key.check(log, evidence.has_checksum)?;
    Ok(forgery.map(|forgery| forgery.to_string()))
}

/// Returns the end of a file, without colours.
fn tail(path: &Utf8Path) -> io::Result<String> {
    let mut file = regular_file::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(strip_str(&String::from_utf8_lossy(&bytes)).to_string())
}

fn is_allocation_failure(line: &str) -> bool {
    line.starts_with("memory allocation of ") && line.trim_end().ends_with(" bytes failed")
}

/// Joins two reasons: a test may have failed for either.
fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}\n{other}")),
        (one, other) => one.or(other),
    }
}

/// What libtest says at the start of a line of a `#[should_panic]` test that did not panic, or otherwise.
const OF_SHOULD_PANIC: [&str; 3] = [
    "note: test did not panic as expected",
    "note: panic did not contain expected string",
    "note: expected panic with string value",
];

/// Returns what libtest printed about a `#[should_panic]` test, with the indented lines below it.
fn should_panic_note(stdout: &str) -> Option<String> {
    let lines: Vec<&str> = stdout.lines().collect();
    let first = lines.iter().rposition(|line| OF_SHOULD_PANIC.iter().any(|start| line.starts_with(start)))?;
    let below = lines[first + 1..].iter().take(10).take_while(|line| line.starts_with(' '));
    let note = lines[first].trim_start_matches("note: ");
    Some([note].into_iter().chain(below.copied()).collect::<Vec<_>>().join("\n"))
}

/// Returns what a test, or `main`, returned as `Err`: `Error: "bad result"`, with the lines below it.
fn returned_error(stderr: &str) -> Option<String> {
    let lines: Vec<&str> = stderr.lines().collect();
    let first = lines.iter().rposition(|line| line.starts_with("Error: "))?;
    Some(lines[first..].iter().take(10).copied().collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

/// Returns what Rust's handler of stack overflows printed, with what to do about it.
fn stack_overflow(stderr: &str) -> Option<String> {
    let line = stderr.lines().rev().find(|line| line.ends_with("has overflowed its stack"))?;
    Some(format!("stack overflow: {}; a larger stack: --env RUST_MIN_STACK=16777216", line.trim()))
}

/// Returns the loader's message about a library, or a version of one, that this machine lacks. The
/// process then exits with 1 or 127 (glibc's `elf/dl-error` and `elf/rtld`).
fn loader_message(stderr: &str) -> Option<String> {
    let is_loaders = |line: &&str| {
        line.contains(": error while loading shared libraries: ")
            || (line.contains(": version `") && line.contains("' not found (required by "))
    };
    stderr.lines().find(is_loaders).map(|line| line.trim().to_owned())
}

/// Returns how often the kernel's out-of-memory killer was active, on the machine and in our
/// control group (version 2). Returns 0 if the kernel does not tell.
pub(crate) fn kernel_kills() -> u64 {
    let group = fs_err::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let count = |file: String| -> Option<u64> {
        let text = fs_err::read_to_string(file).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
    };
    let of_group = count(format!("/sys/fs/cgroup{path}/memory.events")).unwrap_or_default();
    of_group + count("/proc/vmstat".to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process_group::LeftProcesses;

    const KEY: &str = "k";

    fn judged(exit: Exit, log: Option<&str>, stdout: &str, stderr: &str) -> (Status, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        if let Some(log) = log {
            fs_err::write(folder.join(file::LOG), log).unwrap();
        }
        fs_err::write(folder.join(file::STDOUT), stdout).unwrap();
        fs_err::write(folder.join(file::STDERR), stderr).unwrap();
        classified(folder, exit, None)
    }

    fn classified(folder: &Utf8Path, exit: Exit, harm: Option<&str>) -> (Status, Option<String>) {
        let evidence = Evidence {
            folder,
            key: KEY,
            log_key: &LogKey::random(),
            has_checksum: true,
            harm: harm.map(str::to_owned),
            harness: true,
            library: None,
            test: "a",
            exit_code: 0,
            limit_seconds: 5,
            killed_by_kernel: false,
        };
        let process =
            FinishedProcess { exit, wall: Duration::from_millis(1), left: LeftProcesses::default() };
        let outcome = outcome(&process, &evidence);
        (outcome.status, outcome.message)
    }

    #[test]
    fn what_a_test_does_to_its_files_is_its_outcome() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        for name in [file::LOG, file::STDOUT, file::STDERR] {
            fs_err::create_dir(folder.join(name)).unwrap();
        }
        let harm = Some("the test replaced its log by a folder");
        let (status, message) = classified(folder, Exit::Code(0), harm);
        assert_eq!((status, message.as_deref()), (Status::Refused, harm));
        let (status, message) = classified(folder, Exit::Code(101), harm);
        assert_eq!((status, message.as_deref()), (Status::Failed { exit_code: 101 }, harm));
        assert_eq!(classified(folder, Exit::TimedOut, None).0, Status::Timeout { limit_seconds: 5 });
        assert!(seals(folder).is_empty());
    }

    #[test]
    fn a_log_with_lines_of_others_is_refused() {
        let end = "{\"event\":\"end\"}\n";
        for (log, problem) in [
            (format!("{BEGIN}{BEGIN}"), "its log begins twice"),
            (format!("{BEGIN}{end}{BEGIN}"), "its log goes on after its end"),
            (format!("{BEGIN}{end}"), "its log has other lines than the shim wrote"),
        ] {
            let (status, message) = judged(Exit::Code(0), Some(&log), "running 1 test\n", "");
            assert_eq!((status, message.as_deref()), (Status::Refused, Some(problem)));
        }
    }

    const BEGIN: &str = "{\"event\":\"begin\",\"build\":\"k\"}\n";

    #[test]
    fn success_needs_a_test_that_ran_in_the_planned_build() {
        assert_eq!(judged(Exit::Code(0), Some(BEGIN), "\nrunning 1 test\n", "").0, Status::Ok);
        assert_eq!(judged(Exit::Code(0), Some(BEGIN), "\nrunning 0 tests\n", "").0, Status::Refused);
        let ended = "memprof: recording ends here, because the log cannot be written: Bad file descriptor (os error 9)";
        let (status, message) =
            judged(Exit::Code(0), Some(BEGIN), "running 1 test\n", &format!("a\n{ended}\nb\n"));
        assert_eq!((status, message.as_deref()), (Status::Ok, Some(ended)));
        let (status, message) = judged(Exit::Code(0), Some(BEGIN), "\nrunning 2 tests\n", "");
        let of_two = "2 tests have this name, so their memory is not apart";
        assert_eq!((status, message.as_deref()), (Status::Refused, Some(of_two)));
        let (status, message) = judged(Exit::Code(0), None, "running 1 test\n", "");
        assert_eq!(status, Status::Refused);
        assert!(message.unwrap().contains("no log"));
        let (status, message) =
            judged(Exit::Code(0), Some("{\"build\":\"other\"}\n"), "running 1 test\n", "");
        assert_eq!(status, Status::Refused);
        assert_eq!(message.unwrap(), "the test process reports build other, but the plan says k");
    }

    #[test]
    fn a_test_whose_body_did_not_begin_in_its_process_has_no_figures() {
        let judged = |reason: &str| {
            let body =
                format!("{{\"v\":1,\"event\":\"body\",\"begins\":\"process\",\"reason\":\"{reason}\"}}\n");
            judged(Exit::Code(0), Some(&format!("{BEGIN}{body}")), "running 1 test\n", "")
        };
        let (status, message) = judged("the test's body did not begin");
        assert_eq!((status, message.as_deref()), (Status::Refused, Some(NOT_HERE)));
        assert_eq!(judged("the executable has no symbol table").0, Status::Ok);
    }

    #[test]
    fn a_panic_is_quoted_without_its_backtrace() {
        let stderr = "\nthread 'a' panicked at src/lib.rs:5:9:\nassertion failed\n  left: 1\nnote: run with `RUST_BACKTRACE=1`\n";
        let (status, message) = judged(Exit::Code(101), Some(BEGIN), "", stderr);
        assert_eq!(status, Status::Failed { exit_code: 101 });
        assert_eq!(message.unwrap(), "src/lib.rs:5:9: assertion failed\n  left: 1");
        let coloured =
            "thread 'a' panicked at \u{1b}[1msrc/lib.rs:5:9\u{1b}[0m:\n\u{1b}[31m---- expected\u{1b}[0m\n";
        let (_, message) = judged(Exit::Code(101), Some(BEGIN), "", coloured);
        assert_eq!(message.unwrap(), "src/lib.rs:5:9: ---- expected");
    }

    #[test]
    fn a_test_that_should_panic_says_what_was_expected() {
        let of = |stdout: &str, stderr: &str| judged(Exit::Code(101), Some(BEGIN), stdout, stderr).1;
        let none =
            "---- a stdout ----\nnote: test did not panic as expected at src/lib.rs:5:4\n\nfailures:\n";
        let expected = "test did not panic as expected at src/lib.rs:5:4";
        assert_eq!(of(none, "").as_deref(), Some(expected));
        let other = "---- a stdout ----\nnote: panic did not contain expected string\n      panic message: \"one\"\n \
                     expected substring: \"two\"\n\nfailures:\n    a\n";
        let panic = "\nthread 'a' (7) panicked at src/lib.rs:9:5:\none\nnote: run with …\n";
        assert_eq!(
            of(other, panic).unwrap(),
            "src/lib.rs:9:5: one\npanic did not contain expected string\n      panic message: \"one\"\n expected \
             substring: \"two\""
        );
    }

    #[test]
    fn a_memory_assertion_that_does_not_hold_is_no_usual_failure() {
        let after = |message: &str| {
            let stderr = format!("\nthread 'a' panicked at tests/a.rs:5:9:\n{message}\nnote: run with …\n");
            judged(Exit::Code(101), Some(BEGIN), "", &stderr)
        };
        let usage = "heap: rise 2.00 MiB, transient 2.00 MiB, kept 0 B, 9 B at the end; cpu: unavailable (no /proc); \
                     time: 1ms";
        let held = "assert_heap_peak! at tests/a.rs:5: the heap rose by 2.00 MiB, and the limit is 1 B";
        let (status, message) = after(&format!("{held}\n{usage}"));
        assert_eq!(status, Status::OverLimit);
        assert_eq!(message.unwrap(), format!("tests/a.rs:5:9: {held}\n{usage}"));
        assert_eq!(
            after(
                &usage.replace("unavailable (no /proc)", "rise 1 B, transient 0 B, kept 1 B, 1 B at the end")
            )
            .0,
            Status::OverLimit
        );
        let failed = Status::Failed { exit_code: 101 };
        assert_eq!(after(usage).0, failed, "perhaps it is about the figure that is unavailable");
        let unknown =
            "assert_no_leak! at tests/a.rs:5: nobody knows whether the limit of 0 B holds, because …";
        assert_eq!(after(unknown).0, failed);
        assert_eq!(after("assertion failed: used").0, failed);
        let caught = format!("{held}\nthread 'a' panicked at tests/a.rs:9:5:\nwrong");
        assert_eq!(after(&caught), (failed, Some("tests/a.rs:9:5: wrong".into())));
    }

    #[test]
    fn a_memory_assertion_of_a_worker_counts_if_the_test_fails_after_it() {
        let of = |stderr: &str| judged(Exit::Code(101), Some(BEGIN), "", stderr);
        let held = "assert_no_leak! at tests/a.rs:5: 2.00 MiB are left, and the limit is 0 B";
        let worker =
            format!("\nthread '<unnamed>' (8) panicked at tests/a.rs:5:9:\n{held}\nnote: run with …\n");
        let own = "\nthread 'a' (7) panicked at tests/a.rs:9:5:\nassertion failed: handle.join().is_ok()\n";
        let other = "\nthread '<unnamed>' (9) panicked at tests/a.rs:7:9:\nother\n";
        let (status, message) = of(&format!("{worker}{other}{own}"));
        assert_eq!(status, Status::OverLimit);
        let said = format!("tests/a.rs:5:9: {held}\ntests/a.rs:9:5: assertion failed: handle.join().is_ok()");
        assert_eq!(message.unwrap(), said);
        assert_eq!(of(&format!("{own}{worker}")).0, Status::Failed { exit_code: 101 });
        assert_eq!(of(&format!("{other}{own}")).0, Status::Failed { exit_code: 101 });
        let of_hook = format!("panicked at tests/a.rs:5:9:\n{held}\n");
        assert_eq!(of(&of_hook), (Status::OverLimit, Some(format!("tests/a.rs:5:9: {held}"))));
    }

    #[test]
    fn an_error_that_a_test_returned_is_quoted() {
        let failed = Some(Status::Failed { exit_code: 101 });
        let of = |stderr: &str| {
            let (status, message) = judged(Exit::Code(101), Some(BEGIN), "", stderr);
            (Some(status), message)
        };
        assert_eq!(
            of("said\nError: \"bad result\"\n"),
            (failed.clone(), Some("Error: \"bad result\"".into()))
        );
        let caused = "Error: outer\n\nCaused by:\n    inner";
        assert_eq!(of(&format!("Error: of a child\n{caused}\n")), (failed.clone(), Some(caused.into())));
        assert_eq!(of("no error\n"), (failed, None));
    }

    #[test]
    fn the_loaders_message_says_which_library_is_missing() {
        let old =
            "/s/0-t: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.39' not found (required by /s/0-t)\n";
        let missing = "/s/0-t: error while loading shared libraries: liba.so: cannot open shared object file: No such \
                       file or directory\n";
        for (exit_code, stderr) in [(1, old), (127, missing)] {
            let (status, message) = judged(Exit::Code(exit_code), None, "", stderr);
            assert_eq!(status, Status::Failed { exit_code });
            assert_eq!(message.unwrap(), stderr.trim());
        }
        assert_eq!(judged(Exit::Code(1), None, "", "version `2' not found\n").1, None);
    }

    #[test]
    fn a_gpu_without_memory_is_why_a_test_failed() {
        let refusal =
            "{\"v\":1,\"event\":\"gpu_out_of_memory\",\"device\":0,\"requested\":1073741824,\"live\":2048}\n";
        let log = format!("{BEGIN}{refusal}");
        let (status, message) = judged(Exit::Code(101), Some(&log), "", "");
        assert_eq!(status, Status::OutOfMemory);
        assert_eq!(message.unwrap(), "GPU 0 could not allocate 1.00 GiB (2.00 KiB live)");
        assert_eq!(judged(Exit::Code(0), Some(&log), "running 1 test\n", "").0, Status::Ok);
        assert_eq!(judged(Exit::Signalled(6), Some(&log), "", "").0, Status::OutOfMemory);
        assert_eq!(judged(Exit::Signalled(11), Some(&log), "", "").0, Status::Killed { signal: 11 });
        for (device, said) in [
            ("\"GPU-5d2c1f0a\"", "GPU GPU-5d2c1f0a could not allocate 1.00 GiB (2.00 KiB live)"),
            ("\"host_pinned\"", "page-locked host memory could not be allocated: 1.00 GiB (2.00 KiB live)"),
            ("null", "the CUDA driver could not allocate 1.00 GiB (2.00 KiB live)"),
        ] {
            let log = log.replace("\"device\":0", &format!("\"device\":{device}"));
            assert_eq!(judged(Exit::Code(101), Some(&log), "", "").1.unwrap(), said);
        }
        let overflow =
            "\nthread 'deep' (7) has overflowed its stack\nfatal runtime error: stack overflow, aborting\n";
        let (status, message) = judged(Exit::Signalled(6), Some(BEGIN), "", overflow);
        assert_eq!(status, Status::Killed { signal: 6 });
        assert!(message.unwrap().starts_with("stack overflow: thread 'deep' (7) has overflowed its stack"));
    }

    #[test]
    fn a_test_that_continued_after_the_gpus_refusal_is_quoted_with_its_panic() {
        let refusal =
            "{\"v\":1,\"event\":\"gpu_out_of_memory\",\"device\":0,\"requested\":1073741824,\"live\":0}\n";
        let stderr = "thread 'a' panicked at src/lib.rs:5:9:\nthe smaller batch is wrong\nnote: run with …\n";
        let (status, message) = judged(Exit::Code(101), Some(&format!("{BEGIN}{refusal}")), "", stderr);
        assert_eq!(status, Status::OutOfMemory);
        assert_eq!(
            message.unwrap(),
            "GPU 0 could not allocate 1.00 GiB (0 B live)\nsrc/lib.rs:5:9: the smaller batch is wrong"
        );
    }

    #[test]
    fn a_failed_allocation_is_distinguished_from_an_abort() {
        let stderr = "memory allocation of 1099511627776 bytes failed\n";
        let (status, message) = judged(Exit::Signalled(6), Some(BEGIN), "", stderr);
        assert_eq!(status, Status::OutOfMemory);
        assert!(message.unwrap().contains("1099511627776"));
        assert_eq!(judged(Exit::Signalled(6), Some(BEGIN), "", "").0, Status::Killed { signal: 6 });
        assert_eq!(judged(Exit::TimedOut, Some(BEGIN), "", "").0, Status::Timeout { limit_seconds: 5 });
    }
}
