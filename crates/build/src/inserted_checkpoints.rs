//! The checkpoints of a request (`--checkpoint-at`) in a build: which crate each is in, and what
//! helps if one does not compile.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Metadata;
use cargo_metadata::diagnostic::Diagnostic;

use crate::checkout::injected_files::InjectedFiles;
use crate::inject::checkout_edits::AddedFiles;
use crate::inject::module_files;
use crate::job::Job;
use crate::shim;
use crate::trace::checkpoints;
use crate::trace::crates::{self, Crate};
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The checkpoints that a revision got.
#[derive(Clone, Debug, Default)]
pub(crate) struct InsertedCheckpoints {
    /// The edited files of the checkout.
    pub files: AddedFiles,
    /// Whether a file belongs to a crate that is not a member of the workspace.
    pub beyond_members: bool,
}

/// Returns the checkpoints as parts of the build's key.
pub(crate) fn ingredients(job: &Job<'_>) -> BTreeMap<String, String> {
    let text = |one: &CheckpointAt| format!("{}={}", one.place(), one.label);
    job.checkpoints().enumerate().map(|(index, one)| (format!("checkpoint {index}"), text(one))).collect()
}

/// Inserts the checkpoints into the files of the checkout, but for those in crates `outside` of it.
///
/// # Errors
/// A place does not exist in this revision, or no crate compiles its file.
pub(crate) fn insert(
    job: &Job<'_>,
    metadata: &Metadata,
    outside: &[&CheckpointAt],
    injected: &mut InjectedFiles,
) -> anyhow::Result<InsertedCheckpoints> {
    let mut inserted = InsertedCheckpoints::default();
    let mut by_file: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for one in job.checkpoints().filter(|one| !outside.contains(one)) {
        by_file.entry(&one.file).or_default().push((one.line, &one.label));
    }
    if by_file.is_empty() {
        return Ok(inserted);
    }
    let checkout = &job.inputs.checkout;
    let owners = owners(&crates::own_crates(metadata, checkout, job.toolchain)?, &by_file, checkout);
    for (file, places) in by_file {
        let line = places[0].0;
        let path = Utf8Path::new(file);
        let owners = owners.get(path).map_or(&[][..], Vec::as_slice);
        let refused = |line: usize, reason: &str| refused(job, file, line, reason);
        if !checkout.join(path).is_file() {
            return Err(refused(line, "there is no such file, and no dependency of this name").into());
        }
        if owners.is_empty() {
            return Err(refused(line, "no crate of the workspace has this file as a module").into());
        }
        if let Some(reason) = owners.iter().find_map(|owner| owner.untraceable) {
            return Err(refused(line, reason).into());
        }
        let text = followed::text(checkout.join(path))?;
        let mut text =
            checkpoints::insert(&text, &places).map_err(|(line, reason)| refused(line, &reason))?;
        if owners.iter().any(|owner| !owner.is_member) {
            // Cargo does not see which shim these crates get, so the text itself must tell.
            _ = writeln!(text, "\n// {}", shim::source_hash());
            inserted.beyond_members = true;
        }
        injected.write(checkout, path, text.as_bytes())?;
        inserted.files.insert(path.to_owned(), text.into_bytes());
    }
    Ok(inserted)
}

/// Returns the crates that compile each of these files.
fn owners(
    crates: &[Crate],
    files: &BTreeMap<&str, Vec<(usize, &str)>>,
    checkout: &Utf8Path,
) -> BTreeMap<Utf8PathBuf, Vec<Crate>> {
    let mut owners: BTreeMap<Utf8PathBuf, Vec<Crate>> = BTreeMap::new();
    for one in crates {
        module_files::visit_files(&one.root, &one.package, &mut |file| {
            let Ok(path) = file.path.strip_prefix(checkout) else { return };
            if files.contains_key(path.as_str()) {
                owners.entry(path.to_owned()).or_default().push(one.clone());
            }
        });
    }
    owners
}

/// Returns the error about a place that cannot have a checkpoint.
fn refused(job: &Job<'_>, file: &str, line: usize, reason: &str) -> UserError {
    let revision = job.revision();
    let shown = revision.named();
    UserError::new(format!("--checkpoint-at {file}:{line} has no place at {shown}: {reason}"))
        .help(format!("give this ref a line of its own: --checkpoint-at {}:{file}:LINE=LABEL", revision.name))
}

/// Returns advice about the checkpoints in whose files the compiler found errors. An error may be at
/// another line: a checkpoint before the last value of a block can change the block's type.
pub(crate) fn hints(job: &Job<'_>, errors: &[&Diagnostic]) -> Vec<String> {
    let is_in = |one: &CheckpointAt| {
        let of_crate = Utf8Path::new(&one.file).components().skip(1).collect::<Utf8PathBuf>();
        errors.iter().flat_map(|error| &error.spans).any(|span| {
            let file = Utf8Path::new(&span.file_name);
            // Cargo names the workspace's files relative to it, and those of dependencies in full.
            job.inputs.workspace().join(file) == job.inputs.checkout.join(&one.file)
                || (file.is_absolute() && file.ends_with(&of_crate))
        })
    };
    let hint = |one: &CheckpointAt| {
        format!(
            "the checkpoint '{}' at {} may be the cause; choose another line: --checkpoint-at {}:LINE={}",
            one.label,
            one.place(),
            one.file,
            one.label
        )
    };
    job.checkpoints().filter(|one| is_in(one)).map(hint).collect()
}
