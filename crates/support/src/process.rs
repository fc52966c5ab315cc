//! Child processes. Only this file spawns them.
//!
//! A [`Command`] is data. It displays as a line that the user can paste into a shell, and every
//! failure quotes that line with the status and the output. Commands in a process group of their
//! own are in `process_group` of `memprof-run`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Pid;

use crate::bounded_lines;
use crate::child_output::{self, Exceeded, Limits};
use crate::process_error::ProcessError;
use crate::redaction;
use crate::regular_file::followed;

/// How often a thread that cannot wait for the interrupt flag looks at it.
pub const INTERRUPT_POLL: Duration = Duration::from_millis(50);

/// A program with its arguments, environment and folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    /// In the order set; `None` removes the variable.
    environment: Vec<(OsString, Option<OsString>)>,
    directory: Option<PathBuf>,
    input: Option<Vec<u8>>,
    input_file: Option<PathBuf>,
    limits: Limits,
}

/// How a child ended, and what it wrote.
#[derive(Clone, Debug)]
pub struct Captured {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Captured {
    /// Standard output as text without the trailing newline; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches(['\n', '\r']).to_owned()
    }
}

impl Command {
    /// A program, found on `PATH` if it has no slash.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            input: None,
            input_file: None,
            limits: Limits::TRUSTED,
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, arguments: I) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Sets variables.
    #[must_use]
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        variables.into_iter().fold(self, |command, (name, value)| command.env(name, value))
    }

    /// Removes a variable that the child would inherit.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), None));
        self
    }

    /// Sets the folder that the child starts in.
    #[must_use]
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// What the program reads from its standard input: this file. By default, that is empty.
    #[must_use]
    pub fn input_file(mut self, file: impl AsRef<Path>) -> Self {
        self.input_file = Some(file.as_ref().to_owned());
        self
    }

    /// How much the child may print, and how long it may take, in the functions below that collect its
    /// output.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets what the child reads from standard input. By default it reads nothing.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Runs to the end and captures both streams, whatever the status.
    pub fn capture(&self) -> Result<Captured, ProcessError> {
        self.captured(None)
    }

    fn captured(&self, interrupt: Option<&AtomicBool>) -> Result<Captured, ProcessError> {
        let mut child = self.spawn(|command| {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            Ok(())
        })?;
        // A thread of its own writes the input. A child that answers before it has read everything
        // would otherwise block on a full pipe while this process blocks on another.
        let input = self.input.clone().zip(child.stdin.take());
        std::thread::scope(|scope| {
            if let Some((bytes, mut pipe)) = input {
                // A child may ignore the rest of its input. Its status says whether it failed.
                scope.spawn(move || {
                    let _ = pipe.write_all(&bytes);
                });
            }
            self.collect(child, interrupt)
        })
    }

    fn collect(&self, child: Child, interrupt: Option<&AtomicBool>) -> Result<Captured, ProcessError> {
        let output = child_output::collect(child, self.limits, interrupt);
        let command = || self.to_string();
        let output = output.map_err(|source| self.broken(source))?.map_err(|exceeded| match exceeded {
            Exceeded::Interrupt => ProcessError::Interrupted { command: command() },
            exceeded => ProcessError::Exceeded { command: command(), exceeded },
        })?;
        Ok(Captured { status: output.status, stdout: output.stdout, stderr: output.stderr })
    }

    /// Runs to the end. Anything but success is an error that quotes the output.
    pub fn run(&self) -> Result<Captured, ProcessError> {
        self.succeeded(self.capture()?)
    }

    /// Does the same, and ends the child if `interrupt` is raised.
    pub fn run_until(&self, interrupt: &AtomicBool) -> Result<Captured, ProcessError> {
        self.succeeded(self.captured(Some(interrupt))?)
    }

    fn succeeded(&self, captured: Captured) -> Result<Captured, ProcessError> {
        if captured.status.success() { Ok(captured) } else { Err(self.failed(&captured)) }
    }

    /// Runs a program that contains the code of others to its end, and kills what it leaves behind.
    /// Anything but success is an error that quotes the output.
    pub fn run_supervised(&self) -> Result<Captured, ProcessError> {
        let child = self.spawn(|command| {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            supervised(command)
        })?;
        self.succeeded(self.collect(child, None)?)
    }

    /// Runs to the end. Each line of standard output goes to one callback and each line of standard
    /// error to the other, as it comes and without its newline. If `interrupt` is raised, the child
    /// gets a termination signal, and what it has started is killed.
    ///
    /// Returns the status, even of a failure. The lines are bytes, because cargo passes on what
    /// rustc and build scripts write.
    pub fn stream(
        &self,
        interrupt: &AtomicBool,
        mut on_stdout: impl FnMut(&[u8]),
        on_stderr: impl FnMut(&[u8]) + Send,
    ) -> Result<ExitStatus, ProcessError> {
        let mut child = self.spawn(|command| {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            Ok(())
        })?;
        let input = self.input.clone().zip(child.stdin.take());
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            unreachable!("both are piped");
        };
        let pid = Pid::from_child(&child);
        let ended = AtomicBool::new(false);

        let read = std::thread::scope(|scope| {
            if let Some((bytes, mut pipe)) = input {
                scope.spawn(move || {
                    let _ = pipe.write_all(&bytes);
                });
            }
            let stderr_reader = scope.spawn(move || each_line(stderr, on_stderr));
            let watcher = scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    if interrupt.load(Ordering::Relaxed) {
                        // The child is not reaped before `ended` is set, so the id is still its
                        // own.
                        child_output::end(pid);
                        return;
                    }
                    std::thread::park_timeout(INTERRUPT_POLL);
                }
            });
            let stdout_read = each_line(stdout, &mut on_stdout);
            let stderr_read = stderr_reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended.store(true, Ordering::Relaxed);
            watcher.thread().unpark();
            stdout_read.and(stderr_read)
        });
        let status = child.wait().map_err(|source| self.broken(source))?;
        read.map_err(|source| self.broken(source))?;
        if interrupt.load(Ordering::Relaxed) && !status.success() {
            return Err(ProcessError::Interrupted { command: self.to_string() });
        }
        Ok(status)
    }

    /// Starts the child. `prepare` may change the standard library's command before.
    pub fn spawn(
        &self,
        prepare: impl FnOnce(&mut std::process::Command) -> io::Result<()>,
    ) -> Result<Child, ProcessError> {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.arguments);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let not_started = |source| ProcessError::NotStarted { command: self.to_string(), source };
        command.stdin(match (&self.input, &self.input_file) {
            (Some(_), _) => Stdio::piped(),
            (None, Some(file)) => followed::open(file).map_err(not_started)?.into(),
            (None, None) => Stdio::null(),
        });
        prepare(&mut command).map_err(not_started)?;

        // A file that was just copied cannot run while any process has it open for writing. A child
        // that another thread forks keeps all our files open until its exec, a matter of
        // milliseconds.
        let mut attempts = 0;
        loop {
            match command.spawn() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && attempts < 50 => {
                    attempts += 1;
                    std::thread::sleep(Duration::from_millis(2 * attempts));
                }
                Err(source) => return Err(not_started(source)),
                Ok(child) => return Ok(child),
            }
        }
    }

    /// Returns the error for a child that did not succeed.
    pub fn failed(&self, captured: &Captured) -> ProcessError {
        ProcessError::Failed {
            command: self.to_string(),
            status: captured.status,
            stdout: redaction::text(&String::from_utf8_lossy(&captured.stdout)).into_owned(),
            stderr: redaction::text(&String::from_utf8_lossy(&captured.stderr)).into_owned(),
        }
    }

    /// The error of a child whose pipes failed.
    pub fn broken(&self, source: io::Error) -> ProcessError {
        ProcessError::Broken { command: self.to_string(), source }
    }
}

impl fmt::Display for Command {
    /// Writes the line for a POSIX shell: `cd 'my repo' && GIT_INDEX_FILE=… git add -A`. It leaves
    /// out removed variables: only a hook's environment and `--clean-env` have them. Marks stand for
    /// secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(directory) = &self.directory {
            write!(formatter, "cd {} && ", shell_quoted(directory.as_os_str()))?;
        }
        for (name, value) in &self.environment {
            if let Some(value) = value {
                let name = name.to_string_lossy();
                let value = redaction::value(&name, &value.to_string_lossy());
                write!(formatter, "{name}={} ", shell_quoted(OsStr::new(&value)))?;
            }
        }
        write!(formatter, "{}", shell_quoted(&self.program))?;
        for argument in &self.arguments {
            let argument = redaction::setting(&argument.to_string_lossy()).into_owned();
            write!(formatter, " {}", shell_quoted(OsStr::new(&argument)))?;
        }
        Ok(())
    }
}

/// Puts a supervisor between this program and the command, if the platform has one.
fn supervised(command: &mut std::process::Command) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    crate::supervisor::supervise(command)?;
    let _ = command;
    Ok(())
}

/// Returns one word for a POSIX shell, quoted only if necessary. Bytes that are not UTF-8 are
/// replaced.
pub fn shell_quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |character: char| character.is_alphanumeric() || "-_./:=@%+,^~".contains(character);
    // `~` is expanded at the start of a word only.
    if !word.is_empty() && !word.starts_with('~') && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Gives each line to the callback, without its `\n` or `\r\n`. The last line need not end in a
/// newline.
fn each_line(stream: impl Read, mut callback: impl FnMut(&[u8])) -> io::Result<()> {
    bounded_lines::each_line(BufReader::new(stream), MOST_OF_LINE, |line| {
        callback(line.strip_suffix(b"\r").unwrap_or(line));
        true
    })
}

/// A longer line of a child is cut. Cargo's longest messages have some hundred kilobytes.
const MOST_OF_LINE: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(script: &str) -> Command {
        Command::new("sh").args(["-c", script])
    }

    #[test]
    fn a_child_that_prints_too_much_or_takes_too_long_is_ended() {
        let limits = Limits { bytes: 1000, time: Some(Duration::from_mins(1)) };
        let within = |script: &str| shell(script).within(limits);
        assert_eq!(within("printf %1000d 1; printf %1000d 1 >&2").run().unwrap().stdout.len(), 1000);
        for script in ["cat /dev/zero", "cat /dev/zero >&2", "printf %1001d 1; sleep 1000"] {
            for ended in [within(script).run(), within(script).run_supervised()] {
                let message = ended.unwrap_err().to_string();
                assert!(message.ends_with("` printed more than 1000 B, the most that is read"), "{message}");
            }
        }
        let limits = Limits { time: Some(Duration::from_millis(100)), ..limits };
        let waiting = shell("sleep 1000 & sleep 1000").within(limits);
        for ended in [waiting.run(), waiting.run_supervised()] {
            assert!(ended.unwrap_err().to_string().contains("` did not end within "));
        }
    }

    #[test]
    fn the_shell_line_is_quoted_only_where_it_must_be() {
        let command = Command::new("git")
            .current_dir("/tmp/a b")
            .env("GIT_INDEX_FILE", "it's")
            .env_remove("GIT_DIR")
            .args(["log", "HEAD~3", "--format=%H %s", "", "~user"]);
        assert_eq!(
            command.to_string(),
            r"cd '/tmp/a b' && GIT_INDEX_FILE='it'\''s' git log HEAD~3 '--format=%H %s' '' '~user'"
        );
    }

    #[test]
    fn the_shell_line_does_in_a_shell_what_the_command_does() {
        let command = Command::new("printf").args(["[%s]", "a b", "it's", "$HOME", "`id`", "é\n"]);
        let by_shell = shell(&command.to_string()).run().unwrap();
        assert_eq!(command.run().unwrap().stdout, by_shell.stdout);
    }

    #[test]
    fn a_failure_quotes_the_command_the_status_and_the_output() {
        let error = shell("echo to stdout; echo to stderr >&2; exit 3").run().unwrap_err();
        let message = error.to_string();
        assert_eq!(
            message,
            "`sh -c 'echo to stdout; echo to stderr >&2; exit 3'` failed (exit status: 3):\n    to stderr"
        );
        assert_eq!(error.stderr(), "to stderr");
        let quiet = shell("echo only this; exit 1").run().unwrap_err().to_string();
        assert!(quiet.ends_with("failed (exit status: 1):\n    only this"), "{quiet}");
    }

    #[test]
    fn a_program_that_is_not_installed_is_told_apart_from_one_that_failed() {
        let missing = Command::new("no-such-program-anywhere").run().unwrap_err();
        assert!(missing.is_missing_program());
        assert!(missing.to_string().starts_with("could not start `no-such-program-anywhere`"), "{missing}");
        assert!(!shell("exit 127").run().unwrap_err().is_missing_program());
    }

    #[test]
    fn variables_are_set_and_removed() {
        let print = "echo \"${MEMPROF_A-none} ${MEMPROF_B-none}\"";
        let set = shell(print).env("MEMPROF_A", "1").env("MEMPROF_B", "2").env_remove("MEMPROF_B");
        assert_eq!(set.run().unwrap().text(), "1 none", "{set}");
    }

    #[test]
    fn input_larger_than_a_pipe_comes_back_whole() {
        let input = vec![b'x'; 1 << 20];
        assert_eq!(Command::new("cat").input(input.clone()).run().unwrap().stdout, input);
        assert_eq!(Command::new("cat").run().unwrap().stdout, b"");
    }

    #[test]
    fn lines_come_as_they_are_written_and_the_last_needs_no_newline() {
        let mut lines = Vec::new();
        let mut errors = Vec::new();
        let status = shell("printf 'one\\r\\ntwo\\n\\nlast'; echo oops >&2; exit 7")
            .stream(
                &AtomicBool::new(false),
                |line| lines.push(String::from_utf8_lossy(line).into_owned()),
                |line| errors.push(String::from_utf8_lossy(line).into_owned()),
            )
            .unwrap();
        assert_eq!(lines, ["one", "two", "", "last"]);
        assert_eq!(errors, ["oops"]);
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_supervised_program_ends_as_it_would_alone_and_leaves_nothing() {
        let left = shell("setsid sleep 300 & echo $!").run_supervised().unwrap().text();
        assert!(!std::path::Path::new(&format!("/proc/{left}")).exists(), "{left} still runs");
        let error = shell("echo oops >&2; exit 3").run_supervised().unwrap_err().to_string();
        assert!(error.ends_with("failed (exit status: 3):\n    oops"), "{error}");
        let error = shell("kill -SEGV $$").run_supervised().unwrap_err().to_string();
        assert!(error.contains("signal: 11"), "{error}");
        assert!(!error.contains("core dumped"), "{error}");
        let missing = Command::new("no-such-program-anywhere").run_supervised().unwrap_err();
        assert!(missing.is_missing_program());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_interrupt_kills_what_the_child_has_started() {
        let interrupt = AtomicBool::new(false);
        let mut id = String::new();
        let error = shell("setsid sh -c 'echo $$; exec sleep 60' & wait")
            .stream(
                &interrupt,
                |line| {
                    id = String::from_utf8_lossy(line).into_owned();
                    interrupt.store(true, Ordering::Relaxed);
                },
                |_| (),
            )
            .unwrap_err();
        assert!(matches!(error, ProcessError::Interrupted { .. }), "{error}");
        // The process was killed. The kernel closes its standard output before it counts as ended.
        let is_running = || {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let limit = Instant::now() + Duration::from_secs(30);
        while is_running() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!is_running(), "{id} runs");
    }

    #[test]
    fn an_interrupt_ends_a_program_whose_answer_is_awaited() {
        let interrupt = AtomicBool::new(true);
        let error = shell("sleep 300 & sleep 300").run_until(&interrupt).unwrap_err();
        assert!(matches!(error, ProcessError::Interrupted { .. }), "{error}");
        let answered = shell("echo yes").run_until(&AtomicBool::new(false)).unwrap();
        assert_eq!(answered.text(), "yes");
    }

    #[test]
    fn an_interrupt_stops_a_stream() {
        let interrupt = AtomicBool::new(false);
        let start = std::time::Instant::now();
        let error = shell("echo ready; exec sleep 60")
            .stream(&interrupt, |_| interrupt.store(true, Ordering::Relaxed), |_| ())
            .unwrap_err();
        assert!(matches!(error, ProcessError::Interrupted { .. }), "{error}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
