//! The demo's repository, made from the fixture that the program embeds.
//! Writes files and runs git, in a folder of its own.

pub mod fixture;
pub mod repository;
