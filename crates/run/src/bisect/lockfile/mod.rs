//! Searching the updates between two lock files: the chain of lock files from one to the other.
//! Pure: the caller resolves lock files.

pub mod chain;
pub mod lock_text;
