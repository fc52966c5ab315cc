//! What became of a test's process, read from its exit, its output and its log.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use camino::Utf8Path;

use crate::build::store::Refusal;
use crate::results::outcome::{Outcome, Status};
use crate::results::run_folder::file;
use crate::run::process_group::{Exit, Fate};
use crate::support::bytes::Bytes;

/// What there is to judge a process by, beside its exit.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The run's folder, with log and output.
    pub folder: &'a Utf8Path,
    /// The key of the build that was to run.
    pub key: &'a str,
    /// Whether libtest's harness was to run one test.
    pub harness: bool,
    /// The time limit in seconds, if there was one.
    pub limit_seconds: u64,
    /// Whether the kernel killed a process for want of memory meanwhile.
    pub killed_by_kernel: bool,
}

/// How much of the end of standard error is looked through for a panic.
const TAIL: u64 = 256 * 1024;

/// How the shim's words begin where it can write no more: the test has closed its descriptor, or a disk is full.
const END_OF_RECORDING: &str = "memprof: recording ends here, ";

/// The outcome of a run; `None` if the user interrupted it.
pub fn outcome(fate: &Fate, evidence: &Evidence<'_>) -> anyhow::Result<Option<Outcome>> {
    let stderr = tail(&evidence.folder.join(file::STDERR))?;
    let refused_by_gpu = last_refusal_of_gpu(&evidence.folder.join(file::LOG))?;
    let out_of_memory = stderr.lines().rev().find(|line| is_allocation_failure(line));
    let (status, message) = match fate.exit {
        Exit::Interrupted => return Ok(None),
        Exit::TimedOut => (Status::Timeout { limit_seconds: evidence.limit_seconds }, None),
        Exit::Signalled(_) if out_of_memory.is_some() => {
            (Status::OutOfMemory, out_of_memory.map(ToOwned::to_owned))
        }
        Exit::Signalled(libc::SIGKILL) if evidence.killed_by_kernel => {
            (Status::OutOfMemory, Some("the kernel killed it for want of memory".to_owned()))
        }
        // A refusal that C++ code turned into an exception which nobody caught, or a panic that could not unwind.
        Exit::Signalled(libc::SIGABRT) if refused_by_gpu.is_some() => {
            (Status::OutOfMemory, with_panic(refused_by_gpu, &stderr))
        }
        Exit::Signalled(signal) => (Status::Killed { signal }, panic_message(&stderr)),
        Exit::Code(0) => judge_success(evidence, &stderr)?,
        // A test may go on after a refusal, or even want one; if it failed, that is why.
        Exit::Code(_) if refused_by_gpu.is_some() => {
            (Status::OutOfMemory, with_panic(refused_by_gpu, &stderr))
        }
        Exit::Code(exit_code) => {
            (Status::Failed { exit_code }, panic_message(&stderr).or_else(|| loader_message(&stderr)))
        }
    };
    let wall_nanoseconds = u64::try_from(fate.wall.as_nanos()).ok();
    Ok(Some(Outcome { status, message, wall_nanoseconds }))
}

/// The last allocation that a GPU had no memory for, as the shim logged it.
fn last_refusal_of_gpu(log: &Utf8Path) -> anyhow::Result<Option<String>> {
    let log = match fs_err::File::open(log) {
        Ok(log) => log,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut last = None;
    for line in BufReader::new(log).split(b'\n') {
        let line = line?;
        if memchr::memmem::find(&line, b"\"event\":\"gpu_out_of_memory\"").is_some() {
            last = serde_json::from_slice::<serde_json::Value>(&line).ok().or(last);
        }
    }
    let bytes =
        |value: &serde_json::Value| value.as_u64().map_or("?".to_owned(), |bytes| Bytes(bytes).to_string());
    Ok(last.map(|event| {
        let (requested, live) = (bytes(&event["requested"]), bytes(&event["live"]));
        format!("GPU {} had no {requested} left ({live} live)", event["device"])
    }))
}

/// Exit code 0 is not enough: the test must have run, and the process must be the build that was planned.
fn judge_success(evidence: &Evidence<'_>, stderr: &str) -> anyhow::Result<(Status, Option<String>)> {
    if let Some(reason) = refusal(evidence)? {
        return Ok((Status::Refused, Some(reason)));
    }
    let ran = !evidence.harness || says_that_it_ran(&evidence.folder.join(file::STDOUT))?;
    if ran {
        let end = stderr.lines().find(|line| line.starts_with(END_OF_RECORDING));
        Ok((Status::Ok, end.map(str::to_owned)))
    } else {
        Ok((Status::Refused, Some("the harness says that it ran no test".to_owned())))
    }
}

/// Whether libtest's first line is there; a filter that meets no test makes it `running 0 tests`.
fn says_that_it_ran(stdout: &Utf8Path) -> anyhow::Result<bool> {
    for line in BufReader::new(fs_err::File::open(stdout)?).split(b'\n') {
        if line? == b"running 1 test" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why the figures of this process are not those of the plan, from the first line of its log.
fn refusal(evidence: &Evidence<'_>) -> anyhow::Result<Option<String>> {
    let log = evidence.folder.join(file::LOG);
    let mut first = Vec::new();
    match fs_err::File::open(&log) {
        Ok(log) => BufReader::new(log).read_until(b'\n', &mut first)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Some("the process wrote no log: the shim is not in it, or did not start".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    let begin: serde_json::Value = serde_json::from_slice(&first).unwrap_or_default();
    let found = begin["build"].as_str().unwrap_or("unknown");
    let other = Refusal::OtherBuild { found: found.to_owned(), expected: evidence.key.to_owned() };
    Ok((found != evidence.key).then(|| other.to_string()))
}

fn tail(path: &Utf8Path) -> anyhow::Result<String> {
    let mut file = fs_err::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_allocation_failure(line: &str) -> bool {
    line.starts_with("memory allocation of ") && line.trim_end().ends_with(" bytes failed")
}

/// What the GPU refused, and what the test then said of its end: it may have gone on and failed for another reason.
fn with_panic(refusal: Option<String>, stderr: &str) -> Option<String> {
    match (refusal, panic_message(stderr)) {
        (Some(refusal), Some(panic)) => Some(format!("{refusal}\n{panic}")),
        (refusal, panic) => refusal.or(panic),
    }
}

/// The first panic: its place and its text, without backtrace and notes.
fn panic_message(stderr: &str) -> Option<String> {
    let mut lines = stderr.lines().skip_while(|line| !line.contains("panicked at "));
    let first = lines.next()?;
    let place = first.split_once("panicked at ").map_or(first, |(_, place)| place).trim_end_matches(':');
    let ends = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with("note: ") && !line.starts_with("stack backtrace:") && !line.starts_with("test ")
    };
    let text: Vec<&str> = lines.take_while(ends).take(10).collect();
    // Before Rust 1.73 the text stood on the first line, in quotes, before the place.
    Some(format!("{place}: {}", text.join("\n")).trim_end_matches([':', ' ', '\n']).to_owned())
}

/// Why the loader did not start the program: a library, or a version of one, that this machine does not have. It says so
/// in a line of its own, and the process ends with 1 or 127 (glibc's `elf/dl-error` and `elf/rtld`).
fn loader_message(stderr: &str) -> Option<String> {
    let is_loaders = |line: &&str| {
        line.contains(": error while loading shared libraries: ")
            || (line.contains(": version `") && line.contains("' not found (required by "))
    };
    stderr.lines().find(is_loaders).map(|line| line.trim().to_owned())
}

/// How often the kernel has killed a process for want of memory: in our control group where there is a version 2 of them, and
/// on the machine. 0 where it does not say.
pub fn kernel_kills() -> u64 {
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

    const KEY: &str = "k";

    fn judged(exit: Exit, log: Option<&str>, stdout: &str, stderr: &str) -> (Status, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        if let Some(log) = log {
            fs_err::write(folder.join(file::LOG), log).unwrap();
        }
        fs_err::write(folder.join(file::STDOUT), stdout).unwrap();
        fs_err::write(folder.join(file::STDERR), stderr).unwrap();
        let evidence =
            Evidence { folder, key: KEY, harness: true, limit_seconds: 5, killed_by_kernel: false };
        let fate = Fate { exit, wall: Duration::from_millis(1) };
        let outcome = outcome(&fate, &evidence).unwrap().unwrap();
        (outcome.status, outcome.message)
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
        let (status, message) = judged(Exit::Code(0), None, "running 1 test\n", "");
        assert_eq!(status, Status::Refused);
        assert!(message.unwrap().contains("no log"));
        let (status, message) =
            judged(Exit::Code(0), Some("{\"build\":\"other\"}\n"), "running 1 test\n", "");
        assert_eq!(status, Status::Refused);
        assert_eq!(message.unwrap(), "the test process says it is build other, the plan says k");
    }

    #[test]
    fn a_panic_is_quoted_without_its_backtrace() {
        let stderr = "\nthread 'a' panicked at src/lib.rs:5:9:\nassertion failed\n  left: 1\nnote: run with `RUST_BACKTRACE=1`\n";
        let (status, message) = judged(Exit::Code(101), Some(BEGIN), "", stderr);
        assert_eq!(status, Status::Failed { exit_code: 101 });
        assert_eq!(message.unwrap(), "src/lib.rs:5:9: assertion failed\n  left: 1");
    }

    #[test]
    fn a_program_that_the_loader_does_not_start_says_what_it_lacks() {
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
        assert_eq!(message.unwrap(), "GPU 0 had no 1.00 GiB left (2.00 KiB live)");
        assert_eq!(judged(Exit::Code(0), Some(&log), "running 1 test\n", "").0, Status::Ok);
        assert_eq!(judged(Exit::Signalled(6), Some(&log), "", "").0, Status::OutOfMemory);
        assert_eq!(judged(Exit::Signalled(11), Some(&log), "", "").0, Status::Killed { signal: 11 });
    }

    #[test]
    fn a_test_that_went_on_without_the_gpus_memory_is_quoted_with_how_it_failed() {
        let refusal =
            "{\"v\":1,\"event\":\"gpu_out_of_memory\",\"device\":0,\"requested\":1073741824,\"live\":0}\n";
        let stderr = "thread 'a' panicked at src/lib.rs:5:9:\nthe smaller batch is wrong\nnote: run with …\n";
        let (status, message) = judged(Exit::Code(101), Some(&format!("{BEGIN}{refusal}")), "", stderr);
        assert_eq!(status, Status::OutOfMemory);
        assert_eq!(
            message.unwrap(),
            "GPU 0 had no 1.00 GiB left (0 B live)\nsrc/lib.rs:5:9: the smaller batch is wrong"
        );
    }

    #[test]
    fn an_allocation_that_failed_is_told_apart_from_an_abort() {
        let stderr = "memory allocation of 1099511627776 bytes failed\n";
        let (status, message) = judged(Exit::Signalled(6), Some(BEGIN), "", stderr);
        assert_eq!(status, Status::OutOfMemory);
        assert!(message.unwrap().contains("1099511627776"));
        assert_eq!(judged(Exit::Signalled(6), Some(BEGIN), "", "").0, Status::Killed { signal: 6 });
        assert_eq!(judged(Exit::TimedOut, Some(BEGIN), "", "").0, Status::Timeout { limit_seconds: 5 });
    }
}
