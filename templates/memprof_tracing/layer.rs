//! The same beside the subscribers that a program has.

use tracing::Subscriber;
use tracing::span::Id;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::sites;

/// Measures the spans of a subscriber.
#[derive(Debug)]
pub struct Layer(());

/// Returns a layer for a `tracing_subscriber::Registry` or what is built on it. It sees the spans that the filters of
/// the program let through.
pub fn layer() -> Layer {
    Layer(())
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Layer {
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let site = context.metadata(id).and_then(|metadata| sites::at(sites::place_of(metadata)));
        if let Some(site) = site {
            memprof::enter_span(site, id.into_u64());
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        memprof::exit_span(id.into_u64());
    }
}
