//! Runs a test as a child in its own process group, with its output in files.
//!
//! When the child ends, by itself, by the time limit or by an interrupt, every other process in its
//! group is killed before [`run`] returns. Otherwise a process that one test forgot could use
//! memory beside the next test.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::support::process::{Command, INTERRUPT_POLL, ProcessError};

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited by itself with this code.
    Code(i32),
    /// A signal killed it that we did not send.
    Signalled(i32),
    /// It exceeded the time limit and was killed.
    TimedOut,
    /// The user interrupted the run, and it was killed.
    Interrupted,
}

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedProcess {
    /// How it ended.
    pub exit: Exit,
    /// Wall time from just before the spawn until the exit was noticed, some microseconds after it.
    pub wall: Duration,
}

/// Runs the command in a new process group until it ends, exceeds `limit`, or `interrupt` is set.
///
/// The calling thread must live as long as the child. On Linux, the kernel kills the child when the
/// thread that spawned it ends, so that no test outlives this tool if the tool is killed.
///
/// # Errors
///
/// The command cannot be started or waited for.
pub fn run(
    command: &Command,
    stdout: File,
    stderr: File,
    limit: Option<Duration>,
    interrupt: &AtomicBool,
) -> Result<FinishedProcess, ProcessError> {
    let start = Instant::now();
    let mut child = command.spawn(|prepared| {
        prepared.stdout(stdout).stderr(stderr).process_group(0);
        die_with_parent(prepared);
    })?;
    let leader = Pid::from_child(&child);
    let (stopped_by_us, wall) = wait_unreaped(leader, start, limit, interrupt);
    // The leader is not reaped yet, so its id cannot belong to another group.
    let _ = kill_process_group(leader, Signal::KILL);
    let status = child.wait().map_err(|source| command.broken(source))?;
    let exit = stopped_by_us.unwrap_or_else(|| exit_of(status));
    Ok(FinishedProcess { exit, wall })
}

/// Waits until the leader has ended or must be stopped. Leaves it as a zombie, so that its id stays
/// in use. Returns why it was stopped, if it was, and its wall time.
fn wait_unreaped(
    leader: Pid,
    start: Instant,
    limit: Option<Duration>,
    interrupt: &AtomicBool,
) -> (Option<Exit>, Duration) {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(leader), options) {}
            // Fails if the group was killed below, because nobody receives any more.
            let _ = sender.send(start.elapsed());
        });
        let stopped = loop {
            if interrupt.load(Ordering::Relaxed) {
                break Exit::Interrupted;
            }
            let left = limit.map_or(INTERRUPT_POLL, |limit| limit.saturating_sub(start.elapsed()));
            match receiver.recv_timeout(left.min(INTERRUPT_POLL)) {
                Ok(wall) => return (None, wall),
                Err(RecvTimeoutError::Timeout) if limit.is_some_and(|limit| start.elapsed() >= limit) => {
                    break Exit::TimedOut;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return (None, start.elapsed()),
            }
        };
        // Makes the waiting thread return, so that the scope can join it.
        let _ = kill_process_group(leader, Signal::KILL);
        (Some(stopped), start.elapsed())
    })
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signalled(signal.unwrap_or_default()),
    }
}

/// Asks the kernel to kill the child when this process ends for any reason.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library has no other way to run code between fork and exec")]
fn die_with_parent(command: &mut std::process::Command) {
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the request took effect.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec, only async-signal-safe functions may be called. The closure
    // makes two system calls, prctl and getppid. It neither allocates nor locks.
    unsafe {
        command.pre_exec(ask);
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut std::process::Command) {}

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
        let process = run(&command, stdout, stderr, limit, interrupt).unwrap();
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
