//! What an executable says about its code: how to walk its stacks, and its functions and lines.
//! Reads executables, libraries and their debug information; writes unwind tables.

pub mod code_place;
pub mod data_symbols;
mod debug_file;
mod frame_section;
mod function_name;
pub mod kept_table;
pub mod resolver;
pub mod test_body;
pub mod type_sizes;
pub mod unwind_rule;
pub mod unwind_table;
