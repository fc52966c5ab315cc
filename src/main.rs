//! Parse, act, exit.

use std::ffi::OsString;
use std::process::ExitCode as ProcessExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use cargo_memprof::build::wrapper;
use cargo_memprof::cli::commands::{act, user_error};
use cargo_memprof::cli::console::Console;
use cargo_memprof::cli::invocation;
use cargo_memprof::run::session::Interrupted;
use cargo_memprof::support::exit_code::ExitCode;
use cargo_memprof::support::process::ProcessError;

static INTERRUPT: AtomicBool = AtomicBool::new(false);

fn main() -> ProcessExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    // Cargo calls this program in place of rustc and of test executables, thousands of times: that comes first.
    if let Some(error) = wrapper::act(&argv) {
        Console::new(&cargo_memprof::cli::arguments::TerminalArguments::default()).fail(&error);
        return ExitCode::Internal.into();
    }
    let invocation = match invocation::parse(argv) {
        Ok(invocation) => invocation,
        Err(error) => {
            // Help and version come this way too, with code 0.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::Usage } else { ExitCode::Success }.into();
        }
    };
    let console = Console::new(&invocation.terminal);
    let handler = ctrlc::set_handler(|| INTERRUPT.store(true, Ordering::Relaxed));
    debug_assert!(handler.is_ok(), "nobody else handles signals");
    match act(invocation, &console, &INTERRUPT) {
        Ok(code) => code,
        Err(error) if INTERRUPT.load(Ordering::Relaxed) || was_interrupted(&error) => {
            let error = anyhow::Error::from(Interrupted);
            if let Some(user_error) = user_error(&error) {
                console.complain(&user_error);
            }
            ExitCode::Interrupted
        }
        Err(error) => match user_error(&error) {
            Some(user_error) => {
                console.complain(&user_error);
                ExitCode::Usage
            }
            None => console.fail(&error),
        },
    }
    .into()
}

fn was_interrupted(error: &anyhow::Error) -> bool {
    error.is::<Interrupted>()
        || error.chain().any(|cause| {
            cause.downcast_ref().is_some_and(|error| matches!(error, ProcessError::Interrupted { .. }))
        })
}
