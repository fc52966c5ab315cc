//! The worktree that holds one revision after the other, and the cache folder around it.
//! Writes the cache folder.

pub mod cache;
pub mod clock;
pub mod conversion;
pub mod declared_submodules;
pub mod entry;
pub mod error;
pub mod filters;
pub mod injected_files;
pub mod kept;
pub mod lfs;
pub mod missing_submodules;
pub mod registry;
pub mod removal;
pub mod size_limit;
pub mod stamps;
pub mod submodules;
pub mod unusable;
pub mod worktree;
