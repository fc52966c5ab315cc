//! Slurm: the batch script of a job's shards, what becomes of its tasks, and which are missing.
//! Runs sbatch, squeue, sacct and scancel; writes the job's files in the run's folder.

pub mod client;
pub mod following;
pub mod job;
pub mod progress;
pub mod script;
pub mod task;
