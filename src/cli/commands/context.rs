//! What every command needs: the console and the interrupt.

use std::sync::atomic::AtomicBool;

use crate::cli::request::secrets::removed_variables;
use crate::cli::terminal::console::Console;
use crate::plan::resolved::Plan;
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

    /// Prints a plan as JSON for `--dry-run`, with the names of the variables that `--clean-env`
    /// removes here. `printed` is the plan as it is stored, or holds it.
    pub fn print_plan(&self, plan: &Plan, printed: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
        let mut printed = serde_json::to_value(printed)?;
        if let (Some(removed), Some(printed)) = (removed_variables(&plan.request), printed.as_object_mut()) {
            printed.insert("removed_variables".to_owned(), removed.into());
        }
        self.print_json(&printed)
    }

    /// Prints a value as JSON, as a command's whole answer.
    pub fn print_json(&self, value: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
        let text = format!("{}\n", serde_json::to_string_pretty(value)?);
        self.console.print_as(Notation::Json, &text)?;
        Ok(ExitCode::Success)
    }
}
