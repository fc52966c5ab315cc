//! Flags that set keys of `memprof.yaml`. The key's definition has its flag, and both have one
//! documentation and one type.

use crate::config::device_pool::PoolNames;
use crate::config::mistake::Mistake;
use crate::config::yaml::{FromText, List, Scalar};

/// Commands that have flags in common: one of the following, or a sum of them.
pub type Commands = u8;
/// `run`, `test`, `deps`, `build`, `list` and `trace`.
pub const COMPARISONS: Commands = 1;
/// `bisect`, `history` and `prove`.
pub const SEARCHES: Commands = 2;
/// `notebook`.
pub const NOTEBOOK: Commands = 4;
/// `run`, `test` and `deps`, which run tests here.
pub const RUNS: Commands = 8;
/// All commands that judge figures.
pub const JUDGES: Commands = 16;
/// All commands with a report.
pub const REPORTS: Commands = 32;
/// Comparisons and searches.
pub const MEASURES: Commands = COMPARISONS | SEARCHES;

/// A section of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Refs,
    Tests,
    Cells,
    Sides,
    Environment,
    Verdicts,
    Checkout,
    Trace,
    Programs,
    Build,
    Run,
    Output,
    CallSites,
    Commits,
    Metric,
    Archive,
    Terminal,
}

impl Section {
    /// Returns the section's heading.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Refs => "Refs",
            Self::Tests => "Tests",
            Self::Cells => "Cells (a cell is a test with one set of parameters, at one ref)",
            Self::Sides => "Sides (a side is a revision and what it is built with)",
            Self::Environment => "Environment",
            Self::Verdicts => "Verdicts",
            Self::Checkout => "Checkout",
            Self::Trace => "Trace",
            Self::Programs => "Programs (in place of tests)",
            Self::Build => "Build",
            Self::Run => "Run",
            Self::Output => "Output",
            Self::CallSites => "Call sites",
            Self::Commits => "Commits",
            Self::Metric => "Metric",
            Self::Archive => "Archive",
            Self::Terminal => "Terminal",
        }
    }
}

/// The flag of a key.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name, without `--`.
    pub long: &'static str,
    /// The letter: `k` for `-k`.
    pub short: Option<char>,
    /// Another name.
    pub alias: Option<&'static str>,
    /// What stands for its value in the help: `DURATION`. Empty for a switch.
    pub value: &'static str,
    /// Whether a comma separates several values.
    pub splits: bool,
    /// Where it is in the help.
    pub section: Section,
    /// Which commands take it.
    pub commands: Commands,
    /// Another flag that it cannot be combined with.
    pub excludes: Option<&'static str>,
}

impl Flag {
    /// A flag of comparisons and searches, with a value.
    pub(crate) const fn new(section: Section, long: &'static str, value: &'static str) -> Self {
        Self {
            long,
            short: None,
            alias: None,
            value,
            splits: false,
            section,
            commands: MEASURES,
            excludes: None,
        }
    }

    /// A flag without a value. It turns its key on, and not off.
    pub(crate) const fn switch(section: Section, long: &'static str) -> Self {
        Self::new(section, long, "")
    }

    /// The flag takes several values, separated by commas.
    pub(crate) const fn split(self) -> Self {
        Self { splits: true, ..self }
    }

    /// The flag has a letter, too.
    pub(crate) const fn short(self, letter: char) -> Self {
        Self { short: Some(letter), ..self }
    }

    /// The flag has another name, too.
    pub(crate) const fn alias(self, name: &'static str) -> Self {
        Self { alias: Some(name), ..self }
    }

    /// These commands take the flag, in place of comparisons and searches.
    pub(crate) const fn of(self, commands: Commands) -> Self {
        Self { commands, ..self }
    }

    /// These commands take the flag, too.
    pub(crate) const fn and(self, commands: Commands) -> Self {
        Self { commands: self.commands | commands, ..self }
    }

    /// The flag cannot be combined with this one.
    pub(crate) const fn without(self, other: &'static str) -> Self {
        Self { excludes: Some(other), ..self }
    }
}

/// A flag, and how its key reads it.
#[derive(Clone, Copy, Debug)]
pub struct KeyFlag {
    pub flag: Flag,
    /// Whether the flag can be given several times.
    pub is_list: bool,
    /// Checks a value of the flag.
    pub check: fn(&str) -> Result<(), Mistake>,
}

/// The value of a key that has a flag.
pub(crate) trait FromFlag: Sized {
    /// Whether the flag can be given several times. Its values replace the key's list.
    const IS_LIST: bool;

    /// Reads what was given. There is at least one text, and exactly one if this is no list.
    fn from_flag<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, Mistake>;

    /// Checks one text.
    fn check(text: &str) -> Result<(), Mistake> {
        Self::from_flag(std::iter::once(text)).map(drop)
    }
}

impl<T: FromText> FromFlag for Scalar<T> {
    const IS_LIST: bool = false;

    fn from_flag<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, Mistake> {
        T::from_text(texts.last().unwrap_or_default()).map(Self)
    }
}

impl<T: FromText> FromFlag for List<Scalar<T>> {
    const IS_LIST: bool = true;

    fn from_flag<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, Mistake> {
        texts.map(|text| T::from_text(text).map(Scalar)).collect::<Result<_, _>>().map(Self)
    }
}

impl FromFlag for PoolNames {
    const IS_LIST: bool = true;

    fn from_flag<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, Mistake> {
        texts.map(Self::name).collect::<Result<_, _>>().map(Self)
    }
}
