//! Which packages a build could have been limited to: those with the tests that the filter selects.

use std::collections::BTreeSet;

use memprof_build::attempts::Build;
use memprof_plan::cells::PlannedCell;
use memprof_plan::request::Request;
use memprof_support::counted::counted;

/// More packages are no shorter way to say it.
const MOST_NAMED: usize = 3;

/// Returns a line that names the packages with selected tests, if a filter selects tests and most
/// packages were built for nothing.
pub(crate) fn advice(request: &Request, builds: &[Build], cells: &[PlannedCell]) -> Option<String> {
    let has_filter = request.tests.iter().any(|entry| {
        let selection = &entry.selection;
        selection.expression.is_some() || selection.regex.is_some() || !selection.exact.is_empty()
    });
    let is_for_tests = request.tests.iter().all(|entry| entry.program.is_none());
    if !has_filter || !is_for_tests || !request.build.settings.packages.is_empty() {
        return None;
    }
    let entries = || builds.iter().filter_map(Build::entry);
    // What is not needed was left out.
    if entries().any(|entry| entry.provenance.key_inputs.selected.is_some()) {
        return None;
    }
    let packages: Vec<BTreeSet<&str>> = entries()
        .map(|entry| entry.provenance.executables.iter().map(|one| one.package.as_str()).collect())
        .collect();
    let selected = cells.iter().map(|planned| planned.cell.test.package.as_str()).collect();
    narrower(&packages, &selected)
}

/// `built` has the packages of each revision.
fn narrower(built: &[BTreeSet<&str>], selected: &BTreeSet<&str>) -> Option<String> {
    let all: BTreeSet<&str> = built.iter().flatten().copied().collect();
    // Cargo refuses a package that a revision lacks.
    let is_everywhere = built.iter().all(|packages| selected.is_subset(packages));
    let is_few = !selected.is_empty() && selected.len() <= MOST_NAMED && selected.len() * 2 <= all.len();
    (is_everywhere && is_few).then(|| {
        let names = selected.iter().map(|name| format!("-p {name}")).collect::<Vec<_>>().join(" ");
        format!("{} for tests of {}: {names} builds less", counted(all.len(), "package"), selected.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_with_selected_tests_are_named_if_most_have_none() {
        let advice = |built: &[&[&'static str]], selected: &[&'static str]| {
            let built: Vec<BTreeSet<&str>> =
                built.iter().map(|names| names.iter().copied().collect()).collect();
            narrower(&built, &selected.iter().copied().collect())
        };
        let all: &[&str] = &["toml", "toml_edit", "toml_parser", "toml_writer"];
        assert_eq!(
            advice(&[all, all], &["toml_edit"]).as_deref(),
            Some("4 packages for tests of 1: -p toml_edit builds less")
        );
        assert!(advice(&[all], &["toml", "toml_edit"]).unwrap().contains("-p toml -p toml_edit"));
        assert_eq!(advice(&[all], &["toml", "toml_edit", "toml_parser"]), None, "most are needed");
        assert_eq!(advice(&[all, &["toml"]], &["toml_edit"]), None, "one revision lacks it");
        assert_eq!(advice(&[&["toml"]], &["toml"]), None);
        assert_eq!(advice(&[all], &[]), None, "nothing is selected");
    }
}
