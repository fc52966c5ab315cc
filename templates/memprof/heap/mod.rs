//! The tracking allocator and its counts, and the test's body, where the figures begin and end.
//! Code here runs inside each allocation: it must not allocate, lock or panic.

pub(crate) mod allocator;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), path = "body_elsewhere.rs")]
pub(crate) mod body;
pub(crate) mod counts;
pub(crate) mod listener;
