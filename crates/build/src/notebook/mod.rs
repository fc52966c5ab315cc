//! Jupyter notebooks with Rust cells in evcxr's dialect, translated to one program.
//! None, pure.

pub mod alignment;
pub(crate) mod cell;
pub(crate) mod commands;
pub mod document;
pub mod error_places;
pub(crate) mod item;
pub mod manifest;
pub(crate) mod mistake;
pub mod program;
pub(crate) mod redefinition;
