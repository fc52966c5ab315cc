//! From the command that the user named to its file.

use std::sync::atomic::AtomicBool;

use crate::arguments::command::CommandArguments;
use crate::arguments::command_line::CommandLine;
use crate::commands::context::CommandContext;
use crate::commands::{
    bisect, budget, build, clean, compare, completions, courtesy, demo, doctor, history, init, list, man,
    merge, notebook, prove, report, run, schema, submit, trace,
};
use crate::terminal::console::Console;
use memprof_build::checkout::cache;
use memprof_support::exit_code::ExitCode;
use memprof_support::redaction;
use memprof_support::salt::Salt;

/// Runs the command.
pub fn act(
    command_line: &CommandLine,
    console: &Console,
    interrupt: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    if let Some(salt) = cache::home().ok().and_then(|home| Salt::read(&home)) {
        redaction::use_salt(salt);
    }
    let context = CommandContext { console, interrupt };
    match &command_line.command {
        CommandArguments::Run(arguments) => run::run(context, arguments),
        CommandArguments::Test(arguments) => run::run(context, &arguments.run()?),
        CommandArguments::Deps(arguments) => run::run(context, &arguments.run()?),
        CommandArguments::Build(arguments) => build::build(context, arguments),
        CommandArguments::Bisect(arguments) => bisect::bisect(context, arguments),
        CommandArguments::History(arguments) => history::history(context, arguments),
        CommandArguments::Prove(arguments) => prove::prove(context, arguments),
        CommandArguments::List(arguments) => list::list(context, arguments),
        CommandArguments::Notebook(arguments) => notebook::notebook(context, arguments),
        CommandArguments::Trace(arguments) => trace::trace(context, arguments),
        CommandArguments::Report(arguments) => report::report(context, arguments),
        CommandArguments::Compare(arguments) => compare::compare(context, arguments),
        CommandArguments::Merge(arguments) => merge::merge(context, arguments),
        CommandArguments::Submit(arguments) => submit::submit(context, arguments),
        CommandArguments::Budget(arguments) => budget::budget(context, arguments),
        CommandArguments::Doctor(arguments) => doctor::doctor(context, *arguments),
        CommandArguments::Yield(arguments) => courtesy::yield_memory(context, arguments),
        CommandArguments::Restore(arguments) => courtesy::restore(context, arguments),
        CommandArguments::Clean(arguments) => clean::clean(context, arguments),
        CommandArguments::Init(arguments) => init::init(context, arguments),
        CommandArguments::Schema(arguments) => schema::schema(context, arguments),
        CommandArguments::Demo(arguments) => demo::demo(context, arguments),
        CommandArguments::Completions(arguments) => completions::completions(context, arguments),
        CommandArguments::Man => man::man(context),
    }
}
