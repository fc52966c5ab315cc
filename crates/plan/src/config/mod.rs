//! `memprof.yaml`: its keys, its values, and its JSON Schema.
//! Pure: `src/request/matrix_file.rs` reads the file.

pub mod axes;
pub mod device_pool;
pub mod flag;
pub mod keep;
pub mod limits;
pub mod mapping;
pub mod matrix;
pub(crate) mod mistake;
pub(crate) mod rules;
pub mod schema;
pub mod values;
pub mod yaml;
