//! The lock file for revisions that have none: generated when it is first needed, and replaced by
//! one of the commits' date if today's dependencies do not build.

use anyhow::bail;
use camino::Utf8PathBuf;
use jiff::Timestamp;

use crate::build_tree::BuildTree;
use crate::cargo::lockfile::{self, Choice, Fallback, Lockfile};
use crate::cargo::messages::Messages;
use crate::cargo::resolution::{Resolution, Resolved, Unresolved};
use crate::cargo::toolchain::Toolchain;
use crate::checkout::injected_files::{self, InjectedFiles};
use crate::failure::{BuildFailure, Fault};
use crate::inject::outside_paths::{self, NamedFolder};
use crate::job::{Inputs, Job};
use crate::memory_crate;
use crate::patched_source;
use crate::prepared_source;
use memprof_plan::dependency_change::Replacement;
use memprof_plan::request::OverlayMode;
use memprof_plan::resolved::Plan;
use memprof_plan::side;
use memprof_support::regular_file::remove_file_if_there;

/// The lock file that all revisions without a committed one share.
pub(crate) struct SharedLockfile {
    choice: Choice,
    /// Why there is none: cargo found no versions.
    failure: Option<BuildFailure>,
    /// Whether a revision was built with it.
    is_used: bool,
    /// Whether it was replaced after that, so that these builds must be repeated.
    is_outdated: bool,
    /// What a trial replaced, and where the trial's lock file is kept if it works.
    on_trial: Option<Trial>,
}

/// A lock file of the commits' date that no build has used yet.
struct Trial {
    before: Choice,
    /// Whether a revision was built with the one before.
    was_used: bool,
    kept: Utf8PathBuf,
    text: Vec<u8>,
}

impl SharedLockfile {
    /// Takes the decision about the lock file.
    pub fn new(choice: Choice) -> Self {
        Self { choice, failure: None, is_used: false, is_outdated: false, on_trial: None }
    }

    /// Returns the lock file.
    pub fn lockfile(&self) -> &Lockfile {
        &self.choice.lockfile
    }

    /// Returns where it comes from, if there is one.
    pub fn origin(&self) -> Option<&str> {
        self.text().map(|_| self.choice.origin.as_str())
    }

    /// Returns what every report says about it.
    pub fn notes(&self) -> &[String] {
        &self.choice.notes
    }

    /// Keeps it from being replaced from now on.
    pub fn settle(&mut self) {
        self.choice.fallback = None;
    }

    /// Notes that a revision was built with it.
    pub fn note_use(&mut self) {
        self.is_used = true;
    }

    /// Whether builds with another lock file must be repeated. Resets this.
    pub fn take_outdated(&mut self) -> bool {
        std::mem::take(&mut self.is_outdated)
    }

    /// Generates it if that was not done yet.
    ///
    /// # Errors
    /// The outer error is the tool's. The inner one means that cargo found no versions.
    pub(crate) fn provide(
        &mut self,
        inputs: &Inputs<'_>,
        tree: &mut BuildTree<'_>,
        toolchain: &Toolchain,
    ) -> anyhow::Result<Result<(), BuildFailure>> {
        let Lockfile::ToGenerate { kept, moment } = &self.choice.lockfile else { return Ok(Ok(())) };
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        let (kept, moment) = (kept.clone(), *moment);
        let error = match self.resolve(inputs, tree, toolchain, moment)? {
            Ok(Resolved { text, notes }) => {
                warn_of(inputs, &notes);
                let text = lockfile::with_notes(&text, &notes);
                lockfile::keep(&kept, &text)?;
                self.choice.lockfile = Lockfile::Given(text);
                self.choice.notes = notes;
                return Ok(Ok(()));
            }
            Err(error) => error,
        };
        let reason = "today's dependencies cannot be resolved";
        if error.lacks_version() && self.try_date(inputs, tree, toolchain, reason)? {
            self.accept(inputs)?;
            return Ok(Ok(()));
        }
        let mut failure = BuildFailure::from_compiler(&Messages::default(), &error.0);
        // Another date does not help if a registry or a repository does not answer.
        if !error.lacks_version() && failure.fault == Fault::Dependencies {
            failure.fault = Fault::Code;
        }
        self.failure = Some(failure.clone());
        Ok(Err(failure))
    }

    /// Resolves as of the newest commit's date, and uses the result on trial. Returns whether there
    /// is one that differs. `reason` says what is wrong with today's versions.
    pub(crate) fn try_date(
        &mut self,
        inputs: &Inputs<'_>,
        tree: &mut BuildTree<'_>,
        toolchain: &Toolchain,
        reason: &str,
    ) -> anyhow::Result<bool> {
        let Some(fallback) = self.choice.fallback.take() else { return Ok(false) };
        let Fallback { moment, .. } = fallback;
        let Ok(Resolved { text, notes }) = self.resolve(inputs, tree, toolchain, Some(moment))? else {
            return Ok(false);
        };
        // The same versions fail in the same way.
        if self.text() == Some(&text) {
            return Ok(false);
        }
        let note = format!(
            "{reason}, so refs without a Cargo.lock use the dependencies of {}, the date of the newest \
             of these commits",
            lockfile::day(moment)
        );
        let notes: Vec<String> = std::iter::once(note).chain(notes).collect();
        let text = lockfile::with_notes(&text, &notes);
        let kept = fallback.kept(self.text());
        let choice = Choice {
            lockfile: Lockfile::Given(text.clone()),
            origin: format!("dependencies of {}", lockfile::day(moment)),
            notes,
            of: self.choice.of,
            fallback: None,
        };
        let before = std::mem::replace(&mut self.choice, choice);
        self.on_trial = Some(Trial { before, was_used: self.is_used, kept, text });
        Ok(true)
    }

    /// Keeps the lock file on trial, for this run and later ones.
    pub(crate) fn accept(&mut self, inputs: &Inputs<'_>) -> anyhow::Result<()> {
        let Some(trial) = self.on_trial.take() else { bail!("no lock file is on trial") };
        lockfile::keep(&trial.kept, &trial.text)?;
        self.is_outdated = trial.was_used;
        warn_of(inputs, &self.choice.notes);
        Ok(())
    }

    /// Goes back to the lock file before the trial.
    pub(crate) fn revert(&mut self) {
        if let Some(trial) = self.on_trial.take() {
            self.choice = trial.before;
        }
    }

    fn text(&self) -> Option<&[u8]> {
        match &self.choice.lockfile {
            Lockfile::Given(text) => Some(text),
            Lockfile::NotNeeded | Lockfile::ToGenerate { .. } => None,
        }
    }

    /// Resolves the dependencies of the revision that the lock file is generated for. With an
    /// external overlay, these are only those of the overlay's crate.
    fn resolve(
        &self,
        inputs: &Inputs<'_>,
        tree: &mut BuildTree<'_>,
        toolchain: &Toolchain,
        moment: Option<Timestamp>,
    ) -> anyhow::Result<Result<Resolved, Unresolved>> {
        let plan = inputs.plan;
        tree.check_out(inputs, &plan.revisions[self.choice.of])?;
        let workspace = inputs.workspace();
        injected_files::check_inside(&inputs.checkout, &workspace)?;
        let mut injected = InjectedFiles::load(&inputs.cache.injected())?;
        outside_paths::write_found(&self.named_folders(inputs)?, &inputs.checkout, &mut injected)?;
        memory_crate::place(inputs.repository.root(), &inputs.checkout, &mut injected)?;
        injected.save()?;
        let of_workspace = workspace.join("Cargo.lock");
        if of_workspace.is_symlink() {
            // Cargo would write through it.
            fs_err::remove_file(&of_workspace)?;
        }
        let manifest = if inputs.overlay_of(OverlayMode::External).is_empty() {
            workspace.join("Cargo.toml")
        } else {
            let lockfile = &Lockfile::NotNeeded;
            prepared_source::external_crate(&Job { inputs, index: self.choice.of, toolchain, lockfile })?
                .manifest
        };
        let options = &plan.request.build;
        let resolution = Resolution { manifest: &manifest, workspace: &workspace, options, toolchain };
        let resolved = match moment {
            Some(moment) => resolution.as_of(moment)?,
            None => resolution.today()?,
        };
        // An ignored file would survive checkouts. Each revision gets this lock file by injection.
        remove_file_if_there(manifest.with_file_name("Cargo.lock"))?;
        Ok(resolved)
    }

    /// Returns the folders that sides of the request put in the places of packages, the first of each
    /// package. Cargo resolves nothing while a path dependency leads nowhere.
    fn named_folders(&self, inputs: &Inputs<'_>) -> anyhow::Result<Vec<NamedFolder>> {
        let request = &inputs.plan.request;
        let mut folders: Vec<NamedFolder> = Vec::new();
        for index in std::iter::once(self.choice.of).chain(0..inputs.plan.revisions.len()) {
            for change in side::dependencies(request, request.refs.get(index)) {
                let Replacement::Path(path) = &change.to else { continue };
                if folders.iter().all(|known| known.package != change.package) {
                    let folder = patched_source::copied(&change.package, path.as_ref(), inputs.cache)?;
                    folders.push(NamedFolder { package: change.package.clone(), folder });
                }
            }
        }
        Ok(folders)
    }
}

/// Returns what decides the lock file of the crate for external overlays, in addition to the
/// revision; empty without an external overlay.
pub(crate) fn crate_of_tests(plan: &Plan) -> String {
    let external = plan.request.overlay.iter().filter(|overlay| overlay.mode == OverlayMode::External);
    let all: Vec<_> = external.map(|overlay| (&overlay.package, &overlay.dependencies)).collect();
    if all.is_empty() { String::new() } else { format!("{all:?} {:?}", plan.request.build.settings.packages) }
}

fn warn_of(inputs: &Inputs<'_>, notes: &[String]) {
    let help = "to keep today's: --lockfile-date today; for the lock file of a ref: --lockfile-from REF";
    for (index, note) in notes.iter().enumerate() {
        inputs.warn(note.clone(), (index + 1 == notes.len()).then_some(help));
    }
}
