//! Prepares a revision's source for cargo: checks it out, and injects the overlay, the lock file,
//! the shim's lines, wrapped allocators and scopes.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::SystemTime;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::diagnostic::Diagnostic;
use cargo_metadata::{CompilerMessage, Package};

use crate::build_tree::BuildTree;
use crate::checkout::injected_files::{self, InjectedFiles};
use crate::checkout::removal::remove_whatever_is_at;
use crate::inject::checkout_edits::{self, AddedFiles};
use crate::inject::external::{self, ExternalCrate, PackageOptions};
use crate::inject::outside_paths::{self, NamedFolder};
use crate::inject::own_allocator::{self, OwnAllocators, RefusedFiles};
use crate::inject::patch;
use crate::inserted_checkpoints;
use crate::job::Job;
use crate::memory_crate;
use crate::trace::dependency_copies::EditedCopy;
use crate::trace::instrument::{Blame, Dropped, Tracing};
use crate::traced_sources::{self, NamedDependencies};
use memprof_plan::request::OverlayMode;
use memprof_support::counted::counted;
use memprof_support::stamp::Stamp;
use memprof_support::user_error::UserError;

/// A checkout with everything that its build needs.
pub(crate) struct PreparedSource {
    /// The injected files.
    pub injection: AddedFiles,
    /// The manifest to call cargo with.
    pub manifest: Utf8PathBuf,
    /// The folders of the workspace's packages, relative to the checkout; empty if the tests are in a
    /// crate outside the workspace.
    pub members: BTreeSet<Utf8PathBuf>,
    /// The workspace's packages; empty if the tests are in a crate outside the workspace.
    pub packages: Vec<Package>,
    /// The workspace's own allocators; `None` if the tests are in a crate outside the workspace.
    pub allocators: Option<OwnAllocators>,
    /// The traced functions of the checkout.
    pub tracing: Tracing,
    /// Edited copies of crates outside of the repository.
    pub copies: Vec<EditedCopy>,
    /// Whether crates of the checkout that are not members of the workspace are edited.
    pub beyond_members: bool,
    /// What the caller changed of the revision's own files.
    pub changes: Vec<ChangedSource>,
    /// When all of this was written, by the clock of the file system; `None` if this is unknown.
    pub written: Option<SystemTime>,
}

/// Edits that are skipped because a build failed with them.
#[derive(Default)]
pub(crate) struct SkippedEdits {
    /// Allocators that are not wrapped, with the reason.
    pub allocators: RefusedFiles,
    functions: Dropped,
    /// The number of failed builds with traced functions.
    failed_traced_builds: usize,
}

/// Checks the revision out and injects everything that its build needs, except skipped edits.
pub(crate) fn prepare(
    job: &Job<'_>,
    tree: &mut BuildTree<'_>,
    skipped: &SkippedEdits,
) -> anyhow::Result<PreparedSource> {
    prepare_changed(job, tree, skipped, &[])
}

/// A file to change in the checkout: its path, and its content; `None` removes it.
pub type ChangedSource = (Utf8PathBuf, Option<Vec<u8>>);

/// Prepares a revision with changes of its own files.
pub(crate) fn prepare_changed(
    job: &Job<'_>,
    tree: &mut BuildTree<'_>,
    skipped: &SkippedEdits,
    changes: &[ChangedSource],
) -> anyhow::Result<PreparedSource> {
    let inputs = job.inputs;
    let folders = job.side().map(|side| side.folders.as_slice()).unwrap_or_default();
    let (mut injection, mut injected) = lay_request(job, folders, tree)?;
    let checkout = &inputs.checkout;
    change_files(checkout, changes, &mut injected)?;
    injection.extend(memory_crate::place(inputs.repository.root(), checkout, &mut injected)?);
    if let Some(text) = job.injected_lockfile()? {
        let path = inputs.plan.workspace.join("Cargo.lock");
        injected.write(checkout, &path, &text)?;
        injection.insert(path, text);
    }
    let is_external = !inputs.overlay_of(OverlayMode::External).is_empty();
    let prepare = if is_external { prepare_external_crate } else { prepare_workspace };
    let prepared = prepare(job, skipped, injection, &mut injected)?;
    injected.save()?;
    let written = Stamp::read(inputs.cache.injected()).map(Stamp::time);
    Ok(PreparedSource { changes: changes.to_vec(), written, ..prepared })
}

/// Changes files of the checkout. A file may take the place of a folder, so what goes comes first.
///
/// # Errors
///
/// `UserError` if a file that stays takes the place of a folder, or the other way round.
fn change_files(
    checkout: &Utf8Path,
    changes: &[ChangedSource],
    injected: &mut InjectedFiles,
) -> anyhow::Result<()> {
    for (path, _) in changes.iter().filter(|(_, content)| content.is_none()) {
        let path = checkout.join(path);
        let folders = || path.ancestors().skip(1).take_while(|folder| *folder != checkout);
        injected_files::check_inside(checkout, folders().next().unwrap_or(checkout))?;
        // A sparse checkout may lack the file, and a submodule is a folder.
        remove_whatever_is_at(&path)?;
        // Like git, leaves no empty folder.
        let _ = folders().try_for_each(fs_err::remove_dir);
    }
    for (path, content) in changes {
        let Some(content) = content else { continue };
        let place = checkout.join(path);
        let is_folder = place.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let mut folders = place.ancestors().skip(1).take_while(|folder| *folder != checkout);
        if is_folder || folders.any(Utf8Path::is_file) {
            return Err(UserError::new(format!("{path} would be both a file and a folder")).into());
        }
        injected.write(checkout, path, content)?;
    }
    Ok(())
}

/// Checks the revision out, and adds the files and patches of the request.
pub(crate) fn lay_request(
    job: &Job<'_>,
    folders: &[NamedFolder],
    tree: &mut BuildTree<'_>,
) -> anyhow::Result<(AddedFiles, InjectedFiles)> {
    let inputs = job.inputs;
    tree.check_out(inputs, job.revision())?;
    let checkout = &inputs.checkout;
    // Cargo writes the lock file there.
    injected_files::check_inside(checkout, &inputs.workspace())?;
    let mut injected = InjectedFiles::load(&inputs.cache.injected())?;
    let of_paths = outside_paths::write(folders, &job.revision().name, checkout, &mut injected)?;
    let mut overlay = job.overlay();
    overlay.retain(|file| file.mode == OverlayMode::Package);
    let mut injection = checkout_edits::lay_overlay(
        &overlay,
        checkout,
        &inputs.plan.workspace,
        job.toolchain,
        &mut injected,
    )?;
    // The overlay may have replaced a manifest, or added tests to it.
    for (path, text) in of_paths {
        injection.entry(path).or_insert(text);
    }
    injection.extend(patch::apply(&inputs.patches, job.revision(), checkout, &mut injected)?);
    Ok((injection, injected))
}

/// Edits the workspace itself, which contains the tests to run.
fn prepare_workspace(
    job: &Job<'_>,
    skipped: &SkippedEdits,
    mut injection: AddedFiles,
    injected: &mut InjectedFiles,
) -> anyhow::Result<PreparedSource> {
    let checkout = &job.inputs.checkout;
    let manifest = job.inputs.workspace().join("Cargo.toml");
    let metadata = checkout_edits::metadata(job.toolchain, &manifest, &job.inputs.workspace())?;
    let allocators = own_allocator::find(&metadata, checkout, &skipped.allocators)?;
    injection.extend(allocators.write(checkout, injected)?);
    let outside = NamedDependencies::find(job, &manifest)?;
    let checkpoints = inserted_checkpoints::insert(job, &metadata, &outside.checkpoints, injected)?;
    injection.extend(checkpoints.files);
    // Tracing must see the files with the edits so far.
    let mut tracing = traced_sources::traced(job, &metadata, &skipped.functions)?;
    injection.extend(tracing.write(checkout, injected)?);
    let copies = outside.copies(job, &manifest)?;
    for copy in &copies {
        tracing.add_facts(&copy.tracing.facts);
    }
    let with_programs = !job.inputs.plan.request.programs().is_empty();
    injection.extend(checkout_edits::append_lines(&metadata, checkout, with_programs, injected)?);
    let beyond_members = checkpoints.beyond_members || tracing.is_beyond_members();
    let allocators = Some(allocators);
    let folders = metadata.packages.iter().filter_map(|package| package.manifest_path.parent());
    let members =
        folders.filter_map(|folder| folder.strip_prefix(checkout).ok()).map(ToOwned::to_owned).collect();
    Ok(PreparedSource {
        injection,
        manifest,
        members,
        packages: metadata.packages,
        allocators,
        tracing,
        copies,
        beyond_members,
        changes: Vec::new(),
        written: None,
    })
}

/// Writes the crate for external overlays, which depends on packages of the checkout.
pub(crate) fn external_crate(job: &Job<'_>) -> anyhow::Result<ExternalCrate> {
    let inputs = job.inputs;
    let place = external::ExternalCratePaths {
        folder: inputs.external_folder(),
        record: inputs.cache.folder().join("external.json"),
        checkout: &inputs.checkout,
        workspace: &inputs.plan.workspace,
    };
    let (options, _) = PackageOptions::split_off(&job.options(), job.features());
    let files = inputs.overlay_of(OverlayMode::External);
    external::lay_out(&place, &inputs.plan.request.overlay, &files, &options, job.toolchain)
}

/// Prepares the crate for external overlays, and traces what it depends on.
fn prepare_external_crate(
    job: &Job<'_>,
    skipped: &SkippedEdits,
    mut injection: AddedFiles,
    injected: &mut InjectedFiles,
) -> anyhow::Result<PreparedSource> {
    let inputs = job.inputs;
    let checkout = &inputs.checkout;
    let laid = external_crate(job)?;
    for message in laid.not_carried {
        inputs.warn(message, None);
    }
    // Cargo does not call the workspace wrapper for dependencies. Traced ones get the shim from the
    // other wrapper.
    let mut tracing = Tracing::default();
    let mut copies = Vec::new();
    let mut beyond_members = false;
    if !inputs.patterns.is_empty() || job.checkpoints().next().is_some() {
        let metadata = checkout_edits::metadata(job.toolchain, &laid.manifest, &job.inputs.workspace())?;
        let outside = NamedDependencies::find(job, &laid.manifest)?;
        let checkpoints = inserted_checkpoints::insert(job, &metadata, &outside.checkpoints, injected)?;
        injection.extend(checkpoints.files);
        beyond_members = checkpoints.beyond_members;
        tracing = traced_sources::traced(job, &metadata, &skipped.functions)?;
        injection.extend(tracing.write(checkout, injected)?);
        copies = outside.copies(job, &laid.manifest)?;
        for copy in &copies {
            tracing.add_facts(&copy.tracing.facts);
        }
    }
    beyond_members |= tracing.is_beyond_members();
    Ok(PreparedSource {
        injection,
        manifest: laid.manifest,
        members: BTreeSet::new(),
        packages: Vec::new(),
        allocators: None,
        tracing,
        copies,
        beyond_members,
        changes: Vec::new(),
        written: None,
    })
}

impl PreparedSource {
    /// Whether an error may come from an edit: it is in an edited file, or it mentions what was put in.
    pub(crate) fn has_edits_at(&self, job: &Job<'_>, errors: &[CompilerMessage]) -> bool {
        let workspace = job.inputs.workspace();
        let is_edited = |file: &str| {
            let path = workspace.join(file);
            let path = path.strip_prefix(&job.inputs.checkout).unwrap_or(&path);
            self.tracing.is_edited(path)
                || self.allocators.as_ref().is_some_and(|allocators| allocators.is_edited(path))
                || self.copies.iter().any(|copy| copy.located(file).is_some())
        };
        errors.iter().map(|error| &error.message).any(|error| {
            let text = error.rendered.as_deref().unwrap_or(&error.message);
            let mentions_edit = text.contains("Heap<") || text.contains("memprof::");
            let has_any = !self.tracing.is_empty() || self.allocators.is_some();
            (has_any && mentions_edit) || error.spans.iter().any(|span| is_edited(&span.file_name))
        })
    }

    /// After a failed build, skips the edits that may have caused it. Returns whether there are
    /// any, so that another build makes sense.
    pub(crate) fn skip_suspects(
        &mut self,
        skipped: &mut SkippedEdits,
        job: &Job<'_>,
        errors: &[CompilerMessage],
        log: &mut impl Write,
    ) -> anyhow::Result<bool> {
        let errors: Vec<&Diagnostic> = errors.iter().map(|error| &error.message).collect();
        let workspace = job.inputs.workspace();
        let located =
            |file: &str| Some(workspace.join(file).strip_prefix(&job.inputs.checkout).ok()?.to_owned());
        let blame = Blame::of_round(skipped.failed_traced_builds);
        let in_copies = self.drop_in_copies(&errors, blame)?;
        if in_copies > 0 {
            skipped.failed_traced_builds += 1;
            writeln!(log, "# trying again without tracing {}", counted(in_copies, "function"))?;
            return Ok(true);
        }
        if !self.tracing.is_empty() {
            let suspects = self.tracing.suspects(errors.iter().copied(), located, blame);
            skipped.failed_traced_builds += 1;
            writeln!(log, "# trying again without tracing {}", counted(suspects.len(), "function"))?;
            skipped.functions.extend(suspects);
            return Ok(true);
        }
        let suspects = self
            .allocators
            .as_ref()
            .map(|allocators| allocators.suspects(&errors, &workspace, &skipped.allocators))
            .unwrap_or_default();
        if suspects.is_empty() {
            return Ok(false);
        }
        let files: Vec<&str> = suspects.keys().map(|file| file.as_str()).collect();
        writeln!(log, "# trying again without wrapping the global allocator of {}", files.join(", "))?;
        skipped.allocators.extend(suspects);
        Ok(true)
    }

    /// Stops tracing functions in those crates outside of the repository that the errors are about.
    /// Returns how many.
    fn drop_in_copies(&mut self, errors: &[&Diagnostic], blame: Blame) -> anyhow::Result<usize> {
        let is_located = |copy: &EditedCopy| {
            let mut places = errors.iter().flat_map(|error| &error.spans);
            places.any(|place| copy.located(&place.file_name).is_some())
        };
        let mut dropped = 0;
        let traced = self.copies.iter_mut().filter(|copy| !copy.tracing.is_empty());
        for copy in traced.filter(|copy| blame == Blame::All || is_located(copy)) {
            let suspects = copy.tracing.suspects(errors.iter().copied(), |file| copy.located(file), blame);
            dropped += suspects.len();
            copy.drop(suspects)?;
        }
        Ok(dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure;

    #[test]
    fn what_goes_may_be_missing_or_a_folder_and_makes_room_for_what_stays() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        let checkout = root.join("worktree");
        for path in ["shape/square.rs", "vendor/lib/Cargo.toml", "kept/a.rs", "kept/b.rs", "file"] {
            fs_err::create_dir_all(checkout.join(path).parent().unwrap()).unwrap();
            fs_err::write(checkout.join(path), "new").unwrap();
        }
        let mut injected = InjectedFiles::load(&root.join("injected.json")).unwrap();
        let mut change = |changes: &[(&str, Option<&str>)]| {
            let change = |(path, content): &(&str, Option<&str>)| {
                (Utf8PathBuf::from(path), content.map(|content| content.as_bytes().to_vec()))
            };
            let changes: Vec<ChangedSource> = changes.iter().map(change).collect();
            change_files(&checkout, &changes, &mut injected)
        };
        change(&[
            // The candidate made a folder of the file, added a submodule, and a file that is not checked out.
            ("shape", Some("old")),
            ("shape/square.rs", None),
            ("vendor/lib", None),
            ("excluded/a.txt", None),
            ("kept/a.rs", None),
        ])
        .unwrap();
        assert_eq!(fs_err::read_to_string(checkout.join("shape")).unwrap(), "old");
        assert!(!checkout.join("vendor").exists() && !checkout.join("kept/a.rs").exists());
        assert!(checkout.join("kept/b.rs").exists());
        for conflict in ["kept", "file/a.rs"] {
            let error = change(&[(conflict, Some("old"))]).unwrap_err();
            assert!(failure::concerns_one_revision(&error), "{conflict}: {error:?}");
        }
    }
}
