//! Files of a commit that are symbolic links to other files of the same commit.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::git::repository::Repository;

/// A file of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    /// The file itself.
    File(Vec<u8>),
    /// A symbolic link to a file of the same commit, with that file's content.
    Link(Vec<u8>),
    /// A symbolic link that leads out of the repository, or nowhere.
    LeadsOutside(String),
    /// There is no such file.
    Absent,
}

/// The number of links that are followed.
const MOST_LINKS: usize = 8;

/// Returns the content of a file at a commit, also through symbolic links.
pub(crate) fn show(repository: &Repository, commit: &str, path: &str) -> anyhow::Result<Linked> {
    let mut place = Utf8PathBuf::from(path);
    let mut first = None;
    for _ in 0..MOST_LINKS {
        let Some(target) = repository.link_target(commit, place.as_str())? else { break };
        let next = resolved(&place, Utf8Path::new(&target));
        let first = first.get_or_insert(target);
        match next {
            Some(next) => place = next,
            None => return Ok(Linked::LeadsOutside(first.clone())),
        }
    }
    Ok(match (first, repository.link_target(commit, place.as_str())?) {
        (Some(first), Some(_)) => Linked::LeadsOutside(first),
        (first, _) => match (first, repository.show(commit, place.as_str())?) {
            (None, Some(content)) => Linked::File(content),
            (Some(_), Some(content)) => Linked::Link(content),
            (None, None) => Linked::Absent,
            (Some(first), None) => Linked::LeadsOutside(first),
        },
    })
}

/// Returns the path that a link leads to; `None` if that is outside of the repository.
fn resolved(link: &Utf8Path, target: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut path = link.parent()?.to_owned();
    for part in target.components() {
        match part {
            Utf8Component::Normal(name) => path.push(name),
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => path.pop().then_some(())?,
            Utf8Component::RootDir | Utf8Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_resolved_from_its_own_folder() {
        let resolved =
            |link: &str, target: &str| resolved(link.into(), target.into()).map(Utf8PathBuf::into_string);
        assert_eq!(resolved("a/Cargo.lock", "../b/./Cargo.lock").as_deref(), Some("b/Cargo.lock"));
        assert_eq!(resolved("Cargo.lock", "locks/one").as_deref(), Some("locks/one"));
        for target in ["/etc/passwd", "../outside", "a/../../outside"] {
            assert_eq!(resolved("Cargo.lock", target), None, "{target}");
        }
    }
}
