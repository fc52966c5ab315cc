//! The report of a proof: what each part of a diff costs, in every format.
//! Writes to the writer that it is given; changes nothing else.

mod csv;
mod formats;
pub(crate) mod lines;
mod text;

pub use formats::render;
pub(crate) use formats::{code_results, section_of_comment};
pub(crate) use text::section;
