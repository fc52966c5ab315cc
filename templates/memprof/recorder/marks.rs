//! The recorder, and its marks: the figures of all sources at one moment.

use std::io;
use std::time::Instant;

use crate::lines::calls::Calls;
use crate::lines::live_size_log::LiveSizes;
use crate::lines::occurrences::Occurrences;
use crate::lines::passes::Passes;
use crate::lines::stack_log::StackLog;
use crate::lines::telling::Telling;
use crate::lines::tensor_groups::TensorGroups;
use crate::log::environment::Environment;
use crate::log::run_log::Log;
use crate::log::terminal;
use crate::metrics::metric::{Catalogue, Index, Kind, MAXIMUM, Metric, PerMetric, Values};
use crate::metrics::peak_history::PeakHistory;
use crate::metrics::source::Extent;
use crate::platform::process;
use crate::sources::all_sources::Sources;
use crate::sources::pool_metrics::PoolMetrics;

pub(crate) struct Recorder {
    pub(crate) opened: bool,
    pub(crate) log: Option<Log>,
    pub(crate) print: bool,
    pub(crate) sources: Sources,
    pub(crate) catalogue: Catalogue,
    /// The time of `start`.
    pub(crate) started: Option<Instant>,
    /// The mark of `start` where the process began, until the test's body begins.
    pub(crate) waiting: Option<Mark>,
    /// When the test's body ended.
    pub(crate) ended: Option<u64>,
    pub(crate) marks: u64,
    /// The mark and the totals of the last checkpoint, where the next one's interval begins.
    pub(crate) checkpoint_mark: u64,
    pub(crate) checkpoint_values: Values,
    pub(crate) histories: PerMetric<PeakHistory>,
    pub(crate) open_scopes: u64,
    pub(crate) occurrences: Occurrences,
    /// Metrics that the log already has as no longer readable.
    pub(crate) lost: PerMetric<bool>,
    /// How many metrics, and how many absent ones, the log has.
    pub(crate) announced: (usize, usize),
    pub(crate) calls: Calls,
    pub(crate) tensors: TensorGroups,
    pub(crate) live_sizes: LiveSizes,
    pub(crate) passes: Passes,
    /// What the log has of call stacks; `None` if the run does not record them.
    pub(crate) stacks: Option<StackLog>,
    /// When the sums of traced calls, and the figures of lines, are logged.
    pub(crate) telling: Telling,
}

/// All figures of one moment.
pub(crate) struct Mark {
    pub(crate) number: u64,
    pub(crate) nanoseconds: u64,
    /// The figure `time`: at `done`, when the test's body ended.
    pub(crate) time: u64,
    pub(crate) values: Values,
}

impl Recorder {
    pub(crate) const fn new() -> Self {
        const NOTHING: PeakHistory = PeakHistory::new();
        Self {
            opened: false,
            log: None,
            print: false,
            sources: Sources::new(),
            catalogue: Catalogue::new(),
            started: None,
            waiting: None,
            ended: None,
            marks: 0,
            checkpoint_mark: 0,
            checkpoint_values: Values::new(),
            histories: PerMetric::new([NOTHING; MAXIMUM]),
            open_scopes: 0,
            occurrences: Occurrences::new(),
            lost: PerMetric::new([false; MAXIMUM]),
            announced: (0, 0),
            calls: Calls::new(),
            tensors: TensorGroups::new(),
            live_sizes: LiveSizes::new(),
            passes: Passes::new(),
            stacks: None,
            telling: Telling::new(),
        }
    }

    pub(crate) fn open(&mut self, environment: &Environment) {
        for source in self.sources.each() {
            source.open(environment, &mut self.catalogue);
        }
        self.opened = true;
        self.started = Some(Instant::now());
    }

    /// Nanoseconds since `start`.
    pub(crate) fn nanoseconds(&self) -> u64 {
        self.started.map_or(0, |started| u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Reads all sources. The peaks of the interval that ends here go into their histories.
    pub(crate) fn mark(&mut self, extent: Extent) -> Mark {
        let nanoseconds = self.nanoseconds();
        let mut values = Values::new();
        for source in self.sources.each() {
            source.appear(&mut self.catalogue);
            source.read(&mut values, extent);
        }
        self.sources.follow_driver(&mut self.catalogue, &mut values);
        self.marks += 1;
        for (index, metric) in self.catalogue.metrics() {
            if let (Kind::Peak { .. }, Some(peak)) = (metric.kind, values.get(index)) {
                self.histories.get_mut(index).add(self.marks, peak);
            }
        }
        Mark { number: self.marks, nanoseconds, time: nanoseconds, values }
    }

    /// Begins the next checkpoint's interval at this mark.
    pub(crate) fn count_from(&mut self, mark: &Mark) {
        self.checkpoint_mark = mark.number;
        self.checkpoint_values = mark.values;
        PoolMetrics::forget_ended();
        if self.open_scopes == 0 {
            // No open scope needs earlier peaks.
            self.histories.all_mut().for_each(PeakHistory::clear);
        }
    }

    /// A metric's figure at a mark, as a checkpoint shows it.
    pub(crate) fn figure(&self, index: Index, metric: &Metric, mark: &Mark) -> Option<u64> {
        let value = mark.values.get(index)?;
        Some(match metric.kind {
            Kind::Level => value.wrapping_sub(metric.base),
            Kind::Peak { .. } => {
                let peak = self.histories.get(index).since(self.checkpoint_mark).unwrap_or(value);
                peak.wrapping_sub(metric.base)
            }
            Kind::Total => value.wrapping_sub(self.checkpoint_values.get(index).unwrap_or(0)),
        })
    }

    /// Writes lines, if there is a log. A line that cannot be written closes it. The runner then
    /// sees that `end` is missing.
    pub(crate) fn log(&mut self, write: impl FnOnce(&Self, &mut Log) -> io::Result<()>) {
        let mut log = match self.log.take() {
            Some(log) => log,
            None => return,
        };
        match write(self, &mut log) {
            Ok(()) => self.log = Some(log),
            Err(error) => {
                process::set_recording(false);
                terminal::warn(format_args!(
                    "recording ends here, because the log cannot be written: {error}"
                ));
            }
        }
    }
}
