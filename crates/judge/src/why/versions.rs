//! The versions of dependencies on both sides, from lock files or from the places of frames.

use std::collections::{BTreeMap, BTreeSet};

use crate::why::frame::{Frame, Place};
use crate::why::hunks::Side;

/// The versions of each package, by side. A package may have several.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    of: [BTreeMap<String, BTreeSet<String>>; 2],
    /// Whether packages that are missing are known to be missing.
    is_complete: bool,
}

/// A dependency whose version differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangedDependency {
    /// The package.
    pub name: String,
    /// The version at the baseline; `None` if it has none.
    pub old: Option<String>,
    /// The version at the candidate; `None` if it has none.
    pub new: Option<String>,
}

impl Versions {
    /// Takes all packages of both lock files. Git packages have their commit as version, and the
    /// standard library may have the toolchain's under the name `std`.
    pub fn of_lock_files(of: [BTreeMap<String, BTreeSet<String>>; 2]) -> Self {
        Self { of, is_complete: true }
    }

    /// Takes the packages that stacks go through.
    pub(crate) fn of_frames(frames: [&mut dyn Iterator<Item = &Frame>; 2]) -> Self {
        let mut versions = Self::default();
        for (of, frames) in versions.of.iter_mut().zip(frames) {
            for (name, version) in frames.filter_map(|frame| package(frame)) {
                of.entry(name.to_owned()).or_default().extend(version.map(str::to_owned));
            }
        }
        versions
    }

    /// Returns how the version of a frame's package differs between the sides; `None` if it does
    /// not, or if it is unknown.
    pub fn change(&self, side: Side, frame: &Frame) -> Option<ChangedDependency> {
        let (name, version) = package(frame)?;
        let [own, other] = [side as usize, 1 - side as usize].map(|side| self.of[side].get(name));
        let newest = |versions: Option<&BTreeSet<String>>| versions?.last().cloned();
        let own = version.map(str::to_owned).or_else(|| newest(own))?;
        if other.is_some_and(|other| other.contains(&own)) || (other.is_none() && !self.is_complete) {
            return None;
        }
        let (own, other) = (Some(own), newest(other));
        let (old, new) = if side == Side::Baseline { (own, other) } else { (other, own) };
        Some(ChangedDependency { name: name.to_owned(), old, new })
    }
}

/// Returns the package of a frame, and its version as far as the frame says it.
fn package(frame: &Frame) -> Option<(&str, Option<&str>)> {
    match frame.place.as_ref()? {
        Place::Registry { name, version, .. } => Some((name, Some(version))),
        Place::Git { name, rev, .. } => Some((name, Some(rev))),
        Place::Std(_) => Some(("std", None)),
        Place::Checkout(_) | Place::Other(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::stacks::tests::frame;

    fn packages(of: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
        let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, version) in of {
            packages.entry((*name).to_owned()).or_default().insert((*version).to_owned());
        }
        packages
    }

    fn changed(versions: &Versions, side: Side, text: &str) -> Option<(Option<String>, Option<String>)> {
        versions.change(side, &frame(text)).map(|change| (change.old, change.new))
    }

    #[test]
    fn a_dependency_differs_if_the_other_side_lacks_its_version() {
        let versions = Versions::of_lock_files([
            packages(&[("a", "1.0.0"), ("b", "1.0.0"), ("b", "2.0.0"), ("std", "1.94.0")]),
            packages(&[("a", "1.0.1"), ("b", "2.0.0"), ("c", "3.0.0"), ("std", "1.95.0")]),
        ]);
        let some = |text: &str| Some(text.to_owned());
        let of = |text: &str| changed(&versions, Side::Candidate, text);
        assert_eq!(of("a::f@a-1.0.1/src/lib.rs:1"), Some((some("1.0.0"), some("1.0.1"))));
        assert_eq!(of("b::f@b-2.0.0/src/lib.rs:1"), None, "one of two versions stayed");
        assert_eq!(of("c::f@c-3.0.0/src/lib.rs:1"), Some((None, some("3.0.0"))));
        assert_eq!(of("core::f"), Some((some("1.94.0"), some("1.95.0"))), "another toolchain");
        assert_eq!(of("own::f@src/lib.rs:1"), None);
        let old = changed(&versions, Side::Baseline, "b::f@b-1.0.0/src/lib.rs:1");
        assert_eq!(old, Some((some("1.0.0"), some("2.0.0"))));
    }

    #[test]
    fn stacks_alone_do_not_show_that_a_dependency_is_new() {
        let frames =
            [["a::f@a-1.0.0/src/lib.rs:1", "core::f"], ["a::f@a-1.0.1/src/lib.rs:1", "c::f@c-3.0.0/x.rs:1"]];
        let [old, new] = frames.map(|side| side.map(frame));
        let versions = Versions::of_frames([&mut old.iter(), &mut new.iter()]);
        assert!(changed(&versions, Side::Candidate, "a::f@a-1.0.1/src/lib.rs:1").is_some());
        assert_eq!(changed(&versions, Side::Candidate, "c::f@c-3.0.0/x.rs:1"), None);
        assert_eq!(changed(&versions, Side::Baseline, "core::f"), None);
    }
}
