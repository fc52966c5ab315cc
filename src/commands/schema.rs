//! `schema`: the JSON Schema of memprof.yaml or of the JSON report.

use crate::arguments::setup::{SchemaArguments, SchemaOf};
use crate::commands::context::CommandContext;
use memprof_support::exit_code::ExitCode;

/// Prints a schema.
pub fn schema(context: CommandContext<'_>, arguments: &SchemaArguments) -> anyhow::Result<ExitCode> {
    context.print_json(&match arguments.of {
        SchemaOf::Matrix => memprof_plan::config::schema::schema(),
        SchemaOf::Report => memprof_report::json::schema::schema(),
    })
}
