//! What traced calls added up to: a tree of who called whom, with the number of calls and exact sums and maxima of what they
//! consumed and peaked, and the same for the lines of functions whose lines are told apart.
//!
//! A call of a function that is open already on its thread is a *recursive* one: it is counted, where the open call
//! stands in the tree, and its figures are within that call's and not added again. So the tree is no deeper than there are
//! functions, and no byte is in a sum twice.

use crate::metric::{Catalogue, Index, Kind, Values};
use crate::trace::{NONE, Site};
use crate::untracked::Untracked;

/// Metrics that are followed for each call, at most; what came later is left out.
pub(crate) const SLOTS: usize = 16;

/// Different ways by which functions are reached, at most. Others are added up by function alone.
const MAXIMUM_NODES: usize = 1 << 15;

/// The caller of all calls that no traced function made.
pub(crate) const ROOT: u32 = u32::MAX;
/// The caller of those whose way there is not kept.
const ELSEWHERE: u32 = u32::MAX - 1;

/// Which sources are read when a traced function begins and ends.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) heap: bool,
    pub(crate) cpu: bool,
    pub(crate) gpu: bool,
}

impl Columns {
    /// From names separated by commas.
    pub(crate) fn of(names: &str) -> Self {
        let has = |name: &str| names.split(',').any(|one| one.trim() == name);
        Self { heap: has("heap"), cpu: has("cpu"), gpu: has("gpu") }
    }

    fn has(self, metric: &str) -> bool {
        (self.heap && metric.starts_with("heap."))
            || (self.cpu && metric.starts_with("cpu."))
            || (self.gpu && metric.starts_with("gpu."))
    }
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
}

/// Readings at a moment, by slot.
#[derive(Clone, Copy)]
pub(crate) struct Readings {
    values: [u64; SLOTS],
    /// Slots that could not be read. One that came later stood at zero.
    missing: u16,
}

impl Readings {
    const NONE: Self = Self { values: [0; SLOTS], missing: 0 };

    fn of(values: &Values, slots: &[Slot]) -> Self {
        let mut readings = Self::NONE;
        for (place, slot) in slots.iter().enumerate() {
            match values.get(slot.level) {
                Some(value) => readings.values[place] = value,
                None => readings.missing |= 1 << place,
            }
        }
        readings
    }

    pub(crate) fn get(&self, place: usize) -> Option<u64> {
        if self.missing & (1 << place) == 0 { Some(self.values[place]) } else { None }
    }
}

/// A call that has not ended.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) site: u32,
    pub(crate) node: u32,
    /// The frame that is open on the thread when this one has ended.
    pub(crate) caller: u32,
    /// The mark at which it began; 0 if its figures are not taken.
    pub(crate) mark: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) start: Readings,
    /// Whether it is logged by itself.
    pub(crate) is_logged: bool,
    /// Which of its label it is then, in the order in which they begin.
    pub(crate) occurrence: u64,
    is_recursive: bool,
    /// Where the function is, and since which mark; 0 for nowhere.
    line: u32,
    line_mark: u64,
    line_start: Readings,
}

/// A function, reached in one way.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    pub(crate) site: u32,
    /// Its caller, [`ROOT`] or `ELSEWHERE`.
    pub(crate) parent: u32,
    pub(crate) calls: u64,
    pub(crate) recursive: u64,
    ended: u64,
    /// Calls during which a traced function ran on another thread: their figures have that one's in them.
    pub(crate) overlapped: u64,
    is_changed: bool,
}

impl Node {
    /// Calls that have begun and not ended.
    pub(crate) fn open(&self) -> u64 {
        self.calls - self.ended
    }

    /// Whether the way to it is not kept.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.parent == ELSEWHERE
    }
}

/// Of one metric, over the calls of a node.
#[derive(Clone, Copy)]
pub(crate) struct Aggregate {
    /// Calls that had a reading at both ends.
    pub(crate) calls: u64,
    /// Of what was consumed, or by how much a total grew.
    pub(crate) sum: i64,
    pub(crate) most: i64,
    pub(crate) peaked_sum: u64,
    pub(crate) peaked_most: u64,
}

const NOTHING: Aggregate = Aggregate { calls: 0, sum: 0, most: 0, peaked_sum: 0, peaked_most: 0 };

/// Of one metric, on one line: the highest peak while it ran, and by how much level or total grew on it.
#[derive(Clone, Copy)]
pub(crate) struct LineFigure {
    pub(crate) times: u64,
    pub(crate) peak: u64,
    pub(crate) grown: i64,
}

#[derive(Clone, Copy)]
pub(crate) struct SiteState {
    pub(crate) site: &'static Site,
    /// Calls that were logged one by one.
    logged: u64,
    /// Calls open, on all threads.
    open: u64,
    /// Where its lines begin in the table.
    lines: usize,
    last: (u32, u32),
}

/// All of it; the recorder's.
pub(crate) struct Calls {
    pub(crate) columns: Columns,
    pub(crate) maximum_events: u64,
    slots: Untracked<Slot>,
    /// How many of the catalogue's metrics the slots were chosen from.
    considered: usize,
    sites: Untracked<SiteState>,
    nodes: Untracked<Node>,
    aggregates: Untracked<Aggregate>,
    /// A hash table of nodes by caller and site, with open addressing; a place that holds [`NONE`] is free.
    places: Untracked<u32>,
    frames: Untracked<Frame>,
    free: Untracked<u32>,
    line_times: Untracked<u64>,
    line_figures: Untracked<LineFigure>,
    /// Threads with an open traced call.
    threads: u64,
    /// The last mark at which there were several of them.
    several_until: u64,
}

impl Calls {
    pub(crate) const fn new() -> Self {
        Self {
            columns: Columns { heap: true, cpu: false, gpu: true },
            maximum_events: 0,
            slots: Untracked::new(),
            considered: 0,
            sites: Untracked::new(),
            nodes: Untracked::new(),
            aggregates: Untracked::new(),
            places: Untracked::new(),
            frames: Untracked::new(),
            free: Untracked::new(),
            line_times: Untracked::new(),
            line_figures: Untracked::new(),
            threads: 0,
            several_until: 0,
        }
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn sites(&self) -> &[SiteState] {
        &self.sites
    }

    pub(crate) fn site(&self, number: u32) -> &'static Site {
        self.sites[number as usize].site
    }

    pub(crate) fn aggregate(&self, node: usize, slot: usize) -> &Aggregate {
        &self.aggregates[node * SLOTS + slot]
    }

    pub(crate) fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    pub(crate) fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames.as_mut()[frame as usize]
    }

    /// The lines of a site that ran: number, how often, and where the figures are for [`Self::line_figure`].
    pub(crate) fn lines(&self, site: usize) -> impl Iterator<Item = (u32, u64, usize)> + '_ {
        let state = &self.sites[site];
        let (first, count) = state.site.lines.unwrap_or((0, 0));
        (0..count).filter_map(move |line| {
            let place = state.lines + line as usize;
            match self.line_times[place] {
                0 => None,
                times => Some((first + line, times, place)),
            }
        })
    }

    pub(crate) fn line_figure(&self, place: usize, slot: usize) -> &LineFigure {
        &self.line_figures[place * SLOTS + slot]
    }

    /// Looks for metrics that came since.
    pub(crate) fn follow(&mut self, catalogue: &Catalogue) {
        if self.considered == catalogue.length() {
            return;
        }
        for (index, metric) in catalogue.metrics().skip(self.considered) {
            if self.slots.len() == SLOTS || !self.columns.has(metric.name) {
                continue;
            }
            let (level, family) = match metric.kind {
                Kind::Peak { family, level } => (level, Some(family)),
                Kind::Total => (index, None),
                Kind::Level => continue,
            };
            self.slots.push(Slot { index, level, family, name: metric.name });
        }
        self.considered = catalogue.length();
    }

    /// Whether a call that begins now needs to know the figures; those of a recursive one that is not logged are of no use.
    pub(crate) fn needs_figures(&mut self, site: &'static Site, caller: u32) -> bool {
        let number = self.known(site);
        self.sites[number as usize].logged < self.maximum_events || self.open_above(number, caller).is_none()
    }

    fn known(&mut self, site: &'static Site) -> u32 {
        if let Some(number) = site.number() {
            return number;
        }
        let number = self.sites.len() as u32;
        let lines = self.line_times.len();
        for _ in 0..site.lines.map_or(0, |(_, count)| count) {
            self.line_times.push(0);
            self.line_figures.extend(&[LineFigure { times: 0, peak: 0, grown: 0 }; SLOTS]);
        }
        self.sites.push(SiteState { site, logged: 0, open: 0, lines, last: (ELSEWHERE, NONE) });
        site.set_number(number);
        number
    }

    /// The node of the same function where it is open on the caller's thread.
    fn open_above(&self, site: u32, caller: u32) -> Option<u32> {
        if self.sites[site as usize].open == 0 {
            return None;
        }
        let mut above = caller;
        // Calls of coroutines end in any order, so that the way up may lead through frames of others, and in a circle.
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

    /// A call begins. `values` were read at this mark; mark 0 stands for none.
    pub(crate) fn enter(
        &mut self,
        site: &'static Site,
        caller: u32,
        mark: u64,
        nanoseconds: u64,
        values: &Values,
    ) -> u32 {
        let number = self.known(site);
        let open = self.open_above(number, caller);
        let parent = if caller == NONE { ROOT } else { self.frames[caller as usize].node };
        let node = match open {
            Some(node) => node,
            None => self.node(parent, number),
        };
        let of_node = &mut self.nodes.as_mut()[node as usize];
        of_node.calls += 1;
        of_node.recursive += u64::from(open.is_some());
        of_node.is_changed = true;
        let state = &mut self.sites.as_mut()[number as usize];
        state.open += 1;
        let is_logged = mark != 0 && state.logged < self.maximum_events;
        state.logged += u64::from(is_logged);
        if caller == NONE {
            self.threads += 1;
        }
        if self.threads > 1 {
            self.several_until = self.several_until.max(mark);
        }
        let start = if mark == 0 { Readings::NONE } else { Readings::of(values, &self.slots) };
        let frame = Frame {
            site: number,
            node,
            caller,
            mark,
            nanoseconds,
            start,
            is_logged,
            occurrence: 0,
            is_recursive: open.is_some(),
            line: 0,
            line_mark: 0,
            line_start: Readings::NONE,
        };
        if let Some(place) = self.free.pop() {
            self.frames.as_mut()[place as usize] = frame;
            place
        } else {
            self.frames.push(frame);
            self.frames.len() as u32 - 1
        }
    }

    /// Whether a call that ends now needs to know the figures.
    pub(crate) fn needs_figures_at_end(&self, frame: u32) -> bool {
        let frame = self.frame(frame);
        frame.is_logged || !frame.is_recursive
    }

    /// A call ends. `peaks` says the highest value of a slot's metric since a mark. Returns the frame that was open before it.
    pub(crate) fn leave(
        &mut self,
        place: u32,
        mark: u64,
        values: &Values,
        peaks: impl Fn(Index, u64) -> Option<u64>,
    ) -> u32 {
        if self.frame(place).line != 0 {
            self.close_line(place, values, &peaks);
        }
        let frame = *self.frame(place);
        self.free.push(place);
        self.sites.as_mut()[frame.site as usize].open -= 1;
        let overlapped = self.threads > 1 || (frame.mark != 0 && self.several_until >= frame.mark);
        let node = &mut self.nodes.as_mut()[frame.node as usize];
        node.ended += 1;
        node.is_changed = true;
        if !frame.is_recursive {
            node.overlapped += u64::from(overlapped);
            for (number, slot) in self.slots.iter().enumerate() {
                let (before, after) = match (frame.start.get(number), values.get(slot.level)) {
                    (Some(before), Some(after)) => (before, after),
                    _ => continue,
                };
                let grown = after.wrapping_sub(before) as i64;
                let peaked = match slot.family {
                    Some(_) => {
                        peaks(slot.index, frame.mark).map_or(0, |peak| peak.saturating_sub(before.max(after)))
                    }
                    None => 0,
                };
                let aggregate = &mut self.aggregates.as_mut()[frame.node as usize * SLOTS + number];
                aggregate.most = if aggregate.calls == 0 { grown } else { aggregate.most.max(grown) };
                aggregate.calls += 1;
                aggregate.sum = aggregate.sum.wrapping_add(grown);
                aggregate.peaked_sum = aggregate.peaked_sum.wrapping_add(peaked);
                aggregate.peaked_most = aggregate.peaked_most.max(peaked);
            }
        }
        if frame.caller == NONE {
            if self.threads > 1 {
                self.several_until = mark.max(self.several_until);
            }
            self.threads = self.threads.saturating_sub(1);
        }
        frame.caller
    }

    /// Whether the lines of this call are told apart: those of a recursive one belong to the line that made it.
    pub(crate) fn has_lines(&self, place: u32) -> bool {
        !self.frame(place).is_recursive
    }

    /// The function is on another line from this mark on.
    pub(crate) fn at_line(
        &mut self,
        place: u32,
        line: u32,
        begins: bool,
        mark: u64,
        values: &Values,
        peaks: impl Fn(Index, u64) -> Option<u64>,
    ) {
        if self.frame(place).line != 0 {
            self.close_line(place, values, &peaks);
        }
        if begins {
            if let Some(times) = self.line_place(place, line) {
                self.line_times.as_mut()[times] += 1;
            }
        }
        let readings = Readings::of(values, &self.slots);
        let frame = &mut self.frames.as_mut()[place as usize];
        frame.line = line;
        frame.line_mark = mark;
        frame.line_start = readings;
    }

    fn line_place(&self, frame: u32, line: u32) -> Option<usize> {
        let state = &self.sites[self.frame(frame).site as usize];
        let (first, count) = state.site.lines?;
        line.checked_sub(first).filter(|&offset| offset < count).map(|offset| state.lines + offset as usize)
    }

    fn close_line(&mut self, place: u32, values: &Values, peaks: &impl Fn(Index, u64) -> Option<u64>) {
        let frame = *self.frame(place);
        let line = match self.line_place(place, frame.line) {
            Some(line) => line,
            None => return,
        };
        for (number, slot) in self.slots.iter().enumerate() {
            let (before, after) = match (frame.line_start.get(number), values.get(slot.level)) {
                (Some(before), Some(after)) => (before, after),
                _ => continue,
            };
            let figure = &mut self.line_figures.as_mut()[line * SLOTS + number];
            figure.times += 1;
            figure.grown = figure.grown.wrapping_add(after.wrapping_sub(before) as i64);
            if slot.family.is_some() {
                let peak = peaks(slot.index, frame.line_mark).unwrap_or(after).max(before);
                figure.peak = figure.peak.max(peak);
            }
        }
    }

    /// The nodes that changed since the last time.
    pub(crate) fn take_changed(&mut self) -> Untracked<u32> {
        let mut changed = Untracked::new();
        for (number, node) in self.nodes.as_mut().iter_mut().enumerate() {
            if std::mem::replace(&mut node.is_changed, false) {
                changed.push(number as u32);
            }
        }
        changed
    }

    fn node(&mut self, parent: u32, site: u32) -> u32 {
        let last = self.sites[site as usize].last;
        if last.1 != NONE && last.0 == parent {
            return last.1;
        }
        let node = self.find_or_add(parent, site);
        self.sites.as_mut()[site as usize].last = (parent, node);
        node
    }

    fn find_or_add(&mut self, parent: u32, site: u32) -> u32 {
        if self.nodes.len() * 2 >= self.places.len() {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let mut index = hash(parent, site) & mask;
        while self.places[index] != NONE {
            let node = self.places[index];
            let known = &self.nodes[node as usize];
            if known.parent == parent && known.site == site {
                return node;
            }
            index = (index + 1) & mask;
        }
        if self.nodes.len() >= MAXIMUM_NODES && parent != ELSEWHERE {
            return self.find_or_add(ELSEWHERE, site);
        }
        let node = self.nodes.len() as u32;
        self.nodes.push(Node {
            site,
            parent,
            calls: 0,
            recursive: 0,
            ended: 0,
            overlapped: 0,
            is_changed: false,
        });
        self.aggregates.extend(&[NOTHING; SLOTS]);
        self.places.as_mut()[index] = node;
        node
    }

    /// Doubles the table; its length stays a power of two.
    fn grow(&mut self) {
        let length = (self.places.len() * 2).max(64);
        let mut places = Untracked::new();
        places.reserve(length);
        for _ in 0..length {
            places.push(NONE);
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let mut index = hash(node.parent, node.site) & (length - 1);
            while places[index] != NONE {
                index = (index + 1) & (length - 1);
            }
            places.as_mut()[index] = number as u32;
        }
        self.places = places;
    }
}

fn hash(parent: u32, site: u32) -> usize {
    let word = (u64::from(parent) << 32 | u64::from(site)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32) as usize
}
