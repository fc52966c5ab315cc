//! `--resume` and `--archive` bring a plan with them: beside them, no flag may change what is measured.

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

/// A flag that brings a plan.
struct FixedPlan {
    /// Its name, and its id.
    flag: &'static str,
    /// The commands that have it with this meaning.
    commands: &'static [&'static str],
    /// Flags and headings that it is compatible with, although they belong to [`DECIDE`].
    compatible: &'static [&'static str],
    /// What it does.
    does: &'static str,
    /// What to do instead.
    instead: &'static str,
}

const FIXED_PLANS: [FixedPlan; 2] = [
    FixedPlan {
        flag: "resume",
        commands: &["run", "test", "deps", "bisect", "history", "prove"],
        // Where things are found, and secrets, which no plan keeps. They are compared with the plan.
        compatible: &[
            "arg",
            "config",
            "env",
            "locked",
            "manifest_path",
            "matrix",
            "offline",
            "remote",
            "build_jobs",
        ],
        does: "continues a run as it was planned",
        instead: "for other results, leave out --resume",
    },
    FixedPlan {
        flag: "archive",
        commands: &["run", "test", "deps"],
        compatible: &["Verdicts", "Environment", "jobs", "repeat"],
        does: "runs what was planned when it was built",
        instead: "for other results, build another archive: cargo memprof build --archive FILE",
    },
];

/// Refuses flags that would change what such a plan measures. `command` is the definition of the whole
/// command line.
pub fn refuse_changes(command: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let named = matches.subcommand();
    let (name, given) = named.unwrap_or(("run", matches));
    let definition = if named.is_some() { command.find_subcommand(name) } else { Some(&*command) };
    for plan in FIXED_PLANS.iter().filter(|plan| plan.commands.contains(&name) && is_typed(given, plan.flag))
    {
        let arguments = definition.into_iter().flat_map(Command::get_arguments);
        let changes: Vec<String> = arguments
            .filter(|argument| plan.excludes(argument) && is_typed(given, argument.get_id().as_str()))
            .map(typed_as)
            .collect();
        if !changes.is_empty() {
            let FixedPlan { flag, does, instead, .. } = plan;
            let message = format!("--{flag} {does}, without {}\n  help: {instead}", changes.join(", "));
            return Err(command.error(ErrorKind::ArgumentConflict, message));
        }
    }
    Ok(())
}

impl FixedPlan {
    /// Whether an argument says what is measured.
    fn excludes(&self, argument: &Arg) -> bool {
        let id = argument.get_id().as_str();
        let heading = argument.get_help_heading().and_then(|heading| heading.split(" (").next());
        let decides = heading.is_some_and(|heading| DECIDE.contains(&heading));
        let is_compatible = |name: &str| self.compatible.contains(&name);
        let is_excluded = argument.is_positional() || id == "jobs" || decides;
        is_excluded && !is_compatible(id) && !heading.is_some_and(is_compatible)
    }
}

fn is_typed(given: &ArgMatches, id: &str) -> bool {
    given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns the flag as it is typed, or the name of a plain argument.
fn typed_as(argument: &Arg) -> String {
    let name = argument.get_value_names().and_then(|names| names.first());
    match (argument.get_long(), name) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(name)) => name.to_string(),
        (None, None) => argument.get_id().to_string(),
    }
}
