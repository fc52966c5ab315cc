//! The words for what a change has to do with a site.

use crate::why::class::{Class, Existence};
use crate::why::difference::Group;
use crate::why::function_path::shortened;

/// A function in a remark is cut to this width.
const MOST_OF_CALLER: usize = 40;

/// Returns the words for a class. `candidate` is the name of the ref.
pub(in crate::report) fn class(group: &Group, candidate: &str) -> String {
    let class = group.class.as_ref();
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
        // Maybe a type has another size, or a buffer another length.
        Some(Class::Unchanged) if has_other_sizes(group) => "unchanged, blocks of another size".to_owned(),
        Some(Class::Unchanged) => "unchanged".to_owned(),
        None => String::new(),
    }
}

/// Whether both sides allocated as many blocks, with other bytes.
fn has_other_sizes(group: &Group) -> bool {
    let [old, new] = group.figures;
    old.count == new.count && old.count > 0 && old.allocated != new.allocated
}

/// Shortens a commit.
fn version(text: &str) -> &str {
    let is_commit = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { &text[..9] } else { text }
}
