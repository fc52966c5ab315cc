//! An archive: tests that are built on one machine and run on another.
//! Reads and writes archives; extracts them.

pub(crate) mod archive_error;
mod built_in_folder;
pub mod consistency;
pub mod contents;
pub mod extracted_tree;
pub mod file;
pub mod folder_of_run;
mod format;
mod machine;
pub mod manifest;
pub mod unpacked;
pub mod writer;
