//! The commands with their flags, and their help.

use clap::{CommandFactory, Parser, Subcommand};

use crate::arguments::budget::{self, BudgetArguments};
use crate::arguments::build::{self, BuildCommandArguments, ListArguments, TraceCommandArguments};
use crate::arguments::courtesy::{self, RestoreArguments, YieldArguments};
use crate::arguments::deps::{self, DepsArguments};
use crate::arguments::notebook::{self, NotebookArguments};
use crate::arguments::reports::{self, CompareArguments, MergeArguments, ReportArguments};
use crate::arguments::run::RunArguments;
use crate::arguments::search::{self, BisectArguments, HistoryArguments, ProveArguments};
use crate::arguments::setup::{
    self, CleanArguments, CompletionsArguments, DemoArguments, DoctorArguments, InitArguments,
    SchemaArguments,
};
use crate::arguments::submit::{self, SubmitArguments};
use crate::arguments::terminal::TerminalArguments;
use crate::arguments::test::{self, TestArguments};

const EXAMPLES: &str = "\
Examples:
  cargo memprof                              your work since it forked from main
  cargo memprof main feature                 two refs, also as main..feature
  cargo memprof pr/3370 -k hf_fwd            a pull request and its merge base
  cargo memprof .                            your files alone: what tests use
  cargo memprof test                         tests that fail on a broken limit
  cargo memprof v1.2 HEAD --overlay tests/memory.rs -k memory
                                             a test that neither ref has
  cargo memprof main . --bin tool -- --fast  a program in place of tests
  cargo memprof main...pr/7 -o comment.md    a comment for a pull request
  cargo memprof bisect v1..main -k hf        the commit that changed it
  cargo memprof list main                    the tests that would run
  cargo memprof report --format csv          the latest run again, as CSV";

const EXIT_CODES: &str = "\
Exit codes:
    0  no regression
    1  a regression: a metric exceeds its threshold
    2  a mistake in the command line or in memprof.yaml
    3  something is missing: a build or a test failed, or a metric that a rule
       names could not be compared
    4  inconclusive: growth beyond the threshold cannot be ruled out
  101  a bug in the tool, or a fault of the machine
  130  interrupted; finished runs are kept, and --resume continues
  If several apply, 1 comes first, then 3, then 4.";

/// What `-h` prints: one screen. `--help` has everything.
pub const SHORT_HELP: &str = "\
Compares memory between git revisions, checkpoint by checkpoint

Usage: cargo memprof [REF]... [OPTIONS]
       cargo memprof <COMMAND>

  cargo memprof                      your work since it forked from main
  cargo memprof main feature         two refs; also main...feature, pr/7, v1.2
  cargo memprof . -k decode          your files alone, tests with `decode`

Options:
  -k, --filter <EXPRESSION>          which tests: 'hf and not (bwd or slow)'
      --baseline <REF|merge-base>    what the others are compared with
      --overlay <[REF:]SRC[=DST]>    add a file to every ref: tests/memory.rs
      --param <NAME=V1,V2>           run with each value of a variable
      --repeat <N|auto>              runs per test; default: as needed
      --threshold <METRIC=LIMIT>     what a regression is: heap.peak=5%
  -p, --package <SPEC>               the package to build
  -r, --release                      build with the release profile
      --metrics <NAME,NAME>          what to show: heap.peak,cpu.rss
      --view <VIEW>                  checkpoints, scopes, top or tensors
  -o, --output <FILE>                also write a .md, .csv, .json or .xml
      --resume [<RUN>]               continue an interrupted run

Commands:
  test     run the working tree's tests, and fail on a broken limit
  deps     compare under another version of a dependency: serde@1.0.200
  bisect   find the commit that changed a test's memory
  prove    measure what each part of a diff costs, by leaving it out
  history  measure commit after commit
  report   show an earlier run again, in any format
  list     list the tests that would run
  trace    list functions that --trace can measure
  notebook measure each cell of a Jupyter notebook
  build    build only, or pack an archive for another machine
  compare  compare two earlier runs
  merge    make one run of the runs of all shards
  doctor   show what can be measured on this machine
  init     write a first memprof.yaml
  clean    remove builds and runs
  Also: submit, budget, yield, restore, demo, schema, completions, man

All flags, more examples and the exit codes: cargo memprof --help
";

const ABOUT: &str = "\
Compares memory between git revisions, checkpoint by checkpoint.

cargo memprof checks the refs out one after the other, outside your repository. It builds their tests together with a \
small crate that logs memory, and runs each test in its own process. A table shows the difference at every checkpoint. \
Your checkout and the revisions' manifests and lock files stay unchanged.";

/// `cargo memprof …`, with `run` as the default command.
#[derive(Debug, Parser)]
#[command(
    name = "cargo-memprof",
    bin_name = "cargo memprof",
    version,
    about = "Compares memory between git revisions, checkpoint by checkpoint",
    long_about = ABOUT,
    before_long_help = EXAMPLES,
    after_long_help = EXIT_CODES,
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "Commands (`run` is the default)",
    max_term_width = 100
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<CommandArguments>,
    /// The flags of `run`, if the user named no command.
    #[command(flatten)]
    pub run: RunArguments,
    /// The flags of every command.
    #[command(flatten)]
    pub terminal: TerminalArguments,
}

/// A command with its flags.
#[derive(Debug, Subcommand)]
pub enum CommandArguments {
    /// Build, run and compare (the default)
    #[command(before_long_help = EXAMPLES, after_long_help = EXIT_CODES)]
    Run(Box<RunArguments>),
    /// Run the memory tests of the working tree, and fail on a broken limit
    ///
    /// One line per test, as with `cargo test`, and the failures at the end: tests that failed,
    /// figures above a `--limit`, and leaks.
    #[command(after_help = test::TEST_HELP)]
    Test(Box<TestArguments>),
    /// Compare the working tree with itself under another version of a dependency
    ///
    /// The lock file of the checkout is resolved again with this version. Yours stays unchanged.
    #[command(after_help = deps::DEPS_HELP)]
    Deps(Box<DepsArguments>),
    /// Build every revision, for later runs or for another machine
    ///
    /// This runs no test. With --archive, a machine without a toolchain can run the tests.
    #[command(after_help = build::BUILD_HELP)]
    Build(Box<BuildCommandArguments>),
    /// Find the commit that changed a test's memory
    #[command(after_help = search::BISECT_HELP)]
    #[command(mut_arg("bin", |bin| bin.help(search::BIN_HELP)))]
    #[command(mut_arg("example", |example| example.help(search::EXAMPLE_HELP)))]
    Bisect(Box<BisectArguments>),
    /// Find out what each part of a diff costs, by leaving it out
    #[command(after_help = search::PROVE_HELP)]
    #[command(mut_arg("bin", |bin| bin.help(search::BIN_HELP)))]
    #[command(mut_arg("example", |example| example.help(search::EXAMPLE_HELP)))]
    Prove(Box<ProveArguments>),
    /// Measure commit after commit, as a table and a chart
    #[command(after_help = search::HISTORY_HELP)]
    #[command(mut_arg("bin", |bin| bin.help(search::BIN_HELP)))]
    #[command(mut_arg("example", |example| example.help(search::EXAMPLE_HELP)))]
    History(Box<HistoryArguments>),
    /// List the tests that would run, per ref
    ///
    /// This builds every ref, and runs no test.
    #[command(after_help = build::LIST_HELP)]
    List(Box<ListArguments>),
    /// List the functions that a pattern matches, per ref
    ///
    /// This reads the sources, and builds nothing.
    #[command(after_help = build::TRACE_HELP)]
    Trace(Box<TraceCommandArguments>),
    /// Measure each cell of a Jupyter notebook with Rust code
    ///
    /// All cells become one program, in which each cell is a scope.
    #[command(after_help = notebook::NOTEBOOK_HELP)]
    Notebook(Box<NotebookArguments>),
    /// Show an earlier run again, in any format
    #[command(after_help = reports::REPORT_HELP)]
    Report(ReportArguments),
    /// Compare two earlier runs
    #[command(after_help = reports::COMPARE_HELP)]
    Compare(CompareArguments),
    /// Make one run of the runs of all shards
    #[command(after_help = reports::MERGE_HELP)]
    Merge(MergeArguments),
    /// Run an archive's shards as a job of Slurm, and report them as one run
    #[command(after_help = submit::SUBMIT_HELP)]
    Submit(Box<SubmitArguments>),
    /// Record a run's figures as limits for later runs
    #[command(after_help = budget::BUDGET_HELP)]
    Budget(BudgetArguments),
    /// Show what can be measured on this machine, and how to get more
    #[command(after_help = setup::DOCTOR_HELP)]
    Doctor(DoctorArguments),
    /// Set the GPU memory of other processes aside, to make room
    #[command(after_help = courtesy::YIELD_HELP)]
    Yield(YieldArguments),
    /// Restore the GPU memory that is set aside
    #[command(after_help = courtesy::RESTORE_HELP)]
    Restore(RestoreArguments),
    /// Remove this repository's builds and runs
    #[command(after_help = setup::CLEAN_HELP)]
    Clean(CleanArguments),
    /// Write a commented memprof.yaml for this repository
    #[command(after_help = setup::INIT_HELP)]
    Init(InitArguments),
    /// Print a JSON Schema
    #[command(after_help = setup::SCHEMA_HELP)]
    Schema(SchemaArguments),
    /// Create a small repository and compare its refs
    #[command(after_help = setup::DEMO_HELP)]
    Demo(DemoArguments),
    /// Print the completion script for a shell
    #[command(after_help = setup::COMPLETIONS_HELP)]
    Completions(CompletionsArguments),
    /// Print the manual page
    #[command(after_help = "Example:\n  cargo memprof man | man -l -")]
    Man,
}

impl CommandArguments {
    /// Returns the names of all commands.
    pub fn names() -> Vec<String> {
        Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claps_own_checks_hold() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_shows_headings_exit_codes_and_examples() {
        // A fixed width: by default, the help is as wide as the terminal of whoever runs the tests.
        insta::assert_snapshot!(Arguments::command().term_width(100).render_long_help());
    }

    #[test]
    fn values_without_a_list_are_named_in_the_text() {
        let command = Arguments::command();
        let arguments = command.get_subcommands().flat_map(clap::Command::get_arguments);
        for argument in arguments.filter(|argument| argument.is_hide_possible_values_set()) {
            let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string);
            let words = help.unwrap_or_default();
            let is_named = |name: &str| words.split([' ', ',', ':', '.', '\n']).any(|word| word == name);
            for value in argument.get_possible_values() {
                assert!(is_named(value.get_name()), "{} {}", argument.get_id(), value.get_name());
            }
        }
    }

    #[test]
    fn no_command_has_a_heading_twice() {
        let command = Arguments::command();
        for mut one in command.get_subcommands().cloned() {
            let help = one.render_long_help().to_string();
            let is_heading = |line: &&str| line.ends_with(':') && !line.starts_with(' ');
            let headings: Vec<&str> = help.lines().filter(is_heading).collect();
            let distinct: std::collections::BTreeSet<&&str> = headings.iter().collect();
            assert_eq!(distinct.len(), headings.len(), "{}: {headings:?}", one.get_name());
        }
    }

    #[test]
    fn what_is_laid_out_by_hand_fits_80_columns() {
        let lines = [SHORT_HELP, EXAMPLES, EXIT_CODES].into_iter().flat_map(str::lines);
        let long: Vec<&str> = lines.filter(|line| line.len() > 80).collect();
        assert!(long.is_empty(), "{long:#?}");
        let texts = EXAMPLES.lines().skip(1).filter_map(|line| line.rfind("  "));
        assert!(texts.filter(|start| *start > 0).all(|start| start + 2 == 45), "{EXAMPLES}");
    }

    #[test]
    fn short_help_fits_one_screen_and_names_what_exists() {
        assert!(SHORT_HELP.lines().count() <= 42);
        let command = Arguments::command();
        let words = || SHORT_HELP.split([' ', ',', ':', '\n', '[']);
        for flag in words().filter_map(|word| word.strip_prefix("--")).filter(|flag| *flag != "help") {
            assert!(command.get_arguments().any(|argument| argument.get_long() == Some(flag)), "--{flag}");
        }
        let commands = SHORT_HELP.split("Commands:\n").nth(1).unwrap().split("Also: ");
        let [rows, rest] = commands.collect::<Vec<_>>()[..] else { panic!("no further commands") };
        let named: Vec<&str> = rows
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .chain(rest.lines().next().unwrap().split(", "))
            .collect();
        for command in
            CommandArguments::names().iter().filter(|name| !["run", "help"].contains(&name.as_str()))
        {
            assert!(named.contains(&command.as_str()), "{command}");
        }
    }
}
