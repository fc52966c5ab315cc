//! Logs how many blocks of each size are live, before each checkpoint of a program that names
//! tensors. A line is left out while it would repeat the last one of its family.

use std::io;

use crate::blocks::live_sizes;
use crate::blocks::size_count::SizeCount;
use crate::heap::counts;
use crate::log::run_log::Log;
use crate::platform::untracked::Untracked;
use crate::sources::all_sources::Sources;

/// Most sizes in a line, the largest. The sum of the others stands behind them.
const LONGEST: usize = 4096;

/// The metrics' common beginning, the smallest size that is counted, and whether all sizes are.
struct Family {
    name: &'static str,
    least: u64,
    is_whole: bool,
}

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

    /// Logs the sizes of the heap's blocks and of each GPU's.
    pub(crate) fn log(&mut self, log: &mut Log, sources: &Sources, nanoseconds: u64) -> io::Result<()> {
        let mut sizes = std::mem::replace(&mut self.sizes, Untracked::new());
        let logged = self.log_each(log, sources, nanoseconds, &mut sizes);
        self.sizes = sizes;
        logged
    }

    fn log_each(
        &mut self,
        log: &mut Log,
        sources: &Sources,
        nanoseconds: u64,
        sizes: &mut Untracked<SizeCount>,
    ) -> io::Result<()> {
        // Without the tracking allocator, nothing of the heap is counted.
        if counts::are_used() {
            let is_whole = live_sizes::read(sizes);
            let heap = Family { name: "heap", least: live_sizes::LEAST as u64, is_whole };
            self.log_family(log, nanoseconds, &heap, sizes)?;
        }
        let mut next = 0;
        while let Some(name) = sources.gpu.live_sizes(next, sizes) {
            self.log_family(log, nanoseconds, &Family { name, least: 1, is_whole: true }, sizes)?;
            next += 1;
        }
        Ok(())
    }

    fn log_family(
        &mut self,
        log: &mut Log,
        nanoseconds: u64,
        family: &Family,
        sizes: &[SizeCount],
    ) -> io::Result<()> {
        if !self.is_new(family.name, hash_of(sizes, family.is_whole)) {
            return Ok(());
        }
        // In ascending order.
        let (rest, shown) = sizes.split_at(sizes.len().saturating_sub(LONGEST));
        log.write("live_sizes", nanoseconds, |json| {
            json.text("family", family.name);
            json.figure("least", family.least);
            // 1 if all sizes were counted.
            json.figure("whole", u64::from(family.is_whole));
            json.numbers("sizes", shown.iter().flat_map(|one| [one.bytes, one.count, one.site]).map(Some));
            json.figure("rest_count", rest.iter().map(|one| one.count).sum());
            json.figure("rest_bytes", rest.iter().map(|one| one.count * one.bytes).sum());
        })
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

fn hash_of(sizes: &[SizeCount], is_whole: bool) -> u64 {
    let numbers = sizes.iter().flat_map(|one| [one.bytes, one.count, one.site]);
    let add = |hash: u64, number: u64| (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    numbers.fold(u64::from(is_whole) + 1, add)
}
