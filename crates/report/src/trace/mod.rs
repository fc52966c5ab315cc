//! Traced functions and annotated lines in every format.
//! Writes to the writer that it is given; changes nothing else.

pub mod calls;
mod families;
pub mod markdown;
mod source;
