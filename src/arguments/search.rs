//! The flags of `bisect`, `history` and `prove`: which commits, which metric, and the flags for building and
//! selecting that `run` has too.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use crate::arguments::cargo::CargoArguments;
use crate::arguments::courtesy::CourtesyTarget;
use crate::arguments::judging::JudgingArguments;
use crate::arguments::request::{
    CheckoutArguments, EnvironmentArguments, RefArguments, RequestArguments, SelectionArguments,
};
use crate::arguments::settings::Settings;
use crate::arguments::sides::SideArguments;
use crate::arguments::values::{self, Parameter};
use crate::arguments::waiting::WaitingArguments;
use crate::arguments::why::WhyArguments;
use memprof_judge::why::grouping::GroupBy;
use memprof_plan::config::flag::{SEARCHES, Section};
use memprof_plan::config::matrix::Matrix;
use memprof_plan::config::yaml::Scalar;
use memprof_plan::quantity::Limit;
use memprof_plan::repeat;
use memprof_plan::request::{MERGE_BASE, RefRequest};
use memprof_report::options::Format;
use memprof_run::bisect::linear_search::SearchGoal;

/// What follows `bisect --help`.
pub const BISECT_HELP: &str = "\
Examples:
  cargo memprof bisect v0.4.0..HEAD -k decode
  cargo memprof bisect v1.2..main -k decode --checkpoint parsed
  cargo memprof bisect v1.2..main -k memory --find all -- src/parser
  cargo memprof bisect v1..main --overlay memory.rs=tests/memory.rs
  cargo memprof bisect v1.2..main -k decode --prove
                                                   and which part of that commit?
  cargo memprof bisect --lockfile v1.2..main -k decode
                                                   which update of a crate was it?
  cargo memprof bisect v1..main --bin tool --arg=--fast
                                                   a program; behind `--` are paths
  cargo memprof bisect --resume                    after an interrupt

Skips commits that do not build, lack the test or fail it. The two ends tell
whether the metric grew or shrank.

Exit codes:
    0  found
    2  a mistake in the command line or in memprof.yaml
    3  an end cannot be measured, or the answer is a range of commits, because
       some of them cannot be measured
    4  inconclusive: the noise is too large for the threshold
    5  the two ends do not differ by more than the threshold
  130  interrupted; finished runs are kept, and --resume continues";

/// The help of `--bin` and `--example` for searches, where paths stand behind `--`, or nothing.
pub const BIN_HELP: &str = "Run this binary's `main`: --bin tool --arg=--fast (repeatable)";
pub const EXAMPLE_HELP: &str = "Run this example's `main`, with the arguments of --arg (repeatable)";

/// What follows `prove --help`.
pub const PROVE_HELP: &str = "\
Examples:
  cargo memprof prove main..pr/7 -k index
  cargo memprof prove main...pr/7 -k index         from their merge base
  cargo memprof prove main..pr/7 -k index --checkpoint done --metric heap.live
  cargo memprof prove main..pr/7 -k index --builds 20 -o proof.md
  cargo memprof prove --resume                     after an interrupt

Splits the diff into parts that compile alone, and measures the commit without
each part that may matter. Figures add up to the difference.

Exit codes:
    0  found
    2  a mistake in the command line or in memprof.yaml
    3  an end cannot be measured, or some parts could not be told apart
    4  inconclusive: the noise is too large for the threshold
    5  the two ends do not differ by more than the threshold
  130  interrupted; finished runs are kept, and --resume continues";

/// What follows `history --help`.
pub const HISTORY_HELP: &str = "\
Examples:
  cargo memprof history v0.4.0..HEAD -k decode --metric heap.peak
  cargo memprof history v0.4.0.. --tags -k decode
  cargo memprof history v0.4.0.. --at-most 20 -k decode --output decode.csv

Exit codes:
    0  measured
    2  a mistake in the command line or in memprof.yaml
    3  some commits could not be measured
  130  interrupted; finished runs are kept, and --resume continues";

/// `bisect`.
#[derive(Clone, Debug, Default, Args)]
pub struct BisectArguments {
    /// A commit before the change, and one with it: main..pr/7 or main pr/7 (`main..` ends at HEAD)
    #[arg(value_name = "GOOD..BAD", num_args = 1..=2, conflicts_with_all = ["good", "bad"])]
    pub range: Vec<String>,
    /// Find the update that changed it: two lock files, as files or refs: old.lock..Cargo.lock
    ///
    /// The code stays the same: that of the ref in place of GOOD..BAD, by default of the second
    /// lock file.
    #[arg(long, value_name = "OLD..NEW", conflicts_with_all = ["good", "bad", "paths"], help_heading = Section::Commits.heading())]
    pub lockfile: Option<String>,
    /// A commit before the change
    #[arg(
        long,
        visible_alias = "old",
        value_name = "REF",
        required_unless_present_any = ["resume", "range", "lockfile"],
        help_heading = Section::Commits.heading()
    )]
    pub good: Option<String>,
    /// A commit with the change; `.` is the working tree
    #[arg(
        long,
        visible_alias = "new",
        value_name = "REF",
        required_unless_present_any = ["resume", "range", "lockfile"],
        help_heading = Section::Commits.heading()
    )]
    pub bad: Option<String>,
    /// Which change to find
    #[arg(long, value_name = "WHICH", value_enum, default_value_t, help_heading = Section::Commits.heading())]
    pub find: SearchGoal,
    /// If a merge brought the change, report the merge and do not search the merged branch
    #[arg(long, help_heading = Section::Commits.heading())]
    pub first_parent: bool,
    /// Then measure what each part of the commit that it found costs, as `prove` does
    #[arg(long, conflicts_with = "lockfile", help_heading = Section::Commits.heading())]
    pub prove: bool,
    /// What to measure, and how.
    #[command(flatten)]
    pub measuring: MeasuringArguments,
    /// The call sites of what was found.
    #[command(flatten)]
    pub why: WhyArguments,
    /// Measure only commits that touch these paths
    #[arg(last = true, value_name = "PATH")]
    pub paths: Vec<String>,
}

/// `history`.
#[derive(Clone, Debug, Default, Args)]
pub struct HistoryArguments {
    /// The first and the last commit, both included: v0.4.0..v0.5.0 or v0.4.0 v0.5.0 (`v0.4.0..` ends at HEAD)
    #[arg(value_name = "REF..REF", num_args = 1..=2, required_unless_present = "resume")]
    pub range: Vec<String>,
    /// Measure every N-th commit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = Section::Commits.heading())]
    pub every: Option<u32>,
    /// Measure at most N commits, evenly spaced
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..), conflicts_with = "every", help_heading = Section::Commits.heading())]
    pub at_most: Option<u32>,
    /// Measure only tagged commits
    #[arg(long, help_heading = Section::Commits.heading())]
    pub tags: bool,
    /// Leave out the commits of merged branches
    #[arg(long, help_heading = Section::Commits.heading())]
    pub first_parent: bool,
    /// What to measure, and how.
    #[command(flatten)]
    pub measuring: MeasuringArguments,
    /// What call sites have in common in a line of the page, the only report of a history that has them: site,
    /// line, function, module, crate, hunk, type, owner or thread [default: line]
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true, help_heading = Section::CallSites.heading())]
    pub why_by: Option<GroupBy>,
    /// Measure only commits that touch these paths
    #[arg(last = true, value_name = "PATH")]
    pub paths: Vec<String>,
}

/// `prove`.
#[derive(Clone, Debug, Default, Args)]
pub struct ProveArguments {
    /// A commit without the diff, and one with it: main..pr/7 or main pr/7 (`main..` ends at HEAD)
    #[arg(value_name = "BASE..REF", num_args = 1..=2, required_unless_present = "resume")]
    pub range: Vec<String>,
    /// Build at most N commits, both ends included
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..), help_heading = Section::Commits.heading())]
    pub builds: u32,
    /// What to measure, and how.
    #[command(flatten)]
    pub measuring: MeasuringArguments,
    /// Show the call sites of the whole difference, too, put together by this: site, line, function, module,
    /// crate, hunk, type, owner or thread (docs/why.md)
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true, help_heading = Section::CallSites.heading())]
    pub why_by: Option<GroupBy>,
}

/// What to measure of each commit, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct MeasuringArguments {
    /// Compare this metric
    #[arg(long, value_name = "NAME", default_value = "heap.peak", value_parser = values::metric, help_heading = Section::Metric.heading())]
    pub metric: String,
    /// Read the metric at this checkpoint, named as in the report: parsed, 'parsed #2', 'decoder
    /// (scope)'
    ///
    /// [default: the whole test, which means the highest peak, the sum of all allocations, or the
    /// value at its end]
    #[arg(long, value_name = "LABEL", help_heading = Section::Metric.heading())]
    pub checkpoint: Option<String>,
    /// Ignore changes smaller than this: 5%, 16MiB, or both (5%,16MiB: a change exceeds both)
    ///
    /// [default: the threshold that the verdicts of `run` use]
    #[arg(long, value_name = "LIMIT", value_delimiter = ',', value_parser = threshold, help_heading = Section::Metric.heading())]
    pub threshold: Vec<SearchThreshold>,
    /// Run each commit at least N times, and more often while the result is unclear [default: 1,
    /// and 2 for the ends]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(repeat::MOST)), help_heading = Section::Metric.heading())]
    pub repeat: Option<u32>,
    /// Read from this file how much the metric varies; `cargo memprof --aa --noise FILE` writes it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = Section::Metric.heading())]
    pub noise: Option<Utf8PathBuf>,
    /// Which tests. A bisection follows exactly one.
    #[command(flatten)]
    pub selection: SelectionArguments,
    /// Set a parameter, which is the environment variable NAME (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = values::parameter, help_heading = Section::Tests.heading())]
    pub params: Vec<Parameter>,
    /// Build every commit with another version of a dependency: serde@1.0.200 (repeatable)
    ///
    /// Also from a folder, `serde=../serde`, or from git,
    /// `serde=https://github.com/serde-rs/serde@master`.
    #[arg(long, value_name = "NAME@VERSION", help_heading = Section::Build.heading())]
    pub with: Vec<String>,
    /// The variables of builds and tests.
    #[command(flatten)]
    pub environment: EnvironmentArguments,
    /// What is added to the checkouts, and left out.
    #[command(flatten)]
    pub checkout: CheckoutArguments,
    /// Cargo's options.
    #[command(flatten)]
    pub build: CargoArguments,
    /// The flags of keys.
    #[command(flatten)]
    pub settings: Settings<Matrix, SEARCHES>,
    /// Read this file instead of memprof.yaml
    ///
    /// [default: the nearest memprof.yaml, from this folder up to the repository's root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = Section::Run.heading())]
    pub matrix: Option<Utf8PathBuf>,
    /// Print the commits and the plan as JSON, then stop
    #[arg(long, help_heading = Section::Run.heading())]
    pub dry_run: bool,
    /// Continue an interrupted search, by default the latest; nothing is measured twice
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest", conflicts_with = "dry_run", help_heading = Section::Run.heading())]
    pub resume: Option<String>,
    /// How long to wait for other runs.
    #[command(flatten)]
    pub waiting: WaitingArguments,
    /// Let the tests see only these GPUs: an NVML index, the beginning of a UUID, or `none`
    #[arg(
        long,
        value_name = "DEVICE,DEVICE",
        value_delimiter = ',',
        value_parser = values::device,
        conflicts_with = "resume",
        help_heading = Section::Run.heading()
    )]
    pub device: Vec<String>,
    /// Set the GPU memory of these processes of yours aside during the search, builds included: PIDs, or
    /// `opted-in` (docs/courtesy.md)
    #[arg(long, value_name = "PID,PID|opted-in", help_heading = Section::Run.heading())]
    pub courtesy: Option<CourtesyTarget>,
    /// Report format: table, markdown, csv, html, json, junit, sarif, gitlab, bencher, pprof, dhat, perfetto, folded
    /// [default: from the file extension, else table]
    ///
    /// For several --output files, repeat it in the same order. docs/reports.md explains the formats, also
    /// csv=wide, csv=scopes, csv=calls, csv=lines, csv=tensors, csv=layers, csv=causes, csv=sites, csv=owners
    /// and csv=threads.
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true, help_heading = Section::Output.heading())]
    pub format: Vec<Format>,
    /// Write the report to a file (repeatable)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = Section::Output.heading())]
    pub output: Vec<Utf8PathBuf>,
}

/// `5%`, or with its metric, `heap.peak=5%`.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchThreshold {
    /// The metric, if the user wrote one.
    pub metric: Option<String>,
    pub limit: Limit,
}

fn threshold(text: &str) -> Result<SearchThreshold, String> {
    let (metric, limit) = match text.split_once('=') {
        Some((metric, limit)) => (Some(values::metric(metric)?), limit),
        None => (None, text),
    };
    Ok(SearchThreshold { metric, limit: limit.parse()? })
}

impl MeasuringArguments {
    /// Returns the same request as `run --refs FROM,TO`.
    pub fn request(&self, from: &str, to: &str) -> RequestArguments {
        // With a name, `main...pr/7` is one ref, and not two.
        let name = |spec: &str| spec.contains("...").then(|| MERGE_BASE.to_owned());
        let reference =
            |spec: &str| RefRequest { spec: spec.to_owned(), name: name(spec), ..RefRequest::default() };
        RequestArguments {
            refs: RefArguments {
                aa: false,
                refs: vec![reference(from), reference(to)],
                matrix: self.matrix.clone(),
            },
            selection: self.selection.clone(),
            params: self.params.clone(),
            settings: Settings(Matrix { baseline: Some(Scalar(from.to_owned())), ..self.settings.0.clone() }),
            judging: JudgingArguments { noise: self.noise.clone(), ..JudgingArguments::default() },
            sides: SideArguments { with: self.with.clone(), ..SideArguments::default() },
            environment: self.environment.clone(),
            checkout: self.checkout.clone(),
            build: self.build.clone(),
            ..RequestArguments::default()
        }
    }
}
