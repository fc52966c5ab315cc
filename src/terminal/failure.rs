//! What an error means for the user: the message, the advice and the exit code.

use std::io::{self, ErrorKind};

use memprof_build::cargo::resolution::Unresolved;
use memprof_run::runner::Interrupted;
use memprof_support::advice;
use memprof_support::exit_code::ExitCode;
use memprof_support::process_error::ProcessError;
use memprof_support::regular_file;
use memprof_support::user_error::UserError;

/// Returns what to print for an error, and what to exit with.
///
/// `is_interrupted` says that the user pressed Ctrl-C, which explains any error that follows.
/// `can_resume` says that the command has `--resume`.
pub fn explain(error: &anyhow::Error, is_interrupted: bool, can_resume: bool) -> (UserError, ExitCode) {
    if is_interrupted || was_interrupted(error) {
        let interrupted = error.downcast_ref::<Interrupted>().copied().unwrap_or_default();
        let user_error = if can_resume {
            UserError::new(format!("{interrupted}; finished runs are kept"))
                .help("to continue, run the same command again with `--resume`")
        } else {
            UserError::new(interrupted.to_string())
                .help("run the same command again; finished builds are kept")
        };
        return (user_error, ExitCode::Interrupted);
    }
    let help = advice::help(error);
    let is_users = help.is_some() || advice::is_usage(error) || error.is::<UserError>();
    let code = match is_users {
        true => ExitCode::Usage,
        false if error.is::<Unresolved>() => ExitCode::Incomplete,
        false => ExitCode::Internal,
    };
    let help = help.or_else(|| machine_help(error).map(str::to_owned));
    (UserError::new(format!("{error:#}")).maybe_help(help), code)
}

/// Returns what to do about an error of the machine. Finished runs are kept in any case.
fn machine_help(error: &anyhow::Error) -> Option<&'static str> {
    if error.chain().any(regular_file::is_unsuitable) {
        return Some("put a regular file in its place, or remove it");
    }
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind)?;
    Some(match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space (`cargo memprof clean` shows what it would remove), then run the same command again, \
             with --resume if tests had run: finished runs are kept"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "make the file or folder writable, or choose another cache folder with CARGO_MEMPROF_HOME"
        }
        _ => "if the disk works again, run the same command with --resume (finished runs are kept)",
    })
}

fn was_interrupted(error: &anyhow::Error) -> bool {
    let of_process = |error: &ProcessError| matches!(error, ProcessError::Interrupted { .. });
    error.is::<Interrupted>() || error.chain().any(|cause| cause.downcast_ref().is_some_and(of_process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_error_exits_with_2_and_any_other_error_with_101() {
        let error = UserError::new("no ref 'mian' in this repository").help("did you mean 'main'?");
        let (shown, code) = explain(&anyhow::Error::new(error).context("resolving"), false, true);
        assert_eq!(
            shown.rendered(),
            "error: resolving: no ref 'mian' in this repository\n  help: did you mean 'main'?"
        );
        assert_eq!(code, ExitCode::Usage);
        let (shown, code) = explain(&anyhow::anyhow!("disk full").context("writing plan.json"), false, true);
        assert_eq!(
            (shown.rendered().as_str(), code),
            ("error: writing plan.json: disk full", ExitCode::Internal)
        );
    }

    #[test]
    fn a_full_disk_says_how_to_continue() {
        let full = io::Error::from(ErrorKind::StorageFull);
        let (shown, code) = explain(&anyhow::Error::new(full).context("writing plan.json"), false, true);
        assert_eq!(code, ExitCode::Internal);
        assert!(shown.rendered().contains("then run the same command again, with --resume if tests had run"));
    }

    #[test]
    fn after_an_interrupt_the_user_learns_how_to_continue() {
        for (error, is_interrupted) in
            [(anyhow::Error::from(Interrupted::default()), false), (anyhow::anyhow!("killed"), true)]
        {
            let (shown, code) = explain(&error, is_interrupted, true);
            assert_eq!(code, ExitCode::Interrupted);
            assert!(shown.rendered().contains("--resume"), "{}", shown.rendered());
        }
        let (shown, _) = explain(
            &Interrupted { finished: 8, planned: 14, is_cut_off: false, is_explaining: false }.into(),
            true,
            true,
        );
        assert_eq!(shown.message, "interrupted after 8 of 14 runs; finished runs are kept");
        let (shown, _) = explain(&Interrupted::of_call_stacks(14).into(), true, true);
        let message =
            "interrupted after all runs, while tests ran once more with call stacks; finished runs are kept";
        assert_eq!(shown.message, message);
    }

    #[test]
    fn a_command_without_resume_is_run_again_as_it_was() {
        let (shown, code) = explain(&Interrupted::default().into(), true, false);
        assert_eq!(code, ExitCode::Interrupted);
        assert_eq!(
            shown.rendered(),
            "error: interrupted\n  help: run the same command again; finished builds are kept"
        );
    }
}
