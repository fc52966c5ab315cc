//! `doctor`: which memory can be measured on this machine.

use std::io;

use crate::arguments::setup::{DoctorArguments, DoctorFormat};
use crate::commands::context::CommandContext;
use memprof_run::doctor::checks;
use memprof_run::doctor::facts;
use memprof_run::doctor::text;
use memprof_support::exit_code::ExitCode;

/// Checks the machine and prints the findings.
pub fn doctor(context: CommandContext<'_>, arguments: DoctorArguments) -> anyhow::Result<ExitCode> {
    let diagnosis = checks::diagnose(&facts::gather());
    match arguments.format {
        DoctorFormat::Text => {
            let columns =
                terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
            context.print(&text::render(&diagnosis, context.console.colors_output(), columns))?
        }
        DoctorFormat::Json => context.print_json(&diagnosis)?,
    };
    Ok(if diagnosis.is_broken() { ExitCode::Incomplete } else { ExitCode::Success })
}
