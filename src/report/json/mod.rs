//! The JSON report: its types and schema, its rows, and its writer.
//! Imports what its parent folder may.
//! Writes to the writer that it is given; changes nothing else.

pub mod render;
pub(in crate::report) mod rows;
pub mod schema;
