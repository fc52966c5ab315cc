//! Traced functions and annotated lines in every format.
//! Writes to the writer that it is given; changes nothing else.

pub(crate) mod calls;
mod families;
pub(crate) mod markdown;
mod source;
