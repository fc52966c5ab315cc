//! `prove`: the diff between two commits as parts that compile alone, and what each of them costs.
//! Pure: the caller lets the compiler check, and measures.

pub mod grouping;
pub mod hunk;
pub mod labels;
pub mod locked;
pub(crate) mod manifest_lines;
pub mod measurement;
pub mod order;
#[cfg(test)]
mod played;
pub mod proof;
pub mod record;
pub(crate) mod shares;
pub mod suspects;
