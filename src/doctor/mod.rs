//! What can be measured on this machine, and what is missing.
//! Imports support, gpu and checkout.
//! Asks the machine; changes nothing.

pub mod checks;
pub mod diagnosis;
pub mod facts;
pub mod text;
