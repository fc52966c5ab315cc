//! What the user can do about an error: the line after `error:`.

use crate::archive::file::ArchiveError;
use crate::checkout::worktree::CheckoutError;
use crate::git::fetch::FetchError;
use crate::git::resolve_error::ResolveError;
use crate::git::workspace_folder::NoManifest;
use crate::support::user_error::Complaint;

/// The advice of the first error in the chain that has one.
pub fn help(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        let resolve = || cause.downcast_ref().and_then(ResolveError::help);
        let fetch = || cause.downcast_ref().and_then(FetchError::help);
        let manifest = || cause.downcast_ref().and_then(NoManifest::help);
        let checkout = || cause.downcast_ref().and_then(CheckoutError::help);
        let archive = || cause.downcast_ref().and_then(ArchiveError::help);
        let complaint = || cause.downcast_ref::<Complaint>().and_then(|complaint| complaint.help.clone());
        resolve().or_else(fetch).or_else(manifest).or_else(checkout).or_else(archive).or_else(complaint)
    })
}

/// Whether the error is about what the user asked for, and not a fault of the machine or of this program.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<ResolveError>()
            || cause.is::<FetchError>()
            || cause.is::<NoManifest>()
            || cause.is::<CheckoutError>()
            || cause.is::<ArchiveError>()
            || cause.is::<crate::support::file_lock::LockError>()
    })
}
