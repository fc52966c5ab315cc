//! Logs how many blocks of each size are live, before each checkpoint of a program that names
//! tensors. A line is left out while it would repeat the last one of its family.

use crate::live_sizes;
use crate::recorder::{Mark, Recorder};
use crate::size_count::SizeCount;
use crate::untracked::Untracked;

/// Most sizes in a line, the largest. The sum of the others stands behind them.
const LONGEST: usize = 4096;

/// The last logged line of each family.
pub(crate) struct LiveSizes {
    sizes: Untracked<SizeCount>,
    /// The metrics' common beginning, and a hash of the family's last line.
    logged: Untracked<(&'static str, u64)>,
}

impl LiveSizes {
    pub(crate) const fn new() -> Self {
        Self { sizes: Untracked::new(), logged: Untracked::new() }
    }

    /// Whether the family's last line said something else.
    fn is_new(&mut self, family: &'static str, hash: u64) -> bool {
        if let Some(known) = self.logged.as_mut().iter_mut().find(|known| known.0 == family) {
            return std::mem::replace(&mut known.1, hash) != hash;
        }
        self.logged.push((family, hash));
        true
    }
}

impl Recorder {
    /// Logs the sizes of the heap's blocks and of each GPU's, if a tensor has a name.
    pub(crate) fn log_live_sizes(&mut self, mark: &Mark) {
        if !self.tensors.names_any() || self.log.is_none() {
            return;
        }
        let mut known = std::mem::replace(&mut self.live_sizes, LiveSizes::new());
        let mut sizes = std::mem::replace(&mut known.sizes, Untracked::new());
        if heap_is_counted() {
            let is_whole = live_sizes::read(&mut sizes);
            self.log_sizes(&mut known, mark, ("heap", live_sizes::LEAST as u64), is_whole, &sizes);
        }
        let mut next = 0;
        while let Some(family) = self.sources.gpu.live_sizes(next, &mut sizes) {
            self.log_sizes(&mut known, mark, (family, 1), true, &sizes);
            next += 1;
        }
        known.sizes = sizes;
        self.live_sizes = known;
    }

    fn log_sizes(
        &mut self,
        known: &mut LiveSizes,
        mark: &Mark,
        (family, least): (&'static str, u64),
        is_whole: bool,
        sizes: &[SizeCount],
    ) {
        if !known.is_new(family, hash_of(sizes, is_whole)) {
            return;
        }
        // In ascending order.
        let (rest, shown) = sizes.split_at(sizes.len().saturating_sub(LONGEST));
        self.log(|_, log| {
            log.write("live_sizes", mark.nanoseconds, |json| {
                json.text("family", family);
                json.figure("least", least);
                // 1 if all sizes were counted.
                json.figure("whole", u64::from(is_whole));
                json.numbers(
                    "sizes",
                    shown.iter().flat_map(|one| [one.bytes, one.count, one.site]).map(Some),
                );
                json.figure("rest_count", rest.iter().map(|one| one.count).sum());
                json.figure("rest_bytes", rest.iter().map(|one| one.count * one.bytes).sum());
            })
        });
    }
}

/// Whether the tracking allocator is the program's.
fn heap_is_counted() -> bool {
    crate::counts::are_used()
}

fn hash_of(sizes: &[SizeCount], is_whole: bool) -> u64 {
    let numbers = sizes.iter().flat_map(|one| [one.bytes, one.count, one.site]);
    let add = |hash: u64, number: u64| (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    numbers.fold(u64::from(is_whole) + 1, add)
}
