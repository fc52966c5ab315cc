//! Flags that set keys of `memprof.yaml`. The keys' definitions have them, so a flag has the type and the
//! documentation of its key.

use std::ops::{Deref, DerefMut};

use clap::builder::{StringValueParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use memprof_plan::config::flag::{Commands, KeyFlag, NOTEBOOK, SEARCHES, Section};
use memprof_plan::config::mapping::{Key, Mapping};

/// The values of the flags that set keys of `M` in the commands `OF`, as the mapping that says the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings<M, const OF: Commands>(pub M);

impl<M, const OF: Commands> Deref for Settings<M, OF> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.0
    }
}

impl<M, const OF: Commands> DerefMut for Settings<M, OF> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.0
    }
}

impl<M: Mapping, const OF: Commands> Settings<M, OF> {
    /// Returns the keys that these commands have flags for.
    fn keys() -> impl Iterator<Item = (&'static Key, KeyFlag)> {
        let flags = M::KEYS.iter().filter_map(|key| Some((key, key.flag?)));
        flags.filter(|(_, one)| one.flag.commands & OF != 0)
    }
}

impl<M: Mapping, const OF: Commands> Args for Settings<M, OF> {
    fn augment_args(command: Command) -> Command {
        Self::keys().enumerate().fold(command, |command, (place, (key, flag))| {
            let section = flag.flag.section;
            let argument = argument(key.about, flag, heading(section, OF));
            // The packages are the first thing to choose about a build. Other sections end with these flags.
            let is_first = section == Section::Build;
            command.arg(if is_first { argument.display_order(place) } else { argument })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<M: Mapping, const OF: Commands> FromArgMatches for Settings<M, OF> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Self(M::default());
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let flags = Self::keys().map(|(_, flag)| flag.flag);
        for flag in flags.filter(|flag| matches.value_source(flag.long) == Some(ValueSource::CommandLine)) {
            let texts: Vec<&str> = if flag.value.is_empty() {
                vec!["true"]
            } else {
                matches.get_many::<String>(flag.long).into_iter().flatten().map(String::as_str).collect()
            };
            // Each value was checked when it was read.
            self.0.set_by_flag(flag.long, texts.into_iter()).map_err(|mistake| {
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, mistake.message)
            })?;
        }
        Ok(())
    }
}

/// Returns the heading of a section in the help of these commands; `None` for the command's own flags.
const fn heading(section: Section, of: Commands) -> Option<&'static str> {
    match (section, of) {
        (Section::Cells, SEARCHES) => Some(Section::Tests.heading()),
        (Section::Cells | Section::Build, NOTEBOOK) => None,
        (section, _) => Some(section.heading()),
    }
}

/// Returns the flag of a key. Its name is its id, too.
fn argument(about: &str, KeyFlag { flag, is_list, check }: KeyFlag, heading: Option<&'static str>) -> Arg {
    let (short, more) = about.split_once("\n\n").unwrap_or((about, ""));
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let repeatable = if is_list && !flag.splits { " (repeatable)" } else { "" };
    let short = format!("{}{repeatable}", line(short));
    let argument = Arg::new(flag.long).long(flag.long).short(flag.short).visible_alias(flag.alias);
    let argument = argument.help_heading(heading).help(short.clone());
    let argument =
        if more.is_empty() { argument } else { argument.long_help(format!("{short}\n\n{}", line(more))) };
    let argument = flag.excludes.into_iter().fold(argument, Arg::conflicts_with);
    if flag.value.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    let parser = StringValueParser::new().try_map(move |text| match check(&text) {
        Ok(()) => Ok(text),
        Err(mistake) => {
            Err(mistake.help.map_or(mistake.message.clone(), |help| format!("{}; {help}", mistake.message)))
        }
    });
    let argument = argument.value_name(flag.value).value_parser(parser);
    let argument = if flag.value == "FILE" { argument.value_hint(ValueHint::FilePath) } else { argument };
    let argument = if flag.splits { argument.value_delimiter(',') } else { argument };
    argument.action(if is_list { ArgAction::Append } else { ArgAction::Set })
}
