//! A mistake of the user: what is wrong, where, and what to do about it. Exits with code 2.

use std::fmt;

use camino::Utf8PathBuf;

/// What is wrong with the user's request. Displays as its place and its message;
/// [`UserError::rendered`] adds the help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UserError {
    /// One sentence without a capital or a full stop: `no ref 'mian' in this repository`.
    pub message: String,
    /// What to do about it: `did you mean 'main'?`
    pub help: Option<String>,
    /// The place in a file, if the mistake is in one.
    pub location: Option<Location>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, as the user would write it.
    pub file: Utf8PathBuf,
    /// Line and column, both from 1. Absent if the whole file is meant.
    pub position: Option<(usize, usize)>,
}

impl UserError {
    /// Returns a error without help and without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, location: None }
    }

    /// Adds this help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds this help, if there is one.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Adds the place in this file.
    #[must_use]
    pub fn at(mut self, file: impl Into<Utf8PathBuf>, position: Option<(usize, usize)>) -> Self {
        self.location = Some(Location { file: file.into(), position });
        self
    }

    /// Returns `error: …` and, indented below it, `help: …`. It has no colour and no final newline.
    pub fn rendered(&self) -> String {
        labelled("error", &self.to_string(), self.help.as_deref())
    }
}

/// Returns `error: MESSAGE`, and `  help: HELP` below it. The lines of a long help are aligned.
pub fn labelled(label: &str, message: &str, help: Option<&str>) -> String {
    let mut text = format!("{label}: {message}");
    if let Some(help) = help {
        text.push_str("\n  help: ");
        text.push_str(&help.replace('\n', "\n        "));
    }
    text
}

impl fmt::Display for UserError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(formatter, "{}:", location.file)?;
            if let Some((line, column)) = location.position {
                write!(formatter, "{line}:{column}:")?;
            }
            formatter.write_str(" ")?;
        }
        formatter.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_the_place_and_the_help_stands_below() {
        let user_error = UserError::new("unknown key 'overlays' in the matrix")
            .help("did you mean 'overlay'?")
            .at("memprof.yaml", Some((7, 3)));
        assert_eq!(
            user_error.rendered(),
            "error: memprof.yaml:7:3: unknown key 'overlays' in the matrix\n  help: did you mean 'overlay'?"
        );
        assert_eq!(UserError::new("no refs").at("m.yaml", None).rendered(), "error: m.yaml: no refs");
    }

    #[test]
    fn the_lines_of_a_long_help_line_up() {
        assert_eq!(UserError::new("a").help("b\nc").rendered(), "error: a\n  help: b\n        c");
    }
}
