//! Runs changed tests once more with call stacks, from the same executables, and keeps what the
//! stacks are.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::build::test_tree::TestTree;
use crate::compare::from_results::compare;
use crate::plan::cells::{CellStatus, PlannedCell};
use crate::plan::repeat::Repeat;
use crate::results::outcome::{RunRecord, Status};
use crate::results::run_folder::{RunFolder, file};
use crate::results::sealed;
use crate::results::stack_log::StackLog;
use crate::results::stored;
use crate::run::recording::{Blocks, Recording};
use crate::run::runner::{Completion, Interrupted, Runner};
use crate::support::counted::counted;
use crate::support::event::Event;
use crate::symbols::code_place::{Paths, Place};
use crate::symbols::resolver;
use crate::symbols::resolver::{Detail, Resolver};
use crate::why::explanations::{Chosen, Why, choose, read_log};
use crate::why::frame;
use crate::why::stored::{StoredSymbols, StoredTest, StoredTests};

/// Which tests run with call stacks, and how long this may take.
#[derive(Clone, Copy, Debug)]
pub struct Attribution {
    /// Which tests.
    pub why: Why,
    /// At most this many tests.
    pub tests: usize,
    /// No test begins after this time.
    pub time: Duration,
    /// One allocation of so many bytes is recorded on average; `None` records all.
    pub sample: Option<u64>,
}

impl Attribution {
    /// No call stacks.
    pub const NONE: Self = Self { why: Why::Never, tests: 0, time: Duration::ZERO, sample: None };
}

/// Runs the tests of a finished run that need call stacks, and notes which they are.
///
/// # Errors
/// A run cannot be started or recorded. A test that fails with call stacks is noted.
pub fn attribute(
    runner: &Runner<'_>,
    tree: &mut dyn TestTree,
    attribution: Attribution,
) -> anyhow::Result<Completion> {
    if attribution.why == Why::Never {
        return Ok(Completion::Finished);
    }
    let chosen = choose(&compare(&stored::read(runner.folder)?), attribution.why);
    if chosen.is_empty() {
        return Ok(Completion::Finished);
    }
    let folder = runner.folder.why();
    fs_err::create_dir_all(&folder.0)?;
    let work = Work { runner, folder: &folder, attribution };
    let begin = Instant::now();
    let mut stored = StoredTests::default();
    runner.sink.emit(Event::ExplanationBegan { tests: chosen.len().min(attribution.tests) });
    for (index, one) in chosen.iter().enumerate() {
        if runner.interrupt.load(Ordering::Relaxed) {
            return Ok(Completion::Interrupted(Interrupted::default()));
        }
        let left = counted(chosen.len() - index, "more changed test");
        if index >= attribution.tests {
            stored.left_out = Some(format!("{left} without call sites: --why-tests {}", chosen.len()));
            break;
        }
        if begin.elapsed() >= attribution.time {
            let limit = attribution.time.as_secs();
            stored.left_out = Some(format!("{left} without call sites after {limit} s: --why-time 1h"));
            break;
        }
        let Some(problem) = work.record(tree, one)? else {
            return Ok(Completion::Interrupted(Interrupted::default()));
        };
        stored.tests.push(StoredTest {
            cell: one.cell.clone(),
            candidate: one.candidate,
            problem: problem.err(),
        });
    }
    runner.sink.emit(Event::ExplanationEnded { tests: stored.tests.len(), took: begin.elapsed() });
    sealed::write(&folder.tests(), &stored)?;
    Ok(Completion::Finished)
}

struct Work<'a> {
    runner: &'a Runner<'a>,
    folder: &'a RunFolder,
    attribution: Attribution,
}

impl Work<'_> {
    /// Runs both sides of a test. Returns why there are no call sites, if so; `None` if the user
    /// interrupted it.
    fn record(&self, tree: &mut dyn TestTree, one: &Chosen) -> anyhow::Result<Option<Result<(), String>>> {
        let mut reason = String::new();
        for blocks in [Blocks::Headers, Blocks::Table] {
            let cells = self.cells(one);
            let recording = Recording { blocks, sample: self.attribution.sample };
            let again = Runner {
                folder: self.folder,
                cells: &cells,
                recording: Some(recording),
                ..self.runner.clone()
            };
            if let Completion::Interrupted(_) = again.run(tree)? {
                return Ok(None);
            }
            match self.trouble(&cells)? {
                None => {
                    for cell in &cells {
                        self.keep_symbols(cell)?;
                    }
                    return Ok(Some(Ok(())));
                }
                Some(trouble) => reason = trouble,
            }
            for cell in &cells {
                let outcome = self.run_folder(cell).join(file::OUTCOME);
                if blocks == Blocks::Headers && outcome.exists() {
                    fs_err::remove_file(&outcome)?;
                }
            }
        }
        Ok(Some(Err(reason)))
    }

    /// The two runs of a test, or the one of a single revision.
    fn cells(&self, one: &Chosen) -> Vec<PlannedCell> {
        let plan = self.runner.plan;
        let is_side = |cell: &&PlannedCell| {
            cell.cell == one.cell
                && cell.status == CellStatus::Run
                && (cell.revision == one.candidate || cell.revision == plan.baseline)
        };
        let once = |cell: &PlannedCell| PlannedCell { repeat: Repeat::Times(1), ..cell.clone() };
        self.runner.cells.iter().filter(is_side).map(once).collect()
    }

    fn run_folder(&self, cell: &PlannedCell) -> Utf8PathBuf {
        self.folder.cell(self.runner.plan, cell.revision, &cell.cell, 0)
    }

    /// Why the runs cannot be used: the first that failed.
    fn trouble(&self, cells: &[PlannedCell]) -> anyhow::Result<Option<String>> {
        if cells.is_empty() {
            return Ok(Some("the test does not run".to_owned()));
        }
        for cell in cells {
            let folder = self.run_folder(cell);
            let record: RunRecord = sealed::read(&folder.join(file::OUTCOME))?;
            let name = &self.runner.plan.revisions[cell.revision].name;
            if record.outcome.status != Status::Ok {
                let status = record.outcome.status.to_string();
                return Ok(Some(format!("with call stacks, the test at {name} did not pass: {status}")));
            }
            match read_log(&folder.join(file::LOG)) {
                Err(error) => {
                    return Ok(Some(format!("the call stacks of {name} cannot be read: {error:#}")));
                }
                Ok(log) if log.recording.is_none() => {
                    let reason = "needs Linux with 64 bits, and heap figures";
                    return Ok(Some(format!("the test at {name} recorded no call stacks ({reason})")));
                }
                Ok(_) => {}
            }
        }
        Ok(None)
    }

    /// Resolves all frames of a run while its executable is at hand.
    fn keep_symbols(&self, cell: &PlannedCell) -> anyhow::Result<()> {
        let folder = self.run_folder(cell);
        let path = folder.join(file::SYMBOLS);
        if path.exists() {
            return Ok(());
        }
        let (entry, executable) = self.runner.executable(cell)?;
        let log = read_log(&folder.join(file::LOG))?;
        let paths = Paths::new(&entry.provenance.key_inputs.checkout);
        let executable = entry.folder.join(&executable.file);
        sealed::write(&path, &symbols(&log, &executable, &paths)?)
    }
}

/// Returns the functions of all frames of a log.
fn symbols(log: &StackLog, executable: &Utf8Path, paths: &Paths) -> anyhow::Result<StoredSymbols> {
    let mut resolvers: BTreeMap<u32, Option<Resolver>> = BTreeMap::new();
    let mut stored = StoredSymbols::default();
    for node in &log.nodes {
        let key = StoredSymbols::key(node.module, node.address);
        let Some(number) = node.module.filter(|_| !stored.frames.contains_key(&key)) else { continue };
        let resolver = resolvers.entry(number).or_insert_with(|| {
            let module = log.module(number)?;
            let file = if module.path.is_empty() { executable } else { Utf8Path::new(&module.path) };
            // A library without a file, such as the kernel's, has addresses only.
            Resolver::open(file, paths).ok()
        });
        let Some(resolver) = resolver else { continue };
        let frames: Vec<frame::Frame> = resolver.frames(node.address).iter().map(known).collect();
        if frames.iter().any(|frame| frame.function.is_some() || frame.place.is_some()) {
            stored.frames.insert(key, frames);
        }
    }
    let own = resolvers.get(&0).and_then(Option::as_ref).context("the executable cannot be read")?;
    stored.note = missing(own);
    Ok(stored)
}

/// What is missing in an executable, and what provides it.
fn missing(resolver: &Resolver) -> Option<String> {
    match (resolver.detail(), resolver.damage()) {
        (_, Some(damage)) => {
            Some(format!("no lines, because the debug information cannot be read: {damage}"))
        }
        (Detail::Lines, None) => None,
        (Detail::Names, None) => Some(
            "no lines, because the profile has no debug information: set `debug = \"limited\"` in it"
                .to_owned(),
        ),
        (Detail::Addresses, None) => {
            Some("no names, because the profile strips symbols: set `strip = false` in it".to_owned())
        }
    }
}

fn known(frame: &resolver::Frame) -> frame::Frame {
    frame::Frame {
        function: frame.function.clone(),
        place: frame.place.clone().map(place),
        line: frame.line,
        is_inlined: frame.is_inlined,
        address: None,
    }
}

fn place(place: Place) -> frame::Place {
    match place {
        Place::Checkout(path) => frame::Place::Checkout(path.into_string()),
        Place::Registry { name, version, path } => {
            frame::Place::Registry { name, version, path: path.into_string() }
        }
        Place::Git { name, rev, path } => frame::Place::Git { name, rev, path: path.into_string() },
        Place::Std(path) => frame::Place::Std(path.into_string()),
        Place::Other(path) => frame::Place::Other(path.into_string()),
    }
}
