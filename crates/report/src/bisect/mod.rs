//! Bisections and histories in every format.
//! Writes to the writer that it is given; changes nothing else.

pub(crate) mod answer;
pub mod headline;
pub(crate) mod history;
pub(crate) mod measured;
pub mod search;
pub(crate) mod several;
