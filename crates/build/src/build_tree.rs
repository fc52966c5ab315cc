//! The checkout as builds and tests see it, and the build whose files it currently holds.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use crate::checkout::injected_files::{self, InjectedFiles};
use crate::checkout::missing_submodules::MissingSubmodule;
use crate::checkout::stamps::Stamps;
use crate::checkout::unusable;
use crate::checkout::worktree::{Worktree, paths_of_status};
use crate::inject::external;
use crate::job::Inputs;
use crate::store::Entry;
use memprof_plan::request::OverlayMode;
use memprof_plan::resolved::Revision;
use memprof_support::process::Command;
use memprof_support::regular_file::followed;

/// The checkout, and the build for whose tests it is currently set up.
pub struct BuildTree<'a> {
    worktree: Worktree<'a>,
    /// The tree of the last checkout, unless it failed.
    checked_out: Option<String>,
    /// Every checkout resets this, because build scripts may write files afterwards.
    restored: Option<Restored>,
}

/// The state of the checkout before the first test of a build.
struct Restored {
    key: String,
    /// Revisions with other documentation share a build.
    tree: String,
    /// `git status` before any test ran.
    status: Vec<u8>,
    /// The files' times and sizes when they were last checked.
    stamps: Stamps,
}

impl<'a> BuildTree<'a> {
    /// Takes ownership of the worktree.
    pub fn new(worktree: Worktree<'a>) -> Self {
        Self { worktree, checked_out: None, restored: None }
    }

    /// Returns its root.
    pub fn path(&self) -> &Utf8Path {
        self.worktree.path()
    }

    /// Returns git in the checkout.
    pub fn git(&self) -> Command {
        self.worktree.git()
    }

    /// Returns its git directory.
    pub(crate) fn git_directory(&self) -> &Utf8Path {
        self.worktree.git_directory()
    }

    /// Returns the files of the checkout that are not those of the revision, relative to it; `None` if git cannot
    /// tell.
    pub(crate) fn changed_files(&self) -> Option<BTreeSet<Utf8PathBuf>> {
        self.worktree.changed_files()
    }

    /// Checks a revision out, without injecting anything. Warns of submodules that are missing.
    pub fn check_out(&mut self, inputs: &Inputs<'_>, revision: &Revision) -> anyhow::Result<()> {
        self.restored = None;
        self.checked_out = None;
        self.worktree.check_out(revision)?;
        self.checked_out = Some(revision.tree.clone());
        for missing in self.worktree.missing_submodules().take_new() {
            let message =
                format!("{} lacks the submodule {}: {}", revision.name, missing.path, missing.reason);
            inputs.warn(message, Some(&missing.help()));
        }
        Ok(())
    }

    /// Returns the submodules that a revision lacks, if it has been checked out.
    pub fn missing_submodules(&self, revision: &Revision) -> Vec<MissingSubmodule> {
        self.worktree.missing_submodules().of_revision(&revision.name)
    }

    /// Returns what every report says about the submodules that revisions lack, of those that have been checked out.
    pub(crate) fn notes_on_submodules(&self) -> Vec<String> {
        MissingSubmodule::notes(&self.worktree.missing_submodules().all())
    }

    /// Restores the checkout to the state of a build. This is cheap if no test has changed it.
    pub fn restore(&mut self, inputs: &Inputs<'_>, index: usize, entry: &Entry) -> anyhow::Result<()> {
        if self.is_restored(inputs, index, entry, true)? {
            return Ok(());
        }
        let injection = entry.injection()?;
        let status = if let Some(status) = self.status_as_built(inputs, index, &injection)? {
            status
        } else {
            self.check_out(inputs, inputs.revision(index))?;
            let mut injected = InjectedFiles::load(&inputs.cache.injected())?;
            for (path, content) in injection {
                injected.write(self.worktree.path(), &path, &content)?;
            }
            injected.save()?;
            self.worktree.status()?
        };
        let stamps = self.stamps(inputs)?;
        let (key, tree) = (entry.provenance.key.clone(), inputs.revision(index).tree.clone());
        self.restored = Some(Restored { key, tree, status, stamps });
        Ok(())
    }

    /// Returns `git status` if the checkout is still as the build was prepared: a checkout would change no file of it.
    fn status_as_built(
        &self,
        inputs: &Inputs<'_>,
        index: usize,
        injection: &BTreeMap<Utf8PathBuf, Vec<u8>>,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let revision = inputs.revision(index);
        let is_as_built = self.checked_out.as_ref() == Some(&revision.tree)
            && self.worktree.is_at(&revision.commit)
            && injected_files::recorded(&inputs.cache.injected())?.iter().eq(injection.keys())
            && self.has(injection)
            // Git would wait for a FIFO.
            && !unusable::is_any(self.path().as_std_path());
        if !is_as_built {
            return Ok(None);
        }
        // A checkout repairs what keeps git from telling.
        let status = self.worktree.status().ok();
        let is_injected = |path: &String| injection.contains_key(Utf8Path::new(path));
        let status = status.filter(|status| paths_of_status(status).iter().all(is_injected));
        // The status has no empty folders, which a checkout removes.
        Ok(status.filter(|_| self.worktree.removable().is_some_and(|paths| paths.iter().all(is_injected))))
    }

    /// Whether the checkout has files with these contents.
    fn has(&self, files: &BTreeMap<Utf8PathBuf, Vec<u8>>) -> bool {
        let is_there = |(path, content): (&Utf8PathBuf, &Vec<u8>)| {
            followed::read(self.path().join(path)).is_ok_and(|found| found == *content)
        };
        files.iter().all(is_there)
    }

    /// Whether the checkout is still in the state that the build's first test found. What tests left in
    /// the crate for external overlays is removed, unless others run (`is_idle` is false).
    pub fn is_restored(
        &mut self,
        inputs: &Inputs<'_>,
        index: usize,
        entry: &Entry,
        is_idle: bool,
    ) -> anyhow::Result<bool> {
        let wanted = (&entry.provenance.key, &inputs.revision(index).tree);
        let is_wanted = |restored: &&Restored| (&restored.key, &restored.tree) == wanted;
        let Some(restored) = self.restored.as_ref().filter(is_wanted) else {
            return Ok(false);
        };
        if restored.stamps.hold() {
            return Ok(true);
        }
        if !is_idle && !inputs.overlay_of(OverlayMode::External).is_empty() {
            // A file there may be one that a test has just written and reads again.
            return Ok(false);
        }
        // Git would wait for a FIFO. A checkout removes it.
        if unusable::is_any(self.worktree.path().as_std_path()) {
            return Ok(false);
        }
        self.worktree.restore_link()?;
        // `git status` covers the revision's own files. Injected files differ from the revision
        // anyway, so their contents are compared here.
        let is_unchanged = self.has(&entry.injection()?)
            // A checkout repairs what keeps git from telling.
            && self.worktree.status().is_ok_and(|status| status == restored.status);
        if !is_unchanged {
            return Ok(false);
        }
        // Only ignored files have changed, or files of the crate for external overlays.
        let stamps = self.stamps(inputs)?;
        if let Some(restored) = &mut self.restored {
            restored.stamps = stamps;
        }
        Ok(true)
    }

    /// Returns stamps of the checkout and of the crate for external overlays. Restores that crate
    /// first.
    fn stamps(&self, inputs: &Inputs<'_>) -> anyhow::Result<Stamps> {
        let files = inputs.overlay_of(OverlayMode::External);
        let external = (!files.is_empty()).then(|| inputs.external_folder());
        if let Some(folder) = &external {
            external::restore(folder, &files)?;
        }
        Stamps::taken(std::iter::once(self.worktree.path()).chain(external.as_deref()))
    }
}
