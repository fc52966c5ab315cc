//! `doctor`: which memory can be measured on this machine.

use crate::cli::arguments::setup::{DoctorArguments, DoctorFormat};
use crate::cli::commands::context::CommandContext;
use crate::doctor::checks;
use crate::doctor::facts;
use crate::doctor::text;
use crate::support::exit_code::ExitCode;

/// Checks the machine and prints the findings.
pub fn doctor(context: CommandContext<'_>, arguments: DoctorArguments) -> anyhow::Result<ExitCode> {
    let diagnosis = checks::diagnose(&facts::gather());
    match arguments.format {
        DoctorFormat::Text => {
            let columns = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
            context.print(&text::render(&diagnosis, context.console.colors_output(), columns))?
        }
        DoctorFormat::Json => context.print_json(&diagnosis)?,
    };
    Ok(if diagnosis.is_broken() { ExitCode::Incomplete } else { ExitCode::Success })
}
