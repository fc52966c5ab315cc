//! Runs changed tests once more with call stacks, from the same executables, and keeps what the
//! stacks are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;

use crate::owners::{Found, Owners, OwnersAt};
use crate::recorded_log::{log_of, symbols};
use crate::recording::{Blocks, Recording};
use crate::runner::{Completion, Interrupted, Runner};
use memprof_build::test_tree::TestTree;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_judge::results::stack_log::StackLog;
use memprof_judge::results::stored::{self, Results};
use memprof_judge::symbols::code_place::Paths;
use memprof_judge::symbols::type_sizes;
use memprof_judge::why::chosen::{Chosen, Why, choose};
use memprof_judge::why::stored::{StoredSymbols, StoredTest, StoredTests};
use memprof_judge::why::types;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::repeat::Repeat;
use memprof_plan::resolved::Plan;
use memprof_support::counted::counted;
use memprof_support::elapsed::shown;
use memprof_support::event::Event;
use memprof_support::sealed;

/// Which tests run with call stacks, and how long this may take.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// Which tests.
    pub why: Why,
    /// At most this many tests.
    pub tests: usize,
    /// No test begins after this time.
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
    pub const NONE: Self =
        Self { why: Why::Never, tests: 0, time: Duration::ZERO, sample: None, threads: false, owners: None };
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
        (choose(&comparison, attribution.why), runs(&results))
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
    let work = Work { runner, folder: &folder, attribution };
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

/// Tells why there are no call sites if the baseline was measured earlier.
fn without_build(plan: &Plan) -> Event {
    let baseline = &plan.revisions[plan.baseline];
    let specs = [baseline].into_iter().chain(&plan.revisions[..plan.baseline]).map(|one| one.spec.as_str());
    Event::Warning {
        message: format!("no causes: the cache has no build of {} any more", baseline.named()),
        help: Some(format!("to measure it again: cargo memprof {}", specs.collect::<Vec<_>>().join(" "))),
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

struct Work<'a> {
    runner: &'a Runner<'a>,
    folder: &'a RunFolder,
    attribution: &'a Attribution,
}

impl Work<'_> {
    fn record_all(&self, tree: &mut dyn TestTree, chosen: &[Chosen]) -> anyhow::Result<Completion> {
        let Self { runner, folder, attribution } = *self;
        fs_err::create_dir_all(&folder.0)?;
        let begin = Instant::now();
        let mut stored = StoredTests::default();
        runner.conditions.sink.emit(Event::ExplanationBegan { tests: chosen.len().min(attribution.tests) });
        let mut completion = Completion::Finished;
        for (index, one) in chosen.iter().enumerate() {
            let rest = chosen.len() - index;
            if index >= attribution.tests {
                stored.left_out = Some(left_out(rest, &format!(": --why-tests {}", chosen.len())));
                break;
            }
            if begin.elapsed() >= attribution.time {
                let limit = shown(attribution.time);
                let enough = minutes_for(chosen.len(), begin.elapsed(), index);
                stored.left_out = Some(left_out(rest, &format!(" after {limit}: --why-time {enough}m")));
                break;
            }
            let problem = match self.record_one(tree, one) {
                Attempt::Recorded => None,
                Attempt::Useless(reason) => Some(reason),
                Attempt::Interrupted => {
                    stored.left_out = Some(left_out(rest, ", because of an interrupt: --resume"));
                    completion = Completion::Interrupted(Interrupted::default());
                    break;
                }
            };
            stored.tests.push(StoredTest { cell: one.cell.clone(), candidate: one.candidate, problem });
        }
        runner
            .conditions
            .sink
            .emit(Event::ExplanationEnded { tests: stored.tests.len(), took: begin.elapsed() });
        sealed::write(&folder.tests(), &stored)?;
        Ok(completion)
    }

    /// Runs both sides of a test, unless the user interrupts it. An error concerns this test alone.
    fn record_one(&self, tree: &mut dyn TestTree, one: &Chosen) -> Attempt {
        let is_interrupted = || self.runner.conditions.interrupt.load(Ordering::Relaxed);
        if is_interrupted() {
            return Attempt::Interrupted;
        }
        match self.record(tree, one) {
            Ok(attempt) => attempt,
            Err(_) if is_interrupted() => Attempt::Interrupted,
            Err(error) => Attempt::Useless(format!("call stacks cannot be recorded: {error:#}")),
        }
    }

    /// Runs both sides of a test with headers before their blocks, or else with a table of them.
    fn record(&self, tree: &mut dyn TestTree, one: &Chosen) -> anyhow::Result<Attempt> {
        let cells = self.cells(one);
        let mut attempt = Attempt::Useless("the test does not run".to_owned());
        if cells.is_empty() {
            return Ok(attempt);
        }
        for blocks in [Blocks::Headers, Blocks::Table] {
            if matches!(attempt, Attempt::Useless(_)) {
                // The runs of an earlier session are kept for the first attempt.
                if blocks == Blocks::Table {
                    self.forget(&cells)?;
                }
                attempt = self.attempt(tree, &cells, blocks)?;
            }
        }
        if let (Attempt::Recorded, Some(at)) = (&attempt, &self.attribution.owners) {
            let owners = Owners { runner: self.runner, folder: self.folder, at };
            if owners.find(tree, one, &cells)? == Found::Interrupted {
                return Ok(Attempt::Interrupted);
            }
        }
        Ok(attempt)
    }

    fn attempt(
        &self,
        tree: &mut dyn TestTree,
        cells: &[PlannedCell],
        blocks: Blocks,
    ) -> anyhow::Result<Attempt> {
        let Attribution { sample, threads, .. } = *self.attribution;
        let recording = Recording { blocks, sample, threads, moment: None };
        let again = Runner { folder: self.folder, cells, recording: Some(recording), ..self.runner.clone() };
        if let Completion::Interrupted(_) = again.rounds(tree)? {
            return Ok(Attempt::Interrupted);
        }
        let mut logs = Vec::new();
        for cell in cells {
            match log_of(self.runner, self.folder, cell)? {
                Ok(log) => logs.push(log),
                Err(trouble) => return Ok(Attempt::Useless(trouble)),
            }
        }
        cells.iter().zip(&logs).try_for_each(|(cell, log)| self.keep_symbols(cell, log))?;
        Ok(Attempt::Recorded)
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
    fn keep_symbols(&self, cell: &PlannedCell, log: &StackLog) -> anyhow::Result<()> {
        let path = self.run_folder(cell).join(file::SYMBOLS);
        if path.exists() {
            return Ok(());
        }
        let (entry, executable) = self.runner.executable(cell)?;
        let paths = Paths::new(&entry.provenance.key_inputs.checkout);
        let executable = entry.folder.join(&executable.file);
        let mut stored = symbols(log, &executable, &paths)?;
        if self.runner.plan.request.typed_names {
            stored.sizes = type_sizes::sizes(&executable, &used_types(log, &stored))?;
        }
        sealed::write(&path, &stored)
    }
}

/// What became of an attempt to record a test.
enum Attempt {
    Recorded,
    Interrupted,
    /// The runs cannot be used, for this reason.
    Useless(String),
}

/// Returns the types that are elements of containers, by the addresses of the executable that use them.
fn used_types(log: &StackLog, symbols: &StoredSymbols) -> BTreeMap<u64, BTreeSet<String>> {
    let mut used: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for node in log.nodes.iter().filter(|node| node.module == Some(0)) {
        let frames = symbols.frames.get(&StoredSymbols::key(node.module, node.address));
        let functions = frames.into_iter().flatten().filter_map(|frame| frame.function.as_deref());
        let elements: BTreeSet<String> = functions.flat_map(types::parts).collect();
        if !elements.is_empty() {
            used.entry(node.address).or_default().extend(elements);
        }
    }
    used
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
