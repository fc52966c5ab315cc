//! CSV: raw values one by one, or tables of checkpoints, scopes, calls, lines, tensors, layers.
//! Writes to the writer that it is given; changes nothing else.

pub mod causes;
mod cell_columns;
pub mod checkpoints;
pub mod layers;
pub mod long;
mod pivot;
pub mod tensors;
pub mod text;
pub mod traced;
