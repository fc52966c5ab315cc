//! Bisections and histories in every format.
//! Writes to the writer that it is given; changes nothing else.

pub mod answer;
pub mod headline;
pub mod history;
pub mod measured;
pub mod search;
pub(crate) mod several;
