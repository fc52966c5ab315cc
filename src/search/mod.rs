//! What `bisect`, `history` and `prove` share: planning a search, measuring commits, showing the result.
//! Builds and runs commits, writes the search's folder, and prints.

pub(crate) mod diff;
pub(crate) mod growing_plan;
pub mod lockfiles;
pub mod of_change;
pub mod parts;
pub mod plan;
pub mod progress_lines;
pub mod proving;
pub mod report;
pub mod resume;
pub mod session;
pub mod start;
