//! `init`: writes a first memprof.yaml.

use crate::cli::arguments::setup::InitArguments;
use crate::cli::commands::context::CommandContext;
use crate::cli::init::facts::RepositoryFacts;
use crate::cli::init::template;
use crate::cli::kept_runs::repository;
use crate::config::matrix;
use crate::support::exit_code::ExitCode;
use crate::support::output_file::{self, Target};

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
