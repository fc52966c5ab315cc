//! The repository: refs, commits and the working tree, through libgit2 and the git program.
//! Reads the repository; writes only below `refs/memprof/`.

pub mod changed_files;
pub mod changed_submodules;
pub mod commits;
pub(crate) mod fetch;
pub mod lineage;
pub(crate) mod links;
pub mod program;
pub mod ref_pattern;
pub mod repository;
pub(crate) mod reserved_names;
pub mod resolve;
pub mod resolve_error;
pub mod usual_refs;
pub(crate) mod working_tree;
pub mod workspace_folder;
pub mod written_commit;
