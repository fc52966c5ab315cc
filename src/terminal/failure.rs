//! What an error means for the user: the message, the advice and the exit code.

use std::io::{self, ErrorKind};

use memprof_build::cargo::resolution::Unresolved;
use memprof_build::checkout::cache;
use memprof_run::runner::Interrupted;
use memprof_support::advice;
use memprof_support::exit_code::ExitCode;
use memprof_support::process_error::ProcessError;
use memprof_support::regular_file;
use memprof_support::user_error::UserError;

/// Returns what to print for an error, and what to exit with.
///
/// `is_interrupted` says that the user pressed Ctrl-C, which explains any error that follows.
/// `continuing` is the command that continues the run, if there is one to continue.
pub fn explain(
    error: &anyhow::Error,
    is_interrupted: bool,
    continuing: Option<&str>,
) -> (UserError, ExitCode) {
    if is_interrupted || was_interrupted(error) {
        let interrupted = error.downcast_ref::<Interrupted>().copied().unwrap_or_default();
        let user_error = match continuing {
            Some(command) => UserError::new(format!("{interrupted}; finished runs are kept"))
                .help(format!("to continue: {command}")),
            None => UserError::new(interrupted.to_string())
                .help("run the same command again; finished builds are kept"),
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
    let help = help.or_else(|| machine_help(error, continuing));
    (UserError::new(format!("{error:#}")).maybe_help(help), code)
}

/// Returns what to do about an error of the machine. Finished runs are kept in any case.
fn machine_help(error: &anyhow::Error, continuing: Option<&str>) -> Option<String> {
    if error.chain().any(regular_file::is_unsuitable) {
        return Some("put a regular file in its place, or remove it".to_owned());
    }
    let then = match continuing {
        Some(command) => format!("continue (finished runs are kept): {command}"),
        None => "run the same command again".to_owned(),
    };
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind)?;
    let not_started = |cause: &ProcessError| matches!(cause, ProcessError::NotStarted { .. });
    let is_program = error.chain().any(|cause| cause.downcast_ref().is_some_and(not_started));
    Some(match kind {
        ErrorKind::PermissionDenied if is_program => {
            "if the program's disk is mounted noexec, choose another cache folder with CARGO_MEMPROF_HOME"
                .to_owned()
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("free some space (`cargo memprof clean` shows what it would remove), then {then}")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            let text = format!("{error:#}");
            let another = if cache::home().is_ok_and(|home| text.contains(home.as_str())) {
                ", or choose another cache folder with CARGO_MEMPROF_HOME"
            } else if ["/memprof/", "/memprof`"].iter().any(|end| text.contains(end)) {
                ", or choose another folder for the results: --run-folder DIR with an archive, \
                 CARGO_TARGET_DIR=DIR in a repository"
            } else {
                ""
            };
            format!("make the file or folder writable{another}")
        }
        ErrorKind::OutOfMemory => {
            format!("free some memory, or build with fewer processes (CARGO_BUILD_JOBS=1), then {then}")
        }
        ErrorKind::NetworkDown => format!("once the network works again, {then}"),
        _ => format!("if the disk works again, {then}"),
    })
}

/// Whether the user pressed Ctrl-C.
fn was_interrupted(error: &anyhow::Error) -> bool {
    let of_process = |cause: &ProcessError| cause.is_interrupt();
    error.is::<Interrupted>() || error.chain().any(|cause| cause.downcast_ref().is_some_and(of_process))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    const RESUME: Option<&str> = Some("cargo memprof bisect --resume");

    #[test]
    fn a_user_error_exits_with_2_and_any_other_error_with_101() {
        let error = UserError::new("no ref 'mian' in this repository").help("did you mean 'main'?");
        let (shown, code) = explain(&anyhow::Error::new(error).context("resolving"), false, RESUME);
        assert_eq!(
            shown.rendered(),
            "error: resolving: no ref 'mian' in this repository\n  help: did you mean 'main'?"
        );
        assert_eq!(code, ExitCode::Usage);
        let (shown, code) =
            explain(&anyhow::anyhow!("disk full").context("writing plan.json"), false, RESUME);
        assert_eq!(
            (shown.rendered().as_str(), code),
            ("error: writing plan.json: disk full", ExitCode::Internal)
        );
    }

    #[test]
    fn a_full_disk_says_how_to_continue() {
        let full = io::Error::from(ErrorKind::StorageFull);
        let (shown, code) = explain(&anyhow::Error::new(full).context("writing plan.json"), false, RESUME);
        assert_eq!(code, ExitCode::Internal);
        let next = "then continue (finished runs are kept): cargo memprof bisect --resume";
        assert!(shown.rendered().contains(next), "{}", shown.rendered());
        let full = anyhow::Error::new(io::Error::from(ErrorKind::StorageFull));
        assert!(explain(&full, false, None).0.rendered().ends_with("then run the same command again"));
    }

    #[test]
    fn a_program_that_may_not_start_may_be_on_a_disk_for_data() {
        let source = io::Error::from(ErrorKind::PermissionDenied);
        let error = ProcessError::NotStarted { command: "/mnt/tests --exact t".to_owned(), source };
        let (shown, code) = explain(&anyhow::Error::new(error), false, RESUME);
        assert_eq!(code, ExitCode::Internal);
        let message = "error: could not start `/mnt/tests --exact t`: permission denied\n  \
                       help: if the program's disk is mounted noexec, ";
        assert!(shown.rendered().starts_with(message), "{}", shown.rendered());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_the_caches_that_of_the_results_or_another() {
        let in_cache = cache::home().unwrap().join("r-1/store");
        for (folder, help) in [
            (in_cache.as_str(), "another cache folder with CARGO_MEMPROF_HOME"),
            ("/r/target/memprof/1", "another folder for the results: --run-folder DIR with an archive, "),
            ("/r/target/memprof", "another folder for the results: --run-folder DIR with an archive, "),
            ("/r/memprof.yaml", "help: make the file or folder writable\n"),
        ] {
            let closed = io::Error::from(ErrorKind::ReadOnlyFilesystem);
            let error = anyhow::Error::new(closed).context(format!("failed to create `{folder}`"));
            let (shown, code) = explain(&error, false, None);
            assert_eq!(code, ExitCode::Internal);
            assert!(format!("{}\n", shown.rendered()).contains(help), "{}", shown.rendered());
        }
    }

    #[test]
    fn after_an_interrupt_the_user_learns_how_to_continue() {
        let by_itself = ProcessError::Failed {
            command: "git fetch".to_owned(),
            // What ended it: SIGINT.
            status: ExitStatus::from_raw(2),
            stdout: String::new(),
            stderr: String::new(),
        };
        for (error, is_interrupted) in [
            (anyhow::Error::from(Interrupted::default()), false),
            (anyhow::anyhow!("killed"), true),
            (anyhow::Error::new(by_itself).context("resolving"), false),
        ] {
            let (shown, code) = explain(&error, is_interrupted, RESUME);
            assert_eq!(code, ExitCode::Interrupted);
            let help = "\n  help: to continue: cargo memprof bisect --resume";
            assert!(shown.rendered().ends_with(help), "{}", shown.rendered());
        }
        let (shown, _) = explain(
            &Interrupted { finished: 8, planned: 14, is_cut_off: false, is_explaining: false }.into(),
            true,
            RESUME,
        );
        assert_eq!(shown.message, "interrupted after 8 of 14 runs; finished runs are kept");
        let (shown, _) = explain(&Interrupted::of_call_stacks(14).into(), true, RESUME);
        let message =
            "interrupted after all runs, while tests ran once more with call stacks; finished runs are kept";
        assert_eq!(shown.message, message);
    }

    #[test]
    fn what_has_nothing_to_continue_is_run_again_as_it_was() {
        let (shown, code) = explain(&Interrupted::default().into(), true, None);
        assert_eq!(code, ExitCode::Interrupted);
        assert_eq!(
            shown.rendered(),
            "error: interrupted\n  help: run the same command again; finished builds are kept"
        );
    }
}
