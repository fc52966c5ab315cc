//! What holds for every input, however it is damaged: pure functions from bytes to nothing, which panic if it does not hold.
//!
//! Each input is a file or a text that a stranger can write. No reader panics, hangs, or takes memory out of proportion; an error
//! names the place; what is accepted survives being written and read again; nothing is written outside.
//!
//! `tests/fast/properties.rs` tries a few inputs in every test run, and many with `just fuzz`. The targets in `fuzz/` give the same
//! functions to libFuzzer.

#![allow(dead_code, reason = "each of the programs that include this folder uses a part of it")]

pub mod archive;
pub mod budget;
pub mod command_line;
pub mod comparing;
pub mod filter;
pub mod lock_text;
pub mod log;
pub mod mutation;
pub mod notebook;
pub mod outcome;
pub mod owners;
pub mod plan;
pub mod refs;
pub mod shard;
pub mod stacks;
pub mod trace;
pub mod unwind;
pub mod yaml;

/// A property and inputs to start from.
pub struct Target {
    /// Its name, which is also the name of its fuzz target.
    pub name: &'static str,
    /// What must hold.
    pub check: fn(&[u8]),
    /// Inputs that a reader accepts, or nearly accepts.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something to the reader.
    pub words: &'static [&'static str],
}

/// Every property.
pub const TARGETS: [Target; 16] = [
    archive::TARGET,
    budget::TARGET,
    command_line::TARGET,
    filter::TARGET,
    lock_text::TARGET,
    log::TARGET,
    notebook::TARGET,
    outcome::TARGET,
    owners::TARGET,
    plan::TARGET,
    refs::TARGET,
    shard::TARGET,
    stacks::TARGET,
    trace::TARGET,
    unwind::TARGET,
    yaml::TARGET,
];

/// Returns the property of this name.
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("there is such a property")
}

/// Writes the seeds of a property into a folder, for libFuzzer to start from.
pub fn write_seeds(name: &str, corpus: &str) {
    let folder = std::path::Path::new(corpus).join(name);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    for (number, seed) in (target(name).seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("the folder is there");
    }
}
