//! Scopes: what a piece of code consumed, how high memory went in between, and what was in use at
//! its end.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::platform::process;
use crate::platform::untracked::{Text, kept_value};
use crate::shared::usage::Usage;
use crate::views::scope_log::{self, ScopeStart};

thread_local! {
    /// How many scopes are open that began on this thread.
    static OPEN: Cell<Option<&'static AtomicU64>> = const { Cell::new(None) };
}

/// How many scopes are open that began on one thread, and the next of all such numbers.
struct OfThread {
    open: AtomicU64,
    next: AtomicPtr<OfThread>,
}

/// The numbers of all threads. They stay for the life of the process, because a scope may end on another
/// thread, after the one that it began on.
static ALL: AtomicPtr<OfThread> = AtomicPtr::new(std::ptr::null_mut());

/// The number of open scopes that began on this thread. `None` if the thread's storage is gone.
fn open_of_this_thread() -> Option<&'static AtomicU64> {
    OPEN.try_with(|open| {
        let number = open.get().unwrap_or_else(of_new_thread);
        open.set(Some(number));
        number
    })
    .ok()
}

fn of_new_thread() -> &'static AtomicU64 {
    let own = kept_value(OfThread { open: AtomicU64::new(0), next: AtomicPtr::default() });
    let mut first = ALL.load(Ordering::Relaxed);
    loop {
        own.next.store(first, Ordering::Relaxed);
        let place: *const OfThread = own;
        match ALL.compare_exchange_weak(first, place as *mut OfThread, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return &own.open,
            Err(other) => first = other,
        }
    }
}

/// Opens one more scope on this thread. Returns how many were open before.
pub(crate) fn deeper() -> u64 {
    open_of_this_thread().map_or(0, |open| open.fetch_add(1, Ordering::Relaxed))
}

/// Closes one scope on this thread. Returns how many are still open.
pub(crate) fn less_deep() -> u64 {
    open_of_this_thread().map_or(0, close)
}

/// The guard of a traced call may be dropped on another thread, whose number may be 0.
fn close(open: &AtomicU64) -> u64 {
    let one_less = |open: u64| open.checked_sub(1);
    open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).map_or(0, |before| before - 1)
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
    /// The number of open scopes that it counts in: that of the thread it began on.
    among: Option<&'static AtomicU64>,
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
        let among = open_of_this_thread();
        // The figures are read last, so nothing above counts in the scope.
        if let Some(start) = scope_log::start_scope(label.as_str()) {
            return Self { state: State::Open(Open { label, at, depth, among, start }) };
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
        self.among.map(close);
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
