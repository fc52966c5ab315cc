//! Runs each cell in its own process and records the outcome.
//! Imports support, gpu, plan, git, checkout, cargo, results, compare and build.
//! Runs tests; writes the run's folder.

pub mod classify;
pub mod executables;
pub mod finished;
pub mod follow;
pub mod home;
pub mod process_group;
pub mod runner;
pub mod session;
pub mod stored_plan;
