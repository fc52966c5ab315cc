//! Traced calls: which are open, and the figures that each one adds to the call tree, and to the
//! lines of functions whose lines are traced.
//!
//! A call is *recursive* if its function is open already on the same thread. It counts at the open
//! call's node, whose figures already include it. So the tree is no deeper than the number of
//! functions, and no byte counts twice in a sum.

// Sites, nodes and frames have numbers of 32 bits, so that a call's guard stays small. The
// difference of two figures is taken modulo 2^64 and read as signed.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use crate::blocks::own_thread::OwnFigures;
use crate::lines::call_tree::{CallTree, ELSEWHERE, ROOT, SLOTS};
use crate::lines::traced_function::{NONE, Site};
use crate::metrics::columns::Columns;
use crate::metrics::metric::{Catalogue, Index, Kind, Values};
use crate::platform::untracked::Untracked;

/// The line that a traced function has reached.
#[derive(Clone, Copy)]
pub(crate) struct Reached {
    pub(crate) line: u32,
    /// Whether it runs once more, and not only goes on.
    pub(crate) begins: bool,
}

/// A metric that is followed.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    /// The peak, or the total.
    pub(crate) index: Index,
    /// What a call compares with when it ends: the peak's level, or the total itself.
    pub(crate) level: Index,
    pub(crate) family: Option<&'static str>,
    pub(crate) name: &'static str,
    /// The name of a peak's level.
    pub(crate) level_name: Option<&'static str>,
    /// What the level was before it appeared: zero, or unknown.
    is_zero_before: bool,
}

impl Slot {
    /// Whether the tracking allocator counts it.
    pub(crate) fn is_of_heap(&self) -> bool {
        self.name.starts_with("heap.")
    }
}

/// Readings at a moment, by slot.
#[derive(Clone, Copy)]
pub(crate) struct Readings {
    values: [u64; SLOTS],
    /// A bit for each slot that could not be read.
    missing: u32,
    /// How many slots there were.
    count: u32,
}

impl Readings {
    const NONE: Self = Self { values: [0; SLOTS], missing: 0, count: 0 };

    fn from_values(values: &Values, slots: &[Slot]) -> Self {
        let mut readings = Self { count: slots.len() as u32, ..Self::NONE };
        for (place, slot) in slots.iter().enumerate() {
            match values.get(slot.level) {
                Some(value) => readings.values[place] = value,
                None => readings.missing |= 1 << place,
            }
        }
        readings
    }

    pub(crate) fn get(&self, place: usize, slot: &Slot) -> Option<u64> {
        let is_known =
            if place < self.count as usize { self.missing & (1 << place) == 0 } else { slot.is_zero_before };
        if is_known { Some(self.values[place]) } else { None }
    }
}

/// A call that has not ended.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) site: u32,
    pub(crate) node: u32,
    /// The frame that is open on the thread after this one has ended.
    pub(crate) caller: u32,
    /// The mark at which it began; 0 if its figures are not read.
    pub(crate) mark: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) start: Readings,
    /// Whether it is logged as a scope of its own.
    pub(crate) is_logged: bool,
    /// The 1-based occurrence then, in the order in which calls begin.
    pub(crate) occurrence: u64,
    /// The thread's own figures when it began, if they are followed, and the thread's highest level since.
    pub(crate) own: Option<OwnFigures>,
    pub(crate) own_peak: i64,
    is_recursive: bool,
    /// Whether its lines are measured.
    has_lines: bool,
    /// The line that the function is at, and the mark since then; 0 for none.
    line: u32,
    line_mark: u64,
    line_nanoseconds: u64,
    line_start: Readings,
}

/// One metric's figures on one line: the highest peak while it ran, the highest level at its end, and
/// the growth of the level or total.
#[derive(Clone, Copy)]
pub(crate) struct LineFigure {
    pub(crate) times: u64,
    pub(crate) peak: u64,
    pub(crate) level: u64,
    pub(crate) grown: i64,
}

const NOTHING: LineFigure = LineFigure { times: 0, peak: 0, level: 0, grown: 0 };

/// A line of a function.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) times: u64,
    pub(crate) nanoseconds: u64,
    /// Whether the log lacks something of it.
    is_changed: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct SiteState {
    pub(crate) site: &'static Site,
    /// All calls, and those that were not recursive.
    calls: u64,
    outer: u64,
    /// Calls that were logged one by one.
    logged: u64,
    /// Open calls, on all threads.
    open: u64,
    /// Calls whose lines were measured, and the last of them: its number among all, from 1.
    with_lines: u64,
    pub(crate) last_with_lines: u64,
    /// Where its lines begin in the table.
    lines: usize,
    last: (u32, u32),
}

/// All traced calls of the process.
pub(crate) struct Calls {
    pub(crate) columns: Columns,
    pub(crate) maximum_events: u64,
    /// Each so many-th call of a function is profiled, unless its site says otherwise: its lines are
    /// measured, and it may be logged.
    pub(crate) every: u64,
    /// Whether lines are those of one call, and not of all.
    pub(crate) lines_per_call: bool,
    slots: Untracked<Slot>,
    /// All peaks. Each reading begins a new interval for those that it has, so these are kept, also
    /// if no column shows them.
    peaks: Untracked<Index>,
    /// How many of the catalogue's metrics were looked at for slots.
    considered: usize,
    sites: Untracked<SiteState>,
    pub(crate) tree: CallTree,
    frames: Untracked<Frame>,
    free: Untracked<u32>,
    lines: Untracked<Line>,
    line_figures: Untracked<LineFigure>,
    /// Threads with an open traced call.
    threads: u64,
    /// The last mark at which there were several such threads.
    several_until: u64,
}

impl Calls {
    pub(crate) const fn new() -> Self {
        Self {
            columns: Columns { heap: true, cpu: false, gpu: true, malloc: false, pool: false, time: false },
            maximum_events: 0,
            every: 1,
            lines_per_call: false,
            slots: Untracked::new(),
            peaks: Untracked::new(),
            considered: 0,
            sites: Untracked::new(),
            tree: CallTree::new(),
            frames: Untracked::new(),
            free: Untracked::new(),
            lines: Untracked::new(),
            line_figures: Untracked::new(),
            threads: 0,
            several_until: 0,
        }
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn peaks(&self) -> &[Index] {
        &self.peaks
    }

    pub(crate) fn sites(&self) -> &[SiteState] {
        &self.sites
    }

    pub(crate) fn site(&self, number: u32) -> &'static Site {
        self.sites[number as usize].site
    }

    pub(crate) fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    /// At least as many as are open.
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames.as_mut()[frame as usize]
    }

    /// The lines of a site that changed since the log had them: number, figures of all metrics, and
    /// the place for [`Self::line_figure`].
    pub(crate) fn changed_lines(&self, site: usize) -> impl Iterator<Item = (u32, Line, usize)> + '_ {
        let state = &self.sites[site];
        let (first, count) = state.site.lines.unwrap_or((0, 0));
        (0..count).filter_map(move |number| {
            let place = state.lines + number as usize;
            let line = self.lines[place];
            if line.is_changed { Some((first + number, line, place)) } else { None }
        })
    }

    /// The lines of a site begin anew.
    pub(crate) fn clear_lines(&mut self, site: u32) {
        let state = self.sites[site as usize];
        let count = state.site.lines.map_or(0, |(_, count)| count as usize);
        for line in &mut self.lines.as_mut()[state.lines..state.lines + count] {
            *line = Line { times: 0, nanoseconds: 0, is_changed: false };
        }
        for figure in &mut self.line_figures.as_mut()[state.lines * SLOTS..(state.lines + count) * SLOTS] {
            *figure = NOTHING;
        }
    }

    /// The log has all lines.
    pub(crate) fn lines_are_logged(&mut self) {
        self.lines.as_mut().iter_mut().for_each(|line| line.is_changed = false);
    }

    pub(crate) fn line_figure(&self, place: usize, slot: usize) -> &LineFigure {
        &self.line_figures[place * SLOTS + slot]
    }

    /// Adds slots for metrics that have appeared.
    pub(crate) fn follow(&mut self, catalogue: &Catalogue) {
        if self.considered == catalogue.length() {
            return;
        }
        for (index, metric) in catalogue.metrics().skip(self.considered) {
            if let Kind::Peak { .. } = metric.kind {
                self.peaks.push(index);
            }
            if !self.columns.has(metric.name) {
                continue;
            }
            let (level, family) = match metric.kind {
                Kind::Peak { family, level } => (level, Some(family)),
                Kind::Total => (index, None),
                Kind::Level => continue,
            };
            if self.slots.len() < SLOTS {
                let of_level = catalogue.metric(level);
                let level_name = family.map(|_| of_level.name);
                let is_zero_before = of_level.is_zero_before;
                self.slots.push(Slot { index, level, family, name: metric.name, level_name, is_zero_before });
            }
        }
        self.considered = catalogue.length();
    }

    /// Whether a call that begins now needs figures. A recursive call that is not logged does not.
    pub(crate) fn needs_figures(&mut self, site: &'static Site, caller: u32) -> bool {
        let number = self.known(site);
        self.is_next_logged(number) || self.open_above(number, caller).is_none()
    }

    /// Each so many-th call of a site is profiled.
    pub(crate) fn every(&self, site: &Site) -> u64 {
        if site.every == 0 { self.every } else { site.every }
    }

    /// Whether the next call of a site is logged by itself.
    fn is_next_logged(&self, site: u32) -> bool {
        let state = &self.sites[site as usize];
        state.logged < self.maximum_events && state.calls % self.every(state.site) == 0
    }

    /// Whether the lines of the next call of a site that is not recursive are measured.
    fn has_next_lines(&self, site: &SiteState) -> bool {
        // Two calls at once would have one table.
        let has_table =
            !self.lines_per_call || (site.open == 0 && site.with_lines < self.maximum_events.max(1));
        site.site.lines.is_some() && has_table && site.outer % self.every(site.site) == 0
    }

    fn known(&mut self, site: &'static Site) -> u32 {
        if let Some(number) = site.number() {
            return number;
        }
        let number = self.sites.len() as u32;
        let lines = self.lines.len();
        for _ in 0..site.lines.map_or(0, |(_, count)| count) {
            self.lines.push(Line { times: 0, nanoseconds: 0, is_changed: false });
            self.line_figures.extend(&[NOTHING; SLOTS]);
        }
        let last = (ELSEWHERE, NONE);
        self.sites.push(SiteState {
            site,
            calls: 0,
            outer: 0,
            logged: 0,
            open: 0,
            with_lines: 0,
            last_with_lines: 0,
            lines,
            last,
        });
        site.set_number(number);
        number
    }

    /// The node of the same function, if it is open on the caller's thread.
    fn open_above(&self, site: u32, caller: u32) -> Option<u32> {
        if self.sites[site as usize].open == 0 {
            return None;
        }
        let mut above = caller;
        // Calls of coroutines end in any order. So the way up may pass frames of others, or go in a
        // circle.
        for _ in 0..self.frames.len() {
            if above == NONE {
                break;
            }
            let frame = &self.frames[above as usize];
            if frame.site == site {
                return Some(frame.node);
            }
            above = frame.caller;
        }
        None
    }

    /// Begins a call and returns its frame. `values` were read at this mark; mark 0 means that none
    /// were read.
    pub(crate) fn enter(
        &mut self,
        site: &'static Site,
        caller: u32,
        (mark, nanoseconds): (u64, u64),
        values: &Values,
        own: Option<OwnFigures>,
    ) -> u32 {
        let number = self.known(site);
        let open = self.open_above(number, caller);
        let parent = if caller == NONE { ROOT } else { self.frame(caller).node };
        let node = open.unwrap_or_else(|| self.node(parent, number));
        self.tree.begin(node, open.is_some());
        let is_logged = mark != 0 && self.is_next_logged(number);
        // Lines of a recursive call belong to the line that made it.
        let has_lines = open.is_none() && self.has_next_lines(&self.sites[number as usize]);
        let state = &mut self.sites.as_mut()[number as usize];
        if has_lines {
            state.with_lines += 1;
            state.last_with_lines = state.outer + 1;
        }
        state.open += 1;
        state.calls += 1;
        state.outer += u64::from(open.is_none());
        state.logged += u64::from(is_logged);
        if caller == NONE {
            self.threads += 1;
        }
        if self.threads > 1 {
            self.several_until = self.several_until.max(mark);
        }
        self.add_frame(&Frame {
            site: number,
            node,
            caller,
            mark,
            nanoseconds,
            start: if mark == 0 { Readings::NONE } else { Readings::from_values(values, &self.slots) },
            is_logged,
            occurrence: 0,
            own,
            own_peak: own.map_or(0, |own| own.level),
            is_recursive: open.is_some(),
            has_lines,
            line: 0,
            line_mark: 0,
            line_nanoseconds: 0,
            line_start: Readings::NONE,
        })
    }

    #[inline]
    fn add_frame(&mut self, frame: &Frame) -> u32 {
        if let Some(place) = self.free.pop() {
            self.frames.as_mut()[place as usize] = *frame;
            return place;
        }
        self.frames.push(*frame);
        self.frames.len() as u32 - 1
    }

    /// Whether a call that ends now needs figures.
    pub(crate) fn needs_figures_at_end(&self, frame: u32) -> bool {
        let frame = self.frame(frame);
        frame.is_logged || !frame.is_recursive
    }

    /// Ends a call. `peaks` returns the highest value of a slot's metric since a mark; `inside` is the call
    /// from [`Self::note_peaks`]. Returns the frame that was open before it.
    pub(crate) fn leave(
        &mut self,
        place: u32,
        (mark, nanoseconds): (u64, u64),
        values: &Values,
        own: Option<OwnFigures>,
        inside: Option<u32>,
        peaks: impl Fn(Index, u64) -> Option<u64>,
    ) -> u32 {
        if self.frame(place).line != 0 {
            self.close_line(place, nanoseconds, values, &peaks);
        }
        let frame = *self.frame(place);
        self.free.push(place);
        self.sites.as_mut()[frame.site as usize].open -= 1;
        if frame.caller != NONE && own.is_some() {
            let caller = self.frame_mut(frame.caller);
            caller.own_peak = caller.own_peak.max(frame.own_peak);
        }
        let is_of_process = frame.own.is_none() || !self.slots.iter().all(Slot::is_of_heap);
        let is_beside = self.threads > 1 || (frame.mark != 0 && self.several_until >= frame.mark);
        let overlapped = is_of_process && is_beside;
        let by_thread = frame.own.is_some() && own.is_some();
        self.tree.end(frame.node, overlapped && !frame.is_recursive, by_thread && !frame.is_recursive);
        if !frame.is_recursive {
            self.tree.add_time(frame.node, nanoseconds.saturating_sub(frame.nanoseconds));
            self.add_up(&frame, values, own, peaks);
        }
        if let Some(inside) = inside {
            self.frame_mut(inside).caller = frame.caller;
        } else if frame.caller == NONE {
            if self.threads > 1 {
                self.several_until = mark.max(self.several_until);
            }
            self.threads = self.threads.saturating_sub(1);
        }
        frame.caller
    }

    fn add_up(
        &mut self,
        frame: &Frame,
        values: &Values,
        own: Option<OwnFigures>,
        peaks: impl Fn(Index, u64) -> Option<u64>,
    ) {
        for (number, slot) in self.slots.iter().enumerate() {
            if frame.is_by_thread(slot) {
                if let Some((grown, peaked)) = frame.of_thread(slot, own) {
                    self.tree.add(frame.node, number, grown, peaked);
                }
                continue;
            }
            let (before, after) = match (frame.start.get(number, slot), values.get(slot.level)) {
                (Some(before), Some(after)) => (before, after),
                _ => continue,
            };
            let peak = slot.family.and_then(|_| peaks(slot.index, frame.mark));
            let peaked = peak.map_or(0, |peak| peak.saturating_sub(before.max(after)));
            self.tree.add(frame.node, number, after.wrapping_sub(before) as i64, peaked);
        }
    }

    /// Whether the lines of this call are measured.
    pub(crate) fn has_lines(&self, place: u32) -> bool {
        self.frame(place).has_lines
    }

    /// The function is at another line from this mark on.
    pub(crate) fn at_line(
        &mut self,
        place: u32,
        reached: Reached,
        mark: u64,
        nanoseconds: u64,
        values: &Values,
        peaks: impl Fn(Index, u64) -> Option<u64>,
    ) {
        let Reached { line, begins } = reached;
        if self.frame(place).line != 0 {
            self.close_line(place, nanoseconds, values, &peaks);
        }
        if begins {
            if let Some(known) = self.line_place(place, line) {
                let known = &mut self.lines.as_mut()[known];
                known.times += 1;
                known.is_changed = true;
            }
        }
        let readings = Readings::from_values(values, &self.slots);
        let frame = &mut self.frames.as_mut()[place as usize];
        frame.line = line;
        frame.line_mark = mark;
        frame.line_nanoseconds = nanoseconds;
        frame.line_start = readings;
    }

    fn line_place(&self, frame: u32, line: u32) -> Option<usize> {
        let state = &self.sites[self.frame(frame).site as usize];
        let (first, count) = state.site.lines?;
        line.checked_sub(first).filter(|&offset| offset < count).map(|offset| state.lines + offset as usize)
    }

    fn close_line(
        &mut self,
        place: u32,
        nanoseconds: u64,
        values: &Values,
        peaks: &impl Fn(Index, u64) -> Option<u64>,
    ) {
        let frame = *self.frame(place);
        let line = match self.line_place(place, frame.line) {
            Some(line) => line,
            None => return,
        };
        let known = &mut self.lines.as_mut()[line];
        known.nanoseconds += nanoseconds.saturating_sub(frame.line_nanoseconds);
        known.is_changed = true;
        for (number, slot) in self.slots.iter().enumerate() {
            let (before, after) = match (frame.line_start.get(number, slot), values.get(slot.level)) {
                (Some(before), Some(after)) => (before, after),
                _ => continue,
            };
            let figure = &mut self.line_figures.as_mut()[line * SLOTS + number];
            figure.times += 1;
            figure.grown = figure.grown.wrapping_add(after.wrapping_sub(before) as i64);
            if slot.family.is_some() {
                let peak = peaks(slot.index, frame.line_mark).unwrap_or(after).max(before);
                figure.peak = figure.peak.max(peak);
                figure.level = figure.level.max(after);
            }
        }
    }

    fn node(&mut self, parent: u32, site: u32) -> u32 {
        let last = self.sites[site as usize].last;
        if last.1 != NONE && last.0 == parent {
            return last.1;
        }
        let node = self.tree.find_or_add(parent, site);
        self.sites.as_mut()[site as usize].last = (parent, node);
        node
    }
}
