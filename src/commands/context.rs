//! What every command needs: the console and the interrupt.

use std::sync::atomic::AtomicBool;

use crate::output::destinations::Output;
use crate::request::secrets::removed_variables;
use crate::terminal::console::Console;
use memprof_plan::request::RefRequest;
use memprof_plan::resolved::Plan;
use memprof_plan::side;
use memprof_run::forecast::Forecast;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::redaction;
use memprof_support::workflow_commands::Notation;

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
    /// removes here, with what the sides of axes differ by, and with what is known of each candidate. `printed` is
    /// the plan as it is stored, or holds it. A warning names the files that a run would write.
    pub fn print_plan(
        &self,
        plan: &Plan,
        known: &[Forecast],
        printed: &impl serde::Serialize,
        outputs: &[Output],
    ) -> anyhow::Result<ExitCode> {
        for file in outputs.iter().filter_map(|output| output.file.as_ref()) {
            let message = format!("--dry-run measures nothing, so {file} is not written");
            self.console.emit(Event::Warning { message, help: None });
        }
        let mut printed = serde_json::to_value(printed)?;
        if let (Some(removed), Some(printed)) = (removed_variables(&plan.request), printed.as_object_mut()) {
            printed.insert("removed_variables".to_owned(), removed.into());
        }
        if let Some(printed) = printed.as_object_mut().filter(|_| !plan.request.axes.is_empty()) {
            printed.insert("sides".to_owned(), sides(plan).into());
        }
        if let Some(printed) = printed.as_object_mut().filter(|_| !known.is_empty()) {
            printed.insert("candidates".to_owned(), serde_json::to_value(known)?);
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

/// Returns each side that axes make, with how it differs from the baseline.
fn sides(plan: &Plan) -> Vec<serde_json::Value> {
    let refs = &plan.request.refs;
    let side = |(index, one): (usize, &RefRequest)| {
        let differs = if index == plan.baseline {
            vec!["the baseline".to_owned()]
        } else {
            side::differences_with_dependencies(&plan.request, &refs[plan.baseline], one)
        };
        let differs: Vec<String> = differs.iter().map(|words| redaction::text(words).into_owned()).collect();
        serde_json::json!({"name": plan.revisions[index].name, "differs": differs})
    };
    refs.iter().enumerate().map(side).collect()
}
