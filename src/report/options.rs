//! The formats of a report, and what may be chosen about them.

/// What is shown and how. CSV and JSON are always whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub struct Options {
    /// The metrics to show, by name; `*` stands for any part of it. `None` means those that matter for the run.
    pub metrics: Option<Vec<String>>,
    /// Show every metric that was measured.
    pub all: bool,
    /// What the table is of.
    pub view: View,
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

/// What the table is of. The other formats have everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Every checkpoint
    #[default]
    Checkpoints,
    /// Scopes as a tree: consumed, peaked, used
    Scopes,
    /// The checkpoints that grew most
    Top,
    /// Named tensors, layer by layer
    Tensors,
}

/// A form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people in front of a terminal
    Table,
    /// For the comment of a pull request
    Markdown,
    /// One value a row, raw
    Csv,
    /// Everything, versioned
    Json,
    /// Test results in XML, as CI shows them
    Junit,
}

impl Format {
    /// The format that a file's name asks for.
    pub fn of_file(file: &camino::Utf8Path) -> Option<Self> {
        match file.extension()?.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "xml" => Some(Self::Junit),
            "txt" => Some(Self::Table),
            _ => None,
        }
    }
}
