//! What a user should know of a build that succeeded: what is not measured, and what was left out.

use camino::Utf8Path;

use crate::adapters;
use crate::job::Inputs;
use crate::store::Entry;
use memprof_plan::clean_env::own_variables;
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::counted::counted;
use memprof_support::event::{Event, Sink};

/// How many warnings about targets without selected tests a revision gets.
const MOST_NOTES: usize = 3;

/// Warns of executables that are not measured, and of missing adapters that the code uses. `log` is the build's.
pub(crate) fn warn_of_entry(inputs: &Inputs<'_>, revision: &Revision, entry: &Entry, log: &Utf8Path) {
    for executable in &entry.provenance.unproven {
        let message = format!("not measured: {executable} in {}: {}", revision.name, executable.reason);
        inputs.warn(message, Some("its tests have no figures"));
    }
    for target in entry.selected_failures() {
        let failed = target.not_measured();
        let message = format!("not measured: {failed} in {}: {}", revision.name, failed.reason);
        let cure = match target.missing_features() {
            features if features.is_empty() => format!("full log: {log}"),
            features => format!("it may need --features {}; full log: {log}", features.join(",")),
        };
        inputs.warn(message, Some(&format!("its tests have no figures; {cure}")));
    }
    let notes = entry.notes(revision);
    if let Some(more) = notes.len().checked_sub(MOST_NOTES).filter(|more| *more > 0) {
        let targets = counted(more, "more test target");
        let message = format!("{targets} of {} do not compile; the report's notes name them", revision.name);
        inputs.warn(message, None);
    }
    for note in notes.into_iter().take(MOST_NOTES) {
        inputs.warn(note, None);
    }
    for reason in &entry.provenance.left_out {
        if !uses(inputs, revision, adapters::named_in(reason)) {
            continue;
        }
        let help = "its report does not name this framework's tensors; everything else is measured";
        inputs.warn(format!("{}: {reason}", revision.name), Some(help));
    }
}

/// Whether the code of a revision or of an overlay has this name. Frameworks of today and of
/// years ago have adapters that do not compile, which is nothing to those who use none.
fn uses(inputs: &Inputs<'_>, revision: &Revision, adapter: &str) -> bool {
    let Inputs { overlay, patches, repository, .. } = inputs;
    let has = |text: &[u8]| String::from_utf8_lossy(text).contains(adapter);
    if overlay.iter().any(|file| has(&file.content)) || patches.iter().any(|patch| has(patch.content())) {
        return true;
    }
    let search = ["grep", "--quiet", "--fixed-strings", "-e", adapter, &revision.commit, "--", "*.rs"];
    // Code 1 means that there is no such text. After an error, the warning does no harm.
    repository.git().args(search).capture().is_ok_and(|found| found.status.code() != Some(1))
}

/// Warns of variables that decide builds and that `--clean-env` removes because they hold a secret.
pub(crate) fn warn_of_withheld(plan: &Plan, sink: &dyn Sink) {
    let Some(clean_env) = &plan.request.clean_env else { return };
    for name in clean_env.withheld(own_variables()) {
        sink.emit(Event::Warning {
            message: format!("--clean-env removes {name}, because its value contains a secret"),
            help: Some(format!("to let untrusted code see it: --keep-env {name}")),
        });
    }
}
