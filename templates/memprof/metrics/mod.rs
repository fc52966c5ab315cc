//! Metrics: their names, values and earlier peaks, and what a source of them does.
//! Nothing here reads any memory.

pub(crate) mod columns;
pub(crate) mod metric;
pub(crate) mod peak_history;
pub(crate) mod source;
