//! What is known of a comparison before anything is built: the packages whose sources differ, and how long the
//! tests took in earlier runs. `--dry-run` prints it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use crate::estimate::PastTimes;
use memprof_build::documentation::{is_documentation, owner_of};
use memprof_build::git::repository::Repository;
use memprof_build::inject::committed_package;
use memprof_plan::resolved::Plan;

/// How many packages are named, and how many files of each.
const PACKAGES: usize = 12;
const FILES: usize = 3;

/// What differs between the baseline and a candidate.
#[derive(Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The candidate's name.
    candidate: String,
    /// The packages with other sources, and the first of the files that differ.
    changed: BTreeMap<String, Vec<String>>,
    /// Further packages with other sources.
    #[serde(skip_serializing_if = "is_zero")]
    more_changed: usize,
    /// How many packages have the same sources. Cargo builds those that use a changed one.
    same_sources: usize,
    /// Files that differ and belong to no package. All tests may use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<String>,
    /// How many files of documentation differ.
    documentation: usize,
    /// How long one run of each test of the changed packages takes at both refs, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_of_changed: Option<f64>,
    /// The same for all tests of earlier runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_of_all: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Returns what is known of each candidate.
///
/// # Errors
///
/// Git cannot read a commit.
pub fn forecasts(plan: &Plan, repository: &Repository, past: &PastTimes) -> anyhow::Result<Vec<Forecast>> {
    let baseline = &plan.revisions[plan.baseline];
    let candidates = plan.revisions.iter().enumerate().filter(|(index, _)| *index != plan.baseline);
    let forecast = |(_, candidate): (usize, &memprof_plan::resolved::Revision)| {
        let mut packages = committed_package::packages(repository, &baseline.commit)?;
        packages.extend(committed_package::packages(repository, &candidate.commit)?);
        let changed = repository.changed_paths(&baseline.commit, &candidate.commit)?;
        Ok(Forecast::new(candidate.name.clone(), &packages, &changed, past))
    };
    candidates.map(forecast).collect()
}

impl Forecast {
    /// `packages` are the names by the folders.
    fn new(
        candidate: String,
        packages: &BTreeMap<Utf8PathBuf, String>,
        changed: &[String],
        past: &PastTimes,
    ) -> Self {
        let folders: BTreeSet<Utf8PathBuf> = packages.keys().cloned().collect();
        let mut of_packages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let (mut elsewhere, mut documentation) = (Vec::new(), 0);
        for path in changed {
            let owner = owner_of(Utf8Path::new(path), &folders);
            match owner.map(|folder| &*packages[folder]) {
                _ if is_documentation(Utf8Path::new(path), owner) => documentation += 1,
                Some(package) => of_packages.entry(package).or_default().push(path.clone()),
                None => elsewhere.push(path.clone()),
            }
        }
        let times = past.by_package();
        let seconds = |times: Vec<Duration>| {
            let at_both = times.iter().sum::<Duration>() * 2;
            (!times.is_empty()).then(|| (at_both.as_secs_f64() * 10.0).round() / 10.0)
        };
        let of_changed = times.iter().filter(|(package, _)| of_packages.contains_key(**package));
        Self {
            candidate,
            same_sources: packages.len() - of_packages.len(),
            more_changed: of_packages.len().saturating_sub(PACKAGES),
            seconds_of_changed: seconds(of_changed.map(|(_, time)| *time).collect()),
            seconds_of_all: seconds(times.values().copied().collect()),
            changed: of_packages
                .into_iter()
                .take(PACKAGES)
                .map(|(package, files)| (package.to_owned(), first_of(files)))
                .collect(),
            elsewhere: first_of(elsewhere),
            documentation,
        }
    }
}

/// Returns the first files, and how many more there are.
fn first_of(mut files: Vec<String>) -> Vec<String> {
    let more = files.len().saturating_sub(FILES);
    files.truncate(FILES);
    if more > 0 {
        files.push(format!("{more} more"));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_told_by_package_and_long_lists_are_cut() {
        let packages: BTreeMap<Utf8PathBuf, String> =
            (0..40).map(|number| (format!("p{number:02}").into(), format!("package{number:02}"))).collect();
        let of = |changed: &[&str]| {
            let changed: Vec<String> = changed.iter().map(|&path| path.to_owned()).collect();
            Forecast::new("pr/7".into(), &packages, &changed, &PastTimes::default())
        };
        let found = of(&["README.md", "p01/README.md", "p07/src/lib.rs", "Cargo.lock"]);
        assert_eq!((found.same_sources, found.documentation), (39, 2));
        assert_eq!(found.changed["package07"], ["p07/src/lib.rs"]);
        assert_eq!((found.elsewhere, found.seconds_of_all), (vec!["Cargo.lock".to_owned()], None));
        let all: Vec<String> =
            (0..20).flat_map(|number| (0..5).map(move |file| format!("p{number:02}/{file}.rs"))).collect();
        let found = of(&all.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((found.changed.len(), found.more_changed, found.same_sources), (12, 8, 20));
        assert_eq!(found.changed["package00"], ["p00/0.rs", "p00/1.rs", "p00/2.rs", "2 more"]);
    }
}
