//! The causes of a comparison's changes, as the formats show them: first in each report.
//! Writes to the writer that it is given; changes nothing else.

pub(crate) mod entry;
pub(crate) mod json;
mod markdown;
mod proven;
pub(crate) mod sheet;
mod text;
