//! Named memory in every format: totals, layers, forward passes, remarks.
//! Writes to the writer that it is given; changes nothing else.

pub(crate) mod chosen_devices;
pub(crate) mod comment;
pub(crate) mod forwards_json;
pub(crate) mod json;
pub(crate) mod layers;
pub(crate) mod passes;
pub(crate) mod remarks;
pub(crate) mod report;
pub(crate) mod totals;
pub(crate) mod unnamed;
pub(crate) mod view;
