//! Scopes: what a piece of code consumed, how high it went in between, and what was used at its end.

use std::cell::Cell;
use std::fmt;

use crate::scope_log::{self, ScopeStart};
use crate::thread_number;
use crate::untracked::Text;

thread_local! {
    /// Scopes open on this thread.
    static DEPTH: Cell<u64> = const { Cell::new(0) };
}

/// One more is open on this thread; returns how many there were.
pub(crate) fn deeper() -> u64 {
    DEPTH.try_with(|depth| depth.replace(depth.get() + 1)).unwrap_or(0)
}

/// One less is open on this thread; returns how many there are. A call's guard may end on another thread than it began on, so
/// there may be none open on this one.
pub(crate) fn less_deep() -> u64 {
    DEPTH
        .try_with(|depth| {
            depth.set(depth.get().saturating_sub(1));
            depth.get()
        })
        .unwrap_or(0)
}

/// Measures from its making to its drop, and then logs one line. Made by [`scope!`](crate::scope!).
#[must_use = "a scope ends when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Scope {
    open: Option<Open>,
}

struct Open {
    label: Text,
    at: &'static str,
    depth: u64,
    /// The thread that it began on, among whose scopes it counts.
    thread: u32,
    start: ScopeStart,
}

impl Scope {
    /// Outside a run.
    #[doc(hidden)]
    #[inline]
    pub const fn inert() -> Self {
        Self { open: None }
    }

    #[doc(hidden)]
    #[cold]
    pub fn begin(label: Text, at: &'static str) -> Self {
        let depth = deeper();
        let thread = thread_number::current();
        // The figures are read last: what comes before is not in the scope.
        let start = scope_log::start_scope(label.as_str());
        Self { open: start.map(|start| Open { label, at, depth, thread, start }) }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            scope_log::end_scope(open.label.as_str(), open.at, open.depth, &open.start);
            // On another thread others are open, or none.
            if thread_number::current() == open.thread {
                less_deep();
            }
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Scope")
            .field("label", &self.open.as_ref().map(|open| open.label.as_str()))
            .finish()
    }
}
