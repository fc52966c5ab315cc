//! Text for a log that a CI runner may read for commands.

use std::borrow::Cow;

use memprof_support::workflow_commands::{self, Notation};

/// Returns the text without commands for the CI runner that reads this process's output, if there
/// is one.
pub fn for_log(notation: Notation, text: &str) -> Cow<'_, str> {
    if workflow_commands::are_obeyed() {
        workflow_commands::broken_up(text, notation)
    } else {
        Cow::Borrowed(text)
    }
}
