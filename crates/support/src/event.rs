//! Events, by which the stages report progress. The stages print nothing: the console shows the
//! events, and tests collect them.

use std::time::Duration;

/// Something that happened.
///
/// `name` is a revision's name in the report and `commit` its short hash; `index` counts from 1 to
/// `total`.
#[derive(Clone, Debug)]
pub enum Event {
    /// The user named no two refs; the text says what is compared.
    RefsChosen { text: String },
    /// A ref was resolved. `note` says how, unless that is obvious: `fetched from upstream`.
    Resolved { name: String, commit: String, note: Option<String> },
    /// One commit has several names, and is measured once. The text says which.
    SameCommit { text: String },
    /// Tests do not run because their code is the same at all revisions.
    SameCode { text: String },
    /// Tests run although their code is the same; the text says why.
    SameCodeRuns { text: String },
    /// Another run holds the lock on a cache folder or a device.
    WaitingForLock { subject: String, holder: String },
    /// Others come before this run on a device. `place` counts from 1, the next one's; `behind` is
    /// who comes just before; `holder` is who uses the device now, if that is another one.
    WaitingInLine { subject: String, place: usize, behind: String, holder: Option<String> },
    /// A finished run's memory is still in use on a device, and the tool waits for it.
    WaitingForMemory { device: String },
    /// A revision is about to be built.
    BuildStarted { name: String, commit: String },
    /// Not all targets are built; the text says which are.
    TargetsChosen { text: String },
    /// More was built than the selection needs; the text says how to build less.
    BuiltMore { text: String },
    /// Cargo compiled one more crate of the current build.
    BuildProgress { name: String, crate_name: String, compiled: usize },
    /// A revision was built.
    BuildFinished { name: String, commit: String, took: Duration },
    /// The store already had this build, or that of another revision with the same sources.
    BuildReused { name: String, commit: String, has_same_sources: bool },
    /// A revision did not build; the log is kept at the path.
    BuildFailed { name: String, commit: String, first_errors: String, log: String, hints: Vec<String> },
    /// The pause before the next run begins.
    Delaying { length: Duration },
    /// A run is about to start; `index` counts from 1 to `total`, over all runs. `left` is how long
    /// this run and those after it will take.
    RunStarted { test: String, name: String, index: usize, total: usize, left: Option<Duration> },
    /// A test that is running wrote these lines, or logged these checkpoints.
    TestWrote { test: String, name: String, text: String },
    /// A run ended, the `index`-th to do so. `busy` is how long anything ran since the end before it:
    /// with tests beside each other, less than the run took.
    RunFinished {
        test: String,
        name: String,
        index: usize,
        total: usize,
        outcome: String,
        ok: bool,
        took: Duration,
        busy: Duration,
    },
    /// A run ended that does not count: it is repeated when nothing else runs.
    RunRepeats { test: String, name: String },
    /// Every test has the runs that its verdicts need; `total` is their number in this session.
    AllRunsFinished { total: usize },
    /// Changed tests run once more, with call stacks.
    ExplanationBegan { tests: usize },
    /// The runs with call stacks ended.
    ExplanationEnded { tests: usize, took: Duration },
    /// Call sites were written to this file.
    Exported { path: String },
    /// A search begins. The text says over how many commits, and in about how many steps.
    SearchBegan { text: String },
    /// The compiler checked whether the rest of a diff compiles without each of these hunks.
    HunksChecked { done: usize, all: usize },
    /// The search measured or skipped a commit. The text also says how many are left.
    SearchStep { text: String, measured: bool },
    /// Slurm accepted a job of shards. The text says which.
    JobSubmitted { text: String },
    /// Where the shards of a job are now.
    JobProgress { text: String },
    /// A test program needs libraries that this machine lacks: its tests can be listed here, but
    /// not run.
    AbsentLibraries { target: String, names: Vec<String> },
    /// A process's GPU memory moved to host memory, to make room for the tests.
    MemorySetAside { text: String },
    /// Cannot move back yet, because the device has no room; the text says for what.
    WaitingForRoom { text: String },
    /// Moved back, and the process goes on.
    MemoryRestored { text: String },
    /// The cache was larger than its limit, and old builds were removed; both in bytes.
    CacheShrunk { removed: u64, limit: u64 },
    /// Something the user should know, with what to do about it.
    Warning { message: String, help: Option<String> },
}

/// Where events go.
pub trait Sink {
    /// Takes one event.
    fn emit(&self, event: Event);
}

impl<F: Fn(Event)> Sink for F {
    fn emit(&self, event: Event) {
        self(event);
    }
}
