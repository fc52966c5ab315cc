//! What differs between the sides of a comparison, in words: dependencies, by the two lock files that
//! the builds used, and settings.

use crate::results::build_facts::{BuildFacts, Fact};
use crate::results::stored::Results;
use memprof_plan::dependency_change::{DependencyChange, Replacement, short_rev};
use memprof_plan::lock_differences::{self, LockedVersion, MovedDependency};
use memprof_plan::request::RefRequest;
use memprof_plan::side;

/// How a candidate differs from the baseline, apart from the commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideDifference {
    /// The packages that differ.
    pub dependencies: Vec<MovedDependency>,
    /// Settings, in words: `feature arena`.
    pub settings: Vec<String>,
    /// The packages that the user asked for.
    asked: Vec<String>,
    /// Whether the user asked for other dependencies, and it is known whether the sides have others.
    is_asked: bool,
}

/// Returns how each revision differs from the baseline.
pub(crate) fn of_all(results: &Results) -> Vec<SideDifference> {
    (0..results.plan.revisions.len()).map(|revision| difference_of(results, revision)).collect()
}

fn difference_of(results: &Results, revision: usize) -> SideDifference {
    let plan = &results.plan;
    if revision == plan.baseline {
        return SideDifference::default();
    }
    let none = RefRequest::default();
    let [old, new] = [plan.baseline, revision]
        .map(|index| plan.revisions[index].request_in(&plan.request).unwrap_or(&none));
    let [old_changes, new_changes] = [old, new].map(|one| side::dependencies(&plan.request, Some(one)));
    let only = |of: &[DependencyChange], than: &[DependencyChange]| -> Vec<DependencyChange> {
        of.iter().filter(|one| !than.contains(one)).cloned().collect()
    };
    let (added, removed) = (only(&new_changes, &old_changes), only(&old_changes, &new_changes));
    let mut settings: Vec<String> = added.iter().filter_map(|one| replaced(one, "")).collect();
    settings.extend(removed.iter().filter_map(|one| replaced(one, "not ")));
    settings.extend(side::differences(&plan.request, old, new));
    let facts = results.builds.get(&plan.baseline).zip(results.builds.get(&revision));
    SideDifference {
        dependencies: facts.and_then(|(old, new)| moved(old, new)).unwrap_or_default(),
        settings,
        is_asked: (!added.is_empty() || !removed.is_empty() || old.lockfile != new.lockfile)
            && facts.is_none_or(|(old, new)| have_sources(old, new)),
        asked: added.into_iter().chain(removed).map(|one| one.package).collect(),
    }
}

/// Returns `serde from ../serde`. A version is among the packages that differ.
fn replaced(change: &DependencyChange, not: &str) -> Option<String> {
    match &change.to {
        Replacement::Version(_) => None,
        Replacement::Path(path) => Some(format!("{} {not}from {path}", change.package)),
        Replacement::Git { url, rev: Some(rev) } => {
            Some(format!("{} {not}from {url} at {}", change.package, short_rev(rev)))
        }
        Replacement::Git { url, rev: None } => Some(format!("{} {not}from {url}", change.package)),
    }
}

/// Returns the packages that differ between two builds, by their facts; `None` if a build of an earlier
/// version does not say them. Sources are compared if both builds say them.
pub(crate) fn moved(old: &BuildFacts, new: &BuildFacts) -> Option<Vec<MovedDependency>> {
    let (old, new) = packages(old, new)?;
    Some(lock_differences::moved(old, new))
}

/// Whether the facts of both builds say where their packages come from.
fn have_sources(old: &BuildFacts, new: &BuildFacts) -> bool {
    packages(old, new).is_some_and(|(old, _)| old.iter().all(|(_, one)| !one.source.is_empty()))
}

type Packages<'a> = Vec<(&'a str, LockedVersion<'a>)>;

/// Returns the packages of two builds, without sources if one of them lacks those.
pub(crate) fn packages<'a>(old: &'a BuildFacts, new: &'a BuildFacts) -> Option<(Packages<'a>, Packages<'a>)> {
    let read = |of: &'a BuildFacts| Some(lock_differences::of_lines(of.get(Fact::Packages)?).collect());
    let (mut old, mut new): (Packages<'_>, Packages<'_>) = (read(old)?, read(new)?);
    if old.iter().chain(&new).any(|(_, one)| one.source.is_empty()) {
        old.iter_mut().chain(&mut new).for_each(|(_, one)| one.source = "");
    }
    Some((old, new))
}

impl SideDifference {
    /// Returns all in one line: `serde 1.0.180 → 1.0.200, and 3 crates with it; feature arena`. `None`
    /// if nothing differs.
    pub fn words(&self) -> Option<String> {
        let asked: Vec<&str> = self.asked.iter().map(String::as_str).collect();
        let dependencies = lock_differences::summary(&self.dependencies, &asked);
        let words: Vec<String> = dependencies.into_iter().chain(self.settings.iter().cloned()).collect();
        match words.is_empty() {
            true if self.is_asked => Some("nothing: both sides have the same dependencies".to_owned()),
            true => None,
            false => Some(words.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(packages: &str) -> BuildFacts {
        [(Fact::Packages, packages.replace("; ", "\n"))].into_iter().collect()
    }

    #[test]
    fn dependencies_and_settings_are_one_line() {
        let difference = SideDifference {
            dependencies: moved(&facts("a 1.0.0; b 1.0.0"), &facts("a 1.0.1; b 1.0.1")).unwrap(),
            settings: vec!["feature arena".to_owned()],
            asked: vec!["b".to_owned()],
            is_asked: true,
        };
        assert_eq!(
            difference.words().unwrap(),
            "b 1.0.0 → 1.0.1, and with it a 1.0.0 → 1.0.1; feature arena"
        );
        let nothing = SideDifference { is_asked: true, ..SideDifference::default() };
        assert_eq!(nothing.words().unwrap(), "nothing: both sides have the same dependencies");
        assert_eq!(SideDifference::default().words(), None);
        assert_eq!(moved(&BuildFacts::default(), &facts("a 1.0.0")), None, "builds of earlier versions");
    }

    #[test]
    fn sources_are_compared_if_both_builds_say_them() {
        let (registry, folder) =
            (facts("a 1.0.0 crates.io; b 1.0.0 folder"), facts("a 1.0.0 folder; b 1.0.0 folder"));
        let words =
            |old, new| moved(old, new).unwrap().iter().map(MovedDependency::words).collect::<Vec<_>>();
        assert_eq!(words(&registry, &folder), ["a 1.0.0 (crates.io → folder)"]);
        let earlier = facts("a 1.0.0; b 1.0.0");
        assert_eq!(words(&earlier, &folder), [""; 0]);
        assert!(have_sources(&registry, &folder) && !have_sources(&earlier, &folder));
    }

    #[test]
    fn a_replaced_package_is_said_with_its_source() {
        let of = |text: &str| replaced(&text.parse().unwrap(), "");
        assert_eq!(of("serde@1.0.200"), None);
        assert_eq!(of("serde=/x/serde").unwrap(), "serde from /x/serde");
        assert_eq!(of("serde=https://x.org/y@main").unwrap(), "serde from https://x.org/y at main");
    }
}
