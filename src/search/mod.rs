//! What `bisect` and `history` share: planning a search, measuring commits, showing the result.
//! Builds and runs commits, writes the search's folder, and prints.

pub mod lockfiles;
pub mod parts;
pub mod plan;
pub mod progress_lines;
pub mod proving;
pub mod report;
pub mod resume;
pub mod session;
