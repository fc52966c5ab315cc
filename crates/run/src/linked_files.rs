//! Changed files that a test may read by another path: that of a symbolic link.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use memprof_build::git::repository::Repository;

/// Adds the symbolic links of these commits through which a test may read one of the changed files.
pub(crate) fn add(
    changed: &mut BTreeSet<Utf8PathBuf>,
    repository: &Repository,
    commits: &BTreeSet<&str>,
) -> anyhow::Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let mut links: BTreeMap<Utf8PathBuf, BTreeSet<String>> = BTreeMap::new();
    for commit in commits {
        for link in repository.links(commit)? {
            if let Ok(target) = repository.link_target(commit, link.as_str()) {
                links.entry(link).or_default().extend(target);
            } else {
                // A partial clone may lack its content. In doubt it leads to a changed file.
                changed.insert(link);
            }
        }
    }
    // A link may lead to another one.
    loop {
        let leads = |(link, targets): &(&Utf8PathBuf, &BTreeSet<String>)| {
            let places = targets.iter().filter_map(|target| place(link, target));
            !changed.contains(*link) && places.into_iter().any(|place| is_changed(&place, changed))
        };
        let found: Vec<Utf8PathBuf> = links.iter().filter(leads).map(|(link, _)| link.clone()).collect();
        if found.is_empty() {
            return Ok(());
        }
        changed.extend(found);
    }
}

/// Returns the place that a link leads to, if it is in the checkout.
fn place(link: &Utf8Path, target: &str) -> Option<Utf8PathBuf> {
    let mut place = link.parent()?.to_owned();
    for component in Utf8Path::new(target).components() {
        match component {
            Utf8Component::CurDir => {}
            Utf8Component::Normal(name) => place.push(name),
            Utf8Component::ParentDir if place.pop() => {}
            _ => return None,
        }
    }
    Some(place)
}

/// Whether a file changed, or one in this folder, or the submodule that contains it.
fn is_changed(place: &Utf8Path, changed: &BTreeSet<Utf8PathBuf>) -> bool {
    let is_below = changed.range(place.to_owned()..).next().is_some_and(|path| path.starts_with(place));
    is_below || place.ancestors().any(|folder| changed.contains(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_a_folder_or_out_of_the_checkout() {
        let leads = |link: &str, target: &str| {
            let changed = ["leaf/tests/data/a.json", "sub"].map(Utf8PathBuf::from).into();
            place(Utf8Path::new(link), target).is_some_and(|place| is_changed(&place, &changed))
        };
        for target in ["../../leaf/tests/data", "../../leaf/tests/data/a.json", "../..", "../../sub/x.json"] {
            assert!(leads("app/tests/link", target), "{target}");
        }
        for target in
            ["../../leaf/tests/other", "a.json", "/etc/hosts", "../../../leaf", "../../leaf/tests/d"]
        {
            assert!(!leads("app/tests/link", target), "{target}");
        }
    }
}
