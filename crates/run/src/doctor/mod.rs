//! Finds out what can be measured on this machine, and how to get what is missing.
//! Inspects the machine, loads its GPU libraries and creates temporary files; changes nothing.

pub mod checks;
pub(crate) mod diagnosis;
pub mod facts;
pub(crate) mod gpus;
pub(crate) mod machine;
pub mod text;
