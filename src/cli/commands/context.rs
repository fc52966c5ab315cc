//! What every command needs: the console and the interrupt.

use std::sync::atomic::AtomicBool;

use crate::cli::terminal::console::Console;
use crate::support::exit_code::ExitCode;
use crate::support::workflow_commands::Notation;

/// The surroundings of a command.
#[derive(Clone, Copy)]
pub struct CommandContext<'a> {
    /// Where to print.
    pub console: &'a Console,
    /// Becomes true when the user presses Ctrl-C.
    pub interrupt: &'a AtomicBool,
}

impl CommandContext<'_> {
    /// Prints text, as a command's whole answer.
    pub fn print(&self, text: &str) -> anyhow::Result<ExitCode> {
        self.console.print(text)?;
        Ok(ExitCode::Success)
    }

    /// Prints a value as JSON, as a command's whole answer.
    pub fn print_json(&self, value: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
        let text = format!("{}\n", serde_json::to_string_pretty(value)?);
        self.console.print_as(Notation::Json, &text)?;
        Ok(ExitCode::Success)
    }
}
