//! What the tool adds to a checkout: overlay files, the shim's lines, wrapped allocators.
//! Imports support, plan, git, cargo and checkout.
//! Writes the checkout.

pub mod checkout_edits;
pub mod external;
pub mod module_files;
pub mod overlay;
pub mod own_allocator;
pub mod source_edit;
