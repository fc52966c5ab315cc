//! Whole runs of the program on whole repositories: the main path and what must never happen on it. `tests/slow` has
//! all other runs.

#[path = "../support/mod.rs"]
mod support;

mod runs;
