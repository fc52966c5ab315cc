//! The worktree that holds one revision after the other, and the cache folder around it.
//! Writes the cache folder.

pub mod cache;
pub(crate) mod clock;
pub(crate) mod conversion;
pub(crate) mod declared_submodules;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod filters;
pub mod injected_files;
pub mod kept;
pub(crate) mod lfs;
pub(crate) mod missing_submodules;
pub(crate) mod registry;
pub(crate) mod removal;
pub mod size_limit;
pub(crate) mod stamps;
pub(crate) mod submodules;
pub mod unusable;
pub mod worktree;
