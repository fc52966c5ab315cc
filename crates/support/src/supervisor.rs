//! A supervisor between this program and a process that runs code of others: a test, or `--list`.
//!
//! A test may start daemons with `setsid` or a double fork. They leave its process group, but not
//! its ancestors. The supervisor is one of these: orphans below it become its children
//! (`PR_SET_CHILD_SUBREAPER`). When the test ends, it kills what is left, and when this program
//! dies, by `SIGKILL` too, the kernel tells it to do the same.
//!
//! The supervisor is forked between `fork` and `exec` of the test. It never returns from there and
//! makes nothing but system calls, because another thread may have held the allocator's lock.
#![expect(unsafe_code, reason = "the standard library has no other way to run code between fork and exec")]

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;

use crate::process_tree::{self, NAME, Table};

/// How long processes that were killed may take to end. One that waits for a device or a network
/// file system cannot be killed earlier.
const PATIENCE_MILLISECONDS: i64 = 10_000;
/// How long processes may run on after the test, before they count as left behind. A process that
/// the test has just killed needs a moment, too.
const GRACE_MILLISECONDS: i64 = 20;

/// What the supervisor writes to its pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The process has ended.
    Ended,
    /// The process has left this one behind. It is killed next.
    Left(LeftProcess),
    /// This process did not end after it was killed.
    Survived(LeftProcess),
}

/// A process that a test left running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftProcess {
    pub id: i32,
    name: [u8; NAME],
}

impl LeftProcess {
    /// The name, cut by the kernel to 15 bytes.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).trim_end_matches('\0').to_owned()
    }
}

/// A message's bytes: a kind, the supervisor's id, a process's id and its name.
const MESSAGE: usize = 12 + NAME;
const ENDED: i32 = 1;
const LEFT: i32 = 2;
const SURVIVED: i32 = 3;

/// Reads the messages of one supervisor.
pub struct Messages {
    pipe: PipeReader,
    supervisor: i32,
}

impl Iterator for Messages {
    type Item = Message;

    /// Returns the next message; `None` once the supervisor has ended.
    fn next(&mut self) -> Option<Message> {
        loop {
            let mut bytes = [0; MESSAGE];
            self.pipe.read_exact(&mut bytes).ok()?;
            let number =
                |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            if number(4) != self.supervisor {
                // From an attempt to start the program that failed.
                continue;
            }
            let mut name = [0; NAME];
            name.copy_from_slice(&bytes[12..]);
            let process = LeftProcess { id: number(8), name };
            return Some(match number(0) {
                ENDED => Message::Ended,
                LEFT => Message::Left(process),
                _ => Message::Survived(process),
            });
        }
    }
}

/// A supervisor's pipe, before the supervisor has started.
pub struct Pipe(PipeReader);

impl Pipe {
    /// Returns the messages of the supervisor with this id.
    pub fn messages_of(self, supervisor: u32) -> Messages {
        Messages { pipe: self.0, supervisor: i32::try_from(supervisor).unwrap_or_default() }
    }
}

/// Lets a supervisor start the command, in a session of its own. The child that the standard
/// library then knows is the supervisor. It ends as the command did, with the same code or by the
/// same signal. `SIGTERM` makes it kill everything below it.
pub fn supervise(command: &mut std::process::Command) -> io::Result<Pipe> {
    let (reader, writer) = io::pipe()?;
    let writer: OwnedFd = writer.into();
    // SAFETY: it has no arguments and cannot fail.
    let tool = unsafe { libc::getpid() };
    // SAFETY: between fork and exec, only async-signal-safe functions may be called. `enter` and
    // everything that it calls make system calls on the stack and on memory from `mmap`. They
    // neither allocate nor lock.
    unsafe {
        command.pre_exec(move || enter(writer.as_raw_fd(), tool));
    }
    Ok(Pipe(reader))
}

/// Runs in the child that `Command` forked. Returns in the child's child only, which then becomes
/// the program.
fn enter(pipe: RawFd, tool: i32) -> io::Result<()> {
    let (all, none) = (process_tree::signals(true), process_tree::signals(false));
    // SAFETY: system calls with integers and with sets that live here.
    unsafe {
        // Without a terminal, the program can neither stop because of one nor change its mode.
        libc::setsid();
        process_tree::adopt_orphans();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
        // The tool may have ended before the request took effect.
        if libc::getppid() != tool {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let supervisor = libc::getpid();
        let mut ready = [0; 2];
        if libc::pipe2(ready.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                wait_for_end(ready);
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                if libc::getppid() != supervisor {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
                Ok(())
            }
            test => Supervisor { pipe, tool, test, own: supervisor, status: None }.watch(),
        }
    }
}

/// Waits until the supervisor has closed its end of this pipe, with all else. A program that stopped it
/// before would stop the tool, too: the standard library waits until these descriptors are closed.
fn wait_for_end([reader, writer]: [RawFd; 2]) {
    let mut byte = 0_u8;
    // SAFETY: descriptors of this process, and a buffer of one byte. No signal interrupts: all are
    // blocked.
    unsafe {
        libc::close(writer);
        libc::read(reader, (&raw mut byte).cast(), 1);
        libc::close(reader);
    }
}

struct Supervisor {
    pipe: RawFd,
    tool: i32,
    test: i32,
    own: i32,
    /// How the test ended.
    status: Option<i32>,
}

impl Supervisor {
    fn watch(mut self) -> ! {
        // SAFETY: integers only. Nobody may trace this process or open its descriptors, and it
        // leaves no core dump.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            // If the tool is gone, nobody reads the messages.
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        }
        // The test begins now.
        self.close_descriptors();
        let is_stopped = self.wait();
        if !is_stopped {
            self.tell(ENDED, 0, [0; NAME]);
        }
        self.clean(is_stopped);
        self.end()
    }

    /// Waits until the test has ended or must be stopped. Returns whether it must be stopped.
    fn wait(&mut self) -> bool {
        let all = process_tree::signals(true);
        loop {
            self.reap();
            if self.status.is_some() {
                return false;
            }
            // SAFETY: the kernel fills in what is zeroed here.
            let (signal, info) = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                (libc::sigwaitinfo(&raw const all, &raw mut info), info)
            };
            // SAFETY: a system call without arguments, and a field that signals of `kill` and of
            // the kernel have.
            let (parent, sender) = unsafe { (libc::getppid(), info.si_pid()) };
            let is_from_tool = info.si_code == libc::SI_USER && sender == self.tool;
            // The test could send the signal, too.
            if parent != self.tool || signal == libc::SIGTERM && is_from_tool {
                return true;
            }
        }
    }

    /// Takes the status of each child that has ended. Returns whether there are children left.
    fn reap(&mut self) -> bool {
        loop {
            let mut status = 0;
            // SAFETY: the kernel writes the status.
            match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) } {
                0 => return true,
                child if child < 0 => return false,
                child if child == self.test => self.status = Some(status),
                _ => {}
            }
        }
    }

    /// Kills everything that is left.
    fn clean(&mut self, is_stopped: bool) {
        let mut waited = 0;
        while self.reap() && !is_stopped && waited < GRACE_MILLISECONDS {
            process_tree::pause_milliseconds(1);
            waited += 1;
        }
        if !self.reap() {
            return;
        }
        let Some(mut table) = Table::new() else {
            // SAFETY: the group of the test. Without `/proc`, nothing else can be found.
            unsafe { libc::kill(-self.test, libc::SIGKILL) };
            return;
        };
        waited = 0;
        let mut told = 0;
        while waited < PATIENCE_MILLISECONDS {
            if waited % 20 == 0 {
                table.kill_descendants(|process| {
                    // New processes have higher ids. Others were told of, and have not ended yet.
                    if !is_stopped && process.id > told {
                        self.tell(LEFT, process.id, process.name);
                        told = process.id;
                    }
                });
            }
            if !self.reap() {
                return;
            }
            process_tree::pause_milliseconds(1);
            waited += 1;
        }
        for process in table.descendants().filter(|process| process.is_alive()) {
            self.tell(SURVIVED, process.id, process.name);
        }
    }

    fn tell(&self, kind: i32, process: i32, name: [u8; NAME]) {
        let mut bytes = [0; MESSAGE];
        for (at, number) in [kind, self.own, process].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        bytes[12..].copy_from_slice(&name);
        // SAFETY: the buffer has this length.
        unsafe { libc::write(self.pipe, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Closes everything but the pipe: the standard library waits for the end of one of its own.
    fn close_descriptors(&self) {
        let pipe = self.pipe.unsigned_abs();
        for (first, last) in [(0, pipe.wrapping_sub(1)), (pipe + 1, u32::MAX)] {
            if first > last || last == u32::MAX && first == 0 {
                continue;
            }
            // SAFETY: this process uses none of these descriptors.
            unsafe {
                if libc::syscall(libc::SYS_close_range, first, last, 0) < 0 {
                    // Before Linux 5.9. The usual limit is 1024.
                    for descriptor in first..=last.min(1 << 16) {
                        libc::close(descriptor.cast_signed());
                    }
                }
            }
        }
    }

    /// Ends as the test did.
    fn end(&self) -> ! {
        let none = process_tree::signals(false);
        // SAFETY: system calls with integers. `_exit` runs no handler of the tool.
        unsafe {
            let Some(status) = self.status else { libc::_exit(1) };
            if libc::WIFSIGNALED(status) {
                let signal = libc::WTERMSIG(status);
                libc::signal(signal, libc::SIG_DFL);
                libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
                libc::kill(self.own, signal);
            }
            libc::_exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1 })
        }
    }
}
