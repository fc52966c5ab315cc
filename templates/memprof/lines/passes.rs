//! The layers of the open forward pass, and the figures of its rows.
//!
//! Bytes count for the innermost open layer: a layer's own growth is its growth minus that of the
//! layers inside. So the rows of a pass add up to its growth, whatever is freed where. An output
//! that an adapter follows and that is gone when the layer around it ends was freed there. Its
//! bytes then leave the row of its maker (`freed_later`), and the row of the layer around gets them
//! back.

use std::io;

use crate::log::run_log::Log;
use crate::metrics::metric::{Catalogue, Index, Kind, PerMetric, Values};
use crate::metrics::peak_history::PeakHistory;
use crate::platform::thread_number;
use crate::platform::untracked::{Text, Untracked, kept};
use crate::shared::tensor::Device;

/// Most kinds of memory of a process: eight GPUs, the heap, `malloc`, and page-locked memory.
const MOST: usize = 11;

/// Ranges of tensors' numbers that are kept for adapters. A program that never asks for them must
/// not fill the memory.
const MOST_RANGES: usize = 1 << 18;

/// The name of the pass's own row, for what happens outside its layers.
const OUTSIDE: usize = usize::MAX;

/// A kind of memory, by the metrics that measure it.
#[derive(Clone, Copy)]
struct Memory {
    family: &'static str,
    level: Index,
    peak: Index,
    allocated: Option<Index>,
    /// Whether it has had a figure.
    has_begun: bool,
    /// Whether a figure is missing in this pass after it had one. Its rows would be wrong.
    is_lost: bool,
}

/// One reading of a kind of memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Level {
    live: u64,
    allocated: u64,
}

/// One reading of each kind of memory. What did not exist yet is zero.
pub(crate) type Levels = [Level; MOST];

#[derive(Clone, Copy)]
struct OpenLayer {
    row: usize,
    /// The mark at which it began.
    number: u64,
    start: Levels,
    /// What the layers inside it grew by and allocated.
    inside: [(i64, u64); MOST],
    output: Option<Followed>,
}

/// An output that is followed to the end of the pass.
#[derive(Clone, Copy)]
struct Followed {
    row: usize,
    memory: usize,
    storage: u64,
    bytes: u64,
    /// The depth of the call that returned it.
    depth: usize,
    weak: usize,
    is_alive: fn(usize, bool) -> bool,
}

#[derive(Clone, Copy)]
struct Row {
    name: usize,
    calls: u64,
    /// How many layers are around it, at its first call.
    depth: u64,
    sums: [Sum; MOST],
}

/// A layer's own figures of one kind of memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    growth: i64,
    allocated: u64,
    freed_later: u64,
    /// The highest peak above its beginning, with the layers inside.
    peak: u64,
}

/// The tensors that one call made, by their numbers.
#[derive(Clone, Copy)]
struct Made {
    after: u64,
    /// The highest number so far, so that ranges are in the order of this.
    last: u64,
    output: u64,
    name: usize,
}

/// Where a tensor was made.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The innermost layer, or the layer before.
    pub layer: &'static str,
    /// Whether it was made inside the layer, and not after it.
    pub is_inside: bool,
    /// Whether the layer returned it.
    pub is_output: bool,
    /// How many tensors later it was made than the layer began, or ended.
    pub offset: u64,
}

/// What the recorder keeps of forward passes. Only one is open at a time.
pub(crate) struct Passes {
    memories: Untracked<Memory>,
    /// How many metrics of the catalogue were looked at for `memories`.
    seen: usize,
    names: Untracked<&'static str>,
    thread: u32,
    occurrence: u64,
    label: usize,
    open: Untracked<OpenLayer>,
    rows: Untracked<Row>,
    followed: Untracked<Followed>,
    /// Calls of layers on other threads during the pass.
    elsewhere: u64,
    made: Untracked<Made>,
}

/// A layer's output, for adapters. The weak reference does not keep its storage alive.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Output<'a> {
    pub device: Device<'a>,
    /// Equal for tensors that share a storage.
    pub storage: u64,
    /// Bytes of the storage.
    pub bytes: u64,
    pub weak: usize,
    /// Whether the storage of the weak reference still exists. With `true`, the reference is given
    /// back: this is the last call.
    pub is_alive: fn(weak: usize, is_last: bool) -> bool,
}

impl Passes {
    pub(crate) const fn new() -> Self {
        Self {
            memories: Untracked::new(),
            seen: 0,
            names: Untracked::new(),
            thread: 0,
            occurrence: 0,
            label: 0,
            open: Untracked::new(),
            rows: Untracked::new(),
            followed: Untracked::new(),
            elsewhere: 0,
            made: Untracked::new(),
        }
    }

    /// Whether the open pass belongs to another thread.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.open.is_empty() && self.thread != thread_number::current()
    }

    /// The number of a name, which stays for the life of the process.
    fn name(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            self.names.push(kept(format_args!("{name}")));
            self.names.len() - 1
        })
    }

    fn row(&mut self, name: usize) -> usize {
        // Most passes call each layer once, and most layers that repeat do so at once.
        let known = self.rows.iter().rposition(|row| row.name == name);
        known.unwrap_or_else(|| {
            let depth = self.open.len() as u64;
            self.rows.push(Row { name, calls: 0, depth, sums: [Sum::default(); MOST] });
            self.rows.len() - 1
        })
    }

    pub(crate) fn made(&mut self, depth: usize, after: u64, output: u64) {
        let row = match self.open.get(depth.wrapping_sub(1)) {
            Some(layer) => layer.row,
            None => return,
        };
        if self.made.len() >= MOST_RANGES {
            self.made.clear();
        }
        let last = self.made.last().map_or(0, |made| made.last).max(output);
        self.made.push(Made { after, last, output, name: self.rows[row].name });
    }

    /// Calls end from the inside out, so the first range with the number is the innermost layer's.
    pub(crate) fn origin(&self, number: u64) -> Option<Origin> {
        let first = self.made.partition_point(|made| made.last < number);
        let inside = self.made[first..].iter().find(|made| made.after < number);
        let inside = inside.map(|made| (made, made.after));
        let after = || self.made[..first].last().map(|made| (made, made.last));
        let (made, start) = inside.or_else(after)?;
        Some(Origin {
            layer: self.names.get(made.name).copied()?,
            is_inside: start == made.after,
            is_output: number == made.output,
            offset: number - start,
        })
    }

    /// Counts a layer on another thread than the open pass's, and returns whether it is one.
    pub(crate) fn leaves_out(&mut self) -> bool {
        let is_elsewhere = self.is_elsewhere();
        self.elsewhere += u64::from(is_elsewhere);
        is_elsewhere
    }

    /// Whether no layer is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many layers are open.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Begins a pass, whose label has this occurrence.
    pub(crate) fn begin_pass(&mut self, label: &str, occurrence: u64) {
        self.thread = thread_number::current();
        self.label = self.name(label);
        self.occurrence = occurrence;
        for memory in self.memories.as_mut() {
            memory.is_lost = false;
        }
    }

    /// Counts a call of a layer, or of the code outside of all layers. Returns its row.
    pub(crate) fn call(&mut self, name: &str, is_outside: bool) -> usize {
        let name = self.name(name);
        let row = self.row(if is_outside { OUTSIDE } else { name });
        self.rows.as_mut()[row].calls += 1;
        row
    }

    /// Begins the call of a row at a mark with these levels. `before` is what the memory was before the
    /// adapter prepared the call.
    pub(crate) fn begin_layer(&mut self, row: usize, mark: u64, start: Levels, before: Option<Levels>) {
        if let (Some(before), Some(around)) = (before, self.open.as_mut().last_mut()) {
            for (inside, (start, before)) in around.inside.iter_mut().zip(start.iter().zip(&before)) {
                inside.0 += start.live.wrapping_sub(before.live) as i64;
                inside.1 += start.allocated.wrapping_sub(before.allocated);
            }
        }
        self.open.push(OpenLayer { row, number: mark, start, inside: [(0, 0); MOST], output: None });
    }

    /// Ends the innermost layer, at these levels.
    pub(crate) fn end_layer(&mut self, end: &Levels, histories: &PerMetric<PeakHistory>) {
        let layer = match self.open.pop() {
            Some(layer) => layer,
            None => return,
        };
        let mut whole = [(0_i64, 0_u64); MOST];
        for place in 0..self.memories.len() {
            let memory = self.memories[place];
            let (start, end) = (layer.start[place], end[place]);
            let growth = end.live.wrapping_sub(start.live) as i64;
            let allocated = end.allocated.wrapping_sub(start.allocated);
            whole[place] = (growth, allocated);
            let peak = histories.get(memory.peak).since(layer.number).unwrap_or(end.live);
            let sum = &mut self.rows.as_mut()[layer.row].sums[place];
            sum.growth += growth - layer.inside[place].0;
            sum.allocated += allocated.wrapping_sub(layer.inside[place].1);
            sum.peak = sum.peak.max(peak.saturating_sub(start.live));
        }
        if let Some(around) = self.open.as_mut().last_mut() {
            for (inside, whole) in around.inside.iter_mut().zip(&whole) {
                inside.0 += whole.0;
                inside.1 += whole.1;
            }
        }
        let depth = self.open.len() + 1;
        self.settle_outputs(depth, layer.row);
        if let Some(output) = layer.output {
            self.follow(output, whole[output.memory]);
        }
    }

    /// Follows an output if the layer made it: it allocated as many bytes, and no layer inside
    /// returned the same storage.
    fn follow(&mut self, output: Followed, whole: (i64, u64)) {
        let is_known = self.followed.iter().any(|known| known.storage == output.storage);
        let counts_allocated = self.memories[output.memory].allocated.is_some();
        let is_made_here =
            if counts_allocated { whole.1 >= output.bytes } else { whole.0 >= output.bytes as i64 };
        if is_known || !is_made_here {
            (output.is_alive)(output.weak, true);
        } else {
            self.followed.push(output);
        }
    }

    /// Looks at the outputs of layers inside the one that ends: those that are gone were freed in
    /// its own code.
    fn settle_outputs(&mut self, depth: usize, row: usize) {
        let mut place = 0;
        while place < self.followed.len() {
            let output = self.followed[place];
            if output.depth <= depth {
                place += 1;
            } else if (output.is_alive)(output.weak, false) {
                self.followed.as_mut()[place].depth = depth;
                place += 1;
            } else {
                (output.is_alive)(output.weak, true);
                let rows = self.rows.as_mut();
                rows[output.row].sums[output.memory].freed_later += output.bytes;
                rows[row].sums[output.memory].growth += output.bytes as i64;
                let last = self.followed.pop();
                if let Some(last) = last.filter(|_| place < self.followed.len()) {
                    self.followed.as_mut()[place] = last;
                }
            }
        }
    }

    /// Keeps the output of the innermost layer, if it is at this depth. Returns whether it is followed.
    pub(crate) fn keep_output(
        &mut self,
        depth: usize,
        output: &Output<'_>,
        device_name: impl Fn(u32) -> Option<&'static str>,
    ) -> bool {
        if depth == 0 || self.open.len() != depth {
            return false;
        }
        let memory = match output.device {
            Device::Cpu => self.memory_named("heap"),
            Device::CpuMalloc => self.memory_named("malloc"),
            Device::Cuda(ordinal) => device_name(ordinal).and_then(|device| {
                let family = Text::format(format_args!("gpu.{device}"));
                self.memory_named(family.as_str())
            }),
            Device::Other(_) => None,
        };
        let (memory, layer) = match (memory, self.open.as_mut().last_mut()) {
            (Some(memory), Some(layer)) if layer.output.is_none() => (memory, layer),
            _ => return false,
        };
        let Output { storage, bytes, weak, is_alive, .. } = *output;
        layer.output = Some(Followed { row: layer.row, memory, storage, bytes, depth, weak, is_alive });
        true
    }

    fn memory_named(&self, family: &str) -> Option<usize> {
        self.memories.iter().position(|memory| memory.family == family)
    }

    /// The levels of each kind of memory at a mark.
    pub(crate) fn levels(&mut self, catalogue: &Catalogue, values: &Values) -> Levels {
        let length = catalogue.length();
        if length > self.seen {
            let seen = std::mem::replace(&mut self.seen, length);
            let names = |name: &str| catalogue.metrics().find(|(_, metric)| metric.name == name);
            for (peak, metric) in catalogue.metrics().skip(seen) {
                let (family, level) = match metric.kind {
                    Kind::Peak { family, level } => (family, level),
                    Kind::Level | Kind::Total => continue,
                };
                // Pools have families of their own, and resident memory is no sum of blocks.
                let is_whole = metric.name.strip_suffix(".peak") == Some(family) && family != "cpu";
                if is_whole && self.memories.len() < MOST {
                    let allocated = Text::format(format_args!("{family}.allocated"));
                    let allocated = names(allocated.as_str()).map(|(index, _)| index);
                    let (has_begun, is_lost) = (false, false);
                    self.memories.push(Memory { family, level, peak, allocated, has_begun, is_lost });
                }
            }
        }
        let mut levels = [Level::default(); MOST];
        for (level, memory) in levels.iter_mut().zip(self.memories.as_mut()) {
            let live = values.get(memory.level);
            memory.is_lost |= memory.has_begun && live.is_none();
            memory.has_begun |= live.is_some();
            level.live = live.unwrap_or(0);
            level.allocated = memory.allocated.and_then(|allocated| values.get(allocated)).unwrap_or(0);
        }
        levels
    }

    /// Logs the rows of the pass that has ended.
    pub(crate) fn log_rows(&self, log: &mut Log, nanoseconds: u64) -> io::Result<()> {
        log.write("forward", nanoseconds, |json| {
            json.text("label", self.names[self.label]);
            json.figure("occurrence", self.occurrence);
            json.figure("elsewhere", self.elsewhere);
        })?;
        let memories = self.memories.iter().enumerate().filter(|(_, memory)| !memory.is_lost);
        let used = |place: usize| self.rows.iter().any(|row| row.sums[place] != Sum::default());
        for (place, memory) in memories.filter(|(place, _)| used(*place)) {
            for row in self.rows.iter() {
                let Sum { growth, allocated, freed_later, peak } = row.sums[place];
                let allocated = memory.allocated.map(|_| allocated);
                log.write("layer", nanoseconds, |json| {
                    json.text_or_null("name", self.names.get(row.name).copied());
                    json.text("memory", memory.family);
                    json.figure("calls", row.calls);
                    json.figure("depth", row.depth);
                    if let Some(allocated) = allocated {
                        json.figure("allocated", allocated);
                        let freed = i128::from(allocated) - i128::from(growth);
                        json.number("freed", format_args!("{freed}"));
                    }
                    json.figure("freed_later", freed_later);
                    let retained = i128::from(growth) - i128::from(freed_later);
                    json.number("retained", format_args!("{retained}"));
                    json.figure("peak", peak);
                })?;
            }
        }
        Ok(())
    }

    /// Gives back the outputs of the pass, which has ended.
    pub(crate) fn give_back_outputs(&mut self) {
        for output in self.followed.iter() {
            (output.is_alive)(output.weak, true);
        }
        self.followed.clear();
    }

    /// Forgets the rows of the pass, which the log has.
    pub(crate) fn forget_rows(&mut self) {
        self.rows.clear();
        self.elsewhere = 0;
    }
}
