//! `--resume` continues a run as it was planned: beside it, no flag may change what is measured.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// The headings of flags that say what is measured, and how it is judged. Headings may go on in
/// parentheses.
const DECIDE: [&str; 12] = [
    "Refs",
    "Tests",
    "Cells",
    "Sides",
    "Commits",
    "Environment",
    "Verdicts",
    "Checkout",
    "Trace",
    "Build",
    "Programs",
    "Metric",
];

/// Flags below these headings that are compatible: where things are found, and secrets, which no plan
/// keeps. They are compared with the plan.
const COMPATIBLE: [&str; 9] =
    ["arg", "config", "env", "locked", "manifest_path", "matrix", "offline", "remote", "build_jobs"];

/// The commands whose `--resume` continues a plan of tests.
const CONTINUED: [&str; 5] = ["run", "test", "deps", "bisect", "history"];

/// Refuses flags beside `--resume` that would change what is measured. `command` is the definition of
/// the whole command line.
pub fn refuse_changes(command: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let named = matches.subcommand();
    let (name, given) = named.unwrap_or(("run", matches));
    if !CONTINUED.contains(&name) || !is_typed(given, "resume") {
        return Ok(());
    }
    let definition = if named.is_some() { command.find_subcommand(name) } else { Some(&*command) };
    let arguments = definition.into_iter().flat_map(Command::get_arguments);
    let changes: Vec<String> = arguments
        .filter(|argument| decides(argument) && is_typed(given, argument.get_id().as_str()))
        .map(flag)
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    let run = given.get_one::<String>("resume").filter(|run| *run != "latest");
    let resume = run.map_or_else(String::new, |run| format!(" {run}"));
    let before = if name == "run" { String::new() } else { format!("{name} ") };
    let message = format!(
        "--resume continues a run as it was planned, without {}\n  help: to continue it: cargo memprof {before}--resume{resume}\n        \
         for other results, leave out --resume",
        changes.join(", ")
    );
    Err(command.error(ErrorKind::ArgumentConflict, message))
}

/// Whether an argument says what is measured.
fn decides(argument: &Arg) -> bool {
    let id = argument.get_id().as_str();
    let heading = argument.get_help_heading().unwrap_or_default();
    let is_below = |one: &&str| heading.split(" (").next() == Some(one);
    argument.is_positional()
        || id == "jobs"
        || DECIDE.iter().any(|one| is_below(&one)) && !COMPATIBLE.contains(&id)
}

fn is_typed(given: &ArgMatches, id: &str) -> bool {
    given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns the flag as it is documented, or the name of a plain argument.
fn flag(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    match (argument.get_long(), names.first()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(name)) => name.to_string(),
        (None, None) => argument.get_id().to_string(),
    }
}
