//! Which tests of a search both ends have.

use std::collections::BTreeSet;

use crate::bisect::commit_runner::CommitRunner;
use crate::bisect::record::Task;
use crate::planned;
use crate::test_file::{overlay_flags, root_of};
use memprof_build::inject::committed_package;
use memprof_plan::cells::{self, CellStatus, PlannedCell};
use memprof_plan::listing::{ListedRevision, NotMeasured};
use memprof_plan::request::TargetKind;
use memprof_plan::resolved::CellId;
use memprof_support::counted::{counted, some};
use memprof_support::event::{Event, Sink};
use memprof_support::user_error::UserError;

impl CommitRunner<'_> {
    /// Returns the cells that both ends have in common, those of the good end first.
    ///
    /// # Errors
    ///
    /// There is none, or a bisection has several: it follows a single figure.
    pub(super) fn common_cells(&self) -> anyhow::Result<Vec<PlannedCell>> {
        let ends = self.ends();
        let tests = ends.map(|end| planned::listed(&self.builds[end]));
        let not_measured = ends.map(|end| self.builds[end].not_measured());
        let listed: Vec<ListedRevision<'_>> = ends
            .iter()
            .enumerate()
            .map(|(index, &end)| ListedRevision {
                revision: &self.plan.revisions[end],
                tests: tests[index].as_deref(),
                not_measured: &not_measured[index],
                known_programs: self.builds[end].known_programs(),
            })
            .collect();
        // The test was chosen in a run that may have more revisions.
        let mut request = self.plan.request.clone();
        request.has_other_revisions = self.record.only.is_some();
        let mut planned = cells::cells(&request, &listed)?.cells;
        if let Some(only) = &self.record.only {
            planned.retain(|one| is_same(only, &one.cell));
        }
        let mut common: Vec<&CellId> = Vec::new();
        for one in &planned {
            let is_known = common.iter().any(|cell| is_same(cell, &one.cell));
            if !is_known && (0..ends.len()).all(|index| runs_at(&planned, index, &one.cell)) {
                common.push(&one.cell);
            }
        }
        if common.is_empty() {
            // The common test may be in such an executable.
            let unmeasured = ends.iter().zip(&not_measured).find_map(|(&end, all)| Some((end, all.first()?)));
            return Err(match unmeasured {
                Some((end, executable)) => self.without_figure(end, not_measured_text(executable)).into(),
                None => self.no_common_test(&planned)?.into(),
            });
        }
        if common.len() > 1 && !matches!(self.record.task, Task::History { .. }) {
            return Err(self.several_tests(&common).into());
        }
        self.note_left_out(&planned, &common);
        let mut cells = Vec::new();
        for (index, &end) in ends.iter().enumerate() {
            for &cell in &common {
                let planned = planned.iter().find(|one| one.revision == index && is_same(&one.cell, cell));
                // A title depends on which other tests an end has. Both ends get the same one.
                let planned = planned.cloned();
                cells.extend(planned.map(|planned| PlannedCell {
                    revision: end,
                    cell: cell.clone(),
                    ..planned
                }));
            }
        }
        Ok(cells)
    }

    /// Says which tests only one end has.
    fn note_left_out(&self, planned: &[PlannedCell], common: &[&CellId]) {
        let is_left_out = |one: &&PlannedCell| {
            one.status == CellStatus::Run && !common.iter().any(|cell| is_same(cell, &one.cell))
        };
        let titles: BTreeSet<&str> = planned.iter().filter(is_left_out).map(|one| &*one.cell.title).collect();
        let ignored =
            planned.iter().filter(|one| is_left_out(one) && ignored_at(planned, &one.cell).is_some());
        let ignored: BTreeSet<&str> = ignored.map(|one| &*one.cell.title).collect();
        let (good, bad) = (&self.record.good, &self.record.bad);
        for (titles, why, help) in [
            (&titles - &ignored, format!("not in both {good} and {bad}"), None),
            (ignored, format!("ignored at {good} or {bad}"), Some(RUNS_IGNORED.to_owned())),
        ] {
            if !titles.is_empty() {
                let tests = counted(titles.len(), "test");
                let named = some(&titles.into_iter().map(str::to_owned).collect::<Vec<_>>(), 8);
                self.notes
                    .emit(Event::Warning { message: format!("{tests} left out, {why}: {named}"), help });
            }
        }
    }

    fn no_common_test(&self, planned: &[PlannedCell]) -> anyhow::Result<UserError> {
        let of = |index: usize| {
            let of_end = planned.iter().find(|one| runs_at(planned, index, &one.cell));
            of_end.map_or("none".to_owned(), |one| one.cell.test.to_string())
        };
        let (good, bad) = (&self.record.good, &self.record.bad);
        let message = format!("{good} and {bad} have no test in common");
        let ignored = planned.iter().find_map(|one| Some((&one.cell, ignored_at(planned, &one.cell)?)));
        if let Some((cell, at)) = ignored {
            let at: Vec<&str> =
                [good, bad].into_iter().zip(at).filter(|(_, at)| *at).map(|(end, _)| &**end).collect();
            let help = format!("{} is ignored at {}; {RUNS_IGNORED}", cell.test, at.join(" and "));
            return Ok(UserError::new(message).help(help));
        }
        let cure = match self.files_of_each_end(planned)?.as_slice() {
            [] => "write a test that compiles in every commit, and add it: --overlay FILE=tests/NAME.rs"
                .to_owned(),
            [flags] => format!("add the same test to every commit: `{flags}`"),
            [flags, others @ ..] => format!(
                "add the same test to every commit: `{flags}`, or, if that does not compile in each, `{}`",
                others.join("`, `")
            ),
        };
        Ok(UserError::new(message).help(format!("{good} has {}, {bad} has {}; {cure}", of(0), of(1))))
    }

    /// Returns the flags that put a test of one end into all commits, with its modules: first for the bad end, which is
    /// newer. A unit test has no file of its own.
    fn files_of_each_end(&self, planned: &[PlannedCell]) -> anyhow::Result<Vec<String>> {
        let repository = self.session.repository;
        let [good, bad] = self.ends().map(|end| &self.plan.revisions[end]);
        let mut of_ends = Vec::new();
        for (index, [donor, other]) in [(1, [bad, good]), (0, [good, bad])] {
            let is_of_file = |one: &&PlannedCell| {
                let is_run = one.revision == index && one.status == CellStatus::Run;
                is_run && one.cell.test.kind == TargetKind::Test
            };
            for test in planned.iter().filter(is_of_file).map(|one| &one.cell.test) {
                let folder = committed_package::folder(repository, &donor.commit, &test.package)?;
                let Some(folder) = folder else { continue };
                let Some(root) = root_of(repository, donor, &folder, &test.binary) else { continue };
                let flags = overlay_flags(repository, [donor, other], &folder.join(root))?;
                if !flags.is_empty() {
                    of_ends.push(flags.join(" "));
                    break;
                }
            }
        }
        Ok(of_ends)
    }

    fn several_tests(&self, common: &[&CellId]) -> UserError {
        let mut names: Vec<String> =
            common.iter().take(8).map(|cell| format!("{} ({})", cell.title, cell.test)).collect();
        names.extend((common.len() > 8).then(|| "…".to_owned()));
        let command = self.record.task.command();
        UserError::new(format!("{command} needs exactly one test; {} match", common.len()))
            .help(format!("select one with -k, --exact or --param: {}", names.join(", ")))
    }
}

const RUNS_IGNORED: &str = "--include-ignored runs tests with #[ignore]";

/// Returns at which end a test is ignored, if both ends have it.
fn ignored_at(planned: &[PlannedCell], cell: &CellId) -> Option<[bool; 2]> {
    let status = |revision: usize| {
        let here = planned.iter().find(|one| one.revision == revision && is_same(&one.cell, cell));
        here.map(|one| one.status).filter(|status| [CellStatus::Run, CellStatus::Ignored].contains(status))
    };
    let ignored = [status(0)?, status(1)?].map(|status| status == CellStatus::Ignored);
    ignored.contains(&true).then_some(ignored)
}

fn not_measured_text(executable: &NotMeasured) -> String {
    format!("it is not measured: {executable}: {}", executable.reason)
}

/// Whether a revision runs this cell.
fn runs_at(planned: &[PlannedCell], revision: usize, cell: &CellId) -> bool {
    planned
        .iter()
        .any(|one| one.revision == revision && one.status == CellStatus::Run && is_same(&one.cell, cell))
}

/// Whether two cells are the same test with the same parameters. Their titles may differ.
fn is_same(one: &CellId, other: &CellId) -> bool {
    one.test == other.test && one.params == other.params && one.program == other.program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_an_end_lacks_is_not_ignored_there() {
        let cell = |name: &str, revision: usize, status: &str| -> PlannedCell {
            let test = serde_json::json!({"package": "p", "binary": "m", "kind": "test", "name": name});
            let cell = serde_json::json!({"test": test, "params": [], "title": name});
            serde_json::from_value(serde_json::json!({
                "revision": revision, "cell": cell, "status": status, "env": {}, "args": [], "repeat": 1,
            }))
            .unwrap()
        };
        let planned = [
            cell("kept", 0, "run"),
            cell("kept", 1, "ignored"),
            cell("both", 0, "ignored"),
            cell("both", 1, "ignored"),
            cell("gone", 0, "run"),
            cell("gone", 1, "not_in_this_ref"),
        ];
        let at = |index: usize| ignored_at(&planned, &planned[index].cell);
        assert_eq!([at(0), at(2), at(4)], [Some([false, true]), Some([true, true]), None]);
    }
}
