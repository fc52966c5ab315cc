//! Finds the functions to trace, and inserts scopes into them, and checkpoints at lines.
//! Writes the checkout.

pub mod checkpoints;
pub mod crates;
pub mod dependency_copies;
pub mod function_names;
pub mod functions;
pub mod instrument;
pub mod lines;
pub mod notebook_cells;
pub mod outside_crates;
pub mod untraceable;
