//! What is on the screen: lines that stay, and the status line below them.

use memprof_support::user_error;

/// A line that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `    Building main 4f1c2aa … 38.2 s`.
    Stage {
        /// What happens, right-aligned as in cargo's output.
        verb: &'static str,
        /// To what.
        text: String,
        /// Whether it succeeded.
        good: bool,
    },
    /// `warning: …` with its help.
    Warning {
        /// What the user should know.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// Text as it is, such as a compiler's error.
    Quote(String),
}

/// What an event changes on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// New lines that stay, in order.
    pub lines: Vec<Line>,
    /// The new status line.
    pub status: StatusLine,
}

/// What happens to the status line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatusLine {
    /// Stays as it is.
    #[default]
    Keep,
    /// The line disappears.
    Clear,
    /// Shows this text, with a clock beside it.
    Show {
        /// What happens.
        verb: &'static str,
        /// To what.
        text: String,
        /// More about it, the most important first. What has no room is left out.
        details: Vec<String>,
        /// Whether the clock starts again.
        restart: bool,
    },
}

/// The width of the verbs: cargo's, so that its lines and ours align.
pub const VERB_WIDTH: usize = 12;

impl Line {
    /// Returns the line without colour.
    pub fn plain(&self) -> String {
        match self {
            Self::Stage { verb, text, .. } => format!("{verb:>VERB_WIDTH$} {text}"),
            Self::Warning { message, help } => user_error::labelled("warning", message, help.as_deref()),
            Self::Quote(text) => text.clone(),
        }
    }
}

impl Update {
    /// A line that leaves the status line as it is.
    pub(super) fn line(line: Line) -> Self {
        Self { lines: vec![line], status: StatusLine::Keep }
    }

    /// Lines that end a stage, and with it the status line.
    pub(super) fn end_of_stage(lines: Vec<Line>) -> Self {
        Self { lines, status: StatusLine::Clear }
    }

    /// A stage that begins: it is the status line.
    pub(super) fn stage(verb: &'static str, text: String) -> Self {
        Self {
            lines: Vec::new(),
            status: StatusLine::Show { verb, text, details: Vec::new(), restart: true },
        }
    }

    /// Adds details to its status line.
    pub(super) fn with(mut self, more: impl Iterator<Item = String>) -> Self {
        if let StatusLine::Show { details, .. } = &mut self.status {
            details.extend(more);
        }
        self
    }
}
