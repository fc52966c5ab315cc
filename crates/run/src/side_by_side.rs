//! Runs work beside other work, each in a thread of its own. Everything else, such as events and
//! the checkout, stays in the calling thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};

use crate::schedule::Schedule;
use memprof_support::event::{Event, Sink};
use memprof_support::process::INTERRUPT_POLL;

/// What a run does in its thread. It emits events, and ends early if the flag is set.
pub(crate) type Work<'w, T> = Box<dyn FnOnce(&dyn Sink, &AtomicBool) -> anyhow::Result<T> + Send + 'w>;

/// Writes what a run returned. This waits for the disk, so other runs go on meanwhile.
pub(crate) type Keeping<'w> = Box<dyn FnOnce() -> anyhow::Result<()> + Send + 'w>;

/// What becomes of a run that has ended.
pub(crate) enum Ending<'w> {
    /// Is done once this is written.
    Done(Keeping<'w>),
    /// Must run again, alone.
    Again,
    /// Was interrupted.
    Interrupted,
}

/// What is run, and what is done before and after each run.
pub(crate) trait Stage<'w> {
    /// What a run returns.
    type Outcome: Send + 'w;

    /// Called when nothing runs. Returns the runs that must run again, alone.
    fn settle(&mut self) -> anyhow::Result<Vec<usize>>;

    /// Returns the work of a run. `None` if the run can only start when nothing else runs.
    fn begin(&mut self, run: usize, running: &[usize]) -> anyhow::Result<Option<Work<'w, Self::Outcome>>>;

    /// Takes what a run returned. `is_beside` is true if another run was under way at any time.
    fn end(&mut self, run: usize, outcome: Self::Outcome, is_beside: bool) -> anyhow::Result<Ending<'w>>;

    /// Called once what a run returned is written.
    fn kept(&mut self, run: usize);
}

/// What a thread returned, or its panic.
type Returned<T> = Result<anyhow::Result<T>, Box<dyn Any + Send>>;

enum Message<T> {
    Happened(Event),
    Ended { run: usize, result: Returned<T> },
    Kept { run: usize, result: Returned<()> },
}

/// Runs everything of a schedule. Returns `false` if it was interrupted. After an error, the runs
/// that are under way are stopped.
pub(crate) fn run<'w, S: Stage<'w>>(
    stage: &mut S,
    schedule: &mut Schedule,
    interrupt: &AtomicBool,
    sink: &dyn Sink,
) -> anyhow::Result<bool> {
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    let mut loops = Loop {
        stage,
        schedule,
        sink,
        stop: &stop,
        is_draining: false,
        keeping: Vec::new(),
        being_kept: 0,
        is_interrupted: false,
        failure: None,
    };
    std::thread::scope(|scope| {
        while loops.goes_on(interrupt) {
            loops.start(&mut |run, work| {
                let (sender, stop) = (sender.clone(), &stop);
                scope.spawn(move || perform(run, work, stop, &sender));
            });
            loops.receive(&receiver);
            for (run, keep) in loops.keeping.drain(..) {
                let sender = sender.clone();
                scope.spawn(move || {
                    let result = catch_unwind(AssertUnwindSafe(keep));
                    let _ = sender.send(Message::Kept { run, result });
                });
            }
        }
    });
    // The last events of a run come before its end, so none are left.
    match loops.failure {
        Some(error) => Err(error),
        None => Ok(!loops.is_interrupted),
    }
}

/// Does the work of a run, and reports its end.
fn perform<T>(run: usize, work: Work<'_, T>, stop: &AtomicBool, sender: &Sender<Message<T>>) {
    let emit = |event| {
        // The receiver lives until all work has ended.
        let _ = sender.send(Message::Happened(event));
    };
    let result = catch_unwind(AssertUnwindSafe(|| work(&emit, stop)));
    let _ = sender.send(Message::Ended { run, result });
}

struct Loop<'l, 'w, S> {
    stage: &'l mut S,
    schedule: &'l mut Schedule,
    sink: &'l dyn Sink,
    /// Set once no more runs start, and those that are under way must end.
    stop: &'l AtomicBool,
    /// Whether the next run waits until nothing runs.
    is_draining: bool,
    /// What is to be written.
    keeping: Vec<(usize, Keeping<'w>)>,
    /// How many results are being written.
    being_kept: usize,
    is_interrupted: bool,
    failure: Option<anyhow::Error>,
}

impl<'w, S: Stage<'w>> Loop<'_, 'w, S> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn fail(&mut self, error: anyhow::Error) {
        self.stop.store(true, Ordering::Relaxed);
        // The first error is the cause of the others.
        self.failure.get_or_insert(error);
    }

    /// Whether nothing runs and nothing is being written. Only then a run may have the machine for
    /// itself.
    fn is_idle(&self) -> bool {
        self.schedule.is_idle() && self.being_kept == 0
    }

    /// Whether something runs or is to run.
    fn goes_on(&mut self, interrupt: &AtomicBool) -> bool {
        if self.is_idle() {
            match self.stage.settle() {
                Ok(again) => again.into_iter().for_each(|run| self.schedule.add_alone(run)),
                Err(error) => self.fail(error),
            }
        }
        if interrupt.load(Ordering::Relaxed) && !self.schedule.is_done() {
            self.is_interrupted = true;
            self.stop.store(true, Ordering::Relaxed);
        }
        !self.is_idle() || !self.is_stopped() && !self.schedule.is_done()
    }

    /// Starts what may start now.
    fn start(&mut self, spawn: &mut dyn FnMut(usize, Work<'w, S::Outcome>)) {
        if self.schedule.is_idle() && self.being_kept > 0 {
            return;
        }
        self.is_draining &= !self.schedule.is_idle();
        while !self.is_draining && !self.is_stopped() {
            let Some(run) = self.schedule.next() else { return };
            let running: Vec<usize> = self.schedule.running().collect();
            match self.stage.begin(run, &running) {
                Ok(Some(work)) => {
                    self.schedule.start(run);
                    spawn(run, work);
                }
                Ok(None) => self.is_draining = true,
                Err(error) => self.fail(error),
            }
        }
    }

    fn receive(&mut self, receiver: &Receiver<Message<S::Outcome>>) {
        if self.is_idle() {
            return;
        }
        match receiver.recv_timeout(INTERRUPT_POLL) {
            Ok(Message::Happened(event)) => self.sink.emit(event),
            Ok(Message::Ended { run, result }) => self.end(run, result),
            Ok(Message::Kept { run, result }) => {
                self.being_kept -= 1;
                match self.returned(result) {
                    Ok(()) => self.stage.kept(run),
                    Err(error) => self.fail(error),
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Returns what a thread returned, or panics as it did.
    fn returned<T>(&self, result: Returned<T>) -> anyhow::Result<T> {
        result.unwrap_or_else(|panic| {
            self.stop.store(true, Ordering::Relaxed);
            resume_unwind(panic)
        })
    }

    fn end(&mut self, run: usize, result: Returned<S::Outcome>) {
        let is_beside = self.schedule.end(run);
        let returned = self.returned(result);
        match returned.and_then(|outcome| self.stage.end(run, outcome, is_beside)) {
            Ok(Ending::Done(keep)) => {
                self.being_kept += 1;
                self.keeping.push((run, keep));
            }
            Ok(Ending::Again) => self.schedule.add_alone(run),
            Ok(Ending::Interrupted) => {
                self.is_interrupted = true;
                self.stop.store(true, Ordering::Relaxed);
            }
            Err(error) => self.fail(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::Duration;

    use anyhow::bail;

    use super::*;
    use crate::schedule::Needs;

    /// Runs that note which others were under way.
    #[derive(Default)]
    struct Noting {
        under_way: Mutex<Vec<usize>>,
        /// For each run, those that it saw.
        seen: Mutex<BTreeMap<usize, Vec<usize>>>,
        written: Mutex<Vec<usize>>,
        /// Runs that wait for an interrupt.
        endless: Vec<usize>,
    }

    struct Noted<'w> {
        noting: &'w Noting,
        ended: Vec<(usize, bool)>,
        kept: Vec<usize>,
        /// Runs that only start when nothing runs.
        waits: Vec<usize>,
        /// Runs that are to run again.
        again: Vec<usize>,
        /// Runs whose end is an error.
        fails: Vec<usize>,
        settled: usize,
    }

    impl<'w> Stage<'w> for Noted<'w> {
        type Outcome = bool;

        fn settle(&mut self) -> anyhow::Result<Vec<usize>> {
            assert!(self.noting.under_way.lock().unwrap().is_empty());
            assert_eq!(self.noting.written.lock().unwrap().len(), self.kept.len());
            self.settled += 1;
            Ok(Vec::new())
        }

        fn begin(&mut self, run: usize, running: &[usize]) -> anyhow::Result<Option<Work<'w, bool>>> {
            if self.waits.contains(&run) && !running.is_empty() {
                return Ok(None);
            }
            let noting = self.noting;
            noting.under_way.lock().unwrap().push(run);
            Ok(Some(Box::new(move |sink, stop| {
                let text = run.to_string();
                sink.emit(Event::SameCommit { text });
                let is_endless = noting.endless.contains(&run);
                while is_endless && !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(Duration::from_millis(20));
                let mut under_way = noting.under_way.lock().unwrap();
                noting.seen.lock().unwrap().insert(run, under_way.clone());
                under_way.retain(|one| *one != run);
                Ok(is_endless)
            })))
        }

        fn end(&mut self, run: usize, interrupted: bool, is_beside: bool) -> anyhow::Result<Ending<'w>> {
            self.ended.push((run, is_beside));
            if self.fails.contains(&run) {
                bail!("run {run} failed");
            }
            if let Some(at) = self.again.iter().position(|one| *one == run) {
                self.again.remove(at);
                return Ok(Ending::Again);
            }
            let noting = self.noting;
            let keep = move || {
                noting.written.lock().unwrap().push(run);
                Ok(())
            };
            Ok(if interrupted { Ending::Interrupted } else { Ending::Done(Box::new(keep)) })
        }

        fn kept(&mut self, run: usize) {
            assert!(self.noting.written.lock().unwrap().contains(&run));
            self.kept.push(run);
        }
    }

    fn noted(noting: &Noting) -> Noted<'_> {
        Noted { noting, ended: vec![], kept: vec![], waits: vec![], again: vec![], fails: vec![], settled: 0 }
    }

    fn shared(runs: usize) -> Vec<(usize, Needs)> {
        (0..runs).map(|run| (run, Needs::default())).collect()
    }

    static NEVER: AtomicBool = AtomicBool::new(false);

    #[test]
    fn runs_overlap_unless_one_needs_the_machine_or_the_checkout() {
        let noting = Noting::default();
        let mut stage = Noted { waits: vec![3], ..noted(&noting) };
        let mut runs = shared(5);
        runs[2].1.machine = true;
        let events = Mutex::new(Vec::new());
        let sink = |event| {
            if let Event::SameCommit { text } = event {
                events.lock().unwrap().push(text);
            }
        };
        assert!(run(&mut stage, &mut Schedule::new(2, runs), &NEVER, &sink).unwrap());
        let seen = noting.seen.lock().unwrap();
        assert!(seen[&0].contains(&1) || seen[&1].contains(&0), "{seen:?}");
        assert_eq!(seen[&2], [2], "it was alone");
        assert!(!seen[&3].contains(&0) && !seen[&3].contains(&1), "{seen:?}");
        stage.ended.sort_unstable();
        assert_eq!(stage.ended, [(0, true), (1, true), (2, false), (3, true), (4, true)]);
        assert_eq!(events.lock().unwrap().len(), 5);
        assert_eq!(stage.kept.len(), 5);
        assert!(stage.settled > 1);
    }

    #[test]
    fn a_run_that_is_repeated_is_alone() {
        let noting = Noting::default();
        let mut stage = Noted { again: vec![0], ..noted(&noting) };
        assert!(run(&mut stage, &mut Schedule::new(3, shared(3)), &NEVER, &|_| ()).unwrap());
        assert_eq!(stage.ended.last(), Some(&(0, false)));
        assert_eq!(noting.seen.lock().unwrap()[&0], [0]);
    }

    #[test]
    fn an_interrupt_ends_what_runs_and_starts_nothing() {
        let noting = Noting { endless: vec![0, 1], ..Noting::default() };
        let interrupt = AtomicBool::new(false);
        let mut stage = noted(&noting);
        let sink = |_| interrupt.store(true, Ordering::Relaxed);
        assert!(!run(&mut stage, &mut Schedule::new(2, shared(9)), &interrupt, &sink).unwrap());
        stage.ended.sort_unstable();
        assert_eq!(stage.ended, [(0, true), (1, true)]);
    }

    #[test]
    fn an_error_stops_the_others_and_is_the_result() {
        let noting = Noting { endless: vec![1], ..Noting::default() };
        let mut stage = Noted { fails: vec![0], ..noted(&noting) };
        let error = run(&mut stage, &mut Schedule::new(2, shared(9)), &NEVER, &|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "run 0 failed");
        assert_eq!(stage.ended.len(), 2, "the endless one was stopped");
    }
}
