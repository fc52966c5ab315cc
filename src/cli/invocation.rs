//! From `argv` to a command: the `memprof` that cargo passes on, and `run` where no command is named.

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

use crate::cli::arguments::{Arguments, Command, TerminalArguments};

/// One call of the program.
#[derive(Debug)]
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// How to use the terminal.
    pub terminal: TerminalArguments,
}

/// Reads the arguments, the program's own name first. An error may also be `--help` or `--version`: `clap::Error::exit_code`
/// and `use_stderr` tell.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let mut argv: Vec<OsString> = argv.into_iter().collect();
    if argv.get(1).is_some_and(|first| first == "memprof") {
        argv.remove(1);
    }
    command_first(&mut argv);
    let Arguments { command, run, terminal } = Arguments::try_parse_from(argv)?;
    Ok(Invocation { command: command.unwrap_or_else(|| Command::Run(Box::new(run))), terminal })
}

/// Puts a command before the terminal's flags: `--quiet list` is as good as `list --quiet`, though clap, which keeps the
/// flags of `run` apart from commands, refuses any flag before one.
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

/// The completions of a shell, as a script.
pub fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "cargo-memprof", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::arguments::{Color, RunArguments};
    use crate::plan::request::OverlayMode;
    use crate::report::options::Format;

    fn parsed(line: &str) -> Invocation {
        parse(line.split_whitespace().map(OsString::from)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn run(line: &str) -> RunArguments {
        match parsed(line).command {
            Command::Run(arguments) => *arguments,
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
            --release --target t --lib --bin b --test t --example e --bench n -j 4 --offline --locked --config k=1 \
            --manifest-path Cargo.toml --toolchain nightly --overlay main:a=b --overlay-mode external \
            --overlay-package a --param batch=8,64 --env A=b --repeat 3 --timeout 10m --threshold heap.peak=5% \
            --exclude ref=main --include batch=8 --lockfile-from main --sparse-exclude *.bin --resume --no-wait \
            --metrics heap.peak,cpu.rss --compact --only-changed --format markdown -o a.md --output b.csv",
        );
        let request = &run.request;
        assert_eq!(request.refs.refs[0].name.as_deref(), Some("old"));
        assert_eq!(request.refs.baseline.as_deref(), Some("merge-base"));
        assert_eq!(request.selection.filter.as_ref().unwrap().text, "hf");
        assert_eq!(request.build.package, ["a", "b"]);
        assert!(request.build.release && request.build.lib && request.build.locked);
        assert_eq!(request.build.jobs, Some(4));
        assert_eq!(request.checkout.overlay_mode, Some(OverlayMode::External));
        assert_eq!(request.cells.params[0].values, ["8", "64"]);
        assert_eq!(request.cells.timeout, Some(600));
        assert_eq!(run.execution.resume.as_deref(), Some("latest"));
        assert_eq!(run.presentation.metrics, ["heap.peak", "cpu.rss"]);
        assert_eq!(run.presentation.format, [Format::Markdown]);
        assert_eq!(run.presentation.output.len(), 2);
    }

    #[test]
    fn commands_have_flags_of_their_own_and_share_the_terminals() {
        let invocation = parsed("cargo-memprof list --refs main -k hf --color never -vv");
        assert!(matches!(&invocation.command, Command::List(list) if list.request.refs.refs.len() == 1));
        assert_eq!((invocation.terminal.color, invocation.terminal.verbose), (Color::Never, 2));
        assert!(
            matches!(parsed("cargo-memprof report").command, Command::Report(report) if report.run == "latest")
        );
        assert!(matches!(parsed("cargo-memprof compare a b --format csv").command, Command::Compare(compare)
            if compare.candidate == "b" && compare.presentation.format == [Format::Csv]));
        for line in ["clean --dry-run", "init --force", "schema matrix", "demo", "completions bash", "man"] {
            parsed(&format!("cargo-memprof memprof {line}"));
        }
        assert!(parsed("cargo-memprof --quiet").terminal.quiet);
        for line in ["--quiet --color never list -k x", "-v --color=never list", "--color never -vv list"] {
            let invocation = parsed(&format!("cargo-memprof memprof {line}"));
            assert!(matches!(invocation.command, Command::List(_)), "{line}");
            assert_eq!(invocation.terminal.color, Color::Never, "{line}");
        }
    }

    #[test]
    fn an_archive_has_its_plan_in_it_and_takes_no_other_request() {
        let run = run("cargo-memprof run --archive a.tar.zst --resume --run-folder out --format csv");
        assert_eq!(run.execution.archive.unwrap(), "a.tar.zst");
        assert_eq!(run.execution.run_folder.unwrap(), "out");
        for flag in ["--refs main,x", "-k hf", "--repeat 3", "--overlay a", "--release", "--matrix m.yaml"] {
            let line = format!("cargo-memprof run --archive a.tar.zst {flag}");
            assert!(refused(&line).contains("cannot be used with"), "{line}");
        }
        assert!(refused("cargo-memprof run --run-folder out").contains("--archive"));
        assert!(refused("cargo-memprof build --data tests").contains("--archive"));
        let build = parsed(
            "cargo-memprof build --refs a,b -k hf --archive a.tar.zst --data tests/data --data *.json",
        );
        assert!(matches!(build.command, Command::Build(build) if build.data == ["tests/data", "*.json"]));
    }

    #[test]
    fn mistakes_exit_with_2_and_say_what_is_possible() {
        assert!(refused("cargo-memprof --refz main").contains("--refs"));
        assert!(refused("cargo-memprof lsit").contains("list"));
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
    fn completions_name_the_flags() {
        for shell in clap_complete::Shell::value_variants() {
            assert!(completions(*shell).contains("lockfile-from"), "{shell}");
        }
    }

    use clap::ValueEnum;
}
