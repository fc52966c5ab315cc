//! Where reports go: files and standard output, each in its format.
//! Writes report files and prints.

pub mod destinations;
pub mod present;
