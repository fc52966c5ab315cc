//! The flags of `bisect` and `history`, as clap has them: which commits, which figure, and what `run` has for building and
//! selecting.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::bisect::linear_search::SearchGoal;
use crate::cli::arguments::{
    BuildArguments, CellArguments, CheckoutArguments, RefArguments, RequestArguments, SelectionArguments,
};
use crate::cli::flag::{self, Parameter, Variable};
use crate::plan::quantity::{self, Limit};
use crate::plan::request::RefRequest;
use crate::report::options::Format;

/// What follows `bisect --help`.
pub const BISECT_HELP: &str = "\
Examples:
  cargo memprof bisect --good v0.4.0 --bad HEAD -k decode --metric heap.live --checkpoint parsed
  cargo memprof bisect --good v1.2 --bad main --overlay memory.rs=tests/memory.rs -k memory --find all
  cargo memprof bisect --good v1.2 --bad main -k memory -- src/parser
  cargo memprof bisect --resume                        go on with one that was cut off

Commits that do not build, lack the test or fail it are skipped. Which way the figure goes is taken from the two ends.

Exit codes:
    0  found
    2  a mistake in the command line or in memprof.yaml
    3  an end has no figure, or only commits are left that cannot be measured: their range is named
    4  inconclusive: the noise is too large for the threshold
    5  the two ends do not differ beyond the threshold
  130  interrupted; what was measured is kept, --resume goes on from there";

/// What follows `history --help`.
pub const HISTORY_HELP: &str = "\
Examples:
  cargo memprof history v0.4.0..HEAD -k decode --metric heap.peak
  cargo memprof history v0.4.0.. --tags --overlay memory.rs=tests/memory.rs -k memory
  cargo memprof history v0.4.0.. --at-most 20 -k decode --format csv --output decode.csv

Exit codes: 0 measured, 2 a mistake, 3 some commits could not be measured, 130 interrupted (--resume goes on).";

/// `bisect`.
#[derive(Clone, Debug, Default, Args)]
pub struct BisectArguments {
    /// The commit from before the change
    #[arg(
        long,
        visible_alias = "old",
        value_name = "REF",
        required_unless_present = "resume",
        help_heading = "Commits"
    )]
    pub good: Option<String>,
    /// The commit with the change; `.` is the working tree
    #[arg(
        long,
        visible_alias = "new",
        value_name = "REF",
        required_unless_present = "resume",
        help_heading = "Commits"
    )]
    pub bad: Option<String>,
    /// What to search for
    #[arg(long, value_name = "WHICH", value_enum, default_value_t, help_heading = "Commits")]
    pub find: SearchGoal,
    /// Name the merge that brought the change, and do not search the branch that it merged
    #[arg(long, help_heading = "Commits")]
    pub first_parent: bool,
    /// What is measured, and how.
    #[command(flatten)]
    pub measuring: MeasuringArguments,
    /// Only commits that touch these paths
    #[arg(last = true, value_name = "PATH")]
    pub paths: Vec<String>,
}

/// `history`.
#[derive(Clone, Debug, Default, Args)]
pub struct HistoryArguments {
    /// From a commit to a later one, both included; nothing behind the dots means HEAD
    #[arg(value_name = "REF..REF", required_unless_present = "resume")]
    pub range: Option<String>,
    /// Measure every n-th commit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Commits")]
    pub every: Option<u32>,
    /// Measure at most so many, evenly spaced
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..), conflicts_with = "every", help_heading = "Commits")]
    pub at_most: Option<u32>,
    /// Measure only commits that have a tag
    #[arg(long, help_heading = "Commits")]
    pub tags: bool,
    /// Leave out the commits of merged branches
    #[arg(long, help_heading = "Commits")]
    pub first_parent: bool,
    /// What is measured, and how.
    #[command(flatten)]
    pub measuring: MeasuringArguments,
    /// Only commits that touch these paths
    #[arg(last = true, value_name = "PATH")]
    pub paths: Vec<String>,
}

/// What is measured of each commit, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct MeasuringArguments {
    /// The metric
    #[arg(long, value_name = "NAME", default_value = "heap.peak", value_parser = flag::metric, help_heading = "Figure")]
    pub metric: String,
    /// At this checkpoint, named as in the report: parsed, 'parsed #2', 'decoder (scope)' [default: of the whole test: the
    /// greatest peak, all allocations, what lives at its end]
    #[arg(long, value_name = "LABEL", help_heading = "Figure")]
    pub checkpoint: Option<String>,
    /// What is no change yet: 5%, 16MiB, or both (more than both) [default: that of the verdicts]
    #[arg(long, value_name = "LIMIT", value_delimiter = ',', value_parser = threshold, help_heading = "Figure")]
    pub threshold: Vec<SearchThreshold>,
    /// Run each commit this often, and more often where that leaves it unclear [default: 1, the ends 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Figure")]
    pub repeat: Option<u32>,
    /// Which tests: they must come down to one.
    #[command(flatten)]
    pub selection: SelectionArguments,
    /// The value of a parameter, in the environment variable NAME (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = flag::parameter, help_heading = "Tests")]
    pub params: Vec<Parameter>,
    /// Set an environment variable for builds and runs (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = flag::variable, help_heading = "Tests")]
    pub env: Vec<Variable>,
    /// Kill a run after this time: 90s, 10m
    #[arg(long, value_name = "DURATION", value_parser = quantity::timeout, help_heading = "Tests")]
    pub timeout: Option<u64>,
    /// What is laid over the commits.
    #[command(flatten)]
    pub checkout: CheckoutArguments,
    /// Cargo's options.
    #[command(flatten)]
    pub build: BuildArguments,
    /// The remote that pr/N and mr/N are fetched from [default: upstream if there is one, else origin]
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub remote: Option<String>,
    /// The matrix to read [default: the nearest memprof.yaml, from this folder up to the repository's root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Run")]
    pub matrix: Option<Utf8PathBuf>,
    /// Print the commits and the plan as JSON and do nothing
    #[arg(long, help_heading = "Run")]
    pub dry_run: bool,
    /// Go on with one that was cut off: nothing is measured twice
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest", conflicts_with = "dry_run", help_heading = "Run")]
    pub resume: Option<String>,
    /// Fail instead of waiting for another run on this repository
    #[arg(long, help_heading = "Run")]
    pub no_wait: bool,
    /// The format (repeatable: that of each --output, in order) [default: by the file's extension, else table]
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    pub format: Vec<Format>,
    /// Write to a file (repeatable)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Vec<Utf8PathBuf>,
}

/// A limit, with the metric before it where that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchThreshold {
    /// The metric, if it was named.
    pub metric: Option<String>,
    /// The limit.
    pub limit: Limit,
}

fn threshold(text: &str) -> Result<SearchThreshold, String> {
    let (metric, limit) = match text.split_once('=') {
        Some((metric, limit)) => (Some(flag::metric(metric)?), limit),
        None => (None, text),
    };
    Ok(SearchThreshold { metric, limit: limit.parse()? })
}

impl MeasuringArguments {
    /// The same request as `run --refs FROM,TO`.
    pub fn request(&self, from: &str, to: &str) -> RequestArguments {
        let reference = |spec: &str| RefRequest { spec: spec.to_owned(), ..RefRequest::default() };
        RequestArguments {
            refs: RefArguments {
                aa: false,
                refs: vec![reference(from), reference(to)],
                baseline: Some(from.to_owned()),
                remote: self.remote.clone(),
                matrix: self.matrix.clone(),
            },
            selection: self.selection.clone(),
            cells: CellArguments {
                params: self.params.clone(),
                env: self.env.clone(),
                timeout: self.timeout,
                ..CellArguments::default()
            },
            checkout: self.checkout.clone(),
            build: self.build.clone(),
            ..RequestArguments::default()
        }
    }
}
