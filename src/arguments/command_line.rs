//! From `argv` to a command, with `run` as the default.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use crate::arguments::command::{Arguments, CommandArguments, SHORT_HELP};
use crate::arguments::fixed_plan::{self, Continuing};
use crate::arguments::sides;
use crate::arguments::terminal::TerminalArguments;
use crate::arguments::test_options;

/// What the user typed.
#[derive(Debug)]
pub struct CommandLine {
    /// What to do.
    pub command: CommandArguments,
    /// How to use the terminal.
    pub terminal: TerminalArguments,
    /// How to continue after an interrupt, if the command has `--resume`.
    pub continuing: Option<Continuing>,
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
    let mut matches = command.try_get_matches_from_mut(argv).map_err(with_advice)?;
    fixed_plan::refuse_changes(&mut command, &matches)?;
    let continuing = Continuing::find(&matches);
    let Arguments { command, run, terminal } = Arguments::from_arg_matches_mut(&mut matches)?;
    let mut command = command.unwrap_or_else(|| CommandArguments::Run(Box::new(run)));
    refuse_folder_without_archive(&command)?;
    take_plain_refs(&mut command);
    Ok(CommandLine { command, terminal, continuing })
}

/// Says how to write several filters, which clap takes for a flag that was repeated by mistake.
fn with_advice(mut error: clap::Error) -> clap::Error {
    let names =
        |kind| matches!(error.get(kind), Some(ContextValue::String(name)) if name.starts_with("--filter "));
    if error.kind() == ErrorKind::ArgumentConflict
        && names(ContextKind::InvalidArg)
        && names(ContextKind::PriorArg)
    {
        let advice = "join them: -k 'decode or encode', -k 'decode and not slow'".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice]));
    }
    error
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
    if first == "prove" && test_options::are_of_program(&argv) {
        let mut behind = argv.iter().skip_while(|argument| *argument != "--").skip(1).peekable();
        if let Some(&argument) = behind.peek() {
            let argument = argument.to_string_lossy();
            let message = format!(
                "prove takes nothing behind `--`, and '{argument}' is there\n  help: {}",
                test_options::advice(behind)
            );
            return Err(Arguments::command().error(ErrorKind::UnknownArgument, message));
        }
    }
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
    use crate::arguments::run::RunArguments;
    use crate::arguments::terminal::Color;
    use memprof_plan::config::keep::kept;
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
    fn several_filters_are_joined_by_the_user() {
        let message = refused("cargo-memprof main -k decode -k encode");
        assert!(message.contains("tip: join them: -k 'decode or encode', "), "{message}");
        assert!(!refused("cargo-memprof main -o a.md --dry-run --dry-run").contains("join them"));
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
        assert_eq!(request.settings.baseline, Some(Scalar("merge-base".to_owned())));
        assert_eq!(request.selection.names.filter.as_ref().unwrap().0.text, "hf");
        assert_eq!(kept::<_, Vec<String>>(request.settings.packages.as_ref()), ["a", "b"]);
        assert!(request.build.release && request.build.lib && request.settings.locked.is_some());
        assert_eq!(request.settings.jobs, Some(Scalar(Jobs::Number(4))));
        assert_eq!(request.build.jobs(&request.settings), Some(4));
        assert_eq!(request.checkout.overlay_mode, Some(OverlayMode::External));
        assert_eq!(request.params[0].values, ["8", "64"]);
        assert_eq!(request.settings.timeout, Some(Scalar(Seconds(600))));
        assert_eq!(request.settings.delay, Some(Scalar(Delay(2_000))));
        assert_eq!(run.presentation.metrics(), ["heap.peak", "cpu.rss"]);
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
        assert_eq!(run.request.selection.names.0.filter.unwrap().0.text, "(decode or hf) and fast");
        assert!(run.presentation.is_test && run.execution.nocapture);
        assert_eq!(test("cargo-memprof test").unwrap().request.selection.names.filter, None);
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
            "bisect --resume --prove",
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
          help: to continue it: cargo memprof --resume RUN
                for other results, leave out --resume
        ");
    }

    #[test]
    fn a_search_names_the_flag_for_the_arguments_of_a_program() {
        let message = refused("cargo-memprof prove a..b --bin tool -- --fast 10");
        assert!(message.contains("help: arguments of a program: --arg=--fast --arg=10"), "{message}");
        parsed("cargo-memprof prove a..b --bin tool --arg=--fast");
        for name in ["bisect", "prove", "history"] {
            let mut command = Arguments::command();
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            assert!(help.contains("--bin tool --arg=--fast") && !help.contains("tool -- --fast"), "{help}");
        }
    }

    #[test]
    fn the_command_that_continues_a_run_is_accepted() {
        for (typed, continuing) in [
            ("main feature -k hf --repeat 3 -o out.md", "--resume"),
            ("memprof run --resume latest", "--resume"),
            ("--resume RUN --metrics heap.peak", "--resume RUN"),
            (
                "main x --manifest-path a/Cargo.toml --matrix m.yaml",
                "--manifest-path a/Cargo.toml --matrix m.yaml --resume",
            ),
            ("run --archive a.tar.zst --run-folder out", "--archive a.tar.zst --run-folder out --resume"),
            ("main --save-baseline v1 --repeat 3", "--save-baseline v1 --resume"),
            ("test decode --limit heap.peak=1GiB", "test --resume"),
            ("deps serde@1.0.200", "deps --resume"),
            ("bisect a..b -k hf --threshold 5%", "bisect --resume"),
            ("history a..b -k hf -- src", "history --resume"),
            ("prove a..b --builds 20", "prove --resume"),
        ] {
            let offer = parsed(&format!("cargo-memprof {typed}")).continuing.expect("a command").offer;
            let typed = offer.command;
            assert_eq!(typed, format!("cargo memprof {continuing}"));
            assert_eq!(offer.names_run, typed.contains("RUN") || typed.contains("--run-folder"));
            assert!(
                parsed(&typed.replace("cargo ", "cargo-memprof ")).continuing.expect("a command").has_begun
            );
        }
        for other in ["list main", "build main", "submit --resume 4711", "report"] {
            assert_eq!(parsed(&format!("cargo-memprof {other}")).continuing, None);
        }
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
    fn short_help_is_one_text() {
        for line in ["cargo-memprof -h", "cargo-memprof memprof run -h"] {
            let error = parse(line.split(' ').map(OsString::from)).unwrap_err();
            assert_eq!(error.to_string(), SHORT_HELP, "{line}");
        }
        let error = parse(["cargo-memprof", "memprof", "--help"].map(OsString::from)).unwrap_err();
        assert_eq!((error.exit_code(), error.use_stderr()), (0, false));
    }
}
