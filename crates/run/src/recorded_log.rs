//! What a run with call stacks left: its log, and the functions of its frames.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::runner::Runner;
use memprof_build::provenance::Executable;
use memprof_build::store::Entry;
use memprof_judge::results::outcome::{RunRecord, Status};
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_judge::results::stack_log::StackLog;
use memprof_judge::symbols::code_place::Paths;
use memprof_judge::symbols::resolver;
use memprof_judge::symbols::resolver::{Detail, Resolver};
use memprof_judge::why::explanations::read_log;
use memprof_judge::why::frame;
use memprof_judge::why::stored::{StoredExecutable, StoredSymbols};
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
            let reason = "needs Linux with 64 bits, and /proc if code in `.preinit_array` allocates";
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

/// The executable of a log.
pub(crate) struct LogExecutable<'a> {
    pub(crate) path: Utf8PathBuf,
    pub(crate) hash: &'a str,
    pub(crate) paths: Paths,
}

impl<'a> LogExecutable<'a> {
    pub(crate) fn new(entry: &Entry, executable: &'a Executable) -> Self {
        let provenance = &entry.provenance;
        let paths = Paths::new(&provenance.key_inputs.checkout).with_outputs(&provenance.outputs);
        Self { path: entry.folder.join(&executable.file), hash: &executable.hash, paths }
    }
}

/// Finds the functions of all frames of a log. Those of the executable that are not known yet are added to `known`,
/// and their addresses are returned.
pub(crate) fn symbols(
    log: &StackLog,
    executable: &LogExecutable<'_>,
    known: &mut StoredExecutable,
    resolvers: &mut Resolvers,
) -> anyhow::Result<(StoredSymbols, BTreeSet<u64>)> {
    let LogExecutable { path, hash, paths } = executable;
    let mut stored = StoredSymbols::default();
    let mut by_module: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for node in &log.nodes {
        if let Some(number) = node.module {
            by_module.entry(number).or_default().insert(node.address);
        }
    }
    let mut added = by_module.remove(&0).unwrap_or_default();
    for (number, addresses) in by_module {
        let Some(module) = log.module(number) else { continue };
        let Some(resolver) = resolvers.of(Utf8Path::new(&module.path), paths) else { continue };
        let known = functions(resolver, addresses).filter(|(_, frames)| !frames.is_empty());
        stored.libraries.insert(number, known.collect());
    }
    // A test that allocates nothing has no stacks.
    if log.module(0).is_some() {
        stored.executable = Some((*hash).to_owned());
        added.retain(|address| !known.functions.contains_key(address));
        if !added.is_empty() || known.functions.is_empty() {
            let own = resolvers.of(path, paths).context("the executable cannot be read")?;
            // A batch of other crates' functions may have none.
            let has_lines = !known.functions.is_empty() && known.note.is_none();
            known.functions.extend(functions(own, added.iter().copied()));
            // Whether there are lines is known of an executable whose functions were looked up.
            if !has_lines || own.damage().is_some() {
                known.note = missing(own);
            }
        }
    }
    Ok((stored, added))
}

/// Returns the functions at addresses of a file; none where only the address is known.
fn functions(
    resolver: &mut Resolver,
    addresses: impl IntoIterator<Item = u64>,
) -> impl Iterator<Item = (u64, Vec<Arc<frame::Frame>>)> {
    addresses.into_iter().map(|address| {
        let frames: Vec<_> = resolver.frames(address).iter().map(stored_frame).collect();
        let is_known = frames.iter().any(|frame| frame.function.is_some() || frame.place.is_some());
        (address, if is_known { frames } else { Vec::new() })
    })
}

/// What is missing in an executable, and what provides it.
fn missing(resolver: &Resolver) -> Option<String> {
    match (resolver.detail(), resolver.damage()) {
        (_, Some(damage)) => {
            Some(format!("no lines, because the debug information cannot be read: {damage}"))
        }
        (Detail::Lines, None) => None,
        (Detail::Names, None) => Some(
            "no lines, because the executable has no debug information: build it without `strip`, and with \
             `debug = \"limited\"`"
                .to_owned(),
        ),
        (Detail::Addresses, None) => {
            Some("no names, because the executable has no symbol table: link it without `-s`".to_owned())
        }
    }
}

fn stored_frame(frame: &resolver::Frame) -> Arc<frame::Frame> {
    Arc::new(frame::Frame {
        function: frame.function.clone(),
        place: frame.place.clone(),
        line: frame.line,
        is_inlined: frame.is_inlined,
        address: None,
    })
}
