//! Runs a test as a child, with its output in files, and ends everything that it started.
//!
//! When the test ends, by itself, by the time limit or by an interrupt, every process that it left
//! is killed before [`run`] returns. Otherwise a process that one test forgot could use memory
//! beside the next test. On Linux a [supervisor](memprof_support::supervisor) finds them all. On
//! other platforms only those in the test's process group are killed.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use memprof_support::counted::grouped;
use memprof_support::process::{Command, INTERRUPT_POLL};
use memprof_support::process_error::ProcessError;
use memprof_support::terminal_mode;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Exited by itself with this code.
    Code(i32),
    /// A signal killed it that we did not send.
    Signalled(i32),
    /// Exceeded the time limit and was killed.
    TimedOut,
    /// The user interrupted the run, and it was killed.
    Interrupted,
}

/// A child that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FinishedProcess {
    /// How it ended.
    pub exit: Exit,
    /// Wall time from just before the spawn until the exit was noticed, some microseconds after it.
    pub wall: Duration,
    /// What it left running.
    pub left: LeftProcesses,
}

/// The processes that a test left running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftProcesses {
    /// Names of some that were killed.
    names: Vec<String>,
    /// How many were killed.
    killed: usize,
    /// How many did not end.
    survived: usize,
    /// Whether the supervisor was killed, perhaps by the test, and therefore found nothing.
    is_unknown: bool,
}

impl LeftProcesses {
    /// Returns a remark for the report; `None` if nothing was left.
    pub fn remark(&self) -> Option<String> {
        if self.is_unknown {
            return Some("the process that supervised the test was killed".to_owned());
        }
        if self.killed == 0 {
            return None;
        }
        let mut names = self.names.clone();
        names.sort();
        if self.killed > names.len() {
            names.push("…".to_owned());
        }
        let (count, noun, fate) = match self.killed {
            1 => ("1".to_owned(), "process", "it was killed"),
            killed => (grouped(killed as i128), "processes", "they were killed"),
        };
        let survived = match self.survived {
            0 => String::new(),
            survived => format!(", but {survived} did not end within 10 s"),
        };
        Some(format!("the test left {count} {noun} running ({}); {fate}{survived}", names.join(", ")))
    }
}

/// How long after a test's end by a signal this tool may get the same signal.
const SAME_END: Duration = Duration::from_millis(300);

/// How long the end of what a test started is waited for, before it is looked for again: first and at most.
const FINISH_POLL: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// Runs the command in a new process group until it ends, exceeds `limit`, or `interrupt` is set.
/// Calls `on_poll` many times a second while it runs.
///
/// The calling thread must live as long as the child. On Linux, the kernel tells the supervisor
/// when the thread that spawned it ends, so that no test outlives this tool if the tool is killed.
///
/// # Errors
///
/// The command cannot be started or waited for.
pub(crate) fn run(
    command: &Command,
    stdout: File,
    stderr: File,
    limit: Option<Duration>,
    interrupt: &AtomicBool,
    on_poll: &mut dyn FnMut(),
) -> Result<FinishedProcess, ProcessError> {
    let _mode = terminal_mode::keep();
    let start = Instant::now();
    let (mut child, watch) = platform::spawn(command, stdout, stderr)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let ((stopped, wall), left) = std::thread::scope(|scope| {
        // Fails if the test was stopped, because nobody receives any more.
        let watching = scope.spawn(move || {
            platform::watch(watch, || {
                let _ = sender.send(start.elapsed());
            })
        });
        let ended = wait(&child, start, limit, interrupt, &receiver, on_poll);
        drop(receiver);
        let [mut pause, longest] = FINISH_POLL;
        while !watching.is_finished() {
            platform::finish(&child);
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
        (ended, watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    platform::end_group(&child);
    let waited = child.wait();
    platform::forget(&child);
    let status = waited.map_err(|source| command.broken(source))?;
    let exit = stopped.unwrap_or_else(|| of_whole_job(exit_of(status), interrupt));
    let is_unknown = left.is_unknown && stopped.is_none();
    if is_unknown {
        platform::end_orphans();
    }
    Ok(FinishedProcess { exit, wall, left: LeftProcesses { is_unknown, ..left } })
}

/// Waits until the test has ended, or stops it. Returns why it was stopped, if it was, and its wall
/// time.
fn wait(
    child: &Child,
    start: Instant,
    limit: Option<Duration>,
    interrupt: &AtomicBool,
    ended: &Receiver<Duration>,
    on_poll: &mut dyn FnMut(),
) -> (Option<Exit>, Duration) {
    let stopped = loop {
        if interrupt.load(Ordering::Relaxed) {
            break Exit::Interrupted;
        }
        let left = limit.map_or(INTERRUPT_POLL, |limit| limit.saturating_sub(start.elapsed()));
        match ended.recv_timeout(left.min(INTERRUPT_POLL)) {
            Ok(wall) => return (None, wall),
            Err(RecvTimeoutError::Timeout) if limit.is_some_and(|limit| start.elapsed() >= limit) => {
                break Exit::TimedOut;
            }
            Err(RecvTimeoutError::Timeout) => {
                platform::wake(child);
                on_poll();
            }
            Err(RecvTimeoutError::Disconnected) => return (None, start.elapsed()),
        }
    };
    platform::stop(child);
    (Some(stopped), start.elapsed())
}

/// A batch system ends a job by signalling all its processes, the test perhaps before this tool. So a
/// test's end by such a signal counts as an interrupt if the tool's own signal comes soon after. A tool
/// that is killed meanwhile records nothing.
fn of_whole_job(exit: Exit, interrupt: &AtomicBool) -> Exit {
    const HANG_UP: i32 = 1;
    const INTERRUPT: i32 = 2;
    const KILL: i32 = 9;
    const TERMINATE: i32 = 15;
    // As a shell around the test says it.
    const BY_SHELL: i32 = 128;
    let signal = match exit {
        Exit::Signalled(signal) => signal,
        Exit::Code(code) => code - BY_SHELL,
        _ => return exit,
    };
    if ![HANG_UP, INTERRUPT, KILL, TERMINATE].contains(&signal) {
        return exit;
    }
    let ended = Instant::now();
    while ended.elapsed() < SAME_END {
        if interrupt.load(Ordering::Relaxed) {
            return Exit::Interrupted;
        }
        std::thread::sleep(SAME_END / 20);
    }
    exit
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signalled(signal.unwrap_or_default()),
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::sync::{Mutex, PoisonError};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

    use super::{Child, Command, File, LeftProcesses, ProcessError};
    use memprof_support::process_tree;
    use memprof_support::supervisor::{self, Message, Messages};

    /// How many processes are named.
    const NAMED: usize = 5;

    /// The supervisors of the tests that run now. Locked while one starts, so that no child of this
    /// process is unknown.
    static SUPERVISORS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

    fn id(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap_or_default()
    }

    /// Starts the test below a supervisor.
    pub(super) fn spawn(
        command: &Command,
        stdout: File,
        stderr: File,
    ) -> Result<(Child, Messages), ProcessError> {
        // If the test kills the supervisor, its processes come to this one.
        process_tree::adopt_orphans();
        let mut pipe = None;
        let mut supervisors = SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn(|prepared| {
            prepared.stdout(stdout).stderr(stderr);
            pipe = Some(supervisor::supervise(prepared)?);
            Ok(())
        })?;
        supervisors.push(id(&child));
        let pipe = pipe.expect("the closure was called before the child started");
        let messages = pipe.messages_of(child.id());
        Ok((child, messages))
    }

    /// Waits until the supervisor has ended.
    pub(super) fn watch(messages: Messages, ended: impl FnOnce()) -> LeftProcesses {
        let mut ended = Some(ended);
        let mut left = LeftProcesses { is_unknown: true, ..LeftProcesses::default() };
        for message in messages {
            match message {
                Message::Ended => {
                    left.is_unknown = false;
                    ended.take().into_iter().for_each(|ended| ended());
                }
                Message::Left(process) => {
                    left.killed += 1;
                    if left.names.len() < NAMED {
                        left.names.push(process.name());
                    }
                }
                Message::Survived(_) => left.survived += 1,
            }
        }
        left
    }

    /// Tells the supervisor to kill the test and everything below it.
    pub(super) fn stop(supervisor: &Child) {
        // The supervisor is not reaped yet, so its id cannot belong to another process.
        let _ = kill_process(Pid::from_child(supervisor), Signal::TERM);
    }

    /// Lets a supervisor go on that the test has stopped. Otherwise it would not notice the test's end.
    pub(super) fn wake(supervisor: &Child) {
        if is_stopped(supervisor) {
            let _ = kill_process(Pid::from_child(supervisor), Signal::CONT);
        }
    }

    /// Makes sure that a supervisor ends whose test has ended or must end. What the test has started
    /// may have stopped it, and may do so again, so that is killed first.
    pub(super) fn finish(supervisor: &Child) {
        if is_stopped(supervisor) {
            process_tree::end_child(id(supervisor));
        }
    }

    fn is_stopped(supervisor: &Child) -> bool {
        // `NOWAIT` leaves the state as it is, for the wait that follows.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(supervisor)), options).is_ok_and(|status| status.is_some())
    }

    pub(super) fn end_group(_: &Child) {}

    /// Forgets a supervisor that has ended.
    pub(super) fn forget(supervisor: &Child) {
        let ended = id(supervisor);
        SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| *one != ended);
    }

    /// Kills what came to this process because the supervisor was killed. The tests of the other
    /// supervisors go on.
    pub(super) fn end_orphans() {
        process_tree::kill_orphans(&SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::os::unix::process::CommandExt;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

    use super::{Child, Command, File, LeftProcesses, ProcessError};

    pub(super) fn spawn(command: &Command, stdout: File, stderr: File) -> Result<(Child, Pid), ProcessError> {
        let child = command.spawn(|prepared| {
            prepared.stdout(stdout).stderr(stderr).process_group(0);
            Ok(())
        })?;
        let leader = Pid::from_child(&child);
        Ok((child, leader))
    }

    /// Waits until the leader has ended. Leaves it as a zombie, so that its id stays in use.
    pub(super) fn watch(leader: Pid, ended: impl FnOnce()) -> LeftProcesses {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(leader), options) {}
        ended();
        LeftProcesses::default()
    }

    pub(super) fn stop(leader: &Child) {
        end_group(leader);
    }

    pub(super) fn wake(_: &Child) {}

    pub(super) fn finish(_: &Child) {}

    /// Kills the group. The leader is not reaped yet, so its id cannot belong to another group.
    pub(super) fn end_group(leader: &Child) {
        let _ = kill_process_group(Pid::from_child(leader), Signal::KILL);
    }

    pub(super) fn forget(_: &Child) {}

    pub(super) fn end_orphans() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ran {
        process: FinishedProcess,
        stdout: String,
    }

    fn shell(script: &str, limit: Option<Duration>, interrupt: &AtomicBool) -> Ran {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        let stdout = File::create(&path).unwrap();
        let stderr = File::create(folder.path().join("stderr")).unwrap();
        let command = Command::new("sh").args(["-c", script]);
        let process = run(&command, stdout, stderr, limit, interrupt, &mut || {}).unwrap();
        Ran { process, stdout: std::fs::read_to_string(path).unwrap() }
    }

    /// Whether the process exists and is not a zombie.
    fn is_running(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
    }

    fn is_gone_soon(pid: &str) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !is_running(pid)
        })
    }

    #[test]
    fn an_exit_code_is_distinguished_from_a_signal() {
        let never = AtomicBool::new(false);
        assert_eq!(shell("exit 0", None, &never).process.exit, Exit::Code(0));
        assert_eq!(shell("exit 101", None, &never).process.exit, Exit::Code(101));
        assert_eq!(shell("kill -SEGV $$", None, &never).process.exit, Exit::Signalled(11));
        assert_eq!(shell("kill -KILL $$", None, &never).process.exit, Exit::Signalled(9));
    }

    #[test]
    fn a_timeout_kills_grandchildren_too() {
        let script = "sleep 300 & echo $!; echo written before; wait";
        let ran = shell(script, Some(Duration::from_millis(300)), &AtomicBool::new(false));
        assert_eq!(ran.process.exit, Exit::TimedOut);
        assert!(ran.process.wall >= Duration::from_millis(300) && ran.process.wall < Duration::from_secs(20));
        let (grandchild, rest) = ran.stdout.split_once('\n').unwrap();
        assert_eq!(rest, "written before\n");
        assert!(is_gone_soon(grandchild), "grandchild {grandchild} is still running");
    }

    #[test]
    fn a_process_that_a_test_left_behind_is_killed_at_its_exit() {
        let ran = shell("sleep 300 & echo $!; exit 4", None, &AtomicBool::new(false));
        assert_eq!(ran.process.exit, Exit::Code(4));
        assert!(
            ran.process.wall < Duration::from_secs(20),
            "the exit is noticed while another process holds the pipe"
        );
        assert!(is_gone_soon(&ran.stdout), "process {} is still running", ran.stdout);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn processes_that_left_the_group_are_killed_and_named() {
        let never = AtomicBool::new(false);
        let scripts = [
            "setsid sleep 301 & echo $!; sleep 0.1; exit 4",
            "(setsid sh -c 'echo $$; exec sleep 302' &) ; sleep 0.3; exit 4",
        ];
        for script in scripts {
            let ran = shell(script, None, &never);
            assert_eq!(ran.process.exit, Exit::Code(4));
            assert!(!is_running(ran.stdout.trim()), "process {} is still running", ran.stdout);
            let remark = ran.process.left.remark().unwrap();
            assert_eq!(remark, "the test left 1 process running (sleep); it was killed");
        }
        assert_eq!(shell("true & wait", None, &never).process.left.remark(), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn processes_that_keep_forking_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("links");
        // Each process of a chain starts the next one and ends.
        let script = format!(
            "f() {{ echo >> {}; sleep 0.005; f & }}; for chain in 1 2 3; do f & done; sleep 0.3",
            file.display()
        );
        let ran = shell(&script, None, &AtomicBool::new(false));
        assert_eq!(ran.process.exit, Exit::Code(0));
        let length = || std::fs::metadata(&file).unwrap().len();
        let before = length();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(length(), before, "processes still start others");
        assert!(before > 3 && ran.process.left.remark().is_some());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_test_has_no_terminal_and_cannot_stop_its_supervisor() {
        let never = AtomicBool::new(false);
        let ran =
            shell("(: < /dev/tty) 2>/dev/null && echo terminal; kill -TERM $PPID; echo here", None, &never);
        assert_eq!((ran.process.exit, ran.stdout.as_str()), (Exit::Code(0), "here\n"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_test_that_stops_its_supervisor_ends_all_the_same() {
        let never = AtomicBool::new(false);
        let ran = shell("sleep 305 & echo $!; kill -STOP $PPID; exit 4", None, &never);
        assert_eq!(ran.process.exit, Exit::Code(4));
        assert!(is_gone_soon(&ran.stdout), "process {} is still running", ran.stdout);

        // At once, many times: the first moment of a supervisor is like any later one.
        for _ in 0..10 {
            let script = "ls /proc/$PPID/fd 2>/dev/null | wc -l; kill -STOP $PPID; exit 4";
            let ran = shell(script, None, &never);
            assert_eq!(ran.process.exit, Exit::Code(4));
            // Only root can see the one descriptor that it has.
            assert!(["0", "1"].contains(&ran.stdout.trim()), "{}", ran.stdout);
        }

        // Again and again, from several processes.
        let script = "for i in 1 2 3; do (echo here; while :; do kill -STOP $PPID; done) & done; sleep 306";
        let limit = Some(Duration::from_millis(300));
        let ran = shell(script, limit, &never);
        assert_eq!((ran.process.exit, ran.stdout.as_str()), (Exit::TimedOut, "here\nhere\nhere\n"));

        // The shell's own group.
        let ran = shell("kill -STOP 0", limit, &never);
        assert_eq!(ran.process.exit, Exit::TimedOut);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_test_that_kills_its_supervisor_does_not_end_its_neighbours() {
        let never = AtomicBool::new(false);
        let (killer, neighbour) = std::thread::scope(|scope| {
            let neighbour =
                scope.spawn(|| shell("sleep 1; (sleep 0.2; echo whole) & wait; exit 3", None, &never));
            std::thread::sleep(Duration::from_millis(300));
            let script = "setsid sleep 303 & echo $!; sleep 0.1; kill -KILL $PPID; sleep 304";
            (shell(script, None, &never), neighbour.join().unwrap())
        });
        let remark = killer.process.left.remark();
        assert_eq!(remark.as_deref(), Some("the process that supervised the test was killed"));
        assert!(is_gone_soon(&killer.stdout), "its process {} is still running", killer.stdout);
        assert_eq!((neighbour.process.exit, neighbour.stdout.as_str()), (Exit::Code(3), "whole\n"));
    }

    #[test]
    fn an_interrupt_stops_the_group() {
        let interrupt = AtomicBool::new(false);
        let ran = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                interrupt.store(true, Ordering::Relaxed);
            });
            shell("trap '' TERM INT; sleep 300 & echo $!; wait", Some(Duration::from_mins(1)), &interrupt)
        });
        assert_eq!(ran.process.exit, Exit::Interrupted);
        assert!(is_gone_soon(&ran.stdout));
    }

    #[test]
    fn a_signal_to_the_test_and_soon_after_to_the_tool_is_an_interrupt() {
        let interrupt = AtomicBool::new(false);
        let end = |script: &str| {
            interrupt.store(false, Ordering::Relaxed);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(250));
                    interrupt.store(true, Ordering::Relaxed);
                });
                // The test ends before the tool's signal, but at most 250 ms before.
                shell(&format!("sleep 0.1; {script}"), None, &interrupt).process.exit
            })
        };
        assert_eq!(end("kill -TERM $$"), Exit::Interrupted);
        assert_eq!(end("kill -KILL $$"), Exit::Interrupted);
        assert_eq!(end("exit 143"), Exit::Interrupted);
        assert_eq!(end("kill -SEGV $$"), Exit::Signalled(11), "no batch system ends a job so");
        assert_eq!(end("exit 101"), Exit::Code(101));
        let never = AtomicBool::new(false);
        assert_eq!(shell("kill -TERM $$", None, &never).process.exit, Exit::Signalled(15));
    }

    #[test]
    fn the_wall_time_does_not_depend_on_the_poll_interval() {
        let never = AtomicBool::new(false);
        let quickest = (0..5).map(|_| shell(":", None, &never).process.wall).min().unwrap();
        assert!(quickest < INTERRUPT_POLL, "{quickest:?}");
    }

    #[test]
    fn the_child_leads_a_group_of_its_own() {
        let ran = shell("echo $$ $(ps -o pgid= -p $$)", None, &AtomicBool::new(false));
        let mut ids = ran.stdout.split_whitespace();
        assert_eq!(ids.next(), ids.next());
    }
}
