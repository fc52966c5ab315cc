//! The figures of each site: live bytes now and in the moment of the peak, and what was allocated.
//! Pure; the shim keeps them for the heap, and the injection library for each GPU.
//!
//! What a site had in the moment of the peak is not copied at the peak, which would take time for
//! each site. A new peak begins a new `epoch`. A site copies its live bytes at its first change
//! after that.
//!
//! With a sample, each sampled block stands for others: a block of `s` bytes is sampled with the
//! probability `p = 1 - exp(-s / n)`, for one sample in `n` bytes, and counts as `s / p` bytes and
//! `1 / p` blocks. The estimate depends on the size alone, so what is freed is taken back exactly.
//! Totals, live bytes and the peak stay exact.

// Some of these run at each allocation: benches/stacks.rs measures them.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::inline_always)]

use crate::platform::untracked::Untracked;

/// A block that comes, goes, or does both: a reallocation.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    /// If there is no new block, the site that frees the old one.
    pub(crate) new_site: u32,
    pub(crate) old_site: u32,
    pub(crate) new_size: u64,
    pub(crate) old_size: u64,
    /// Whether there is a new block.
    pub(crate) allocates: bool,
    /// Whether the block stays the old site's, because it only shrinks. The new site has allocated
    /// it.
    pub(crate) shrinks: bool,
}

/// What one site has.
#[derive(Clone, Copy)]
struct Site {
    live: u64,
    /// The live bytes in the moment of the peak, if the site changed since.
    at_peak: u64,
    allocated: u64,
    count: u64,
    epoch: u64,
    /// The interval in which it last changed.
    interval: u32,
}

const NEW_SITE: Site = Site { live: 0, at_peak: 0, allocated: 0, count: 0, epoch: 0, interval: 0 };

/// A site's figures at the end of an interval.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Changed {
    pub(crate) site: u32,
    pub(crate) at_peak: u64,
    pub(crate) live: u64,
    pub(crate) allocated: u64,
    pub(crate) count: u64,
}

/// The figures of all sites at the end of an interval.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) live: u64,
    pub(crate) peak: u64,
    pub(crate) allocated: u64,
    pub(crate) count: u64,
}

/// The figures of all sites of one kind of memory.
pub(crate) struct SiteFigures {
    sites: Untracked<Site>,
    live: u64,
    /// Bytes and blocks allocated so far, and before this interval.
    totals: (u64, u64),
    totals_before: (u64, u64),
    /// The peak since the interval began, and the number of times that it rose.
    peak: u64,
    epoch: u64,
    interval: u32,
    /// The sites that changed in this interval.
    changed: Untracked<u32>,
    /// What the next mark does, for the log.
    pub(crate) at_next_mark: AtNextMark,
    /// One sample in so many bytes; 0 if all blocks have a site.
    pub(crate) sample: u64,
    ended: Interval,
    log: Untracked<Changed>,
}

/// What a mark means for the interval.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtNextMark {
    /// The interval goes on.
    GoOn = 0,
    /// A new interval begins, and those before it are forgotten.
    Begin = 1,
    /// A new interval begins, and the old one's figures are kept for the log.
    End = 2,
}

// The shim and the injection library both contain this file, and each uses a part.
#[allow(dead_code)]
impl SiteFigures {
    pub(crate) const fn new() -> Self {
        Self {
            sites: Untracked::new(),
            live: 0,
            totals: (0, 0),
            totals_before: (0, 0),
            peak: 0,
            epoch: 1,
            interval: 1,
            changed: Untracked::new(),
            at_next_mark: AtNextMark::GoOn,
            sample: 0,
            ended: Interval { live: 0, peak: 0, allocated: 0, count: 0 },
            log: Untracked::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// The number of the peak so far.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Bytes and blocks allocated so far.
    pub(crate) fn totals(&self) -> (u64, u64) {
        self.totals
    }

    /// Does what was said about this mark.
    pub(crate) fn mark(&mut self) {
        match std::mem::replace(&mut self.at_next_mark, AtNextMark::GoOn) {
            AtNextMark::GoOn => {}
            AtNextMark::Begin => {
                self.list_ended_again();
                self.begin_interval();
            }
            AtNextMark::End => self.end_interval(),
        }
    }

    /// Hands over the figures of the interval that ended at the last mark: its own, and those of the
    /// sites that changed.
    pub(crate) fn take_interval(&mut self, into: &mut Untracked<Changed>) -> Interval {
        std::mem::swap(into, &mut self.log);
        self.log.clear();
        self.ended
    }

    /// The interval that ended at the last mark, and the sites that changed in it.
    pub(crate) fn ended(&self) -> (Interval, &Untracked<Changed>) {
        (self.ended, &self.log)
    }

    #[inline(always)]
    pub(crate) fn apply(&mut self, change: Change) {
        let Change { new_site, old_site, new_size, old_size, allocates, shrinks } = change;
        if old_size != 0 {
            let (bytes, _) = self.share(old_site, old_size);
            let site = self.touch(old_site);
            site.live = site.live.wrapping_sub(bytes);
        }
        if allocates {
            let owner = if shrinks { old_site } else { new_site };
            let (bytes, _) = self.share(owner, new_size);
            let site = self.touch(owner);
            site.live = site.live.wrapping_add(bytes);
            let (bytes, blocks) = self.share(new_site, new_size);
            let site = self.touch(new_site);
            site.allocated = site.allocated.wrapping_add(bytes);
            site.count += blocks;
            self.totals.0 = self.totals.0.wrapping_add(new_size);
            self.totals.1 += 1;
        }
        self.live = self.live.wrapping_add(new_size).wrapping_sub(old_size);
        // Negative if the body frees what was there before.
        if (self.live as i64) > self.peak as i64 {
            self.peak = self.live;
            self.epoch += 1;
        }
    }

    /// The bytes and blocks that a block of this site stands for. Site 0 has those outside the
    /// sample, which stand for nothing else.
    #[inline(always)]
    pub(crate) fn share(&self, number: u32, size: u64) -> (u64, u64) {
        if self.sample == 0 || number == 0 { (size, 1) } else { estimate(size, self.sample) }
    }

    /// A site that is about to change.
    #[inline(always)]
    fn touch(&mut self, number: u32) -> &mut Site {
        let index = number as usize;
        if index >= self.sites.len() {
            self.grow(index + 1);
        }
        let (epoch, interval) = (self.epoch, self.interval);
        if self.sites[index].interval != interval {
            self.changed.push(number);
        }
        let site = &mut self.sites.as_mut()[index];
        site.interval = interval;
        if site.epoch != epoch {
            site.at_peak = site.live;
            site.epoch = epoch;
        }
        site
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        self.sites.reserve(length - self.sites.len());
        while self.sites.len() < length {
            self.sites.push(NEW_SITE);
        }
    }

    /// Lists the sites of the interval that ended last. The log may not have it, and then needs what
    /// these sites have from before.
    fn list_ended_again(&mut self) {
        for place in 0..self.log.len() {
            self.touch(self.log[place].site);
        }
    }

    /// Forgets what was allocated so far. Sites that changed are still in the next interval's list.
    fn begin_interval(&mut self) {
        for place in 0..self.changed.len() {
            let site = &mut self.sites.as_mut()[self.changed[place] as usize];
            site.allocated = 0;
            site.count = 0;
        }
        self.peak = self.live;
        self.epoch += 1;
        self.totals_before = self.totals;
    }

    fn end_interval(&mut self) {
        self.log.clear();
        for place in 0..self.changed.len() {
            let number = self.changed[place];
            let site = &mut self.sites.as_mut()[number as usize];
            let at_peak = if site.epoch == self.epoch { site.at_peak } else { site.live };
            let Site { live, allocated, count, .. } = *site;
            self.log.push(Changed { site: number, at_peak, live, allocated, count });
        }
        self.ended = Interval {
            live: self.live,
            peak: self.peak,
            allocated: self.totals.0.wrapping_sub(self.totals_before.0),
            count: self.totals.1.wrapping_sub(self.totals_before.1),
        };
        self.begin_interval();
        self.changed.clear();
        self.interval = self.interval.wrapping_add(1);
    }
}

/// What a sampled block of this size stands for.
#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn estimate(size: u64, sample: u64) -> (u64, u64) {
    let size = size.max(1) as f64;
    let probability = -(-size / sample as f64).exp_m1();
    ((size / probability).round() as u64, (1.0 / probability).round() as u64)
}
