//! The flags that every command has: colour and verbosity.

use clap::{ArgAction, Args, ValueEnum};

use memprof_plan::config::flag::Section;

/// How to use the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = Section::Terminal.heading())]
pub struct TerminalArguments {
    /// When to use colours: auto (respects `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`), always, never
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        global = true
    )]
    pub color: Color,
    /// Print no progress, only the report, warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also print each run and each compiled crate
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless an environment variable overrides it
    #[default]
    Auto,
    /// Even if the output goes to a file
    Always,
    /// Not at all
    Never,
}
