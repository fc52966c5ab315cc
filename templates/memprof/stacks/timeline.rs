//! Live bytes over time: the lowest and the highest figure in each of at most 2,000 spans of equal
//! length. When the time exceeds them, two spans become one.

// Some of these run at each allocation: benches/stacks.rs measures them.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
#![allow(clippy::inline_always)]

use std::time::Instant;

/// Most spans.
pub(crate) const MOST: usize = 2000;

/// How many ticks of the processor's clock make one of the timeline's, as a power of two: some
/// microseconds. So 32 bits are enough for hours.
#[cfg(target_arch = "x86_64")]
const SHIFT: u32 = 14;

/// The time of an event, in ticks. It wraps.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn now() -> u32 {
    // SAFETY: every processor of this architecture has the instruction.
    (unsafe { std::arch::x86_64::_rdtsc() } >> SHIFT) as u32
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn now() -> u32 {
    use std::os::raw::{c_int, c_long};
    extern "C" {
        fn clock_gettime(clock: c_int, time: *mut [c_long; 2]) -> c_int;
    }
    const CLOCK_MONOTONIC: c_int = 1;
    let mut time = [0; 2];
    // SAFETY: the time is writable and has the size of `struct timespec`.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    (time[0] as u64 * 250_000 + time[1] as u64 / 4_000) as u32
}

#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) lowest: u64,
    pub(crate) highest: u64,
}

const EMPTY: Span = Span { lowest: u64::MAX, highest: 0 };

pub(crate) struct Timeline {
    spans: [Span; MOST],
    /// Ticks of one span.
    width: u64,
    /// When it began, by both clocks.
    begin: Option<(u32, Instant)>,
    /// The last event's time, in ticks since the beginning.
    elapsed: u64,
    /// The span of that time.
    place: usize,
    last: u32,
    /// The live bytes after the last event.
    live: u64,
}

impl Timeline {
    // A timeline is part of a static and never on a stack.
    #[allow(clippy::large_stack_arrays)]
    pub(crate) const fn new() -> Self {
        Self { spans: [EMPTY; MOST], width: 1, begin: None, elapsed: 0, place: 0, last: 0, live: 0 }
    }

    /// Notes the live bytes from this time on; 0 stands for the time of the last event.
    #[inline(always)]
    pub(crate) fn add(&mut self, time: u32, live: u64) {
        if time != 0 && time != self.last {
            self.move_to(time);
        }
        self.live = live;
        let span = &mut self.spans[self.place];
        span.lowest = span.lowest.min(live);
        span.highest = span.highest.max(live);
    }

    #[cold]
    #[inline(never)]
    fn move_to(&mut self, time: u32) {
        if self.begin.is_none() {
            self.begin = Some((time, Instant::now()));
            self.last = time;
            return;
        }
        let after = time.wrapping_sub(self.last);
        // Threads read the clock after they took their number, so a time may be a little earlier.
        if after > u32::MAX / 2 {
            return;
        }
        let until = self.elapsed + u64::from(after);
        while until / self.width >= MOST as u64 {
            self.halve();
        }
        let (from, to) = ((self.elapsed / self.width) as usize, (until / self.width) as usize);
        for span in &mut self.spans[from..=to] {
            span.lowest = span.lowest.min(self.live);
            span.highest = span.highest.max(self.live);
        }
        self.elapsed = until;
        self.place = to;
        self.last = time;
    }

    fn halve(&mut self) {
        for place in 0..MOST / 2 {
            let (first, second) = (self.spans[place * 2], self.spans[place * 2 + 1]);
            self.spans[place] =
                Span { lowest: first.lowest.min(second.lowest), highest: first.highest.max(second.highest) };
        }
        self.spans[MOST / 2..].iter_mut().for_each(|span| *span = EMPTY);
        self.width *= 2;
    }

    /// Returns the spans so far, when they begin, and the nanoseconds of one.
    pub(crate) fn spans(&self) -> Option<(&[Span], Instant, f64)> {
        let (begin, since) = self.begin?;
        // The two clocks are compared over the whole time.
        let ticks = u64::from(now().wrapping_sub(begin)).max(1);
        let nanoseconds = since.elapsed().as_nanos() as f64 / ticks as f64;
        let used = (self.elapsed / self.width) as usize + 1;
        Some((&self.spans[..used], since, nanoseconds * self.width as f64))
    }
}
