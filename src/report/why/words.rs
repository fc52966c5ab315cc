//! The words for what a change has to do with a site.

use crate::why::class::{Class, Existence};
use crate::why::function_path::shortened;

/// A function in a remark is cut to this width.
const MOST_OF_CALLER: usize = 40;

/// Returns the words for a class. `candidate` is the name of the ref.
pub(super) fn class(class: Option<&Class>, candidate: &str) -> String {
    let candidate = if candidate == "." { "the working tree" } else { candidate };
    match class {
        Some(Class::Changed(Existence::Both, _)) => format!("changed in {candidate}"),
        Some(Class::Changed(Existence::New, _)) => format!("new in {candidate}"),
        Some(Class::Changed(Existence::Deleted, _)) => format!("deleted in {candidate}"),
        Some(Class::CalledFrom(caller, _)) => {
            format!("called from changed {}", shortened(&caller.function, MOST_OF_CALLER))
        }
        Some(Class::Dependency(changed)) => match (&changed.old, &changed.new) {
            (Some(old), Some(new)) => format!("{} {} → {}", changed.name, version(old), version(new)),
            (None, Some(new)) => format!("{} {} is new", changed.name, version(new)),
            (Some(old), None) => format!("{} {} is gone", changed.name, version(old)),
            (None, None) => format!("{} changed", changed.name),
        },
        Some(Class::Unchanged) => "unchanged".to_owned(),
        None => String::new(),
    }
}

/// Shortens a commit.
fn version(text: &str) -> &str {
    let is_commit = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { &text[..9] } else { text }
}
