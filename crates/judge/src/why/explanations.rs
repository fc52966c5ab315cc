//! The call sites of a comparison's changed tests, from what the run's folder keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use camino::Utf8Path;

use crate::compare::aggregate::Figure;
use crate::compare::comparison::{Comparison, PairView};
use crate::compare::matching::Match;
use crate::results::build_facts::Fact;
use crate::results::log_file;
use crate::results::run_folder::{RunFolder, file};
use crate::results::stack_log::StackLog;
use crate::results::stack_log_reader;
use crate::results::stored::{self, Results};
use crate::why::agreement::Agreement;
use crate::why::attribution::{Attribution, Question, RecordedRun};
use crate::why::chosen::{self, changed_rows, compared_names, has_stacks, highest, row_at};
use crate::why::class::Diff;
use crate::why::difference::{CheckpointName, Difference, Measure};
use crate::why::grouping::{GroupBy, Grouping};
use crate::why::held::{self, HeldMemory};
use crate::why::hunks::{ChangedSources, Changes, used_paths};
use crate::why::limits::BrokenLimit;
use crate::why::stacks::Stacks;
use crate::why::stored::{
    LogSymbols, StoredChanges, StoredExecutable, StoredFile, StoredOwners, StoredSymbols, StoredTest,
    StoredTests,
};
use crate::why::threads::{self, ThreadsOfRun};
use crate::why::versions::Versions;
use memprof_plan::lock_differences::{self, LockedVersion};
use memprof_plan::resolved::CellId;
use memprof_support::{parallel, regular_file, sealed};

/// A test has at most this many explained rows.
const MOST_ROWS: usize = 50;

/// The call sites of tests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanations {
    /// The tests, the worst first.
    pub tests: Vec<Explained>,
    /// Which tests were left out, and why.
    pub left_out: Option<String>,
    /// At most this many frames of each site are shown.
    pub frames: usize,
    /// The source files that differ.
    pub changes: StoredChanges,
}

/// A test's call sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The test.
    pub cell: CellId,
    /// Index of the candidate, or of the only revision.
    pub candidate: usize,
    /// The rows, the one that the test is reported with first.
    pub rows: Vec<ExplainedRow>,
    /// What was live, or was allocated, where the candidate broke a limit.
    pub limits: Vec<ExplainedRow>,
    /// Whether the rows are what the user asked for, and not the changed ones.
    pub is_asked: bool,
    /// Who holds the memory, if the run was asked.
    pub held: Option<HeldMemory>,
    /// What each thread did, by side, if the run was asked.
    pub threads: [Option<ThreadsOfRun>; 2],
    /// Why there are no sites, or no lines.
    pub remarks: Vec<String>,
    /// What the sides recorded, for exports and pages: the baseline and the candidate.
    pub recorded: [Option<Recorded>; 2],
}

/// A row with its sites.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedRow {
    /// The sites.
    pub difference: Difference,
    /// The same by line, if other groups are shown: a cause is a line, and a larger group may have several.
    pub by_line: Option<Difference>,
    /// Whether the recorded figures are those of the plain runs, by side.
    pub agreements: [Option<Agreement>; 2],
}

/// What one run recorded, with its functions.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub log: StackLog,
    pub stacks: Stacks,
    /// Why lines or names are missing.
    note: Option<String>,
}

/// Two recordings are compared by their logs.
impl PartialEq for Recorded {
    fn eq(&self, other: &Self) -> bool {
        self.log == other.log
    }
}

/// What is asked about the recorded tests.
#[derive(Clone, Debug, Default)]
pub struct Inquiry {
    /// How sites are grouped, and which ones are shown.
    pub grouping: Grouping,
    /// Asks for what is live at this checkpoint, in place of the changed rows.
    pub at: Option<CheckpointName>,
    /// Asks for what became live from this checkpoint on.
    pub from: Option<CheckpointName>,
}

impl ExplainedRow {
    /// Returns the sites by which causes are found.
    pub fn sites(&self) -> &Difference {
        self.by_line.as_ref().unwrap_or(&self.difference)
    }
}

impl Inquiry {
    /// Returns the same for runs that were not asked for threads.
    fn without_threads(&self) -> Self {
        let by = if self.grouping.by == GroupBy::Thread { GroupBy::Line } else { self.grouping.by };
        Self { grouping: Grouping { by, ..self.grouping.clone() }, ..self.clone() }
    }
}

/// Most tests whose logs are in memory.
const READ_AT_ONCE: usize = 4;

impl Explanations {
    /// Reads what a run's folder keeps. `None` if no test was recorded.
    ///
    /// # Errors
    /// A file was changed or cannot be read.
    pub fn read(
        folder: &RunFolder,
        results: &Results,
        comparison: &Comparison,
        inquiry: &Inquiry,
    ) -> anyhow::Result<Option<Self>> {
        let why = folder.why();
        if !why.tests().exists() {
            return Ok(None);
        }
        let stored: StoredTests = sealed::read(&why.tests())?;
        let changes: StoredChanges = if folder.changes().exists() {
            sealed::read(&folder.changes())?
        } else {
            StoredChanges::default()
        };
        let sources = changes.of.iter().map(|(candidate, files)| {
            let files = files.as_ref().map(|files| ChangedSources::new(files));
            (*candidate, files.map_err(String::as_str))
        });
        let sources = sources.collect();
        let executables = Mutex::default();
        let reader =
            Reader { why: &why, results, comparison, sources: &sources, inquiry, executables: &executables };
        let tests = parallel::map(&stored.tests, READ_AT_ONCE, |test| reader.explain_or_tell(test));
        Ok(Some(Self { tests, left_out: stored.left_out, frames: 1, changes }))
    }

    /// Returns the source files that a candidate changed; none if they are not known.
    pub fn sources(&self, candidate: usize) -> &[StoredFile] {
        self.changes.of.get(&candidate).and_then(|files| files.as_deref().ok()).unwrap_or_default()
    }

    /// Returns the sites of a test.
    pub fn for_pair(&self, view: &PairView<'_>) -> Option<&Explained> {
        self.tests.iter().find(|test| test.cell == view.cell.id && test.candidate == view.pair.candidate)
    }
}

struct Reader<'a> {
    why: &'a RunFolder,
    results: &'a Results,
    comparison: &'a Comparison,
    /// By candidate; or why they are not known.
    sources: &'a BTreeMap<usize, Result<ChangedSources<'a>, &'a str>>,
    inquiry: &'a Inquiry,
    /// What was read, by hash.
    executables: &'a Mutex<BTreeMap<String, Arc<StoredExecutable>>>,
}

impl Reader<'_> {
    /// Files that cannot be read are a remark, because the comparison does not need them.
    fn explain_or_tell(&self, test: &StoredTest) -> Explained {
        self.explain(test).unwrap_or_else(|error| Explained {
            cell: test.cell.clone(),
            candidate: test.candidate,
            rows: Vec::new(),
            limits: Vec::new(),
            is_asked: false,
            held: None,
            threads: [None, None],
            remarks: vec![format!("the call stacks cannot be read: {error:#}")],
            recorded: [None, None],
        })
    }

    fn explain(&self, test: &StoredTest) -> anyhow::Result<Explained> {
        let mut explained = Explained {
            cell: test.cell.clone(),
            candidate: test.candidate,
            rows: Vec::new(),
            limits: Vec::new(),
            is_asked: self.inquiry.at.is_some(),
            held: None,
            threads: [None, None],
            remarks: test.problem.iter().cloned().collect(),
            recorded: [None, None],
        };
        if test.problem.is_some() {
            return Ok(explained);
        }
        let cells = self.comparison.cells.iter().filter(|cell| cell.id == test.cell);
        let found = cells.flat_map(|cell| cell.pairs.iter().chain(&cell.alone).map(move |pair| (cell, pair)));
        let view = found
            .map(|(cell, pair)| self.comparison.view(cell, pair))
            .find(|view| view.pair.candidate == test.candidate);
        let Some(view) = view else { return Ok(explained) };
        let alone = self.comparison.revisions.len() == 1;
        explained.recorded[1] = self.recorded(test, test.candidate)?;
        if !alone {
            explained.recorded[0] = self.recorded(test, self.comparison.baseline)?;
            let used = explained.recorded.iter().flatten().flat_map(|side| used_paths(side.stacks.frames()));
            explained.remarks.extend(match self.changed_files(test.candidate) {
                Ok(files) => files.problems(&used.collect()),
                Err(reason) => vec![format!("it is not known which sites the diff touches: {reason}")],
            });
            if let [Some(old), Some(new)] = explained.recorded.each_ref().map(|side| side.as_ref()) {
                let frames = Versions::of_frames([&mut old.stacks.frames(), &mut new.stacks.frames()]);
                explained.remarks.extend(frames.problems());
            }
        }
        let notes: BTreeSet<String> =
            explained.recorded.iter().flatten().filter_map(|side| side.note.clone()).collect();
        explained.remarks.extend(notes);
        let logs = explained.recorded.each_ref().map(|side| side.as_ref().map(|side| &side.log));
        explained.threads = threads::of_runs(logs);
        if logs.iter().flatten().any(|log| !log.has_threads() && !log.sites.is_empty()) {
            let by_thread = self.inquiry.grouping.by == GroupBy::Thread;
            let reason = "no threads: the run was not asked for them (--why-by thread)";
            explained.remarks.extend(by_thread.then(|| reason.to_owned()));
            let inquiry = self.inquiry.without_threads();
            return Reader { inquiry: &inquiry, ..*self }.answers(test, &view, explained);
        }
        self.answers(test, &view, explained)
    }

    /// Completes what is known of a recorded test.
    fn answers(
        &self,
        test: &StoredTest,
        view: &PairView<'_>,
        mut explained: Explained,
    ) -> anyhow::Result<Explained> {
        if let ([old, Some(new)], false) = (&explained.recorded, explained.is_asked) {
            let (limits, remarks) = self.limits(view, old.as_ref(), new);
            explained.limits = limits;
            explained.remarks.extend(remarks);
        }
        let (rows, remarks) = match &explained.recorded {
            [old, Some(new)] if self.inquiry.at.is_some() => self.rows_at(view, old.as_ref(), new),
            [None, Some(own)] => self.rows_of_one(view, own),
            [Some(old), Some(new)] => self.rows(view, test.candidate, old, new),
            _ => (Vec::new(), vec!["the runs with call stacks have no log".to_owned()]),
        };
        let is_of_limit = |row: &ExplainedRow| {
            explained.limits.iter().any(|limit| limit.difference.is_about_the_same(&row.difference))
        };
        explained.rows = rows.into_iter().filter(|row| !is_of_limit(row)).collect();
        explained.remarks.extend(remarks);
        explained.held = self.held(test, &explained.recorded)?;
        if explained.held.is_none() && self.inquiry.grouping.by == GroupBy::Owner {
            explained.remarks.push("no owners: the run was not asked for them (--why-by owner)".to_owned());
        }
        Ok(explained)
    }

    /// Reads who holds the memory of each side, and compares.
    fn held(
        &self,
        test: &StoredTest,
        recorded: &[Option<Recorded>; 2],
    ) -> anyhow::Result<Option<HeldMemory>> {
        let read = |revision: usize| -> anyhow::Result<Option<StoredOwners>> {
            let path =
                self.why.cell(&self.results.plan, revision, &test.cell, 0).join(file::owners(test.candidate));
            if path.exists() { Ok(Some(sealed::read(&path)?)) } else { Ok(None) }
        };
        let sides = match recorded {
            [Some(_), _] => [read(self.comparison.baseline)?, read(test.candidate)?],
            _ => [None, read(test.candidate)?],
        };
        // A session may have ended between the sides.
        if sides.iter().flatten().count() < recorded.iter().flatten().count().max(1) {
            return Ok(None);
        }
        let trees = sides.each_ref().map(|side| side.as_ref().and_then(|side| side.tree.as_ref()));
        let diff = match recorded {
            [Some(old), Some(new)] => Some(self.diff(test.candidate, old, new)),
            _ => None,
        };
        let mut held = match &diff {
            Some(diff) => held::compare(trees, diff.changes()),
            None => held::compare(trees, &Changes::default()),
        };
        let sides = sides.into_iter().flatten();
        held.remarks.extend(sides.flat_map(|side| {
            side.problem.into_iter().chain(side.tree.into_iter().flat_map(|tree| tree.remarks))
        }));
        held.remarks.sort();
        held.remarks.dedup();
        Ok(Some(held))
    }

    /// Reads one side's log and its functions.
    fn recorded(&self, test: &StoredTest, revision: usize) -> anyhow::Result<Option<Recorded>> {
        let folder = self.why.cell(&self.results.plan, revision, &test.cell, 0);
        let (path, symbols) = (folder.join(file::LOG), folder.join(file::SYMBOLS));
        if folder.join(file::OUTCOME).exists() {
            // Without this, an emptied log would look like a test that allocates nothing.
            ensure_whole(&folder)?;
        } else if !path.exists() || !symbols.exists() {
            // The revision does not have the test.
            return Ok(None);
        }
        let StoredSymbols { executable, libraries } = sealed::read(&symbols)?;
        let executable = executable.map(|hash| self.executable(&hash)).transpose()?.unwrap_or_default();
        let mut log = read_log(&path)?;
        anyhow::ensure!(log.recording.is_some(), "{path} does not say how call stacks were recorded");
        let symbols = LogSymbols { executable: &executable, libraries };
        let stacks = Stacks::new(&log, |module, address| symbols.frames(module, address));
        let stacks = stacks.with_sizes(executable.sizes());
        // The stacks have them now.
        log.nodes = Vec::new();
        Ok(Some(Recorded { log, stacks, note: executable.note.clone() }))
    }

    /// Reads what is known of an executable, once for all its tests.
    fn executable(&self, hash: &str) -> anyhow::Result<Arc<StoredExecutable>> {
        let mut known = self.executables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(executable) = known.get(hash) {
            return Ok(Arc::clone(executable));
        }
        let read: Arc<StoredExecutable> = Arc::new(sealed::read(&self.why.executable(hash))?);
        known.insert(hash.to_owned(), Arc::clone(&read));
        Ok(read)
    }

    /// The rows that changed, the one that the test is reported with first.
    fn rows(
        &self,
        view: &PairView<'_>,
        candidate: usize,
        old: &Recorded,
        new: &Recorded,
    ) -> (Vec<ExplainedRow>, Vec<String>) {
        let diff = self.diff(candidate, old, new);
        let attribution = Attribution::new(old.run(), new.run(), &diff);
        let (mut rows, mut remarks) = (Vec::new(), BTreeSet::new());
        for (metric, row) in self.changed_rows(view, [old, new]) {
            let question =
                Question { metric: metric.to_owned(), checkpoints: compared_names(view, metric, row) };
            match attribution.answer(&question, &self.inquiry.grouping) {
                Ok(difference) if difference.is_empty() && chosen::is_of_scope(self.comparison, view) => {
                    remarks.insert(chosen::ONLY_IN_SCOPE.to_owned());
                }
                Ok(difference) => {
                    let figures = view.column(metric).at(row);
                    let agreements = [
                        agreement(metric, &difference, 0, figures.baseline),
                        agreement(metric, &difference, 1, figures.candidate),
                    ];
                    let of_causes = self.inquiry.grouping.of_causes();
                    let by_line = of_causes.map(|by_line| attribution.answer(&question, &by_line));
                    rows.push(ExplainedRow { difference, by_line: by_line.and_then(Result::ok), agreements });
                }
                Err(reason) => {
                    remarks.insert(reason.to_string());
                }
            }
        }
        // One row with sites says more than another's reason for having none.
        let remarks = if rows.is_empty() { remarks.into_iter().collect() } else { Vec::new() };
        (rows, remarks)
    }

    /// What a test of one revision has at its highest peak, and what it keeps at the end.
    fn rows_of_one(&self, view: &PairView<'_>, own: &Recorded) -> (Vec<ExplainedRow>, Vec<String>) {
        let (mut rows, mut remarks) = (Vec::new(), Vec::new());
        for family in &own.log.families {
            let Some(highest) = family.highest() else { continue };
            let last = family.intervals.len() - 1;
            // What little std keeps is no leak.
            let totals = [highest, last].map(|interval| family.intervals[interval].total);
            let kept = (totals[1].live > totals[0].at_peak / 100).then_some(("live", last));
            for (part, interval) in std::iter::once(("peak", highest)).chain(kept) {
                let metric = format!("{}.{part}", family.name);
                let interval = &family.intervals[interval];
                let name = CheckpointName { label: interval.label.clone(), occurrence: interval.occurrence };
                match own.run().answer(&metric, &name, &self.inquiry.grouping) {
                    Ok(difference) => {
                        let figure = candidate_figure(view, &metric, &name);
                        let agreement = agreement(&metric, &difference, 1, figure);
                        rows.push(ExplainedRow { difference, by_line: None, agreements: [None, agreement] });
                    }
                    Err(reason) => remarks.push(reason.to_string()),
                }
            }
        }
        (rows, remarks)
    }

    /// What the candidate had where it broke a limit, with what the diff has to do with it.
    fn limits(
        &self,
        view: &PairView<'_>,
        old: Option<&Recorded>,
        new: &Recorded,
    ) -> (Vec<ExplainedRow>, Option<String>) {
        let diff = old.map(|old| (old, self.diff(view.pair.candidate, old, new)));
        let answer = |limit: &BrokenLimit, at: &CheckpointName, grouping: &Grouping| match &diff {
            Some((old, diff)) => {
                let question =
                    Question { metric: limit.metric.clone(), checkpoints: [None, Some(at.clone())] };
                Attribution::new(old.run(), new.run(), diff).answer(&question, grouping)
            }
            None => new.run().answer(&limit.metric, at, grouping),
        };
        let explain = |limit: BrokenLimit| {
            let at = limit.checkpoint(&new.log)?;
            let difference = answer(&limit, &at, &self.inquiry.grouping).ok()?;
            let by_line =
                self.inquiry.grouping.of_causes().and_then(|by_line| answer(&limit, &at, &by_line).ok());
            let figure = candidate_figure(view, &limit.metric, &at);
            let agreement = agreement(&limit.metric, &difference, 1, figure);
            Some(ExplainedRow { difference, by_line, agreements: [None, agreement] })
        };
        let broken = BrokenLimit::all(self.comparison, view);
        let elsewhere = broken.iter().find(|limit| limit.checkpoint(&new.log).is_none());
        let remark = elsewhere.map(|limit| limit.advice().to_owned());
        (broken.into_iter().filter_map(explain).collect(), remark)
    }

    /// What is live at the checkpoint that was asked for, or became live since another one.
    fn rows_at(
        &self,
        view: &PairView<'_>,
        old: Option<&Recorded>,
        new: &Recorded,
    ) -> (Vec<ExplainedRow>, Vec<String>) {
        let (mut rows, mut remarks) = (Vec::new(), Vec::new());
        let Inquiry { grouping, at: Some(at), from } = self.inquiry else { return (rows, remarks) };
        let diff = old.map(|old| self.diff(view.pair.candidate, old, new));
        for family in &new.log.families {
            let metric = format!("{}.live", family.name);
            let answer = match (from, old, &diff) {
                (Some(from), ..) => new.run().growth(&metric, from, at, grouping),
                (None, Some(old), Some(diff)) => {
                    let checkpoints = [Some(at.clone()), Some(at.clone())];
                    let question = Question { metric, checkpoints };
                    Attribution::new(old.run(), new.run(), diff).answer(&question, grouping)
                }
                (None, ..) => new.run().answer(&metric, at, grouping),
            };
            match answer {
                Ok(difference) => {
                    rows.push(ExplainedRow { difference, by_line: None, agreements: [None, None] });
                }
                Err(reason) => remarks.push(reason.to_string()),
            }
        }
        (rows, remarks)
    }

    /// The changed rows of metrics that have sites, in the order of [`changed_rows`].
    fn changed_rows<'b>(&self, view: &PairView<'b>, recorded: [&Recorded; 2]) -> Vec<(&'b str, &'b Match)> {
        let mut rows = changed_rows(self.comparison, view);
        let mut known = BTreeSet::new();
        rows.retain(|(metric, row)| {
            has_stacks(view, metric, row) && known.insert((*metric, row.baseline, row.candidate))
        });
        let has_sites = |metric: &str| {
            let family = Measure::of_metric(metric).map(|(family, _)| family);
            family.is_some_and(|family| recorded.iter().any(|side| side.log.family(family).is_some()))
        };
        let without_sites = rows.iter().copied().find(|(metric, _)| !has_sites(metric));
        rows.retain(|(metric, _)| has_sites(metric));
        if rows.is_empty() {
            // Resident memory has no sites, but what it is made of may have. A test without a verdict may
            // have changed a little, and still has a peak.
            rows.extend(
                largest(view, has_sites)
                    .or(without_sites)
                    .or_else(|| highest(view, "heap.peak").filter(|(_, row)| row.baseline.is_some())),
            );
        }
        rows.truncate(MOST_ROWS);
        rows
    }

    fn diff(&self, candidate: usize, old: &Recorded, new: &Recorded) -> Diff {
        let used = [old, new].map(|side| used_paths(side.stacks.frames()));
        let changes = self.changed_files(candidate).ok().map(|files| files.used(&used));
        let packages = [self.comparison.baseline, candidate].map(|revision| self.packages(revision));
        let [mut old, mut new] = [old, new].map(|side| side.stacks.frames());
        let mut versions = Versions::of_frames([&mut old, &mut new]);
        if let [Some(old), Some(new)] = packages {
            versions = versions.with_lock_files([old, new]);
        }
        Diff { changes, versions }
    }

    /// The source files that a candidate changed, or why they are not known.
    fn changed_files(&self, candidate: usize) -> Result<&ChangedSources<'_>, &str> {
        match self.sources.get(&candidate) {
            Some(Ok(files)) => Ok(files),
            Some(Err(reason)) => Err(reason),
            None => Err("the run's folder has no changes.json for it"),
        }
    }

    /// The packages of a revision's lock file.
    fn packages(&self, revision: usize) -> Option<BTreeMap<String, BTreeSet<String>>> {
        let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let lines = self.results.builds.get(&revision)?.get(Fact::Packages)?;
        for (name, LockedVersion { version, .. }) in lock_differences::of_lines(lines) {
            packages.entry(name.to_owned()).or_default().insert(version.to_owned());
        }
        Some(packages)
    }
}

impl Explained {
    /// Returns why nothing was recorded, if so.
    pub fn problem(&self) -> Option<&str> {
        let is_recorded = self.recorded.iter().any(Option::is_some);
        if is_recorded { None } else { Some(self.remarks.first().map_or("it did not run", String::as_str)) }
    }
}

impl Recorded {
    /// Returns the log with its stacks.
    pub fn run(&self) -> RecordedRun<'_> {
        RecordedRun { log: &self.log, stacks: &self.stacks }
    }
}

/// The row that differs most, of the metrics that have sites: levels and peaks, or what else is judged.
fn largest<'a>(view: &PairView<'a>, has_sites: impl Fn(&str) -> bool) -> Option<(&'a str, &'a Match)> {
    let measure = |metric: &str| Measure::of_metric(metric).map(|(_, measure)| measure);
    let is_level = |metric: &str| matches!(measure(metric), Some(Measure::AtPeak | Measure::Live));
    let is_meant = |metric: &&str| has_sites(metric) && (is_level(metric) || view.judged(metric).is_some());
    let rows = view.candidate.metrics().into_iter().filter(is_meant).flat_map(|metric| {
        let column = view.column(metric);
        view.rows.iter().filter_map(move |row| Some((column.at(row).delta?.difference, metric, row)))
    });
    let rows = rows.filter(|(difference, ..)| *difference != 0);
    // Bytes and counts do not compare.
    let largest = rows.max_by_key(|(difference, metric, _)| (is_level(metric), difference.abs()));
    largest.map(|(_, metric, row)| (metric, row))
}

/// Refuses the files of a run that were changed after it.
fn ensure_whole(run: &Utf8Path) -> anyhow::Result<()> {
    match stored::damage(run) {
        Some(problem) => anyhow::bail!(problem),
        None => Ok(()),
    }
}

/// Reads the call stacks of a log.
pub fn read_log(path: &Utf8Path) -> anyhow::Result<StackLog> {
    let log = regular_file::open_within(path, log_file::MOST_OF_LOG).with_context(|| path.to_string())?;
    Ok(stack_log_reader::read(BufReader::new(log), path.as_str())?)
}

/// The candidate's plain figure of the checkpoint itself.
fn candidate_figure(view: &PairView<'_>, metric: &str, at: &CheckpointName) -> Option<Figure> {
    view.candidate.column(metric)?.figure(view.rows[row_at(view, at)?].candidate?)
}

/// Whether a side's recorded figure is that of the plain runs.
fn agreement(metric: &str, difference: &Difference, side: usize, plain: Option<Figure>) -> Option<Agreement> {
    let recorded = difference.measure.get(difference.totals[side]?);
    let plain: Vec<i64> = plain.map(|figure| vec![figure.min, figure.max]).unwrap_or_default();
    Some(Agreement::compare(metric, recorded, &plain))
}
