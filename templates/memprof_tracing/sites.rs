//! One site for each place of the source that makes spans. They are kept in a table of a fixed size, which allocates
//! nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memprof::Site;
use tracing::Metadata;

/// Most sites. Places that make spans have one each, but for the last, which is that of all further places.
const MOST: usize = 1 << 11;

type Place = &'static Metadata<'static>;

struct Known {
    sites: [Option<(Place, &'static Site)>; MOST],
    count: usize,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { sites: [None; MOST], count: 0 });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns where the site of a span is.
pub(crate) fn place_of(metadata: Place) -> usize {
    let known = &mut *known();
    let has = |site: &Option<(Place, _)>| site.map_or(false, |one| std::ptr::eq(one.0, metadata));
    let found = known.sites[..known.count].iter().position(has);
    found.unwrap_or_else(|| {
        if known.count < MOST {
            let site = if known.count < MOST - 1 { site_of(metadata) } else { site_of_further() };
            known.sites[known.count] = Some((metadata, site));
            known.count += 1;
        }
        known.count - 1
    })
}

fn site_of(metadata: Place) -> &'static Site {
    let label = format_args!("{}::{}", metadata.target(), metadata.name());
    match (metadata.file(), metadata.line()) {
        (Some(file), Some(line)) => Site::kept(label, format_args!("{file}:{line}")),
        _ => Site::kept(label, format_args!("")),
    }
}

fn site_of_further() -> &'static Site {
    Site::kept(format_args!("spans of further places"), format_args!(""))
}

/// Returns the site at a place that `place_of` returned.
pub(crate) fn at(place: usize) -> Option<&'static Site> {
    known().sites.get(place).copied().flatten().map(|known| known.1)
}
