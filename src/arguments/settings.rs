//! Flags that set keys of `memprof.yaml`. The keys' definitions have them, so a flag has the type and the
//! documentation of its key.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use clap::builder::TypedValueParser as _;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use memprof_plan::config::flag::FlaggedKey;
use memprof_plan::config::mapping::Mapping;
use memprof_plan::config::matrix::{Matrix, TraceEntry};

/// Which keys of a mapping a command has as flags.
pub trait Keys: Clone {
    /// The mapping.
    type Mapping: Mapping + Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static;
    /// The keys.
    const KEYS: &'static [&'static str];
    /// The heading in the help; `None` for that of the command's own flags.
    const HEADING: Option<&'static str>;
}

/// The values of such flags, as the mapping that says the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings<K: Keys> {
    given: K::Mapping,
    keys: PhantomData<K>,
}

impl<K: Keys> Default for Settings<K> {
    fn default() -> Self {
        Self::new(K::Mapping::default())
    }
}

impl<K: Keys> Settings<K> {
    /// Returns flags that say what this mapping says.
    pub fn new(given: K::Mapping) -> Self {
        Self { given, keys: PhantomData }
    }

    fn keys() -> impl Iterator<Item = &'static FlaggedKey> {
        K::Mapping::FLAGS.iter().filter(|one| K::KEYS.contains(&one.key))
    }

    /// What a key means.
    fn about(key: &FlaggedKey) -> &'static str {
        let place = K::Mapping::KEYS.iter().position(|name| *name == key.key);
        place.map_or("", |place| K::Mapping::ABOUT[place])
    }
}

impl<K: Keys> Deref for Settings<K> {
    type Target = K::Mapping;

    fn deref(&self) -> &K::Mapping {
        &self.given
    }
}

impl<K: Keys> DerefMut for Settings<K> {
    fn deref_mut(&mut self) -> &mut K::Mapping {
        &mut self.given
    }
}

impl<K: Keys> Args for Settings<K> {
    fn augment_args(command: Command) -> Command {
        let argument = |key| argument(key, Self::about(key), K::HEADING);
        Self::keys().fold(command, |command, key| command.arg(argument(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<K: Keys> FromArgMatches for Settings<K> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Self::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for key in
            Self::keys().filter(|key| matches.value_source(key.field) == Some(ValueSource::CommandLine))
        {
            let texts: Vec<&str> = if key.flag.value.is_empty() {
                vec!["true"]
            } else {
                matches.get_many::<String>(key.field).into_iter().flatten().map(String::as_str).collect()
            };
            let set = self.given.set_by_flag(key.flag.long, texts.into_iter());
            // Each value was checked when it was read.
            set.map_err(|mistake| {
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, mistake.message)
            })?;
        }
        Ok(())
    }
}

/// Returns the flag of a key.
fn argument(key: &'static FlaggedKey, about: &str, heading: Option<&'static str>) -> Arg {
    let (short, more) = about.split_once("\n\n").unwrap_or((about, ""));
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let repeatable = if key.is_list && !key.flag.splits { " (repeatable)" } else { "" };
    let short = format!("{}{repeatable}", line(short));
    let argument = Arg::new(key.field).long(key.flag.long).help_heading(heading).help(short.clone());
    let argument =
        if more.is_empty() { argument } else { argument.long_help(format!("{short}\n\n{}", line(more))) };
    if key.flag.value.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    let check = key.check;
    let parser = clap::builder::StringValueParser::new().try_map(move |text| match check(&text) {
        Ok(()) => Ok(text),
        Err(mistake) => {
            Err(mistake.help.map_or(mistake.message.clone(), |help| format!("{}; {help}", mistake.message)))
        }
    });
    let argument = argument.value_name(key.flag.value).value_parser(parser);
    let argument = if key.flag.splits { argument.value_delimiter(',') } else { argument };
    argument.action(if key.is_list { ArgAction::Append } else { ArgAction::Set })
}

macro_rules! keys {
    ($($(#[$about:meta])* $name:ident: $mapping:ty, $heading:expr, $keys:expr;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl Keys for $name {
            type Mapping = $mapping;
            const KEYS: &'static [&'static str] = $keys;
            const HEADING: Option<&'static str> = $heading;
        }
    )*};
}

keys! {
    /// Which revisions.
    RefKeys: Matrix, Some("Refs"), &["remote"];
    /// How each cell runs.
    CellKeys: Matrix, Some("Cells (a cell is a test with one set of parameters, at one ref)"),
        &["pairs", "repeat", "timeout", "delay", "random", "trim"];
    /// The same, for searches.
    SearchKeys: Matrix, Some("Tests"), &["timeout", "delay", "random", "trim"];
    /// How a notebook runs.
    NotebookKeys: Matrix, None, &["timeout"];
    /// What is left out of checkouts.
    CheckoutKeys: Matrix, Some("Checkout"), &["sparse-exclude"];
    /// Which functions are measured.
    TraceKeys: TraceEntry, Some("Trace"),
        &["functions", "lines", "max-events", "every", "lines-per-call", "columns"];
    /// How cargo builds.
    BuildKeys: Matrix, Some("Build"), &["all-features", "target", "offline", "locked"];
}
