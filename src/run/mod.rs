//! Runs each cell in a process of its own and records the outcome.
//! Imports
//! Runs tests; writes the run's folder.

pub mod classify;
pub mod process_group;
pub mod runner;
pub mod session;
