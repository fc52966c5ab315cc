//! `--resume` and `--archive` bring a plan with them: beside them, no flag may change what is measured.

use std::ffi::OsStr;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use memprof_plan::config::flag::Section;
use memprof_support::continuation::Offer;
use memprof_support::process::shell_quoted;

/// Sections of flags that say what is measured, and how it is judged.
const DECIDE: [Section; 12] = [
    Section::Refs,
    Section::Tests,
    Section::Cells,
    Section::Sides,
    Section::Commits,
    Section::Environment,
    Section::Verdicts,
    Section::Checkout,
    Section::Trace,
    Section::Build,
    Section::Programs,
    Section::Metric,
];

/// A flag that brings a plan.
struct FixedPlan {
    /// The name, and its id.
    flag: &'static str,
    /// The commands that have it with this meaning.
    commands: &'static [&'static str],
    /// Flags and sections that it is compatible with, although they belong to [`DECIDE`].
    compatible: &'static [&'static str],
    compatible_sections: &'static [Section],
    /// What it does.
    does: &'static str,
    /// What to do instead.
    instead: &'static str,
}

/// The commands whose `--resume` continues what they have planned.
const RESUMABLE: [&str; 6] = ["run", "test", "deps", "bisect", "history", "prove"];

const FIXED_PLANS: [FixedPlan; 2] = [
    FixedPlan {
        flag: "resume",
        commands: &RESUMABLE,
        // Where things are found, and secrets, which no plan keeps. They are compared with the plan. A proof follows
        // the search.
        compatible: &[
            "arg",
            "config",
            "env",
            "locked",
            "manifest_path",
            "matrix",
            "offline",
            "prove",
            "remote",
        ],
        compatible_sections: &[],
        does: "continues a run as it was planned",
        instead: "for other results, leave out --resume",
    },
    FixedPlan {
        flag: "archive",
        commands: &["run", "test", "deps"],
        compatible: &["jobs", "repeat"],
        compatible_sections: &[Section::Verdicts, Section::Environment],
        does: "runs what was planned when it was built",
        instead: "for other results, build another archive: cargo memprof build --archive FILE",
    },
];

/// The command that continues a run or a search after an interrupt.
#[derive(Debug, PartialEq, Eq)]
pub struct Continuing {
    /// The command: `cargo memprof bisect --resume`.
    pub offer: Offer,
    /// Whether the user has typed `--resume`, so that there is a run.
    pub has_begun: bool,
}

impl Continuing {
    /// Returns the command, with the flags that say where the run is and that its results are kept.
    pub(crate) fn find(matches: &ArgMatches) -> Option<Self> {
        let (name, given) = matches.subcommand().unwrap_or(("run", matches));
        if !RESUMABLE.contains(&name) {
            return None;
        }
        let mut words = vec!["cargo memprof".to_owned()];
        words.extend((name != "run").then(|| name.to_owned()));
        for id in ["manifest_path", "matrix", "archive", "run_folder", "save_baseline", "resume"] {
            let values = is_typed(given, id).then(|| given.get_raw(id)).flatten().into_iter().flatten();
            let is_flag = |value: &&OsStr| !(id == "resume" && *value == "latest");
            let values = values.filter(is_flag).map(shell_quoted);
            words.extend(values.map(|value| format!("--{} {value}", id.replace('_', "-"))));
        }
        let has_begun = is_typed(given, "resume");
        let is_typed_with_run = words.last().is_some_and(|last| last.starts_with("--resume "));
        if !is_typed_with_run {
            words.push("--resume".to_owned());
        }
        let names_run = is_typed_with_run || is_typed(given, "run_folder");
        Some(Self { offer: Offer { command: words.join(" "), names_run }, has_begun })
    }
}

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
            let continuing = Continuing::find(matches).filter(|one| one.has_begun);
            let to_continue = continuing
                .map_or_else(String::new, |one| format!("to continue it: {}\n        ", one.offer.command));
            let changes = changes.join(", ");
            let message = format!("--{flag} {does}, without {changes}\n  help: {to_continue}{instead}");
            return Err(command.error(ErrorKind::ArgumentConflict, message));
        }
    }
    Ok(())
}

impl FixedPlan {
    /// Whether an argument says what is measured.
    fn excludes(&self, argument: &Arg) -> bool {
        let id = argument.get_id().as_str();
        let is_in = |sections: &[Section]| {
            sections.iter().any(|section| argument.get_help_heading() == Some(section.heading()))
        };
        let is_excluded = argument.is_positional() || id == "jobs" || is_in(&DECIDE);
        is_excluded && !self.compatible.contains(&id) && !is_in(self.compatible_sections)
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::command::Arguments;

    #[test]
    fn the_named_flags_exist_and_would_be_refused_without_their_exception() {
        let command = Arguments::command();
        let of = |name: &str| command.find_subcommand(name).expect("a command").get_arguments();
        let is_in = |argument: &Arg, section: Section| argument.get_help_heading() == Some(section.heading());
        for plan in FIXED_PLANS {
            let strict = FixedPlan { compatible: &[], compatible_sections: &[], ..plan };
            for id in plan.compatible {
                let of_id = |name| of(name).find(|argument: &&Arg| argument.get_id() == id);
                let found: Vec<&Arg> = plan.commands.iter().filter_map(|name| of_id(name)).collect();
                assert!(found.iter().all(|argument| !plan.excludes(argument)), "{id}");
                assert!(found.iter().any(|argument| strict.excludes(argument)), "{id}");
            }
            for name in plan.commands {
                assert!(of(name).any(|argument| argument.get_id() == plan.flag), "{name}");
            }
        }
        let names = FIXED_PLANS.iter().flat_map(|plan| plan.commands);
        let arguments: Vec<&Arg> = names.flat_map(|name| of(name)).collect();
        let sections = FIXED_PLANS.iter().flat_map(|plan| plan.compatible_sections).chain(&DECIDE);
        for section in sections {
            assert!(arguments.iter().any(|argument| is_in(argument, *section)), "{section:?}");
        }
    }
}
