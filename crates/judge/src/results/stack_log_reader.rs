//! Reads the call stacks out of the log of a run that recorded them.
//!
//! The sum over all sites must be the interval's figure, and this must be the figure of the run's
//! checkpoint. A log that breaks this is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::BufRead;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use crate::results::live_sizes::LiveSizes;
use crate::results::log_file::{LineError, LogError, VERSION, each_line};
use crate::results::shim_log::known_label;
use crate::results::stack_log::{
    Family, Figures, Interval, Module, Node, RecordedThread, Recording, Released, ReleasingPair, StackLog,
    ThreadKind, Timeline, Way,
};
use memprof_support::counted::{counted, grouped};

/// The most frames, sites, and figures of sites in a log. They take at most 40 bytes each.
const MOST: usize = 1 << 24;

/// The largest figure: two pebibytes.
const MOST_OF_FIGURE: i64 = i64::MAX >> 12;

/// Reads a whole log. `file` is its name in errors.
pub fn read(log: impl BufRead, file: &str) -> Result<StackLog, LogError> {
    let mut reader = StackLogReader::default();
    let torn = each_line(log, file, |text, line| reader.take(text, line))?;
    let broken = |(line, problem)| LogError::Malformed { file: file.to_owned(), line, problem };
    let mut log = reader.finish().map_err(broken)?;
    log.notes.extend(torn);
    Ok(log)
}

/// A line's number and what is wrong with it.
type Broken = (usize, String);

/// What has been read so far.
#[derive(Default)]
struct StackLogReader {
    log: StackLog,
    process: Option<u64>,
    of_other_processes: usize,
    checkpoints: FxHashMap<(String, u32), Vec<LoggedCheckpoint>>,
    intervals: Vec<LoggedInterval>,
    /// The intervals whose last part is missing, by family, label and occurrence.
    open: FxHashMap<(String, String, u32), usize>,
    figures: usize,
    /// The first node of each line of frames, and the line's number.
    frame_lines: Vec<(usize, usize)>,
    /// The first site of each line of sites, and the line's number.
    site_lines: Vec<(usize, usize)>,
}

struct LoggedCheckpoint {
    sequence: u64,
    has_place: bool,
    metrics: BTreeMap<String, Option<i64>>,
    /// The families that have an interval here.
    taken: Vec<String>,
}

struct LoggedInterval {
    family: String,
    label: String,
    occurrence: u32,
    sequence: u64,
    nanoseconds: u64,
    line: usize,
    parts: [u32; 2],
    total: Figures,
    peak_event: Option<u64>,
    sites: Vec<(u32, Figures)>,
    releases: Vec<(ReleasingPair, Released)>,
}

#[derive(Deserialize)]
struct Head<'a> {
    v: u32,
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    ns: u64,
    #[serde(default)]
    pid: Option<u64>,
}

#[derive(Deserialize)]
struct FramesLine {
    first: usize,
    frames: Vec<Integer>,
}

#[derive(Deserialize)]
struct SitesLine {
    first: usize,
    nodes: Vec<u32>,
    #[serde(default)]
    threads: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct ThreadLine {
    number: usize,
    kind: String,
    name: String,
    shared: u8,
}

#[derive(Deserialize)]
struct IntervalLine {
    family: String,
    label: String,
    occurrence: u32,
    part: u32,
    parts: u32,
    live: i64,
    peak: i64,
    count: i64,
    allocated: i64,
    #[serde(default)]
    peak_event: Option<u64>,
    sites: Vec<i64>,
}

#[derive(Deserialize)]
struct ReleasesLine {
    family: String,
    label: String,
    occurrence: u32,
    pairs: Vec<i64>,
}

#[derive(Deserialize)]
struct TimelineLine {
    family: String,
    begin: i64,
    width: u64,
    buckets: Vec<i64>,
}

#[derive(Deserialize)]
struct IncompleteLine {
    reason: String,
}

#[derive(Deserialize)]
struct CheckpointLine {
    label: String,
    occurrence: u32,
    at: Option<String>,
    metrics: BTreeMap<String, Option<i64>>,
}

/// An integer of 64 bits, with or without a sign.
struct Integer(i128);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Integer;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an integer")
            }

            fn visit_i64<E>(self, value: i64) -> Result<Integer, E> {
                Ok(Integer(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Integer, E> {
                Ok(Integer(value.into()))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl StackLogReader {
    fn take(&mut self, bytes: &[u8], line: usize) -> Result<(), LineError> {
        let head: Head<'_> = parsed(bytes)?;
        if head.v > VERSION {
            return Err(LineError::Newer(head.v));
        }
        let process = head.pid.ok_or_else(|| malformed("`pid` is missing"))?;
        if *self.process.get_or_insert(process) != process {
            self.of_other_processes += 1;
            return Ok(());
        }
        match &*head.event {
            "stacks" => self.take_stacks(parsed(bytes)?)?,
            "module" => self.take_module(parsed(bytes)?)?,
            "frames" => self.take_frames(&parsed(bytes)?, line)?,
            "thread" => self.take_thread(parsed(bytes)?)?,
            "sites" => self.take_sites(&parsed(bytes)?, line)?,
            "interval" => self.take_interval(parsed(bytes)?, &head, line)?,
            "releases" => self.take_releases(&parsed(bytes)?)?,
            "timeline" => self.take_timeline(parsed(bytes)?)?,
            "stacks_incomplete" => {
                let IncompleteLine { reason } = parsed(bytes)?;
                self.log.incomplete.push(reason);
            }
            LiveSizes::EVENT => {
                let live_sizes =
                    LiveSizes::read(bytes, head.seq).map_err(|error| malformed(&error.to_string()))?;
                self.log.live_sizes.push(live_sizes);
            }
            "checkpoint" => self.take_checkpoint(parsed(bytes)?, head.seq),
            "end" => self.log.ended = true,
            // What else a log has, `shim_log` reads.
            _ => {}
        }
        Ok(())
    }

    fn take_stacks(&mut self, recording: Recording) -> Result<(), LineError> {
        if self.log.recording.replace(recording).is_some() {
            return Err(malformed("there is an earlier line of this kind"));
        }
        Ok(())
    }

    fn take_module(&mut self, module: Module) -> Result<(), LineError> {
        if self.log.module(module.number).is_some() {
            return Err(malformed(&format!("there is an earlier module {}", module.number)));
        }
        self.log.modules.push(module);
        Ok(())
    }

    fn take_frames(&mut self, line: &FramesLine, number: usize) -> Result<(), LineError> {
        let FramesLine { first, frames } = line;
        expect_next(*first, self.log.nodes.len(), "frame")?;
        let (frames, rest) = frames.as_chunks::<3>();
        if !rest.is_empty() {
            return Err(malformed("a frame has three numbers"));
        }
        limit(self.log.nodes.len() + frames.len(), "frames")?;
        self.frame_lines.push((self.log.nodes.len(), number));
        for [Integer(parent), Integer(module), Integer(address)] in frames {
            let own = self.log.nodes.len() + 1;
            let parent = u32::try_from(*parent).ok().filter(|parent| (*parent as usize) < own);
            let parent = parent.ok_or_else(|| malformed(&format!("frame {own} has no earlier parent")))?;
            let module = if *module == -1 {
                None
            } else {
                Some(u32::try_from(*module).map_err(|_| malformed(&format!("frame {own} has no module")))?)
            };
            let address = u64::try_from(*address);
            let address = address.map_err(|_| malformed(&format!("frame {own} has no address")))?;
            self.log.nodes.push(Node { parent, module, address });
        }
        Ok(())
    }

    fn take_sites(&mut self, line: &SitesLine, number: usize) -> Result<(), LineError> {
        expect_next(line.first, self.log.sites.len(), "site")?;
        limit(self.log.sites.len() + line.nodes.len(), "sites")?;
        self.site_lines.push((self.log.sites.len(), number));
        let threads = line.threads.as_deref().unwrap_or_default();
        let has_threads = self.log.has_threads() || (self.log.sites.is_empty() && line.threads.is_some());
        if threads.len() != if has_threads { line.nodes.len() } else { 0 } {
            return Err(malformed("each site has a thread, or none has"));
        }
        if let Some(unknown) = threads.iter().find(|thread| **thread as usize > self.log.threads.len()) {
            return Err(malformed(&format!("there is no thread {unknown} before it")));
        }
        self.log.sites.extend_from_slice(&line.nodes);
        self.log.site_threads.extend_from_slice(threads);
        Ok(())
    }

    fn take_thread(&mut self, line: ThreadLine) -> Result<(), LineError> {
        let ThreadLine { number, kind, name, shared } = line;
        expect_next(number, self.log.threads.len(), "thread")?;
        limit(number, "threads")?;
        let kind = ThreadKind::ALL.into_iter().find(|one| one.as_str() == kind);
        let kind = kind.ok_or_else(|| malformed("a thread is of no known kind"))?;
        self.log.threads.push(RecordedThread { kind, name, is_shared: shared != 0 });
        Ok(())
    }

    fn take_interval(&mut self, line: IntervalLine, head: &Head<'_>, number: usize) -> Result<(), LineError> {
        let total = checked(&[line.peak, line.live, line.allocated, line.count])?;
        let (sites, rest) = line.sites.as_chunks::<5>();
        if !rest.is_empty() {
            return Err(malformed("a site has five numbers"));
        }
        self.figures += sites.len();
        limit(self.figures, "figures of sites")?;
        if line.part >= line.parts {
            return Err(malformed(&format!("part {} of {}", line.part, line.parts)));
        }
        let key = (line.family, line.label, line.occurrence);
        let index = match self.open.remove(&key) {
            Some(open) => {
                let interval = &self.intervals[open];
                if interval.parts != [line.part, line.parts] || interval.total != total {
                    return Err(malformed("it does not continue the part before it"));
                }
                open
            }
            None if line.part == 0 => {
                let (family, label, occurrence) = key.clone();
                self.intervals.push(LoggedInterval {
                    family,
                    label,
                    occurrence,
                    sequence: head.seq,
                    nanoseconds: head.ns,
                    line: number,
                    parts: [0, line.parts],
                    total,
                    peak_event: line.peak_event,
                    sites: Vec::new(),
                    releases: Vec::new(),
                });
                self.intervals.len() - 1
            }
            None => return Err(malformed(&format!("part {} comes before part 0", line.part))),
        };
        let interval = &mut self.intervals[index];
        for [site, figures @ ..] in sites {
            let site = u32::try_from(*site).map_err(|_| malformed(&format!("{site} is no site")))?;
            interval.sites.push((site, checked(figures)?));
        }
        interval.parts[0] += 1;
        if interval.parts[0] < interval.parts[1] {
            self.open.insert(key, index);
        }
        Ok(())
    }

    /// Takes where blocks ended in the interval before this line.
    fn take_releases(&mut self, line: &ReleasesLine) -> Result<(), LineError> {
        let is_meant = |interval: &&mut LoggedInterval| {
            let names = (&interval.family, &interval.label, interval.occurrence);
            names == (&line.family, &line.label, line.occurrence)
        };
        let interval = self.intervals.iter_mut().rfind(is_meant);
        let interval = interval.ok_or_else(|| malformed("there is no such interval before it"))?;
        let (pairs, rest) = line.pairs.as_chunks::<5>();
        if !rest.is_empty() {
            return Err(malformed("a pair of sites has five numbers"));
        }
        self.figures += pairs.len();
        limit(self.figures, "figures of sites")?;
        for &[site, by, way, at_peak, at_end] in pairs {
            let known = |site: i64| {
                let is_known = |site: &u32| (1..=self.log.sites.len()).contains(&(*site as usize));
                let site = u32::try_from(site).ok().filter(is_known);
                site.ok_or_else(|| malformed("a pair names a site that the log does not have"))
            };
            let way = match way {
                0 => Way::Freed,
                1 => Way::Shrunk,
                2 => Way::Grown,
                _ => return Err(malformed(&format!("there is no way {way}"))),
            };
            if !(0..=MOST_OF_FIGURE).contains(&at_end) || !(0..=at_end).contains(&at_peak) {
                return Err(malformed("a figure is out of range"));
            }
            let pair = ReleasingPair { site: known(site)?, by: known(by)?, way };
            interval.releases.push((pair, Released { at_peak, at_end }));
        }
        Ok(())
    }

    fn take_timeline(&mut self, line: TimelineLine) -> Result<(), LineError> {
        let (buckets, rest) = line.buckets.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(malformed("a bucket has two numbers"));
        }
        if buckets.iter().any(|[least, most]| least > most) {
            return Err(malformed("a bucket's least is above its most"));
        }
        let TimelineLine { family, begin, width, .. } = line;
        if self.log.timelines.iter().any(|timeline| timeline.family == family) {
            return Err(malformed(&format!("there is an earlier timeline of {family}")));
        }
        self.log.timelines.push(Timeline { family, begin, width, buckets: buckets.to_vec() });
        Ok(())
    }

    fn take_checkpoint(&mut self, line: CheckpointLine, sequence: u64) {
        let CheckpointLine { label, occurrence, at, metrics } = line;
        if !self.log.live_sizes.is_empty() {
            self.log.sized_checkpoints.insert((label.clone(), occurrence), sequence);
        }
        let checkpoint = LoggedCheckpoint { sequence, has_place: at.is_some(), metrics, taken: Vec::new() };
        self.checkpoints.entry((label, occurrence)).or_default().push(checkpoint);
    }

    fn finish(mut self) -> Result<StackLog, Broken> {
        self.check_numbers()?;
        let mut open: Vec<usize> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_unstable();
        for index in open.into_iter().rev() {
            let LoggedInterval { label, line, parts, .. } = self.intervals.remove(index);
            let problem = format!("the interval of '{label}' has {} of {} parts", parts[0], parts[1]);
            if self.log.ended {
                return Err((line, problem));
            }
            self.log.notes.push(format!("{problem}: the process ended while it was being written"));
        }
        if self.of_other_processes > 0 {
            let lines = counted(self.of_other_processes, "line");
            self.log.notes.push(format!("ignored {lines} of other processes (forked children)"));
        }
        // Threads may write their lines in another order than their numbers.
        self.intervals.sort_by_key(|interval| interval.sequence);
        let is_sampled = self.log.recording.as_ref().is_some_and(|recording| recording.sample.is_some());
        let mut levels: BTreeMap<String, LevelSum> = BTreeMap::new();
        for mut interval in std::mem::take(&mut self.intervals) {
            let line = interval.line;
            let broken = |problem| (line, problem);
            let label = self.label_of(&interval).map_err(broken)?;
            interval.sites.sort_unstable_by_key(|(site, _)| *site);
            let level = levels.entry(interval.family.clone()).or_default();
            level.check(&interval, self.log.sites.len(), is_sampled).map_err(broken)?;
            let LoggedInterval { family: name, occurrence, nanoseconds, total, sites: changes, .. } =
                interval;
            let (releases, peak_event) = (interval.releases, interval.peak_event);
            let interval = Interval { label, occurrence, nanoseconds, total, peak_event, changes, releases };
            match self.log.families.iter_mut().find(|family| family.name == name) {
                Some(family) => family.intervals.push(interval),
                None => self.log.families.push(Family { name, intervals: vec![interval] }),
            }
        }
        Ok(self.log)
    }

    /// Checks that all modules and frames exist that are referred to.
    fn check_numbers(&self) -> Result<(), Broken> {
        let line_of = |lines: &[(usize, usize)], index: usize| {
            let after = lines.partition_point(|(first, _)| *first <= index);
            lines[after.saturating_sub(1)].1
        };
        let is_known = |node: &Node| node.module.is_none_or(|number| self.log.module(number).is_some());
        if let Some(index) = self.log.nodes.iter().position(|node| !is_known(node)) {
            let module = self.log.nodes[index].module.unwrap_or_default();
            let problem = format!("frame {} is in module {module}, which the log does not name", index + 1);
            return Err((line_of(&self.frame_lines, index), problem));
        }
        let frames = self.log.nodes.len();
        if let Some(index) = self.log.sites.iter().position(|node| *node as usize > frames) {
            let problem = format!("site {} has no frame {}", index + 1, self.log.sites[index]);
            return Err((line_of(&self.site_lines, index), problem));
        }
        Ok(())
    }

    /// Compares an interval with its checkpoint, and returns the label that the checkpoint is known
    /// by.
    fn label_of(&mut self, interval: &LoggedInterval) -> Result<String, String> {
        let key = (interval.label.clone(), interval.occurrence);
        let checkpoints = self.checkpoints.get_mut(&key).map_or(&mut [][..], Vec::as_mut_slice);
        let is_free = |checkpoint: &&mut LoggedCheckpoint| {
            checkpoint.sequence < interval.sequence && !checkpoint.taken.contains(&interval.family)
        };
        let checkpoint = checkpoints.iter_mut().filter(is_free).max_by_key(|checkpoint| checkpoint.sequence);
        let Some(checkpoint) = checkpoint else {
            return Err(format!("there is no checkpoint '{}' #{} before it", key.0, key.1));
        };
        checkpoint.taken.push(interval.family.clone());
        let Figures { at_peak, live, allocated, count } = interval.total;
        for (part, own) in [("peak", at_peak), ("live", live), ("allocated", allocated), ("count", count)] {
            let metric = format!("{}.{part}", interval.family);
            if let Some(Some(figure)) = checkpoint.metrics.get(&metric)
                && *figure != own
            {
                let own = grouped(own.into());
                let figure = grouped((*figure).into());
                return Err(format!("{metric} is {own} here and {figure} at the checkpoint"));
            }
        }
        Ok(known_label(&interval.label, checkpoint.has_place).into_owned())
    }
}

/// The live bytes of a family's sites after an interval.
#[derive(Default)]
struct LevelSum {
    sites: FxHashMap<u32, i64>,
    sum: i128,
}

impl LevelSum {
    /// Checks that the sites add up to the interval's figures, and goes on to its end.
    fn check(&mut self, interval: &LoggedInterval, sites: usize, is_sampled: bool) -> Result<(), String> {
        let mut sums = [self.sum, self.sum, 0, 0];
        let mut before = None;
        for &(site, Figures { at_peak, live, allocated, count }) in &interval.sites {
            if site as usize > sites {
                return Err(format!("the log has no site {site}"));
            }
            if before.replace(site) == Some(site) {
                return Err(format!("site {site} is listed twice"));
            }
            let earlier = i128::from(self.sites.insert(site, live).unwrap_or(0));
            sums[0] += i128::from(at_peak) - earlier;
            sums[1] += i128::from(live) - earlier;
            sums[2] += i128::from(allocated);
            sums[3] += i128::from(count);
        }
        self.sum = sums[1];
        let Figures { at_peak, live, allocated, count } = interval.total;
        let names = [("peak", at_peak), ("live", live), ("allocated", allocated), ("count", count)];
        for ((name, figure), sum) in names.into_iter().zip(sums) {
            // What was allocated before recording began, or while a table was full, may have no site.
            let fits = if ["peak", "live"].contains(&name) {
                sum == i128::from(figure)
            } else {
                sum <= i128::from(figure)
            };
            if !fits && !is_sampled {
                let (sum, figure) = (grouped(sum), grouped(figure.into()));
                return Err(format!("the sites have {sum} in `{name}`, which is {figure}"));
            }
        }
        Ok(())
    }
}

fn parsed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, LineError> {
    serde_json::from_slice(bytes)
        .map_err(|error| LineError::Malformed(error.to_string().replace(" at line 1 column ", " at column ")))
}

fn malformed(problem: &str) -> LineError {
    LineError::Malformed(problem.to_owned())
}

fn limit(count: usize, what: &str) -> Result<(), LineError> {
    if count > MOST {
        return Err(malformed(&format!("more than {} {what}", grouped(MOST as i128))));
    }
    Ok(())
}

fn expect_next(first: usize, known: usize, what: &str) -> Result<(), LineError> {
    if first != known + 1 {
        return Err(malformed(&format!("it begins with {what} {first} instead of {}", known + 1)));
    }
    Ok(())
}

/// Takes the bytes at the peak, live and allocated, and the number of allocations.
fn checked(figures: &[i64]) -> Result<Figures, LineError> {
    let [at_peak, live, allocated, count] = figures else { return Err(malformed("four figures are needed")) };
    let is_level = |figure: &i64| (-MOST_OF_FIGURE..=MOST_OF_FIGURE).contains(figure);
    let is_total = |figure: &i64| (0..=MOST_OF_FIGURE).contains(figure);
    if !(is_level(at_peak) && is_level(live) && is_total(allocated) && is_total(count)) {
        return Err(malformed("a figure is out of range"));
    }
    Ok(Figures { at_peak: *at_peak, live: *live, allocated: *allocated, count: *count })
}
