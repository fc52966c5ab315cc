//! Finds the functions to trace, and inserts scopes into them, and checkpoints at lines.
//! Writes the checkout.

pub(crate) mod checkpoints;
pub(crate) mod crates;
pub(crate) mod dependency_copies;
pub(crate) mod function_names;
pub mod functions;
pub(crate) mod instrument;
pub(crate) mod lines;
pub mod notebook_cells;
pub(crate) mod originals;
pub(crate) mod outside_crates;
pub(crate) mod untraceable;
