//! What a child prints, up to a limit of size and of time.

use std::fmt;
use std::io::{self, Read};
use std::process::{Child, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::bytes::Bytes;
use crate::elapsed::shown;

/// How much a child may print to each of its streams, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a stream.
    pub bytes: u64,
    /// The longest time; `None` if there is no limit.
    pub time: Option<Duration>,
}

impl Limits {
    /// Of programs that the user trusts, such as git.
    pub(crate) const TRUSTED: Self = Self { bytes: 4 << 30, time: None };
    /// Of a program with the code of others that is asked for something short, such as its tests.
    pub const ANSWER: Self = Self { bytes: 64 << 20, time: Some(Duration::from_mins(5)) };
}

/// Why a child was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Printed more than this.
    Bytes(u64),
    /// Took longer than this.
    Time(Duration),
    /// The user pressed Ctrl-C.
    Interrupt,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(most) => {
                write!(formatter, "printed more than {}, the most that is read", Bytes(*most))
            }
            Self::Time(longest) => write!(formatter, "did not end within {}", shown(*longest)),
            Self::Interrupt => write!(formatter, "was interrupted"),
        }
    }
}

/// How often the interrupt flag is looked at.
const INTERRUPT_POLL: Duration = Duration::from_millis(50);

/// Reads both streams of a child to their ends, and waits for the child. A child that goes beyond a
/// limit, or that runs when `interrupt` is raised, is ended, with what it has started.
pub(crate) fn collect(
    mut child: Child,
    limits: Limits,
    interrupt: Option<&AtomicBool>,
) -> io::Result<Result<Output, Exceeded>> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let pid = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    let (stdout, stderr, exceeded) = std::thread::scope(|scope| {
        let out = scope.spawn(|| read(stdout, limits.bytes, &sender));
        let err = scope.spawn(|| read(stderr, limits.bytes, &sender));
        let exceeded = watch(&receiver, limits, interrupt);
        if exceeded.is_some() {
            // The child is not reaped yet, so the id is still its own.
            end(pid);
        }
        let join = |reader: std::thread::ScopedJoinHandle<'_, _>| {
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (join(out), join(err), exceeded)
    });
    let status = child.wait()?;
    Ok(match exceeded {
        Some(exceeded) => Err(exceeded),
        None => Ok(Output { status, stdout: stdout?, stderr: stderr? }),
    })
}

/// Reads a stream, and says at its end whether it is too long. The stream is closed then.
fn read(stream: Option<impl Read>, most: u64, is_too_long: &mpsc::Sender<bool>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = stream.map_or(Ok(0), |stream| stream.take(most + 1).read_to_end(&mut bytes));
    // Nobody listens any more if the other stream is too long.
    let _ = is_too_long.send(bytes.len() as u64 > most);
    read.map(|_| bytes)
}

/// Waits until both streams have ended, a limit is exceeded, or the user presses Ctrl-C.
fn watch(
    is_too_long: &mpsc::Receiver<bool>,
    limits: Limits,
    interrupt: Option<&AtomicBool>,
) -> Option<Exceeded> {
    let begin = Instant::now();
    let mut ended = 0;
    while ended < 2 {
        let left = limits.time.map_or(Duration::MAX, |time| time.saturating_sub(begin.elapsed()));
        let pause = interrupt.map_or(left, |_| left.min(INTERRUPT_POLL));
        match is_too_long.recv_timeout(pause) {
            Ok(false) => ended += 1,
            Ok(true) => return Some(Exceeded::Bytes(limits.bytes)),
            Err(_) if interrupt.is_some_and(|interrupt| interrupt.load(Ordering::Relaxed)) => {
                return Some(Exceeded::Interrupt);
            }
            Err(_) => {
                let time = limits.time.filter(|time| begin.elapsed() >= *time);
                if time.is_some() {
                    return time.map(Exceeded::Time);
                }
            }
        }
    }
    None
}

/// Ends a child, with what it has started if the platform tells.
pub(crate) fn end(child: Pid) {
    #[cfg(target_os = "linux")]
    crate::process_tree::end_child(child.as_raw_nonzero().get());
    #[cfg(not(target_os = "linux"))]
    let _ = rustix::process::kill_process(child, rustix::process::Signal::TERM);
}
