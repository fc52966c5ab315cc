//! One site for each place of the source that makes spans. They are kept in a table of a fixed size, which allocates
//! nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memprof::Site;
use tracing::Metadata;

/// Most places that make spans. Spans of further ones are not measured.
const MOST: usize = 1 << 11;

struct Known {
    sites: [Option<(&'static Metadata<'static>, &'static Site)>; MOST],
    count: usize,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { sites: [None; MOST], count: 0 });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns where the site of a span is; `MOST` if the table is full.
pub(crate) fn place_of(metadata: &'static Metadata<'static>) -> usize {
    let known = &mut *known();
    let has = |site: &Option<(&Metadata<'_>, _)>| site.map_or(false, |one| std::ptr::eq(one.0, metadata));
    if let Some(place) = known.sites[..known.count].iter().position(has) {
        return place;
    }
    if known.count == MOST {
        return MOST;
    }
    let label = format_args!("{}::{}", metadata.target(), metadata.name());
    let site = match (metadata.file(), metadata.line()) {
        (Some(file), Some(line)) => Site::kept(label, format_args!("{file}:{line}")),
        _ => Site::kept(label, format_args!("")),
    };
    known.sites[known.count] = Some((metadata, site));
    known.count += 1;
    known.count - 1
}

/// Returns the site at a place that `place_of` returned.
pub(crate) fn at(place: usize) -> Option<&'static Site> {
    known().sites.get(place).copied().flatten().map(|known| known.1)
}
