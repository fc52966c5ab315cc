//! A reason why a process's memory is not set aside, with what to do about it. Pure.

use memprof_support::user_error::UserError;

/// The reason, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
    /// What to do.
    pub help: Option<String>,
}

impl Refusal {
    /// Returns a refusal without help.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), help: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The user pressed Ctrl-C before all processes were set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Stopped;

impl From<Refusal> for UserError {
    fn from(refusal: Refusal) -> Self {
        UserError::new(refusal.reason).maybe_help(refusal.help)
    }
}
