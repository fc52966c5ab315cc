//! Which failed targets of a build concern the user: those that can contain a selected or an added test.

use crate::failure::{BuildFailure, Fault};
use crate::inject::overlay::OverlayFile;
use crate::job::Job;
use crate::provenance::FailedTarget;
use crate::selected_targets::{self, RevisionTexts};
use crate::store::Entry;
use memprof_plan::request::Request;

/// Returns the build with those of its failed targets set aside that cannot contain a selected test.
pub(crate) fn judged(job: &Job<'_>, mut entry: Box<Entry>) -> Box<Entry> {
    let overlay = job.overlay();
    let texts = RevisionTexts::new(job.inputs.repository, job.revision(), &overlay, &job.inputs.patches);
    let failed = entry.provenance.failed_targets.iter().enumerate();
    let request = &job.inputs.plan.request;
    let texts = texts.without(&request.settings.sparse_exclude);
    let unselected = failed.filter(|(_, failed)| !texts.may_select(request, failed)).map(|(index, _)| index);
    entry.unselected = unselected.collect();
    entry
}

/// Returns a stored build, if nothing is missing in it that may be there by now, and nothing changed that cargo
/// tracks. A session goes on with a build that it has.
pub(crate) fn complete(job: &Job<'_>, entry: Box<Entry>) -> Option<Box<Entry>> {
    let is_whole = entry.provenance.missing_submodules.is_empty();
    let lacks_nothing = is_whole && !entry.lacks_libraries() && !entry.lacks_secrets();
    let is_usable = lacks_nothing
        && (job.inputs.used_builds.contains(&entry.folder) || job.is_current(&entry.provenance));
    let entry = is_usable.then(|| judged(job, entry))?;
    let lacks_selected = entry.selected_failures().next().is_some();
    (!lacks_selected).then_some(entry)
}

/// Returns the failure of a build in which no target with selected tests compiles.
pub(crate) fn failure_of_selected(
    request: &Request,
    entry: &Entry,
    overlay: &[OverlayFile],
) -> Option<BuildFailure> {
    let provenance = &entry.provenance;
    let has_some = provenance.executables.iter().any(|one| selected_targets::has_selected(request, one))
        || !provenance.unproven.is_empty();
    let failed: Vec<&FailedTarget> = entry.selected_failures().collect();
    (!has_some && !failed.is_empty()).then(|| {
        let is_of_overlay = failed.iter().all(|failed| is_of(failed, overlay));
        let fault = if is_of_overlay { Fault::Overlay } else { Fault::Code };
        BuildFailure { fault, ..failure_of(entry, &failed) }
    })
}

/// Returns the failure of a build in which one of the added test files does not compile.
pub(crate) fn failure_of_added(entry: &Entry, added: &[OverlayFile]) -> Option<BuildFailure> {
    let of_build = entry.provenance.failed_targets.iter();
    let failed: Vec<&FailedTarget> = of_build.filter(|failed| is_of(failed, added)).collect();
    (!failed.is_empty()).then(|| failure_of(entry, &failed))
}

/// Whether the root of a target is one of these files. A file without a package may be in any.
fn is_of(failed: &FailedTarget, files: &[OverlayFile]) -> bool {
    let is_of_package = |file: &OverlayFile| file.package.as_ref().is_none_or(|name| *name == failed.package);
    files.iter().any(|file| is_of_package(file) && failed.root.ends_with(&file.destination))
}

fn failure_of(entry: &Entry, failed: &[&FailedTarget]) -> BuildFailure {
    let errors: Vec<&str> = failed.iter().map(|failed| failed.errors.as_str()).collect();
    BuildFailure { first_errors: errors.join("\n"), hints: entry.hints.clone(), ..BuildFailure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::request::{OverlayMode, TargetKind};

    #[test]
    fn a_target_of_another_package_with_such_a_path_is_not_the_added_file() {
        let failed = FailedTarget {
            package: "one".into(),
            binary: "mem".into(),
            kind: TargetKind::Test,
            root: "one/tests/mem.rs".into(),
            errors: String::new(),
            is_program: false,
        };
        let is_of_package = |package: Option<&str>| {
            let file = OverlayFile {
                package: package.map(str::to_owned),
                destination: "tests/mem.rs".into(),
                content: Vec::new(),
                mode: OverlayMode::Package,
            };
            is_of(&failed, &[file])
        };
        assert!(is_of_package(Some("one")) && is_of_package(None) && !is_of_package(Some("two")));
    }
}
