//! Every format: tables, markdown, pages, CSV, JSON, `JUnit`, trace events, annotations.
//!
//! Writes to the writer that it is given. `github` also reads the variables of a step.

mod answer;
mod answer_table;
mod bencher;
pub mod bisect;
mod causes;
mod code_results;
mod contexts;
mod csv;
mod finding;
mod frame;
pub mod github;
mod gitlab;
pub mod html;
pub mod json;
mod junit;
pub mod markdown;
mod markdown_text;
pub mod noise;
pub mod notebook;
mod notes;
pub mod options;
mod page;
mod perfetto;
pub mod proof;
pub mod render;
mod row_cells;
mod sarif;
mod scopes;
mod selection;
mod side_columns;
mod side_rows;
mod sides;
mod single;
mod source_path;
mod table;
mod tensors;
mod test_figures;
mod test_list;
mod text;
mod titles;
mod top;
mod trace;
mod troubles;
mod unpaired_limits;
pub mod why;
