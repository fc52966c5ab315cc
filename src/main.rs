//! Parses the command line, runs the command, exits.

use std::ffi::OsString;
use std::process::ExitCode as ProcessExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use cargo_memprof::arguments::command_line;
use cargo_memprof::arguments::terminal::TerminalArguments;
use cargo_memprof::commands::dispatch::act;
use cargo_memprof::terminal::console::Console;
use cargo_memprof::terminal::usage_error;
use memprof_build::wrapper;
use memprof_support::continuation;
use memprof_support::exit_code::ExitCode;
use memprof_support::free_memory;
use memprof_support::termination;

/// A revision's source may be nested or chained as deeply as it likes, and its syntax tree is parsed
/// and visited by recursion. Only the part in use takes memory.
const STACK: usize = 1 << 30;

static INTERRUPT: AtomicBool = AtomicBool::new(false);

fn main() -> ProcessExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    // Cargo runs this program instead of rustc and of test executables, thousands of times, so this
    // comes first.
    if let Some(error) = wrapper::act(&argv) {
        Console::new(&TerminalArguments::default()).fail(&error);
        return ExitCode::Internal.into();
    }
    let command_line = match command_line::parse(argv) {
        Ok(command_line) => command_line,
        Err(error) => {
            usage_error::print(&error);
            return if error.use_stderr() { ExitCode::Usage } else { ExitCode::Success }.into();
        }
    };
    free_memory::keep_little();
    termination::end_at_panics();
    let console = Console::new(&command_line.terminal);
    if let Some(continuing) = &command_line.continuing {
        continuation::offer(continuing.offer.clone());
    }
    let handler = termination::but_ignored(|| ctrlc::set_handler(|| termination::handle(&INTERRUPT)));
    debug_assert!(handler.is_ok(), "nothing else handles signals");
    let result = on_a_large_stack(|| act(&command_line, &console, &INTERRUPT));
    termination::leave_the_end_to_the_signal();
    result.unwrap_or_else(|error| console.end(&error, INTERRUPT.load(Ordering::Relaxed))).into()
}

/// Does the work on a thread with a large stack, or on this thread if there is no room for one.
fn on_a_large_stack<T: Send>(work: impl Fn() -> T + Sync) -> T {
    std::thread::scope(|scope| {
        match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, &work) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => work(),
        }
    })
}
