//! From `argv` to a command: the whole command line, with `run` as the default command.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::arguments::budget::{self, BudgetArguments};
use crate::arguments::build::{self, BuildCommandArguments, ListArguments, TraceCommandArguments};
use crate::arguments::courtesy::{self, RestoreArguments, YieldArguments};
use crate::arguments::deps::{self, DepsArguments};
use crate::arguments::fixed_plan;
use crate::arguments::notebook::{self, NotebookArguments};
use crate::arguments::reports::{self, CompareArguments, MergeArguments, ReportArguments};
use crate::arguments::run::RunArguments;
use crate::arguments::search::{self, BisectArguments, HistoryArguments, ProveArguments};
use crate::arguments::setup::{
    self, CleanArguments, CompletionsArguments, DemoArguments, DoctorArguments, InitArguments,
    SchemaArguments,
};
use crate::arguments::sides;
use crate::arguments::submit::{self, SubmitArguments};
use crate::arguments::terminal::TerminalArguments;
use crate::arguments::test::{self, TestArguments};
use crate::arguments::test_options;

const EXAMPLES: &str = "\
Examples:
  cargo memprof                                    your work since it forked from main
  cargo memprof main feature                       two refs; main..feature means the same
  cargo memprof pr/3370 -k hf_fwd                  a pull request against its merge base
  cargo memprof .                                  the working tree alone: what do the tests use?
  cargo memprof test                               its tests, which fail on a broken limit
  cargo memprof v1.2 HEAD --overlay tests/memory.rs -k memory
                                                   a test that neither ref has
  cargo memprof main . --bin tool -- --fast        a program in place of tests
  cargo memprof main...pr/7 --output comment.md    a comment for a pull request
  cargo memprof bisect v1..main -k hf  the commit that changed it
  cargo memprof list main                          the tests that would run
  cargo memprof report --format csv                the latest run again, as CSV";

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
const SHORT_HELP: &str = "\
Compares memory between git revisions, checkpoint by checkpoint

Usage: cargo memprof [REF]... [OPTIONS]
       cargo memprof <COMMAND>

  cargo memprof                      your work since it forked from main
  cargo memprof main feature         two refs; also main...feature, pr/7, v1.2
  cargo memprof . -k decode          the working tree alone, tests that contain `decode`

Options:
  -k, --filter <EXPRESSION>          which tests: 'hf and not (bwd or slow)'
      --baseline <REF|merge-base>    what the others are compared with
      --overlay <[REF:]SRC[=DST]>    add a file to every revision: tests/memory.rs
      --param <NAME=V1,V2>           run with each value of an environment variable
      --repeat <N|auto>              runs of each test; by default as the verdict needs
      --threshold <METRIC=LIMIT>     what a regression is: heap.peak=5%
  -p, --package <SPEC>               the package to build
  -r, --release                      build with the release profile
      --metrics <NAME,NAME>          what to show: heap.peak,cpu.rss
      --view <VIEW>                  checkpoints, scopes, top or tensors
  -o, --output <FILE>                also write a report: .md, .csv, .json or .xml
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
    Bisect(Box<BisectArguments>),
    /// Find out what each part of a diff costs, by leaving it out
    #[command(after_help = search::PROVE_HELP)]
    Prove(Box<ProveArguments>),
    /// Measure commit after commit, as a table and a chart
    #[command(after_help = search::HISTORY_HELP)]
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
    /// Whether the command has `--resume`.
    pub fn can_resume(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Test(_)
                | Self::Deps(_)
                | Self::Bisect(_)
                | Self::History(_)
                | Self::Prove(_)
                | Self::Submit(_)
        )
    }

    /// Returns the names of all commands.
    pub fn names() -> Vec<String> {
        Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
    }
}

/// What the user typed.
#[derive(Debug)]
pub struct CommandLine {
    /// What to do.
    pub command: CommandArguments,
    /// How to use the terminal.
    pub terminal: TerminalArguments,
}

/// Reads `argv`, which starts with the program's name. `--help` and `--version` are errors too,
/// with exit code 0.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
    let mut argv: Vec<OsString> = argv.into_iter().collect();
    if argv.get(1).is_some_and(|first| first == "memprof") {
        argv.remove(1);
    }
    command_first(&mut argv);
    sides::join_side(&mut argv);
    let argv = with_test_options(argv)?;
    let wants_short_help = argv.iter().any(|argument| argument == "-h");
    let command = Arguments::command();
    let mut command = if wants_short_help {
        let short = |command: clap::Command| command.help_template(SHORT_HELP);
        short(command).mut_subcommand("run", short)
    } else {
        command
    };
    let mut matches = command.try_get_matches_from_mut(argv)?;
    fixed_plan::refuse_changes(&mut command, &matches)?;
    let Arguments { command, run, terminal } = Arguments::from_arg_matches_mut(&mut matches)?;
    let mut command = command.unwrap_or_else(|| CommandArguments::Run(Box::new(run)));
    refuse_folder_without_archive(&command)?;
    take_plain_refs(&mut command);
    Ok(CommandLine { command, terminal })
}

/// Clap does not require `--archive` beside refs, because the two conflict.
fn refuse_folder_without_archive(command: &CommandArguments) -> Result<(), clap::Error> {
    let execution = match command {
        CommandArguments::Run(run) => &run.execution,
        CommandArguments::Deps(deps) => &deps.execution,
        _ => return Ok(()),
    };
    if execution.run_folder.is_some() && execution.archive.is_none() {
        let message = "--run-folder is for runs of an archive: add --archive FILE; other runs are \
                       in target/memprof, where `cargo memprof report` finds them";
        return Err(Arguments::command().error(ErrorKind::MissingRequiredArgument, message));
    }
    Ok(())
}

/// Takes what stands behind `--`, for commands in which it does not stand for paths.
fn with_test_options(argv: Vec<OsString>) -> Result<Vec<OsString>, clap::Error> {
    let first = argv.get(1).and_then(|argument| argument.to_str()).unwrap_or_default();
    let is_other =
        !["run", "test", "deps"].contains(&first) && Arguments::command().find_subcommand(first).is_some();
    let gives_to_program = ["list", "build"].contains(&first) && test_options::are_of_program(&argv);
    if is_other && !gives_to_program {
        return Ok(argv);
    }
    test_options::taken(argv)
        .map_err(|message| Arguments::command().error(ErrorKind::UnknownArgument, message))
}

/// Takes refs that are plain arguments for those of `--refs`, which exclude each other.
fn take_plain_refs(command: &mut CommandArguments) {
    let (plain, request) = match command {
        CommandArguments::Run(run) => (&mut run.revisions, &mut run.request),
        CommandArguments::Build(build) => (&mut build.revisions, &mut build.request),
        CommandArguments::List(list) => (&mut list.revisions, &mut list.request),
        _ => return,
    };
    request.refs.refs.append(plain);
}

/// Moves a command before the terminal's flags, so that `--quiet list` works like `list --quiet`.
///
/// Clap keeps the flags of `run` apart from the commands, and so refuses any flag before a command.
fn command_first(argv: &mut [OsString]) {
    let mut next = 1;
    while let Some(flag) = argv.get(next).and_then(|argument| argument.to_str()) {
        let is_short = |flag: &str| flag.len() > 1 && flag[1..].chars().all(|letter| "qv".contains(letter));
        next += match flag {
            "--color" => 2,
            "--quiet" | "--verbose" => 1,
            with_value if with_value.starts_with("--color=") => 1,
            short if short.starts_with('-') && is_short(short) => 1,
            command => {
                if Arguments::command().find_subcommand(command).is_some() {
                    argv[1..=next].rotate_right(1);
                }
                return;
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::terminal::Color;
    use memprof_plan::config::values::{Delay, Seconds};
    use memprof_plan::config::yaml::Scalar;
    use memprof_plan::jobs::Jobs;
    use memprof_plan::request::OverlayMode;
    use memprof_report::options::Format;

    fn parsed(line: &str) -> CommandLine {
        parse(line.split_whitespace().map(OsString::from)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn run(line: &str) -> RunArguments {
        match parsed(line).command {
            CommandArguments::Run(arguments) => *arguments,
            other => panic!("{line} is {other:?}"),
        }
    }

    fn refused(line: &str) -> String {
        let error = parse(line.split_whitespace().map(OsString::from)).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        error.to_string()
    }

    #[test]
    fn claps_own_checks_hold() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn memprof_may_lead_and_run_need_not_be_named() {
        for line in [
            "cargo-memprof memprof --refs main,pr/7",
            "cargo-memprof --refs main,pr/7",
            "cargo-memprof memprof run --refs main --refs pr/7",
            "cargo-memprof run --refs main,pr/7",
            "cargo-memprof memprof main pr/7",
            "cargo-memprof main,pr/7 -k hf",
            "cargo-memprof run -k hf main pr/7",
        ] {
            let refs = run(line).request.refs.refs;
            let specs: Vec<&str> = refs.iter().map(|one| one.spec.as_str()).collect();
            assert_eq!(specs, ["main", "pr/7"], "{line}");
        }
    }

    #[test]
    fn every_flag_of_a_run_is_read() {
        let run = run(
            "cargo-memprof --refs old=main,. --baseline merge-base --remote upstream --matrix m.yaml -k hf \
            --regex ^a --exact t --skip s --include-ignored -p a -p b -F x,y --all-features --no-default-features \
            --release --target t --lib --bin-tests b --test t --bench n -j 4 --offline --locked --config k=1 \
            --manifest-path Cargo.toml --toolchain nightly --overlay main:a=b --overlay-mode external \
            --overlay-package a --param batch=8,64 --env A=b --repeat 3 --timeout 10m --delay 2s --threshold heap.peak=5% \
            --exclude ref=main --include batch=8 --lockfile-from main --sparse-exclude *.bin --no-wait \
            --metrics heap.peak,cpu.rss --compact --only-changed --format markdown -o a.md --output b.csv",
        );
        let request = &run.request;
        assert_eq!(request.refs.refs[0].name.as_deref(), Some("old"));
        assert_eq!(request.refs.baseline.as_deref(), Some("merge-base"));
        assert_eq!(request.selection.filter.as_ref().unwrap().text, "hf");
        assert_eq!(request.build.package, ["a", "b"]);
        assert!(request.build.release && request.build.lib && request.build.settings.locked.is_some());
        assert_eq!((request.jobs.jobs, request.jobs.of_build()), (Some(Jobs::Number(4)), Some(4)));
        assert_eq!(request.checkout.overlay_mode, Some(OverlayMode::External));
        assert_eq!(request.cells.params[0].values, ["8", "64"]);
        assert_eq!(request.cells.settings.timeout, Some(Scalar(Seconds(600))));
        assert_eq!(request.cells.settings.delay, Some(Scalar(Delay(2_000))));
        assert_eq!(run.presentation.metrics, ["heap.peak", "cpu.rss"]);
        assert_eq!(run.presentation.format, [Format::Markdown]);
        assert_eq!(run.presentation.output.len(), 2);
    }

    #[test]
    fn commands_have_flags_of_their_own_and_share_the_terminals() {
        let command_line = parsed("cargo-memprof list --refs main -k hf --color never -vv");
        assert!(
            matches!(&command_line.command, CommandArguments::List(list) if list.request.refs.refs.len() == 1)
        );
        assert_eq!((command_line.terminal.color, command_line.terminal.verbose), (Color::Never, 2));
        assert!(
            matches!(parsed("cargo-memprof report").command, CommandArguments::Report(report) if report.run == "latest")
        );
        assert!(
            matches!(parsed("cargo-memprof compare a b --format csv").command, CommandArguments::Compare(compare)
            if compare.candidate == "b" && compare.presentation.format == [Format::Csv])
        );
        for line in ["clean --dry-run", "init --force", "schema matrix", "demo", "completions bash", "man"] {
            parsed(&format!("cargo-memprof memprof {line}"));
        }
        assert!(parsed("cargo-memprof --quiet").terminal.quiet);
        for line in ["--quiet --color never list -k x", "-v --color=never list", "--color never -vv list"] {
            let command_line = parsed(&format!("cargo-memprof memprof {line}"));
            assert!(matches!(command_line.command, CommandArguments::List(_)), "{line}");
            assert_eq!(command_line.terminal.color, Color::Never, "{line}");
        }
    }

    #[test]
    fn test_runs_the_working_tree_with_any_of_its_filters() {
        let test = |line: &str| match parsed(line).command {
            CommandArguments::Test(test) => test.run(),
            other => panic!("{line} is {other:?}"),
        };
        let run = test("cargo-memprof memprof test decode hf -k fast -- --nocapture").unwrap();
        assert_eq!(run.request.refs.refs[0].spec, ".");
        assert_eq!(run.request.selection.filter.unwrap().text, "(decode or hf) and fast");
        assert!(run.presentation.is_test && run.execution.nocapture);
        assert_eq!(test("cargo-memprof test").unwrap().request.selection.filter, None);
        for flag in ["--refs main", "--baseline main", "--aa"] {
            let refused = test(&format!("cargo-memprof test {flag}")).unwrap_err().rendered();
            assert!(refused.contains("cargo memprof main ."), "{refused}");
        }
    }

    #[test]
    fn an_archive_has_its_plan_in_it_and_takes_no_other_request() {
        let run = run("cargo-memprof run --archive a.tar.zst --resume --run-folder out --format csv");
        assert_eq!(run.execution.archive.unwrap(), "a.tar.zst");
        assert_eq!(run.execution.run_folder.unwrap(), "out");
        parsed("cargo-memprof run --archive a.tar.zst --repeat 3");
        for flag in [
            "--refs main,x",
            "-k hf",
            "--timeout 3s",
            "--overlay a",
            "--release",
            "--matrix m.yaml",
            "--target t",
        ] {
            let line = format!("cargo-memprof run --archive a.tar.zst {flag}");
            assert!(refused(&line).contains("--archive runs what was planned when it was built"), "{line}");
        }
        for line in ["run --run-folder out", "run main x --run-folder out", "main --run-folder out"] {
            assert!(refused(&format!("cargo-memprof {line}")).contains("--archive"), "{line}");
        }
        assert!(refused("cargo-memprof build --data tests").contains("--archive"));
        let build = parsed(
            "cargo-memprof build --refs a,b -k hf --archive a.tar.zst --data tests/data --data *.json",
        );
        assert!(
            matches!(build.command, CommandArguments::Build(build) if build.data == ["tests/data", "*.json"])
        );
    }

    #[test]
    fn a_run_is_continued_without_flags_that_would_change_it() {
        for allowed in [
            "--resume --env TOKEN=1 --config a=1 --manifest-path a/Cargo.toml --matrix m.yaml --build-jobs 2 --offline",
            "--resume RUN --metrics heap.peak --devices 0 --live --format csv",
            "bisect --resume --remote upstream",
            "deps --resume",
            "test --resume --nocapture",
            "run --archive a.tar.zst --run-folder out --resume",
            "submit --resume 4711 --limit heap.peak=1GiB",
        ] {
            parsed(&format!("cargo-memprof {allowed}"));
        }
        for (line, named) in [
            ("--resume --refs main,x", "--refs"),
            ("main x --resume", "REF"),
            ("--resume --release", "--release"),
            ("--resume -p bert", "--package"),
            ("--resume --trace a::b", "--trace"),
            ("--resume --sparse-exclude big/", "--sparse-exclude"),
            ("--resume --lockfile-date today", "--lockfile-date"),
            ("--resume --limit heap.peak=1GiB", "--limit"),
            ("--resume --repeat 3 --delay 1s", "--repeat, --delay"),
            ("--resume --with serde@1.0.200", "--with"),
            ("--resume --jobs 4", "--jobs"),
            ("--resume --clean-env", "--clean-env"),
            ("--resume --bin tool -- --size 8", "--bin"),
            ("run --archive a.tar.zst --resume --repeat 3", "--repeat"),
            ("test decode --resume", "FILTER"),
            ("deps serde@1.0.200 --resume", "NAME@VERSION"),
            ("bisect a..b --resume", "GOOD..BAD"),
            ("prove a..b --resume --builds 20", "BASE..REF, --builds"),
            ("bisect --resume --threshold 5%", "--threshold"),
            ("bisect --resume --good a", "--good"),
            ("prove --resume --builds 20", "--builds"),
            ("history --resume -k hf -- src", "--filter, PATH"),
        ] {
            let message = refused(&format!("cargo-memprof {line}"));
            assert!(message.contains("continues a run as it was planned, without"), "{line}: {message}");
            let flags = message.lines().next().unwrap().split("without ").nth(1).unwrap();
            let mut flags: Vec<&str> = flags.split(", ").collect();
            let mut expected: Vec<&str> = named.split(", ").collect();
            flags.sort_unstable();
            expected.sort_unstable();
            assert_eq!(flags, expected, "{line}");
        }
        insta::assert_snapshot!(refused("cargo-memprof --resume RUN -k hf").split("\n\n").next().unwrap(), @r"
        error: --resume continues a run as it was planned, without --filter
          help: for other results, leave out --resume
        ");
    }

    #[test]
    fn mistakes_exit_with_2_and_say_what_is_possible() {
        assert!(refused("cargo-memprof --refz main").contains("--refs"));
        for line in
            ["cargo-memprof -- --nocapture", "cargo-memprof a b -s", "cargo-memprof . -- --show-output"]
        {
            assert!(run(line).execution.nocapture, "{line}");
        }
        assert!(refused("cargo-memprof a -- --test-threads=4").contains("--jobs 4"));
        assert!(refused("cargo-memprof run -- decode").contains("write -k decode"));
        assert!(refused("cargo-memprof list -- --nocapture").contains("only `bisect` and `history`"));
        assert!(refused("cargo-memprof --timeout 10").contains("write 10s for seconds"));
        assert!(refused("cargo-memprof --threshold heap.peek=5%").contains("did you mean 'heap.peak'?"));
        assert!(refused("cargo-memprof --format xml").contains("markdown"));
        assert!(
            refused("cargo-memprof --lockfile-from a --lockfile-date 2023-05-01").contains("cannot be used")
        );
        assert!(refused("cargo-memprof --overlay-mode external").contains("--overlay"));
        let unclear = parse(["x", "-k", "hf and ("].map(OsString::from)).unwrap_err().to_string();
        assert!(unclear.contains("    hf and (\n            ^"), "{unclear}");
    }

    #[test]
    fn help_shows_headings_exit_codes_and_examples() {
        let error = parse(["cargo-memprof", "memprof", "--help"].map(OsString::from)).unwrap_err();
        assert_eq!((error.exit_code(), error.use_stderr()), (0, false));
        // A fixed width: the error above is as wide as the terminal of whoever runs the tests.
        insta::assert_snapshot!(Arguments::command().term_width(100).render_long_help());
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
    fn short_help_fits_one_screen_and_names_what_exists() {
        for line in ["cargo-memprof -h", "cargo-memprof memprof run -h"] {
            let error = parse(line.split(' ').map(OsString::from)).unwrap_err();
            assert_eq!(error.to_string(), SHORT_HELP, "{line}");
        }
        assert!(SHORT_HELP.lines().count() <= 42 && SHORT_HELP.lines().all(|line| line.len() <= 88));
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
