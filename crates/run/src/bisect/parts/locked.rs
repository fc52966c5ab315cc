//! The lock file of a diff: which packages moved, and the text without some of the moves.

use std::collections::BTreeSet;

use crate::bisect::lockfile::lock_text::{LockText, Update};
use memprof_plan::lock_differences::{self, LockedPackage, LockedVersion};

/// The workspace's lock file at both commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedSides {
    /// Its path.
    pub path: String,
    old: LockText,
    new: LockText,
    moved: Vec<MovedPackage>,
}

/// A package that moved from one version to another. Packages that come or go follow from those that need
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedPackage {
    pub name: String,
    words: String,
    from: LockedPackage,
    to: LockedPackage,
}

impl MovedPackage {
    /// Returns `bytes 1.6.0 → 1.7.0`.
    pub fn words(&self) -> String {
        self.words.clone()
    }

    /// The move in the other direction.
    fn back(&self) -> Update {
        Update { name: self.name.clone(), from: self.to.version.clone(), to: self.from.version.clone() }
    }
}

impl LockedSides {
    /// Compares the lock files of both commits.
    pub fn new(path: String, old: &str, new: &str) -> Self {
        let [old, new] = [old, new].map(LockText::read);
        let of_version = |lock: &LockText, name: &str, version: &str| {
            let mut packages = lock.packages().into_iter();
            packages.find(|one| one.name == name && one.version == version && one.source.is_some()).cloned()
        };
        let moved = lock_differences::moved(external(&old), external(&new)).into_iter().filter_map(|moved| {
            let from = of_version(&old, &moved.name, moved.from.as_deref()?)?;
            let to = of_version(&new, &moved.name, moved.to.as_deref()?)?;
            Some(MovedPackage { words: moved.words(), name: moved.name, from, to })
        });
        let moved = moved.collect();
        Self { path, old, new, moved }
    }

    /// Whether both lock files have the same text in their packages.
    pub fn is_same(&self) -> bool {
        self.old == self.new
    }

    /// Returns the packages that moved.
    pub fn moved(&self) -> &[MovedPackage] {
        &self.moved
    }

    /// Returns the candidate's lock file with some packages at the baseline's version. Packages that only
    /// the baseline has are there, too: cargo takes what the manifests need, and removes the others.
    pub fn without(&self, left_out: &BTreeSet<usize>) -> String {
        let back: Vec<Update> = left_out.iter().map(|index| self.moved[*index].back()).collect();
        let composed = LockText::read(&self.new.with(&back, &self.old));
        composed.with_missing(&self.old)
    }

    /// Returns the names of packages that make a resolved lock file unusable: in a version that neither
    /// commit has, or not in the version that was asked for. Then those that need such a package.
    pub fn wrong(&self, resolved: &[u8], left_out: &BTreeSet<usize>) -> BTreeSet<String> {
        let resolved = LockText::read(&String::from_utf8_lossy(resolved));
        let (old, new) = (self.old.packages(), self.new.packages());
        let is_external = |one: &&LockedPackage| one.source.is_some();
        let packages: BTreeSet<&LockedPackage> =
            resolved.packages().into_iter().filter(is_external).collect();
        let foreign = packages.iter().filter(|one| !old.contains(**one) && !new.contains(**one));
        let mut wrong: BTreeSet<&str> = foreign.map(|one| one.name.as_str()).collect();
        for (index, moved) in self.moved.iter().enumerate() {
            let (unwanted, others) =
                if left_out.contains(&index) { (&moved.to, &old) } else { (&moved.from, &new) };
            if packages.contains(unwanted) && !others.contains(unwanted) {
                wrong.insert(&moved.name);
            }
        }
        let users =
            wrong.iter().flat_map(|name| self.new.users(name).into_iter().chain(self.old.users(name)));
        wrong.iter().copied().chain(users).map(str::to_owned).collect()
    }
}

/// Returns the packages that are not folders of the repository.
fn external(lock: &LockText) -> impl Iterator<Item = (&str, LockedVersion<'_>)> {
    lock.packages().into_iter().filter(|one| one.source.is_some()).map(LockedPackage::named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::lockfile::lock_text::tests::{lock, text};

    fn sides(old: &str, new: &str) -> LockedSides {
        LockedSides::new("Cargo.lock".to_owned(), &text(old), &text(new))
    }

    fn words(sides: &LockedSides) -> Vec<String> {
        sides.moved().iter().map(MovedPackage::words).collect()
    }

    #[test]
    fn each_package_that_moved_is_one_and_those_that_come_or_go_are_none() {
        let sides =
            sides("a 1.0.0: b, b 1.0.0, gone 1.0.0, x 1.0.0", "a 1.1.0: b c, b 1.0.0, c 1.0.0, x 2.0.0");
        assert_eq!(words(&sides), ["a 1.0.0 → 1.1.0", "x 1.0.0 → 2.0.0"]);
    }

    #[test]
    fn a_package_goes_back_to_the_baselines_version() {
        let sides = sides("a 1.0.0, b 1.0.0, gone 1.0.0", "a 1.1.0, b 1.1.0");
        let shown = |left_out: &[usize]| {
            let text = sides.without(&left_out.iter().copied().collect());
            let lock = LockText::read(&text);
            let versions = lock.versions().map(|(name, one)| format!("{name} {}", one.version));
            versions.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(shown(&[0]), "a 1.0.0, b 1.1.0, gone 1.0.0");
        assert_eq!(shown(&[]), "a 1.1.0, b 1.1.0, gone 1.0.0");
    }

    #[test]
    fn a_version_that_neither_commit_has_is_wrong_and_so_is_one_that_was_not_asked_for() {
        let sides = sides("a 1.0.0: b, b 1.0.0", "a 1.1.0: b, b 1.1.0");
        let wrong = |resolved: &str, left_out: &[usize]| -> Vec<String> {
            let left_out = left_out.iter().copied().collect();
            sides.wrong(text(resolved).as_bytes(), &left_out).into_iter().collect()
        };
        assert_eq!(wrong("a 1.0.0: b, b 1.1.0", &[0]), [""; 0]);
        assert_eq!(wrong("a 1.0.0: b, b 1.2.0", &[0]), ["a", "b"], "what needs it leads to the other hunks");
        assert_eq!(wrong("a 1.1.0: b, b 1.1.0", &[0]), ["a"], "it was left out");
        assert_eq!(wrong("a 1.1.0: b, b 1.0.0", &[]), ["a", "b"]);
        assert!(lock("a 1.0.0").users("a").is_empty());
    }
}
