//! Runs changed tests once more with call stacks, from the same executables, and keeps what the
//! stacks are.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::slice;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;

use crate::owners::{Found, Owners, OwnersAt};
use crate::recorded_log::{LogExecutable, Resolvers, log_of, symbols};
use crate::recording::{Blocks, Recording};
use crate::runner::{Completion, Interrupted, Runner};
use memprof_build::test_tree::TestTree;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_judge::results::stack_log::StackLog;
use memprof_judge::results::stored::{self, Results};
use memprof_judge::symbols::type_sizes;
use memprof_judge::why::chosen::{Chosen, Why, choose};
use memprof_judge::why::stored::{StoredExecutable, StoredTest, StoredTests};
use memprof_judge::why::types;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::repeat::Repeat;
use memprof_plan::resolved::Plan;
use memprof_support::counted::counted;
use memprof_support::elapsed::shown;
use memprof_support::event::Event;
use memprof_support::free_memory;
use memprof_support::sealed;

/// Which tests run with call stacks, and how long this may take.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// Which tests.
    pub why: Why,
    /// At most this many tests.
    pub tests: usize,
    /// At most this many of a group of alike tests, unless all tests are asked for.
    pub most_alike: usize,
    /// No batch of tests begins after this time.
    pub time: Duration,
    /// One allocation of so many bytes is recorded on average; `None` records all.
    pub sample: Option<u64>,
    /// Whether the call stacks of each thread are apart.
    pub threads: bool,
    /// Whether a further run finds who holds the memory, and when.
    pub owners: Option<OwnersAt>,
}

impl Attribution {
    /// No call stacks.
    pub const NONE: Self = Self {
        why: Why::Never,
        tests: 0,
        most_alike: 0,
        time: Duration::ZERO,
        sample: None,
        threads: false,
        owners: None,
    };
}

/// Runs the tests of a finished run that need call stacks, and notes which they are. The comparison
/// is complete without them, so whatever fails here is a remark in the report and a warning.
pub(crate) fn attribute(
    runner: &Runner<'_>,
    tree: &mut dyn TestTree,
    attribution: &Attribution,
) -> Completion {
    if attribution.why == Why::Never {
        return Completion::Finished;
    }
    let chosen = stored::read(runner.folder).map(|results| {
        let comparison = compare(&results);
        (choose(&comparison, attribution.why, attribution.most_alike), runs(&results))
    });
    match chosen {
        Ok((chosen, _)) if !chosen.is_empty() && runner.plan.baseline >= runner.builds.len() => {
            runner.conditions.sink.emit(without_build(runner.plan));
            Completion::Finished
        }
        Ok((chosen, runs)) => match record(runner, tree, attribution, &chosen) {
            Completion::Interrupted(_) => Completion::Interrupted(Interrupted::of_call_stacks(runs)),
            Completion::Finished => Completion::Finished,
        },
        Err(error) => {
            runner.conditions.sink.emit(warning(&error));
            Completion::Finished
        }
    }
}

/// The number of runs that have an outcome.
fn runs(results: &Results) -> usize {
    results.runs.iter().filter(|run| run.record.outcome.status.is_of_a_run()).count()
}

/// Runs these tests with call stacks, and notes after each which they are.
pub(crate) fn record(
    runner: &Runner<'_>,
    tree: &mut dyn TestTree,
    attribution: &Attribution,
    chosen: &[Chosen],
) -> Completion {
    if chosen.is_empty() {
        return Completion::Finished;
    }
    let folder = runner.folder.why();
    let (resolvers, executables) = (Resolvers::default(), BTreeMap::new());
    let mut work = Work { runner, folder: &folder, attribution, resolvers, executables };
    match work.record_all(tree, chosen) {
        Ok(completion) => completion,
        Err(_) if runner.conditions.interrupt.load(Ordering::Relaxed) => {
            Completion::Interrupted(Interrupted::default())
        }
        Err(error) => {
            runner.conditions.sink.emit(warning(&error));
            Completion::Finished
        }
    }
}

/// Tells why there are no call sites, of something that is complete without them.
pub fn warning(error: &anyhow::Error) -> Event {
    Event::Warning {
        message: format!("no call sites: {error:#}"),
        help: Some(
            "the comparison is complete; to try again: --resume, or --why never to do without".to_owned(),
        ),
    }
}

/// Tells why there are no call sites if the baseline was measured earlier. Its name may be that of another commit by now.
fn without_build(plan: &Plan) -> Event {
    let baseline = &plan.revisions[plan.baseline];
    let candidates = plan.revisions[..plan.baseline].iter().map(|one| one.spec.as_str());
    let refs: Vec<&str> = [&baseline.commit[..7]].into_iter().chain(candidates).collect();
    Event::Warning {
        message: format!("no causes: the cache has no build of {} that could run again", baseline.named()),
        help: Some(format!("to measure both, with the same options: cargo memprof {}", refs.join(" "))),
    }
}

/// Why a test that was chosen has no call sites.
fn left_out(count: usize, reason: &str) -> String {
    format!("{} without call sites{reason}", counted(count, "more test"))
}

/// How many minutes all tests would take, twice what the recorded ones suggest.
fn minutes_for(tests: usize, elapsed: Duration, recorded: usize) -> u64 {
    let tests = u64::try_from(tests).unwrap_or(u64::MAX);
    let recorded = u64::try_from(recorded).unwrap_or(u64::MAX).max(1);
    elapsed.as_secs().max(1).saturating_mul(2).saturating_mul(tests).div_ceil(recorded).div_ceil(60)
}

/// Most tests that run before their call stacks are read.
const MOST_AT_ONCE: usize = 64;

struct Work<'a> {
    runner: &'a Runner<'a>,
    folder: &'a RunFolder,
    attribution: &'a Attribution,
    resolvers: Resolvers,
    /// By hash.
    executables: BTreeMap<String, Known>,
}

/// What is known of an executable.
struct Known {
    kept: StoredExecutable,
    /// Whether its file has all of that.
    is_whole: bool,
}

impl Work<'_> {
    /// Runs the tests in batches, each three times as many as all before, if the time that is left is likely to be
    /// enough. The files of a revision are put in place once for a batch.
    fn record_all(&mut self, tree: &mut dyn TestTree, chosen: &[Chosen]) -> anyhow::Result<Completion> {
        let Self { runner, folder, attribution, .. } = *self;
        fs_err::create_dir_all(&folder.0)?;
        let begin = Instant::now();
        let mut stored = StoredTests::default();
        let most = chosen.len().min(attribution.tests);
        runner.conditions.sink.emit(Event::ExplanationBegan { tests: most });
        let mut completion = Completion::Finished;
        while stored.tests.len() < chosen.len() {
            let done = stored.tests.len();
            let rest = chosen.len() - done;
            if done >= most {
                stored.left_out = Some(left_out(rest, &format!(": --why-tests {}", chosen.len())));
                break;
            }
            if begin.elapsed() >= attribution.time {
                let limit = shown(attribution.time);
                let enough = minutes_for(chosen.len(), begin.elapsed(), done);
                stored.left_out = Some(left_out(rest, &format!(" after {limit}: --why-time {enough}m")));
                break;
            }
            let fit =
                begin.elapsed().checked_div(u32::try_from(done).unwrap_or(u32::MAX)).map_or(1, |each| {
                    let left = attribution.time.saturating_sub(begin.elapsed()).as_nanos();
                    usize::try_from(left / each.as_nanos().max(1)).unwrap_or(usize::MAX).max(1)
                });
            let batch = &chosen[done..most.min(done + (3 * done + 1).min(MOST_AT_ONCE).min(fit))];
            let Some(problems) = self.record_batch(tree, batch) else {
                stored.left_out = Some(left_out(rest, ", because of an interrupt: --resume"));
                completion = Completion::Interrupted(Interrupted::default());
                break;
            };
            stored.tests.extend(batch.iter().zip(problems).map(|(one, problem)| StoredTest {
                cell: one.cell.clone(),
                candidate: one.candidate,
                problem,
            }));
        }
        runner
            .conditions
            .sink
            .emit(Event::ExplanationEnded { tests: stored.tests.len(), took: begin.elapsed() });
        sealed::write(&folder.tests(), &stored)?;
        Ok(completion)
    }

    /// Runs both sides of tests, and returns why a test has no call stacks. `None` if the user interrupts it. After an
    /// error, each test runs apart from the others, so that it concerns one alone.
    fn record_batch(&mut self, tree: &mut dyn TestTree, batch: &[Chosen]) -> Option<Vec<Problem>> {
        let interrupt = self.runner.conditions.interrupt;
        if interrupt.load(Ordering::Relaxed) {
            return None;
        }
        match self.record(tree, batch) {
            Ok(problems) => problems,
            Err(_) if interrupt.load(Ordering::Relaxed) => None,
            Err(error) if batch.len() == 1 => Some(vec![Some(cannot_be_recorded(&error))]),
            Err(_) => {
                let alone = batch.iter().map(|one| self.record_batch(tree, slice::from_ref(one)));
                alone.collect::<Option<Vec<_>>>().map(|problems| problems.concat())
            }
        }
    }

    /// Runs both sides of tests with headers before their blocks, or else with a table of them.
    fn record(&mut self, tree: &mut dyn TestTree, batch: &[Chosen]) -> anyhow::Result<Option<Vec<Problem>>> {
        let cells: Vec<Vec<PlannedCell>> = batch.iter().map(|one| self.cells(one)).collect();
        let mut problems: Vec<Problem> = vec![Some("the test does not run".to_owned()); batch.len()];
        for blocks in [Blocks::Headers, Blocks::Table] {
            let open = |at: &usize| problems[*at].is_some() && !cells[*at].is_empty();
            let open: Vec<usize> = (0..batch.len()).filter(open).collect();
            // The runs of an earlier session are kept for the first attempt.
            if blocks == Blocks::Table {
                open.iter().try_for_each(|at| self.forget(&cells[*at]))?;
            }
            if !self.run_once_more(tree, open.iter().flat_map(|at| &cells[*at]), blocks)? {
                return Ok(None);
            }
            for at in open {
                problems[at] = self.read(&cells[at]).unwrap_or_else(|error| Some(cannot_be_recorded(&error)));
            }
            self.keep_executables()?;
            // What the debug information takes would be copied with each test of the next batch.
            self.resolvers = Resolvers::default();
            free_memory::give_back();
        }
        let recorded = batch.iter().zip(&cells).zip(&problems).filter(|(_, problem)| problem.is_none());
        if let Some(at) = &self.attribution.owners {
            let owners = Owners { runner: self.runner, folder: self.folder, at };
            for ((one, cells), _) in recorded {
                if owners.find(tree, one, cells)? == Found::Interrupted {
                    return Ok(None);
                }
            }
        }
        Ok(Some(problems))
    }

    /// Runs cells with call stacks. Returns `false` if the user interrupted them.
    fn run_once_more<'c>(
        &self,
        tree: &mut dyn TestTree,
        cells: impl Iterator<Item = &'c PlannedCell>,
        blocks: Blocks,
    ) -> anyhow::Result<bool> {
        let Attribution { sample, threads, .. } = *self.attribution;
        // Two candidates have one baseline.
        let mut known = HashSet::new();
        let cells = cells.filter(|cell| known.insert((cell.revision, &cell.cell))).cloned();
        let cells: Vec<PlannedCell> = cells.collect();
        if cells.is_empty() {
            return Ok(true);
        }
        let recording = Recording { blocks, sample, threads, moment: None };
        let again =
            Runner { folder: self.folder, cells: &cells, recording: Some(recording), ..self.runner.clone() };
        Ok(matches!(again.rounds(tree)?, Completion::Finished))
    }

    /// Reads the logs of a test's runs, and keeps the functions of their frames. Returns why they cannot be used.
    fn read(&mut self, cells: &[PlannedCell]) -> anyhow::Result<Problem> {
        let mut logs = Vec::new();
        for cell in cells {
            match log_of(self.runner, self.folder, cell)? {
                Ok(log) => logs.push(log),
                Err(trouble) => return Ok(Some(trouble)),
            }
        }
        cells.iter().zip(&logs).try_for_each(|(cell, log)| self.keep_symbols(cell, log))?;
        Ok(None)
    }

    /// Removes the outcomes of runs, so that they run again.
    fn forget(&self, cells: &[PlannedCell]) -> anyhow::Result<()> {
        for cell in cells {
            // The functions belong to the log.
            for name in [file::OUTCOME, file::SYMBOLS] {
                let path = self.run_folder(cell).join(name);
                if path.exists() {
                    fs_err::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }

    /// The two runs of a test, or the one that says something.
    fn cells(&self, one: &Chosen) -> Vec<PlannedCell> {
        let plan = self.runner.plan;
        let is_side = |cell: &&PlannedCell| {
            cell.cell == one.cell
                && cell.status == CellStatus::Run
                && (cell.revision == one.candidate || (cell.revision == plan.baseline && !one.is_alone))
        };
        let run_once = |cell: &PlannedCell| PlannedCell { repeat: Repeat::Times(1), ..cell.clone() };
        self.runner.cells.iter().filter(is_side).map(run_once).collect()
    }

    fn run_folder(&self, cell: &PlannedCell) -> Utf8PathBuf {
        self.folder.cell(self.runner.plan, cell.revision, &cell.cell, 0)
    }

    /// Resolves all frames of a run while its executable is at hand.
    fn keep_symbols(&mut self, cell: &PlannedCell, log: &StackLog) -> anyhow::Result<()> {
        let (entry, executable) = self.runner.executable(cell)?;
        let executable = LogExecutable::new(entry, executable);
        let known = match self.executables.entry(executable.hash.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let path = self.folder.executable(executable.hash);
                let kept = if path.exists() { sealed::read(&path)? } else { StoredExecutable::default() };
                unknown.insert(Known { kept, is_whole: false })
            }
        };
        let (stored, added) = symbols(log, &executable, &mut known.kept, &mut self.resolvers)?;
        if self.runner.plan.request.typed_names {
            let sizes = type_sizes::sizes(&executable.path, &used_types(&known.kept, &added))?;
            known.kept.merge(StoredExecutable { sizes, ..StoredExecutable::default() });
        }
        known.is_whole &= added.is_empty();
        sealed::write_dense(&self.run_folder(cell).join(file::SYMBOLS), &stored)
    }

    /// Writes what was found since the last time.
    fn keep_executables(&mut self) -> anyhow::Result<()> {
        fs_err::create_dir_all(self.folder.executables())?;
        for (hash, known) in self.executables.iter_mut().filter(|(_, known)| !known.is_whole) {
            sealed::write_dense(&self.folder.executable(hash), &known.kept)?;
            known.is_whole = true;
        }
        Ok(())
    }
}

/// Why a test has no call stacks; `None` if it has.
type Problem = Option<String>;

fn cannot_be_recorded(error: &anyhow::Error) -> String {
    format!("call stacks cannot be recorded: {error:#}")
}

/// Returns the types that are elements of containers, by the addresses that use them.
fn used_types(executable: &StoredExecutable, addresses: &BTreeSet<u64>) -> BTreeMap<u64, BTreeSet<String>> {
    let elements = addresses.iter().map(|address| {
        let frames = executable.functions.get(address).into_iter().flatten();
        (*address, frames.filter_map(|frame| frame.function.as_deref()).flat_map(types::parts).collect())
    });
    elements.filter(|(_, elements): &(u64, BTreeSet<String>)| !elements.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proposed_time_is_twice_what_the_recorded_tests_suggest() {
        assert_eq!(minutes_for(60, Duration::from_mins(5), 10), 60);
        assert_eq!(minutes_for(3, Duration::from_secs(5), 0), 1);
    }
}
