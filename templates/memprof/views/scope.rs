//! Scopes: what a piece of code consumed, how high memory went in between, and what was in use at
//! its end.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;

use crate::platform::process;
use crate::platform::thread_number;
use crate::platform::untracked::Text;
use crate::shared::usage::Usage;
use crate::views::scope_log::{self, ScopeStart};

thread_local! {
    /// The scopes that are open on this thread.
    static DEPTH: Cell<u64> = const { Cell::new(0) };
}

/// Opens one more scope on this thread. Returns how many were open before.
pub(crate) fn deeper() -> u64 {
    DEPTH.try_with(|depth| depth.replace(depth.get() + 1)).unwrap_or(0)
}

/// Closes one scope on this thread. Returns how many are still open. A guard may be dropped on
/// another thread than it was made on, so there may be none open here.
pub(crate) fn less_deep() -> u64 {
    DEPTH
        .try_with(|depth| {
            depth.set(depth.get().saturating_sub(1));
            depth.get()
        })
        .unwrap_or(0)
}

/// Measures from its creation to its drop, and then logs one line. [`scope!`](macro@crate::scope)
/// makes one. [`finish`](Scope::finish) ends it earlier and returns the figures.
///
/// The line has, for each kind of memory, in bytes: consumed (growth from beginning to end), peaked
/// (the peak above both ends) and used (in use at the end).
#[must_use = "a scope ends when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Scope {
    state: State,
}

enum State {
    /// Outside a run.
    Inert,
    /// In a run whose recorder takes nothing from here.
    Unrecorded,
    Open(Open),
}

struct Open {
    label: Text,
    at: Place,
    depth: u64,
    /// The thread that it began on; only there it counts as open.
    thread: u32,
    start: ScopeStart,
}

/// Where a scope begins in the source.
enum Place {
    /// `file:line`.
    Text(&'static str),
    Caller(&'static Location<'static>),
}

/// Why a scope in a run has no figures.
const UNRECORDED: &str =
    "memprof records nothing here; a forked child, a signal handler or a closed log may be the reason";

impl Scope {
    /// A scope that measures nothing, outside a run.
    #[doc(hidden)]
    #[inline]
    pub const fn inert() -> Self {
        Self { state: State::Inert }
    }

    #[doc(hidden)]
    #[cold]
    pub fn begin(label: Text, at: &'static str) -> Self {
        Self::begin_at(label, Place::Text(at))
    }

    #[cold]
    fn begin_at(label: Text, at: Place) -> Self {
        let depth = deeper();
        let thread = thread_number::current();
        // The figures are read last, so nothing above counts in the scope.
        if let Some(start) = scope_log::start_scope(label.as_str()) {
            return Self { state: State::Open(Open { label, at, depth, thread, start }) };
        }
        less_deep();
        Self { state: State::Unrecorded }
    }

    /// Ends the scope now, and returns what it used. The line in the log is the same as at a drop.
    pub fn finish(mut self) -> Usage {
        match std::mem::replace(&mut self.state, State::Inert) {
            State::Inert => Usage::not_measured(),
            State::Unrecorded => Usage::unavailable(UNRECORDED),
            State::Open(open) => open
                .end(|label, at| scope_log::finish_scope(label, at, open.depth, &open.start))
                .unwrap_or_else(|| Usage::unavailable(UNRECORDED)),
        }
    }
}

impl Open {
    fn end<T>(&self, log: impl FnOnce(&str, &str) -> T) -> T {
        let result = match self.at {
            Place::Text(at) => log(self.label.as_str(), at),
            Place::Caller(caller) => {
                let at = Text::format(format_args!("{}:{}", caller.file(), caller.line()));
                log(self.label.as_str(), at.as_str())
            }
        };
        // Another thread has other scopes open, or none.
        if thread_number::current() == self.thread {
            less_deep();
        }
        result
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let State::Open(open) = &self.state {
            open.end(|label, at| scope_log::end_scope(label, at, open.depth, &open.start));
        }
    }
}

/// Runs code as a scope with this label, and returns its result and what it used.
///
/// Outside a run of `cargo memprof`, this only runs the code, and the usage says that nothing was
/// measured.
///
/// ```
/// let (sum, used) = memprof::measure("sum", || (1..=10).sum::<u32>());
/// assert!(used.heap.rise < 4 << 20, "{used}");
/// # assert_eq!(sum, 55);
/// ```
#[track_caller]
pub fn measure<T>(label: impl fmt::Display, code: impl FnOnce() -> T) -> (T, Usage) {
    if !process::is_recording() {
        return (code(), Usage::not_measured());
    }
    let text = Text::format(format_args!("{label}"));
    // What it holds is freed before the figures are read.
    drop(label);
    let scope = Scope::begin_at(text, Place::Caller(Location::caller()));
    let result = code();
    let used = scope.finish();
    (result, used)
}

impl fmt::Debug for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match &self.state {
            State::Open(open) => Some(open.label.as_str()),
            State::Inert | State::Unrecorded => None,
        };
        formatter.debug_struct("Scope").field("label", &label).finish()
    }
}
