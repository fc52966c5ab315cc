//! The flags of `notebook`.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::judging::JudgingArguments;
use crate::arguments::presentation::PresentationArguments;
use crate::arguments::request::{EnvironmentArguments, RefArguments, RequestArguments};
use crate::arguments::settings::Settings;
use crate::arguments::values;
use crate::arguments::waiting::WaitingArguments;
use memprof_plan::config::flag::NOTEBOOK;
use memprof_plan::config::matrix::{Matrix, TraceEntry};
use memprof_plan::request::RefRequest;
use memprof_run::follow::Follow;

/// What follows `notebook --help`.
pub const NOTEBOOK_HELP: &str = "\
Examples:
  cargo memprof notebook analysis.ipynb            what each cell needs
  cargo memprof notebook analysis.ipynb --compact  one line per cell
  cargo memprof notebook analysis.ipynb --refs main,.
                                                   two revisions, cell by cell
  cargo memprof notebook analysis.ipynb --write    store the report in the cells' outputs
  cargo memprof notebook analysis.ipynb --trace-cell 3
                                                   each line of cell 3

Exit codes: those of `cargo memprof`; 2 also if a cell cannot be translated.";

/// `notebook`.
#[derive(Clone, Debug, Default, Args)]
pub struct NotebookArguments {
    /// The notebook, with Rust cells as the kernel of evcxr runs them
    #[arg(value_name = "FILE.ipynb", value_hint = ValueHint::FilePath)]
    pub file: Utf8PathBuf,
    /// Compare these revisions cell by cell: main,. (`.` is the working tree, pr/7 a pull request)
    ///
    /// A notebook of the repository is read in each revision. Any other notebook is the same for
    /// all, and its `:dep` paths lead into each revision's checkout.
    #[arg(long, value_name = "REF,REF", value_delimiter = ',', value_parser = values::reference)]
    pub refs: Vec<RefRequest>,
    /// Leave out these code cells, by their numbers: 1,4 (a tag `skip-execution` does the same)
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub skip_cell: Vec<usize>,
    /// Store the report in the cells' outputs, in the notebook itself or in a copy
    #[arg(
        long,
        value_name = "COPY",
        value_hint = ValueHint::FilePath,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub write: Option<Utf8PathBuf>,
    /// The flags of keys.
    #[command(flatten)]
    pub settings: Settings<Matrix, NOTEBOOK>,
    /// Build with the release profile, in place of the level of `:opt`
    #[arg(short, long)]
    pub release: bool,
    /// Build with this rustup toolchain: nightly, 1.85.0
    #[arg(long, value_name = "NAME")]
    pub toolchain: Option<String>,
    /// Print each cell when it ends, with GPU, resident and heap memory; also checkpoints and scopes
    #[arg(long)]
    pub live: bool,
    /// The same, and what the cells print while they run
    #[arg(short = 's', long, visible_alias = "no-capture")]
    pub nocapture: bool,
    /// Measure each line of these code cells, by their numbers: 3 or 1,4
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub trace_cell: Vec<usize>,
    /// Which functions to measure.
    #[command(flatten)]
    pub trace: Settings<TraceEntry, NOTEBOOK>,
    /// How long to wait for other runs.
    #[command(flatten)]
    pub waiting: WaitingArguments,
    /// Let the notebook see only these GPUs: an NVML index, the beginning of a UUID, or `none`
    #[arg(long, value_name = "DEVICE,DEVICE", value_delimiter = ',', value_parser = values::device)]
    pub device: Vec<String>,
    /// The variables of the build and the run.
    #[command(flatten)]
    pub environment: EnvironmentArguments,
    /// What a regression is.
    #[command(flatten)]
    pub judging: JudgingArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
}

impl NotebookArguments {
    /// Returns what to show of the notebook while it runs.
    pub fn follow(&self) -> Follow {
        Follow { checkpoints: self.live || self.nocapture, output: self.nocapture }
    }

    /// Returns these flags as those of a run.
    pub fn request(&self) -> RequestArguments {
        let mut request = RequestArguments {
            refs: RefArguments { refs: self.refs.clone(), ..RefArguments::default() },
            environment: self.environment.clone(),
            trace: Settings(self.trace.0.clone()),
            settings: Settings(self.settings.0.clone()),
            judging: self.judging.clone(),
            ..RequestArguments::default()
        };
        request.build.release = self.release;
        request.build.toolchain = self.toolchain.iter().cloned().collect();
        request
    }
}
