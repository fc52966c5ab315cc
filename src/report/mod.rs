//! Renders a comparison: the table for people, markdown for a pull request, CSV and JSON for programs. Each renderer
//! takes a writer; what is shown is chosen in [`selection`] and summed up in [`summary`].

pub mod csv;
pub mod json;
pub mod markdown;
pub mod selection;
pub mod summary;
pub mod table;
pub mod text;

use std::io::{self, Write};
use std::str::FromStr;

pub use self::json::schema;
use crate::comparison::Comparison;

/// What is shown and how. CSV and JSON are always whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub struct Options {
    /// The metrics to show, by name; `*` stands for any part of it. `None` means those that matter for the run.
    pub metrics: Option<Vec<String>>,
    /// Show every metric that was measured.
    pub all: bool,
    /// One line a test and metric.
    pub compact: bool,
    /// Leave out rows, and tests, in which nothing changed.
    pub only_changed: bool,
    /// The terminal's columns; 100 if not known.
    pub width: Option<usize>,
    /// Whether to colour.
    pub color: bool,
    /// Show all rows of a test, however many.
    pub all_rows: bool,
    /// Where the report lies, for the last line.
    pub report_path: Option<String>,
}

/// A form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Table,
    /// For a pull request.
    Markdown,
    /// One value a row.
    Csv,
    /// Everything, with a schema.
    Json,
}

impl Format {
    /// All forms, in the order in which help names them.
    pub const ALL: [Self; 4] = [Self::Table, Self::Markdown, Self::Csv, Self::Json];

    /// The word for it on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Markdown => "markdown",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::as_str);
        Self::ALL
            .into_iter()
            .find(|format| format.as_str() == word)
            .ok_or_else(|| format!("no format '{word}' (there are {})", known.join(", ")))
    }
}

/// Writes the comparison in a form. The writer should be buffered; its errors, a broken pipe among them, are returned.
pub fn render(
    format: Format,
    comparison: &Comparison,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Table => table::render(comparison, options, out),
        Format::Markdown => markdown::render(comparison, options, out),
        Format::Csv => csv::render(comparison, out),
        Format::Json => json::render(comparison, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_read_from_its_word() {
        for format in Format::ALL {
            assert_eq!(format.as_str().parse(), Ok(format));
        }
        let error = "yaml".parse::<Format>().unwrap_err();
        assert_eq!(error, "no format 'yaml' (there are table, markdown, csv, json)");
    }
}
