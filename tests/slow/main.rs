//! The tool on whole repositories, which it builds and runs. The programs are small; cargo takes most of the time.

#[path = "../support/mod.rs"]
mod support;

mod adapters;
mod archive;
mod axes;
mod baselines;
mod benches;
mod bisect;
mod bodies;
mod broken_targets;
mod browser;
mod chromium;
mod courtesy;
mod device_pool;
mod device_queue;
mod documented_commands;
mod end_to_end;
mod faults;
mod gpu_machine;
mod hostile_tests;
mod jobs;
mod lockfile_search;
mod lockfiles;
mod memory_crate;
mod notebooks;
mod old_rust;
mod one_revision;
mod overlays;
mod programs;
mod prove;
mod repeats;
mod same_code;
mod secrets;
mod shards;
mod sides;
mod slurm;
mod slurm_cluster;
mod spans;
mod tensors;
mod traced_builds;
mod tracing;
mod types;
mod untrusted_builds;
mod why;
mod zoo;
