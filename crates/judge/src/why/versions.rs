//! The versions of dependencies on both sides, from lock files or from the places of frames, and whether build scripts
//! wrote the same.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::why::frame::{Frame, Place};
use crate::why::hunks::Side;
use memprof_plan::lock_differences::{self, LockedVersion};

/// The versions of packages. A package may have several.
type ByName = BTreeMap<String, BTreeSet<String>>;

/// The versions of each package, by side.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    packages: [ByName; 2],
    /// Whether packages that are missing are known to be missing.
    is_complete: bool,
    /// The commits of the git repositories that stacks go through. Lock files name packages, and frames
    /// name repositories.
    commits: [ByName; 2],
    /// What the build scripts wrote whose code stacks go through, by package.
    outputs: [ByName; 2],
}

/// A dependency whose version differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhyDependency")]
pub struct ChangedDependency {
    /// The package.
    pub name: String,
    /// The version at the baseline; `null` if it has none.
    pub old: Option<String>,
    /// The version at the candidate; `null` if it has none.
    pub new: Option<String>,
}

impl Versions {
    /// Takes the packages and the git repositories that stacks go through.
    pub(crate) fn of_frames(frames: [&mut dyn Iterator<Item = &Frame>; 2]) -> Self {
        let mut versions = Self::default();
        for (side, frames) in frames.into_iter().enumerate() {
            for frame in frames {
                if let Some(Place::Generated { package, digest, .. }) = &frame.place {
                    versions.outputs[side].entry(package.clone()).or_default().extend(digest.clone());
                }
                let Some((name, version)) = package(frame) else { continue };
                let of = if is_of_git(frame) { &mut versions.commits } else { &mut versions.packages };
                of[side].entry(name.to_owned()).or_default().extend(version.map(str::to_owned));
            }
        }
        versions
    }

    /// Takes all packages of both lock files. The standard library may have the toolchain's version under
    /// the name `std`.
    #[must_use]
    pub fn with_lock_files(self, packages: [BTreeMap<String, BTreeSet<String>>; 2]) -> Self {
        Self { packages, is_complete: true, ..self }
    }

    /// Whether a build script wrote the frame's code, and may have written other code at the other revision.
    pub(crate) fn may_be_generated_otherwise(&self, frame: &Frame) -> bool {
        matches!(&frame.place, Some(Place::Generated { package, .. }) if self.may_write_others(package))
    }

    fn may_write_others(&self, package: &str) -> bool {
        let [old, new] = self.outputs.each_ref().map(|packages| packages.get(package));
        old != new || old.is_none_or(BTreeSet::is_empty)
    }

    /// Says of which build scripts it is not known what changed in the code that they wrote.
    pub(crate) fn problems(&self) -> Vec<String> {
        let packages: BTreeSet<&String> = self.outputs.iter().flat_map(BTreeMap::keys).collect();
        let unknown = packages.into_iter().filter(|package| self.may_write_others(package));
        let what = |package| {
            format!("it is not known what changed in the code that the build script of {package} wrote")
        };
        unknown.map(what).collect()
    }

    /// Returns how the version of a frame's package differs between the sides; `None` if it does
    /// not, or if it is unknown.
    pub fn change(&self, side: Side, frame: &Frame) -> Option<ChangedDependency> {
        let (name, version) = package(frame)?;
        let (of, is_complete) =
            if is_of_git(frame) { (&self.commits, false) } else { (&self.packages, self.is_complete) };
        let [locked, other] = [side as usize, 1 - side as usize].map(|side| of[side].get(name));
        let newest = |of: Option<&BTreeSet<String>>| lock_differences::newest(of?).map(str::to_owned);
        let own = version.map(str::to_owned).or_else(|| newest(locked))?;
        if other.is_some_and(|other| other.contains(&own)) || (other.is_none() && !is_complete) {
            return None;
        }
        // The standard library of Rust 1.63 to 1.74 names its own crates as if they were of a registry. No
        // lock file has them.
        if is_complete && !locked.is_some_and(|locked| locked.contains(&own)) {
            return None;
        }
        let [old, new] = of.each_ref().map(|of| {
            let versions = of.get(name).into_iter().flatten();
            versions.map(|version| (name, LockedVersion { version, source: "" }))
        });
        let moved = lock_differences::moved(old, new).into_iter();
        let mut pairs =
            moved.map(|one| if side == Side::Baseline { (one.from, one.to) } else { (one.to, one.from) });
        let own = Some(own);
        let partner = pairs.find(|(version, _)| *version == own).and_then(|(_, partner)| partner);
        // One of two versions has no partner if it is gone, or new, and the other stays.
        let other = partner.or_else(|| newest(other));
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
        Place::Checkout(_) | Place::Generated { .. } | Place::Other(_) => None,
    }
}

fn is_of_git(frame: &Frame) -> bool {
    matches!(frame.place, Some(Place::Git { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::stacks::tests::frame;

    fn packages(of: &[(&str, &str)]) -> ByName {
        let mut packages = ByName::new();
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
        let versions = Versions::default().with_lock_files([
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
    fn a_crate_that_its_own_side_does_not_lock_is_of_the_standard_library() {
        let text = "f@hashbrown-0.12.3/src/raw/mod.rs:1";
        for version in [None, Some("0.14.5")] {
            let locked = || version.map(|version| ("hashbrown", version));
            let locked = [locked(), locked()].map(|one| packages(one.as_slice()));
            let versions = Versions::default().with_lock_files(locked);
            for side in [Side::Baseline, Side::Candidate] {
                assert_eq!(changed(&versions, side, text), None, "{version:?}");
            }
        }
        // It may be a dependency of one side as well.
        let one_sided = [packages(&[]), packages(&[("hashbrown", "0.12.3")])];
        let versions = Versions::default().with_lock_files(one_sided);
        assert_eq!(changed(&versions, Side::Baseline, text), None);
        assert_eq!(changed(&versions, Side::Candidate, text), Some((None, Some("0.12.3".to_owned()))));
    }

    #[test]
    fn a_package_with_two_versions_moved_from_the_one_that_was_replaced() {
        let versions = Versions::default().with_lock_files([
            packages(&[("rand", "0.8.4"), ("rand", "0.9.0"), ("a", "0.9.0"), ("a", "0.10.0")]),
            packages(&[
                ("rand", "0.8.5"),
                ("rand", "0.9.0"),
                ("a", "0.9.0"),
                ("a", "0.10.0"),
                ("a", "1.0.0"),
            ]),
        ]);
        let moved = |from: &str, to: &str| Some((Some(from.to_owned()), Some(to.to_owned())));
        let candidate = |text: &str| changed(&versions, Side::Candidate, text);
        assert_eq!(candidate("f@rand-0.8.5/src/lib.rs:1"), moved("0.8.4", "0.8.5"));
        assert_eq!(candidate("f@a-1.0.0/src/lib.rs:1"), moved("0.10.0", "1.0.0"), "not by text");
        let old = changed(&versions, Side::Baseline, "f@rand-0.8.4/src/lib.rs:1");
        assert_eq!(old, moved("0.8.4", "0.8.5"));
    }

    #[test]
    fn a_git_dependency_differs_if_the_other_side_has_frames_of_other_commits_only() {
        let locked = || packages(&[("candle-core", "0.9.1")]);
        let change = |old: &[&str], new: &[&str]| {
            let [old, new] = [old, new].map(|side| side.iter().map(|text| frame(text)).collect::<Vec<_>>());
            let versions = Versions::of_frames([&mut old.iter(), &mut new.iter()]);
            let versions = versions.with_lock_files([locked(), locked()]);
            let change = versions.change(Side::Candidate, new.first()?)?;
            assert_eq!(versions.change(Side::Baseline, old.first()?), Some(change.clone()));
            Some((change.old?, change.new?))
        };
        let (first, second) = ("f@candle#6f0b7e2/src/lib.rs:1", "f@candle#aa17c03/src/lib.rs:1");
        assert_eq!(change(&[first], &[first]), None);
        assert_eq!(change(&["f@src/lib.rs:1"], &[first]), None, "the baseline has no stack through it");
        let commits = ("6f0b7e2".to_owned(), "aa17c03".to_owned());
        assert_eq!(change(&[first], &[second]), Some(commits));
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
