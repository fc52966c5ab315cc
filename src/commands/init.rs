//! `init`: writes a first memprof.yaml.

use crate::arguments::setup::InitArguments;
use crate::commands::context::CommandContext;
use crate::init::facts::RepositoryFacts;
use crate::init::template;
use crate::kept_runs::repository;
use memprof_plan::config::matrix;
use memprof_support::exit_code::ExitCode;
use memprof_support::output_file::{self, Target};

/// Writes the file, unless it exists.
pub fn init(context: CommandContext<'_>, arguments: &InitArguments) -> anyhow::Result<ExitCode> {
    let repository = repository()?;
    let file = arguments.matrix.clone().unwrap_or_else(|| repository.root().join(matrix::FILE_NAME));
    let exists = matches!(Target::find(&file)?, Target::File(place) if place.exists());
    template::check_free(&file, exists, arguments.force)?;
    let facts = RepositoryFacts::gather(&repository, arguments.workspace.manifest_path.as_deref())?;
    output_file::write(&file, template::text(&facts).as_bytes())?;
    context.print(&format!("wrote {file}\n"))
}
