//! A notebook's place, the packages of its `:dep` paths, and commits with its program.
//! Reads files and revisions; writes commits and, for a notebook in none, a repository.

pub mod commits;
pub mod packages;
pub mod place;
