//! Counts the layers of a forward pass, and logs them at its end.
//!
//! Bytes count for the innermost open layer: a layer's own growth is its growth minus that of the
//! layers inside. So the rows of a pass add up to its growth, whatever is freed where. An output
//! that an adapter follows and that is gone when the layer around it ends was freed there. Its
//! bytes then leave the row of its maker (`freed_later`), and the row of the layer around gets them
//! back.

use crate::layers::Output;
use crate::metric::{Index, Kind};
use crate::occurrences::Logged;
use crate::recorder::{Mark, Recorder, hold, settle_and_hold};
use crate::sources::Extent;
use crate::tensors::Device;
use crate::thread_number;
use crate::untracked::{Text, Untracked, kept};

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

/// Begins a layer, or a pass. Returns how many are open with it; 0 if nothing is recorded.
/// `before` is what the memory was before the adapter prepared the call.
#[cold]
pub(crate) fn begin(name: &str, is_pass: bool, before: Option<Levels>) -> usize {
    settle_and_hold().map_or(0, |mut recorder| recorder.begin_layer(name, is_pass, before))
}

#[cold]
pub(crate) fn end(depth: usize) {
    if let Some(mut recorder) = settle_and_hold() {
        recorder.end_layers(depth);
    }
}

pub(crate) fn levels() -> Option<Levels> {
    let mut recorder = settle_and_hold()?;
    if recorder.passes.is_elsewhere() {
        return None;
    }
    let mark = recorder.mark(Extent::Scopes);
    Some(recorder.levels(&mark))
}

pub(crate) fn keep_output(depth: usize, output: &Output<'_>) {
    let is_kept = hold().map_or(false, |mut recorder| recorder.keep_output(depth, output));
    if !is_kept {
        (output.is_alive)(output.weak, true);
    }
}

pub(crate) fn made(depth: usize, after: u64, output: u64) {
    if let Some(mut recorder) = hold() {
        recorder.passes.made(depth, after, output);
    }
}

pub(crate) fn origin(number: u64) -> Option<Origin> {
    hold()?.passes.origin(number)
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
    fn is_elsewhere(&self) -> bool {
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

    fn made(&mut self, depth: usize, after: u64, output: u64) {
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
    fn origin(&self, number: u64) -> Option<Origin> {
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
}

impl Recorder {
    fn begin_layer(&mut self, name: &str, is_pass: bool, before: Option<Levels>) -> usize {
        if self.log.is_none() {
            return 0;
        }
        if self.passes.is_elsewhere() {
            self.passes.elsewhere += 1;
            return 0;
        }
        let name_number = self.passes.name(name);
        let is_outermost = self.passes.open.is_empty();
        if is_outermost {
            self.passes.thread = thread_number::current();
            self.passes.label = name_number;
            self.passes.occurrence = self.occurrences.next(Logged::Forward, name);
        }
        let row = self.passes.row(if is_pass && is_outermost { OUTSIDE } else { name_number });
        self.passes.rows.as_mut()[row].calls += 1;
        let mark = self.mark(Extent::Scopes);
        let start = self.levels(&mark);
        if let (Some(before), Some(around)) = (before, self.passes.open.as_mut().last_mut()) {
            for (inside, (start, before)) in around.inside.iter_mut().zip(start.iter().zip(&before)) {
                inside.0 += start.live.wrapping_sub(before.live) as i64;
                inside.1 += start.allocated.wrapping_sub(before.allocated);
            }
        }
        self.open_scopes += 1;
        let open = OpenLayer { row, number: mark.number, start, inside: [(0, 0); MOST], output: None };
        self.passes.open.push(open);
        self.passes.open.len()
    }

    /// Ends the layer at this depth, and layers inside it that are still open.
    fn end_layers(&mut self, depth: usize) {
        if depth == 0 || self.passes.is_elsewhere() {
            return;
        }
        while self.passes.open.len() >= depth {
            let mark = self.mark(Extent::Scopes);
            self.log_what_appeared(&mark);
            self.end_layer(&mark);
            self.open_scopes = self.open_scopes.saturating_sub(1);
            if self.passes.open.is_empty() {
                self.log_pass(&mark);
            }
        }
    }

    fn end_layer(&mut self, mark: &Mark) {
        let end = self.levels(mark);
        let layer = match self.passes.open.pop() {
            Some(layer) => layer,
            None => return,
        };
        let mut whole = [(0_i64, 0_u64); MOST];
        for place in 0..self.passes.memories.len() {
            let memory = self.passes.memories[place];
            let (start, end) = (layer.start[place], end[place]);
            let growth = end.live.wrapping_sub(start.live) as i64;
            let allocated = end.allocated.wrapping_sub(start.allocated);
            whole[place] = (growth, allocated);
            let peak = self.histories.of(memory.peak).since(layer.number).unwrap_or(end.live);
            let sum = &mut self.passes.rows.as_mut()[layer.row].sums[place];
            sum.growth += growth - layer.inside[place].0;
            sum.allocated += allocated.wrapping_sub(layer.inside[place].1);
            sum.peak = sum.peak.max(peak.saturating_sub(start.live));
        }
        if let Some(around) = self.passes.open.as_mut().last_mut() {
            for (inside, whole) in around.inside.iter_mut().zip(&whole) {
                inside.0 += whole.0;
                inside.1 += whole.1;
            }
        }
        let depth = self.passes.open.len() + 1;
        self.settle_outputs(depth, layer.row);
        if let Some(output) = layer.output {
            self.follow(output, whole[output.memory]);
        }
    }

    /// Follows an output if the layer made it: it allocated as many bytes, and no layer inside
    /// returned the same storage.
    fn follow(&mut self, output: Followed, whole: (i64, u64)) {
        let is_known = self.passes.followed.iter().any(|known| known.storage == output.storage);
        let counts_allocated = self.passes.memories[output.memory].allocated.is_some();
        let is_made_here =
            if counts_allocated { whole.1 >= output.bytes } else { whole.0 >= output.bytes as i64 };
        if is_known || !is_made_here {
            (output.is_alive)(output.weak, true);
        } else {
            self.passes.followed.push(output);
        }
    }

    /// Looks at the outputs of layers inside the one that ends: those that are gone were freed in
    /// its own code.
    fn settle_outputs(&mut self, depth: usize, row: usize) {
        let mut place = 0;
        while place < self.passes.followed.len() {
            let output = self.passes.followed[place];
            if output.depth <= depth {
                place += 1;
            } else if (output.is_alive)(output.weak, false) {
                self.passes.followed.as_mut()[place].depth = depth;
                place += 1;
            } else {
                (output.is_alive)(output.weak, true);
                let rows = self.passes.rows.as_mut();
                rows[output.row].sums[output.memory].freed_later += output.bytes;
                rows[row].sums[output.memory].growth += output.bytes as i64;
                let last = self.passes.followed.pop();
                if let Some(last) = last.filter(|_| place < self.passes.followed.len()) {
                    self.passes.followed.as_mut()[place] = last;
                }
            }
        }
    }

    fn keep_output(&mut self, depth: usize, output: &Output<'_>) -> bool {
        if depth == 0 || self.passes.open.len() != depth {
            return false;
        }
        let memory = match output.device {
            Device::Cpu => self.memory_named("heap"),
            Device::CpuMalloc => self.memory_named("malloc"),
            Device::Cuda(ordinal) => self.sources.gpu.known_device(ordinal).and_then(|device| {
                let family = Text::of(format_args!("gpu.{device}"));
                self.memory_named(family.as_str())
            }),
            Device::Other(_) => None,
        };
        let (memory, layer) = match (memory, self.passes.open.as_mut().last_mut()) {
            (Some(memory), Some(layer)) if layer.output.is_none() => (memory, layer),
            _ => return false,
        };
        let Output { storage, bytes, weak, is_alive, .. } = *output;
        layer.output = Some(Followed { row: layer.row, memory, storage, bytes, depth, weak, is_alive });
        true
    }

    fn memory_named(&self, family: &str) -> Option<usize> {
        self.passes.memories.iter().position(|memory| memory.family == family)
    }

    fn levels(&mut self, mark: &Mark) -> Levels {
        let length = self.catalogue.length();
        if length > self.passes.seen {
            let seen = std::mem::replace(&mut self.passes.seen, length);
            let names = |name: &str| self.catalogue.metrics().find(|(_, metric)| metric.name == name);
            for (peak, metric) in self.catalogue.metrics().skip(seen) {
                let (family, level) = match metric.kind {
                    Kind::Peak { family, level } => (family, level),
                    Kind::Level | Kind::Total => continue,
                };
                // Pools have families of their own, and resident memory is no sum of blocks.
                let is_whole = metric.name.strip_suffix(".peak") == Some(family) && family != "cpu";
                if is_whole && self.passes.memories.len() < MOST {
                    let allocated = Text::of(format_args!("{family}.allocated"));
                    let allocated = names(allocated.as_str()).map(|(index, _)| index);
                    self.passes.memories.push(Memory { family, level, peak, allocated });
                }
            }
        }
        let mut levels = [Level::default(); MOST];
        for (level, memory) in levels.iter_mut().zip(self.passes.memories.iter()) {
            level.live = mark.values.get(memory.level).unwrap_or(0);
            level.allocated = memory.allocated.and_then(|allocated| mark.values.get(allocated)).unwrap_or(0);
        }
        levels
    }

    /// Logs the rows of the pass that has ended.
    fn log_pass(&mut self, mark: &Mark) {
        for output in self.passes.followed.iter() {
            (output.is_alive)(output.weak, true);
        }
        self.passes.followed.clear();
        self.log(|recorder, log| {
            let passes = &recorder.passes;
            log.write("forward", mark.nanoseconds, |json| {
                json.text("label", passes.names[passes.label]);
                json.figure("occurrence", passes.occurrence);
                json.figure("elsewhere", passes.elsewhere);
            })?;
            let memories = passes.memories.iter().enumerate();
            let used = |place: usize| passes.rows.iter().any(|row| row.sums[place] != Sum::default());
            for (place, memory) in memories.filter(|(place, _)| used(*place)) {
                for row in passes.rows.iter() {
                    let Sum { growth, allocated, freed_later, peak } = row.sums[place];
                    let allocated = memory.allocated.map(|_| allocated);
                    log.write("layer", mark.nanoseconds, |json| {
                        json.text_or_null("name", passes.names.get(row.name).copied());
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
        });
        self.passes.rows.clear();
        self.passes.elsewhere = 0;
    }
}
