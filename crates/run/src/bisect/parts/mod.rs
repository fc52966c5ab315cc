//! `prove`: the diff between two commits as parts that compile alone, and what each of them costs.
//! Pure: the caller lets the compiler check, and measures.

pub mod grouping;
pub mod hunk;
pub mod measurement;
pub mod order;
pub mod proof;
pub mod record;
