//! A first memprof.yaml for a repository: what is known of the repository, and the text.
//! Reads the repository and runs cargo metadata; the text is pure.

pub mod facts;
pub mod template;
