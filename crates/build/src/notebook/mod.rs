//! Jupyter notebooks with Rust cells in evcxr's dialect, translated to one program.
//! None, pure.

pub mod alignment;
pub mod cell;
pub mod commands;
pub mod document;
pub mod error_places;
pub mod item;
pub mod manifest;
pub mod mistake;
pub mod program;
pub mod redefinition;
