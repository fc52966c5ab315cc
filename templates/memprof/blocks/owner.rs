//! Whose a block is: the test's, the harness's, or one from before the test's body.
//!
//! Before the body and after it, the harness works. Its blocks are set apart: `block_table` has their
//! addresses, and the allocator asks here whose a block is. After the body, the harness's code is what
//! the main thread runs, and the test's thread outside of the destructors of its locals.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::platform::first_variables::variable;

/// What the process runs.
static PHASE: AtomicU8 = AtomicU8::new(UNDECIDED);

const UNDECIDED: u8 = 0;
/// Bodies are not marked in this process.
const UNMARKED: u8 = 1;
const BEFORE: u8 = 2;
const BODY: u8 = 3;
const AFTER: u8 = 4;

thread_local! {
    /// Whether this thread runs the harness's code.
    static IS_HARNESS: Cell<bool> = const { Cell::new(false) };
}

/// Whose a block is that is allocated now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Test,
    /// Was there before the body. It counts, and the body's figures begin above it.
    Earlier,
    /// Counts in no figure.
    Harness,
}

#[inline]
fn phase() -> u8 {
    match PHASE.load(Ordering::Acquire) {
        UNDECIDED => decide(),
        phase => phase,
    }
}

/// The first allocation decides, so that every block before the body is known.
#[cold]
fn decide() -> u8 {
    let is_set = |name| variable(name).is_some();
    let is_marked = is_set(b"MEMPROF_LOG\0") && is_set(b"MEMPROF_BODY\0");
    let phase = if is_marked { BEFORE } else { UNMARKED };
    let decided = PHASE.compare_exchange(UNDECIDED, phase, Ordering::AcqRel, Ordering::Acquire);
    decided.map_or_else(|other| other, |_| phase)
}

/// Whose a block is that this thread allocates now.
#[inline]
pub(crate) fn owner_of_new() -> Owner {
    match phase() {
        BEFORE => Owner::Earlier,
        AFTER if IS_HARNESS.with(Cell::get) => Owner::Harness,
        _ => Owner::Test,
    }
}

/// Whether each block must be looked at, because it may be the harness's. The common paths of the
/// allocator do not look.
#[inline]
pub(crate) fn looks_at_each_block() -> bool {
    matches!(phase(), BEFORE | AFTER)
}

/// Whether the body has ended, so that blocks of the harness count in no figure.
#[inline]
pub(crate) fn has_ended() -> bool {
    phase() == AFTER
}

/// Whether this thread may keep a place of its own for what it allocates.
pub(crate) fn may_claim() -> bool {
    !looks_at_each_block() && !IS_HARNESS.with(Cell::get)
}

/// Whether the body is still to come.
pub(crate) fn is_before_body() -> bool {
    phase() == BEFORE
}

/// Whether the body runs. It also does when it has left the process.
pub(crate) fn is_in_body() -> bool {
    phase() == BODY
}

/// The body begins.
pub(crate) fn begin_body() {
    PHASE.store(BODY, Ordering::Release);
}

/// The body has ended.
pub(crate) fn end_body() {
    PHASE.store(AFTER, Ordering::Release);
}

/// Bodies are not marked in this process. Returns whether the body was still to come.
pub(crate) fn leave_unmarked() -> bool {
    PHASE.compare_exchange(BEFORE, UNMARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Says whether this thread runs the harness's code from now on. Returns whether it did.
pub(crate) fn set_harness(is_harness: bool) -> bool {
    IS_HARNESS.with(|cell| cell.replace(is_harness))
}
