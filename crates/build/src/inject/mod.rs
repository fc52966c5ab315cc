//! What the tool adds to a checkout: overlay files, patches, the shim's lines, wrapped allocators.
//! Writes the checkout.

pub mod checkout_edits;
pub mod checkpoint_lines;
pub mod committed_package;
pub(crate) mod external;
pub mod hidden_changes;
pub mod module_files;
pub(crate) mod outside_paths;
pub mod overlay;
pub mod overlay_packages;
pub(crate) mod own_allocator;
pub mod patch;
pub mod source_edit;
pub(crate) mod unused_change;
