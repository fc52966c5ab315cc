//! The causes of a comparison's changes, as the formats show them: first in each report.
//! Writes to the writer that it is given; changes nothing else.

pub mod entry;
pub mod json;
mod markdown;
pub mod sheet;
mod text;
