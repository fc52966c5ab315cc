//! `completions`: a shell's completion script.

use clap::CommandFactory;

use crate::cli::arguments::command_line::Arguments;
use crate::cli::arguments::setup::CompletionsArguments;
use crate::cli::commands::context::CommandContext;
use crate::support::exit_code::ExitCode;

/// Prints the script.
pub fn completions(
    context: CommandContext<'_>,
    arguments: &CompletionsArguments,
) -> anyhow::Result<ExitCode> {
    context.print(&script(arguments.shell))
}

fn script(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "cargo-memprof", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_script_names_the_flags() {
        for shell in clap_complete::Shell::value_variants() {
            assert!(script(*shell).contains("lockfile-from"), "{shell}");
        }
    }
}
