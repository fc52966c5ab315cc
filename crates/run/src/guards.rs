//! What surrounds the runs of a comparison, in one form: a feature is entered before the first run, and
//! left after the last one.

use crate::runner::{Completion, Runner};
use memprof_build::attempts::Build;
use memprof_build::store::Entry;
use memprof_judge::results::unfinished;
use memprof_support::exit_code::ExitCode;
use memprof_support::guarded_files::GuardedFiles;

/// A feature that surrounds the runs of a comparison.
pub trait Guard {
    /// Called before the first run.
    fn enter(&mut self, runner: &Runner<'_>) -> anyhow::Result<()>;

    /// Called after the last run, also if the user interrupted the runs. After an error, the guard is
    /// only dropped. Returns the code that the command ends with, if no other is worse.
    fn leave(&mut self, _: &Runner<'_>, _: &Completion) -> anyhow::Result<ExitCode> {
        Ok(ExitCode::Success)
    }
}

impl<G: Guard> Guard for Option<G> {
    fn enter(&mut self, runner: &Runner<'_>) -> anyhow::Result<()> {
        self.as_mut().map_or(Ok(()), |guard| guard.enter(runner))
    }

    fn leave(&mut self, runner: &Runner<'_>, completion: &Completion) -> anyhow::Result<ExitCode> {
        self.as_mut().map_or(Ok(ExitCode::Success), |guard| guard.leave(runner, completion))
    }
}

/// Puts back what a test takes away of the files that runs and reports read.
pub(crate) struct FilesOfRun;

impl Guard for FilesOfRun {
    fn enter(&mut self, runner: &Runner<'_>) -> anyhow::Result<()> {
        let folder = runner.folder;
        let files = [folder.plan(), folder.environment(), folder.builds(), folder.trace(), folder.changes()];
        let of_builds = runner.builds.iter().filter_map(Build::entry).flat_map(Entry::files);
        *runner.conditions.guarded.borrow_mut() = GuardedFiles::open(files.into_iter().chain(of_builds));
        Ok(())
    }

    fn leave(&mut self, runner: &Runner<'_>, _: &Completion) -> anyhow::Result<ExitCode> {
        runner.conditions.guarded.borrow_mut().restore()?;
        Ok(ExitCode::Success)
    }
}

/// Lets the run's folder say that the run has not finished, until it has.
pub(crate) struct Unfinished;

impl Guard for Unfinished {
    fn enter(&mut self, runner: &Runner<'_>) -> anyhow::Result<()> {
        unfinished::note(runner.folder, unfinished::UNTIL_THE_END)
    }

    fn leave(&mut self, runner: &Runner<'_>, completion: &Completion) -> anyhow::Result<ExitCode> {
        match completion {
            Completion::Finished => unfinished::finish(runner.folder)?,
            Completion::Interrupted(interrupted) => {
                unfinished::note(runner.folder, &interrupted.to_string())?;
            }
        }
        Ok(ExitCode::Success)
    }
}
