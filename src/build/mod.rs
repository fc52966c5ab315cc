//! Builds test executables from a checkout, and keeps them in the store.
//! Imports support, symbols, plan, git, checkout, cargo, results, inject and trace.
//! Runs cargo and the compiler; writes the store.

pub mod absent_libraries;
pub mod adapters;
pub mod artifacts;
pub mod attempts;
pub mod build_key;
pub mod build_tree;
pub mod builder;
pub mod compilation;
pub mod compiled_copies;
pub mod compiled_test;
pub mod configured_out;
pub mod failure;
pub mod freshness;
pub mod harness_library;
pub mod inserted_checkpoints;
pub mod job;
pub mod libraries;
pub mod library_listing;
pub mod line_tables;
pub mod lockfile_resolver;
pub mod memory_crate;
pub mod noting_runner;
pub mod own_program;
pub mod patched_source;
pub mod prepared_source;
pub mod programs;
pub mod programs_of_tests;
pub mod provenance;
pub mod provided_side;
pub mod selected_failures;
pub mod selected_targets;
pub mod shared_lockfile;
pub mod shim;
pub mod shim_lock;
pub mod side_lockfile;
pub mod stand_in;
pub mod started_programs;
pub mod store;
pub mod test_listing;
pub mod test_tree;
pub mod toolchains;
pub mod traced_sources;
pub mod wrapper;
