//! Scopes: what a piece of code consumed, how high memory went in between, and what was in use at
//! its end.

use std::fmt;

use crate::kernel;
use crate::shared::usage::Usage;

/// Measures from its creation to its drop, and then logs one line. [`scope!`](macro@crate::scope)
/// makes one. [`finish`](Scope::finish) ends it earlier and returns the figures.
#[must_use = "a scope ends when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Scope(());

impl Scope {
    #[doc(hidden)]
    #[inline]
    pub const fn inert() -> Self {
        Self(())
    }

    /// Ends the scope now, and returns what it used. Without `cargo memprof`, nothing was measured.
    #[inline]
    pub fn finish(self) -> Usage {
        Usage::not_measured()
    }
}

/// As under `cargo memprof`, so that the same code compiles in both.
impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {}
}

impl fmt::Debug for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scope").field("label", &None::<&str>).finish()
    }
}

/// Runs code as a scope with this label, and returns its result and what it used.
///
/// Outside a run of `cargo memprof`, this only runs the code, and the usage says that nothing was
/// measured. In a live notebook of evcxr, it measures what can be measured there.
///
/// ```
/// let (sum, used) = memprof::measure("sum", || (1..=10).sum::<u32>());
/// assert!(used.heap.rise < 4 << 20, "{used}");
/// # assert_eq!(sum, 55);
/// ```
#[inline]
pub fn measure<T>(label: impl fmt::Display, code: impl FnOnce() -> T) -> (T, Usage) {
    if kernel::is_live() {
        return kernel::measure(&label, code);
    }
    (code(), Usage::not_measured())
}
