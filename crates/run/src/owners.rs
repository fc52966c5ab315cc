//! Runs a test once more on each side, and stops at the moment whose memory changed, to find who holds it.

use std::io::BufReader;
use std::sync::atomic::Ordering;

use camino::{Utf8Path, Utf8PathBuf};

use crate::recorded_log::{LogExecutable, Resolvers, log_of, symbols};
use crate::recording::{Blocks, Moment, Recording};
use crate::runner::{Completion, Runner};
use memprof_build::test_tree::TestTree;
use memprof_judge::results::outcome::RunRecord;
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_judge::results::stack_log::{Interval, StackLog};
use memprof_judge::symbols::code_place::Place;
use memprof_judge::symbols::data_symbols::DataSymbols;
use memprof_judge::symbols::resolver::Resolver;
use memprof_judge::symbols::type_sizes;
use memprof_judge::why::chosen::{Chosen, HeapRow};
use memprof_judge::why::difference::CheckpointName;
use memprof_judge::why::heap_snapshot;
use memprof_judge::why::owner_tree::{OwnerTree, Recorded};
use memprof_judge::why::roots::StackFunction;
use memprof_judge::why::stacks::Stacks;
use memprof_judge::why::stored::{LogSymbols, StoredExecutable, StoredOwners};
use memprof_plan::cells::PlannedCell;
use memprof_support::counted::grouped;
use memprof_support::regular_file;
use memprof_support::sealed;

/// Most bytes of what the shim writes: a little above its own limit.
const MOST: u64 = 5 << 30;

/// The moment whose owners are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnersAt {
    /// What the test is reported with.
    Changed,
    /// A checkpoint.
    Checkpoint(CheckpointName),
}

/// What became of the search for owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Each side has owners, or a reason.
    All,
    Interrupted,
}

/// Finds the owners of tests that were recorded.
pub(crate) struct Owners<'a> {
    pub(crate) runner: &'a Runner<'a>,
    /// The folder of the runs with call stacks.
    pub(crate) folder: &'a RunFolder,
    pub(crate) at: &'a OwnersAt,
}

/// What is asked about one side.
struct Question {
    metric: &'static str,
    checkpoint: CheckpointName,
    expected: i64,
    moment: Moment,
}

impl Question {
    fn is_answered_by(&self, tree: &OwnerTree) -> bool {
        let CheckpointName { label, occurrence } = &self.checkpoint;
        (&*tree.metric, &tree.label, &tree.occurrence) == (self.metric, label, occurrence)
    }
}

impl Owners<'_> {
    /// Runs both sides, unless the same was found out before.
    pub(crate) fn find(
        &self,
        tree: &mut dyn TestTree,
        one: &Chosen,
        cells: &[PlannedCell],
    ) -> anyhow::Result<Found> {
        let path = |cell: &PlannedCell| {
            let folder = self.folder.cell(self.runner.plan, cell.revision, &cell.cell, 0);
            folder.join(file::owners(one.candidate))
        };
        for (index, cell) in cells.iter().enumerate() {
            let paths: Vec<Utf8PathBuf> = cells[index..].iter().map(path).collect();
            let stored = match self.of_side(tree, one, cell, &paths) {
                Ok(Some(stored)) => stored,
                Ok(None) => return Ok(Found::Interrupted),
                Err(_) if self.runner.conditions.interrupt.load(Ordering::Relaxed) => {
                    return Ok(Found::Interrupted);
                }
                Err(error) => StoredOwners { tree: None, problem: Some(format!("no owners: {error:#}")) },
            };
            sealed::write(&paths[0], &stored)?;
        }
        let folder = self.folder.owners().0;
        if folder.exists() {
            fs_err::remove_dir_all(&folder)?;
        }
        Ok(Found::All)
    }

    /// Runs one side, unless its file, the first of `paths`, has the answer. `None` if the user interrupted it.
    fn of_side(
        &self,
        tree: &mut dyn TestTree,
        one: &Chosen,
        cell: &PlannedCell,
        paths: &[Utf8PathBuf],
    ) -> anyhow::Result<Option<StoredOwners>> {
        let recorded = match log_of(self.runner, self.folder, cell)? {
            Ok(log) => log,
            Err(reason) => return Ok(Some(problem(reason))),
        };
        let question = match self.question(one, cell, &recorded) {
            Ok(question) => question,
            Err(reason) => return Ok(Some(problem(reason))),
        };
        // `--resume` may ask about another checkpoint, and tries again what failed.
        if let Ok(known) = sealed::read::<StoredOwners>(&paths[0])
            && known.tree.as_ref().is_some_and(|tree| question.is_answered_by(tree))
        {
            return Ok(Some(known));
        }
        // If this session ends early, no side keeps the answer to another question.
        for path in paths.iter().filter(|path| path.exists()) {
            fs_err::remove_file(path)?;
        }
        let folder = self.folder.owners();
        fs_err::create_dir_all(&folder.0)?;
        let recording = Recording {
            blocks: Blocks::Table,
            sample: None,
            threads: false,
            moment: Some(question.moment.clone()),
        };
        let cells = std::slice::from_ref(cell);
        let again = Runner { folder: &folder, cells, recording: Some(recording), ..self.runner.clone() };
        if let Completion::Interrupted(_) = again.rounds(tree)? {
            return Ok(None);
        }
        let log = match log_of(self.runner, &folder, cell)? {
            Ok(log) => log,
            Err(reason) => return Ok(Some(problem(reason))),
        };
        let own = folder.cell(self.runner.plan, cell.revision, &cell.cell, 0);
        self.read(cell, &own, &log, &question).map(Some)
    }

    /// What is asked of a side: the checkpoint, and the moment of the peak in the run with call stacks.
    fn question(&self, one: &Chosen, cell: &PlannedCell, log: &StackLog) -> Result<Question, String> {
        let family = log.family("heap").ok_or("the run recorded no heap")?;
        let side = usize::from(cell.revision == one.candidate);
        let highest = || {
            let interval = family.highest().map(|index| &family.intervals[index])?;
            Some(("heap.peak", name_of(interval)))
        };
        let of_row = |row: &HeapRow| {
            let metric = if row.metric == "heap.live" { "heap.live" } else { "heap.peak" };
            Some((metric, row.checkpoints[side].clone().or(row.checkpoints[1 - side].clone())?))
        };
        let (metric, checkpoint) = match self.at {
            OwnersAt::Checkpoint(checkpoint) => ("heap.live", checkpoint.clone()),
            OwnersAt::Changed => {
                one.row.as_ref().and_then(of_row).or_else(highest).ok_or("the run has no checkpoint")?
            }
        };
        let index = family.at(&checkpoint.label, checkpoint.occurrence);
        let index = index.ok_or_else(|| format!("the run has no checkpoint '{}'", checkpoint.label))?;
        let interval = &family.intervals[index];
        let is_peak = metric == "heap.peak";
        let expected = if is_peak { interval.total.at_peak } else { interval.total.live };
        let peak = interval.peak_event.filter(|_| is_peak).map(|event| (event, expected));
        let moment = Moment { peak, checkpoint: checkpoint.clone() };
        Ok(Question { metric, checkpoint, expected, moment })
    }

    /// Reads what the shim wrote, and removes it.
    fn read(
        &self,
        cell: &PlannedCell,
        own: &Utf8Path,
        log: &StackLog,
        question: &Question,
    ) -> anyhow::Result<StoredOwners> {
        let path = own.join(file::HEAP);
        if !path.exists() {
            return Ok(problem("no owners: the run did not reach the moment that was asked for".to_owned()));
        }
        let opened = regular_file::open_within(&path, MOST)?;
        let snapshot = heap_snapshot::read(BufReader::with_capacity(1 << 20, opened))?;
        let (entry, executable) = self.runner.executable(cell)?;
        let executable = LogExecutable::new(entry, executable);
        let mut known: StoredExecutable = sealed::read(&self.folder.executable(executable.hash))?;
        let (stored, _) = symbols(log, &executable, &mut known, &mut Resolvers::default())?;
        let stored = LogSymbols { executable: &known, libraries: stored.libraries };
        let stacks = Stacks::new(log, |module, address| stored.frames(module, address));
        let stacks = stacks.with_sizes(known.sizes());
        let LogExecutable { path: executable, paths, .. } = executable;
        let data = DataSymbols::read(&executable)?;
        let mut resolver = Resolver::open(&executable, &paths)?;
        let module = log.modules.iter().find(|module| module.number == 0);
        let mut functions = |address: u64| {
            let inside = module.filter(|module| address > module.begin && address <= module.end);
            let Some(module) = inside else { return Vec::new() };
            let frames = resolver.frames(address.wrapping_sub(1).wrapping_sub(module.bias));
            let function = |frame: &memprof_judge::symbols::resolver::Frame| {
                let is_own = matches!(frame.place, Some(Place::Checkout(_) | Place::Generated { .. }));
                Some(StackFunction { path: frame.function.clone()?, is_own })
            };
            frames.iter().filter_map(function).collect()
        };
        let in_both = type_sizes::in_vec_and_deque(&executable)?;
        let recorded =
            Recorded { snapshot: &snapshot, log, stacks: &stacks, symbols: &data, in_both: &in_both };
        let mut tree = OwnerTree::new(&recorded, &mut functions);
        let CheckpointName { label, occurrence } = question.checkpoint.clone();
        (tree.metric, tree.label, tree.occurrence) = (question.metric.to_owned(), label, occurrence);
        tree.expected = question.expected;
        let record: RunRecord = sealed::read(&own.join(file::OUTCOME))?;
        tree.run_nanoseconds = record.outcome.wall_nanoseconds;
        if i64::try_from(tree.bytes).ok() != Some(question.expected) {
            let [found, expected] = [i128::from(tree.bytes), i128::from(question.expected)].map(grouped);
            let name = &self.runner.plan.revisions[cell.revision].name;
            tree.remarks.push(format!("at {name}, {found} B were live in place of {expected} B"));
        }
        Ok(StoredOwners { tree: Some(tree), problem: None })
    }
}

fn problem(reason: String) -> StoredOwners {
    StoredOwners { tree: None, problem: Some(reason) }
}

fn name_of(interval: &Interval) -> CheckpointName {
    CheckpointName { label: interval.label.clone(), occurrence: interval.occurrence }
}
