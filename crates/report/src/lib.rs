//! Every format: tables, markdown, pages, CSV, JSON, `JUnit`, trace events, annotations.
//!
//! Writes to the writer that it is given.

pub mod answer;
mod answer_table;
pub mod bisect;
pub mod causes;
pub mod contexts;
pub mod csv;
pub mod finding;
mod frame;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
mod markdown_text;
pub mod noise;
pub mod notebook;
pub mod notes;
pub mod options;
pub mod page;
pub mod perfetto;
pub mod proof;
pub mod render;
mod row_texts;
pub mod sarif;
pub mod scopes;
pub mod selection;
mod side_rows;
mod sides;
pub mod single;
mod source_path;
pub mod table;
pub mod tensors;
mod test_figures;
pub mod test_list;
pub mod text;
pub mod titles;
pub mod top;
pub mod trace;
pub mod troubles;
pub mod why;
