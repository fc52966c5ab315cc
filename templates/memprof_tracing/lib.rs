//! Makes each span of `tracing` a traced function: what its polls consume, on whatever thread they run.
//!
//! ```ignore
//! memprof_tracing::spans(); // in a program without a subscriber
//! tracing_subscriber::registry().with(memprof_tracing::layer()).init(); // beside others
//! ```
//!
//! A call begins when a span is entered and ends when it is exited, so that an instrumented future has a call for each
//! poll. Events are not looked at. Outside a run nothing happens.

#[cfg(all(tracing_subscriber, registry))]
mod layer;
mod sites;

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

#[cfg(all(tracing_subscriber, registry))]
pub use layer::{Layer, layer};

/// Measures every span from now on, on all threads. Returns false if the program has a subscriber of its own, or if this
/// is no run.
pub fn spans() -> bool {
    memprof::is_recording() && tracing::subscriber::set_global_default(Spans).is_ok()
}

/// A subscriber that measures spans and does nothing else.
struct Spans;

/// The lower bits of a span's number say which site it has.
const SITE_BITS: u32 = 12;

impl Subscriber for Spans {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_span() { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        Id::from_u64(next << SITE_BITS | sites::place_of(attributes.metadata()) as u64)
    }

    fn enter(&self, id: &Id) {
        let place = id.into_u64() & ((1 << SITE_BITS) - 1);
        if let Some(site) = sites::at(place as usize) {
            memprof::enter_span(site, id.into_u64());
        }
    }

    fn exit(&self, id: &Id) {
        memprof::exit_span(id.into_u64());
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}
}
