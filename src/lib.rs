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

pub mod absent_libraries;
pub mod archive;
pub mod archive_commands;
pub mod build;
pub mod build_failure;
pub mod bytes;
pub mod cache;
pub mod cargo;
pub mod cargo_config;
pub mod cell_filters;
pub mod cell_names;
pub mod cell_pattern;
pub mod cells;
pub mod cli;
pub mod commands;
pub mod comparability;
pub mod compare;
pub mod comparison;
pub mod complaint;
pub mod console;
pub mod counted;
pub mod cupti;
pub mod demo;
pub mod device_locks;
pub mod device_watch;
pub mod devices;
pub mod doctor;
pub mod doctor_facts;
pub mod environment;
pub mod event;
pub mod exit_code;
pub mod expression;
pub mod external;
pub mod fate;
pub mod fetch;
pub mod fixture;
pub mod flag;
pub mod git;
pub mod git_program;
pub mod github;
pub mod glob;
pub mod gpu_environment;
pub mod harvest;
pub mod help;
pub mod ingredients;
pub mod init;
pub mod init_facts;
pub mod inject;
pub mod injected_files;
pub mod invocation;
pub mod judge;
pub mod judging;
pub mod lfs;
pub mod libraries;
pub mod limits;
pub mod listing;
pub mod lock;
pub mod lockfile;
pub mod manual;
pub mod matching;
pub mod matrix;
mod matrix_rules;
pub mod matrix_schema;
pub mod matrix_values;
pub mod measurement;
pub mod metric;
pub mod metric_name;
pub mod neighbours;
pub mod noise;
pub mod nvml;
pub mod outcome;
pub mod outputs;
pub mod overlay;
pub mod overlay_paths;
pub mod packing;
pub mod plan;
pub mod process;
pub mod process_group;
pub mod progress;
pub mod quantity;
pub mod reconcile;
pub mod ref_pattern;
pub mod repeat;
pub mod repeats;
pub mod report;
pub mod request;
pub mod resolve;
pub mod resolve_error;
pub mod results;
pub mod rule;
pub mod run_folder;
pub mod runner;
pub mod selection;
pub mod session;
pub mod shim;
pub mod shim_log;
pub mod side;
pub mod sources;
pub mod stage;
pub mod stand_in;
pub mod statistics;
pub mod store;
pub mod submodules;
pub mod suggest;
pub mod test_listing;
pub mod title;
pub mod toolchain;
pub mod verdict;
pub mod visible_devices;
pub mod working_tree;
pub mod workspace_folder;
pub mod worktree;
pub mod wrapper;
pub mod yaml;
pub mod yaml_mapping;
