//! A mistake in a value of `memprof.yaml`, on its way through serde.

use serde::de;

/// A mistake in a value: what is wrong, and what to do about it. [`Mistake::raise`] lets serde add
/// the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Mistake {
    /// Returns a mistake without help.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// Adds this help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Returns the mistake as an error of serde, which carries only text. Separators let
    /// `error_of` split it again.
    pub fn raise<E: de::Error>(self) -> E {
        // A text in quotes can contain a separator, as `\x1e`.
        let plain = |text: &str| text.replace([MESSAGE, HELP], "\u{fffd}");
        let (message, help) = (plain(&self.message), plain(&self.help.unwrap_or_default()));
        E::custom(format_args!("{MESSAGE}{message}{HELP}{help}"))
    }
}

impl From<String> for Mistake {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

/// ASCII's separators, which no text of this program contains.
pub(crate) const MESSAGE: char = '\u{1e}';
pub(crate) const HELP: char = '\u{1f}';
/// Stands for the path of the mapping that has the mistake. Only `serde_yaml` knows it.
pub(crate) const PLACE: char = '\u{1d}';
