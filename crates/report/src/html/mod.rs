//! Pages in HTML: one file each, whole without JavaScript, to which a script adds charts and search.
//! Writes to the writer that it is given; changes nothing else.

mod call_sites;
mod causes;
mod chart_data;
mod checkpoint_table;
mod document;
mod environment;
mod flames;
pub(crate) mod history;
mod page_test;
mod plain;
pub(crate) mod proof;
mod runs;
mod shell;
mod side_tables;
mod test_section;
mod treemap;

pub use document::render;
