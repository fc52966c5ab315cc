//! `init`: writes a first memprof.yaml.

use crate::cli::arguments::setup::InitArguments;
use crate::cli::commands::context::CommandContext;
use crate::cli::init::facts::RepositoryFacts;
use crate::cli::init::template;
use crate::cli::kept_runs::repository;
use crate::config::matrix;
use crate::support::exit_code::ExitCode;

/// Writes the file, unless it exists.
pub fn init(context: CommandContext<'_>, arguments: &InitArguments) -> anyhow::Result<ExitCode> {
    let repository = repository()?;
    let file = arguments.matrix.clone().unwrap_or_else(|| repository.root().join(matrix::FILE_NAME));
    template::check_free(&file, file.exists(), arguments.force)?;
    let facts = RepositoryFacts::gather(&repository, arguments.workspace.manifest_path.as_deref())?;
    fs_err::write(&file, template::text(&facts))?;
    context.print(&format!("wrote {file}\n"))
}
