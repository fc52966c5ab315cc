//! Decides whether a figure regressed: limits, significance, statistics.
//! Imports support and plan.
//! Pure.

pub mod kinds;
pub mod limits;
pub mod significance;
pub mod statistics;
