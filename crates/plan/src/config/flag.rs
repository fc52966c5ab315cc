//! Keys of `memprof.yaml` that a flag sets, too. The key's definition has the flag, and both have one
//! documentation and one type.

use crate::config::mistake::Mistake;
use crate::config::yaml::{FromText, List, Scalar};

/// The flag of a key.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without `--`.
    pub long: &'static str,
    /// What stands for its value in the help: `DURATION`. Empty for a switch.
    pub value: &'static str,
    /// Whether a comma separates several values.
    pub splits: bool,
}

impl Flag {
    /// A flag with a value.
    pub const fn new(long: &'static str, value: &'static str) -> Self {
        Self { long, value, splits: false }
    }

    /// A flag without a value. It turns its key on, and not off.
    pub const fn switch(long: &'static str) -> Self {
        Self::new(long, "")
    }

    /// A flag with several values, separated by commas.
    pub const fn split(long: &'static str, value: &'static str) -> Self {
        Self { splits: true, ..Self::new(long, value) }
    }
}

/// A key that has a flag.
#[derive(Clone, Copy, Debug)]
pub struct FlaggedKey {
    /// The key: `max-events`.
    pub key: &'static str,
    /// The name of its field: `max_events`.
    pub field: &'static str,
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
