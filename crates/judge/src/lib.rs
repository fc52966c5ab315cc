//! From logs to verdicts and causes: figures, differences, limits, call sites.
//!
//! Reads and writes the folder of a run; reads executables.

pub mod compare;
pub mod results;
pub mod symbols;
pub mod verdict;
pub mod why;
