//! The checkout as builds and tests see it, and which build's files it holds.

use camino::{Utf8Path, Utf8PathBuf};

use crate::build::job::Inputs;
use crate::build::store::Entry;
use crate::checkout::injected_files::InjectedFiles;
use crate::checkout::stamps::Stamps;
use crate::checkout::worktree::Worktree;
use crate::inject::external;
use crate::plan::request::OverlayMode;
use crate::plan::resolved::Revision;

/// The checkout, and the build whose files it holds as the build's tests expect them.
pub struct BuildTree<'a> {
    worktree: Worktree<'a>,
    /// Reset by every checkout, since what cargo's build scripts write afterwards is unknown.
    restored: Option<Restored>,
}

/// The state in which the tests of a build find the checkout.
struct Restored {
    key: String,
    /// `git status` before any test ran.
    status: Vec<u8>,
    /// The files' times and sizes when they were last checked.
    stamps: Stamps,
}

impl<'a> BuildTree<'a> {
    /// Takes the worktree over.
    pub fn new(worktree: Worktree<'a>) -> Self {
        Self { worktree, restored: None }
    }

    /// Its root.
    pub fn path(&self) -> &Utf8Path {
        self.worktree.path()
    }

    /// Checks a revision out, without anything injected.
    pub fn check_out(&mut self, revision: &Revision) -> anyhow::Result<()> {
        self.restored = None;
        self.worktree.check_out(revision)
    }

    /// Brings the checkout to the state in which a build was made. Cheap if no test has changed it since.
    pub fn restore(&mut self, inputs: &Inputs<'_>, index: usize, entry: &Entry) -> anyhow::Result<()> {
        if self.is_restored(inputs, entry)? {
            return Ok(());
        }
        self.check_out(&inputs.plan.revisions[index])?;
        let mut injected = InjectedFiles::load(&inputs.cache.injected())?;
        for (path, content) in entry.injection()? {
            injected.write(self.worktree.path(), &path, &content)?;
        }
        injected.save()?;
        let status = self.worktree.status()?;
        let stamps = self.stamps(inputs)?;
        self.restored = Some(Restored { key: entry.provenance.key.clone(), status, stamps });
        Ok(())
    }

    /// Whether the checkout is still as the build's first test found it.
    fn is_restored(&mut self, inputs: &Inputs<'_>, entry: &Entry) -> anyhow::Result<bool> {
        let Some(restored) = self.restored.as_ref().filter(|restored| restored.key == entry.provenance.key)
        else {
            return Ok(false);
        };
        if restored.stamps.hold() {
            return Ok(true);
        }
        // `git status` covers the revision's own files. Injected files differ from the revision anyway, so their
        // contents are compared here.
        let is_there = |(path, content): (&Utf8PathBuf, &Vec<u8>)| {
            fs_err::read(self.worktree.path().join(path)).is_ok_and(|found| found == *content)
        };
        if !entry.injection()?.iter().all(is_there) || self.worktree.status()? != restored.status {
            return Ok(false);
        }
        // Only files changed that git ignores, or files of the crate for external overlays.
        let stamps = self.stamps(inputs)?;
        if let Some(restored) = &mut self.restored {
            restored.stamps = stamps;
        }
        Ok(true)
    }

    /// Stamps of the checkout, and of the crate for external overlays after it is restored.
    fn stamps(&self, inputs: &Inputs<'_>) -> anyhow::Result<Stamps> {
        let files = inputs.overlay_of(OverlayMode::External);
        let external = (!files.is_empty()).then(|| inputs.external_folder());
        if let Some(folder) = &external {
            external::restore(folder, &files)?;
        }
        Stamps::taken(std::iter::once(self.worktree.path()).chain(external.as_deref()))
    }
}
