//! `cargo memprof` compares memory between git revisions.
//!
//! A tour, in the order in which a comparison happens:
//!
//! 1. [`cli`] is what the user typed, [`matrix`] what `memprof.yaml` says; [`request`] is what both together mean.
//! 2. [`git`] resolves refs to revisions, which makes a [`plan`].
//! 3. [`worktree`] checks a revision out, [`inject`] lays overlays and the shim over it, [`build`] compiles it into
//!    the [`store`], with provenance.
//! 4. [`runner`] runs each cell in a process of its own; the shim in that process writes a log, which [`shim_log`] reads.
//! 5. [`compare`] matches checkpoints and computes deltas; [`report`] renders them.
//!
//! Data modules import nothing but data; pure ones take data and return data; effects are at the edge.
//! `DESIGN.md` has a sentence for each file.

pub mod archive;
pub mod bisect;
pub mod build;
pub mod cargo;
pub mod checkout;
pub mod cli;
pub mod compare;
pub mod config;
pub mod doctor;
pub mod git;
pub mod gpu;
pub mod inject;
pub mod plan;
pub mod report;
pub mod results;
pub mod run;
pub mod support;
pub mod trace;
pub mod verdict;
