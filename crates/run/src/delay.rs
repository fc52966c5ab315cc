//! The pause between two test processes (`--delay`). An interrupt ends it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memprof_plan::request::Request;
use memprof_support::event::{Event, Sink};

/// How soon an interrupt is noticed.
const STEP: Duration = Duration::from_millis(50);

/// The pause of one session, whose first process does not wait.
#[derive(Debug)]
pub struct Delay {
    length: Duration,
    is_first: Cell<bool>,
}

impl Delay {
    /// The pause that the user requested, if any.
    pub(crate) fn from_request(request: &Request) -> Self {
        Self::new(request.settings.delay_milliseconds.map(Duration::from_millis))
    }

    fn new(length: Option<Duration>) -> Self {
        Self { length: length.unwrap_or_default(), is_first: Cell::new(true) }
    }

    /// How long each pause takes.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Waits before the next process, unless it is the first one. An interrupt ends the wait.
    pub(crate) fn before_run(&self, interrupt: &AtomicBool, sink: &dyn Sink) {
        if self.is_first.replace(false) || self.length.is_zero() {
            return;
        }
        sink.emit(Event::Delaying { length: self.length });
        let begin = Instant::now();
        while !interrupt.load(Ordering::Relaxed) {
            let left = self.length.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn every_process_but_the_first_waits_and_an_interrupt_ends_it() {
        let events = RefCell::new(0);
        let sink = |event: Event| {
            assert!(matches!(event, Event::Delaying { .. }), "{event:?}");
            *events.borrow_mut() += 1;
        };
        let interrupt = AtomicBool::new(false);
        let endless = Delay::new(Some(Duration::MAX));
        endless.before_run(&interrupt, &sink);
        assert_eq!(*events.borrow(), 0, "the first process does not wait");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(STEP);
                interrupt.store(true, Ordering::Relaxed);
            });
            endless.before_run(&interrupt, &sink);
            assert!(interrupt.load(Ordering::Relaxed), "it waited for the interrupt");
        });
        assert_eq!(*events.borrow(), 1);

        let short = Delay::new(Some(Duration::from_millis(1)));
        (0..3).for_each(|_| short.before_run(&AtomicBool::new(false), &sink));
        assert_eq!(*events.borrow(), 3);
        let none = Delay::new(None);
        (0..3).for_each(|_| none.before_run(&AtomicBool::new(false), &|event| panic!("{event:?}")));
    }
}
