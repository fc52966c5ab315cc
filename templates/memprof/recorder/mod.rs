//! The one lock over sources, figures and log. A mark reads all sources; checkpoints are made of marks.
//! It begins before `main` and ends after it.

pub(crate) mod checkpoints;
pub(crate) mod constructor;
pub(crate) mod first_lines;
pub(crate) mod gpu_handlers;
pub(crate) mod holding;
pub(crate) mod marks;
pub(crate) mod reading;
pub(crate) mod requests;
pub(crate) mod start_and_end;
pub(crate) mod traced_calls;
