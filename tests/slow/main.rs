//! The tool on whole repositories, which it builds and runs. The programs are small; cargo takes most of the time.

#[path = "../support/mod.rs"]
mod support;

mod adapters;
mod archive;
mod bisect;
mod end_to_end;
mod faults;
mod gpu_machine;
mod repeats;
mod tensors;
mod traced_builds;
mod tracing;
mod zoo;
