//! Bisections and histories in every format.
//! Imports what its parent folder may.
//! Writes to the writer that it is given; changes nothing else.

pub mod answer;
pub mod headline;
pub mod history;
pub mod measured;
pub mod search;
pub(in crate::report) mod several;
