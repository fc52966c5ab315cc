//! Where reports go: files and standard output, each in its format.
//! Imports report, compare and results, and the console.
//! Writes report files and prints.

pub mod destinations;
pub mod present;
