//! Named memory in every format: totals, layers, forward passes, remarks.
//! Writes to the writer that it is given; changes nothing else.

pub mod chosen_devices;
pub mod comment;
pub mod forwards_json;
pub mod json;
pub mod layers;
pub mod passes;
pub mod remarks;
pub mod report;
pub mod totals;
pub mod unnamed;
pub mod view;
