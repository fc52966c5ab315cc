//! Which thread allocates or frees, in runs that ask for it: a small number per thread, which is part of its
//! sites. A thread has the name of its first allocation. The first threads are told apart; later ones share a
//! number with those of their name, whatever the number at its end, so that a program that starts a thread per
//! request has few sites.

use std::cell::Cell;
use std::os::raw::{c_int, c_ulong};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::platform::first_variables::variable;
use crate::platform::lock::Lock;
use crate::platform::thread_number;
use crate::platform::untracked::Untracked;

/// The thread is not known.
pub(crate) const NONE: u32 = 0;

/// So many threads are told apart.
const APART: usize = 64;
/// All names beyond this have one number.
const MOST: usize = 256;

/// The kernel keeps so many bytes of a thread's name, and a zero byte.
const LENGTH: usize = 16;

extern "C" {
    fn prctl(option: c_int, ...) -> c_int;
}

const PR_GET_NAME: c_int = 16;

type Name = [u8; LENGTH];

/// What a thread is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The process's first thread.
    Main,
    /// The thread in which libtest runs the test.
    Test,
    Named,
    /// It has the name of the thread that started it, as all threads without a name.
    Unnamed,
    /// Threads of many names.
    Others,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Test => "test",
            Self::Named => "named",
            Self::Unnamed => "unnamed",
            Self::Others => "others",
        }
    }
}

/// What has a number.
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    pub(crate) kind: Kind,
    name: Name,
    /// Whether it is all further threads of this name.
    pub(crate) is_shared: bool,
}

impl Thread {
    pub(crate) fn name(&self) -> &str {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(LENGTH);
        let name = &self.name[..end];
        // The kernel may have cut a character.
        std::str::from_utf8(name)
            .unwrap_or_else(|error| std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default())
    }
}

struct Threads {
    known: Untracked<Thread>,
    /// The names that the threads without one have: the program's and the test's.
    inherited: [Name; 2],
    has_test: bool,
}

static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// The `thread_number::place` of the first thread.
static MAIN: AtomicUsize = AtomicUsize::new(0);
static THREADS: Lock<Threads> =
    Lock::new(Threads { known: Untracked::new(), inherited: [[0; LENGTH]; 2], has_test: false });

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(NONE) };
}

/// Whether the run asks for threads. The first allocation decides, on the process's first thread.
pub(crate) fn set_up() {
    if variable(b"MEMPROF_STACKS_THREADS\0").is_none() {
        return;
    }
    MAIN.store(thread_number::place(), Ordering::Relaxed);
    let mut threads = THREADS.hold();
    threads.inherited[0] = own_name();
    let test = variable(b"MEMPROF_HARNESS_TEST\0").unwrap_or_default();
    for (place, &byte) in threads.inherited[1][..LENGTH - 1].iter_mut().zip(test) {
        *place = byte;
    }
    IS_ASKED.store(true, Ordering::Release);
}

pub(crate) fn are_recorded() -> bool {
    IS_ASKED.load(Ordering::Acquire)
}

/// The calling thread's number; [`NONE`] if no run asked.
#[inline(always)]
#[allow(clippy::inline_always)] // At each allocation.
pub(crate) fn current() -> u32 {
    if IS_ASKED.load(Ordering::Relaxed) {
        // On some platforms a thread's storage is gone in its last destructors.
        NUMBER
            .try_with(|number| if number.get() == NONE { first(number) } else { number.get() })
            .unwrap_or(NONE)
    } else {
        NONE
    }
}

#[cold]
#[inline(never)]
fn first(number: &Cell<u32>) -> u32 {
    // A signal handler that allocates meanwhile is on no known thread.
    if let Some(mut threads) = THREADS.hold_as(thread_number::place()) {
        number.set(threads.number());
    }
    number.get()
}

/// Copies the threads from this number on, for the log.
pub(crate) fn copy_from(first: usize, into: &mut Untracked<Thread>) {
    into.clear();
    if let Some(threads) = THREADS.hold_as(thread_number::place()) {
        into.extend(threads.known.get(first..).unwrap_or_default());
    }
}

fn own_name() -> Name {
    let mut name = [0; LENGTH];
    // SAFETY: the kernel writes at most 16 bytes there.
    let read = unsafe { prctl(PR_GET_NAME, name.as_mut_ptr() as usize as c_ulong) };
    if read == 0 { name } else { [0; LENGTH] }
}

/// `worker-*` of `worker-12`.
fn without_number(mut name: Name) -> Name {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(LENGTH);
    let digits = name[..end].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 && digits < end {
        name[end - digits] = b'*';
        name[end - digits + 1..].fill(0);
    }
    name
}

impl Threads {
    /// The number of the calling thread, which has none yet.
    #[allow(clippy::cast_possible_truncation)]
    fn number(&mut self) -> u32 {
        let (kind, mut name) = self.called();
        let is_shared = self.known.len() >= APART;
        if is_shared {
            name = without_number(name);
            let is_same = |one: &Thread| one.is_shared && one.kind == kind && one.name == name;
            if let Some(index) = self.known.iter().position(is_same) {
                return index as u32 + 1;
            }
        }
        let own = Thread { kind, name, is_shared };
        let others = Thread { kind: Kind::Others, name: [0; LENGTH], is_shared };
        match self.known.len() {
            MOST => {}
            length => self.known.push(if length == MOST - 1 { others } else { own }),
        }
        self.known.len() as u32
    }

    fn called(&mut self) -> (Kind, Name) {
        if thread_number::place() == MAIN.load(Ordering::Relaxed) {
            return (Kind::Main, [0; LENGTH]);
        }
        let name = own_name();
        // The test's thread comes before all that have its name.
        if name[0] != 0 && name == self.inherited[1] && !std::mem::replace(&mut self.has_test, true) {
            (Kind::Test, [0; LENGTH])
        } else if name[0] == 0 || self.inherited.contains(&name) {
            (Kind::Unnamed, [0; LENGTH])
        } else {
            (Kind::Named, name)
        }
    }
}
