//! Errors about requests that select nothing: an entry that matches no test, and a plan without a cell to
//! run.

use crate::cell_status::CellStatus;
use crate::listing::{ListedRevision, TestsByRevision};
use crate::planned_cell::PlannedCell;
use crate::program::ProgramRequest;
use crate::request::{Ignored, Request, Selection, TestRequest};
use crate::selection::{Selector, described};
use memprof_support::process::shell_quoted;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// A request, and the tests and programs that it selects from.
pub(crate) struct Choice<'a> {
    pub request: &'a Request,
    pub revisions: &'a [ListedRevision<'a>],
    pub tests: TestsByRevision<'a>,
    pub programs: TestsByRevision<'a>,
}

impl Choice<'_> {
    /// Returns the error about an entry that matches no test. It is an error, unless the user
    /// selects only a part of the matrix, or a revision that did not build may have the test.
    pub(crate) fn unmatched_entry(
        &self,
        entry: &TestRequest,
        selector: &Selector<'_>,
    ) -> Result<Option<UserError>, UserError> {
        let part_only = entry.selection.within.is_some() || self.builds_part();
        let user_error = no_match(&described_or_any(entry), selector, &self.tests, self.revisions);
        let may_match_elsewhere = part_only && self.request.tests.len() > 1;
        if may_match_elsewhere || self.any_has_unknown_tests() {
            Ok(Some(user_error))
        } else {
            Err(user_error)
        }
    }

    /// Returns the error about names of `exact` that no test has, while the entry has others that a
    /// test has. It is only a warning if such a test may be in what was not built.
    pub(crate) fn unmatched_names(
        &self,
        entry: &TestRequest,
        missing: &Selection,
    ) -> Result<Option<UserError>, UserError> {
        let user_error = no_match(&described(missing), &Selector::new(missing)?, &self.tests, self.revisions);
        // Names of the command line are meant for this build, those of memprof.yaml may not be.
        let may_match_elsewhere = self.request.has_other_revisions || (!entry.rest && self.builds_part());
        if may_match_elsewhere || self.any_has_unknown_tests() {
            Ok(Some(user_error))
        } else {
            Err(user_error)
        }
    }

    fn builds_part(&self) -> bool {
        let build = &self.request.build;
        build.selects_targets() || !build.settings.packages.is_empty()
    }

    /// Whether a revision may have tests that are not listed.
    pub(crate) fn any_has_unknown_tests(&self) -> bool {
        self.revisions.iter().any(ListedRevision::has_unknown_tests)
    }

    /// Refuses a plan in which no cell runs, and says why none does.
    pub(crate) fn check_that_something_runs(
        &self,
        cells: &[PlannedCell],
        excluded_any: bool,
    ) -> Result<(), UserError> {
        if self.any_has_unknown_tests() || cells.iter().any(|cell| cell.status == CellStatus::Run) {
            return Ok(());
        }
        let revisions = in_revisions(self.revisions);
        Err(if self.tests.is_empty() && self.programs.is_empty() {
            UserError::new(format!("there are no tests in {revisions}")).help(
                "doc-tests are not measured; was the right package built? --workspace builds all packages, and \
                 --overlay adds a test that no revision has",
            )
        } else if !cells.is_empty() {
            UserError::new(format!("each test that matches is marked #[ignore] in {revisions}"))
                .help("--include-ignored runs them too, --ignored runs only them")
        } else if excluded_any {
            UserError::new("`exclude` and `include` leave no cell to run")
        } else {
            self.nothing_selected()?
        })
    }

    fn nothing_selected(&self) -> Result<UserError, UserError> {
        let Some(selection) = self.request.tests.last().map(|entry| &entry.selection) else {
            return Ok(UserError::new("no tests are selected"));
        };
        let words = described(selection);
        let only_ignored = selection.ignored == Ignored::Only;
        let words = if only_ignored { format!("{words} --ignored").trim().to_owned() } else { words };
        Ok(no_match(&words, &Selector::new(selection)?, &self.tests, self.revisions))
    }
}

fn described_or_any(entry: &TestRequest) -> String {
    let words = described(&Selection { within: None, ..entry.selection.clone() });
    if words.is_empty() { "anything".to_owned() } else { words }
}

/// Returns the error `no test matches -k 'hf_fdw' in main (4f1c2aa)`, with similar names.
fn no_match(
    words: &str,
    selector: &Selector<'_>,
    found: &TestsByRevision<'_>,
    revisions: &[ListedRevision<'_>],
) -> UserError {
    let nearest = selector.nearest(found.keys().copied());
    let all = match found.len() {
        1 => "the only test".to_owned(),
        count => format!("all {count} tests"),
    };
    let all = format!("to see {all}: {}", list_command(revisions));
    let help = if nearest.is_empty() { all } else { format!("nearest: {}\n{all}", nearest.join(", ")) };
    UserError::new(format!("no test matches {words} in {}", in_revisions(revisions))).help(help)
}

/// Returns the command that lists the tests of these revisions: `cargo memprof list main pr/7`.
fn list_command(revisions: &[ListedRevision<'_>]) -> String {
    let mut words = vec!["cargo memprof list".to_owned()];
    // Without a ref, the command lists the working tree.
    if !revisions.iter().all(|listed| listed.revision.working_tree) {
        let specs = || revisions.iter().map(|listed| listed.revision.spec.as_str());
        for spec in specs() {
            // `main...HEAD` lists `HEAD`, too.
            if specs().any(|other| other.strip_suffix(spec).is_some_and(|start| start.ends_with("..."))) {
                continue;
            }
            let spec = shell_quoted(spec.as_ref());
            if !words.contains(&spec) {
                words.push(spec);
            }
        }
    }
    words.join(" ")
}

/// Returns the error `there is no bin 'tol' in main (4f1c2aa)`, with similar names.
pub(crate) fn no_program(program: &ProgramRequest, revisions: &[ListedRevision<'_>]) -> UserError {
    let mut known: Vec<&str> = Vec::new();
    for target in revisions.iter().flat_map(|listed| listed.known_programs) {
        if !known.contains(&target.as_str()) {
            known.push(target);
        }
    }
    let (kind, name) = (program.kind.as_str(), &program.name);
    let user_error = UserError::new(format!("there is no {kind} '{name}' in {}", in_revisions(revisions)));
    if known.is_empty() {
        return user_error.help("was the right package built? `-p NAME` and `--workspace` choose others");
    }
    user_error.help(suggest::did_you_mean_or_list(&program.target(), "programs", &known))
}

/// Returns the revisions that were built: `main (4f1c2aa) or pr/7 (9be0d13)`.
fn in_revisions(revisions: &[ListedRevision<'_>]) -> String {
    let built = revisions.iter().filter(|listed| listed.tests.is_some());
    let names: Vec<String> =
        built.map(|listed| format!("{} ({})", listed.revision.name, listed.revision.short())).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.join(""),
    }
}
