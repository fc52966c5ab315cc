//! `cargo memprof` compares memory between git revisions.
//!
//! A comparison passes through these modules, in this order:
//!
//! 1. [`cli`] reads the flags and [`config`] reads `memprof.yaml`. Together they become a request of
//!    [`plan`].
//! 2. [`git`] resolves refs to commits.
//! 3. [`checkout`] checks a revision out. [`inject`] and [`trace`] add overlays, the shim and
//!    scopes. [`build`] compiles the revision, with the options of [`cargo`], into its store.
//! 4. [`run`] runs each test in a process of its own. The shim in that process writes a log, which
//!    [`results`] reads. [`gpu`] watches the devices.
//! 5. [`compare`] aligns checkpoints and computes differences, with the statistics of [`verdict`].
//!    [`why`] finds the call sites of a difference. [`report`] renders them.
//!
//! [`bisect`] repeats this over a history, [`archive`] splits it between two machines, [`slurm`]
//! runs its shards on a cluster, [`notebook`] makes a program of a Jupyter notebook, and [`doctor`] checks a machine. [`symbols`] reads the
//! functions and lines of executables. [`support`] is below all of them.
//!
//! Each module imports only modules below it. `DESIGN.md` has the order.

pub mod archive;
pub mod bisect;
pub mod build;
pub mod cargo;
pub mod checkout;
pub mod cli;
pub mod compare;
pub mod config;
pub mod courtesy;
pub mod doctor;
pub mod git;
pub mod gpu;
pub mod inject;
pub mod notebook;
pub mod plan;
pub mod report;
pub mod results;
pub mod run;
pub mod slurm;
pub mod support;
pub mod symbols;
pub mod trace;
pub mod verdict;
pub mod why;
