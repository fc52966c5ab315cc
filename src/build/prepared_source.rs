//! What is laid into a revision's checkout before cargo runs, and what of it is left out once a build failed with it.

use std::io::Write;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::CompilerMessage;

use crate::build::builder::Builder;
use crate::cargo::lockfile::{self, Lockfile};
use crate::cargo::toolchain::Toolchain;
use crate::checkout::injected_files::InjectedFiles;
use crate::inject::checkout_edits::{self, Injection};
use crate::inject::external::{self, PackageOptions};
use crate::inject::overlay::OverlayFile;
use crate::inject::own_allocator::{self, OwnAllocators, Refused};
use crate::plan::request::OverlayMode;
use crate::support::counted::counted;
use crate::support::event::Event;
use crate::trace::dependency_copies::Copy;
use crate::trace::instrument::{Blame, Dropped, Tracing};

/// What was laid over a checkout.
pub(crate) struct Laid {
    pub(crate) injection: Injection,
    /// The manifest that cargo is called with.
    pub(crate) manifest: Utf8PathBuf,
    /// Of the workspace; none where the tests are those of a crate outside of it.
    pub(crate) allocators: Option<OwnAllocators>,
    pub(crate) tracing: Tracing,
    /// Of traced crates of the registry.
    pub(crate) copies: Vec<Copy>,
}

/// What of a revision stays as it is, because a build that changed it failed.
#[derive(Default)]
pub(crate) struct LeftAlone {
    pub(crate) allocators: Refused,
    functions: Dropped,
    /// Builds that failed with traced functions in them.
    rounds: usize,
}

impl LeftAlone {
    /// Whether something that was changed in the checkout may be why a build failed: it is then to be left alone.
    pub(crate) fn suspect(
        &mut self,
        laid: &mut Laid,
        errors: &[CompilerMessage],
        workspace: &Utf8Path,
        checkout: &Utf8Path,
        log: &mut impl Write,
    ) -> anyhow::Result<bool> {
        let errors = || errors.iter().map(|error| &error.message);
        let located = |file: &str| Some(workspace.join(file).strip_prefix(checkout).ok()?.to_owned());
        let blame = Blame::of_round(self.rounds);
        let is_located = |copy: &Copy| {
            let mut places = errors().flat_map(|error| &error.spans);
            places.any(|place| copy.located(&place.file_name).is_some())
        };
        let mut of_copies = 0;
        let copies = laid.copies.iter_mut().filter(|copy| !copy.tracing.is_empty());
        for copy in copies.filter(|copy| blame == Blame::All || is_located(copy)) {
            let suspects = copy.tracing.suspects(errors(), |file| copy.located(file), blame);
            of_copies += suspects.len();
            copy.drop(suspects)?;
        }
        if of_copies > 0 {
            self.rounds += 1;
            writeln!(log, "# once more, without tracing {}", counted(of_copies, "function"))?;
            return Ok(true);
        }
        if !laid.tracing.is_empty() {
            let suspects = laid.tracing.suspects(errors(), located, blame);
            self.rounds += 1;
            writeln!(log, "# once more, without tracing {}", counted(suspects.len(), "function"))?;
            self.functions.extend(suspects);
            return Ok(true);
        }
        let suspects = laid
            .allocators
            .as_ref()
            .map(|allocators| allocators.suspects(&errors().collect::<Vec<_>>(), workspace, &self.allocators))
            .unwrap_or_default();
        if suspects.is_empty() {
            return Ok(false);
        }
        let files: Vec<&str> = suspects.keys().map(|file| file.as_str()).collect();
        writeln!(log, "# once more, with the global allocator of {} as it is", files.join(", "))?;
        self.allocators.extend(suspects);
        Ok(true)
    }
}

impl Builder<'_> {
    /// The files of overlays that get a crate of their own.
    fn outside(&self) -> Vec<OverlayFile> {
        self.overlay.iter().filter(|file| file.mode == OverlayMode::External).cloned().collect()
    }

    fn external_folder(&self) -> Utf8PathBuf {
        self.cache.folder().join("external")
    }

    /// Brings that crate's folder, if there is one, to the state in which its tests expect it. Returns the folder.
    pub(crate) fn restore_external(&self) -> anyhow::Result<Option<Utf8PathBuf>> {
        let (files, folder) = (self.outside(), self.external_folder());
        if files.is_empty() {
            return Ok(None);
        }
        external::restore(&folder, &files)?;
        Ok(Some(folder))
    }

    /// Checks the revision out and lays over it what its build needs, but for what is to be left alone.
    pub(crate) fn lay_out(
        &mut self,
        index: usize,
        toolchain: &Toolchain,
        left: &LeftAlone,
    ) -> anyhow::Result<Laid> {
        let revision = &self.plan.revisions[index];
        self.current = None;
        self.worktree.check_out(revision)?;
        let checkout = self.worktree.path().to_owned();
        let mut injected = InjectedFiles::load(&self.cache.injected())?;
        let inside: Vec<OverlayFile> =
            self.overlay.iter().filter(|file| file.mode == OverlayMode::Package).cloned().collect();
        let mut injection =
            checkout_edits::lay_overlay(&inside, &checkout, &self.plan.workspace, toolchain, &mut injected)?;
        if let Lockfile::Given(text) = &self.lockfile
            && !lockfile::is_committed(self.plan, index, self.repository)?
        {
            let path = self.plan.workspace.join("Cargo.lock");
            injected.write(&checkout, &path, text)?;
            injection.insert(path, text.clone());
        }
        let manifest = self.workspace().join("Cargo.toml");
        let outside = self.outside();
        if outside.is_empty() {
            let metadata = checkout_edits::metadata(toolchain, &manifest)?;
            let allocators = own_allocator::find(&metadata, &checkout, &left.allocators)?;
            injection.extend(allocators.write(&checkout, &mut injected)?);
            // From here on files are read from the checkout as they were written so far.
            let mut tracing = self.traced(&metadata, toolchain, &left.functions)?;
            injection.extend(tracing.write(&checkout, &mut injected)?);
            let copies = self.copies(index, &manifest, toolchain)?;
            for copy in &copies {
                tracing.add_facts(&copy.tracing.facts);
            }
            injection.extend(checkout_edits::append_lines(&metadata, &checkout, &mut injected)?);
            injected.save()?;
            return Ok(Laid { injection, manifest, allocators: Some(allocators), tracing, copies });
        }
        let place = external::Place {
            folder: self.external_folder(),
            record: self.cache.folder().join("external.json"),
            checkout: &checkout,
            workspace: &self.plan.workspace,
        };
        let (options, _) = PackageOptions::split_off(&self.plan.request.build, self.features(index));
        let laid = external::lay_out(&place, &self.plan.request.overlay, &outside, &options, toolchain)?;
        for message in laid.not_carried {
            self.sink.emit(Event::Warning { message, help: None });
        }
        // Of the workspace's members nothing is compiled through its wrapper then: what is traced is given the shim as
        // other path dependencies are.
        let mut tracing = Tracing::default();
        let mut copies = Vec::new();
        if !self.patterns.is_empty() {
            tracing = self.traced(
                &checkout_edits::metadata(toolchain, &laid.manifest)?,
                toolchain,
                &left.functions,
            )?;
            injection.extend(tracing.write(&checkout, &mut injected)?);
            copies = self.copies(index, &laid.manifest, toolchain)?;
            for copy in &copies {
                tracing.add_facts(&copy.tracing.facts);
            }
        }
        injected.save()?;
        Ok(Laid { injection, manifest: laid.manifest, allocators: None, tracing, copies })
    }
}
