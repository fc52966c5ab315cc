//! The JSON report: its types and schema, its rows, and its writer.
//! Writes to the writer that it is given; changes nothing else.

pub mod render;
pub(crate) mod rows;
pub mod schema;
