//! `schema`: the JSON Schema of memprof.yaml or of the JSON report.

use crate::cli::arguments::setup::{SchemaArguments, SchemaOf};
use crate::cli::commands::context::CommandContext;
use crate::support::exit_code::ExitCode;

/// Prints a schema.
pub fn schema(context: CommandContext<'_>, arguments: &SchemaArguments) -> anyhow::Result<ExitCode> {
    context.print_json(&match arguments.of {
        SchemaOf::Matrix => crate::config::schema::schema(),
        SchemaOf::Report => crate::report::json::schema::schema(),
    })
}
