//! An archive: built on one machine, run on another.
//! Imports
//! Reads and writes archives.

pub mod contents;
pub mod extracted_tree;
pub mod file;
mod format;
pub mod manifest;
pub mod writer;
