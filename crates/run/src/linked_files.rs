//! Files that are known by another path: that of a symbolic link. A test may read them by it, or the compiler.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use memprof_build::git::repository::Repository;

/// The most paths of one file.
const MOST_PATHS: usize = 16;

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

/// The symbolic links of a commit, each with the place that it leads to.
pub(crate) struct Links(Vec<(Utf8PathBuf, Utf8PathBuf)>);

impl Links {
    /// Reads the links. One whose content is missing in a partial clone leads nowhere.
    pub fn of(repository: &Repository, commit: &str) -> anyhow::Result<Self> {
        let place_of = |link: Utf8PathBuf| {
            let target = repository.link_target(commit, link.as_str()).ok().flatten()?;
            let place = place(&link, &target)?;
            Some((link, place))
        };
        Ok(Self(repository.links(commit)?.into_iter().filter_map(place_of).collect()))
    }

    /// Returns the other paths of a file: through links, and through links to these.
    pub fn paths_to(&self, file: &str) -> Vec<String> {
        let mut paths = vec![Utf8PathBuf::from(file)];
        let mut next = 0;
        // A link to a folder around it has any number of paths.
        while next < paths.len() && paths.len() < MOST_PATHS {
            for (link, place) in &self.0 {
                let Ok(inside) = paths[next].strip_prefix(place) else { continue };
                let path: Utf8PathBuf = link.components().chain(inside.components()).collect();
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            next += 1;
        }
        paths.into_iter().skip(1).map(Utf8PathBuf::into_string).collect()
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
    fn a_file_has_the_paths_of_links_to_it_and_to_folders_around_it() {
        let links =
            [("src/z.rs", "shared/z.rs"), ("old", "src"), ("members/foo", "impl/foo"), ("impl/up", "")];
        let links = Links(links.map(|(link, place)| (link.into(), place.into())).into());
        assert_eq!(links.paths_to("shared/z.rs")[..3], ["src/z.rs", "impl/up/shared/z.rs", "old/z.rs"]);
        assert_eq!(links.paths_to("impl/foo/src/lib.rs")[0], "members/foo/src/lib.rs");
        assert!(links.paths_to("a.rs").len() < MOST_PATHS + links.0.len(), "each path has one above it");
        assert!(Links(Vec::new()).paths_to("a.rs").is_empty());
    }

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
