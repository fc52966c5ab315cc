//! The formats of a report and their options.

use std::sync::Arc;

use memprof_judge::why::explanations::Explanations;
use memprof_run::bisect::parts::proof::ProofReport;

/// What to show and how. CSV and JSON are always complete.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub struct Options {
    /// The metrics to show; `*` matches any part of a name. `None` means the default metrics.
    pub metrics: Option<Vec<String>>,
    /// Show every metric that was measured.
    pub all: bool,
    /// What the table shows.
    pub view: View,
    /// Write one line per test and metric.
    pub compact: bool,
    /// Leave out unchanged rows and tests.
    pub only_changed: bool,
    /// The terminal's width in columns; 100 if unknown.
    pub width: Option<usize>,
    /// Whether the terminal shows the report, and no file or pipe gets it.
    pub is_on_terminal: bool,
    /// Use colours.
    pub color: bool,
    /// Which tests have a table.
    pub rows: Rows,
    /// Write the table of one revision as a list of tests with their results.
    pub is_test: bool,
    /// Show the call sites of each changed test, because a flag about them was given.
    pub shows_sites: bool,
    /// Suggest no next command: the comparison is a step of a search, or its repository is removed.
    pub hides_next: bool,
    /// The report's path, for the last line.
    pub report_path: Option<String>,
    /// Write changed source lines into a page.
    pub with_source: bool,
    /// The call sites of changed tests; `None` if no test ran with call stacks.
    pub why: Option<Arc<Explanations>>,
    /// What was proven of the worst change.
    pub proof: Option<Arc<ProofReport>>,
}

impl Format {
    /// Whether it shows what moved memory.
    pub fn shows_causes(self) -> bool {
        let is_report = matches!(self, Self::Table | Self::Markdown | Self::Html | Self::Json | Self::Junit);
        let is_table = matches!(self, Self::CsvCauses | Self::CsvSites | Self::CsvOwners | Self::CsvThreads);
        is_report || is_table || matches!(self, Self::Sarif | Self::Gitlab) || self.is_of_call_sites()
    }

    /// Whether it shows nothing but call sites.
    pub fn is_of_call_sites(self) -> bool {
        matches!(self, Self::Pprof | Self::Dhat | Self::Folded)
    }
}

impl Options {
    /// Whether the report of one revision is only its table of tests.
    pub(crate) fn is_brief(&self) -> bool {
        self.compact || self.rows == Rows::None
    }

    /// Whether everything is shown, regardless of its number.
    pub fn all_rows(&self) -> bool {
        self.rows == Rows::All
    }
}

/// Which tests have a table of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Rows {
    /// Tests that changed, the worst first
    #[default]
    Changed,
    /// All tests, with all their checkpoints
    All,
    /// None: only the answer, one line per changed test
    None,
}

/// What the table shows. The other formats include everything.
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

/// A format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for the terminal
    Table,
    /// A comment for a pull request
    Markdown,
    /// Raw values, one per row; also csv=long
    #[value(alias = "csv=long")]
    Csv,
    /// A row per checkpoint, a column per metric and ref
    #[value(name = "csv=wide")]
    CsvWide,
    /// A row per scope
    #[value(name = "csv=scopes")]
    CsvScopes,
    /// A row per traced function
    #[value(name = "csv=calls")]
    CsvCalls,
    /// A row per line of traced functions
    #[value(name = "csv=lines")]
    CsvLines,
    /// A row per named tensor
    #[value(name = "csv=tensors")]
    CsvTensors,
    /// A row per layer of a forward pass
    #[value(name = "csv=layers")]
    CsvLayers,
    /// A row per cause, test and metric
    #[value(name = "csv=causes")]
    CsvCauses,
    /// A row per call site, or per what `--why-by` puts together
    #[value(name = "csv=sites")]
    CsvSites,
    /// A row per owner of memory, with `--why-by owner`
    #[value(name = "csv=owners")]
    CsvOwners,
    /// A row per thread, and per thread that frees its blocks, with `--why-by thread`
    #[value(name = "csv=threads")]
    CsvThreads,
    /// A page for the browser, in one file
    Html,
    /// The complete report, in a versioned format
    Json,
    /// Test results in XML, for CI systems
    Junit,
    /// Causes at their lines, for editors and code scanning
    Sarif,
    /// The same as GitLab's code quality report
    Gitlab,
    /// The figures of each test in Bencher Metric Format
    Bencher,
    /// Call sites for pprof; one file per test and ref
    Pprof,
    /// Call sites for DHAT's viewer; one file per test and ref
    Dhat,
    /// Counters, checkpoints and scopes over time, for Perfetto and other viewers of trace events
    Perfetto,
    /// Folded call stacks for flame graphs; files per test: each ref, what grew, what shrank
    Folded,
}

impl Format {
    /// Returns the format for a file's extension.
    pub fn of_file(file: &camino::Utf8Path) -> Option<Self> {
        match file.extension()?.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "sarif" => Some(Self::Sarif),
            "xml" => Some(Self::Junit),
            "txt" => Some(Self::Table),
            _ => None,
        }
    }
}
