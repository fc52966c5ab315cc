//! What a run with call stacks left: its log, and the functions of its frames.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::runner::Runner;
use memprof_judge::results::outcome::{RunRecord, Status};
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_judge::results::stack_log::StackLog;
use memprof_judge::symbols::code_place::{Paths, Place};
use memprof_judge::symbols::resolver;
use memprof_judge::symbols::resolver::{Detail, Resolver};
use memprof_judge::why::explanations::read_log;
use memprof_judge::why::frame;
use memprof_judge::why::stored::StoredSymbols;
use memprof_plan::cells::PlannedCell;
use memprof_support::sealed;

/// A run's log with call stacks, or why the run cannot be used.
pub(crate) fn log_of(
    runner: &Runner<'_>,
    folder: &RunFolder,
    cell: &PlannedCell,
) -> anyhow::Result<Result<StackLog, String>> {
    let folder = folder.cell(runner.plan, cell.revision, &cell.cell, 0);
    let record: RunRecord = sealed::read(&folder.join(file::OUTCOME))?;
    let name = &runner.plan.revisions[cell.revision].name;
    // What broke a memory assertion of the test was logged before it panicked.
    if !matches!(record.outcome.status, Status::Ok | Status::OverLimit) {
        let status = record.outcome.status.to_string();
        return Ok(Err(format!("with call stacks, the test at {name} did not pass: {status}")));
    }
    Ok(match read_log(&folder.join(file::LOG)) {
        Ok(log) if log.recording.is_some() => Ok(log),
        Ok(_) => {
            let reason =
                "needs Linux with 64 bits, heap figures, and /proc if code in `.preinit_array` allocates";
            Err(format!("the test at {name} recorded no call stacks ({reason})"))
        }
        Err(error) => Err(format!("the call stacks of {name} cannot be read: {error:#}")),
    })
}

/// The bytes of the files that are kept open, if they are more than two.
const MOST_BYTES_OPEN: u64 = 256 << 20;

/// The files whose functions were looked up, the last one at the end. To open one means to unpack and read its debug
/// information, and most tests are of few executables.
#[derive(Default)]
pub(crate) struct Resolvers(Vec<Opened>);

struct Opened {
    file: Utf8PathBuf,
    bytes: u64,
    /// A library without a file, such as the kernel's, has addresses only.
    resolver: Option<Resolver>,
}

impl Resolvers {
    /// Returns that of a file, if it can be read.
    fn of(&mut self, file: &Utf8Path, paths: &Paths) -> Option<&mut Resolver> {
        let opened = match self.0.iter().position(|one| one.file == file) {
            Some(at) => self.0.remove(at),
            None => Opened {
                file: file.to_owned(),
                bytes: file.metadata().map_or(0, |file| file.len()),
                resolver: Resolver::open(file, paths).ok(),
            },
        };
        self.0.push(opened);
        while self.0.len() > 2 && self.0.iter().map(|one| one.bytes).sum::<u64>() > MOST_BYTES_OPEN {
            self.0.remove(0);
        }
        self.0.last_mut()?.resolver.as_mut()
    }
}

/// Returns the functions of all frames of a log.
pub(crate) fn symbols(
    log: &StackLog,
    executable: &Utf8Path,
    paths: &Paths,
    resolvers: &mut Resolvers,
) -> anyhow::Result<StoredSymbols> {
    let mut stored = StoredSymbols::default();
    let mut by_module: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for node in &log.nodes {
        if let Some(number) = node.module {
            by_module.entry(number).or_default().insert(node.address);
        }
    }
    for (number, addresses) in by_module {
        let Some(module) = log.module(number) else { continue };
        let file = if module.path.is_empty() { executable } else { Utf8Path::new(&module.path) };
        let Some(resolver) = resolvers.of(file, paths) else { continue };
        for address in addresses {
            let frames: Vec<frame::Frame> = resolver.frames(address).iter().map(known).collect();
            if frames.iter().any(|frame| frame.function.is_some() || frame.place.is_some()) {
                stored.frames.insert(StoredSymbols::key(Some(number), address), frames);
            }
        }
    }
    // A test that allocates nothing has no stacks.
    if log.modules.iter().any(|module| module.number == 0) {
        let own = resolvers.of(executable, paths).context("the executable cannot be read")?;
        stored.note = missing(own);
    }
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
            Some("no names, because the executable has no symbol table: link it without `-s`".to_owned())
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
