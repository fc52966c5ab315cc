//! `malloc.…`, on request: the C library's allocator. C and C++ libraries allocate there and not
//! through the Rust allocator; Rust's `System` allocates there too.
//!
//! The figures are those of the library in front of the allocator. If it is not there, `malloc.live`
//! comes from the C library's own statistics, which its source says.

use crate::blocks::site_figures::{AtNextMark, Changed, Interval};
use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, Metric, Values};
use crate::metrics::source::{Extent, Source};
use crate::platform::untracked::kept;
use crate::shared::malloc_statistics::{self, Statistics};
use crate::sources::malloc_library::{self, MallocLibrary};

const LIVE: &str = "malloc.live";
const OTHERS: [&str; 3] = ["malloc.peak", "malloc.allocated", "malloc.count"];
const LIBRARY_SOURCE: &str = "library in front of the C library's allocator (usable bytes)";

/// For both problems that may come up later.
const LOST: &str = "blocks of malloc were not counted: a library allocates past the loader's order \
                    (RTLD_DEEPBIND), or a signal handler allocated while a block was counted";

pub(crate) struct Malloc {
    found: Option<Found>,
}

enum Found {
    Library(MallocLibrary, Indices),
    Statistics(Statistics, Index),
}

struct Indices {
    live: Index,
    peak: Index,
    allocated: Index,
    count: Index,
}

impl Malloc {
    pub(crate) const fn new() -> Self {
        Self { found: None }
    }

    fn library(&self) -> Option<MallocLibrary> {
        match &self.found {
            Some(Found::Library(library, _)) => Some(*library),
            _ => None,
        }
    }

    /// Tells the next mark what it means for the interval of call stacks.
    pub(crate) fn at_next_mark(&self, what: AtNextMark) {
        if let Some(library) = self.library() {
            library.at_next_mark(what);
        }
    }

    /// Calls `each` with the figures of the interval that ended at the last mark, and of the sites
    /// that changed in it.
    pub(crate) fn each_interval(&self, each: &mut dyn FnMut(&str, Interval, &[Changed])) {
        if let Some(library) = self.library() {
            library.with_interval(&mut |interval, changed| each("malloc", interval, changed));
        }
    }

    /// Why the figures are not complete.
    pub(crate) fn left_out(&self) -> Option<&'static str> {
        self.library()?.problem().err()
    }

    fn add_statistics(
        &mut self,
        reason: &'static str,
        wanted: &dyn Fn(&str) -> bool,
        catalogue: &mut Catalogue,
    ) {
        for name in OTHERS.iter().filter(|name| wanted(name)) {
            catalogue.add_absent(name, reason);
        }
        if wanted(LIVE) {
            match malloc_statistics::find() {
                Ok(statistics) => {
                    let index = catalogue.add(LIVE, malloc_statistics::SOURCE, Kind::Level);
                    self.found = Some(Found::Statistics(statistics, index));
                }
                Err(other) => catalogue.add_absent(LIVE, kept(format_args!("{reason}; {other}"))),
            }
        }
    }
}

impl Source for Malloc {
    fn open(&mut self, environment: &Environment, catalogue: &mut Catalogue) {
        let wanted = |name: &str| environment.wants(name);
        if !wanted(LIVE) && !OTHERS.iter().any(|name| wanted(name)) {
            return;
        }
        match malloc_library::find(environment) {
            Ok(library) => {
                let mut add = |name, kind| {
                    catalogue.add_metric(Metric {
                        name,
                        source: LIBRARY_SOURCE,
                        kind,
                        lost: LOST,
                        is_zero_before: true,
                        base: 0,
                    })
                };
                let live = add(LIVE, Kind::Level);
                let [peak, allocated, count] = OTHERS;
                let indices = Indices {
                    live,
                    peak: add(peak, Kind::Peak { family: "malloc", level: live }),
                    allocated: add(allocated, Kind::Total),
                    count: add(count, Kind::Total),
                };
                self.found = Some(Found::Library(library, indices));
            }
            Err(reason) => self.add_statistics(reason, &wanted, catalogue),
        }
    }

    fn read(&mut self, values: &mut Values, extent: Extent) {
        match &self.found {
            Some(Found::Library(library, indices)) => {
                let read = library.read();
                values.set(indices.live, read.map(|read| read.live));
                values.set(indices.peak, read.map(|read| read.peak));
                values.set(indices.allocated, read.map(|read| read.allocated));
                values.set(indices.count, read.map(|read| read.count));
            }
            Some(Found::Statistics(statistics, index)) if extent == Extent::Whole => {
                values.set(*index, Some(malloc_statistics::in_use(*statistics)));
            }
            _ => {}
        }
    }
}
