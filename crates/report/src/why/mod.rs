//! Call sites in every format: text, markdown, JSON, and files for pprof, DHAT and flame graphs.
//! Writes to the writer that it is given; changes nothing else.

pub mod dhat;
pub(crate) mod explained;
pub mod exports;
pub mod folded;
pub(crate) mod held;
pub(crate) mod hunk_lines;
pub mod json;
pub(crate) mod limits;
pub mod markdown;
pub mod pprof;
pub mod site_rows;
pub(crate) mod sparkline;
pub mod text;
pub(crate) mod threads;
pub(crate) mod words;
