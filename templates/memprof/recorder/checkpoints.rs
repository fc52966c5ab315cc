//! The lines of a checkpoint, and what goes before them: metrics that appeared, devices, sizes of blocks.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lines::live_size_log::LiveSizes;
use crate::lines::occurrences::Logged;
use crate::lines::stack_log::StackLog;
use crate::lines::tensor_groups::TensorGroups;
use crate::log::run_log::Log;
use crate::log::terminal;
use crate::metrics::metric::Index;
use crate::metrics::source::Extent;
use crate::platform::untracked::Text;
use crate::recorder::marks::{Mark, Recorder};
use crate::sources::all_sources::Sources;
use crate::stacks::stack_recording;

/// Whether something was left out that standard error has no warning about yet.
static LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// The next checkpoint warns that something was left out.
pub(crate) fn warn_of_left_out() {
    LEFT_OUT.store(true, Ordering::Relaxed);
}

impl Recorder {
    /// Returns the line to show, if any.
    pub(crate) fn checkpoint(&mut self, label: &str, at: Option<&str>) -> Option<Text> {
        // Another thread may have closed the log since the caller looked.
        self.log.as_ref()?;
        if LEFT_OUT.load(Ordering::Relaxed) && LEFT_OUT.swap(false, Ordering::Relaxed) {
            terminal::warn(format_args!(
                "left out what a signal handler logged, because it interrupted the writing of another line"
            ));
        }
        let mark = self.mark_of_checkpoint();
        self.log_checkpoint(label, at, &mark);
        if self.print && at.is_some() {
            let resident = self.catalogue.metrics().find(|(_, metric)| metric.name == "cpu.rss");
            let resident = resident.and_then(|(index, _)| mark.values.get(index));
            Some(terminal::checkpoint_line(label, self.sources.gpu.in_use(&mark.values), resident))
        } else {
            None
        }
    }

    /// Reads all sources for a checkpoint, which ends the interval of call stacks.
    pub(crate) fn mark_of_checkpoint(&mut self) -> Mark {
        if let Some(stacks) = &self.stacks {
            stacks.end_interval_at_next_mark(&self.sources);
        }
        self.mark(Extent::Whole)
    }

    pub(crate) fn log_checkpoint(&mut self, label: &str, at: Option<&str>, mark: &Mark) {
        self.log_what_appeared(mark);
        self.log_tensor_devices(mark);
        self.log_live_sizes(mark);
        let logged = if at.is_some() { Logged::Checkpoint } else { Logged::OwnCheckpoint };
        let occurrence = self.occurrences.next(logged, label);
        self.log(|recorder, log| {
            log.write("checkpoint", mark.nanoseconds, |json| {
                json.text("label", label);
                json.figure("occurrence", occurrence);
                json.text_or_null("at", at);
                json.object("metrics", |json| {
                    for (index, metric) in recorder.catalogue.metrics() {
                        if let Some(figure) = recorder.figure(index, metric, mark) {
                            json.figure(metric.name, figure);
                        }
                    }
                    json.figure("time", mark.time);
                });
            })
        });
        if let Some(mut stacks) = self.stacks.take() {
            self.log(|recorder, log| {
                stacks.checkpoint(log, &recorder.sources, mark.nanoseconds, (label, occurrence))
            });
            self.stacks = Some(stacks);
            stack_recording::after_checkpoint(label, occurrence, at.is_none());
        }
        self.log_what_was_lost(mark);
        self.count_from(mark);
    }

    /// Logs the metrics, and the absent ones, that appeared after the first lines.
    pub(crate) fn log_what_appeared(&mut self, mark: &Mark) {
        let (metrics, absent) =
            std::mem::replace(&mut self.announced, (self.catalogue.length(), self.catalogue.absent().len()));
        if metrics < self.announced.0 {
            self.log(|recorder, log| {
                log.write("sources", mark.nanoseconds, |json| {
                    json.object("sources", |json| {
                        for (_, metric) in recorder.catalogue.metrics().skip(metrics) {
                            json.text(metric.name, metric.source);
                        }
                    });
                })
            });
        }
        self.log(|recorder, log| {
            recorder.catalogue.absent()[absent..].iter().try_for_each(|absent| {
                log.write("absent", mark.nanoseconds, |json| {
                    json.text("metric", absent.name);
                    json.text("reason", absent.reason);
                })
            })
        });
    }

    /// Logs a metric that can no longer be read, for example after the program closed all
    /// descriptors, and why.
    fn log_what_was_lost(&mut self, mark: &Mark) {
        for place in 0..self.catalogue.length() {
            let index = Index::at(place);
            let is_missing =
                mark.values.get(index).is_none() && !self.catalogue.metric(index).lost.is_empty();
            if is_missing && !std::mem::replace(self.lost.get_mut(index), true) {
                let known = self.sources.each().iter().find_map(|source| source.why_lost(index));
                self.log(|recorder, log| {
                    log.write("absent", mark.nanoseconds, |json| {
                        let metric = recorder.catalogue.metric(index);
                        json.text("metric", metric.name);
                        json.text("reason", known.unwrap_or(metric.lost));
                    })
                });
            }
        }
    }

    /// Writes lines about call stacks, if the run records them.
    pub(crate) fn log_stacks(
        &mut self,
        write: impl FnOnce(&mut StackLog, &mut Log, &Sources) -> io::Result<()>,
    ) {
        if let Some(mut stacks) = self.stacks.take() {
            self.log(|recorder, log| write(&mut stacks, log, &recorder.sources));
            self.stacks = Some(stacks);
        }
    }

    /// Logs which of the machine's devices the CUDA ordinals of tensors are, as far as that is new.
    fn log_tensor_devices(&mut self, mark: &Mark) {
        let mut tensors = std::mem::replace(&mut self.tensors, TensorGroups::new());
        self.log(|recorder, log| {
            let gpu = &recorder.sources.gpu;
            tensors.log_devices(log, mark.nanoseconds, |ordinal| gpu.known_device(ordinal))
        });
        self.tensors = tensors;
    }

    /// Logs the sizes of the heap's blocks and of each GPU's, if a tensor has a name.
    fn log_live_sizes(&mut self, mark: &Mark) {
        if self.tensors.names_any() {
            let mut live_sizes = std::mem::replace(&mut self.live_sizes, LiveSizes::new());
            self.log(|recorder, log| live_sizes.log(log, &recorder.sources, mark.nanoseconds));
            self.live_sizes = live_sizes;
        }
    }
}
