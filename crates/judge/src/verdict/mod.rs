//! Decides whether a figure regressed: limits, significance, statistics.
//! Pure.

pub mod kinds;
pub mod limits;
pub mod significance;
pub mod statistics;
