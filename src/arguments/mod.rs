//! What the user types, as clap has it: commands, flags, their values and their help.
//! No side effects.

pub mod budget;
pub mod build;
pub mod cargo;
pub mod command;
pub mod command_line;
pub mod courtesy;
pub mod deps;
pub mod fixed_plan;
pub mod judging;
pub mod notebook;
pub mod presentation;
pub mod reports;
pub mod request;
pub mod run;
pub mod search;
pub mod settings;
pub mod setup;
pub mod sides;
pub mod submit;
pub mod terminal;
pub mod test;
pub mod test_options;
pub mod values;
pub mod waiting;
pub mod why;
pub mod workspace;
